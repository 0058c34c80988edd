"""Each bound holds at its limit, fails beyond it, and is not judged without its reference row."""

import pytest

from taskmachine.adapters.cli.bench.bounds import BOUNDS, LARGEST, Bound
from taskmachine.adapters.cli.bench.figures import Row
from taskmachine.adapters.cli.bench.judging import Verdict, is_broken, judge
from tests.adapters.cli.bench.sample_rows import row, skipped

EACH = [(bound, revision) for bound in BOUNDS for revision in bound.revisions]


def rows_for(bound: Bound, revision: str, value: float) -> list[Row]:
    """Return rows for which the judged value is `value`."""
    case = "100,000 tasks" if bound.case == LARGEST else bound.case
    other = 100.0 if bound.beside else 1.0
    rows = [row(bound.measure, bound.contestant, revision, case, **{bound.value: value * other})]
    if bound.beside:
        rows.append(row(bound.measure, bound.beside, revision, case, **{bound.value: other}))
    if bound.needs_disk:
        rows.append(row("disk", "bare sqlite3", "", "a row in each commit", rate=150))
    return rows


def verdict(rows: list[Row], bound: Bound, revision: str) -> Verdict:
    [found] = [one for one in judge(rows, [bound]) if one.revision == revision]
    return found.verdict


@pytest.mark.parametrize(
    ("bound", "revision"), EACH, ids=[f"{b.contestant}: {b.words}, {r}" for b, r in EACH]
)
def test_each_bound_holds_at_its_number_and_is_broken_beyond(bound: Bound, revision: str) -> None:
    limit = bound.at_least if bound.at_least is not None else bound.at_most
    assert limit is not None
    worse = 0.99 if bound.at_least is not None else 1.01
    assert verdict(rows_for(bound, revision, limit), bound, revision) == "OK"
    assert verdict(rows_for(bound, revision, limit * worse), bound, revision) == "BROKEN"


@pytest.mark.parametrize(
    ("bound", "revision"), EACH, ids=[f"{b.contestant}: {b.words}, {r}" for b, r in EACH]
)
def test_without_the_row_or_its_partner_nothing_is_judged(bound: Bound, revision: str) -> None:
    rows = rows_for(bound, revision, 0)
    failed = skipped(bound.measure, bound.contestant, revision, "", "it did not start")
    assert verdict([failed, *rows[1:]], bound, revision) == "not judged"
    if bound.beside:
        assert verdict(rows[:1], bound, revision) == "not judged"


def test_a_measure_that_was_not_taken_is_not_mentioned() -> None:
    assert judge([row("start", "ours, memory", "2025-11-25", "to the first answer", ms=1)])
    assert judge([]) == []


def test_judge_compares_only_peers_of_the_same_revision() -> None:
    case = "32 at a time"
    rows = [
        row("task", "ours, memory", "2026-07-28", case, rate=1),
        row("task", "FastMCP 4.1.2, memory", "2025-11-25", case, rate=1),
    ]
    [bound] = [b for b in BOUNDS if b.words == "whole tasks >= 10 x FastMCP 4"]
    assert verdict(rows, bound, "2026-07-28") == "not judged"


def test_bound_beyond_the_disk_speed_is_not_judged() -> None:
    [bound] = [bound for bound in BOUNDS if bound.needs_disk]
    *rows, disk = rows_for(bound, "2025-11-25", 0.1)
    assert verdict([*rows, disk], bound, "2025-11-25") == "BROKEN"
    slow = row("disk", "bare sqlite3", "", "a row in each commit", rate=99)
    [found] = [one for one in judge([*rows, slow], [bound]) if one.revision == "2025-11-25"]
    assert found.verdict == "not judged"
    assert "commits 99 a second, 100 would be needed" in found.found
    assert verdict(rows, bound, "2025-11-25") == "not judged"


def test_the_most_tasks_are_judged() -> None:
    rows = [
        row("grow", "ours, memory", "2025-11-25", f"{size:,} tasks", get_x=ratio)
        for size, ratio in ((1_000, 9.0), (100_000, 9.0), (1_000_000, 1.0), (10_000, 9.0))
    ]
    [bound] = [bound for bound in BOUNDS if bound.value == "get_x"]
    [found, _] = judge(rows, [bound])
    assert (found.verdict, found.case) == ("OK", "1,000,000 tasks")


def test_one_broken_bound_is_enough() -> None:
    case = "to the first answer"
    fast, slow = (
        [row("start", "ours, memory", revision, case, ms=ms)]
        for revision, ms in (("2025-11-25", 100), ("2026-07-28", 401))
    )
    assert not is_broken(judge(fast))
    assert is_broken(judge([*fast, *slow]))
