"""A stdio server that forwards everything to the tester; a client starts it as its server.

`python -m taskmachine.adapters.conformance.clients.relay --port N`. Each line to the tester is a
JSON object: `{"line": ...}` (Base64 of a line from standard input), `{"end": true}`, or `{"signal":
15}`. Bytes from the tester go to standard output unchanged.
"""

import argparse
import base64
import json
import os
import select
import signal
import socket
import sys
import threading
from types import FrameType

__all__ = ["main"]

_HOST = "127.0.0.1"


def main(arguments: list[str] | None = None) -> None:
    """Forward until the tester disconnects or the client closes standard input."""
    parser = argparse.ArgumentParser(prog="relay")
    parser.add_argument("--port", type=int, required=True)
    port = parser.parse_args(arguments).port
    tester = socket.create_connection((_HOST, port), timeout=10)
    tester.settimeout(None)

    def told(signum: int, frame: FrameType | None) -> None:
        if _is_at_end():  # end of input came before the signal, but was not read yet
            _report(tester, {"end": True})
        _report(tester, {"signal": signum})
        os._exit(128 + signum)

    signal.signal(signal.SIGTERM, told)
    signal.signal(signal.SIGINT, told)
    # A server may write any log (2025-11-25:stdio-stderr-not-error).
    print("Error? No, this is only a log message.", file=sys.stderr, flush=True)
    threading.Thread(target=_pass_output, args=[tester], daemon=True).start()
    for line in sys.stdin.buffer:
        _report(tester, {"line": base64.b64encode(line).decode()})
    _report(tester, {"end": True})


def _is_at_end() -> bool:
    """Return whether the client has closed standard input; unread lines do not matter any more."""
    while select.select([0], [], [], 0)[0]:
        if not os.read(0, 65_536):
            return True
    return False


def _report(tester: socket.socket, fact: dict[str, object]) -> None:
    try:
        tester.sendall(json.dumps(fact).encode() + b"\n")
    except OSError:
        os._exit(1)


def _pass_output(tester: socket.socket) -> None:
    try:
        while chunk := tester.recv(65_536):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
    except OSError:
        pass
    os._exit(1)  # The tester's end has closed.


if __name__ == "__main__":
    main()
