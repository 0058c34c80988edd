"""Both tables, and the executor compiled from them, against `specs/lifecycle.toml`."""

import attrs
import pytest

from taskmachine.statemachine import (
    DUTIES,
    TABLE,
    TERMINAL,
    Call,
    Event,
    IllegalTransition,
    State,
    Task,
    fire,
)
from taskmachine.statemachine.table import COLUMNS
from tests.oracle import DUTIES_BY_HAND, ILLEGAL, MOVES, REVISIONS, SPEC
from tests.requirements import covers

PAIRS = [(state, event) for state in State for event in Event]
DESTS = {(row.source, row.event): row.dest for row in TABLE}


def test_the_specification_lists_all_pairs() -> None:
    assert len(PAIRS) == 96
    assert SPEC["table"]["states"] == [state.value for state in State]
    assert SPEC["table"]["events"] == [event.value for event in Event]
    assert {(state, event) for state in MOVES for event in MOVES[state]} == set(PAIRS)


@covers("2025-11-25:paths-from-working", "2025-11-25:paths-from-input-required")
@pytest.mark.parametrize(("state", "event"), PAIRS)
def test_every_pair_leads_where_the_specification_says(state: State, event: Event) -> None:
    dest = MOVES[state][event]
    assert DESTS.get((state, event), ILLEGAL) == dest
    if dest != ILLEGAL:
        assert fire(state, event) == (state, event, dest)
    else:
        with pytest.raises(IllegalTransition) as error:
            fire(state, event)
        assert (error.value.state, error.value.event) == (state, event)


def test_no_pair_is_listed_twice() -> None:
    assert len(DESTS) == len(TABLE) == 26


@covers("2025-11-25:terminal-final")
@pytest.mark.parametrize("revision", REVISIONS)
def test_final_states_are_those_of_the_specification(revision: str) -> None:
    assert set(SPEC["generation"][revision]["terminal"]) == TERMINAL
    assert {row.source for row in TABLE if row.event is Event.PURGE} == TERMINAL


@pytest.mark.parametrize("state", DUTIES_BY_HAND)
def test_every_cell_of_the_duties_is_that_of_the_specification(state: str) -> None:
    duties = zip(COLUMNS.items(), DUTIES[State(state)], strict=True)
    words = {column: words[not is_first] for (column, words), is_first in duties}
    assert words == DUTIES_BY_HAND[state]


def test_every_state_that_a_store_keeps_has_duties_and_no_other() -> None:
    assert {*DUTIES} == {*DUTIES_BY_HAND} == {*State} - {State.NEW, State.REMOVED}
    assert State.NEW.duties == State.REMOVED.duties == (False,) * 5


@pytest.mark.parametrize("state", State)
def test_a_task_has_the_duties_of_its_state(state: State) -> None:
    task = Task("t", "alice", Call("tools/call"), 0, 0, state=state)
    found = task.is_queued, task.shows_progress, task.is_waiting, task.is_live
    duties = state.duties
    assert found == (duties.is_queued, duties.shows_progress, duties.is_waiting, duties.is_live)
    assert task.is_terminal == (state in DUTIES and not duties.is_live)


def test_requestors_see_neither_the_queue_nor_the_worker() -> None:
    assert State.SUBMITTED.duties[2:] == State.WORKING.duties[2:]


def test_an_illegal_event_names_state_and_event() -> None:
    with pytest.raises(IllegalTransition, match="'cancel' is illegal in state 'completed'"):
        fire(State.COMPLETED, Event.CANCEL)


def test_states_come_back_as_states() -> None:
    dest = fire(State.NEW, Event.SUBMIT).dest
    assert isinstance(dest, State)
    assert not attrs.has(type(dest))
