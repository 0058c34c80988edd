"""The performance bounds for our server, as data for `judging`."""

from typing import Final

import attrs

from taskmachine.adapters.cli.bench.contestants import REVISIONS

__all__ = ["BOUNDS", "LARGEST", "STEPS", "Bound"]

LARGEST: Final = "the most tasks"
"""Stands for the case with the largest number of tasks that was measured."""

STEPS: Final = 2
"""Commits per whole task if none are shared: created and started, completed."""


@attrs.frozen
class Bound:
    """A limit on one value, or on its ratio to the value of another row, per revision."""

    measure: str
    case: str
    contestant: str
    value: str
    words: str
    at_least: float | None = None
    at_most: float | None = None
    beside: str = ""
    """The contestant whose value is the divisor, in the same measure and case."""
    revisions: tuple[str, ...] = REVISIONS
    needs_disk: bool = False
    """Whether the bound applies only if the disk commits fast enough for half of memory's rate."""


_MEMORY: Final = "ours, memory"
_SQLITE: Final = "ours, SQLite"
_32: Final = "32 at a time"
_OLD, _NEW = ("2025-11-25",), ("2026-07-28",)


def _tasks(contestant: str, words: str, least: float, beside: str, where: tuple[str, ...]) -> Bound:
    return Bound("task", _32, contestant, "rate", words, least, beside=beside, revisions=where)


_AGAINST_PEERS: Final = (
    _tasks(_MEMORY, "whole tasks >= 10 x FastMCP 4", 10, "FastMCP 4.1.2, memory", _NEW),
    _tasks(_MEMORY, "whole tasks >= 10 x mcp 1.30.0", 10, "mcp 1.30.0", _OLD),
    _tasks(_MEMORY, "whole tasks >= 3 x TypeScript SDK", 3, "TypeScript SDK 1.32.2", _OLD),
    _tasks(_SQLITE, "whole tasks >= 5 x FastMCP 4 in memory", 5, "FastMCP 4.1.2, memory", _NEW),
)

_HALF: Final = Bound(
    "task",
    _32,
    _SQLITE,
    "rate",
    "whole tasks >= 50 % of memory",
    at_least=0.5,
    beside=_MEMORY,
    needs_disk=True,
)

_AGAINST_FLOOR: Final = (
    Bound("task", _32, _MEMORY, "reached", "whole tasks >= 35 % of the floor", 0.35),
    Bound("get", _32, _MEMORY, "reached", "tasks/get >= 50 % of the floor", 0.50),
)

_WAITING: Final = tuple(
    Bound("wake", "100 waiters", name, "p99_ms", "wake, p99 < 5 ms", at_most=5)
    for name in (_MEMORY, _SQLITE)
)


def _flat(request: str, words: str, where: tuple[str, ...] = REVISIONS) -> Bound:
    name = f"{request}_x"
    return Bound("grow", LARGEST, _MEMORY, name, words, at_most=1.3, revisions=where)


_GROWTH: Final = (
    _flat("create", "create <= 1.3 x of 1,000 tasks"),
    _flat("get", "get <= 1.3 x of 1,000 tasks"),
    _flat("page", "a page <= 1.3 x of 1,000 tasks", _OLD),
    Bound("grow", LARGEST, _MEMORY, "kb_each", "<= 2.0 KB for each stored task", at_most=2.0),
)

_STARTING: Final = (
    Bound("start", "to the first answer", _MEMORY, "ms", "start < 400 ms", at_most=400),
    Bound(
        "import",
        "in a new process",
        "taskmachine.statemachine",
        "ms",
        "import <= 1.3 x attrs and transitions",
        at_most=1.3,
        beside="attrs, transitions",
        revisions=("",),
    ),
)

BOUNDS: Final = (
    *_AGAINST_FLOOR,
    *_AGAINST_PEERS,
    _HALF,
    *_WAITING,
    *_GROWTH,
    *_STARTING,
)
