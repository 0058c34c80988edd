"""Checks of `x-mcp-header` annotations in tool schemas (2026-07-28)."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from taskmachine.adapters.conformance.history import Exchange, History
from taskmachine.adapters.conformance.judging import Observation, bad, check, good
from taskmachine.adapters.conformance.wire.annotations import (
    Annotation,
    annotations_of,
    empty_fault,
    path_fault,
    token_fault,
    type_fault,
)

__all__: list[str] = []

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_ANNOTATED: Final = "a tool with 'x-mcp-header'"

_BARRED: Final = frozenset(  # arrays, composition, conditions, references
    {"items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"}
    | {"oneOf", "anyOf", "allOf", "not", "if", "then", "else", "$defs", "definitions"}
)


def _tools(history: History) -> Iterator[tuple[list[Annotation], Exchange]]:
    """Yield the annotations of each listed tool that has any."""
    for exchange in history.calls("tools/list"):
        tools = exchange.fields.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict):
                annotations = list(annotations_of(str(tool.get("name")), tool.get("inputSchema")))
                if annotations:
                    yield annotations, exchange


def _chain_fault(annotation: Annotation) -> str | None:
    barred = next((step for step in annotation.chain if step in _BARRED), None)
    return None if barred is None else f"is nested inside {barred!r}"


def _control_fault(annotation: Annotation) -> str | None:
    return "contains control characters" if _CONTROL.search(str(annotation.value)) else None


@check("2026-07-28:x-mcp-header-not-empty", needs=_ANNOTATED, fault=empty_fault)
@check("2026-07-28:x-mcp-header-token", needs=_ANNOTATED, fault=token_fault)
@check("2026-07-28:x-mcp-header-no-control", needs=_ANNOTATED, fault=_control_fault)
@check("2026-07-28:x-mcp-header-primitive", needs=_ANNOTATED, fault=type_fault)
@check("2026-07-28:x-mcp-header-reachable", needs=_ANNOTATED, fault=path_fault)
@check("2026-07-28:x-mcp-header-chain", needs=_ANNOTATED, fault=_chain_fault)
def annotation_is_valid(
    history: History, fault: Callable[[Annotation], str | None]
) -> Iterator[Observation]:
    """Check that an annotation fits a header name, on a primitive reached by `properties`."""
    for annotations, exchange in _tools(history):
        for annotation in annotations:
            words = fault(annotation)
            yield good(exchange) if words is None else bad(f"{annotation.words} {words}", exchange)


@check("2026-07-28:param-headers-optional", needs="a tool")
def annotations_are_optional(history: History) -> Iterator[Observation]:
    """Record lists of tools; annotations are optional."""
    return (good(e) for e in history.calls("tools/list") if e.fields.get("tools"))


@check("2026-07-28:x-mcp-header-unique", needs=_ANNOTATED)
def annotations_are_unique(history: History) -> Iterator[Observation]:
    """Check that the annotations of a tool are unique, ignoring case."""
    for annotations, exchange in _tools(history):
        counted = Counter(str(annotation.value).lower() for annotation in annotations)
        twice = next((m for m in annotations if counted[str(m.value).lower()] > 1), None)
        if twice is None:
            yield good(exchange)
        else:
            yield bad(f"{twice.words} is used more than once in the tool", exchange)
