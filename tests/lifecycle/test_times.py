"""How long things last: the promised numbers, written out."""

import attrs
import pytest

from taskmachine.statemachine import Call, Outcome, Question, Reply, State, Task, Times, lifecycle

MINUTE, HOUR = 60_000, 3_600_000
TIMES = Times()


def submitted(
    ttl_ms: int | None = HOUR, *, chosen: bool = False, timeout_ms: int = 300_000
) -> Task:
    return lifecycle.submit(
        "t1", "alice", Call("tools/call", "greet"), 1_000,
        ttl_ms=ttl_ms, is_ttl_chosen=chosen, timeout_ms=timeout_ms,
    ).task  # fmt: skip


def working(task: Task, now: int = 1_000) -> Task:
    return lifecycle.start(task, now, worker="w1", until=TIMES.to_work(task, now)).task


@pytest.mark.parametrize(
    ("asked", "granted"),
    [(None, HOUR), (1, 1), (90 * MINUTE, 90 * MINUTE), (10**15, 7 * 24 * HOUR)],
)
def test_a_ttl_is_granted_up_to_seven_days(asked: int | None, granted: int) -> None:
    assert TIMES.ttl(asked) == granted


def test_work_gets_its_timeout_and_a_minute_whatever_the_ttl() -> None:
    task = working(submitted(MINUTE, chosen=True, timeout_ms=2 * MINUTE), 50_000)
    assert task.deadline == 50_000 + 3 * MINUTE
    assert task.ttl_ms == 49_000 + 3 * MINUTE
    assert task.updated_at == 50_000, "the ttl is shown, so its change is seen"


def test_a_ttl_that_is_long_enough_stays() -> None:
    assert working(submitted(HOUR)).ttl_ms == HOUR
    assert working(submitted(None)).ttl_ms is None


def test_an_answer_gives_the_work_its_time_again() -> None:
    asked = lifecycle.ask(working(submitted(6 * MINUTE)), 2_000, [Question("k", "m", b"{}")])
    assert asked is not None
    now = 350_000
    step = lifecycle.answer(
        asked.task, now, {"k": Reply(b"{}")}, until=TIMES.to_work(asked.task, now)
    )
    assert step is not None
    assert step.task.deadline == now + 6 * MINUTE


@pytest.mark.parametrize(
    ("end", "kept"),
    [(State.COMPLETED, 24 * HOUR), (State.FAILED, 24 * HOUR), (State.CANCELLED, HOUR)],
)
def test_the_outcome_decides_the_retention_unless_the_client_chose_a_ttl(
    end: State, kept: int
) -> None:
    now = 30 * MINUTE
    assert TIMES.to_read(submitted(), now, end) == now + kept
    assert TIMES.to_read(submitted(chosen=True), now, end) is None


def test_the_end_makes_the_ttl_as_long_as_the_retention() -> None:
    task = working(submitted())
    outcome = Outcome.of_result(b"{}")
    until = TIMES.to_read(task, 5_000, State.COMPLETED)
    assert lifecycle.complete(task, 5_000, outcome, until=until).task.ttl_ms == 4_000 + 24 * HOUR
    chosen = attrs.evolve(task, is_ttl_chosen=True)
    until = TIMES.to_read(chosen, 5_000, State.FAILED)
    assert lifecycle.fail(chosen, 5_000, outcome, until=until).task.ttl_ms == HOUR
    until = TIMES.to_read(task, 3 * HOUR, State.CANCELLED)
    cancelled = lifecycle.cancel(task, 3 * HOUR, reason="enough", until=until)
    assert cancelled.task.deadline == 4 * HOUR


def test_an_expired_task_can_be_read_for_a_minute() -> None:
    task = submitted(MINUTE, chosen=True)
    now = 62_000
    step = lifecycle.expire(task, now, until=TIMES.to_read_expired(now))
    assert step.task.deadline == now + MINUTE
