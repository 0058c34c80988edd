"""`x-mcp-header` annotations of tool parameters that requests repeat in headers (2026-07-28)."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

__all__ = [
    "Annotation",
    "annotations_of",
    "empty_fault",
    "has_valid_annotations",
    "header_parameters",
    "path_fault",
    "token_fault",
    "type_fault",
]

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NAMED: Final = frozenset(  # keywords that map names to schemas
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
_INNER: Final = frozenset(  # keywords that contain a schema or a list of schemas
    {"items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"}
    | {"oneOf", "anyOf", "allOf", "not", "if", "then", "else"}
    | {"additionalProperties", "unevaluatedProperties", "propertyNames"}
)


@attrs.frozen
class Annotation:
    """An `x-mcp-header` in a tool's input schema."""

    tool: str
    value: Any
    schema: Mapping[str, Any]
    """The annotated schema."""
    chain: tuple[str, ...]
    """The keywords on the path to it."""
    path: tuple[str, ...]
    """The property names on the path to it."""

    @property
    def words(self) -> str:
        """Its description in a finding."""
        return f"'x-mcp-header': {self.value!r} of tool {self.tool!r}"


def annotations_of(
    tool: str, schema: Any, chain: tuple[str, ...] = (), path: tuple[str, ...] = ()
) -> Iterator[Annotation]:
    """Yield every annotation in a tool's input schema, at any depth."""
    if not isinstance(schema, dict):
        return
    if "x-mcp-header" in schema:
        yield Annotation(tool, schema["x-mcp-header"], schema, chain, path)
    for keyword, inner in schema.items():
        if keyword in _NAMED and isinstance(inner, dict):
            for name, one in inner.items():
                yield from annotations_of(tool, one, (*chain, keyword), (*path, name))
        elif keyword in _INNER:
            for one in inner if isinstance(inner, list) else [inner]:
                yield from annotations_of(tool, one, (*chain, keyword), path)


def header_parameters(schema: Any) -> dict[tuple[str, ...], str]:
    """Return the annotation of each parameter that headers repeat, by its path.

    Empty if any annotation is invalid, since clients reject such a tool.
    """
    if not has_valid_annotations(schema):
        return {}
    return {annotation.path: annotation.value for annotation in annotations_of("", schema)}


def has_valid_annotations(schema: Any) -> bool:
    """Return whether all annotations are valid; true if there are none."""
    annotations = list(annotations_of("", schema))
    rules = (empty_fault, token_fault, type_fault, path_fault)
    is_valid = all(rule(annotation) is None for rule in rules for annotation in annotations)
    names = {str(annotation.value).lower() for annotation in annotations}
    return is_valid and len(names) == len(annotations)


def empty_fault(annotation: Annotation) -> str | None:
    """Describe the fault of an empty annotation."""
    return "is empty" if annotation.value == "" else None


def token_fault(annotation: Annotation) -> str | None:
    """Describe why an annotation cannot be part of a header name; an empty one is `empty_fault`."""
    if not isinstance(annotation.value, str):
        return "is not a string"
    is_token = annotation.value == "" or _TOKEN.fullmatch(annotation.value)
    return None if is_token else "cannot be part of a header name"


def type_fault(annotation: Annotation) -> str | None:
    """Describe an annotation on a type other than integer, string, boolean, or null beside them."""
    kinds = annotation.schema.get("type")
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind not in (None, "null", "integer", "string", "boolean"):
            return f"is on a parameter of type {kind!r}"
    return None


def path_fault(annotation: Annotation) -> str | None:
    """Describe an annotation that is reached through other keywords than `properties`."""
    if not annotation.chain:
        return "is on the arguments object itself"
    other = next((step for step in annotation.chain if step != "properties"), None)
    return None if other is None else f"is reached through {other!r}"
