"""Supervise a group of processes: restart each one that dies, until all are stopped."""

import asyncio
import re
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from taskmachine.statemachine import ConfigurationError, TaskmachineError

__all__ = ["Member", "Program", "start_all", "stop_all"]

LOOK_S: Final = 0.05
"""How often to check the log of a process for the line that reports it ready."""

PAUSE_S: Final = 0.5
MAX_PAUSE_S: Final = 30.0
"""Delay before a restart; doubled each time the process dies before it is ready."""

PATIENCE_S: Final = 20.0
"""How long a process may take to stop before it is killed: tools get 5 s, then clean up."""

_REASON: Final = re.compile(r"(?:FATAL|DETAIL|HINT): +(.+)")  # the format of PostgreSQL


@attrs.frozen
class Program:
    """The program that a member of the cluster runs."""

    name: str
    command: Sequence[str]
    ready: str
    """Text in the log line that reports it ready."""
    where: str
    """Its address, or a description."""
    log: Path
    environment: Mapping[str, str]
    user: str | None = None
    """The system user that runs it, if not the current one."""
    stops_by: signal.Signals = signal.SIGTERM


class Member:
    """A supervised process.  `say` reports its restarts."""

    def __init__(self, program: Program, say: Callable[[str], None]) -> None:
        self.program = program
        self._say = say
        self._process: asyncio.subprocess.Process | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._ready = asyncio.Event()

    @property
    def pid(self) -> int:
        """The id of the current or latest process."""
        assert self._process is not None, "it was started"
        return self._process.pid

    async def start(self) -> None:
        """Wait until the process is ready; raise an error with its message if it fails."""
        self._keeping = asyncio.create_task(self._keep(), name=self.program.name)
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait({ready, self._keeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if self._keeping.done():
            self._keeping.result()

    async def stop(self) -> None:
        """Stop the process, by killing it if necessary, and wait for its end."""
        self._stopping.set()
        if self._keeping is None:
            return
        self._signal(self.program.stops_by)
        _, pending = await asyncio.wait({self._keeping}, timeout=PATIENCE_S)
        if pending:
            self._say(f"{self.program.name} did not stop in time; killing it")
            self._signal(signal.SIGKILL)
        await asyncio.gather(self._keeping, return_exceptions=True)  # `start` has raised it

    async def _keep(self) -> None:
        program, pause_s, was_ready = self.program, PAUSE_S, False
        while not self._stopping.is_set():
            with program.log.open("ab") as log:
                begin = log.tell()
                self._process = process = await asyncio.create_subprocess_exec(
                    *program.command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=program.environment,
                    user=program.user,
                    start_new_session=True,  # Ctrl-C must not reach it
                )
            if self._stopping.is_set():
                self._signal(program.stops_by)
            looking = asyncio.create_task(self._look(begin, is_first=not was_ready))
            status = await process.wait()
            looking.cancel()
            if self._stopping.is_set():
                return
            if not (was_ready or self._ready.is_set()):
                raise self._failure(begin, status)
            pause_s = PAUSE_S if self._ready.is_set() else min(2 * pause_s, MAX_PAUSE_S)
            was_ready = True
            self._ready.clear()
            self._say(f"{program.name} (process {process.pid}) {_end(status)}; restarting")
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stopping.wait()

    async def _look(self, begin: int, *, is_first: bool) -> None:
        while self.program.ready not in self._logged(begin):
            await asyncio.sleep(LOOK_S)
        self._ready.set()
        if not is_first:
            self._say(f"{self.program.name} restarted as process {self.pid}")

    def _logged(self, begin: int) -> str:
        with self.program.log.open("rb") as log:
            log.seek(begin)
            return log.read().decode(errors="replace")

    def _failure(self, begin: int, status: int) -> TaskmachineError:
        lines = self._logged(begin).split("\n")
        said = [found[1] for line in lines if (found := _REASON.search(line))]
        if not said:
            said = [line for line in lines if line.strip()][-1:] or [_end(status)]
        reason = "; ".join(said).removeprefix("taskmachine: error: ")
        words = f"{self.program.name} did not start: {reason}"
        return ConfigurationError(words) if status == 2 else TaskmachineError(words)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)


async def start_all(members: Iterable[Member]) -> None:
    """Start all members and wait until they are ready; raise the first error."""
    starting = [asyncio.create_task(member.start()) for member in members]
    try:
        for started in asyncio.as_completed(starting):
            await started
    finally:
        for start in starting:
            start.cancel()
        await asyncio.gather(*starting, return_exceptions=True)


async def stop_all(members: Iterable[Member]) -> None:
    """Stop all members and wait for their ends."""
    await asyncio.gather(*(member.stop() for member in members))


def _end(status: int) -> str:
    if status >= 0:
        return f"exited with status {status}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was killed by {names.get(-status, f'signal {-status}')}"
