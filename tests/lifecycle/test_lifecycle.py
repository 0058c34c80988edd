"""Effects of each verb on the task record, beyond the state that the table gives."""

from collections.abc import Callable

import attrs
import pytest

from taskmachine.statemachine import (
    Call,
    Cause,
    Event,
    IllegalTransition,
    KeyReused,
    LimitExceeded,
    NotDue,
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
from tests.oracle import MOVES
from tests.requirements import covers

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


def test_a_new_task_waits_for_a_worker() -> None:
    task = submitted()
    assert task.state is State.SUBMITTED
    assert (task.version, task.fence, task.worker) == (1, 0, None)
    assert (task.created_at, task.updated_at) == (1000, 1000)


def test_every_step_makes_the_next_version_and_one_line_of_history() -> None:
    step = lifecycle.start(submitted(), 1500, worker="w1")
    assert step.task.version == 2
    entry = step.entry
    assert (entry.seq, entry.at, entry.event) == (2, 1500, Event.START)
    assert (entry.source, entry.dest) == (State.SUBMITTED, State.WORKING)


def test_claiming_raises_the_fence_and_a_lost_worker_can_write_nothing() -> None:
    first = working()
    again = lifecycle.start(lifecycle.requeue(first, 2000).task, 3000, worker="w2").task
    assert (first.fence, again.fence) == (1, 2)
    late: list[Callable[[], object]] = [
        lambda: lifecycle.report(again, 4000, message="hm", fence=first.fence),
        lambda: lifecycle.ask(again, 4000, [NAME], fence=first.fence),
        lambda: lifecycle.complete(again, 4000, Outcome.of_result(b"{}"), fence=first.fence),
        lambda: lifecycle.fail(again, 4000, Outcome.of_error(1, "x"), fence=first.fence),
        lambda: lifecycle.withdraw(again, 4000, fence=first.fence),
        lambda: lifecycle.record(again, 4000, b"{}", fence=first.fence),
    ]
    for write in late:
        with pytest.raises(StaleFence) as error:
            write()
        assert (error.value.task_id, error.value.fence, error.value.current) == ("t1", 1, 2)
    assert lifecycle.complete(again, 4000, Outcome.of_result(b"{}"), fence=2).task.is_terminal


@pytest.mark.parametrize(
    ("before", "move"),
    [
        (submitted(), lambda t: lifecycle.start(t, 9000, worker="w")),
        (working(), lambda t: lifecycle.requeue(t, 9000)),
        (working(), lambda t: lifecycle.report(t, 9000, progress=Progress(1))),
        (working(), lambda t: lifecycle.report(t, 9000, metadata=b'{"a":1}')),
    ],
)
def test_invisible_changes_do_not_change_updated_at(
    before: Task, move: Callable[[Task], lifecycle.Step]
) -> None:
    assert move(before).task.updated_at == before.updated_at


@covers("2025-11-25:last-updated-at-order")
@pytest.mark.parametrize(
    ("before", "move"),
    [
        (working(), lambda t: lifecycle.report(t, 9000, message="halfway")),
        (working(), lambda t: lifecycle.ask(t, 9000, [NAME])),
        (waiting(), lambda t: lifecycle.ask(t, 9000, [CITY])),
        (waiting(NAME, CITY), lambda t: lifecycle.answer(t, 9000, {"name": Reply(b"{}")})),
        (waiting(), lambda t: lifecycle.answer(t, 9000, {"name": Reply(b"{}")})),
        (working(), lambda t: lifecycle.cancel(t, 9000, reason="enough")),
    ],
)
def test_visible_changes_advance_updated_at_and_never_decrease_it(
    before: Task, move: Callable[[Task], lifecycle.Step]
) -> None:
    assert move(before).task.updated_at == 9000
    ahead = attrs.evolve(before, updated_at=50_000)  # the clock was set back
    assert move(ahead).task.updated_at == 50_000


def test_a_repeated_message_does_not_change_updated_at() -> None:
    once = lifecycle.report(working(), 2000, message="busy").task
    assert lifecycle.report(once, 3000, message="busy").task.updated_at == 2000


@covers("2025-11-25:progress-increases")
def test_progress_only_grows() -> None:
    task = lifecycle.report(working(), 2000, progress=Progress(5, 10)).task
    assert lifecycle.report(task, 2000, progress=Progress(5, 10)).task.progress == Progress(5, 10)
    assert lifecycle.report(task, 2000, progress=Progress(4)).task.progress == Progress(5, 10)
    assert lifecycle.report(task, 2000, progress=Progress(5.5)).task.progress == Progress(5.5)
    again = lifecycle.start(lifecycle.requeue(task, 3000).task, 3000, worker="w2").task
    assert lifecycle.report(again, 4000, progress=Progress(1)).task.progress == Progress(5, 10)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_progress_is_finite(value: float) -> None:
    with pytest.raises(ValueError, match="value must be a finite number"):
        Progress(value)
    with pytest.raises(ValueError, match="total must be a finite number"):
        Progress(1, value)


def test_answers_resume_a_worker_that_waits() -> None:
    half = lifecycle.answer(waiting(NAME, CITY), 2000, {"name": Reply(b'"Ada"')})
    assert half is not None
    assert half.entry.event is Event.ANSWER
    assert [question.key for question in half.task.open_questions] == ["city"]
    whole = lifecycle.answer(half.task, 2000, {"city": Reply(b'"London"'), "unknown": Reply(b"1")})
    assert whole is not None
    assert whole.entry.event is Event.RESUME
    assert [question.answer for question in whole.task.questions] == [
        Reply(b'"Ada"'),
        Reply(b'"London"'),
    ]


def test_the_last_answer_requeues_a_task_without_a_worker() -> None:
    parked = lifecycle.requeue(waiting(), 1500, note="parked")
    assert (parked.entry.event, parked.entry.note) == (Event.REPORT, "parked")
    assert (parked.entry.dest, parked.task.worker) == (State.INPUT_REQUIRED, None)
    assert parked.task.updated_at == waiting().updated_at
    assert parked.task.open_questions == waiting().open_questions
    step = lifecycle.answer(parked.task, 2000, {"name": Reply(b"1")})
    assert step is not None
    assert step.entry.event is Event.REQUEUE


def test_the_last_answer_wakes_a_task_that_also_sleeps() -> None:
    parked = lifecycle.requeue(waiting(), 1500, due_at=90_000).task
    with pytest.raises(IllegalTransition):
        lifecycle.start(parked, 2000, worker="w2")
    task = answered(parked, name=b"1").task
    assert lifecycle.start(task, 2000, worker="w2").task.state is State.WORKING


def test_a_task_does_not_start_before_its_time() -> None:
    asleep = lifecycle.requeue(working(), 1500, due_at=3000).task
    with pytest.raises(NotDue) as error:
        lifecycle.start(asleep, 2999, worker="w2")
    assert (error.value.task_id, error.value.due_at) == ("t1", 3000)
    assert lifecycle.start(asleep, 3000, worker="w2").task.due_at is None


def test_a_failed_attempt_leaves_its_error_a_message_and_a_time() -> None:
    step = lifecycle.requeue(working(), 1500, error="boom", message="again soon", due_at=3000)
    task = step.task
    assert (task.failures, task.error, task.message, task.due_at) == (1, "boom", "again soon", 3000)
    again = lifecycle.requeue(lifecycle.start(task, 3000, worker="w2").task, 3500).task
    assert (again.failures, again.error, again.due_at) == (1, "boom", None)


def test_a_record_is_in_the_history_and_invisible() -> None:
    step = lifecycle.record(working(), 1500, b"{}", fence=1)
    assert (step.entry.event, step.entry.data) == (Event.REPORT, b"{}")
    assert (step.task.recorded, step.task.updated_at) == (1, working().updated_at)


def test_the_first_answer_wins_and_unknown_keys_are_ignored() -> None:
    half = lifecycle.answer(waiting(NAME, CITY), 2000, {"name": Reply(b"1")})
    assert half is not None
    assert lifecycle.answer(half.task, 2000, {"name": Reply(b"2")}) is None
    assert lifecycle.answer(half.task, 2000, {"age": Reply(b"2")}) is None
    assert lifecycle.answer(working(), 2000, {"name": Reply(b"2")}) is None
    assert lifecycle.answer(ended(), 2000, {"name": Reply(b"2")}) is None
    whole = lifecycle.answer(half.task, 2000, {"name": Reply(b"2"), "city": Reply(b"3")})
    assert whole is not None
    assert [question.answer for question in whole.task.questions] == [Reply(b"1"), Reply(b"3")]


def test_a_tool_that_runs_again_asks_nothing_twice() -> None:
    assert lifecycle.ask(waiting(), 2000, [NAME]) is None
    answered = lifecycle.answer(waiting(), 2000, {"name": Reply(b"1")})
    assert answered is not None
    assert lifecycle.ask(answered.task, 2000, [NAME, NAME]) is None
    both = lifecycle.ask(answered.task, 2000, [NAME, CITY])
    assert both is not None
    assert both.task.questions[0].answer == Reply(b"1")
    assert [question.key for question in both.task.open_questions] == ["city"]


@pytest.mark.parametrize(
    "other",
    [
        Question("name", "elicitation/create", b'{"message":"Your age?"}'),
        Question("name", "sampling/createMessage", NAME.params),
    ],
)
def test_a_key_names_one_request_for_life(other: Question) -> None:
    answered = lifecycle.answer(waiting(), 2000, {"name": Reply(b"1")})
    assert answered is not None
    for task in (waiting(), answered.task):
        with pytest.raises(KeyReused) as error:
            lifecycle.ask(task, 2000, [other])
        assert error.value.key == "name"
    with pytest.raises(KeyReused):
        lifecycle.ask(working(), 2000, [NAME, other])


def test_a_tool_that_ends_withdraws_its_questions_first() -> None:
    step = lifecycle.withdraw(waiting(), 2000, fence=1)
    assert step.entry.event is Event.RESUME
    assert step.task.open_questions == ()
    assert step.task.questions[0].withdrawn
    assert lifecycle.complete(step.task, 2000, Outcome.of_result(b"{}"), fence=1).task.is_terminal


@pytest.mark.parametrize(
    ("end", "state", "cause", "message"),
    [
        (
            lambda t: lifecycle.complete(t, 2000, Outcome.of_result(b"{}", is_error=True)),
            State.COMPLETED,
            Cause.RESULT,
            None,
        ),
        (
            lambda t: lifecycle.fail(t, 2000, Outcome.of_error(-32000, "boom", b"1")),
            State.FAILED,
            Cause.ERROR,
            "boom",
        ),
        (
            lambda t: lifecycle.cancel(t, 2000, reason="enough"),
            State.CANCELLED,
            Cause.CANCELLED,
            "enough",
        ),
        (
            lambda t: lifecycle.expire(t, 2000),
            State.FAILED,
            Cause.EXPIRED,
            "The task expired before it finished.",
        ),
    ],
)
def test_a_terminal_task_has_an_outcome_but_no_worker_or_open_question(
    end: Callable[[Task], lifecycle.Step], state: State, cause: Cause, message: str | None
) -> None:
    step = end(lifecycle.report(waiting(), 1000, message="waiting for you").task)
    task = step.task
    assert task.state is state
    assert task.outcome is not None
    assert task.outcome.cause is cause
    assert (task.message, task.worker, task.open_questions) == (message, None, ())
    assert step.entry.note == message


@covers("2025-11-25:terminal-final", "2025-11-25:cancelled-sticks")
def test_nothing_moves_a_task_that_has_ended() -> None:
    task = ended()
    late: list[Callable[[], object]] = [
        lambda: lifecycle.start(task, 3000, worker="w"),
        lambda: lifecycle.report(task, 3000, progress=Progress(1)),
        lambda: lifecycle.ask(task, 3000, [NAME]),
        lambda: lifecycle.withdraw(task, 3000),
        lambda: lifecycle.requeue(task, 3000),
        lambda: lifecycle.complete(task, 3000, Outcome.of_result(b"{}")),
        lambda: lifecycle.fail(task, 3000, Outcome.of_error(1, "x")),
        lambda: lifecycle.cancel(task, 3000, reason="enough"),
        lambda: lifecycle.expire(task, 3000),
    ]
    for move in late:
        with pytest.raises(IllegalTransition):
            move()
    assert task == ended()
    assert lifecycle.purge(task, 3000).task.state is State.REMOVED


def test_a_worker_whose_task_was_taken_can_write_nothing_even_before_the_next_claim() -> None:
    taken = lifecycle.requeue(working(), 2000, lost=True).task
    assert (taken.fence, taken.worker, taken.losses) == (1, None, 1)
    with pytest.raises(StaleFence):
        lifecycle.complete(taken, 3000, Outcome.of_result(b"{}"), fence=1)
    released = lifecycle.requeue(waiting(), 2000, lost=True).task
    assert (released.version, released.worker, released.losses) == (4, None, 1)
    with pytest.raises(StaleFence):
        lifecycle.withdraw(released, 3000, fence=1)


def test_a_worker_with_a_stale_fence_cannot_requeue_the_task() -> None:
    with pytest.raises(StaleFence):
        lifecycle.requeue(working(), 2000, fence=0)
    with pytest.raises(StaleFence):
        lifecycle.requeue(waiting(), 2000, fence=2)
    assert lifecycle.requeue(working(), 2000, fence=1).task.losses == 0
    assert lifecycle.requeue(waiting(), 2000, fence=1).task.losses == 0


def test_with_changes_leaves_the_other_fields_unchanged() -> None:
    task = waiting()
    assert task.with_changes(message="m", fence=9) == attrs.evolve(task, message="m", fence=9)


def test_a_new_task_keeps_the_fields_it_was_created_with() -> None:
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


def test_a_report_changes_only_the_fields_it_names() -> None:
    full = lifecycle.report(
        working(), 2000, progress=Progress(1), message="busy", metadata=b'{"a":1}'
    ).task
    assert (full.progress, full.message, full.metadata) == (Progress(1), "busy", b'{"a":1}')
    silent = lifecycle.report(full, 3000).task
    assert (silent.progress, silent.message, silent.metadata) == (Progress(1), "busy", b'{"a":1}')


def test_progress_with_an_equal_value_is_dropped() -> None:
    task = lifecycle.report(working(), 2000, progress=Progress(5, 10, "half")).task
    assert lifecycle.report(task, 2000, progress=Progress(5, 20)).task.progress == task.progress


def test_the_answers_go_with_the_task_to_its_next_worker() -> None:
    step = answered(lifecycle.requeue(waiting(NAME, CITY), 1500).task, name=b"1", city=b"2")
    assert step.entry.event is Event.REQUEUE
    assert [question.answer for question in step.task.questions] == [Reply(b"1"), Reply(b"2")]


def test_a_requeued_task_has_no_worker_and_a_note() -> None:
    step = lifecycle.requeue(working(), 2000, note="the lease is lost")
    assert (step.task.state, step.task.worker) == (State.SUBMITTED, None)
    assert step.entry.note == "the lease is lost"


def test_an_end_without_a_message_changes_updated_at() -> None:
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
def test_only_open_questions_are_withdrawn(end: Callable[[Task], lifecycle.Step]) -> None:
    task = end(answered(waiting(NAME, CITY), name=b"1").task).task
    kept = [(question.answer, question.withdrawn) for question in task.questions]
    assert kept == [(Reply(b"1"), False), (None, True)]


def test_an_outcome_keeps_the_result_or_the_error_of_the_tool() -> None:
    assert Outcome.of_result(b"{}") == Outcome(Cause.RESULT, b"{}", is_error=False)
    assert Outcome.of_result(b"{}", is_error=True) == Outcome(Cause.RESULT, b"{}", is_error=True)
    boom = Outcome.of_error(-32000, "boom", b"1")
    assert boom == Outcome(Cause.ERROR, code=-32000, message="boom", data=b"1")
    assert lifecycle.fail(working(), 2000, boom).task.outcome == boom


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
            NotDue("t1", 3000),
            {"task_id": "t1", "due_at": 3000},
            "task t1 must not start before 3000",
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


# --- attempts, sleeps and recorded steps -----------------------------------------------------


def test_a_task_is_claimed_when_it_is_due_and_then_at_any_time() -> None:
    task = lifecycle.requeue(working(), 2_000, due_at=5_000, until=90_000).task
    assert (task.state, task.worker, task.due_at) == (State.SUBMITTED, None, 5_000)
    assert task.deadline == 90_000
    with pytest.raises(NotDue, match="t1 must not start before 5000"):
        lifecycle.start(task, 4_999, worker="w2")
    task = lifecycle.start(task, 5_000, worker="w2").task
    assert (task.due_at, task.failures, task.losses) == (None, 0, 0)
    call = Call("tools/call", "greet", not_before=3_000)
    with pytest.raises(NotDue):
        lifecycle.start(lifecycle.submit("t1", "alice", call, 0, ttl_ms=None).task, 0, worker="w1")


@pytest.mark.parametrize("asked", [False, True])
def test_a_failed_attempt_is_counted_and_shown(asked: bool) -> None:
    task = waiting() if asked else working()
    step = lifecycle.requeue(task, 2_000, error="OSError", message="Attempt 1 failed.")
    assert step.entry.event is (Event.REPORT if asked else Event.REQUEUE)
    task = step.task
    assert (task.failures, task.error, task.message) == (1, "OSError", "Attempt 1 failed.")
    assert (task.losses, task.worker, task.updated_at) == (0, None, 2_000)


def test_a_recorded_step_is_a_line_of_history_that_clients_do_not_see() -> None:
    before = working()
    step = lifecycle.record(before, 2_000, b"{}", fence=before.fence)
    assert (step.entry.event, step.entry.data) == (Event.REPORT, b"{}")
    assert (step.task.recorded, step.task.updated_at) == (1, before.updated_at)
    with pytest.raises(StaleFence):
        lifecycle.record(lifecycle.requeue(before, 2_000).task, 2_000, b"{}", fence=before.fence)


def test_a_rerun_names_the_task_that_it_repeats() -> None:
    step = lifecycle.submit(
        "t2", "alice", submitted().call, 0, ttl_ms=None, tool_version="2", rerun_of="t1"
    )
    assert (step.task.rerun_of, step.task.tool_version) == ("t1", "2")
