"""Gives life to servers quickly: everything is imported once, and each life is a fork.

`python -m tests.crashes.nursery FD` obeys the messages that come over a socket: with the order of
a life come the ends of its two pipes, and the answer is its pid; a pid alone is of a life that
has ended or is about to, and the answer is how.  Until then nobody else gets that pid.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

import msgspec

from tests.crashes.victim import Order, run
from tests.oracle import REPOSITORY

__all__ = ["Nursery"]


class Nursery:
    """The process, as seen by whoever started it."""

    def __init__(self, log: Path) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.crashes.nursery", str(theirs.fileno())],
                pass_fds=[theirs.fileno()], stderr=stderr, cwd=REPOSITORY,
            )  # fmt: skip

    def bear(self, order: Order) -> tuple[int, int, int]:
        """The pid of a new life, its input, and its output."""
        their_input, our_end = os.pipe()
        output, their_output = os.pipe()
        socket.send_fds(self._socket, [msgspec.json.encode(order)], [their_input, their_output])
        os.close(their_input)
        os.close(their_output)
        return int(self._socket.recv(32)), our_end, output

    def bury(self, pid: int) -> int:
        """How it ended, as `os.waitpid` tells.  After this there is no such process."""
        self._socket.send(str(pid).encode())
        return int(self._socket.recv(32))

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


def obey(desk: socket.socket) -> None:
    """Until nobody is there any more to give orders."""
    while True:
        message, pipes, _, _ = socket.recv_fds(desk, 4096, 2)
        if not message:
            return
        if message.isdigit():
            desk.send(str(os.waitpid(int(message), 0)[1]).encode())
            continue
        pid = os.fork()
        if not pid:
            desk.close()
            for place, pipe in enumerate(pipes):
                os.dup2(pipe, place)
                os.close(pipe)
            run(msgspec.json.decode(message, type=Order))
            return
        for pipe in pipes:
            os.close(pipe)
        desk.send(str(pid).encode())


if __name__ == "__main__":
    obey(socket.socket(fileno=int(sys.argv[1])))
