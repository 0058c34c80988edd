"""The shared store of one process with injected faults: delays, errors, unknown outcomes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from taskmachine.adapters.runtime.testing.virtual_loop import Process, VirtualLoop
from taskmachine.adapters.stores import Caps, Follower, KeptSession, StoreError, Totals, Worker
from taskmachine.adapters.stores.followers import Followers
from taskmachine.protocol.sealing import Position
from taskmachine.statemachine import Entry, Event, State, Task
from tests.simulation.disk import Disk
from tests.simulation.faults import Faults

__all__ = ["FaultyStore", "Injected", "Notices"]

_T = TypeVar("_T")


class Injected(StoreError):
    """An injected fault."""


class Notices:
    """Notifies each process of the other processes' commits: late, and perhaps only the last."""

    def __init__(self) -> None:
        self.stores: list[FaultyStore] = []

    def send(self, origin: "FaultyStore | None", task: Task) -> None:
        for store in self.stores:
            if store is not origin:
                store.receive(task)


class FaultyStore:
    """Keeps the store contract except for the injected faults."""

    kind = "memory"

    def __init__(
        self, disk: Disk, notices: Notices, faults: Faults, loop: VirtualLoop, process: Process
    ) -> None:
        self.workers_here: set[str] = set()
        self.is_unavailable = False
        """Whether the store is unavailable for a while."""
        self._disk = disk
        self._store = disk.store
        self._notices = notices
        self._faults = faults
        self._loop = loop
        self._process = process
        self._followers = Followers()
        self._pending: dict[str, list[Task]] = {}
        self._known: dict[str, int] = {}
        notices.stores.append(self)
        process.on_death.append(lambda: notices.stores.remove(self))

    # --- writes ------------------------------------------------------------------------------

    async def create(self, task: Task, entries: Sequence[Entry], caps: Caps) -> Task:
        await self._before()
        stored = await self._disk.create(task, entries, caps)
        if stored.id == task.id:
            await self._answers(task, is_claim=task.worker is not None)
        else:
            await self._after()
        return stored

    async def commit(self, task: Task, entries: Sequence[Entry], expected: int) -> None:
        await self._before()
        await self._disk.commit(self.workers_here, task, entries, expected)
        await self._answers(task, is_claim=any(entry.event is Event.START for entry in entries))

    async def _answers(self, task: Task, *, is_claim: bool = False) -> None:
        """Notify the followers of a commit, unless the process crashes here."""
        faults = self._faults
        in_doubt = faults.happens(faults.doubt, "writes in doubt")
        if in_doubt and is_claim:
            self._disk.doubts.add((task.id, task.fence))
        # After a commit that seems to have failed, a notice may arrive as from another process.
        is_own = not in_doubt or faults.random.random() < 0.5
        self._notices.send(self if is_own else None, task)
        if is_own:
            self._notify(task)
        if faults.happens(faults.crash, "crashes after a commit"):
            await self._crash()
        if in_doubt:
            raise Injected("written, but reported as failed")
        if pause_s := faults.pause_s():
            await asyncio.sleep(pause_s)

    # --- notices -----------------------------------------------------------------------------

    def follow(self, task_id: str, follower: Follower) -> Callable[[], None]:
        if task_id not in self._followers.by_task:
            self._known[task_id] = self._disk.versions.get(task_id, 0)
        return self._followers.add(task_id, follower)

    def _notify(self, task: Task) -> None:
        """Notify the followers unless they had a newer version."""
        if task.version > self._known.get(task.id, 0):
            self._known[task.id] = task.version
            self._followers.notify(task.id, None if task.state is State.REMOVED else task)

    def receive(self, task: Task) -> None:
        """Receive the notice that another process has committed this version."""
        faults = self._faults
        if task.id not in self._followers.by_task:
            return
        if faults.happens(faults.lost_notice, "lost notices"):
            return
        pending = self._pending.setdefault(task.id, [])
        pending.append(task)
        if len(pending) == 1:
            late_s = faults.random.random() * 0.5
            self._loop.call_later(
                late_s, self._notify_pending, task.id, context=self._process.context
            )

    def _notify_pending(self, task_id: str) -> None:
        pending = self._pending.pop(task_id)
        for task in pending if self._faults.random.random() < 0.5 else pending[-1:]:
            self._notify(task)

    # --- everything else ---------------------------------------------------------------------

    async def load(self, task_id: str) -> Task | None:
        task = await self._do(lambda: self._store.load(task_id))
        if self._faults.random.random() < 0.3:  # the answer takes time, too
            await asyncio.sleep(self._faults.random.random() * 0.02)
        return task

    async def page(self, owner: str, after: Position | None, limit: int) -> Sequence[Task]:
        return await self._do(lambda: self._store.page(owner, after, limit))

    async def browse(self, after: Position | None, limit: int) -> Sequence[Task]:
        return await self._do(lambda: self._store.browse(after, limit))

    async def queued(self, now: int, limit: int) -> Sequence[Task]:
        return await self._do(lambda: self._store.queued(now, limit))

    async def due(self, now: int, limit: int) -> Sequence[Task]:
        return await self._do(lambda: self._store.due(now, limit))

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

    async def register_worker(self, worker: Worker) -> None:
        self.workers_here.add(worker.id)
        await self._do(lambda: self._store.register_worker(worker))

    async def beat(self, worker_id: str) -> bool:
        return await self._do(lambda: self._store.beat(worker_id))

    async def remove_worker(self, worker_id: str) -> None:
        await self._do(lambda: self._store.remove_worker(worker_id))

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
        """Keep the shared store."""

    # --- faults ------------------------------------------------------------------------------

    async def _do(self, act: Callable[[], Awaitable[_T]]) -> _T:
        await self._before()
        result = await act()
        await self._after()
        return result

    async def _before(self) -> None:
        faults = self._faults
        if pause_s := faults.pause_s():
            await asyncio.sleep(pause_s)
        if self.is_unavailable and not faults.are_off:
            raise Injected("the store is unavailable")
        if faults.happens(faults.refuse, "refusals"):
            raise Injected("refused")
        if faults.happens(faults.crash / 10, "crashes"):
            await self._crash()

    async def _after(self) -> None:
        faults = self._faults
        if faults.happens(faults.refuse, "answers that were lost"):
            raise Injected("done, but the answer was lost")
        if faults.happens(faults.slow, "slow operations"):
            await asyncio.sleep(faults.random.random())

    async def _crash(self) -> None:
        self._loop.kill(self._process)
        await self._loop.create_future()  # which is never resolved
