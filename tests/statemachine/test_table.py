"""The table against what was written down by hand."""

import pytest

from taskmachine.statemachine import TABLE, TERMINAL, Effect, Event, State, lookup
from tests.oracle import ILLEGAL, MOVES, REVISIONS, SPEC
from tests.requirements import covers

PAIRS = [(state, event) for state in State for event in Event]


def test_the_specification_lists_all_pairs() -> None:
    """ROO-5, ROO-6."""
    assert len(PAIRS) == 96
    assert SPEC["table"]["states"] == [state.value for state in State]
    assert SPEC["table"]["events"] == [event.value for event in Event]
    assert {(state, event) for state in MOVES for event in MOVES[state]} == set(PAIRS)


@covers("2025-11-25:paths-from-working", "2025-11-25:paths-from-input-required")
@pytest.mark.parametrize(("state", "event"), PAIRS)
def test_every_pair_leads_where_the_specification_says(state: State, event: Event) -> None:
    row = lookup(state, event)
    assert (row.dest if row else ILLEGAL) == MOVES[state][event]


def test_no_pair_is_listed_twice() -> None:
    assert len({(row.source, row.event) for row in TABLE}) == len(TABLE) == 26


@covers("2025-11-25:terminal-final")
@pytest.mark.parametrize("revision", REVISIONS)
def test_final_states_are_those_of_the_specification(revision: str) -> None:
    assert set(SPEC["generation"][revision]["terminal"]) == TERMINAL


# Effects, by the sentences of the design and not by the rows.


def test_whatever_enters_the_queue_gets_a_job() -> None:
    for row in TABLE:
        enters = row.dest is State.SUBMITTED and row.source is not State.SUBMITTED
        assert (Effect.DISPATCH in row.effects) == enters


def test_whatever_ends_halts_progress_and_wakes_everybody() -> None:
    ends = {"completed", "failed", "cancelled"}
    for row in TABLE:
        assert (Effect.HALT_PROGRESS in row.effects) == (row.dest in ends)
        if row.dest in ends:
            assert {Effect.WAKE, Effect.NOTIFY} <= set(row.effects)


def test_work_is_stopped_unless_the_worker_itself_says_that_it_is_done() -> None:
    for row in TABLE:
        by_worker = (row.source, row.event) == (State.WORKING, Event.COMPLETE)
        ends = row.dest in {"completed", "failed", "cancelled"}
        assert (Effect.STOP_WORK in row.effects) == (ends and not by_worker)


def test_questions_are_delivered_when_asked_and_withdrawn_when_nobody_waits_any_more() -> None:
    for row in TABLE:
        assert (Effect.DELIVER_QUESTION in row.effects) == (row.event is Event.ASK)
        leaves = row.source is State.INPUT_REQUIRED and row.dest is not State.INPUT_REQUIRED
        requeued = row.event is Event.REQUEUE  # by its last answer: there is nothing left
        assert (Effect.WITHDRAW_QUESTIONS in row.effects) == (leaves and not requeued)


def test_everything_but_a_purge_is_worth_telling() -> None:
    for row in TABLE:
        assert (Effect.NOTIFY in row.effects) == (row.event is not Event.PURGE)
