"""Small things that no other test would miss: found by mutants of `statemachine`."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from taskmachine.statemachine import (
    Call,
    Cause,
    Event,
    IllegalTransition,
    KeyReused,
    LimitExceeded,
    NotFound,
    Outcome,
    Progress,
    Question,
    Reply,
    StaleFence,
    State,
    Task,
    TaskmachineError,
    lifecycle,
)
from taskmachine.statemachine.invariants import (
    Answered,
    Asked,
    Called,
    History,
    Saw,
    Violation,
    violations,
)
from tests.oracle import LIFECYCLES, MOVES

G1 = "2025-11-25"
NAME = Question("name", "elicitation/create", b'{"message":"Your name?"}')
CITY = Question("city", "elicitation/create", b'{"message":"Your city?"}')


def submitted(now: int = 1000) -> Task:
    call = Call("tools/call", "greet")
    return lifecycle.submit("t1", "alice", call, now, ttl_ms=60_000).task


def working() -> Task:
    return lifecycle.start(submitted(), 1000, worker="w1").task


def waiting(*questions: Question) -> Task:
    step = lifecycle.ask(working(), 1000, questions or (NAME,))
    assert step is not None
    return step.task


def answered(task: Task, **answers: bytes) -> lifecycle.Step:
    step = lifecycle.answer(task, 2000, {key: Reply(body) for key, body in answers.items()})
    assert step is not None
    return step


def ended() -> Task:
    return lifecycle.complete(working(), 2000, Outcome.of_result(b"{}")).task


def test_a_new_task_keeps_what_it_was_created_with() -> None:
    call = Call("tools/call", "greet", b'{"a":1}', progress_token=7)
    task = lifecycle.submit("t1", "alice", call, 1000, ttl_ms=5, metadata=b'{"b":2}').task
    assert (task.id, task.owner, task.call, task.ttl_ms) == ("t1", "alice", call, 5)
    assert task.metadata == b'{"b":2}'
    assert submitted().metadata == b"{}"


@pytest.mark.parametrize(
    ("event", "move"),
    [
        ("start", lambda: (submitted(), lifecycle.start(submitted(), 2000, worker="w1"))),
        ("report", lambda: (working(), lifecycle.report(working(), 2000, message="busy"))),
        ("ask", lambda: (working(), lifecycle.ask(working(), 2000, [NAME]))),
        ("answer", lambda: (waiting(NAME, CITY), answered(waiting(NAME, CITY), name=b"1"))),
        ("resume", lambda: (waiting(), answered(waiting(), name=b"1"))),
        pytest.param(
            "resume",
            lambda: (waiting(), lifecycle.withdraw(waiting(), 2000)),
            id="resume by withdrawal",
        ),
        ("requeue", lambda: (working(), lifecycle.requeue(working(), 2000))),
        (
            "complete",
            lambda: (working(), lifecycle.complete(working(), 2000, Outcome.of_result(b"{}"))),
        ),
        (
            "fail",
            lambda: (waiting(), lifecycle.fail(waiting(), 2000, Outcome.of_error(1, "x"))),
        ),
        ("cancel", lambda: (waiting(), lifecycle.cancel(waiting(), 2000, reason="enough"))),
        ("expire", lambda: (submitted(), lifecycle.expire(submitted(), 2000))),
        ("purge", lambda: (ended(), lifecycle.purge(ended(), 2000))),
    ],
)
def test_a_step_leads_where_its_row_says_and_carries_the_time_of_its_move(
    event: str, move: Callable[[], tuple[Task, lifecycle.Step]]
) -> None:
    before, step = move()
    entry = step.entry
    assert (entry.task_id, entry.seq, entry.at) == ("t1", step.task.version, 2000)
    assert (entry.event, entry.source) == (event, before.state)
    assert entry.dest == step.task.state == MOVES[before.state][event]


def test_the_first_step_is_a_submit_from_nothing() -> None:
    step = lifecycle.submit("t1", "alice", Call("tools/call"), 1000, ttl_ms=None)
    assert (step.entry.at, step.entry.source, step.entry.dest) == (
        1000,
        State.NEW,
        State.SUBMITTED,
    )


def test_a_report_changes_what_it_names_and_nothing_else() -> None:
    full = lifecycle.report(
        working(), 2000, progress=Progress(1), message="busy", metadata=b'{"a":1}'
    ).task
    assert (full.progress, full.message, full.metadata) == (Progress(1), "busy", b'{"a":1}')
    silent = lifecycle.report(full, 3000).task
    assert (silent.progress, silent.message, silent.metadata) == (Progress(1), "busy", b'{"a":1}')


def test_progress_of_the_same_height_is_dropped_whatever_else_it_says() -> None:
    task = lifecycle.report(working(), 2000, progress=Progress(5, 10, "half")).task
    assert lifecycle.report(task, 2000, progress=Progress(5, 20)).task.progress == task.progress


def test_the_answers_go_with_the_task_to_its_next_worker() -> None:
    step = answered(lifecycle.requeue(waiting(NAME, CITY), 1500).task, name=b"1", city=b"2")
    assert step.entry.event is Event.REQUEUE
    assert [question.answer for question in step.task.questions] == [Reply(b"1"), Reply(b"2")]


def test_a_requeued_task_belongs_to_nobody_and_says_why() -> None:
    step = lifecycle.requeue(working(), 2000, note="the lease is lost")
    assert (step.task.state, step.task.worker) == (State.SUBMITTED, None)
    assert step.entry.note == "the lease is lost"


def test_an_end_without_words_is_seen_too() -> None:
    assert ended().message is None
    assert ended().updated_at == 2000
    assert answered(waiting(), name=b"1").task.updated_at == 2000


@pytest.mark.parametrize(
    "end",
    [
        lambda t: lifecycle.withdraw(t, 3000),
        lambda t: lifecycle.cancel(t, 3000, reason="enough"),
        lambda t: lifecycle.complete(t, 3000, Outcome.of_result(b"{}")),
    ],
    ids=["withdraw", "cancel", "complete"],
)
def test_only_what_is_open_is_withdrawn(end: Callable[[Task], lifecycle.Step]) -> None:
    task = end(answered(waiting(NAME, CITY), name=b"1").task).task
    kept = [(question.answer, question.withdrawn) for question in task.questions]
    assert kept == [(Reply(b"1"), False), (None, True)]


def test_an_outcome_keeps_what_the_tool_returned_or_raised() -> None:
    assert Outcome.of_result(b"{}") == Outcome(Cause.RESULT, b"{}", is_error=False)
    assert Outcome.of_result(b"{}", is_error=True) == Outcome(Cause.RESULT, b"{}", is_error=True)
    boom = Outcome.of_error(-32000, "boom", b"1")
    assert boom == Outcome(Cause.ERROR, code=-32000, message="boom", data=b"1")
    assert lifecycle.fail(working(), 2000, boom).task.outcome == boom


def test_the_bound_of_a_call_counts_from_the_call() -> None:
    assert violations([Called(50, 1, 100), Answered(150, 1)], LIFECYCLES) == []
    (late,) = violations([Called(50, 1, 100), Answered(151, 1)], LIFECYCLES)
    assert (late.subject, late.why) == (1, "was answered after 101 of 100 ms")
    (never,) = violations([Called(50, 1, 100), Answered(60, 2)], LIFECYCLES)
    assert (never.subject, never.why) == (1, "was never answered")


def test_a_violation_names_its_invariant_and_its_task() -> None:
    (found,) = violations([Asked(0, "t", "k", "a"), Asked(0, "t", "k", "b")], LIFECYCLES)
    assert found.invariant == "a_question_key_names_one_request_for_life"
    assert found.subject == "t"


def test_a_look_is_a_read_unless_it_says_otherwise() -> None:
    looks = [Saw(0, "a", "t", "completed", G1), Saw(1, "a", "t", "working", G1)]
    found = {violation.invariant for violation in violations(looks, LIFECYCLES)}
    assert "every_task_walks_one_legal_path" in found


def test_keys_are_told_apart_by_task_and_name() -> None:
    history = [Asked(0, "t", "k", "a"), Asked(0, "u", "k", "b"), Asked(0, "t", "l", "c")]
    assert violations(history, LIFECYCLES) == []


def test_an_invariant_without_a_name_can_be_asked_too() -> None:
    def holds_never(answer: str, _: History, __: object) -> Iterator[tuple[str, str]]:
        yield "t", answer

    nameless = partial(holds_never, "no")
    assert violations([], LIFECYCLES, [nameless]) == [Violation(repr(nameless), "t", "no")]


@pytest.mark.parametrize(
    ("error", "fields", "words"),
    [
        (
            IllegalTransition(State.FAILED, Event.ASK),
            {"state": State.FAILED, "event": Event.ASK},
            "event 'ask' is illegal in state 'failed'",
        ),
        (
            StaleFence("t1", 3, 4),
            {"task_id": "t1", "fence": 3, "current": 4},
            "task t1 is fenced at 4, the write carried 3",
        ),
        (
            KeyReused("name"),
            {"key": "name"},
            "question key 'name' already names another request of this task",
        ),
        (NotFound("t1"), {"task_id": "t1"}, "no task 't1'"),
        (
            LimitExceeded("9 live tasks", 500),
            {"limit": "9 live tasks", "retry_after_ms": 500},
            "limit reached: 9 live tasks; retry after 500 ms",
        ),
    ],
)
def test_an_error_carries_its_fields_and_says_them(
    error: TaskmachineError, fields: dict[str, object], words: str
) -> None:
    assert vars(error) == fields
    assert str(error) == words
