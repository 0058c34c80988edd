"""Processes that belong together: each is started again when it dies, until all are stopped."""

import asyncio
import re
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from taskmachine.statemachine import ConfigurationError, TaskmachineError

__all__ = ["Duty", "Member", "start_all", "stop_all"]

LOOK_S: Final = 0.05
"""How often to look into a log for the line that says that a process is ready."""

PAUSE_S: Final = 0.5
MAX_PAUSE_S: Final = 30.0
"""Before one is started again that died; doubled each time that it did not even get ready."""

PATIENCE_S: Final = 20.0
"""After that whoever was told to stop is killed: tools may go on for 5 s, and clean up then."""

_REASON: Final = re.compile(r"(?:FATAL|DETAIL|HINT): +(.+)")  # as PostgreSQL says it


@attrs.frozen
class Duty:
    """What a member of the cluster runs."""

    name: str
    command: Sequence[str]
    ready: str
    """What is in the line by which it says that it is ready."""
    where: str
    """Where others find it, or what it does there."""
    log: Path
    environment: Mapping[str, str]
    user: str | None = None
    """Who runs it, if not whoever runs us."""
    stops_by: signal.Signals = signal.SIGTERM


class Member:
    """One process, and the next one when it is gone.  `say` tells people what happens to it."""

    def __init__(self, duty: Duty, say: Callable[[str], None]) -> None:
        self.duty = duty
        self._say = say
        self._process: asyncio.subprocess.Process | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._ready = asyncio.Event()

    @property
    def pid(self) -> int:
        """Of the process that is there now, or was there last."""
        assert self._process is not None, "it was started"
        return self._process.pid

    async def start(self) -> None:
        """Back when it is ready; an error with its own words if it never is."""
        self._keeping = asyncio.create_task(self._keep(), name=self.duty.name)
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait({ready, self._keeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if self._keeping.done():
            self._keeping.result()

    async def stop(self) -> None:
        """Back when its process is gone, which may have to be killed for that."""
        self._stopping.set()
        if self._keeping is None:
            return
        self._signal(self.duty.stops_by)
        _, pending = await asyncio.wait({self._keeping}, timeout=PATIENCE_S)
        if pending:
            self._say(f"{self.duty.name} does not stop and is killed")
            self._signal(signal.SIGKILL)
        await asyncio.gather(self._keeping, return_exceptions=True)  # `start` has raised it

    async def _keep(self) -> None:
        duty, pause_s, was_ready = self.duty, PAUSE_S, False
        while not self._stopping.is_set():
            with duty.log.open("ab") as log:
                begin = log.tell()
                self._process = process = await asyncio.create_subprocess_exec(
                    *duty.command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=duty.environment,
                    user=duty.user,
                    start_new_session=True,  # a Ctrl-C is for us: there is an order in which to end
                )
            if self._stopping.is_set():
                self._signal(duty.stops_by)
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
            self._say(f"{duty.name} (process {process.pid}) {_end(status)}: starting it again")
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stopping.wait()

    async def _look(self, begin: int, *, is_first: bool) -> None:
        while self.duty.ready not in self._said(begin):
            await asyncio.sleep(LOOK_S)
        self._ready.set()
        if not is_first:
            self._say(f"{self.duty.name} is process {self.pid} now")

    def _said(self, begin: int) -> str:
        with self.duty.log.open("rb") as log:
            log.seek(begin)
            return log.read().decode(errors="replace")

    def _failure(self, begin: int, status: int) -> TaskmachineError:
        lines = self._said(begin).split("\n")
        said = [found[1] for line in lines if (found := _REASON.search(line))]
        if not said:
            said = [line for line in lines if line.strip()][-1:] or [_end(status)]
        reason = "; ".join(said).removeprefix("taskmachine: error: ")
        words = f"{self.duty.name} did not start: {reason}"
        return ConfigurationError(words) if status == 2 else TaskmachineError(words)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)


async def start_all(members: Iterable[Member]) -> None:
    """Back when all are ready; the first error of any, else."""
    starting = [asyncio.create_task(member.start()) for member in members]
    try:
        for started in asyncio.as_completed(starting):
            await started
    finally:
        for start in starting:
            start.cancel()
        await asyncio.gather(*starting, return_exceptions=True)


async def stop_all(members: Iterable[Member]) -> None:
    """Back when all are gone."""
    await asyncio.gather(*(member.stop() for member in members))


def _end(status: int) -> str:
    if status >= 0:
        return f"left with {status}"
    names = {number.value: number.name for number in signal.Signals}
    return f"was ended by {names.get(-status, f'signal {-status}')}"
