"""The rows of the table in the words of whoever reads them: the runtime's or a dialect's."""

from typing import Final, NamedTuple

from taskmachine.protocol import Dialect
from taskmachine.statemachine import TABLE, TERMINAL, State

__all__ = ["OUTSIDE", "Move", "moves", "terminal_names"]

OUTSIDE: Final = "[*]"
"""Where a task is before it begins and after it is removed, for those who cannot see it there."""


class Move(NamedTuple):
    """A row, as text."""

    source: str
    event: str
    dest: str
    effects: tuple[str, ...]


def moves(dialect: Dialect | None = None) -> list[Move]:
    """Every row of the table; with a dialect, under the statuses that its wire shows."""
    return list(
        dict.fromkeys(
            Move(source, row.event.value, dest, tuple(effect.value for effect in row.effects))
            for row in TABLE
            for source in _names(row.source, dialect)
            for dest in _names(row.dest, dialect)
        )
    )


def terminal_names(dialect: Dialect | None = None) -> frozenset[str]:
    """What final states are called."""
    return frozenset(name for state in TERMINAL for name in _names(state, dialect))


def _names(state: State, dialect: Dialect | None) -> tuple[str, ...]:
    if dialect is None:
        return (state.value,)
    if state not in dialect.statuses:
        return (OUTSIDE,)
    if state is State.COMPLETED:  # by the tool's result
        return tuple(dict.fromkeys((dialect.statuses[state], dialect.error_result_status)))
    return (dialect.statuses[state],)
