"""`x-mcp-header` of 2026-07-28: the parameters of a tool that a request repeats in headers."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

__all__ = [
    "Mark",
    "empty_fault",
    "followed_marks",
    "is_rightly_marked",
    "marks_of",
    "token_fault",
    "type_fault",
    "way_fault",
]

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NAMED: Final = frozenset(  # keywords that hold schemas by name
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
_INNER: Final = frozenset(  # keywords that hold a schema, or a list of them
    {"items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"}
    | {"oneOf", "anyOf", "allOf", "not", "if", "then", "else"}
    | {"additionalProperties", "unevaluatedProperties", "propertyNames"}
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


def marks_of(
    tool: str, schema: Any, chain: tuple[str, ...] = (), path: tuple[str, ...] = ()
) -> Iterator[Mark]:
    """Find every mark in the schema of a tool, wherever it stands."""
    if not isinstance(schema, dict):
        return
    if "x-mcp-header" in schema:
        yield Mark(tool, schema["x-mcp-header"], schema, chain, path)
    for keyword, inner in schema.items():
        if keyword in _NAMED and isinstance(inner, dict):
            for name, one in inner.items():
                yield from marks_of(tool, one, (*chain, keyword), (*path, name))
        elif keyword in _INNER:
            for one in inner if isinstance(inner, list) else [inner]:
                yield from marks_of(tool, one, (*chain, keyword), path)


def followed_marks(schema: Any) -> dict[tuple[str, ...], str]:
    """Path and mark of each parameter that goes into a header.

    Empty if any mark is against the rules: such a tool is no tool for any client.
    """
    is_followed = is_rightly_marked(schema)
    return {mark.path: mark.value for mark in marks_of("", schema)} if is_followed else {}


def is_rightly_marked(schema: Any) -> bool:
    """Tell whether every mark keeps the rules; true also where there is none."""
    marks = list(marks_of("", schema))
    rules = (empty_fault, token_fault, type_fault, way_fault)
    is_fine = all(rule(mark) is None for rule in rules for mark in marks)
    return is_fine and len({str(mark.value).lower() for mark in marks}) == len(marks)


def empty_fault(mark: Mark) -> str | None:
    """Say if a mark is empty."""
    return "is empty" if mark.value == "" else None


def token_fault(mark: Mark) -> str | None:
    """Say why a mark cannot be part of a header name; an empty one has a rule of its own."""
    if not isinstance(mark.value, str):
        return "is no text"
    is_token = mark.value == "" or _TOKEN.fullmatch(mark.value)
    return None if is_token else "cannot be in the name of a header"


def type_fault(mark: Mark) -> str | None:
    """Say if a mark stands on anything but an integer, a string or a boolean, or null beside."""
    kinds = mark.schema.get("type")
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind not in (None, "null", "integer", "string", "boolean"):
            return f"is on the type {kind!r}"
    return None


def way_fault(mark: Mark) -> str | None:
    """Say if anything but `properties` leads to a mark."""
    if not mark.chain:
        return "is on the arguments as a whole"
    other = next((step for step in mark.chain if step != "properties"), None)
    return None if other is None else f"is reached through {other!r}"
