"""A server process that tests kill, limit and inspect."""

import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.oracle import REPOSITORY

__all__ = ["TOKEN", "Server", "eventually", "one_token", "program", "rss_bytes", "serving"]

PATIENCE_S: Final = 30.0
"""Bound for events that are immediate on an idle machine."""

TOOLS: Final = "tests.wire_faults.gated_tools:TOOLS"

TOKEN: Final = "the-only-token-of-these-tests-0123456789"

_PAGE: Final = resource.getpagesize()


def one_token(folder: Path) -> dict[str, str]:
    """Return settings for token authentication with one caller."""
    path = folder / "tokens.toml"
    path.touch(0o600)
    path.write_text(f'caller = "{TOKEN}"\n')
    return {"kind": "tokens", "tokens": str(path)}


def program(*arguments: str) -> list[str]:
    """Return the command line of the server."""
    return [str(Path(sys.executable).with_name("taskmachine")), "serve", *arguments]


def eventually(is_so: Callable[[], Any], what: str, within_s: float = PATIENCE_S) -> Any:
    """Wait until `is_so` returns a true value and return it."""
    deadline = time.monotonic() + within_s
    while not (outcome := is_so()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(0.01)
    return outcome


def rss_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


class Server:
    """A server that can be restarted on the same port and store."""

    def __init__(self, folder: Path, tools: str, settings: Mapping[str, Mapping[str, Any]]) -> None:
        self.folder = folder
        self.log: list[str] = []
        self._tools = tools
        self._port: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._reading: threading.Thread | None = None
        self._config = folder / "server.toml"
        self._config.write_text(_toml(settings))

    @property
    def store(self) -> Path:
        return self.folder / "tasks.db"

    @property
    def port(self) -> int:
        assert self._port is not None, "it was never started"
        return self._port

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it was never started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    def start(self) -> None:
        """Start the process and wait until it accepts connections."""
        command = program(
            "--http", f"127.0.0.1:{self._port or 0}", "--store", f"sqlite:{self.store}",
            "--tools", self._tools, "--config", str(self._config),
        )  # fmt: skip
        seen = len(self.log)
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=REPOSITORY
        )
        # A pipe, not a file: `limit_files` must not stop the log.
        self._reading = threading.Thread(target=self._read, args=[self._process.stderr])
        self._reading.start()
        ready = re.compile(r"serving .* on http://127\.0\.0\.1:(\d+)/mcp")

        def port() -> int | None:
            found = ready.search("\n".join(self.log[seen:]))
            is_gone = found is None and self.process.poll() is not None
            assert not is_gone, f"the server did not start: {self.log[-5:]}"
            return int(found[1]) if found else None

        self._port = eventually(port, "the server listens")

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Stop the process with SIGTERM and return its exit code."""
        self._end(signal.SIGTERM)
        return self.process.returncode

    def _end(self, number: int) -> None:
        if self.is_alive:
            self.process.send_signal(number)
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self._reading is not None
        assert self.process.stderr is not None
        self._reading.join()
        self.process.stderr.close()

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def descriptors(self) -> int:
        """Return the number of open file descriptors."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def clients(self) -> set[int]:
        """Return the client ports of the accepted connections that the server has not closed."""
        ours = f":{self.port:04X}"
        lines = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
        # The ninth field is the inode; 0 means that the socket belongs to no process.
        return {
            int(remote.partition(":")[2], 16)
            for _, local, remote, *rest in lines
            if local.endswith(ours) and rest[6] != "0"
        } - {0}

    def quiet_descriptors(self) -> int:
        """Wait until no client is connected and return the number of open descriptors."""
        eventually(lambda: not self.clients(), "every connection was closed")
        return self.descriptors()

    def rss_bytes(self) -> int:
        return rss_bytes(self.pid)

    def cpu_s(self) -> float:
        """Return the processor time used so far, in the resolution of clock ticks."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def limit_files(self, size: int) -> None:
        """Limit the size to which the process can write files; -1 removes the limit."""
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (size if size >= 0 else hard, hard))

    def connect(self, *, is_tiny: bool = False) -> socket.socket:
        """Open a connection; a tiny one has small buffers on both sides."""
        connection = socket.socket()
        connection.settimeout(PATIENCE_S)
        if is_tiny:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
        try:
            connection.connect(("127.0.0.1", self.port))
        except OSError:
            connection.close()
            raise
        return connection

    def tracebacks(self) -> list[str]:
        """Return the tracebacks in the log, each with the lines around it."""
        return [
            "\n".join(self.log[max(0, at - 2) : at + 30])
            for at, line in enumerate(self.log)
            if "Traceback" in line
        ]

    def _read(self, stream: Any) -> None:
        for line in stream:
            self.log.append(line.decode(errors="replace").rstrip("\n"))


@contextmanager
def serving(folder: Path, *, tools: str = TOOLS, **settings: Mapping[str, Any]) -> Iterator[Server]:
    """Run a server with these tables of settings; it must not log a traceback."""
    server = Server(folder, tools, settings)
    server.start()
    try:
        yield server
        assert server.is_alive, server.log[-20:]
    finally:
        server.kill()  # it would wait for its tools
    assert not server.tracebacks(), server.tracebacks()[0]


def _toml(settings: Mapping[str, Mapping[str, Any]]) -> str:
    lines = []
    for table, values in settings.items():
        lines.append(f"[{table}]")
        for key, value in values.items():
            lines.append(f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}")
    return "\n".join(lines) + "\n"
