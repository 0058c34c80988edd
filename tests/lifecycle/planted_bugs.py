"""The bugs that every store and every wire machine must detect.

Each function plants one bug: STORE_BUGS in a store class, PROCESS_BUGS in the running process. That
is a server whose environment names the bug in LIFECYCLE_BUG (see `wire/tools.py`).
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import attrs
from hypothesis import HealthCheck, Phase, settings

from taskmachine.adapters.engines.local import LocalEngine
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.stores.postgresql.store import PostgreSQLStore
from taskmachine.adapters.stores.sqlite.store import SQLiteStore
from taskmachine.protocol.receiver import Receiver
from taskmachine.statemachine import Entry, Event, Question, Row, State, Task, lifecycle

__all__ = ["PLANTED", "PROCESS_BUGS", "STORES", "STORE_BUGS"]

PLANTED: Final = settings(
    max_examples=100,
    stateful_step_count=30,
    deadline=None,
    database=None,
    derandomize=True,
    report_multiple_bugs=False,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
"""A small, fixed and repeatable run, in which every machine must detect every planted bug."""

STORES: Final[tuple[Any, ...]] = (MemoryStore, SQLiteStore, PostgreSQLStore)

# --- in a store ------------------------------------------------------------------------------


def a_stale_write_moves_an_ended_task(store: Any) -> None:
    """Skip the version check if the stored task has ended."""
    _skip_version_check(store, lambda entries: True)


def a_stale_report_is_stored_after_the_end(store: Any) -> None:
    """The same, for reports of progress only."""
    _skip_version_check(store, lambda entries: entries[-1].event is Event.REPORT)


def _skip_version_check(store: Any, applies: Callable[[Sequence[Entry]], bool]) -> None:
    commit = store.commit

    async def commit_anyway(self: Any, task: Task, entries: Sequence[Entry], expected: int) -> None:
        stored = await self.load(task.id)
        if stored is not None and stored.is_terminal and applies(entries):
            # PostgreSQL has a unique index on the lines of the history: continue their numbers.
            expected = stored.version
            entries = [attrs.evolve(entry, seq=n) for n, entry in enumerate(entries, expected + 1)]
            task = attrs.evolve(task, version=entries[-1].seq)
        await commit(self, task, entries, expected)

    store.commit = commit_anyway


def a_used_key_gets_another_request(store: Any) -> None:
    """Store another request under the first question key when the task is committed again."""
    commit = store.commit

    async def commit_changed(
        self: Any, task: Task, entries: Sequence[Entry], expected: int
    ) -> None:
        stored = await self.load(task.id)
        if stored is not None and stored.questions and task.questions:
            first = attrs.evolve(task.questions[0], params=b'{"message":"Something else?"}')
            task = attrs.evolve(task, questions=(first, *task.questions[1:]))
        await commit(self, task, entries, expected)

    store.commit = commit_changed


def a_page_shows_tasks_of_all_owners(store: Any) -> None:
    """Ignore the owner in `page`."""

    async def page(self: Any, owner: str, after: Any, limit: int) -> Sequence[Task]:
        tasks: Sequence[Task] = await self.browse(after, limit)
        return tasks

    store.page = page


def a_waiter_is_not_woken(store: Any) -> None:
    """Deliver every version to the followers except the last."""
    follow = store.follow

    def follow_until_the_end(self: Any, task_id: str, follower: Any) -> Any:
        def deliver(task: Task | None) -> None:
            if task is None or not task.is_terminal:
                follower(task)

        return follow(self, task_id, deliver)

    store.follow = follow_until_the_end


def a_ttl_deletes_live_work(store: Any) -> None:
    """Give live tasks whose ttl has passed to the sweep that deletes tasks."""
    forgettable = store.forgettable

    async def due(self: Any, now: int, limit: int) -> Sequence[Task]:
        ended = await forgettable(self, now, limit)
        return [*ended, *await self.overdue(now, limit)][:limit]

    store.forgettable = due


def a_task_is_queued_before_its_time(store: Any) -> None:
    """Return queued tasks whatever the time is."""
    queued = store.queued

    async def queued_at_any_time(self: Any, now: int, limit: int) -> Sequence[Task]:
        tasks: Sequence[Task] = await queued(self, FOR_EVER_MS, limit)
        return tasks

    store.queued = queued_at_any_time


def a_task_is_woken_before_its_time(store: Any) -> None:
    """The same for tasks that have become due."""
    due = store.due

    async def due_at_any_time(self: Any, now: int, limit: int) -> Sequence[Task]:
        tasks: Sequence[Task] = await due(self, FOR_EVER_MS, limit)
        return tasks

    store.due = due_at_any_time


FOR_EVER_MS: Final = 2**53


def a_requeue_loses_the_recorded_steps(store: Any) -> None:
    """Leave out the data of what was recorded before the task last entered the queue."""
    history = store.history

    async def history_since_requeue(self: Any, task_id: str) -> Sequence[Entry]:
        entries = await history(self, task_id)
        requeues = [entry.seq for entry in entries if entry.event is Event.REQUEUE]
        last = max(requeues, default=0)
        return [attrs.evolve(entry, data=None) if entry.seq < last else entry for entry in entries]

    store.history = history_since_requeue


STORE_BUGS: Final[dict[str, Callable[[Any], None]]] = {
    bug.__name__: bug
    for bug in (
        a_stale_write_moves_an_ended_task,
        a_stale_report_is_stored_after_the_end,
        a_used_key_gets_another_request,
        a_page_shows_tasks_of_all_owners,
        a_waiter_is_not_woken,
        a_ttl_deletes_live_work,
        a_task_is_queued_before_its_time,
        a_task_is_woken_before_its_time,
        a_requeue_loses_the_recorded_steps,
    )
}

# --- in a server process ---------------------------------------------------------------------


def a_chosen_ttl_deletes_live_work(store: Any) -> None:
    """Delete a live task at once if its client chose a ttl."""
    create = store.create

    async def create_and_delete(self: Any, task: Task, *more: Any) -> Any:
        stored = await create(self, task, *more)

        async def delete() -> None:
            newest = await self.load(task.id)
            removed = attrs.evolve(newest, state=State.REMOVED, version=newest.version + 1)
            await self.commit(removed, (), newest.version)

        if task.is_ttl_chosen:
            self.deletion = asyncio.create_task(delete())
        return stored

    store.create = create_and_delete


def a_list_shows_tasks_of_all_owners() -> None:
    """Ignore the owner in the stores, and in the receiver, which checks it again."""
    _in_every_store(a_page_shows_tasks_of_all_owners)

    def paged(self: Any, id: Any, tasks: Any, cursor: Any = None, *, now: int) -> Any:
        return self._finish(id, self._dialect.page(tasks, cursor, now))

    setattr(Receiver, "paged", paged)  # noqa: B010


def another_request_is_asked_under_a_used_key() -> None:
    """Replace the question instead of raising `KeyReused`."""
    ask = lifecycle.ask

    def replace_and_ask(task: Task, now: int, questions: Sequence[Question], **more: Any) -> Any:
        new = {question.key: question for question in questions}
        kept = [old for old in task.questions if new.get(old.key, old).asks_the_same_as(old)]
        return ask(attrs.evolve(task, questions=tuple(kept)), now, questions, **more)

    setattr(lifecycle, "ask", replace_and_ask)  # noqa: B010


def a_task_starts_before_it_is_due() -> None:
    """Forget the due time of a task that is claimed."""
    start = lifecycle.start

    def start_at_once(task: Task, now: int, **more: Any) -> Any:
        return start(attrs.evolve(task, due_at=None), now, **more)

    setattr(lifecycle, "start", start_at_once)  # noqa: B010


def an_engine_runs_tasks_before_they_are_due() -> None:
    """Neither the engine nor the lifecycle looks at the time."""
    a_task_starts_before_it_is_due()
    dispatch: Any = LocalEngine.dispatch

    def dispatch_at_once(self: LocalEngine, task: Task) -> None:
        dispatch(self, attrs.evolve(task, due_at=None))

    setattr(LocalEngine, "dispatch", dispatch_at_once)  # noqa: B010


def a_lost_worker_records_a_step() -> None:
    """Ignore the fence of a record."""
    record = lifecycle.record

    def record_anyway(task: Task, now: int, data: bytes, **_: Any) -> Any:
        return record(task, now, data)

    setattr(lifecycle, "record", record_anyway)  # noqa: B010


def a_cancellation_moves_an_ended_task() -> None:
    """Not in PROCESS_BUGS: `protocol.operations.decide` ignores such a cancellation before."""
    for state in (State.COMPLETED, State.FAILED, State.CANCELLED):
        _add_row(Row(state, Event.CANCEL, State.CANCELLED))


def a_report_moves_an_ended_task() -> None:
    for state in (State.COMPLETED, State.FAILED, State.CANCELLED):
        _add_row(Row(state, Event.REPORT, State.WORKING))


def a_purge_deletes_live_work() -> None:
    for state in (State.SUBMITTED, State.WORKING, State.INPUT_REQUIRED):
        _add_row(Row(state, Event.PURGE, State.REMOVED))


def _add_row(row: Row) -> None:
    fire = vars(lifecycle)["fire"]

    def fire_more(state: State, event: Event) -> Row:
        found: Row = row if (state, event) == (row.source, row.event) else fire(state, event)
        return found

    setattr(lifecycle, "fire", fire_more)  # noqa: B010


def progress_is_notified_after_the_end() -> None:
    """Send one more progress notification when a task has ended."""
    moved = Receiver.moved

    def move_and_report(self: Any, task: Task, *, now: int) -> Any:
        out = moved(self, task, now=now)
        if task.owner == self._owner and task.is_terminal and task.progress is not None:
            more = attrs.evolve(task.progress, value=task.progress.value + 1)
            late = attrs.evolve(task, state=State.WORKING, progress=more)
            notification = self._dialect.progress(late)
            if notification is not None:
                out.append(self._push(notification, None))
        return out

    setattr(Receiver, "moved", move_and_report)  # noqa: B010


def no_call_is_answered_at_the_end() -> None:
    """Send nothing when a task ends."""
    moved = Receiver.moved

    def move_live_tasks(self: Any, task: Task, *, now: int) -> Any:
        return moved(self, task, now=now) if task.is_live else []

    setattr(Receiver, "moved", move_live_tasks)  # noqa: B010


def _in_every_store(bug: Callable[[Any], None]) -> None:
    for store in STORES:
        bug(store)


PROCESS_BUGS: Final[dict[str, Callable[[], None]]] = {
    bug.__name__: partial(_in_every_store, bug)
    for bug in (
        a_stale_write_moves_an_ended_task,
        a_stale_report_is_stored_after_the_end,
        a_waiter_is_not_woken,
        a_chosen_ttl_deletes_live_work,
        a_requeue_loses_the_recorded_steps,
    )
} | {
    bug.__name__: bug
    for bug in (
        progress_is_notified_after_the_end,
        another_request_is_asked_under_a_used_key,
        a_list_shows_tasks_of_all_owners,
        an_engine_runs_tasks_before_they_are_due,
    )
}
