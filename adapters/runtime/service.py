"""The task service: operations of callers and of workers on the tasks in a store.

Every move takes the same path: load the task, let the table decide, commit if the version is
unchanged, or else start again.  Waiting calls, streams and workers follow the task in the store
and act on the duties of each version that they see, whichever process committed it.  `on_dispatch`
notifies the engine immediately when a task enters the queue; otherwise the engine finds the task
by polling the store's queue.
"""

import logging
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import attrs

from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.observer import Observer
from taskmachine.adapters.runtime.waiting import wait_for
from taskmachine.adapters.stores import Conflict, Store
from taskmachine.protocol.caller import Caller
from taskmachine.protocol.errors import InvalidParams
from taskmachine.protocol.jsonvalue import decode_json
from taskmachine.protocol.operations import (
    Advance,
    Amend,
    Answer,
    Cancel,
    Collect,
    Get,
    decide,
)
from taskmachine.protocol.sealing import Position, Sealer
from taskmachine.protocol.trace_context import trace_id
from taskmachine.statemachine import (
    Call,
    Entry,
    LimitExceeded,
    NotFound,
    Question,
    Task,
    TaskmachineError,
    Times,
    lifecycle,
)
from taskmachine.statemachine.lifecycle import Step

__all__ = ["Page", "Reservation", "TaskService"]

log: Final = logging.getLogger("taskmachine")

Clock = Callable[[], int]
"""Milliseconds since the epoch; it may jump."""

_TRIES: Final = 1_000
"""Attempts of one move.  Each failed attempt means that another writer has succeeded."""


_MOST_REMEMBERED: Final = 1_000


@attrs.frozen
class Page:
    """Some tasks, newest first, and the cursor of the next page."""

    tasks: Sequence[Task]
    cursor: str | None


class Reservation(Protocol):
    """A worker's reservation for a task that is about to be stored."""

    worker: str

    def resolve(self, task: Task | None) -> None:
        """Run the stored task, which `worker` has claimed; None if it was not stored."""


class TaskService:
    """The tasks of all owners in one store.  Tasks of other owners appear not to exist."""

    def __init__(
        self,
        store: Store,
        sealer: Sealer,
        *,
        clock: Clock,
        new_id: Callable[[], str],
        times: Times | None = None,
        limits: Limits | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.times = times or Times()
        self.limits = limits or Limits()
        self.sealer = sealer
        self.observer = observer
        self.new_id = new_id
        self._blocked: Counter[str] = Counter()
        self._on_dispatch: list[Callable[[Task], None]] = []
        self._reserve: Callable[[Task], Reservation | None] = lambda _: None
        self._make_room: Callable[[], Awaitable[int]] = _no_room
        # The last version written here is probably still stored, so a move starts from it; if not,
        # the commit conflicts.  Readers always get the stored version.
        self._last: OrderedDict[str, Task] = OrderedDict()

    def on_dispatch(self, engine: Callable[[Task], None]) -> None:
        """Call `engine` for every task that enters the queue through this service."""
        self._on_dispatch.append(engine)

    def on_submit(self, reserve: Callable[[Task], Reservation | None]) -> None:
        """Call `reserve` before a task is stored, to let a free worker claim it immediately."""
        self._reserve = reserve

    def on_full(self, make_room: Callable[[], Awaitable[int]]) -> None:
        """Call `make_room` before a create is refused; it returns how many tasks it removed."""
        self._make_room = make_room

    def raised(self, error: BaseException) -> None:
        """Report an unexpected error to the observer."""
        if self.observer is not None:
            self.observer.raised(error)

    def dropped(self, count: int = 1) -> None:
        """Report dropped notifications of a client that does not read them."""
        if self.observer is not None:
            self.observer.dropped(count)

    def _lost_notification(self) -> None:
        if self.observer is not None:
            self.observer.lost_notification()

    # --- operations of callers ---------------------------------------------------------------

    async def create(
        self,
        owner: str,
        call: Call,
        *,
        ttl_ms: int | None = None,
        metadata: bytes = b"{}",
        timeout_ms: int | None = None,
        is_repeatable: bool = True,
        poll_interval_ms: int | None = None,
        questions: tuple[Question, ...] = (),
        tool_version: str | None = None,
        task_id: str | None = None,
        caller: Caller | None = None,
    ) -> Task:
        """Create a task, or return the one that this owner has for the same call and key.

        The returned task is durable.  `LimitExceeded` if the store is full, `InvalidParams` for an
        invalid ttl or key or a key used with other arguments, `Conflict` for an existing `task_id`.
        """
        if ttl_ms is not None:
            _check_ttl(ttl_ms)
        if call.key is not None and not 0 < len(call.key) <= self.limits.key_chars:
            raise InvalidParams(
                f"an idempotency key must have 1 to {self.limits.key_chars} characters"
            )
        now, lives_ms = self.clock(), self.times.ttl(ttl_ms)
        if call.not_before is not None and call.not_before > now + lives_ms:
            raise InvalidParams(f"the task may start after its ttl of {lives_ms} ms has passed")
        if self.observer is not None and (trace := self.observer.trace(call)) is not None:
            call = attrs.evolve(call, trace=trace)
        if task_id is None:
            task_id = self.new_id()
        if caller is not None and caller != Caller(owner):
            call = attrs.evolve(call, caller=self.sealer.seal_caller(task_id, caller))
        step = lifecycle.submit(
            task_id,
            owner,
            call,
            now,
            ttl_ms=lives_ms,
            is_ttl_chosen=ttl_ms is not None,
            timeout_ms=self.times.timeout_ms if timeout_ms is None else timeout_ms,
            is_repeatable=is_repeatable,
            poll_interval_ms=poll_interval_ms,
            metadata=metadata,
            questions=questions,
            tool_version=tool_version,
        )
        stored = await self.add([step])
        if stored.id != task_id and not _same_json(stored.call.arguments, call.arguments):
            raise InvalidParams("the idempotency key was already used with other arguments")
        return stored

    async def add(self, steps: list[Step]) -> Task:
        """Store a new task with its first steps, or return the one of the same owner and key.

        A free worker claims it in the same write, which saves one write.
        """
        new = steps[-1].task
        reservation = self._reserve(new)
        if reservation is not None:
            steps.append(self.start(new, steps[-1].entry.at, reservation.worker))
            new = steps[-1].task
        entries = []
        for step in steps:
            entries.append(step.entry)
        stored: Task | None = None
        try:
            try:
                stored = await self.store.create(new, entries, self.limits.caps)
            except LimitExceeded as error:
                if not await self._make_room():
                    if self.observer is not None:
                        self.observer.refused(error)
                    raise
                stored = await self.store.create(new, entries, self.limits.caps)
        finally:
            if reservation is not None:
                is_new = stored is not None and stored.id == new.id
                reservation.resolve(new if is_new else None)
        if stored.id == new.id:
            self._remember(new)
            self._committed(None, steps)
        return stored

    async def get(self, owner: str, task_id: str) -> Task:
        """Return the stored task, or raise `NotFound`."""
        if len(task_id) > self.limits.id_chars:
            raise NotFound(task_id)
        task = await self.store.load(task_id)
        if task is None or task.owner != owner:
            raise NotFound(task_id)
        return task

    async def wait(
        self, owner: str, task_id: str, *, after: int, timeout_s: float | None = None
    ) -> Task:
        """Return the first version above `after`, or the latest one after `timeout_s`."""
        return await self._block(owner, task_id, lambda task: task.version > after, timeout_s)

    async def collect(self, owner: str, task_id: str, timeout_s: float | None = None) -> Task:
        """Return the task once it has ended, or its latest version after `timeout_s`."""
        return await self._block(owner, task_id, lambda task: not task.is_live, timeout_s)

    def waiting(self, owner: str) -> int:
        """Return the number of waiting calls of this owner."""
        return self._blocked[owner]

    def begin_wait(self, owner: str) -> None:
        """Count a waiting call of this owner; `LimitExceeded` if there are too many."""
        if self._blocked[owner] >= self.limits.blocked_calls:
            raise LimitExceeded(f"{self.limits.blocked_calls} waiting calls", 1_000)
        self._blocked[owner] += 1

    def end_wait(self, owner: str) -> None:
        """Count a call of this owner as no longer waiting."""
        self._blocked[owner] -= 1
        if not self._blocked[owner]:
            del self._blocked[owner]

    async def page(self, owner: str, cursor: str | None = None, limit: int | None = None) -> Page:
        """Return a page of this owner's tasks; `InvalidParams` for an invalid cursor or limit."""
        after = None if cursor is None else self.sealer.open_cursor(owner, cursor)
        size = min(self.limits.page if limit is None else limit, self.limits.max_page)
        if size < 1:
            raise InvalidParams("limit must be at least 1")
        tasks = await self.store.page(owner, after, size + 1)
        if len(tasks) <= size:
            return Page(tasks, None)
        last = tasks[size - 1]
        position = Position(last.created_at, last.id)
        return Page(tasks[:size], self.sealer.seal_cursor(owner, position))

    async def perform(
        self, owner: str, operation: Get | Collect | Cancel | Answer | Amend | Advance
    ) -> tuple[Task, Sequence[Step]]:
        """Perform an operation on a task; return the task afterwards and the committed steps."""
        task = await self.get(owner, operation.task_id)  # an owner never changes
        if isinstance(operation, Get | Collect):
            return task, ()
        return await self.move(
            operation.task_id, lambda task, now: decide(operation, task, now, self.times)
        )

    async def cancel(self, owner: str, task_id: str, reason: str | None = None) -> Task:
        """Cancel a task; a finished task stays unchanged."""
        wish = Cancel(task_id) if reason is None else Cancel(task_id, reason)
        return (await self.perform(owner, wish))[0]

    async def history(self, owner: str, task_id: str) -> Sequence[Entry]:
        """Return the history of a task, oldest entry first."""
        await self.get(owner, task_id)
        return await self.store.history(task_id)

    async def _block(
        self, owner: str, task_id: str, is_awaited: Callable[[Task], bool], timeout_s: float | None
    ) -> Task:
        await self.get(owner, task_id)
        self.begin_wait(owner)
        try:
            return await self.until(task_id, is_awaited, timeout_s)
        finally:
            self.end_wait(owner)

    # --- operations of workers ---------------------------------------------------------------

    def start(self, task: Task, now: int, worker: str) -> Step:
        """Return the step by which a worker claims a task."""
        return lifecycle.start(task, now, worker=worker, until=self.times.to_work(task, now))

    def caller(self, task: Task) -> Caller:
        """Return the caller who created a task; ConfigurationError if it cannot be decrypted."""
        sealed = task.call.caller
        if sealed is None:
            return Caller(task.owner)
        return self.sealer.open_caller(task.id, task.owner, sealed)

    def is_newest(self, task: Task) -> bool:
        """Return True if this is the last version that this service wrote; False if unknown."""
        return self._last.get(task.id) is task

    # --- shared ------------------------------------------------------------------------------

    async def until(
        self, task_id: str, is_awaited: Callable[[Task], bool], timeout_s: float | None = None
    ) -> Task:
        """Call `wait_for`, and report lost notifications to the observer."""
        return await wait_for(self.store, task_id, is_awaited, timeout_s, self._lost_notification)

    async def move(
        self, task_id: str, act: Callable[[Task, int], Sequence[Step]]
    ) -> tuple[Task, Sequence[Step]]:
        """Commit the steps that `act` returns for the newest version, all or nothing.

        If another writer commits first, `act` is called again with the newer version.
        """
        for _ in range(_TRIES):
            guess = self._last.pop(task_id, None)
            task = guess or await self.store.load(task_id)
            if task is None:
                raise NotFound(task_id)
            try:
                steps = act(task, self.clock())
            except TaskmachineError as error:
                if guess is None:
                    if self.observer is not None:
                        self.observer.refused(error)
                    raise
                continue  # the cached version may be outdated: retry with the stored one
            if not steps:
                if guess is None:
                    return task, ()
                continue
            after, entries = steps[-1].task, []
            for step in steps:
                entries.append(step.entry)
            try:
                await self.store.commit(after, entries, task.version)
            except Conflict:
                continue
            if after.is_live:
                self._remember(after)
            self._committed(task, steps)
            return after, steps
        raise LimitExceeded(f"{_TRIES} attempts to update one task", 1_000)

    def _remember(self, task: Task) -> None:
        self._last[task.id] = task
        if len(self._last) > _MOST_REMEMBERED:
            self._last.popitem(last=False)

    def _committed(self, before: Task | None, steps: Sequence[Step]) -> None:
        """Report steps to log and observer, and to engines if the task entered the queue."""
        if self.observer is not None:
            self.observer.committed(steps)
        if log.isEnabledFor(logging.INFO):
            for step in steps:
                self._log(step)
        after = steps[-1].task
        if after.is_queued and (before is None or not before.is_queued):
            for engine in self._on_dispatch:
                engine(after)

    def _log(self, step: Step) -> None:
        """Log one structured line, without any content from callers or tools."""
        task, entry = step.task, step.entry
        facts = {
            "event": entry.event.value,
            "task": task.id,
            "owner": self.sealer.alias(task.owner),
            "from": entry.source.value,
            "to": entry.dest.value,
            "tool": task.call.name,
            "version": task.version,
            "age_ms": entry.at - task.created_at,
            "trace": None if task.call.trace is None else trace_id(task.call.trace),
        }
        log.info("task %s: %s, now %s", task.id, entry.event, entry.dest, extra=facts)


async def _no_room() -> int:
    return 0


def _same_json(one: bytes, other: bytes) -> bool:
    return one == other or decode_json(one) == decode_json(other)


def _check_ttl(ttl_ms: object) -> None:
    if not isinstance(ttl_ms, int) or isinstance(ttl_ms, bool) or ttl_ms < 1:
        raise InvalidParams(f"a ttl must be a positive number of milliseconds, got {ttl_ms!r:.40}")
