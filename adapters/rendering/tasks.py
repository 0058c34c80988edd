"""Tasks as shown to operators in a terminal.

Tasks contain untrusted text.  Everything that is not printable is escaped, so that no task can
colour, move or hide output.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from taskmachine.adapters.rendering.recorded import read_record
from taskmachine.adapters.rendering.table import state_text
from taskmachine.adapters.rendering.values import moment, read_text, read_value
from taskmachine.adapters.rendering.waiting import short_time, waiting_text
from taskmachine.adapters.rendering.wording import printable
from taskmachine.statemachine import Entry, Outcome, Question, Task

__all__ = [
    "duration",
    "ending",
    "plain_table",
    "print_history",
    "print_pairs",
    "print_task",
    "print_tasks",
    "state_of",
]

MOST_RECORDED: Final = 20
"""Recorded steps shown with a task; its history has all of them."""

LINES: Final = 8
"""Maximum lines of one value; `--json` prints all of it."""

_GAP: Final = 2
"""Columns between columns."""

_MOST_IN_TABLE: Final = 200
"""Characters of a message used in a table; terminals are narrower."""


_WIDE: Final = 100
"""Columns of a terminal that has room for whole ids."""

_SHORT_ID: Final = 12
"""Characters of an id in a narrower terminal: enough for the commands of operators."""


def duration(milliseconds: int) -> str:
    """Return an approximate duration in four characters: `0s`, `59s`, `3m`, `26h`, `6d`."""
    seconds = max(0, milliseconds) // 1_000
    for size, unit, most in ((1, "s", 100), (60, "m", 100), (3_600, "h", 48)):
        if seconds // size < most:
            return f"{seconds // size}{unit}"
    return f"{seconds // 86_400}d"


def state_of(task: Task) -> str:
    """Return the state as people see it: a tool error is completed, but not a success."""
    is_tool_error = task.outcome is not None and task.outcome.is_error
    return "tool error" if is_tool_error else task.state.value


def print_tasks(console: Console, tasks: Sequence[Task], now: int, *, with_owner: bool) -> None:
    """Print a line per task, in a narrow terminal with short ids; the message gets the rest."""
    most = 64 if console.width >= _WIDE else _SHORT_ID
    columns: list[tuple[str, int, list[Text]]] = [  # name, maximum width, cells
        ("task", most, [Text(printable(task.id)[:most]) for task in tasks]),
        ("state", 16, [state_text(state_of(task)) for task in tasks]),
        ("tool", 14, [_cell(task.call.name or task.call.method) for task in tasks]),
        ("age", 4, [Text(duration(now - task.created_at)) for task in tasks]),
        ("left", 4, [Text(_left(task, now)) for task in tasks]),
    ]
    if with_owner:
        columns.insert(3, ("owner", 10, [_cell(task.owner) for task in tasks]))
    table = plain_table()
    room = console.width
    for name, widest, cells in columns:
        width = min(widest, max(len(name), *(cell.cell_len for cell in cells)))
        room -= width + _GAP
        align: Literal["left", "right"] = "right" if name in ("age", "left") else "left"
        table.add_column(name, no_wrap=True, min_width=width, max_width=width, justify=align)
    messages = [_cell(_summary(task, now)) for task in tasks]
    table.add_column("message", no_wrap=True, max_width=max(room, len("message")))
    for row in zip(*(cells for *_, cells in columns), messages, strict=True):
        table.add_row(*row)
    console.print(table)


def print_task(console: Console, task: Task, now: int, entries: Sequence[Entry] = ()) -> None:
    """Print the details of a task, each value cut to a few lines.

    `entries` is its history, with the steps that it has recorded.
    """
    rows: list[tuple[str, str | Text]] = [
        ("task", task.id),
        ("state", state_text(state_of(task))),
        ("call", f"{task.call.method} {task.call.name or ''}".rstrip()),
        ("arguments", read_text(task.call.arguments)),
        ("owner", task.owner),
        ("created", f"{_time(task.created_at)} UTC, {duration(now - task.created_at)} ago"),
        ("updated", f"{_time(task.updated_at)} UTC, {duration(now - task.updated_at)} ago"),
    ]
    if task.deadline is not None:
        what = "forgotten" if task.is_terminal else "expires"
        rows.append((what, f"{_time(task.deadline)} UTC, in {_left(task, now)}"))
    if task.due_at is not None and (waiting := waiting_text(task, _time)) is not None:
        rows.append(("waiting", f"{waiting} UTC, in {duration(task.due_at - now)}"))
    if task.worker is not None:
        rows.append(("worker", task.worker))
    if task.losses:
        rows.append(("lost workers", str(task.losses)))
    if task.rerun_of is not None:
        rows.append(("rerun of", task.rerun_of))
    if task.failures:
        rows.append(("failed attempts", str(task.failures)))
    if task.error is not None:
        rows.append(("last error", task.error))
    if task.progress is not None:
        rows.append(("progress", _progress(task)))
    if task.message is not None and task.outcome is None:
        rows.append(("message", task.message))
    rows += _recorded(entries)
    for question in task.questions:
        rows += [(f"asks {question.key}", _asked(question)), ("", _answered(question))]
    if task.partial is not None:
        rows.append(("so far", read_text(task.partial)))
    if task.metadata != b"{}":
        rows.append(("metadata", read_text(task.metadata)))
    if task.outcome is not None:
        rows.append((task.outcome.cause.replace("_", " "), ending(task.outcome)))
    rows.append(("version", str(task.version)))
    print_pairs(console, rows)


def print_history(console: Console, entries: Iterable[Entry]) -> None:
    """Print a line per entry."""
    table = plain_table()
    room = console.width
    for name, width in (("version", 7), ("time (UTC)", 23), ("event", 8), ("from", 14), ("to", 14)):
        align: Literal["left", "right"] = "right" if name == "version" else "left"
        table.add_column(name, no_wrap=True, min_width=width, justify=align)
        room -= width + _GAP
    table.add_column("note", no_wrap=True, max_width=max(room, len("note")))
    for entry in entries:
        table.add_row(
            str(entry.seq),
            _time(entry.at),
            Text(entry.event, "bold"),
            state_text(entry.source),
            state_text(entry.dest),
            _cell(_note(entry)),
        )
    console.print(table)


def plain_table() -> Table:
    """Return an empty table without a frame."""
    return Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, _GAP - 1, 0, 0),  # the box adds one
        header_style="bold",
    )


def print_pairs(console: Console, rows: Sequence[tuple[str, str | Text]]) -> None:
    """Print names and values, each value cut to a few lines."""
    width = min(16, max(len(printable(name)) for name, _ in rows))
    room = max(8, console.width - width - _GAP)
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    grid.add_column(width=width, no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(
            Text(printable(name), overflow="ellipsis"),
            value if isinstance(value, Text) else Text(_cut(printable(value), LINES * room)),
        )
    console.print(grid)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _cell(text: str) -> Text:
    return Text(printable(text[:_MOST_IN_TABLE]), overflow="ellipsis")


def _time(milliseconds: int) -> str:
    """Format a time in UTC, to the millisecond."""
    return f"{moment(milliseconds):%Y-%m-%d %H:%M:%S}.{milliseconds % 1_000:03}"


def _left(task: Task, now: int) -> str:
    return "" if task.deadline is None else duration(task.deadline - now)


def _recorded(entries: Iterable[Entry]) -> list[tuple[str, str]]:
    """Return rows for the latest recorded steps."""
    steps = [entry.data for entry in entries if entry.data is not None]
    shown = [read_record(data) for data in steps[-MOST_RECORDED:]]
    rows = [(record.kind, record.words) for record in shown]
    if len(steps) > len(shown):
        rows.insert(0, ("steps", f"{len(steps) - len(shown)} earlier ones: see tasks history"))
    return rows


def _note(entry: Entry) -> str:
    if entry.data is None:
        return entry.note or ""
    record = read_record(entry.data)
    return f"{record.kind} {record.words}"


def _summary(task: Task, now: int) -> str:
    """Summarise a task in one line."""
    if task.outcome is not None:
        return ending(task.outcome)
    if task.open_questions:
        return f"asks {', '.join(question.key for question in task.open_questions)}"
    waiting = waiting_text(task, lambda at: short_time(at, now))
    said = waiting or task.message or (task.progress and task.progress.message) or ""
    return said if task.progress is None else f"{_progress(task)} {said}".rstrip()


def _progress(task: Task) -> str:
    assert task.progress is not None
    total = task.progress.total
    return f"{task.progress.value:g}" if total is None else f"{task.progress.value:g}/{total:g}"


def ending(outcome: Outcome) -> str:
    """Summarise an outcome in one line."""
    if outcome.result is not None:
        return _content(outcome.result)
    said = outcome.message or ""
    if outcome.code is not None:
        said = f"{outcome.code} {said}"
    return said if outcome.data is None else f"{said} {read_text(outcome.data)}"


def _content(result: bytes) -> str:
    """Return the text of a tool result that contains nothing else, or the JSON."""
    match read_value(result):
        case {"content": [{"type": "text", "text": str(text)}], **more} if more in (
            {},
            {"isError": True},
            {"structuredContent": {"result": text}},  # of a function that returns text
        ):
            return f"error: {text}" if more.get("isError") else text
        case _:
            return read_text(result)


def _asked(question: Question) -> str:
    match read_value(question.params):
        case {"message": str(asked)}:
            return asked
        case _:
            return f"{question.method} {read_text(question.params)}"


def _answered(question: Question) -> str:
    if question.answer is not None:
        verb = "refused" if question.answer.is_error else "answered"
        return f"{verb}: {read_text(question.answer.body)}"
    return "withdrawn" if question.withdrawn else "open"
