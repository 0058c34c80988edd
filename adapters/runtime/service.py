"""The tasks of all callers: what they may do with them, and what a worker does to them.

Every move goes the same way: load, let the table decide, commit by version, and again from the
start if another writer was first.  Waiting calls, streams and workers follow the task in the store
and act on the duties of the version they see, also of versions that another process committed.
`on_dispatch` tells the engine at once that a task has entered the queue; an engine that was not
told finds it in the store's queue.
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

__all__ = ["Page", "Place", "TaskService"]

log: Final = logging.getLogger("taskmachine")

Clock = Callable[[], int]
"""Milliseconds since the epoch; it may jump."""

_TRIES: Final = 1_000
"""Of one move.  Whoever is refused was overtaken each time, so others got through."""


_MOST_REMEMBERED: Final = 1_000


@attrs.frozen
class Page:
    """Some tasks, newest first, and where the next page begins."""

    tasks: Sequence[Task]
    cursor: str | None


class Place(Protocol):
    """Where the tool of a new task begins as soon as it is stored."""

    worker: str

    def fill(self, task: Task | None) -> None:
        """The task as it was stored, claimed by `worker`; None if nothing came of it."""


class TaskService:
    """Tasks of all owners in one store.  Another owner's task is a task that does not exist."""

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
        self._new_id = new_id
        self._blocked: Counter[str] = Counter()
        self._on_dispatch: list[Callable[[Task], None]] = []
        self._reserve: Callable[[Task], Place | None] = lambda _: None
        self._make_room: Callable[[], Awaitable[int]] = _no_room
        # What was written here last is most likely what is stored, so a move begins with it; if
        # not, the commit says so.  Nobody is ever shown it: readers get what is stored.
        self._last: OrderedDict[str, Task] = OrderedDict()

    def on_dispatch(self, engine: Callable[[Task], None]) -> None:
        """Tell an engine of every job that is committed through this service."""
        self._on_dispatch.append(engine)

    def on_submit(self, reserve: Callable[[Task], Place | None]) -> None:
        """Ask an engine, before a task is stored, whether its tool can begin at once."""
        self._reserve = reserve

    def on_full(self, make_room: Callable[[], Awaitable[int]]) -> None:
        """Ask for room before a create is refused; it returns how many tasks were removed."""
        self._make_room = make_room

    def raised(self, error: BaseException) -> None:
        """Note an unexpected error."""
        if self.observer is not None:
            self.observer.raised(error)

    def dropped(self, count: int = 1) -> None:
        """Note notifications that were dropped for a client that does not read them."""
        if self.observer is not None:
            self.observer.dropped(count)

    # --- what callers do ---------------------------------------------------------------------

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
        task_id: str | None = None,
    ) -> Task:
        """A new task, or the one that this owner has for the same call under the same key.

        Once this returns the task is durable.  `LimitExceeded`; `InvalidParams` for
        a ttl or key that cannot be, or a key that was used for other arguments; `Conflict` for
        a `task_id` that is known.
        """
        if ttl_ms is not None:
            _check_ttl(ttl_ms)
        if call.key is not None and not 0 < len(call.key) <= self.limits.key_chars:
            raise InvalidParams(
                f"an idempotency key must have 1 to {self.limits.key_chars} characters"
            )
        if self.observer is not None and (trace := self.observer.trace(call)) is not None:
            call = attrs.evolve(call, trace=trace)
        step = lifecycle.submit(
            task_id or self._new_id(),
            owner,
            call,
            self.clock(),
            ttl_ms=self.times.ttl(ttl_ms),
            is_ttl_chosen=ttl_ms is not None,
            timeout_ms=self.times.timeout_ms if timeout_ms is None else timeout_ms,
            is_repeatable=is_repeatable,
            poll_interval_ms=poll_interval_ms,
            metadata=metadata,
            questions=questions,
        )
        # A worker that is free takes the task with the write that creates it: one write less.
        place = self._reserve(step.task)
        steps, entries, new = [step], [step.entry], step.task
        if place is not None:
            step = self.start(new, step.entry.at, place.worker)
            steps.append(step)
            entries.append(step.entry)
            new = step.task
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
            if place is not None:
                place.fill(new if stored is not None and stored.id == new.id else None)
        if stored.id == new.id:
            self._remember(new)
            self._committed(None, steps)
        elif decode_json(stored.call.arguments) != decode_json(call.arguments):
            raise InvalidParams("the idempotency key was used for other arguments")
        return stored

    async def get(self, owner: str, task_id: str) -> Task:
        """The task as it is; reading changes nothing."""
        if len(task_id) > self.limits.id_chars:
            raise NotFound(task_id)
        task = await self.store.load(task_id)
        if task is None or task.owner != owner:
            raise NotFound(task_id)
        return task

    async def wait(
        self, owner: str, task_id: str, *, after: int, timeout_s: float | None = None
    ) -> Task:
        """The first version above `after`, or the task as it is when the time is over."""
        return await self._block(owner, task_id, lambda task: task.version > after, timeout_s)

    async def collect(self, owner: str, task_id: str, timeout_s: float | None = None) -> Task:
        """The task once it has ended, however that happens."""
        return await self._block(owner, task_id, lambda task: not task.is_live, timeout_s)

    def waiting(self, owner: str) -> int:
        """How many calls of this owner wait for something."""
        return self._blocked[owner]

    def begin_wait(self, owner: str) -> None:
        """One more call of this owner waits; `LimitExceeded` if there are too many."""
        if self._blocked[owner] >= self.limits.blocked_calls:
            raise LimitExceeded(f"{self.limits.blocked_calls} waiting calls", 1_000)
        self._blocked[owner] += 1

    def end_wait(self, owner: str) -> None:
        """It waits no more."""
        self._blocked[owner] -= 1
        if not self._blocked[owner]:
            del self._blocked[owner]

    async def page(self, owner: str, cursor: str | None = None, limit: int | None = None) -> Page:
        """Some tasks of this owner; `InvalidParams` for a cursor that is not theirs."""
        after = None if cursor is None else self.sealer.open_cursor(owner, cursor)
        size = min(self.limits.page if limit is None else limit, self.limits.max_page)
        if size < 1:
            raise InvalidParams("a page has at least one task")
        tasks = await self.store.page(owner, after, size + 1)
        if len(tasks) <= size:
            return Page(tasks, None)
        last = tasks[size - 1]
        position = Position(last.created_at, last.id)
        return Page(tasks[:size], self.sealer.seal_cursor(owner, position))

    async def perform(
        self, owner: str, operation: Get | Collect | Cancel | Answer | Amend | Advance
    ) -> tuple[Task, Sequence[Step]]:
        """What a request asks of one task: the task afterwards, and the steps that it took."""
        task = await self.get(owner, operation.task_id)  # an owner never changes
        if isinstance(operation, Get | Collect):
            return task, ()
        return await self.move(
            operation.task_id, lambda task, now: decide(operation, task, now, self.times)
        )

    async def cancel(self, owner: str, task_id: str, reason: str | None = None) -> Task:
        """Stop a task; one that has ended stays as it ended."""
        wish = Cancel(task_id) if reason is None else Cancel(task_id, reason)
        return (await self.perform(owner, wish))[0]

    async def history(self, owner: str, task_id: str) -> Sequence[Entry]:
        """What happened to a task, oldest first."""
        await self.get(owner, task_id)
        return await self.store.history(task_id)

    async def _block(
        self, owner: str, task_id: str, is_awaited: Callable[[Task], bool], timeout_s: float | None
    ) -> Task:
        await self.get(owner, task_id)
        self.begin_wait(owner)
        try:
            return await wait_for(self.store, task_id, is_awaited, timeout_s)
        finally:
            self.end_wait(owner)

    # --- what workers do ---------------------------------------------------------------------

    def start(self, task: Task, now: int, worker: str) -> Step:
        """A worker takes a task."""
        return lifecycle.start(task, now, worker=worker, until=self.times.to_work(task, now))

    def is_newest(self, task: Task) -> bool:
        """Whether nobody has moved it since, through this service; if in doubt, False."""
        return self._last.get(task.id) is task

    # --- what everybody does -----------------------------------------------------------------

    async def move(
        self, task_id: str, act: Callable[[Task, int], Sequence[Step]]
    ) -> tuple[Task, Sequence[Step]]:
        """Let `act` decide on the newest version, and commit what it decided, all or nothing.

        `act` is called again with a newer version if another writer was first.
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
                continue  # it may have moved on: look before it is refused
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
        raise LimitExceeded(f"{_TRIES} tries to move one task", 1_000)

    def _remember(self, task: Task) -> None:
        self._last[task.id] = task
        if len(self._last) > _MOST_REMEMBERED:
            self._last.popitem(last=False)

    def _committed(self, before: Task | None, steps: Sequence[Step]) -> None:
        """Tell the log and the observer, and the engine if the task has entered the queue."""
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
        """One structured line for each event: nothing that callers or tools said."""
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


def _check_ttl(ttl_ms: object) -> None:
    if not isinstance(ttl_ms, int) or isinstance(ttl_ms, bool) or ttl_ms < 1:
        raise InvalidParams(f"a ttl must be a positive number of milliseconds, got {ttl_ms!r:.40}")
