"""The executor: what `transitions` does is what the table says."""

import attrs
import pytest

from taskmachine.statemachine import Event, IllegalTransition, State, fire, lookup
from tests.oracle import ILLEGAL, MOVES


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_transitions_and_lookup_agree_on_every_pair(state: State, event: Event) -> None:
    row = lookup(state, event)
    if row is not None:
        assert fire(state, event) == row
        assert fire(state, event).dest == MOVES[state][event]
    else:
        with pytest.raises(IllegalTransition) as error:
            fire(state, event)
        assert (error.value.state, error.value.event) == (state, event)
        assert MOVES[state][event] == ILLEGAL


def test_an_illegal_event_names_state_and_event() -> None:
    with pytest.raises(IllegalTransition, match="'cancel' is illegal in state 'completed'"):
        fire(State.COMPLETED, Event.CANCEL)


def test_states_come_back_as_states() -> None:
    dest = fire(State.NEW, Event.SUBMIT).dest
    assert isinstance(dest, State)
    assert not attrs.has(type(dest))
