"""The report as table, JSON and chart is complete and fits."""

import io
from xml.etree import ElementTree

import pytest
from rich.console import Console

from taskmachine.adapters.cli.bench.chart import draw
from taskmachine.adapters.cli.bench.contestants import PEERS
from taskmachine.adapters.cli.bench.figures import Report, Row, from_json, to_json
from taskmachine.adapters.cli.bench.judging import judge
from taskmachine.adapters.cli.bench.run import MEASURES
from taskmachine.adapters.cli.bench.table import print_report, times_ours
from tests.adapters.cli.bench.sample_rows import report, row, skipped

NAMES = ("ours, memory", "ours, SQLite", "ours, PostgreSQL", *PEERS)
CASES = {
    "task": ("1 at a time", "256 at a time", "32 at a time"),
    "get": ("1 at a time", "256 at a time", "32 at a time"),
    "wake": ("100 waiters",),
    "notify": ("one stream",),
    "grow": ("1,000 tasks", "1,000,000 tasks"),
    "stdio": ("1 at a time", "32 at a time"),
    "start": ("to the first answer",),
    "payload": ("tasks/get, 100 kB", "whole task, 100 kB"),
}
LARGE = {
    **dict.fromkeys(("rate", "cpu_us"), 1_234_567.0),
    **dict.fromkeys(("create_us", "get_us", "page_us"), 99_999.0),
    **dict.fromkeys(("create_x", "get_x", "page_x", "kb_each", "sent"), 1_234.5),
    **dict.fromkeys(("p50_ms", "p99_ms", "ms"), 123_456.789),
    **dict.fromkeys(("share", "share_by_cpu", "reached"), 9.99),
    **dict.fromkeys(("floor_rate", "floor_us"), 123_456.0),
}


def everything() -> Report:
    rows = [
        row(measure, name, revision, case, **LARGE)
        for measure, cases in CASES.items()
        for name in NAMES
        for revision in ("2025-11-25", "2026-07-28")
        for case in cases
    ]
    rows.append(row("import", "taskmachine.statemachine", "", "in a new process", ms=12))
    rows.append(row("import", "attrs, transitions", "", "in a new process", ms=12))
    rows.append(row("disk", "bare sqlite3", "", "a row in each commit", rate=12_345))
    return report(*sorted(rows, key=lambda each: MEASURES.index(each.measure)))


def printed(shown: Report) -> str:
    console = Console(file=io.StringIO(), width=100)
    print_report(console, shown, judge(shown.rows))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_fits_100_columns_whatever_is_in_it() -> None:
    text = printed(everything())
    assert max(map(len, text.splitlines())) <= 100
    assert "…" not in text, "something was cut"
    for measure in MEASURES:
        assert f"{measure}: " in text
    for figure in ("1,234,567", "1,234 x", "123,456.79", "999%"):
        assert figure in text


def test_verdicts_stand_at_the_rows_and_in_the_list() -> None:
    case = "to the first answer"
    text = printed(
        report(
            row("start", "ours, memory", "2025-11-25", case, ms=100),
            row("start", "ours, memory", "2026-07-28", case, ms=500),
        )
    )
    lines = [line for line in text.splitlines() if "ours, memory" in line]
    assert [line.split()[-1] for line in lines] == ["OK", "BROKEN", "OK", "BROKEN"]


def test_a_quick_run_is_not_judged() -> None:
    slow = row("start", "ours, memory", "2025-11-25", "to the first answer", ms=500)
    text = printed(report(slow, is_quick=True))
    assert "nothing is judged" in text
    assert "BROKEN" not in text


def test_report_names_skipped_contestants_with_the_reason() -> None:
    text = printed(
        report(
            skipped("task", "FastMCP 3.4.10", "2025-11-25", "", "there is no such release"),
            skipped("task", "peer", "2025-11-25", "32 at a time", "it \x1b[31m hung up"),
        )
    )
    assert "not measured: FastMCP 3.4.10, 2025-11-25: there is no such release" in text
    assert r"not measured: peer, 2025-11-25, 32 at a time: it \x1b[31m hung up" in text


def test_ratios_say_how_many_times_better_ours_is() -> None:
    def pair(measure: str, name: str, ours: float, theirs: float) -> list[Row]:
        return [
            row(measure, "ours, memory", "2025-11-25", "case", **{name: ours}),
            row(measure, "peer", "2025-11-25", "case", **{name: theirs}),
        ]

    for rows in (pair("task", "rate", 100, 20), pair("wake", "p50_ms", 2, 10)):
        assert times_ours(rows, rows[1]) == pytest.approx(5)
        assert times_ours(rows, rows[0]) is None
    alone = row("task", "peer", "2026-07-28", "case", rate=1)
    assert times_ours([*pair("task", "rate", 1, 1), alone], alone) is None


def test_json_report_round_trips_without_loss() -> None:
    left_out = skipped("task", "peer", "2025-11-25", "", "no node")
    before = everything()
    before.rows.append(left_out)
    assert from_json(to_json(before)) == before


def test_chart_is_well_formed_and_shows_every_contestant() -> None:
    shown = everything()
    shown.rows.append(skipped("task", "a <peer> & more", "2025-11-25", "", "no node"))
    root = ElementTree.fromstring(draw(shown))
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    for name in (*NAMES, "a <peer> & more"):
        assert f"{name}, 2025-11-25" in texts
    assert texts.count("not measured") == 1


def test_longer_bars_are_faster_and_stay_in_the_picture() -> None:
    case = "32 at a time"
    rates = (0.7, 3.0, 999.0, 12_000.0)
    rows = [row("task", f"peer {rate}", "2025-11-25", case, rate=rate) for rate in rates]
    root = ElementTree.fromstring(draw(report(*rows)))
    bars = [
        float(bar.attrib["width"])
        for bar in root.iter("{http://www.w3.org/2000/svg}rect")
        if "x" in bar.attrib
    ]
    assert bars == sorted(bars)
    assert len(set(bars)) == len(rates)
    assert 300 + max(bars) < 930


def test_a_picture_of_nothing_is_a_picture() -> None:
    ElementTree.fromstring(draw(report()))
