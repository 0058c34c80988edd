"""Draw the state diagram as SVG from the transition table.

The positions of the boxes are fixed here; the arrows and boxes come from the rows of the table.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

from taskmachine.adapters.rendering.moves import OUTSIDE, moves, terminal_names
from taskmachine.protocol import Dialect

__all__ = ["render_path", "render_svg"]


class Point(NamedTuple):
    x: float
    y: float


_WIDTH: Final = 930
_HEIGHT: Final = 490
_BOX: Final = Point(150, 44)
_LIVE, _ENDED = 300, 640  # x of the columns for live and ended states
_DOT: Final = 13  # radius of the dot for a task that does not exist on the wire

_PLACES: Final = {
    "new": Point(_LIVE, 34),
    "submitted": Point(_LIVE, 125),
    "working": Point(_LIVE, 275),
    "input_required": Point(_LIVE, 425),
    "completed": Point(_ENDED, 125),
    "failed": Point(_ENDED, 275),
    "cancelled": Point(_ENDED, 425),
    "removed": Point(830, 275),
}
_FEWER_PLACES: Final = _PLACES | {
    "working": Point(_LIVE, 175),
    "input_required": Point(_LIVE, 375),
}
_ALIASES: Final = {"pending": "submitted", "processing": "working"}

_COLOURS = {
    "submitted": "#2563eb",
    "working": "#0891b2",
    "input_required": "#b7791f",
    "completed": "#15803d",
    "failed": "#dc2626",
    "cancelled": "#9333ea",
}
_COLOURS |= {alias: _COLOURS[name] for alias, name in _ALIASES.items()}
_GREY: Final = "#64748b"

Arrow = tuple[str, str]
"""The source and destination state."""


def render_svg(dialect: Dialect | None = None) -> str:
    """Return the diagram, readable on light and dark pages."""
    return _drawn(dialect, None, None)


def render_path(taken: Collection[Arrow], now: str) -> str:
    """Return the diagram for one task.

    States and arrows have the class `taken`, `untaken` or, for the current state, `now`.
    """
    return _drawn(None, frozenset(taken), now)


def _drawn(dialect: Dialect | None, taken: frozenset[Arrow] | None, now: str | None) -> str:
    places = _PLACES | {alias: _PLACES[name] for alias, name in _ALIASES.items()}
    arrows: dict[tuple[str, str], list[str]] = {}
    for move in moves(dialect):
        ends = _end(move.source, "new"), _end(move.dest, "removed")
        arrows.setdefault(ends, []).append(move.event)
    title = "Life of a task" + ("" if dialect is None else f" as MCP {dialect.revision} shows it")
    names = dict.fromkeys(name for ends in arrows for name in ends)
    if not names.keys() & {"submitted", "pending"}:
        places = _FEWER_PLACES
    final = terminal_names(dialect)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{title}" '
        'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13">',
        f"<title>{title}</title>",
        '<rect width="100%" height="100%" rx="12" fill="#f8fafc"/>',
        *(_marker(colour) for colour in dict.fromkeys((*_COLOURS.values(), _GREY))),
    ]
    drawn = {
        ends: _arrow(places, *ends, events, ends[1] in final) for ends, events in arrows.items()
    }
    visited = {name for ends in taken or () for name in ends}
    parts += [_walked(path, taken, ends) for ends, (path, _) in drawn.items()]
    for name in names:
        state = _state(name, places[name], name in final, dialect is None)
        parts.append(_walked(state, None if taken is None else visited, name, is_now=name == now))
    labels: dict[str, list[Arrow]] = {}  # arrows with equal labels share a place
    for ends, (_, label) in drawn.items():
        labels.setdefault(label, []).append(ends)
    for label, of in labels.items():
        parts.append(_walked(label, taken, next((e for e in of if e in (taken or ())), of[0])))
    return "\n".join([*parts, "</svg>", ""])


def _walked(
    part: str,
    taken: Collection[Arrow] | Collection[str] | None,
    what: Arrow | str,
    *,
    is_now: bool = False,
) -> str:
    """Return an SVG group, with a class in the diagram of one task."""
    if taken is None:
        return part
    words = ["taken" if what in taken else "untaken", *(["now"] if is_now else [])]
    return f'<g class="{" ".join(words)}">{part}</g>'


def _end(name: str, outside: str) -> str:
    return outside if name == OUTSIDE else name


def _marker(colour: str) -> str:
    return (
        f'<marker id="to-{colour[1:]}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
        f'markerHeight="7" orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" '
        f'fill="{colour}"/></marker>'
    )


def _state(name: str, at: Point, is_final: bool, is_named: bool) -> str:
    colour = _COLOURS.get(name, _GREY)
    if name not in _COLOURS:
        dot = f'<circle cx="{at.x}" cy="{at.y}" r="{_DOT}" fill="{_GREY}"/>'
        return dot + (_text(Point(at.x + 20, at.y + 4), "start", _GREY, name) if is_named else "")
    left, top = at.x - _BOX.x / 2, at.y - _BOX.y / 2
    ring = (
        f'<rect x="{left - 4}" y="{top - 4}" width="{_BOX.x + 8}" height="{_BOX.y + 8}" rx="14" '
        f'fill="none" stroke="{colour}"/>'
    )
    return (
        f'{ring if is_final else ""}<rect x="{left}" y="{top}" width="{_BOX.x}" '
        f'height="{_BOX.y}" rx="10" fill="{colour}"/><text x="{at.x}" y="{at.y + 5}" '
        f'text-anchor="middle" fill="#fff" font-weight="bold">{name}</text>'
    )


def _arrow(
    places: dict[str, Point], source: str, dest: str, events: list[str], ends_here: bool
) -> tuple[str, str]:
    """Return the path and label of an arrow."""
    a, b = places[source], places[dest]
    half_w, half_h = _BOX.x / 2, _BOX.y / 2
    anchor = "start"
    if source == dest:  # a loop on the left
        start, end = Point(a.x - half_w, a.y - 10), Point(a.x - half_w, a.y + 10)
        bend = Point(start.x - 44, start.y - 22), Point(end.x - 44, end.y + 22)
        text, anchor = Point(a.x - half_w - 42, a.y + 4), "end"
    elif source not in _COLOURS:  # from outside, straight down
        start, end = Point(a.x, a.y + _DOT), Point(b.x, b.y - half_h - 2)
        bend = start, end
        text = Point(a.x + 8, (start.y + end.y) / 2 + 4)
    elif a.x == b.x and abs(a.y - b.y) > 250:  # around a box, on the right
        start, end = Point(a.x + half_w, a.y - 6), Point(b.x + half_w + 2, b.y + 10)
        bend = Point(start.x + 60, start.y - 60), Point(end.x + 60, end.y + 60)
        text = Point(a.x + half_w + 26, (a.y + b.y) / 2 + 84)
    elif a.x == b.x:  # between neighbours: down on the left, up on the right
        side = -1 if a.y < b.y else 1
        start = Point(a.x + side * 26, a.y - side * half_h)
        end = Point(b.x + side * 26, b.y + side * (half_h + 2))
        bend = start, end
        text = Point(start.x + side * 8, (start.y + end.y) / 2 + 4)
        anchor = "end" if side < 0 else "start"
    else:  # from left to right
        start = Point(a.x + half_w, a.y)
        end = Point(b.x - (half_w + 6 if ends_here else _DOT + 2), b.y)
        middle = (start.x + end.x) / 2
        bend = Point(middle, start.y), Point(middle, end.y)
        text = Point(end.x - 8, end.y - 8)
        anchor = "end"
    if ends_here:  # all arrows into a final state share a label
        text, anchor = Point(b.x, b.y - half_h - 12), "middle"
    colour = _COLOURS.get(dest, _GREY)
    path = (
        f'<path d="M{start.x} {start.y}C{bend[0].x} {bend[0].y} {bend[1].x} {bend[1].y} '
        f'{end.x} {end.y}" fill="none" stroke="{colour}" stroke-width="1.6" '
        f'marker-end="url(#to-{colour[1:]})"/>'
    )
    return path, _text(text, anchor, colour, ", ".join(dict.fromkeys(events)))


def _text(at: Point, anchor: str, colour: str, words: str) -> str:
    return (
        f'<text x="{at.x}" y="{at.y}" text-anchor="{anchor}" fill="{colour}" '
        f'stroke="#f8fafc" stroke-width="4" paint-order="stroke">{words}</text>'
    )
