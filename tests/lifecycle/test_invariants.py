"""Each invariant has a history that breaks it, and no other is broken by that one."""

from collections.abc import Iterator
from functools import partial

import pytest

from taskmachine.statemachine import Entry, Event, State
from taskmachine.statemachine.invariants import (
    INVARIANTS,
    Answered,
    Asked,
    Called,
    Created,
    Deferred,
    History,
    Missed,
    Progressed,
    Recorded,
    Saw,
    StepRan,
    Violation,
    violations,
)
from taskmachine.statemachine.invariants import Event as Happened
from tests.oracle import LIFECYCLES

G1, G2 = "2025-11-25", "2026-07-28"


def move(seq: int, event: str, source: str, dest: str) -> Entry:
    return Entry("t", seq, seq, Event(event), State(source), State(dest))


def saw(
    status: str,
    *,
    wire: str = G1,
    caller: str = "a",
    pushed: bool = False,
    outcome: str | None = None,
) -> Saw:
    return Saw(0, caller, "t", status, wire, pushed, outcome)


GOOD: list[Happened] = [
    Called(0, 1, 100),
    move(1, "submit", "new", "submitted"),
    Created(0, "a", "t"),
    saw("working"),
    Missed(0, "b", "t"),
    move(2, "start", "submitted", "working"),
    move(3, "report", "working", "working"),
    Progressed(0, "a", "t", G1),
    saw("working", pushed=True),
    saw("input_required"),
    Asked(0, "t", "name", "who?"),
    Asked(0, "t", "name", "who?"),
    StepRan(0, "t", "fetch", 1),  # its worker was lost before the step was recorded
    StepRan(0, "t", "fetch", 2),
    Recorded(0, "t", "fetch", 2, "url"),
    Recorded(0, "t", "name", 2, "the key of a question, too"),
    StepRan(0, "t", "fetch", 1),  # it was only paused; nothing that it does is recorded
    StepRan(0, "u", "fetch", 2),
    Recorded(0, "u", "fetch", 2, "url"),
    move(4, "requeue", "working", "submitted"),
    Deferred(4, "t", 5),
    move(5, "start", "submitted", "working"),
    move(6, "requeue", "working", "submitted"),
    move(7, "start", "submitted", "working"),
    saw("working"),
    saw("completed", wire=G2, outcome="42"),
    saw("failed"),
    saw("failed", outcome="42"),
    saw("failed"),
    saw("failed", outcome="42", pushed=True),
    Answered(100, 1),
    move(8, "complete", "working", "completed"),
    move(9, "purge", "completed", "removed"),
    Missed(0, "a", "t"),
]

BROKEN: list[tuple[str, list[Happened]]] = [
    ("every_task_walks_one_legal_path", [move(1, "start", "submitted", "working")]),
    (
        "every_task_walks_one_legal_path",
        [move(1, "submit", "new", "submitted"), move(2, "ask", "submitted", "input_required")],
    ),
    (
        "every_task_walks_one_legal_path",
        [move(1, "submit", "new", "submitted"), move(2, "report", "working", "working")],
    ),
    (
        "every_task_walks_one_legal_path",
        [move(2, "submit", "new", "submitted"), move(2, "start", "submitted", "working")],
    ),
    (
        "a_created_task_can_be_read_at_once",
        [
            Created(0, "a", "t"),
            Missed(0, "a", "t"),
            move(1, "submit", "new", "submitted"),
        ],
    ),
    ("terminal_states_are_sticky", [saw("completed"), saw("failed")]),
    (
        "terminal_states_are_sticky",
        [saw("completed", outcome="1"), saw("completed"), saw("completed", outcome="2")],
    ),
    (
        "no_acknowledged_task_is_lost",
        [Created(0, "a", "t"), saw("working"), Missed(0, "a", "t")],
    ),
    ("every_call_is_answered_within_its_bound", [Called(0, 1, 100)]),
    ("every_call_is_answered_within_its_bound", [Called(0, 1, 100), Answered(101, 1)]),
    ("no_caller_sees_a_foreign_task", [Created(0, "a", "t"), saw("working", caller="b")]),
    (
        "a_key_names_one_request_for_life",
        [Asked(0, "t", "name", "who?"), Asked(0, "t", "name", "why?")],
    ),
    (
        "a_key_names_one_request_for_life",
        [Recorded(0, "t", "fetch", 1, "a url"), Recorded(0, "t", "fetch", 1, "another")],
    ),
    (
        "a_recorded_step_is_run_to_an_acknowledged_end_once",
        [Recorded(0, "t", "fetch", 1), StepRan(0, "t", "fetch", 1)],
    ),
    (
        "a_recorded_step_is_run_to_an_acknowledged_end_once",
        [
            StepRan(0, "t", "fetch", 1),
            Recorded(0, "t", "fetch", 2),
            Recorded(0, "t", "fetch", 1),
        ],
    ),
    (
        "a_recorded_step_is_run_to_an_acknowledged_end_once",
        [
            Recorded(0, "t", "fetch", 1),
            StepRan(0, "t", "fetch", 2),
            Recorded(0, "t", "store", 2),
        ],
    ),
    (
        "no_task_starts_before_it_is_due",
        [
            move(1, "submit", "new", "submitted"),
            Deferred(1, "t", 3),
            move(2, "start", "submitted", "working"),
        ],
    ),
    ("live_work_is_never_deleted", [move(1, "purge", "working", "removed")]),
    (
        "notifications_agree_with_later_reads_and_end_with_the_task",
        [saw("completed", pushed=True), saw("completed", pushed=True)],
    ),
    (
        "notifications_agree_with_later_reads_and_end_with_the_task",
        [saw("completed", pushed=True), saw("working", caller="a")],
    ),
    (
        "progress_halts",
        [saw("completed", pushed=True), Progressed(0, "a", "t", G1)],
    ),
    (
        "progress_halts",
        [
            move(1, "submit", "new", "submitted"),
            move(2, "cancel", "submitted", "cancelled"),
            Progressed(0, "a", "t", G1),
        ],
    ),
    (
        "every_wire_reports_the_same_outcome",
        [saw("completed", outcome="1"), saw("completed", wire=G2, outcome="2")],
    ),
]

ALSO = {
    "terminal_states_are_sticky": {
        "every_task_walks_one_legal_path",
        "every_wire_reports_the_same_outcome",
    },
    # What cannot be broken alone.
    "a_created_task_can_be_read_at_once": {"no_acknowledged_task_is_lost"},
    "live_work_is_never_deleted": {"every_task_walks_one_legal_path"},
    "notifications_agree_with_later_reads_and_end_with_the_task": {"terminal_states_are_sticky"},
}


def test_each_invariant_has_a_name_and_a_history_that_violates_it() -> None:
    assert len(INVARIANTS) == 13
    assert {invariant.__name__ for invariant in INVARIANTS} == {name for name, _ in BROKEN}


def test_a_good_history_breaks_none() -> None:
    assert violations(GOOD, LIFECYCLES) == []


@pytest.mark.parametrize(("name", "history"), BROKEN)
def test_a_broken_history_breaks_its_invariant(name: str, history: list[Happened]) -> None:
    found = violations(history, LIFECYCLES)
    names = {violation.invariant for violation in found}
    assert name in names
    assert names <= {name} | ALSO.get(name, set())
    assert all(violation.why for violation in found)


def test_a_status_must_be_able_to_follow_the_one_before() -> None:
    found = violations([saw("completed"), saw("working")], LIFECYCLES)
    assert "was completed and then working on 2025-11-25" in {violation.why for violation in found}


def test_a_client_that_reads_seldom_may_miss_steps() -> None:
    lifecycle = LIFECYCLES[G1]
    assert lifecycle.may_follow("input_required", "input_required")
    assert lifecycle.may_follow("input_required", "completed")
    assert not lifecycle.may_follow("completed", "working")
    assert LIFECYCLES["runtime"].may_follow("new", "removed")


def test_the_bound_of_a_call_counts_from_the_call() -> None:
    assert violations([Called(50, 1, 100), Answered(150, 1)], LIFECYCLES) == []
    (late,) = violations([Called(50, 1, 100), Answered(151, 1)], LIFECYCLES)
    assert (late.subject, late.why) == (1, "was answered after 101 of 100 ms")
    (never,) = violations([Called(50, 1, 100), Answered(60, 2)], LIFECYCLES)
    assert (never.subject, never.why) == (1, "was never answered")


def test_a_violation_names_its_invariant_and_its_task() -> None:
    (found,) = violations([Asked(0, "t", "k", "a"), Asked(0, "t", "k", "b")], LIFECYCLES)
    assert found.invariant == "a_key_names_one_request_for_life"
    assert found.subject == "t"


def test_an_observation_is_a_read_unless_it_was_pushed() -> None:
    reads = [Saw(0, "a", "t", "completed", G1), Saw(1, "a", "t", "working", G1)]
    found = {violation.invariant for violation in violations(reads, LIFECYCLES)}
    assert "every_task_walks_one_legal_path" in found


def test_the_task_id_and_the_key_together_identify_a_question() -> None:
    history = [Asked(0, "t", "k", "a"), Asked(0, "u", "k", "b"), Asked(0, "t", "l", "c")]
    assert violations(history, LIFECYCLES) == []


def test_an_invariant_without_a_name_can_be_asked_too() -> None:
    def holds_never(answer: str, _: History, __: object) -> Iterator[tuple[str, str]]:
        yield "t", answer

    nameless = partial(holds_never, "no")
    assert violations([], LIFECYCLES, [nameless]) == [Violation(repr(nameless), "t", "no")]
