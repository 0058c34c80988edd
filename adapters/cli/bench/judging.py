"""Check the bounds: pure functions of a report."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from taskmachine.adapters.cli.bench.bounds import BOUNDS, LARGEST, STEPS, Bound
from taskmachine.adapters.cli.bench.disk_commits import CASE as DISK_CASE
from taskmachine.adapters.cli.bench.figures import Row

__all__ = ["Judgement", "Verdict", "find", "is_broken", "judge"]

Verdict = Literal["OK", "BROKEN", "not judged"]


class Judgement(NamedTuple):
    bound: Bound
    revision: str
    verdict: Verdict
    found: str
    """The figure, or the reason why there is none."""
    case: str = ""
    """The case of the row that was judged."""


def judge(rows: Sequence[Row], bounds: Iterable[Bound] = BOUNDS) -> list[Judgement]:
    """Judge every bound in each of its revisions, as far as it was measured."""
    taken = {row.measure for row in rows}
    return [
        _judged(rows, bound, revision)
        for bound in bounds
        if bound.measure in taken
        for revision in bound.revisions
    ]


def is_broken(judgements: Iterable[Judgement]) -> bool:
    return any(judgement.verdict == "BROKEN" for judgement in judgements)


def find(
    rows: Iterable[Row], measure: str, contestant: str, revision: str, case: str
) -> Row | None:
    """Return the row, if it has values."""
    for row in rows:
        at = (row.measure, row.contestant, row.revision, row.case)
        if at == (measure, contestant, revision, case) and row.values:
            return row
    return None


def _judged(rows: Sequence[Row], bound: Bound, revision: str) -> Judgement:
    case = bound.case
    if case == LARGEST:
        case = _largest(rows, bound, revision)
    row = find(rows, bound.measure, bound.contestant, revision, case)
    if row is None or bound.value not in row.values:
        why = f"{bound.contestant} was not measured"
        return Judgement(bound, revision, "not judged", why)
    value = row.values[bound.value]
    if bound.beside:
        # Compare within one revision only: the protocols differ in cost.
        other = find(rows, bound.measure, bound.beside, revision, case)
        if other is None or not other.values.get(bound.value):
            why = f"{bound.beside} was not measured"
            return Judgement(bound, revision, "not judged", why, case)
        value /= other.values[bound.value]
    if bound.needs_disk and (why := _disk_forbids(rows, revision, case)):
        return Judgement(bound, revision, "not judged", f"{value:.2f} x; {why}", case)
    holds = (bound.at_least is None or value >= bound.at_least) and (
        bound.at_most is None or value <= bound.at_most
    )
    shown = f"{value:.2f} x" if bound.beside else f"{value:,.3g}"
    return Judgement(bound, revision, "OK" if holds else "BROKEN", shown, case)


def _largest(rows: Sequence[Row], bound: Bound, revision: str) -> str:
    sizes = [
        int(row.case.split()[0].replace(",", ""))
        for row in rows
        if (row.measure, row.contestant, row.revision)
        == (bound.measure, bound.contestant, revision)
        and row.values
    ]
    return f"{max(sizes):,} tasks" if sizes else ""


def _disk_forbids(rows: Sequence[Row], revision: str, case: str) -> str:
    """Return why the disk is too slow for the bound on SQLite, or an empty string."""
    disk = find(rows, "disk", "bare sqlite3", "", DISK_CASE)
    memory = find(rows, "task", "ours, memory", revision, case)
    if disk is None or memory is None:
        return "the disk was not measured"
    needed = memory.values["rate"] * STEPS / 2
    if disk.values["rate"] >= needed:
        return ""
    return f"the disk commits {disk.values['rate']:,.0f} a second, {needed:,.0f} would be needed"
