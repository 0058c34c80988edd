"""An SVG of a task's states with the observed and the legal transitions."""

from collections.abc import Iterator
from typing import Final

from taskmachine.adapters.conformance.judging import Verdict
from taskmachine.adapters.conformance.report import Run
from taskmachine.specs import load_lifecycle

__all__ = ["draw"]

WIDTH: Final = 640
HEIGHT: Final = 300
_PLACES: Final = {  # centre of each box
    "working": (110, 80),
    "input_required": (110, 220),
    "completed": (520, 50),
    "failed": (520, 150),
    "cancelled": (520, 250),
}
_BOX: Final = (130, 36)


def draw(run: Run) -> str:
    """Draw legal transitions that were not observed in grey, observed ones in green, illegal in
    red.

    Observed transitions may skip states, since polling does not see every change.
    """
    rules = load_lifecycle()["generation"][run.revision]
    legal = {(a, b) for a, b in rules["edges"]}
    seen = {edge: count for edge, count in run.edges.items() if set(edge) <= set(_PLACES)}
    ends = set(rules["terminal"])
    parts = [_edge(a, b, 0, "legal") for a, b in sorted(legal - set(seen))]
    for (a, b), count in sorted(seen.items()):
        is_broken = a in ends or (run.count(Verdict.FAIL) > 0 and (a, b) not in legal)
        parts.append(_edge(a, b, count, "broken" if is_broken else "seen"))
    parts += _boxes(ends)
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
    return f'<svg {size} role="img">{_STYLE}{"".join(parts)}</svg>'


_STYLE: Final = """<title>Task states and observed transitions</title>
<style>text{font:13px system-ui,sans-serif;fill:currentColor;text-anchor:middle}
rect{fill:none;stroke:currentColor}.legal{stroke:#8886;stroke-dasharray:4 4}
.seen{stroke:#43a047;stroke-width:2}.broken{stroke:#e53935;stroke-width:2.5}
path{fill:none;marker-end:url(#tip)}#tip path{fill:context-stroke;marker-end:none}</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
orient="auto-start-reverse"><path d="M0 0L8 4L0 8z"/></marker></defs>"""


def _boxes(ends: set[str]) -> Iterator[str]:
    width, height = _BOX
    for name, (x, y) in _PLACES.items():
        corner = 14 if name in ends else 4
        yield (
            f'<rect x="{x - width / 2}" y="{y - height / 2}" width="{width}" height="{height}" '
            f'rx="{corner}"/><text x="{x}" y="{y + 4}">{name}</text>'
        )


def _edge(start: str, end: str, count: int, kind: str) -> str:
    (x1, y1), (x2, y2) = _PLACES[start], _PLACES[end]
    half_width, half_height = _BOX[0] / 2, _BOX[1] / 2
    if x1 == x2:  # vertical neighbours: opposite arrows side by side
        aside = 18 if y1 < y2 else -18
        down = 1 if y1 < y2 else -1
        y1, y2 = round(y1 + down * half_height), round(y2 - down * half_height)
        x1, x2 = x1 + aside, x2 + aside
        if abs(y2 - y1) > 120:  # bend around the box between them
            bend = x1 + 90
            path = f"M{x1} {y1}C{bend} {y1} {bend} {y2} {x2} {y2}"
        else:
            path = f"M{x1} {y1}L{x2} {y2}"
    else:
        right = 1 if x1 < x2 else -1
        x1, x2 = round(x1 + right * half_width), round(x2 - right * half_width)
        path = f"M{x1} {y1}L{x2} {y2}"
    middle = (x1 + x2) / 2, (y1 + y2) / 2 - 4
    label = f'<text x="{middle[0]}" y="{middle[1]}">{count}</text>' if count else ""
    return f'<path class="{kind}" d="{path}"/>{label}'
