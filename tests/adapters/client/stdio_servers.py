"""Servers over stdio that tests start, each with one peculiarity."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.adapters.client.scripted import DISCOVERED, DONE, INITIALIZED, TOOL, Json, shown_2025

TASK = {"io.modelcontextprotocol/related-task": {"taskId": "t-1"}}


def say(message: Json) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def refuse(message: Json) -> None:
    error = {"code": -32602, "message": "Invalid request parameters"}
    say({"id": message["id"], "error": error})


def serve(call: Callable[[Json], None], discover: Callable[[Json], None] | None = None) -> None:
    """Serve 2025-11-25 until the end of the input."""
    for line in sys.stdin:
        message: dict[str, Any] = json.loads(line)
        match message.get("method"):
            case "server/discover":
                (discover or refuse)(message)
            case "initialize":
                say({"id": message["id"], "result": INITIALIZED})
            case "tools/list":
                tool = {**TOOL, "execution": {"taskSupport": "optional"}}
                say({"id": message["id"], "result": {"tools": [tool]}})
            case "notifications/initialized":
                pass
            case _:
                call(message)


def done(message: Json) -> None:
    match message["method"]:
        case "tools/call":
            say({"id": message["id"], "result": {"task": shown_2025()}})
        case "tasks/get":
            say({"id": message["id"], "result": shown_2025("completed")})
        case "tasks/result":
            say({"id": message["id"], "result": {**DONE, "_meta": TASK}})


def noisy(message: Json) -> None:
    print("a debugging aid that somebody forgot\n", flush=True)
    done(message)


def broken(message: Json) -> None:
    sys.stdout.write(f'{{"jsonrpc": "2.0", "id": {message["id"]}, "result": 7}}\n')
    sys.stdout.flush()


def dying(message: Json) -> None:
    sys.exit(7)


def closing(message: Json) -> None:
    os.close(1)
    time.sleep(60)


def endless(message: Json) -> None:
    chunk = "x" * (1024 * 1024)
    while True:
        sys.stdout.write(chunk)


def orphaning(message: Json) -> None:
    """Leave a child process that holds the pipes, and report its id."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    text = {"content": [{"type": "text", "text": str(child.pid)}]}
    say({"id": message["id"], "result": text})


def immortal(message: Json) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say({"id": message["id"], "result": {"content": [{"type": "text", "text": str(os.getpid())}]}})


def nothing(message: Json) -> None:
    pass


def slow_to_start() -> None:
    """Serve 2026-07-28, ignoring the first request."""
    sys.stdin.readline()
    for line in sys.stdin:
        message = json.loads(line)
        if message["method"] == "server/discover":
            say({"id": message["id"], "result": DISCOVERED})
        else:
            say({"id": message["id"], "error": {"code": -32601, "message": "Method not found"}})


if __name__ == "__main__":
    what = sys.argv[1]
    if what == "silent-probe":
        serve(done, discover=nothing)
    elif what == "slow-to-start":
        slow_to_start()
    elif what == "deaf":
        time.sleep(600)
    else:
        serve(globals()[what])
        if what == "immortal":
            time.sleep(600)
