"""Draw the picture of CONTRIBUTING.md: the folders of the code, and the imports between them."""

import ast
import textwrap
from html import escape
from typing import Final

from tests.architecture import BESIDE, FRONT_DOOR, ORDER, edges, modules, room_of
from tests.oracle import REPOSITORY

__all__ = ["rooms"]

_GREY, _BLUE, _GREEN, _AMBER = "#64748b", "#2563eb", "#15803d", "#b7791f"
_WIDE, _HIGH, _ACROSS, _DOWN = 210, 66, 236, 112
_LEFT, _TOP, _BESIDE = 128, 52, 4.25
_LINE: Final = 32
"""Maximum number of characters of a line in a box."""

_COLUMNS: Final = {
    "taskmachine": 1.5, "conformance": _BESIDE,
    "cli": 1, "namespaces": 2.6, "specs": _BESIDE,
    "server": 0.5, "testing": 2.35, "bridges": 3.28,
    "console": 0, "client": 1.75,
    "telemetry": 0.75, "transports": 1.75, "engines": 3,
    "runtime": 1.5,
    "rendering": 0, "tools": 1, "stores": 2,
    "protocol": 1.5,
    "statemachine": 1.5,
}  # fmt: skip
"""The column of each folder, so that no arrow crosses a box; imports determine the height."""

_COLOURS: Final = {
    **dict.fromkeys(("statemachine", "protocol"), _GREEN),
    **dict.fromkeys(("taskmachine", "namespaces", "cli"), _AMBER),
    **dict.fromkeys(BESIDE, _GREY),
}


def rooms() -> str:
    """Return an SVG for light and dark pages."""
    needed = _needed()
    heights = _heights(needed)
    top = max(heights.values())
    heights |= {"conformance": top - 1, "specs": top - 2}
    places = {
        room: (_LEFT + round(_COLUMNS[room] * _ACROSS), _TOP + (top - height) * _DOWN)
        for room, height in heights.items()
    }
    arrows = [*needed, *sorted(edge for edge in edges() if edge[1] in BESIDE)]
    wide = _LEFT + round(_BESIDE * _ACROSS) + _WIDE // 2 + 24
    high = _TOP + top * _DOWN + _HIGH // 2 + 20
    pure = places["protocol"][1] - _HIGH // 2 - 13
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}"'
        f' height="{high}" role="img" aria-label="The folders of the code"'
        ' font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13">',
        "<title>The folders of the code</title>",
        '<rect width="100%" height="100%" rx="12" fill="#f8fafc"/>',
        f'<rect x="8" y="{pure}" width="{wide - 16}" height="{high - pure - 8}" rx="8"'
        ' fill="#dcfce7"/>',
        _label(20, pure + 20, "pure: no I/O, no clock"),
        _label(wide - 20, pure - 12, "adapters: everything that touches the world", "end"),
        _label(wide - 24, places["specs"][1] + 54, "shares no code with its targets", "end"),
        '<marker id="end" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"'
        f' orient="auto"><path d="M0 0L10 5L0 10z" fill="{_GREY}"/></marker>',
        *(_arrow(places[here], places[there]) for here, there in arrows),
        *(_box(room, *place) for room, place in places.items()),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _needed() -> list[tuple[str, str]]:
    """Return the imports between folders in order, without those implied by others."""
    rank = {room: row for row, names in enumerate(ORDER) for room in names}
    found = {(a, b) for a, b in edges() if rank.get(b, len(rank)) < rank.get(a, -1)}
    below: dict[str, set[str]] = {}
    for room in rank:
        direct = {there for here, there in found if here == room}
        below[room] = direct.union(*(below[there] for there in direct))
    return sorted(
        (here, there)
        for here, there in found
        if not any((here, between) in found and there in below[between] for between in rank)
    )


def _heights(needed: list[tuple[str, str]]) -> dict[str, int]:
    """Return the length of the longest chain of imports below each folder."""
    heights: dict[str, int] = {}
    for room in (room for names in ORDER for room in names):
        heights[room] = max(
            (heights[there] + 1 for here, there in needed if here == room), default=0
        )
    return heights


def _summary(room: str) -> str:
    """Return the first sentence of its docstring, or the names of the namespaces."""
    if room == "namespaces":
        names = sorted(name.partition(".")[2] for name in modules() if room_of(name) == room)
        return " ".join(names)
    at = {"taskmachine": "/".join(FRONT_DOOR)}.get(room, room)
    folder = REPOSITORY / at
    if not folder.exists():
        folder = REPOSITORY / "adapters" / at
    said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    sentence = said.partition(".\n")[0].partition(".  ")[0].removesuffix(".")
    return " ".join(sentence.replace("`", "").split())


def _arrow(source: tuple[int, int], dest: tuple[int, int]) -> str:
    (x1, y1), (x2, y2) = source, dest
    if y1 == y2:  # over what stands between them
        x1, y1, y2 = x1 + _WIDE // 4, y1 - _HIGH // 2, y2 - _HIGH // 2 - 2
        path = f"M{x1} {y1}C{x1 + 90} {y1 - 60} {x2 - 90} {y2 - 60} {x2} {y2}"
    else:
        path = f"M{x1} {y1 + _HIGH // 2}L{x2} {y2 - _HIGH // 2 - 2}"
    return (
        f'<path d="{path}" fill="none" stroke="{_GREY}" stroke-width="1.4" marker-end="url(#end)"/>'
    )


def _box(room: str, x: int, y: int) -> str:
    summary = _summary(room)
    lines = textwrap.wrap(summary, _LINE)
    if len(lines) > 3:  # what stands before a colon is enough
        lines = textwrap.wrap(summary.partition(":")[0], _LINE)
    begin = y - 5 * len(lines)
    said = [
        f'<text x="{x}" y="{begin + 15 + 13 * number}" text-anchor="middle" fill="{_GREY}"'
        f' font-size="10">{escape(line)}</text>'
        for number, line in enumerate(lines)
    ]
    corner = f'x="{x - _WIDE // 2}" y="{y - _HIGH // 2}"'
    return "\n".join(
        [
            f'<rect {corner} width="{_WIDE}" height="{_HIGH}" rx="8" fill="#fff"'
            f' stroke="{_COLOURS.get(room, _BLUE)}" stroke-width="1.6"/>',
            f'<text x="{x}" y="{begin}" text-anchor="middle" fill="#0f172a"'
            f' font-weight="bold">{room}</text>',
            *said,
        ]
    )


def _label(x: int, y: int, text: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{_GREY}" font-size="11">{text}</text>'
    )
