"""Draw the picture of docs/howto/operations.md: replicas, workers and a database."""

from typing import Final, NamedTuple

__all__ = ["deployment"]


class Box(NamedTuple):
    """A process, and its place in the picture."""

    words: str
    x: int
    y: int
    colour: str


_GREY, _BLUE, _GREEN, _AMBER = "#64748b", "#2563eb", "#15803d", "#b7791f"
_WIDE, _HIGH = 130, 40

_BOXES: Final = {
    "clients": Box("clients", 80, 130, _GREY),
    "balancer": Box("load balancer", 250, 130, _GREY),
    "replica 1": Box("replica", 430, 50, _BLUE),
    "replica 2": Box("replica", 430, 130, _BLUE),
    "replica 3": Box("replica", 430, 210, _BLUE),
    "database": Box("PostgreSQL", 650, 130, _GREEN),
    "standby": Box("standby", 650, 260, _GREEN),
    "worker 1": Box("worker", 850, 85, _AMBER),
    "worker 2": Box("worker", 850, 175, _AMBER),
}
_ARROWS: Final = [
    ("clients", "balancer", ""),
    *(("balancer", f"replica {number}", "") for number in (1, 2, 3)),
    *(("replica " + number, "database", "") for number in "123"),
    *(("database", f"worker {number}", "both") for number in (1, 2)),
]
_WORDS: Final = [(590, 68, "tasks, tickets"), (830, 228, "tickets; steps, outcomes")]


def deployment() -> str:
    """Return an SVG for light and dark pages."""
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 940 300" width="940" height="300"'
        ' role="img" aria-label="Replicas, workers and a database"'
        ' font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13">',
        "<title>Replicas, workers and a database</title>",
        '<rect width="100%" height="100%" rx="12" fill="#f8fafc"/>',
        '<marker id="end" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"'
        f' orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="{_GREY}"/></marker>',
        *(_arrow(_BOXES[source], _BOXES[dest], kind) for source, dest, kind in _ARROWS),
        _line(650, 150, 650, 238, "", ' stroke-dasharray="5 4"'),
        *(_words(x, y, text, _GREY) for x, y, text in _WORDS),
        *(_box(box) for box in _BOXES.values()),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _arrow(source: Box, dest: Box, kind: str) -> str:
    return _line(source.x + _WIDE // 2, source.y, dest.x - _WIDE // 2 - 2, dest.y, kind)


def _line(x1: int, y1: int, x2: int, y2: int, kind: str, more: str = "") -> str:
    start = ' marker-start="url(#end)"' if kind == "both" else ""
    return (
        f'<path d="M{x1} {y1}L{x2} {y2}" fill="none" stroke="{_GREY}" stroke-width="1.6"'
        f' marker-end="url(#end)"{start}{more}/>'
    )


def _box(box: Box) -> str:
    corner = f'x="{box.x - _WIDE // 2}" y="{box.y - _HIGH // 2}"'
    return (
        f'<rect {corner} width="{_WIDE}" height="{_HIGH}" rx="8" fill="#fff"'
        f' stroke="{box.colour}" stroke-width="1.6"/>' + _words(box.x, box.y + 5, box.words)
    )


def _words(x: int, y: int, text: str, colour: str = "#0f172a") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="middle" fill="{colour}">{text}</text>'
