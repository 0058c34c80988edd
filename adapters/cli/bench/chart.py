"""Draw task throughput as an SVG: a bar for each contestant on a logarithmic scale."""

import math
from typing import Final
from xml.sax.saxutils import escape

from taskmachine.adapters.cli.bench.figures import Report, Row, case_of
from taskmachine.adapters.cli.bench.judging import find

__all__ = ["draw"]

CLIENTS: Final = 32

_WIDTH: Final = 930
_LEFT: Final = 300
_RIGHT: Final = 150
_TOP: Final = 74
_BAR: Final = 24
_STEP: Final = 36
_GREY: Final = "#64748b"
_INK: Final = "#1e293b"
_OURS: Final = "#2563eb"
_THEIRS: Final = "#94a3b8"


def draw(report: Report) -> str:
    """Return an SVG with its own background and no external fonts."""
    case = case_of(CLIENTS)
    rows = [row for row in report.rows if row.measure == "task" and row.case in (case, "")]
    measured = [row for row in rows if row.values]
    rates = [row.values["rate"] for row in measured] or [1.0]
    low = 10 ** math.floor(math.log10(max(min(rates) / 2, 1e-3)))
    high = max(10 ** math.ceil(math.log10(max(rates))), low * 10)
    height = _TOP + _STEP * max(len(rows), 1) + 46
    title = f"Whole tasks a second, {case}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" role="img" aria-label="{title}" '
        'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13">',
        f"<title>{title}</title>",
        '<rect width="100%" height="100%" rx="12" fill="#f8fafc"/>',
        _text(24, 32, title, _INK, "start", "bold"),
        _text(24, 52, "The scale is logarithmic. One core for the server.", _GREY, "start"),
    ]
    power = low
    while power <= high * 1.001:
        x = _x(power, low, high)
        bottom = height - 38
        parts.append(f'<path d="M{x:.1f} {_TOP - 8}V{bottom}" stroke="#cbd5e1" fill="none"/>')
        parts.append(_text(x, bottom + 18, f"{power:,.0f}" if power >= 1 else f"{power:g}", _GREY))
        power *= 10
    for at, row in enumerate(rows):
        parts += _bar(report, row, _TOP + at * _STEP, low, high)
    return "\n".join([*parts, "</svg>", ""])


def _bar(report: Report, row: Row, y: float, low: float, high: float) -> list[str]:
    middle = y + _BAR / 2 + 4
    name = _text(_LEFT - 12, middle, f"{row.contestant}, {row.revision}", _INK, "end")
    if not row.values:
        return [name, _text(_LEFT + 8, middle, "not measured", _GREY, "start")]
    rate = row.values["rate"]
    width = max(_x(rate, low, high) - _LEFT, 1)
    is_ours = row.contestant.startswith("ours")
    ours = find(report.rows, "task", "ours, memory", row.revision, row.case)
    words = f"{rate:,.0f}"
    if not is_ours and ours is not None:
        words += f" (ours: {ours.values['rate'] / rate:.1f} x)"
    return [
        name,
        f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR}" rx="4" '
        f'fill="{_OURS if is_ours else _THEIRS}"/>',
        _text(_LEFT + width + 8, middle, words, _INK, "start"),
    ]


def _x(rate: float, low: float, high: float) -> float:
    part = math.log(max(rate, low) / low) / math.log(high / low)
    return _LEFT + part * (_WIDTH - _LEFT - _RIGHT)


def _text(
    x: float, y: float, words: str, colour: str, anchor: str = "middle", weight: str = "normal"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" '
        f'font-weight="{weight}" stroke="#f8fafc" stroke-width="4" paint-order="stroke">'
        f"{escape(words)}</text>"
    )
