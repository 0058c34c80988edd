"""Both tables as text, Markdown and JSON, and the moves as Mermaid; `diagram` draws the SVG.

A dialect shows two states under one status, so its table has no duties.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from taskmachine.adapters.rendering.diagram import render_svg
from taskmachine.adapters.rendering.moves import OUTSIDE, Move, duties, moves, terminal_names
from taskmachine.protocol import Dialect

__all__ = ["FORMATS", "print_table", "render", "state_text"]

_STYLES: Final = {
    "submitted": "blue",
    "working": "cyan",
    "input_required": "yellow",
    "completed": "green",
    "failed": "red",
    "tool error": "red",
    "cancelled": "magenta",
    "pending": "blue",
    "processing": "cyan",
}


def print_table(console: Console, dialect: Dialect | None = None) -> None:
    """Print the moves, a matrix of all pairs, and the duties."""
    parts = [_rows(dialect), _grid(dialect)]
    console.print(Group(*parts, *([_duties()] if dialect is None else [])))


def _rows(dialect: Dialect | None) -> RenderableType:
    title = "MCP Tasks: the transition table"
    if dialect is not None:
        title += f" as {dialect.revision} shows it"
    table = _plain_table(title, gap=1)
    for column in ("source", "event", "destination"):
        table.add_column(column, no_wrap=True)
    for move in moves(dialect):
        table.add_row(state_text(move.source), Text(move.event, "bold"), state_text(move.dest))
    return table


def _duties() -> RenderableType:
    table = _plain_table("Duties: what holds while a task is in a state", gap=1)
    rows = duties()
    for column in rows[0]:
        table.add_column(column, no_wrap=True)
    for row in rows:
        state, *cells = row.values()
        table.add_row(state_text(state), *cells)
    return table


def _grid(dialect: Dialect | None) -> RenderableType:
    rows = moves(dialect)
    states = _states(rows)
    letters = dict(zip(states, _letters(states), strict=True))
    table = _plain_table("Every pair: where it leads, or a dot where it is illegal", gap=0)
    events = list(dict.fromkeys(move.event for move in rows))
    for column in ("", *events):
        table.add_column(column, justify="center" if column else "left", no_wrap=True)
    for state in states:
        cells = [
            [letters[m.dest] for m in rows if (m.source, m.event) == (state, event)]
            for event in events
        ]
        table.add_row(
            Text(f"{letters[state]} ") + state_text(state),
            *("/".join(dict.fromkeys(dests)) or Text("·", "dim") for dests in cells),
        )
    return table


def _plain_table(title: str, gap: int) -> Table:
    return Table(
        title=f"\n{title}",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, gap, 0, 0),
    )


def state_text(name: str) -> Text:
    """Return the name of a state in its colour, for any dialect."""
    return Text(name, _STYLES.get(name, "dim"))


def _states(rows: list[Move]) -> list[str]:
    return list(dict.fromkeys([*(move.source for move in rows), *(move.dest for move in rows)]))


def _letters(states: list[str]) -> list[str]:
    """Choose a letter for each state, the first one of its name that is free."""
    letters: list[str] = []
    for state in states:
        letters.append(next(c for c in state.upper() if c not in letters and c != "["))
    return letters


def render_markdown(dialect: Dialect | None = None) -> str:
    """Return the tables as Markdown."""
    lines = ["| source | event | destination |", "|---|---|---|"]
    lines += [f"| {move.source} | **{move.event}** | {move.dest} |" for move in moves(dialect)]
    if dialect is None:
        rows = duties()
        lines += ["", _line(rows[0]), "|---" * len(rows[0]) + "|"]
        lines += [_line(row.values()) for row in rows]
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def render_mermaid(dialect: Dialect | None = None) -> str:
    """Return a Mermaid state diagram."""
    edges: dict[tuple[str, str], list[str]] = {}
    for move in moves(dialect):
        edges.setdefault((_node(move.source), _node(move.dest)), []).append(move.event)
    lines = ["stateDiagram-v2"]
    for (source, dest), events in edges.items():
        lines.append(f"    {source} --> {dest}: {', '.join(dict.fromkeys(events))}")
    return "\n".join(lines) + "\n"


def _node(name: str) -> str:
    return OUTSIDE if name in ("new", "removed") else name


def render_json(dialect: Dialect | None = None) -> str:
    """Return the tables as JSON."""
    rows = moves(dialect)
    document = {
        "dialect": None if dialect is None else dialect.revision,
        "states": _states(rows),
        "terminal": [name for name in _states(rows) if name in terminal_names(dialect)],
        "rows": [move._asdict() for move in rows],
    }
    if dialect is None:
        document["duties"] = duties()
    return json.dumps(document, indent=2) + "\n"


FORMATS: Final[Mapping[str, Callable[[Dialect | None], str]]] = {
    "markdown": render_markdown,
    "mermaid": render_mermaid,
    "svg": render_svg,
    "json": render_json,
}


def render(format: str, dialect: Dialect | None = None) -> str:
    """Return the table in one of `FORMATS`."""
    return FORMATS[format](dialect)
