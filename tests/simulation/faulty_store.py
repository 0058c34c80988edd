"""The shared disk as one process sees it: slow, at times refusing, at times in doubt."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from taskmachine.adapters.runtime.testing.virtual_loop import Process, VirtualLoop
from taskmachine.adapters.stores import Caps, Follower, KeptSession, StoreError, Totals, Worker
from taskmachine.adapters.stores.followers import Followers
from taskmachine.protocol.sealing import Position
from taskmachine.statemachine import Entry, Event, State, Task
from tests.simulation.disk import Disk
from tests.simulation.weather import Weather

__all__ = ["FaultyStore", "Injected", "Wire"]

_T = TypeVar("_T")


class Injected(StoreError):
    """A fault that the weather brought."""


class Wire:
    """Tells each process what the others have committed: late, and perhaps only the last."""

    def __init__(self) -> None:
        self.stores: list[FaultyStore] = []

    def tell(self, origin: "FaultyStore | None", task: Task) -> None:
        for store in self.stores:
            if store is not origin:
                store.hear(task)


class FaultyStore:
    """Keeps the contract as far as the weather lets it."""

    kind = "memory"

    def __init__(
        self, disk: Disk, wire: Wire, weather: Weather, loop: VirtualLoop, process: Process
    ) -> None:
        self.workers_here: set[str] = set()
        self.is_out = False
        """Whether nothing works at all, for a while."""
        self._disk = disk
        self._store = disk.store
        self._wire = wire
        self._weather = weather
        self._loop = loop
        self._process = process
        self._followers = Followers()
        self._news: dict[str, list[Task]] = {}
        self._known: dict[str, int] = {}
        wire.stores.append(self)
        process.on_death.append(lambda: wire.stores.remove(self))

    # --- writes ------------------------------------------------------------------------------

    async def create(self, task: Task, entries: Sequence[Entry], caps: Caps) -> Task:
        await self._before()
        stored = await self._disk.create(task, entries, caps)
        if stored.id == task.id:
            await self._told(task, is_claim=task.worker is not None)
        else:
            await self._after()
        return stored

    async def commit(self, task: Task, entries: Sequence[Entry], expected: int) -> None:
        await self._before()
        await self._disk.commit(self.workers_here, task, entries, expected)
        await self._told(task, is_claim=any(entry.event is Event.START for entry in entries))

    async def _told(self, task: Task, *, is_claim: bool = False) -> None:
        """It is committed: tell everybody, unless this is where the process dies."""
        weather = self._weather
        in_doubt = weather.happens(weather.doubt, "writes in doubt")
        if in_doubt and is_claim:
            self._disk.doubts.add((task.id, task.fence))
        # Of what failed by its own account the watch for others' commits may be the first to know.
        is_own = not in_doubt or weather.random.random() < 0.5
        self._wire.tell(self if is_own else None, task)
        if is_own:
            self._tell(task)
        if weather.happens(weather.crash, "crashes after a commit"):
            await self._crash()
        if in_doubt:
            raise Injected("written, but who knows")
        if pause_s := weather.pause_s():
            await asyncio.sleep(pause_s)

    # --- being told --------------------------------------------------------------------------

    def follow(self, task_id: str, follower: Follower) -> Callable[[], None]:
        if task_id not in self._followers.by_task:
            self._known[task_id] = self._disk.versions.get(task_id, 0)
        return self._followers.add(task_id, follower)

    def _tell(self, task: Task) -> None:
        """Nobody is told an older version after a newer one."""
        if task.version > self._known.get(task.id, 0):
            self._known[task.id] = task.version
            self._followers.notify(task.id, None if task.state is State.REMOVED else task)

    def hear(self, task: Task) -> None:
        """Another process has committed this."""
        weather = self._weather
        if task.id not in self._followers.by_task:
            return
        if weather.happens(weather.lost_notice, "lost notices"):
            return
        news = self._news.setdefault(task.id, [])
        news.append(task)
        if len(news) == 1:
            late_s = weather.random.random() * 0.5
            self._loop.call_later(late_s, self._tell_news, task.id, context=self._process.context)

    def _tell_news(self, task_id: str) -> None:
        news = self._news.pop(task_id)
        for task in news if self._weather.random.random() < 0.5 else news[-1:]:
            self._tell(task)

    # --- everything else ---------------------------------------------------------------------

    async def load(self, task_id: str) -> Task | None:
        task = await self._do(lambda: self._store.load(task_id))
        if self._weather.random.random() < 0.3:  # an answer takes its time, too
            await asyncio.sleep(self._weather.random.random() * 0.02)
        return task

    async def page(self, owner: str, after: Position | None, limit: int) -> Sequence[Task]:
        return await self._do(lambda: self._store.page(owner, after, limit))

    async def browse(self, after: Position | None, limit: int) -> Sequence[Task]:
        return await self._do(lambda: self._store.browse(after, limit))

    async def queued(self, limit: int) -> Sequence[Task]:
        return await self._do(lambda: self._store.queued(limit))

    async def held(self, worker: str, limit: int) -> Sequence[Task]:
        return await self._do(lambda: self._store.held(worker, limit))

    async def orphans(self, limit: int) -> Sequence[Task]:
        return await self._do(lambda: self._store.orphans(limit))

    async def overdue(self, now: int, limit: int) -> Sequence[Task]:
        return await self._do(lambda: self._store.overdue(now, limit))

    async def forgettable(self, now: int, limit: int) -> Sequence[Task]:
        return await self._do(lambda: self._store.forgettable(now, limit))

    async def totals(self) -> Totals:
        return await self._do(self._store.totals)

    async def history(self, task_id: str) -> Sequence[Entry]:
        return await self._do(lambda: self._store.history(task_id))

    async def enlist(self, worker: Worker) -> None:
        self.workers_here.add(worker.id)
        await self._do(lambda: self._store.enlist(worker))

    async def beat(self, worker_id: str) -> bool:
        return await self._do(lambda: self._store.beat(worker_id))

    async def strike(self, worker_id: str) -> None:
        await self._do(lambda: self._store.strike(worker_id))

    async def workers(self) -> Sequence[Worker]:
        return await self._do(self._store.workers)

    async def enqueue(self, task_id: str, message: bytes, maximum: int) -> int:
        return await self._do(lambda: self._store.enqueue(task_id, message, maximum))

    async def dequeue(self, task_id: str, limit: int) -> Sequence[bytes]:
        return await self._do(lambda: self._store.dequeue(task_id, limit))

    async def keep_session(self, session: KeptSession, maximum: int) -> None:
        await self._do(lambda: self._store.keep_session(session, maximum))

    async def session(self, key: str) -> KeptSession | None:
        return await self._do(lambda: self._store.session(key))

    async def end_session(self, key: str) -> None:
        await self._do(lambda: self._store.end_session(key))

    async def forget_sessions(self, now: int, limit: int) -> int:
        return await self._do(lambda: self._store.forget_sessions(now, limit))

    async def secret(self) -> bytes:
        return await self._do(self._store.secret)

    async def adopt_secret(self, secret: bytes) -> None:
        await self._do(lambda: self._store.adopt_secret(secret))

    def export(self) -> AsyncIterator[tuple[Task, Sequence[Entry]]]:
        return self._store.export()

    async def adopt(self, task: Task, entries: Sequence[Entry]) -> None:
        await self._do(lambda: self._store.adopt(task, entries))

    async def close(self) -> None:
        """The disk stays."""

    # --- faults ------------------------------------------------------------------------------

    async def _do(self, act: Callable[[], Awaitable[_T]]) -> _T:
        await self._before()
        result = await act()
        await self._after()
        return result

    async def _before(self) -> None:
        weather = self._weather
        if pause_s := weather.pause_s():
            await asyncio.sleep(pause_s)
        if self.is_out and not weather.is_clear:
            raise Injected("the store is out of reach")
        if weather.happens(weather.refuse, "refusals"):
            raise Injected("refused")
        if weather.happens(weather.crash / 10, "crashes"):
            await self._crash()

    async def _after(self) -> None:
        weather = self._weather
        if weather.happens(weather.refuse, "answers that were lost"):
            raise Injected("done, but the answer was lost")
        if weather.happens(weather.slow, "slow operations"):
            await asyncio.sleep(weather.random.random())

    async def _crash(self) -> None:
        self._loop.kill(self._process)
        await self._loop.create_future()  # which nobody will ever resolve
