"""The rows of both tables as text, in the words of the runtime or of a dialect."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from taskmachine.protocol import Dialect
from taskmachine.statemachine import DUTIES, TABLE, TERMINAL, Row, State
from taskmachine.statemachine.table import COLUMNS

__all__ = ["OUTSIDE", "Move", "duties", "moves", "terminal_names"]

OUTSIDE: Final = "[*]"
"""Where a task is before it begins and after it is removed, for those who cannot see it there."""


class Move(NamedTuple):
    """A row, as text."""

    source: str
    event: str
    dest: str


def moves(dialect: Dialect | None = None) -> list[Move]:
    """Every row of the table; with a dialect, under the statuses that its wire shows."""
    return list(
        dict.fromkeys(
            Move(source, row.event.value, dest)
            for row in TABLE
            for source, dest in _ends(row, dialect)
        )
    )


def duties() -> list[dict[str, str]]:
    """Every row of the duties, by the names of the columns."""
    return [
        {"state": state.value}
        | {
            column: words[not is_first]
            for (column, words), is_first in zip(COLUMNS.items(), row, strict=True)
        }
        for state, row in DUTIES.items()
    ]


def terminal_names(dialect: Dialect | None = None) -> frozenset[str]:
    """What final states are called."""
    return frozenset(_name(state, dialect, again=False) for state in TERMINAL)


def _ends(row: Row, dialect: Dialect | None) -> Iterator[tuple[str, str]]:
    """Under each pair of names that a row can be seen: before and after a first start."""
    agains = (False, True) if row.source is State.SUBMITTED else (row.source is not State.NEW,)
    for again in agains:
        source = _name(row.source, dialect, again=again)
        yield source, _name(row.dest, dialect, again=again)
        if dialect is not None and row.dest is State.COMPLETED:
            yield source, dialect.error_result_status


def _name(state: State, dialect: Dialect | None, *, again: bool) -> str:
    if dialect is None:
        return state.value
    if again and state is State.SUBMITTED and dialect.requeued_status is not None:
        return dialect.requeued_status
    return dialect.statuses.get(state, OUTSIDE)
