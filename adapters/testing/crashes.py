"""A store in memory that outlives its servers, and crashes one at a chosen point."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from difflib import get_close_matches

import attrs

from taskmachine.adapters.stores import Caps
from taskmachine.adapters.stores.followers import Followers
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.statemachine import ConfigurationError, Entry, Event, Task

__all__ = ["CrashPoint", "CrashingStore"]


@attrs.define
class CrashPoint:
    """The commit of the n-th event of a kind, counted from when it was set."""

    event: Event
    left: int

    @classmethod
    def of(cls, event: str, times: int) -> "CrashPoint":
        """Return the crash point; ConfigurationError for an event that the table does not have."""
        try:
            known = Event(event)
        except ValueError:
            near = get_close_matches(str(event), [*Event], n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"use one of {', '.join(Event)}"
            raise ConfigurationError(f"'{event}' is not an event: {hint}") from None
        if times < 1:
            raise ConfigurationError(f"a crash after {times} times of '{event}' is not possible")
        return cls(known, times)


class CrashingStore(MemoryStore):
    """Calls `crash` when the event of `point` is stored; the commit then never returns."""

    def __init__(self, crash: Callable[[], None]) -> None:
        super().__init__(secrets.token_bytes(32))
        self._crash = crash
        self.point: CrashPoint | None = None
        self.events: list[str] = []

    def disconnect(self) -> None:
        """Forget the followers of a server that has crashed."""
        self._followers = Followers()

    async def create(self, task: Task, entries: Sequence[Entry], caps: Caps) -> Task:
        stored = await super().create(task, entries, caps)
        if stored is task:
            await self._committed(entries)
        return stored

    async def commit(self, task: Task, entries: Sequence[Entry], expected: int) -> None:
        await super().commit(task, entries, expected)
        await self._committed(entries)

    async def _committed(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self.events.append(entry.event)
            if self.point is not None and entry.event == self.point.event:
                self.point.left -= 1
        if self.point is not None and self.point.left <= 0:
            self.point = None
            self._crash()
            await asyncio.get_running_loop().create_future()  # its process is dead
