"""Tables of histories with the outcomes that the checks must report for them.

A table maps the names of one or more requirements to rows.  A row has histories and the outcome
expected of each named check: one outcome for all of them, or one for each.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final, Protocol

import attrs

from taskmachine.adapters.conformance.catalogue import load_checks
from taskmachine.adapters.conformance.history import History
from taskmachine.adapters.conformance.judging import CHECKS, Check

__all__ = [
    "BAD", "GOOD", "MIXED", "NOTE", "NOTHING", "WARNING",
    "Case", "Rows", "bad", "good", "mixed", "note", "nothing", "outcomes", "row", "table",
    "warning",
]  # fmt: skip

NOTHING: Final = frozenset[str]()
GOOD: Final = frozenset({"good"})
NOTE: Final = frozenset({"note"})
WARNING: Final = frozenset({"warning"})
BAD: Final = frozenset({"bad"})
MIXED: Final = GOOD | BAD


class _Builder(Protocol):
    @property
    def history(self) -> History: ...


Row = tuple[Sequence[_Builder], Sequence[frozenset[str]]]
Rows = Mapping[str, Sequence[Row]]


def row(history: _Builder, *expected: frozenset[str]) -> Row:
    """A history with the outcome of each requirement."""
    return (history,), expected


def good(*histories: _Builder) -> Row:
    """Histories that keep the requirement."""
    return histories, (GOOD,)


def nothing(*histories: _Builder) -> Row:
    """Histories that do not exercise the requirement."""
    return histories, (NOTHING,)


def note(*histories: _Builder) -> Row:
    """Histories that are allowed, but unusual."""
    return histories, (NOTE,)


def warning(*histories: _Builder) -> Row:
    """Histories that ignore a recommendation."""
    return histories, (WARNING,)


def bad(*histories: _Builder) -> Row:
    """Histories that break the requirement."""
    return histories, (BAD,)


def mixed(*histories: _Builder) -> Row:
    """Histories that keep the requirement in one place and break it in another."""
    return histories, (MIXED,)


@attrs.frozen
class Case:
    """A history and the outcomes that a check must report for it."""

    requirement: str
    check: Check
    history: History
    expected: frozenset[str]

    def __str__(self) -> str:
        return f"{self.requirement} {' and '.join(sorted(self.expected)) or 'nothing'}"


def table(revision: str, *tables: Rows, checks: Mapping[str, Check] = CHECKS) -> list[Case]:
    """Return a case for each requirement and history."""
    load_checks()
    cases = []
    for names, group in chain.from_iterable(rows.items() for rows in tables):
        for column, name in enumerate(names.split()):
            for histories, expected in group:
                id, outcome = f"{revision}:{name}", expected[column if len(expected) > 1 else 0]
                cases += [Case(id, checks[id], each.history, outcome) for each in histories]
    return cases


def outcomes(check: Check, history: History) -> set[str]:
    """Return the outcomes of all observations of a check."""
    return {observation.outcome for observation in check.observe(history)}
