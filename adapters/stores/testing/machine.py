"""Hypothesis runs random operations on a store and on its model, and compares the answers.

Part of the test kit; see `contract`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from taskmachine.adapters.stores import Caps, KeptSession, Store, Worker
from taskmachine.adapters.stores.testing.model import Model
from taskmachine.protocol.sealing import Position
from taskmachine.statemachine import (
    Call,
    Entry,
    Outcome,
    Progress,
    Question,
    Reply,
    State,
    Task,
    TaskmachineError,
    lifecycle,
)

__all__ = ["NewPlace", "Place", "StoreMachine"]

Place = Callable[[], Awaitable[Store]]
"""Opens the store in one place, again after it was closed."""

NewPlace = Callable[[], Place]
"""Makes an empty place."""

_IDS: Final = ("a", "b", "Z", "a-", "10", "\u00e9")
"""A small number, so that ids are reused after their tasks were deleted."""

_OWNERS: Final = ("alice", "bob", "")
_KEYS: Final = ("s1", "s2", "S1")

_ids = st.sampled_from(_IDS)
_keys = st.sampled_from(_KEYS)
_owners = st.sampled_from(_OWNERS)
_workers = st.sampled_from(["w1", "w2"])
_limits = st.integers(1, 4)
_times = st.integers(0, 60)
_sessions = st.builds(KeptSession, _keys, st.binary(max_size=3), st.integers(0, 3))
_calls = st.builds(
    Call,
    method=st.sampled_from(["tools/call", "sampling/createMessage"]),
    name=st.sampled_from([None, "", "tool"]),
    progress_token=st.none() | st.integers() | st.text(st.characters(codec="utf-8"), max_size=3),
    answers=st.frozensets(st.sampled_from(["elicitation", "sampling"])),
    key=st.sampled_from([None, "k1"]),
    trace=st.just(("00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01", "")),
    not_before=st.none() | _times,
)
_submits = st.builds(
    lifecycle.submit,
    _ids,
    _owners,
    _calls,
    st.integers(0, 3),
    ttl_ms=st.none() | st.integers(0, 50),
)
_caps = st.just(Caps()) | st.builds(
    Caps, st.integers(1, 2), st.integers(1, 4), st.integers(1, 3), st.integers(1, 5)
)

_ANYTIME: Final = ["report", "report twice", "cancel", "expire", "complete"]
_RELEASES: Final = ["requeue", "sleep", "retry"]
# Listed by hand, with weights that cover more: stores do not check the lifecycle.
_MOVES: Final = {
    State.SUBMITTED: [*_ANYTIME, *["start"] * 4],
    State.WORKING: [*_ANYTIME, "record", *_RELEASES, *["ask"] * 4],
    State.INPUT_REQUIRED: [*_ANYTIME, "ask", "answer", "answer", "requeue"],
    State.COMPLETED: ["purge"],
    State.FAILED: ["purge"],
    State.CANCELLED: ["purge"],
}


def _moved(task: Task, move: str, now: int, worker: str) -> tuple[Task, list[Entry]]:
    """Return the next version and its entries: mostly one step, sometimes two."""
    step: lifecycle.Step | None
    match move:
        case "report" | "report twice":
            step = lifecycle.report(task, now, progress=Progress(now), message=f"at {now}")
            if move == "report twice":
                again = lifecycle.report(step.task, now, metadata=b'{"a":1}')
                return again.task, [step.entry, again.entry]
        case "cancel":
            step = lifecycle.cancel(task, now, reason="enough", until=now + 30)
        case "expire":
            step = lifecycle.expire(task, now)
        case "complete":
            step = lifecycle.complete(task, now, Outcome.of_result(b"{}"))
        case "start":
            now = max(now, task.due_at or 0)
            step = lifecycle.start(task, now, worker=worker, until=now + 30)
        case "requeue":
            step = lifecycle.requeue(task, now, lost=True)
        case "sleep":
            step = lifecycle.requeue(task, now, due_at=2 * now, until=2 * now)
        case "retry":
            error, due_at = f"error at {now}", now + 10
            step = lifecycle.requeue(task, now, error=error, message="again", due_at=due_at)
        case "record":
            step = lifecycle.record(task, now, b"\x00result")
        case "ask":
            key = f"q{task.version}"
            step = lifecycle.ask(task, now, [Question(key, "elicitation/create", b"{}")])
        case "answer":
            keys = [question.key for question in task.open_questions]
            step = lifecycle.answer(task, now, dict.fromkeys(keys, Reply(b"{}")))
        case _:
            step = lifecycle.purge(task, now)
    assert step is not None
    return step.task, [step.entry]


class StoreMachine(RuleBasedStateMachine):
    """Compare a store with the model; `persists` if its place can be opened again."""

    def __init__(self, new_place: NewPlace, *, persists: bool) -> None:
        super().__init__()
        self.new_place = new_place
        self.persists = persists
        self.runner = asyncio.Runner()
        self.place = new_place()
        self.store = self.runner.run(_awaited(self.place()))
        self.secret = self.runner.run(self.store.secret())
        self.model = Model()
        self.told: dict[int, list[Task | None]] = {}
        self.leave: dict[int, Callable[[], None]] = {}

    def teardown(self) -> None:
        try:
            self.runner.run(self.store.close())
        finally:
            self.runner.close()

    def both(self, method: str, *arguments: Any) -> None:
        """Call the same method of the model and the store, and compare the results."""
        expected = _outcome(lambda: getattr(self.model, method)(*arguments))
        found = _outcome(lambda: self.runner.run(getattr(self.store, method)(*arguments)))
        assert found == expected, f"{method} answered {found}, not {expected}"

    # --- writing -----------------------------------------------------------------------------

    @initialize(
        step=_submits,
        data=st.data(),
        worker=_workers,
        race=st.booleans(),
        sessions=st.lists(_sessions, max_size=3),
    )
    def begin(
        self,
        step: lifecycle.Step,
        data: st.DataObject,
        worker: str,
        race: bool,
        sessions: list[KeptSession],
    ) -> None:
        """Every run uses a task and sessions: Hypothesis leaves out some rules in each run."""
        self.create(step, Caps())
        for move in ("start", "record", data.draw(st.sampled_from(_RELEASES), "release"), "start"):
            task = self.model.tasks[step.task.id]
            self.both("commit", *_moved(task, move, 1, worker), task.version)
        self.follow_and_move(data, 10, worker, 5, race)
        self.keep_sessions(sessions, 3)
        self.end_sessions(None, 2, 1)

    @rule(step=_submits, caps=_caps)
    def create(self, step: lifecycle.Step, caps: Caps) -> None:
        self.both("create", step.task, [step.entry], caps)

    @rule(
        data=st.data(),
        step=_submits,
        now=_times,
        worker=_workers,
        stale=st.sampled_from([0, 0, 0, 0, 0, -1, 1]),
    )
    def commit(
        self, data: st.DataObject, step: lifecycle.Step, now: int, worker: str, stale: int
    ) -> None:
        task = self.model.tasks.get(step.task.id)
        if task is None:
            self.both("commit", step.task, [step.entry], 0)
            return
        move = data.draw(st.sampled_from(_MOVES[task.state]), "move")
        self.both("commit", *_moved(task, move, now, worker), task.version + stale)

    @precondition(lambda self: self.model.tasks)
    @rule(data=st.data(), now=_times, worker=_workers, moves=st.integers(2, 5), race=st.booleans())
    def follow_and_move(
        self, data: st.DataObject, now: int, worker: str, moves: int, race: bool
    ) -> None:
        """Move one task several times; in a race a second writer moves the same versions."""
        task_id = data.draw(st.sampled_from(sorted(self.model.tasks)), "task")
        self.follow(task_id)
        for _ in range(moves):
            task = self.model.tasks.get(task_id)
            if task is None:
                return
            for _ in range(1 + race):
                move = data.draw(st.sampled_from(_MOVES[task.state]), "move")
                self.both("commit", *_moved(task, move, now, worker), task.version)

    @precondition(lambda self: self.model.tasks)
    @rule(data=st.data(), now=_times)
    def end_and_delete(self, data: st.DataObject, now: int) -> None:
        task = self.model.tasks[data.draw(st.sampled_from(sorted(self.model.tasks)), "task")]
        for move in ("purge",) if task.is_terminal else ("complete", "purge"):
            after, entries = _moved(task, move, now, "")
            self.both("commit", after, entries, task.version)
            task = after

    @rule(data=st.data(), step=_submits, now=_times, worker=_workers)
    def adopt(self, data: st.DataObject, step: lifecycle.Step, now: int, worker: str) -> None:
        move = data.draw(st.sampled_from(_MOVES[State.SUBMITTED]), "move")
        task, entries = _moved(step.task, move, now, worker)
        self.both("adopt", task, [step.entry, *entries])

    # --- reading -----------------------------------------------------------------------------

    @rule(owner=_owners, at=st.none() | st.integers(0, 3), task_id=_ids, limit=_limits)
    def pages(self, owner: str, at: int | None, task_id: str, limit: int) -> None:
        task = self.model.tasks.get(task_id)
        after = None if at is None else Position(task.created_at if task else at, task_id)
        self.both("page", owner, after, limit)
        self.both("browse", after, limit)

    @rule(now=_times, worker=_workers, limit=_limits)
    def due_tasks(self, now: int, worker: str, limit: int) -> None:
        self.both("queued", now, limit)
        self.both("due", now, limit)
        self.both("overdue", now, limit)
        self.both("forgettable", now, limit)
        _are_some_of(
            self.model.held(worker), self.runner.run(self.store.held(worker, limit)), limit
        )
        _are_some_of(self.model.orphans(), self.runner.run(self.store.orphans(limit)), limit)

    @invariant()
    def everything_else_is_unchanged(self) -> None:
        self.runner.run(self._compare())

    async def _compare(self) -> None:
        for task_id in _IDS:
            assert await self.store.load(task_id) == self.model.load(task_id)
            assert [*await self.store.history(task_id)] == self.model.history(task_id)
        assert [*await self.store.browse(None, 100)] == self.model.browse(None, 100)
        for owner in _OWNERS:
            page = await self.store.page(owner, None, 100)
            assert [*page] == self.model.page(owner, None, 100)
        for now in (20, 10**12):
            assert [*await self.store.queued(now, 100)] == self.model.queued(now, 100)
        assert [*await self.store.due(40, 100)] == self.model.due(40, 100)
        assert await self.store.totals() == self.model.totals()
        assert [*await self.store.overdue(100, 100)] == self.model.overdue(100, 100)
        assert [*await self.store.forgettable(100, 100)] == self.model.forgettable(100, 100)
        for worker in ("w1", "w2"):
            _are_some_of(self.model.held(worker), await self.store.held(worker, 100), 100)
        for key in _KEYS:
            assert await self.store.session(key) == self.model.session(key)
        registered = sorted(await self.store.workers(), key=_worker_id)
        assert registered == sorted(self.model.registered.values(), key=_worker_id)

    # --- messages and workers ----------------------------------------------------------------

    @rule(task_id=_ids, message=st.binary(max_size=3), maximum=st.integers(0, 3))
    def enqueue(self, task_id: str, message: bytes, maximum: int) -> None:
        self.both("enqueue", task_id, message, maximum)

    @rule(task_id=_ids, limit=st.integers(0, 3))
    def dequeue(self, task_id: str, limit: int) -> None:
        self.both("dequeue", task_id, limit)

    @rule(
        worker_id=_workers,
        act=st.sampled_from(["register_worker", "beat", "remove_worker"]),
        pid=_limits,
    )
    def work(self, worker_id: str, act: str, pid: int) -> None:
        self.both(act, Worker(worker_id, "here", pid) if act == "register_worker" else worker_id)

    # --- sessions ----------------------------------------------------------------------------

    @rule(sessions=st.lists(_sessions, min_size=1, max_size=3), maximum=st.integers(0, 3))
    def keep_sessions(self, sessions: list[KeptSession], maximum: int) -> None:
        for session in sessions:
            self.both("keep_session", session, maximum)

    @rule(key=st.none() | _keys, now=st.integers(0, 3), limit=st.integers(0, 3))
    def end_sessions(self, key: str | None, now: int, limit: int) -> None:
        if key is None:
            self.both("forget_sessions", now, limit)
        else:
            self.both("end_session", key)

    # --- followers ---------------------------------------------------------------------------

    @rule(task_id=_ids)
    def follow(self, task_id: str) -> None:
        number, told = len(self.told), list[Task | None]()

        async def follow() -> None:  # stores may need a running event loop for it
            self.leave[number] = self.store.follow(task_id, told.append)

        self.runner.run(follow())
        self.told[number] = told
        self.model.follow(number, task_id)

    @rule(data=st.data())
    def unfollow(self, data: st.DataObject) -> None:
        assume(self.leave)
        number = data.draw(st.sampled_from(sorted(self.leave)))
        self.leave.pop(number)()
        self.model.unfollow(number)

    @invariant()
    def followers_receive_every_version(self) -> None:
        assert self.told == self.model.told

    # --- as a whole --------------------------------------------------------------------------

    @precondition(lambda self: self.persists)
    @rule()
    def open_again(self) -> None:
        self.runner.run(self.store.close())
        self.store = self.runner.run(_awaited(self.place()))
        assert self.runner.run(self.store.secret()) == self.secret
        self._forget_followers()

    @precondition(lambda self: self.model.tasks)
    @rule()
    def move_to_another_store(self) -> None:
        """Export everything to another store, and continue with that one."""
        self.runner.run(self._move())
        self.model.messages = {task_id: [] for task_id in self.model.tasks}
        self.model.registered.clear()
        self.model.sessions.clear()
        self._forget_followers()

    def _forget_followers(self) -> None:
        self.leave.clear()
        self.model.following.clear()

    async def _move(self) -> None:
        place = self.new_place()
        copy = await place()
        try:
            async for task, entries in self.store.export():
                await copy.adopt(task, entries)
        finally:
            await self.store.close()
            self.place, self.store = place, copy
        self.secret = await copy.secret()


def _are_some_of(expected: Sequence[Task], found: Sequence[Task], limit: int) -> None:
    """Check that `found` has `limit` of the expected tasks, in any order."""
    assert len(found) == min(limit, len(expected))
    assert all(found.count(task) == 1 and task in expected for task in found)


def _worker_id(worker: Worker) -> str:
    return worker.id


def _outcome(act: Callable[[], Any]) -> Any:
    """Return the result, or the class of the exception raised."""
    try:
        answer = act()
    except TaskmachineError as error:
        return type(error)
    return answer if isinstance(answer, bytes) or not isinstance(answer, Sequence) else [*answer]


async def _awaited(awaitable: Awaitable[Store]) -> Store:
    return await awaitable
