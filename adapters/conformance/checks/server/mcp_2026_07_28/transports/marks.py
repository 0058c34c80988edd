"""`x-mcp-header` of 2026-07-28: where it may stand in the schema of a tool, and what it may say."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from taskmachine.adapters.conformance.history import Exchange, History
from taskmachine.adapters.conformance.judging import Observation, bad, check, good
from taskmachine.adapters.conformance.wire.annotations import (
    Annotation as Mark,
)
from taskmachine.adapters.conformance.wire.annotations import (
    annotations_of as marks_of,
)
from taskmachine.adapters.conformance.wire.annotations import (
    empty_fault,
    token_fault,
    type_fault,
)
from taskmachine.adapters.conformance.wire.annotations import (
    path_fault as way_fault,
)

__all__: list[str] = []

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_MARKED: Final = "a tool with 'x-mcp-header'"

_BARRED: Final = frozenset(  # arrays, composition, conditions, references
    {"items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"}
    | {"oneOf", "anyOf", "allOf", "not", "if", "then", "else", "$defs", "definitions"}
)


def _tools(history: History) -> Iterator[tuple[list[Mark], Exchange]]:
    """The marks of each listed tool that has any."""
    for exchange in history.calls("tools/list"):
        tools = exchange.fields.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict):
                marks = list(marks_of(str(tool.get("name")), tool.get("inputSchema")))
                if marks:
                    yield marks, exchange


def _chain_fault(mark: Mark) -> str | None:
    barred = next((step for step in mark.chain if step in _BARRED), None)
    return None if barred is None else f"is behind {barred!r}"


def _control_fault(mark: Mark) -> str | None:
    return "has control characters" if _CONTROL.search(str(mark.value)) else None


@check("2026-07-28:x-mcp-header-not-empty", needs=_MARKED, fault=empty_fault)
@check("2026-07-28:x-mcp-header-token", needs=_MARKED, fault=token_fault)
@check("2026-07-28:x-mcp-header-no-control", needs=_MARKED, fault=_control_fault)
@check("2026-07-28:x-mcp-header-primitive", needs=_MARKED, fault=type_fault)
@check("2026-07-28:x-mcp-header-reachable", needs=_MARKED, fault=way_fault)
@check("2026-07-28:x-mcp-header-chain", needs=_MARKED, fault=_chain_fault)
def each_mark_keeps_the_rule(
    history: History, fault: Callable[[Mark], str | None]
) -> Iterator[Observation]:
    """A mark can be part of a header name, on a primitive that only `properties` lead to."""
    for marks, exchange in _tools(history):
        for mark in marks:
            words = fault(mark)
            yield good(exchange) if words is None else bad(f"{mark.words} {words}", exchange)


@check("2026-07-28:param-headers-optional", needs="a tool")
def marks_are_optional(history: History) -> Iterator[Observation]:
    """With them or without, both are fine."""
    return (good(e) for e in history.calls("tools/list") if e.fields.get("tools"))


@check("2026-07-28:x-mcp-header-unique", needs=_MARKED)
def marks_are_unique(history: History) -> Iterator[Observation]:
    """No two marks of a tool are the same, whatever their case."""
    for marks, exchange in _tools(history):
        counted = Counter(str(mark.value).lower() for mark in marks)
        twice = next((m for m in marks if counted[str(m.value).lower()] > 1), None)
        if twice is None:
            yield good(exchange)
        else:
            yield bad(f"{twice.words} is there more than once", exchange)
