"""Print a report: one section for each measure, in 100 columns."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from taskmachine.adapters.cli.bench.figures import Report, Row
from taskmachine.adapters.cli.bench.judging import Judgement, find
from taskmachine.adapters.rendering.wording import printable

__all__ = ["print_report", "times_ours"]

TITLES: Final = {
    "task": "task: whole tasks a second, each from its call to its result",
    "get": "get: tasks/get of a completed task",
    "wake": "wake: from the end of a task to the response of a waiting client",
    "notify": "notify: until the first status notification is there",
    "grow": "grow: cost of a request and memory of a task, when many tasks are stored",
    "stdio": "stdio: whole tasks over pipes",
    "start": "start: from the start of a process on pipes to its first answer",
    "import": "import: time and memory that an import adds to a bare interpreter",
    "disk": "disk: commits a second by the bare sqlite3 module, WAL, synchronous=FULL",
    "payload": "payload: results of many sizes, 4 clients; the floor answers with the same body",
}

_Shown = Callable[[float], str]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:,.2f}"


def _percent(value: float) -> str:
    return f"{value:.0%}"


def _times(value: float) -> str:
    return f"{value:.2f} x" if value < 100 else f"{value:,.0f} x"


_RATES: Final[Mapping[str, tuple[str, _Shown]]] = {
    "a second": ("rate", _number),
    "sent": ("sent", lambda value: f"{value:.1f}"),
    "CPU us": ("cpu_us", _number),
    "floor": ("share", _percent),
    "by CPU": ("share_by_cpu", _percent),
}

_DELAYS: Final[Mapping[str, tuple[str, _Shown]]] = {
    "p50 ms": ("p50_ms", lambda value: f"{value:,.2f}"),
    "p99 ms": ("p99_ms", lambda value: f"{value:,.2f}"),
}

_COLUMNS: Final[Mapping[str, Mapping[str, tuple[str, _Shown]]]] = {
    "task": _RATES,
    "get": _RATES,
    "payload": _RATES,
    "wake": _DELAYS,
    "notify": _DELAYS,
    "grow": {
        "create us": ("create_us", _number),
        "x": ("create_x", _times),
        "get us": ("get_us", _number),
        "x ": ("get_x", _times),
        "page us": ("page_us", _number),
        "x  ": ("page_x", _times),
        "KB each": ("kb_each", lambda value: f"{value:.2f}"),
    },
    "stdio": {name: _RATES[name] for name in ("a second", "sent", "CPU us")},
    "start": {"ms": ("ms", _number)},
    "import": {"ms": ("ms", lambda value: f"{value:,.1f}")},
    "disk": {"a second": ("rate", _number)},
}

_KEY: Final = {"wake": "p50_ms", "notify": "p50_ms", "start": "ms"}
"""The value to compare with ours where less is better; elsewhere it is the rate."""
_COMPARED: Final = ("task", "get", "wake", "notify", "stdio", "start")


def times_ours(rows: Sequence[Row], row: Row) -> float | None:
    """Return how many times better our memory store is, in the same case and revision."""
    ours = find(rows, row.measure, "ours, memory", row.revision, row.case)
    if row.measure not in _COMPARED or ours is None or ours == row:
        return None
    name = _KEY.get(row.measure, "rate")
    mine, its = ours.values.get(name), row.values.get(name)
    if not mine or not its:
        return None
    return its / mine if row.measure in _KEY else mine / its


def print_report(console: Console, report: Report, judgements: Sequence[Judgement]) -> None:
    machine = report.machine
    _line(console, f"{machine['processor']}, {machine['cores']} cores, {machine['kernel']}")
    rounds = f"{report.rounds} rounds of {report.seconds:g} s"
    _line(console, f"{machine['python']}, taskmachine {machine['taskmachine']}; {rounds}")
    for measure in dict.fromkeys(row.measure for row in report.rows):
        console.print()
        console.print(_section(report, measure, judgements))
        for row in report.rows:
            if row.measure == measure and row.skipped:
                case = f", {row.case}" if row.case else ""
                who = f"{row.contestant}, {row.revision}{case}"
                _line(console, f"  not measured: {who}: {row.skipped}")
    console.print()
    if report.is_quick:
        _line(console, "A quick run: nothing is judged.")
    elif judgements:
        console.print(_bounds(judgements))


def _line(console: Console, text: str) -> None:
    console.print(Text(printable(text)))


def _section(report: Report, measure: str, judgements: Sequence[Judgement]) -> Table:
    rows = [row for row in report.rows if row.measure == measure and not row.skipped]
    columns = _COLUMNS[measure]
    table = _table(TITLES[measure])
    table.add_column("", overflow="fold")
    unit = " tasks" if measure == "grow" else ""  # in the header only, to keep rows short
    table.add_column(unit.strip() or "case", overflow="fold")
    for title in columns:
        table.add_column(title.strip(), justify="right", no_wrap=True)
    if measure in _COMPARED:
        table.add_column("ours is", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    last = ""
    for row in [*_floor_rows(rows), *rows]:
        who = f"{row.contestant} {row.revision}".strip()
        cells = [
            shown(row.values[name]) if name in row.values else ""
            for name, shown in columns.values()
        ]
        if measure in _COMPARED:
            ratio = times_ours(report.rows, row)
            cells.append("" if ratio is None else f"{ratio:.1f} x")
        verdict = "" if report.is_quick else _verdict(row, judgements)
        style = "red" if verdict == "BROKEN" else "green"
        table.add_row(
            "" if who == last else who,
            row.case.removesuffix(unit),
            *cells,
            Text(verdict, style=style),
        )
        last = who
    return table


def _table(title: str) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )


def _floor_rows(rows: Sequence[Row]) -> list[Row]:
    """Return a row for the floor in each case that was compared with it."""
    found = []
    for case in dict.fromkeys(row.case for row in rows if "floor_rate" in row.values):
        floors = sorted(
            (row.values["floor_rate"], row.values["floor_us"]) for row in rows if row.case == case
        )
        rate, cost = floors[len(floors) // 2]
        values = {"rate": rate, "sent": 1.0, "cpu_us": cost}
        found.append(Row(rows[0].measure, "the floor", "", case, values))
    return found


def _verdict(row: Row, judgements: Sequence[Judgement]) -> str:
    """Return the verdict of all bounds on this row, or an empty string."""
    verdicts = {
        one.verdict
        for one in judgements
        if (one.bound.measure, one.bound.contestant, one.revision, one.case)
        == (row.measure, row.contestant, row.revision, row.case)
    }
    return next((word for word in ("BROKEN", "OK") if word in verdicts), "")


def _bounds(judgements: Sequence[Judgement]) -> Table:
    table = _table("bounds")
    for title in ("", "bound", "revision", "found", ""):
        table.add_column(title, overflow="fold", no_wrap=title == "revision")
    for one in judgements:
        style = {"OK": "green", "BROKEN": "red"}.get(one.verdict, "")
        case = f" ({one.case})" if one.case and one.bound.measure == "grow" else ""
        words = f"{one.bound.words}{case}"
        cells = (one.bound.contestant, words, one.revision, one.found)
        table.add_row(*cells, Text(one.verdict, style=style))
    return table
