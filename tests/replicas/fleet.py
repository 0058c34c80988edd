"""Replicas as processes on one database, with separate workers if the engine needs them."""

import itertools
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Final, Literal, TypeVar, cast

import attrs

from tests.oracle import REPOSITORY
from tests.wire_faults.clients import Modern, Session
from tests.wire_faults.server_process import PATIENCE_S, TOOLS, Server

__all__ = ["PAGE", "TOKENS", "Engine", "Fleet", "Replica", "at", "running_fleet"]

Engine = Literal["local", "procrastinate"]

PAGE: Final = 2
TOKENS: Final = {name: f"the-token-of-{name}-0123456789abcdef" for name in ("alice", "bob")}

_COMMAND: Final = str(Path(sys.executable).with_name("taskmachine"))
_SETTINGS: Final = f"[transport]\nkeep_alive_s = 1\n[limits]\npage = {PAGE}\n"

_Client = TypeVar("_Client", Session, Modern)


class _Process:
    """A process of the fleet; `find` waits for its log."""

    def __init__(self, *arguments: str) -> None:
        self.log = ""
        self._said = threading.Condition()
        self._process = subprocess.Popen(
            [_COMMAND, *arguments],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=REPOSITORY,
        )  # fmt: skip
        assert self._process.stderr is not None
        self._reading = threading.Thread(target=self._read, args=[self._process.stderr])
        self._reading.start()

    def _read(self, stream: IO[bytes]) -> None:
        for line in stream:
            self._add(line.decode())
        self._add("(the end)")

    def _add(self, words: str) -> None:
        with self._said:
            self.log += words
            self._said.notify_all()

    def find(self, pattern: str) -> re.Match[str]:
        """Wait for a match in the log and return it."""
        with self._said:
            self._said.wait_for(
                lambda: re.search(pattern, self.log) or "(the end)" in self.log, PATIENCE_S
            )
        found = re.search(pattern, self.log)
        assert found is not None, f"no match for '{pattern}' in the log: {self.log}"
        return found

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        self.kill()
        self._reading.join()
        assert self._process.stderr is not None
        self._process.stderr.close()


class Replica(_Process):
    """A server."""

    def connect(self, *, is_tiny: bool = False) -> socket.socket:
        """Open a connection; the clients also accept a `Server`, see `Server.connect`."""
        port = int(self.find(r"on http://127\.0\.0\.1:(\d+)/mcp")[1])
        return socket.create_connection(("127.0.0.1", port), PATIENCE_S)


class _Balancer:
    """Sends each connection to the next replica."""

    def __init__(self, replicas: list[Replica]) -> None:
        self._next = itertools.cycle(replicas)

    def connect(self, *, is_tiny: bool = False) -> socket.socket:
        return next(self._next).connect(is_tiny=is_tiny)


def at(replica: Replica | _Balancer, client: _Client) -> _Client:
    """Send the client's further requests to that replica; return the client."""
    client.server = cast(Server, replica)
    return client


@attrs.frozen
class Fleet:
    """All replicas and workers."""

    folder: Path
    url: str
    engine: Engine
    has_tokens: bool
    replicas: list[Replica] = attrs.field(factory=list)
    _names: Iterator[int] = attrs.field(factory=itertools.count)

    @property
    def balancer(self) -> _Balancer:
        """A new balancer, which begins with the first replica."""
        return _Balancer(self.replicas)

    def session(self, replica: Replica | _Balancer, who: str = "alice") -> Session:
        """Return a client of 2025-11-25 that begins its session at that replica."""
        return Session(cast(Server, replica), self._token(who))

    def modern(self, replica: Replica | _Balancer, who: str = "alice", **more: bool) -> Modern:
        """Return a client of 2026-07-28."""
        return Modern(cast(Server, replica), self._token(who), **more)

    def _token(self, who: str) -> str | None:
        return TOKENS[who] if self.has_tokens else None

    def new_gate(self) -> Path:
        """Return a path for a file that a tool waits for."""
        return self.folder / f"gate-{next(self._names)}"

    @contextmanager
    def one_more(self) -> Iterator[Replica]:
        """Run another replica, which may be killed."""
        replica = Replica(
            "serve", "--http", "127.0.0.1:0", "--engine", self.engine, *self._arguments()
        )
        try:
            yield replica
        finally:
            replica.close()

    @contextmanager
    def worker(self) -> Iterator[None]:
        worker = _Process("worker", "--concurrency", "20", *self._arguments())
        try:
            yield
        finally:
            worker.close()

    def _arguments(self) -> list[str]:
        return [
            "--store", self.url, "--tools", TOOLS, "--config", str(self.folder / "settings.toml"),
        ]  # fmt: skip


@contextmanager
def running_fleet(folder: Path, url: str, engine: Engine, *, has_tokens: bool) -> Iterator[Fleet]:
    """Run three replicas, and two workers unless the replicas run the tasks."""
    settings = _SETTINGS
    if has_tokens:
        tokens = folder / "tokens.toml"
        tokens.touch(0o600)
        tokens.write_text("".join(f'{name} = "{token}"\n' for name, token in TOKENS.items()))
        settings += f'[auth]\nkind = "tokens"\ntokens = "{tokens}"\n'
    (folder / "settings.toml").write_text(settings)
    fleet = Fleet(folder, url, engine, has_tokens)
    with ExitStack() as stack:
        fleet.replicas.extend(stack.enter_context(fleet.one_more()) for _ in range(3))
        for _ in range(0 if engine == "local" else 2):
            stack.enter_context(fleet.worker())
        yield fleet
        for replica in fleet.replicas:
            assert "Traceback" not in replica.log, replica.log
