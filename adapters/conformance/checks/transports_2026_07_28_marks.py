"""`x-mcp-header` of 2026-07-28: where it may stand in the schema of a tool, and what it may say."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import attrs

from taskmachine.adapters.conformance.history import Exchange, History
from taskmachine.adapters.conformance.judging import Observation, bad, check, good

__all__ = ["followed_marks"]

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_MARKED: Final = "a tool with 'x-mcp-header'"

_NAMED: Final = frozenset(  # keywords that hold schemas by name
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
_INNER: Final = frozenset(  # keywords that hold a schema, or a list of them
    {"items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"}
    | {"oneOf", "anyOf", "allOf", "not", "if", "then", "else"}
    | {"additionalProperties", "unevaluatedProperties", "propertyNames"}
)
_BARRED: Final = frozenset(  # arrays, composition, conditions, references
    {"items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"}
    | {"oneOf", "anyOf", "allOf", "not", "if", "then", "else", "$defs", "definitions"}
)


@attrs.frozen
class Mark:
    """One `x-mcp-header` in the schema of a tool."""

    tool: str
    value: Any
    schema: Mapping[str, Any]
    """Where it stands."""
    chain: tuple[str, ...]
    """The keywords that lead there."""
    path: tuple[str, ...]
    """The names of the properties on the way."""

    @property
    def words(self) -> str:
        """For a finding."""
        return f"'x-mcp-header': {self.value!r} of tool {self.tool!r}"


def _marks(
    tool: str, schema: Any, chain: tuple[str, ...] = (), path: tuple[str, ...] = ()
) -> Iterator[Mark]:
    if not isinstance(schema, dict):
        return
    if "x-mcp-header" in schema:
        yield Mark(tool, schema["x-mcp-header"], schema, chain, path)
    for keyword, inner in schema.items():
        if keyword in _NAMED and isinstance(inner, dict):
            for name, one in inner.items():
                yield from _marks(tool, one, (*chain, keyword), (*path, name))
        elif keyword in _INNER:
            for one in inner if isinstance(inner, list) else [inner]:
                yield from _marks(tool, one, (*chain, keyword), path)


def followed_marks(schema: Any) -> dict[tuple[str, ...], str]:
    """Path and mark of each parameter that goes into a header.

    Empty if any mark is against the rules: such a tool is no tool for any client.
    """
    marks = list(_marks("", schema))
    rules = (_empty_fault, _token_fault, _type_fault, _way_fault)
    is_fine = all(rule(mark) is None for rule in rules for mark in marks)
    is_unique = len({str(mark.value).lower() for mark in marks}) == len(marks)
    return {mark.path: mark.value for mark in marks} if is_fine and is_unique else {}


def _tools(history: History) -> Iterator[tuple[list[Mark], Exchange]]:
    """The marks of each listed tool that has any."""
    for exchange in history.calls("tools/list"):
        tools = exchange.fields.get("tools")
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict):
                marks = list(_marks(str(tool.get("name")), tool.get("inputSchema")))
                if marks:
                    yield marks, exchange


def _each(history: History, fault: Callable[[Mark], str | None]) -> Iterator[Observation]:
    for marks, exchange in _tools(history):
        for mark in marks:
            words = fault(mark)
            yield good(exchange) if words is None else bad(f"{mark.words} {words}", exchange)


@check("2026-07-28:param-headers-optional", needs="a tool")
def marks_are_optional(history: History) -> Iterator[Observation]:
    """With them or without, both are fine."""
    return (good(e) for e in history.calls("tools/list") if e.fields.get("tools"))


@check("2026-07-28:x-mcp-header-not-empty", needs=_MARKED)
def marks_are_not_empty(history: History) -> Iterator[Observation]:
    """A mark says something."""
    return _each(history, _empty_fault)


def _empty_fault(mark: Mark) -> str | None:
    return "is empty" if mark.value == "" else None


@check("2026-07-28:x-mcp-header-token", needs=_MARKED)
def marks_are_tokens(history: History) -> Iterator[Observation]:
    """A mark can be part of the name of a header; empty ones have a rule of their own."""
    return _each(history, _token_fault)


def _token_fault(mark: Mark) -> str | None:
    if not isinstance(mark.value, str):
        return "is no text"
    is_token = mark.value == "" or _TOKEN.fullmatch(mark.value)
    return None if is_token else "cannot be in the name of a header"


@check("2026-07-28:x-mcp-header-no-control", needs=_MARKED)
def marks_have_no_control_characters(history: History) -> Iterator[Observation]:
    """A mark cannot end a line."""
    return _each(
        history,
        lambda mark: (
            "has control characters" if _CONTROL.search(str(mark.value)) is not None else None
        ),
    )


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


@check("2026-07-28:x-mcp-header-primitive", needs=_MARKED)
def marks_are_on_primitives(history: History) -> Iterator[Observation]:
    """A mark stands on an integer, a string or a boolean; null may be allowed beside."""
    return _each(history, _type_fault)


def _type_fault(mark: Mark) -> str | None:
    kinds = mark.schema.get("type")
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind not in (None, "null", "integer", "string", "boolean"):
            return f"is on the type {kind!r}"
    return None


@check("2026-07-28:x-mcp-header-reachable", needs=_MARKED)
def marks_are_reachable(history: History) -> Iterator[Observation]:
    """Only `properties` lead to a mark."""
    return _each(history, _way_fault)


def _way_fault(mark: Mark) -> str | None:
    if not mark.chain:
        return "is on the arguments as a whole"
    other = next((step for step in mark.chain if step != "properties"), None)
    return None if other is None else f"is reached through {other!r}"


@check("2026-07-28:x-mcp-header-chain", needs=_MARKED)
def marks_are_not_behind_other_keywords(history: History) -> Iterator[Observation]:
    """No array, composition, condition or reference leads to a mark."""
    return _each(history, _chain_fault)


def _chain_fault(mark: Mark) -> str | None:
    barred = next((step for step in mark.chain if step in _BARRED), None)
    return None if barred is None else f"is behind {barred!r}"
