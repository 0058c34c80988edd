"""The table, executed by `transitions`.

There is one machine for all tasks: a task is not a model of it.  Each event is fired on a
throwaway cursor, which costs about 11 us; a Machine, or `add_model`, for each task would cost
50-400 us and grow with the number of tasks.  The machine has no guards, no callbacks and no
memory, so what it says of a state and an event is asked for once.
"""

from collections.abc import Mapping
from functools import cache
from typing import Final

from transitions import Machine, MachineError

from taskmachine.statemachine.errors import IllegalTransition
from taskmachine.statemachine.table import TABLE, Event, Row, State

__all__ = ["fire"]


class _Cursor:
    __slots__ = ("state",)

    def __init__(self, state: str) -> None:
        self.state = state


def _machine() -> Machine:
    machine = Machine(
        model=None,
        states=[state.value for state in State],
        initial=State.NEW.value,
        auto_transitions=False,
    )
    for row in TABLE:
        machine.add_transition(row.event.value, row.source.value, row.dest.value)
    return machine


_EVENTS: Final = _machine().events
_ROWS: Final[Mapping[tuple[str, str, str], Row]] = {
    (row.source, row.event, row.dest): row for row in TABLE
}
_NAMES: Final = {state: state.value for state in State}


@cache
def fire(state: State, event: Event) -> Row:
    """The row that `event` takes in `state`, or `IllegalTransition`."""
    cursor = _Cursor(_NAMES[state])
    try:
        _EVENTS[event].trigger(cursor)
    except MachineError:
        raise IllegalTransition(state, event) from None
    return _ROWS[state, event, cursor.state]
