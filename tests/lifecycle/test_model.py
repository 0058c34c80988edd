"""Hypothesis fires every event at many tasks, with a clock that may go back.

The model is simpler than the code: a state name for each task, moved by `specs/lifecycle.toml`.
"""

from collections.abc import Callable

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from taskmachine.statemachine import (
    Call,
    Cause,
    Event,
    IllegalTransition,
    KeyReused,
    NotDue,
    Outcome,
    Progress,
    Question,
    Reply,
    StaleFence,
    Task,
    lifecycle,
)
from taskmachine.statemachine.invariants import (
    RUNTIME,
    Asked,
    Created,
    Deferred,
    History,
    Progressed,
    violations,
)
from taskmachine.statemachine.invariants import Event as Happened
from tests import strategies
from tests.lifecycle import planted_bugs
from tests.lifecycle.planted_bugs import PLANTED
from tests.oracle import ILLEGAL, LIFECYCLES, MOVES

ENDED = LIFECYCLES[RUNTIME].terminal
DELAYS_MS = st.integers(0, 60_000)


class ModelMachine(RuleBasedStateMachine):
    """Rules fire events, the invariants are checked after each."""

    task_ids = Bundle("task_ids")

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000_000
        self.tasks: dict[str, Task] = {}
        self.states: dict[str, str] = {}  # the model
        self.ends: dict[str, Task] = {}
        self.due: dict[str, int | None] = {}
        self.records: dict[str, list[bytes]] = {}
        self.history: list[Happened] = []

    # --- one step, compared with the model ---------------------------------------------------

    def fire(self, task_id: str, event: Event, act: Callable[[Task], lifecycle.Step]) -> None:
        before = self.tasks[task_id]
        expected = MOVES[self.states[task_id]][event]
        copy = attrs.evolve(before)
        if expected == ILLEGAL:
            with pytest.raises(IllegalTransition) as error:
                act(before)
            assert (error.value.state, error.value.event) == (before.state, event)
            assert before == copy
            return
        step = act(before)
        assert before == copy
        assert step.entry.event is event
        self.store(task_id, expected, step)

    def store(self, task_id: str, expected: str, step: lifecycle.Step) -> None:
        before, after = self.tasks[task_id], step.task
        assert after.state == expected
        assert after.version == before.version + 1 == step.entry.seq
        assert after.updated_at >= before.updated_at
        assert after.fence >= before.fence
        if before.progress is not None:
            assert after.progress is not None
            assert after.progress.value >= before.progress.value
        self.tasks[task_id], self.states[task_id] = after, expected
        self.history.append(step.entry)
        if step.entry.data is not None:
            self.records.setdefault(task_id, []).append(step.entry.data)
        if after.is_queued and self.due.get(task_id) is not None:
            self.history.append(Deferred(self.now, task_id, self.due[task_id] or 0))
        if after.progress is not None and after.shows_progress:
            self.history.append(Progressed(self.now, "alice", task_id, "2025-11-25"))
        for question in after.questions:
            self.history.append(Asked(self.now, task_id, question.key, question.params))
        if expected in ENDED:
            self.ends[task_id] = after
        self.observe(after)

    def observe(self, task: Task) -> None:
        """Record what clients see of this version; test_generations.py overrides it."""

    # --- the rules ---------------------------------------------------------------------------

    @initialize(target=task_ids, first=strategies.questions, second=strategies.questions)
    def begin(self, first: Question, second: Question) -> str:
        """Every run asks at least twice: Hypothesis leaves out some rules in each run."""
        task_id = str(self.submit(None))
        self.start(task_id, "w1")
        self.ask(task_id, [first])
        self.ask(task_id, [second])
        return task_id

    @rule(ms=st.integers(-5_000, 60_000))
    def pass_time(self, ms: int) -> None:
        self.now = max(0, self.now + ms)

    @rule(
        target=task_ids,
        token=st.none() | st.integers() | strategies.text,
        delay_ms=st.none() | DELAYS_MS,
    )
    def submit(self, token: str | int | None, delay_ms: int | None = None) -> str:
        task_id = f"task-{len(self.tasks)}"
        due_at = self.due[task_id] = None if delay_ms is None else self.now + delay_ms
        call = Call("tools/call", "tool", progress_token=token, not_before=due_at)
        step = lifecycle.submit(task_id, "alice", call, self.now, ttl_ms=60_000)
        self.tasks[task_id] = Task(task_id, "alice", call, self.now, self.now, 60_000)
        self.store(task_id, MOVES["new"]["submit"], step)
        self.history.append(Created(self.now, "alice", task_id))
        return task_id

    @rule(task_id=task_ids, worker=st.sampled_from(["w1", "w2"]))
    def start(self, task_id: str, worker: str) -> None:
        if self.states[task_id] == "submitted" and (self.due.get(task_id) or 0) > self.now:
            with pytest.raises(NotDue):
                lifecycle.start(self.tasks[task_id], self.now, worker=worker)
            return
        self.fire(task_id, Event.START, lambda t: lifecycle.start(t, self.now, worker=worker))
        assert self.states[task_id] != "working" or self.tasks[task_id].due_at is None

    @rule(
        task_id=task_ids,
        progress=st.none() | strategies.progress,
        message=st.none() | strategies.text,
    )
    def report(self, task_id: str, progress: Progress | None, message: str | None) -> None:
        self.fire(
            task_id,
            Event.REPORT,
            lambda t: lifecycle.report(t, self.now, progress=progress, message=message),
        )

    @rule(task_id=task_ids, questions=st.lists(strategies.questions, min_size=1, max_size=3))
    def ask(self, task_id: str, questions: list[Question]) -> None:
        task = self.tasks[task_id]
        requests = {question.key: question for question in reversed(questions)}
        requests |= {question.key: question for question in task.questions}
        if any(not requests[q.key].asks_the_same_as(q) for q in questions):
            with pytest.raises(KeyReused):
                lifecycle.ask(task, self.now, questions)
            return
        if len(requests) == len(task.questions):
            assert lifecycle.ask(task, self.now, questions) is None
            return

        def ask(task: Task) -> lifecycle.Step:
            step = lifecycle.ask(task, self.now, questions)
            assert step is not None
            return step

        self.fire(task_id, Event.ASK, ask)

    @rule(task_id=task_ids, keys=st.sets(st.sampled_from(["name", "city", "age", "plan", "no"])))
    def answer(self, task_id: str, keys: set[str]) -> None:
        task = self.tasks[task_id]
        step = lifecycle.answer(task, self.now, dict.fromkeys(keys, Reply(b"{}")))
        wanted = {question.key for question in task.questions if question.is_open}
        if not keys & wanted:
            assert step is None
            return
        assert step is not None
        if wanted - keys:
            event = Event.ANSWER
        else:
            event = Event.REQUEUE if task.worker is None else Event.RESUME
        assert step.entry.event is event
        if event is Event.REQUEUE:
            self.due[task_id] = None
        self.store(task_id, MOVES[self.states[task_id]][event], step)
        assert step.task.due_at == self.due.get(task_id)

    @rule(task_id=task_ids)
    def withdraw(self, task_id: str) -> None:
        self.fire(task_id, Event.RESUME, lambda t: lifecycle.withdraw(t, self.now))

    @rule(task_id=task_ids, delay_ms=st.none() | DELAYS_MS, error=st.none() | st.just("boom"))
    def requeue(self, task_id: str, delay_ms: int | None, error: str | None) -> None:
        # A task that waits for answers is parked: the last answer requeues it.
        before = self.tasks[task_id]
        event = Event.REPORT if before.open_questions else Event.REQUEUE
        if self.states[task_id] in ("working", "input_required"):
            self.due[task_id] = None if delay_ms is None else self.now + delay_ms
        due_at = self.due.get(task_id)
        self.fire(
            task_id, event, lambda t: lifecycle.requeue(t, self.now, error=error, due_at=due_at)
        )
        after = self.tasks[task_id]
        if after is not before:
            assert after.worker is None
            assert after.due_at == due_at
            assert after.failures == before.failures + (error is not None)
            assert after.error == (error or before.error)

    @rule(task_id=task_ids, data=st.binary(max_size=3))
    def record(self, task_id: str, data: bytes) -> None:
        before = self.tasks[task_id]
        self.fire(task_id, Event.REPORT, lambda t: lifecycle.record(t, self.now, data))
        after = self.tasks[task_id]
        assert after is before or after == before.with_changes(
            version=after.version, recorded=before.recorded + 1
        )

    @rule(task_id=task_ids, back_ms=st.sampled_from([0, 1]))
    def sleep(self, task_id: str, back_ms: int) -> None:
        """Sleep, and let a worker come at the end of the sleep, or just before."""
        self.requeue(task_id, 1_000, None)
        if (due_at := self.due.get(task_id)) is not None:
            self.now = max(self.now, due_at - back_ms)
        self.start(task_id, "w2")

    @rule(task_id=task_ids, outcome=strategies.results())
    def complete(self, task_id: str, outcome: Outcome) -> None:
        self.fire(task_id, Event.COMPLETE, lambda t: lifecycle.complete(t, self.now, outcome))

    @rule(
        task_id=task_ids,
        outcome=strategies.errors
        | st.sampled_from([Cause.TIMED_OUT, Cause.WORKER_LOST]).map(
            lambda cause: Outcome(cause, message=f"The task ended: {cause}.")
        ),
    )
    def fail(self, task_id: str, outcome: Outcome) -> None:
        self.fire(task_id, Event.FAIL, lambda t: lifecycle.fail(t, self.now, outcome))

    @rule(task_id=task_ids)
    def cancel(self, task_id: str) -> None:
        self.fire(task_id, Event.CANCEL, lambda t: lifecycle.cancel(t, self.now, reason="enough"))

    @rule(task_id=task_ids, end=st.sampled_from(["complete", "fail", "cancel", "expire"]))
    def make_progress_and_end(self, task_id: str, end: str) -> None:
        self.report(task_id, Progress(100), None)
        if end == "complete":
            self.complete(task_id, Outcome.of_result(b'{"content":[]}'))
        elif end == "fail":
            self.fail(task_id, Outcome.of_error(-32000, "boom"))
        else:
            getattr(self, end)(task_id)

    @rule(task_id=task_ids)
    def expire(self, task_id: str) -> None:
        self.fire(task_id, Event.EXPIRE, lambda t: lifecycle.expire(t, self.now))

    @rule(task_id=consumes(task_ids))
    def purge(self, task_id: str) -> None:
        self.fire(task_id, Event.PURGE, lambda t: lifecycle.purge(t, self.now))

    @rule(task_id=task_ids, outcome=strategies.results())
    def a_lost_worker_writes_nothing(self, task_id: str, outcome: Outcome) -> None:
        task = self.tasks[task_id]
        writes: tuple[Callable[[], object], ...] = (
            lambda: lifecycle.complete(task, self.now, outcome, fence=task.fence - 1),
            lambda: lifecycle.record(task, self.now, b"{}", fence=task.fence - 1),
            lambda: lifecycle.requeue(task, self.now, due_at=self.now, fence=task.fence - 1),
        )
        for write in writes:
            with pytest.raises(StaleFence):
                write()

    # --- what must always hold ---------------------------------------------------------------

    @invariant()
    def terminal_states_are_sticky(self) -> None:
        for task_id, end in self.ends.items():
            now = self.tasks[task_id]
            assert now == end or self.states[task_id] == "removed"
            kept = (now.outcome, now.questions)
            assert kept == (end.outcome, end.questions)

    @invariant()
    def progress_halts(self) -> None:
        for task_id, end in self.ends.items():
            assert not self.tasks[task_id].shows_progress
            assert self.tasks[task_id].progress == end.progress

    @invariant()
    def only_what_waits_has_open_questions(self) -> None:
        for task_id, task in self.tasks.items():
            assert bool(task.open_questions) == (self.states[task_id] == "input_required")

    @invariant()
    def every_record_is_counted(self) -> None:
        for task_id, task in self.tasks.items():
            assert task.recorded == len(self.records.get(task_id, ()))

    @invariant()
    def the_named_invariants_hold(self) -> None:
        history: History = self.history
        assert violations(history, LIFECYCLES) == []


TestModel = ModelMachine.TestCase

BUGS = [
    planted_bugs.a_cancellation_moves_an_ended_task,
    planted_bugs.a_report_moves_an_ended_task,
    planted_bugs.another_request_is_asked_under_a_used_key,
    planted_bugs.a_purge_deletes_live_work,
    planted_bugs.a_task_starts_before_it_is_due,
    planted_bugs.a_lost_worker_records_a_step,
    # The model has neither lists nor waiters: see test_stores.py and test_dialects.py.
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_detected(
    bug: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ask", "fire", "record", "start"):
        monkeypatch.setattr(lifecycle, name, getattr(lifecycle, name))  # restored afterwards
    bug()
    with pytest.raises((AssertionError, pytest.fail.Exception, IllegalTransition)):
        run_state_machine_as_test(ModelMachine, settings=PLANTED)
