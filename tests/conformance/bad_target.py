"""Targets on pipes that are no good: `bad_target.py KIND FILE`; FILE gets the ids of processes."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CHATTER = '{"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": 1}}\n'
LONG_S = 600


def tell(message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def flood(text: str) -> None:
    while True:
        sys.stdout.write(text)


def hello(request: Any, version: str = "2025-11-25") -> None:
    result = {
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "bad", "version": "1"},
    }
    tell({"jsonrpc": "2.0", "id": request["id"], "result": result})


def at_once(kind: str) -> None:
    """What some do without being asked."""
    match kind:
        case "dies":
            sys.exit("ValueError: there is no configuration")
        case "is silent":
            time.sleep(LONG_S)
        case "has a child":
            note(subprocess.Popen(["sleep", str(LONG_S)]).pid)
            time.sleep(LONG_S)
        case "prints":
            print("Welcome!", flush=True)
        case "prints bytes":
            sys.stdout.buffer.write(b"\xff\xfe\x00\n")
            sys.stdout.flush()
        case "floods":
            flood(CHATTER)
        case "floods with text":
            flood("y\n")
        case "floods its log":
            while True:
                sys.stderr.write("y" * 1_000 + "\n")
        case "never ends a line":
            flood("y" * 100_000)
        case "closes its output":
            os.close(1)
            time.sleep(LONG_S)


def when_asked(kind: str, request: Any) -> None:
    """Answer the first request of 2025-11-25 in the other ways."""
    match kind:
        case "is old":
            hello(request, "2024-11-05")
        case "answers with a number":
            tell({"jsonrpc": "2.0", "id": request["id"], "result": 5})
        case "answers with a list":
            tell([{"jsonrpc": "2.0", "id": request["id"], "result": {}}])
        case "refuses":
            error = {"code": -32000, "message": "no\nway \x1b[31m"}
            tell({"jsonrpc": "2.0", "id": request["id"], "error": error})
        case "is huge":
            sys.stdout.write('{"jsonrpc": "2.0", "id": 1, "result": {"text": "')
            for _ in range(100):
                sys.stdout.write("y" * 1_000_000)
            sys.stdout.write('"}}\n')
        case "dies after hello":
            hello(request)
            sys.exit(4)
        case "floods after hello":
            hello(request)
            flood(CHATTER)
        case "is silent after hello":
            hello(request)
            time.sleep(LONG_S)


def note(pid: int) -> None:
    """Record the process ids, so that a test can see that they exited."""
    with Path(sys.argv[2]).open("a") as pids:
        print(pid, file=pids)


if __name__ == "__main__":
    note(os.getpid())
    at_once(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        if request.get("method") == "initialize":
            when_asked(sys.argv[1], request)
        elif "id" in request:
            error = {"code": -32601, "message": "Method not found"}
            tell({"jsonrpc": "2.0", "id": request["id"], "error": error})
