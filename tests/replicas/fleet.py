"""Replicas as processes on one database, and the workers that run their tasks, if others do."""

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

__all__ = ["PAGE", "PEOPLE", "Engine", "Fleet", "Replica", "at", "sailing"]

Engine = Literal["local", "procrastinate"]

PAGE: Final = 2
PEOPLE: Final = {name: f"the-token-of-{name}-0123456789abcdef" for name in ("alice", "bob")}

_COMMAND: Final = str(Path(sys.executable).with_name("taskmachine"))
_SETTINGS: Final = f"[transport]\nkeep_alive_s = 1\n[limits]\npage = {PAGE}\n"

_Client = TypeVar("_Client", Session, Modern)


class _Process:
    """One of ours.  Whoever needs it waits until it is ready."""

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
        """Where it says that."""
        with self._said:
            self._said.wait_for(
                lambda: re.search(pattern, self.log) or "(the end)" in self.log, PATIENCE_S
            )
        found = re.search(pattern, self.log)
        assert found is not None, f"not '{pattern}', but: {self.log}"
        return found

    def kill(self) -> None:
        """Without any warning."""
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
        """As clients want it, see `Server.connect`."""
        port = int(self.find(r"on http://127\.0\.0\.1:(\d+)/mcp")[1])
        return socket.create_connection(("127.0.0.1", port), PATIENCE_S)


class _Balancer:
    """Every connection goes to the next one."""

    def __init__(self, replicas: list[Replica]) -> None:
        self._next = itertools.cycle(replicas)

    def connect(self, *, is_tiny: bool = False) -> socket.socket:
        return next(self._next).connect(is_tiny=is_tiny)


def at(replica: Replica | _Balancer, client: _Client) -> _Client:
    """The same client; from now on its requests go there."""
    client.server = cast(Server, replica)
    return client


@attrs.frozen
class Fleet:
    """All of them."""

    folder: Path
    url: str
    engine: Engine
    has_tokens: bool
    replicas: list[Replica] = attrs.field(factory=list)
    _names: Iterator[int] = attrs.field(factory=itertools.count)

    @property
    def balancer(self) -> _Balancer:
        """Begins with the first one."""
        return _Balancer(self.replicas)

    def session(self, replica: Replica | _Balancer, who: str = "alice") -> Session:
        """A client of 2025-11-25 that begins its session there."""
        return Session(cast(Server, replica), self._token(who))

    def modern(self, replica: Replica | _Balancer, who: str = "alice", **more: bool) -> Modern:
        """A client of 2026-07-28."""
        return Modern(cast(Server, replica), self._token(who), **more)

    def _token(self, who: str) -> str | None:
        return PEOPLE[who] if self.has_tokens else None

    def new_gate(self) -> Path:
        """A file that a tool waits for, which is not there yet."""
        return self.folder / f"gate-{next(self._names)}"

    @contextmanager
    def one_more(self) -> Iterator[Replica]:
        """A replica that may be killed."""
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
def sailing(folder: Path, url: str, engine: Engine, *, has_tokens: bool) -> Iterator[Fleet]:
    """Three replicas; and two workers, if tasks are not run by the replicas."""
    settings = _SETTINGS
    if has_tokens:
        tokens = folder / "tokens.toml"
        tokens.touch(0o600)
        tokens.write_text("".join(f'{name} = "{token}"\n' for name, token in PEOPLE.items()))
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
