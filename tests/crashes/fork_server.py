"""A fork server: it imports everything once and forks a process per order, which is fast.

`python -m tests.crashes.fork_server FD` reads messages from a socket.  An order comes with the
ends of two pipes and is answered by the pid of the new process.  A pid is answered by the wait
status of that process; until then the system does not reuse the pid.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

import msgspec

from tests.crashes.victim import Order, run
from tests.oracle import REPOSITORY

__all__ = ["ForkServer"]


class ForkServer:
    """Client of a fork server process."""

    def __init__(self, log: Path) -> None:
        self._socket, remote = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with remote, log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.crashes.fork_server", str(remote.fileno())],
                pass_fds=[remote.fileno()], stderr=stderr, cwd=REPOSITORY,
            )  # fmt: skip

    def fork(self, order: Order) -> tuple[int, int, int]:
        """Start a process; return its pid and our ends of its standard input and output."""
        stdin, our_input = os.pipe()
        our_output, stdout = os.pipe()
        socket.send_fds(self._socket, [msgspec.json.encode(order)], [stdin, stdout])
        os.close(stdin)
        os.close(stdout)
        return int(self._socket.recv(32)), our_input, our_output

    def wait(self, pid: int) -> int:
        """Wait for the end of a process; return its status, as `os.waitpid` does."""
        self._socket.send(str(pid).encode())
        return int(self._socket.recv(32))

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


def serve(client: socket.socket) -> None:
    """Serve orders until the client closes the socket."""
    while True:
        message, pipes, _, _ = socket.recv_fds(client, 4096, 2)
        if not message:
            return
        if message.isdigit():
            client.send(str(os.waitpid(int(message), 0)[1]).encode())
            continue
        pid = os.fork()
        if not pid:
            client.close()
            for descriptor, pipe in enumerate(pipes):
                os.dup2(pipe, descriptor)
                os.close(pipe)
            run(msgspec.json.decode(message, type=Order))
            return
        for pipe in pipes:
            os.close(pipe)
        client.send(str(pid).encode())


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
