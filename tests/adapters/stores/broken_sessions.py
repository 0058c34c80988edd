"""Stores with one bug each in how they keep sessions."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from taskmachine.adapters.stores import Caps, KeptSession
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.stores.sqlite.store import SQLiteStore
from taskmachine.statemachine import Entry, LimitExceeded, Task

__all__ = ["BROKEN", "BROKEN_FILES"]


class ConfusesSessions(MemoryStore):
    async def keep_session(self, session: KeptSession, maximum: int) -> None:
        session = attrs.evolve(session, key=session.key.casefold())
        await super().keep_session(session, maximum)

    async def session(self, key: str) -> KeptSession | None:
        return await super().session(key.casefold())


class KeepsTheFirstBody(MemoryStore):
    async def keep_session(self, session: KeptSession, maximum: int) -> None:
        if (before := self._sessions.get(session.key)) is not None:
            session = attrs.evolve(session, body=before.body)
        await super().keep_session(session, maximum)


class ForgetsByTheFirstTime(MemoryStore):
    async def keep_session(self, session: KeptSession, maximum: int) -> None:
        if session.key in self._sessions:
            self._sessions[session.key] = session
        else:
            await super().keep_session(session, maximum)

    async def end_session(self, key: str) -> None:
        if self._sessions.pop(key, None) is not None:
            for when in [when for when in self._sessions_until if when[1] == key]:
                self._sessions_until.remove(when)


class AllowsOneSessionTooMany(MemoryStore):
    async def keep_session(self, session: KeptSession, maximum: int) -> None:
        await super().keep_session(session, maximum + 1)


class RefusesKnownSessions(MemoryStore):
    async def keep_session(self, session: KeptSession, maximum: int) -> None:
        if len(self._sessions) >= maximum:
            raise LimitExceeded(f"{maximum} sessions", 60_000)
        await super().keep_session(session, maximum)


class ChecksSessionsTooSoon(MemoryStore):
    async def keep_session(self, session: KeptSession, maximum: int) -> None:
        if session.key not in self._sessions and len(self._sessions) >= maximum:
            raise LimitExceeded(f"{maximum} sessions", 60_000)
        await asyncio.sleep(0)
        await super().keep_session(session, 10**6)


class EndsNoSession(MemoryStore):
    async def end_session(self, key: str) -> None:
        """Keep expired sessions."""


class MakesRoomForNothing(MemoryStore):
    ends = 0

    async def end_session(self, key: str) -> None:
        self.ends += key not in self._sessions
        await super().end_session(key)

    async def keep_session(self, session: KeptSession, maximum: int) -> None:
        await super().keep_session(session, maximum + self.ends)


class ForgetsSessionsTooSoon(MemoryStore):
    async def forget_sessions(self, now: int, limit: int) -> int:
        return await super().forget_sessions(now + 1, limit)


class ForgetsSessionsTooLate(MemoryStore):
    async def forget_sessions(self, now: int, limit: int) -> int:
        return await super().forget_sessions(now - 1, limit)


class ForgetsSessionsInAnyOrder(MemoryStore):
    async def forget_sessions(self, now: int, limit: int) -> int:
        due = [key for key, session in self._sessions.items() if session.until <= now]
        for key in due[:limit]:
            await self.end_session(key)
        return len(due[:limit])


class ForgetsAllSessionsAtOnce(MemoryStore):
    async def forget_sessions(self, now: int, limit: int) -> int:
        return await super().forget_sessions(now, 10**6)


class CountsSessionsAsTasks(MemoryStore):
    async def create(self, task: Task, entries: Sequence[Entry], caps: Caps) -> Task:
        if len(self._tasks) + len(self._sessions) >= caps.retained:
            raise LimitExceeded("tasks", 60_000)
        return await super().create(task, entries, caps)


class CountsTasksAsSessions(MemoryStore):
    async def keep_session(self, session: KeptSession, maximum: int) -> None:
        await super().keep_session(session, maximum - len(self._tasks))


class KnowsSessionsWhenItIsClosed(MemoryStore):
    async def session(self, key: str) -> KeptSession | None:
        return self._sessions.get(key)


class KeepsSessionsToItself(SQLiteStore):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._own = MemoryStore(b"")

    async def keep_session(self, session: KeptSession, maximum: int) -> None:
        await self._own.keep_session(session, maximum)

    async def session(self, key: str) -> KeptSession | None:
        return await self._own.session(key)

    async def end_session(self, key: str) -> None:
        await self._own.end_session(key)

    async def forget_sessions(self, now: int, limit: int) -> int:
        return await self._own.forget_sessions(now, limit)


class RemembersWhatItRead(SQLiteStore):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._read: dict[str, KeptSession] = {}

    async def session(self, key: str) -> KeptSession | None:
        if key not in self._read:
            session = await super().session(key)
            if session is None:
                return None
            self._read[key] = session
        return self._read[key]


class CountsWhatItKeptItself(SQLiteStore):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._kept: set[str] = set()

    async def keep_session(self, session: KeptSession, maximum: int) -> None:
        if session.key not in self._kept and len(self._kept) >= maximum:
            raise LimitExceeded(f"{maximum} sessions", 60_000)
        self._kept.add(session.key)
        await super().keep_session(session, 10**6)


BROKEN: Final = [
    broken
    for broken in tuple(globals().values())
    if isinstance(broken, type) and issubclass(broken, MemoryStore) and broken is not MemoryStore
]
BROKEN_FILES: Final = [KeepsSessionsToItself, RemembersWhatItRead, CountsWhatItKeptItself]
