"""The executor: what `transitions` compiled is what the specification says."""

import attrs
import pytest

from taskmachine.statemachine import Event, IllegalTransition, State, fire
from tests.oracle import ILLEGAL, MOVES


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_every_pair_leads_where_the_specification_says_or_is_illegal(
    state: State, event: Event
) -> None:
    if MOVES[state][event] != ILLEGAL:
        assert fire(state, event) == (state, event, MOVES[state][event])
    else:
        with pytest.raises(IllegalTransition) as error:
            fire(state, event)
        assert (error.value.state, error.value.event) == (state, event)


def test_an_illegal_event_names_state_and_event() -> None:
    with pytest.raises(IllegalTransition, match="'cancel' is illegal in state 'completed'"):
        fire(State.COMPLETED, Event.CANCEL)


def test_states_come_back_as_states() -> None:
    dest = fire(State.NEW, Event.SUBMIT).dest
    assert isinstance(dest, State)
    assert not attrs.has(type(dest))
