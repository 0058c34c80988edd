"""Replicas and workers: processes that the tests kill, stop and restart."""

import asyncio
import contextlib
import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from tests.chaos.postgres import Database
from tests.chaos.proxy import Proxy
from tests.oracle import REPOSITORY
from tests.ports import free_port

__all__ = ["OWNERS", "Engine", "Fleet", "Member"]

Engine = Literal["procrastinate", "local"]

OWNERS: Final = {name: f"{name}-0123456789abcdef0123456789abcdef" for name in ("ann", "bob", "eve")}
"""The callers and their bearer tokens."""

READY: Final = ("taskmachine: serving", "taskmachine: working")
TOOLS: Final = "tests.chaos.tools:TOOLS"
START_S: Final = 60.0
PAUSE_S: Final = 0.5
"""Delay before a process that exited by itself is restarted."""

# Tasks are kept until they are judged, except expired ones, and no limit refuses a call.
_SETTINGS: Final = """
[times]
grace_ms = 5_000
[times.retention_ms]
completed = 86_400_000
failed = 86_400_000
cancelled = 86_400_000
[limits]
page = 10
[limits.caps]
live_of_owner = 100_000
live = 100_000
retained_of_owner = 1_000_000
retained = 1_000_000
[transport]
lookups_per_second = 1_000_000
lookups_burst = 1_000_000
[auth]
kind = "tokens"
tokens = "{tokens}"
"""


class Member:
    """A process of the fleet, which is restarted whenever it ends."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, proxy: Proxy) -> None:
        self.name = name
        self.proxy = proxy
        self.port = 0
        self.is_stopped = False
        self.exits: list[int] = []
        """Exit codes of processes that were not killed."""
        self._command = command
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._is_killed = False
        self._ready = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    async def until_ready(self) -> None:
        await self._ready.wait()

    async def run(self) -> None:
        """Start the process again and again until cancelled."""
        environment = os.environ | {"CHAOS_LOG": str(self._folder / "runs.jsonl")}
        while True:
            self._is_killed = False
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
                cwd=REPOSITORY, env=environment,
            )  # fmt: skip
            try:
                await self._listen(self._process)
                code = await self._process.wait()
            except asyncio.CancelledError:
                self._signal(signal.SIGKILL)
                await self._process.wait()
                raise
            finally:
                self._ready.clear()
                self.is_stopped = False
            if not self._is_killed:
                self.exits.append(code)
                await asyncio.sleep(PAUSE_S)

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        with (self._folder / f"{self.name}.log").open("ab") as log:
            async for line in process.stderr:
                log.write(line)
                log.flush()
                if line.decode(errors="replace").startswith(READY):
                    self._ready.set()

    def kill(self) -> None:
        self._is_killed = True
        self._ready.clear()
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """Pause the process, which does not notice."""
        self.is_stopped = True
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.is_stopped = False
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)


class Fleet:
    """All replicas and workers on one database."""

    def __init__(self, database: Database, folder: Path, engine: Engine) -> None:
        self.replicas: list[Member] = []
        self.workers: list[Member] = []
        self._database = database
        self._folder = folder
        self._engine = engine
        self._running: list[asyncio.Task[None]] = []
        self._config = folder / "server.toml"
        tokens = folder / "tokens.toml"
        tokens.touch(0o600)
        tokens.write_text("".join(f'{name} = "{token}"\n' for name, token in OWNERS.items()))
        self._config.write_text(_SETTINGS.format(tokens=tokens))
        (folder / "runs.jsonl").touch()

    @property
    def members(self) -> list[Member]:
        return [*self.replicas, *self.workers]

    @property
    def exits(self) -> Counter[str]:
        return Counter(
            f"{m.name[:-1]} exited with {code}" for m in self.members for code in m.exits
        )

    async def start(self, replicas: int, workers: int) -> None:
        """Start the processes and wait until all are ready."""
        for number in range(replicas):
            port = free_port()
            where = ["--http", f"127.0.0.1:{port}"]
            engine = [] if self._engine == "local" else ["--engine", self._engine]
            replica = await self._member(f"replica{number}", "serve", *where, *engine)
            replica.port = port
            self.replicas.append(replica)
        for number in range(workers if self._engine != "local" else 0):
            worker = await self._member(f"worker{number}", "worker", "--concurrency", "16")
            self.workers.append(worker)
        self._running = [asyncio.create_task(member.run()) for member in self.members]
        async with asyncio.timeout(START_S):
            await self.all_ready()

    async def _member(self, name: str, command: str, *arguments: str) -> Member:
        proxy = Proxy(self._database.port)
        await proxy.open()
        program = str(Path(sys.executable).with_name("taskmachine"))
        store = self._database.url(proxy.port)
        config = str(self._config)
        line = [program, command, "--store", store, "--tools", TOOLS, "--config", config]
        return Member(name, [*line, *arguments], self._folder, proxy)

    async def all_ready(self) -> None:
        for member in self.members:
            await member.until_ready()

    async def close(self) -> None:
        for running in self._running:
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for member in self.members:
            await member.proxy.close()

    def failures(self) -> list[str]:
        """Return the tracebacks in the logs of all processes."""
        found = []
        for member in self.members:
            log = (self._folder / f"{member.name}.log").read_text(errors="replace")
            if "Traceback" in log:
                where = log.index("Traceback")
                found.append(f"{member.name}: {log[max(0, where - 400) : where + 3_000]}")
        return found
