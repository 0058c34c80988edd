"""The rows of both tables as text, in the terms of the runtime or of a dialect."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from taskmachine.protocol import Dialect
from taskmachine.statemachine import DUTIES, TABLE, TERMINAL, Row, State
from taskmachine.statemachine.table import COLUMNS

__all__ = ["OUTSIDE", "Move", "duties", "moves", "terminal_names"]

OUTSIDE: Final = "[*]"
"""The state before creation and after removal, in dialects without a status for it."""


class Move(NamedTuple):
    """A row as text."""

    source: str
    event: str
    dest: str


def moves(dialect: Dialect | None = None) -> list[Move]:
    """Return every row of the table; with a dialect, with the statuses of its wire."""
    return list(
        dict.fromkeys(
            Move(source, row.event.value, dest)
            for row in TABLE
            for source, dest in _ends(row, dialect)
        )
    )


def duties() -> list[dict[str, str]]:
    """Return every row of the duties by column name."""
    return [
        {"state": state.value}
        | {
            column: words[not is_first]
            for (column, words), is_first in zip(COLUMNS.items(), row, strict=True)
        }
        for state, row in DUTIES.items()
    ]


def terminal_names(dialect: Dialect | None = None) -> frozenset[str]:
    """Return the names of the final states."""
    return frozenset(_name(state, dialect, again=False) for state in TERMINAL)


def _ends(row: Row, dialect: Dialect | None) -> Iterator[tuple[str, str]]:
    """Yield the pairs of statuses of a row, before and after a first start."""
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
