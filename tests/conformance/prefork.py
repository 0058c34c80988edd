"""Start servers on stdio without delay, as forks of a process that has loaded everything.

A tester starts dozens of processes in a run, and each would spend most of its time on imports.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.conformance.broken_server import serve_stdio
from tests.conformance.planted import all_bugs
from tests.oracle import REPOSITORY

__all__ = ["prefork_server"]

LAUNCH: Final = Path(__file__).with_name("launch.py")


@contextmanager
def prefork_server(folder: Path) -> Iterator[list[str]]:
    """Yield the beginning of a command: the name of a bug and the path of an error log follow."""
    path = folder / "forks"
    origin = subprocess.Popen(
        [sys.executable, "-m", "tests.conformance.prefork", str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY,
    )  # fmt: skip
    assert origin.stdout is not None
    try:
        assert origin.stdout.readline() == b"ready\n"
        yield [sys.executable, "-I", "-S", str(LAUNCH), str(path)]
    finally:
        origin.communicate()  # it exits at the end of its input


def main(path: str) -> None:
    """Fork for each connection until the input ends."""
    all_bugs()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # their exit status is not read
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(100)
        print("ready", flush=True)
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in ready:
                return
            connection, _ = listener.accept()
            with connection:
                said, descriptors, _, _ = socket.recv_fds(connection, 4_096, 3)
                if os.fork() == 0:
                    listener.close()
                    _become(connection, said.decode().split("\0"), descriptors)
                for descriptor in descriptors:
                    os.close(descriptor)


def _become(connection: socket.socket, arguments: list[str], descriptors: list[int]) -> None:
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    threading.Thread(target=_end_with, args=[connection], daemon=True).start()
    status = 1
    try:
        serve_stdio(*arguments)
        status = 0
    finally:
        connection.send(bytes([status]))
        os._exit(status)


def _end_with(connection: socket.socket) -> None:
    """Exit when the process that represents this one is killed."""
    connection.recv(1)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
