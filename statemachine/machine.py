"""The moves, compiled and validated by `transitions`.

All tasks share one machine: a `Machine` or `add_model` per task would cost 50-400 us and grow
with their number.  Each legal pair of state and event is fired once at import, and the result is
kept: the machine has no guards, callbacks or memory that could change it.
"""

from collections.abc import Mapping
from typing import Final

from transitions import Machine

from taskmachine.statemachine.errors import IllegalTransition
from taskmachine.statemachine.table import TABLE, Event, Row, State

__all__ = ["fire"]


class _Cursor:
    __slots__ = ("state",)

    def __init__(self, state: str) -> None:
        self.state = state


def _compiled() -> Mapping[tuple[State, Event], Row]:
    machine = Machine(
        model=None,
        states=[state.value for state in State],
        initial=State.NEW.value,
        auto_transitions=False,
    )
    for row in TABLE:
        machine.add_transition(row.event.value, row.source.value, row.dest.value)
    rows = {}
    for event, transitions in machine.events.items():
        for state in transitions.transitions:
            cursor = _Cursor(state)
            transitions.trigger(cursor)
            row = Row(State(state), Event(event), State(cursor.state))
            rows[row.source, row.event] = row
    return rows


_ROWS: Final = _compiled()


def fire(state: State, event: Event) -> Row:
    """Return the row for `event` in `state`, or raise `IllegalTransition`."""
    row = _ROWS.get((state, event))
    if row is None:
        raise IllegalTransition(state, event)
    return row
