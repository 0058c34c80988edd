"""Random values of a JSON Schema, for the keywords that the message schemas use."""

from typing import Any

from hypothesis import strategies as st

from tests.strategies import json_values, text

DEEPEST = 6  # below this depth, only required properties


def values_of(schema: dict[str, Any], name: str | None = None) -> st.SearchStrategy[Any]:
    """Return a strategy for values of the schema, or of one of its definitions."""
    return _values(schema if name is None else {"$ref": f"#/$defs/{name}"}, schema, 0)


def _values(schema: Any, root: dict[str, Any], depth: int) -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        return st.deferred(lambda: _values(_resolve(schema["$ref"], root), root, depth + 1))
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    for union in ("anyOf", "oneOf"):
        if union in schema:
            options = [option for option in schema[union] if not _is_deep(option, root, depth)]
            return st.one_of(*(_values(option, root, depth) for option in options or schema[union]))
    match schema.get("type"):
        case list() as kinds:
            return st.one_of(*(_values({**schema, "type": kind}, root, depth) for kind in kinds))
        case "object":
            return _objects(schema, root, depth)
        case "array":
            items = _values(schema.get("items", {}), root, depth + 1)
            return st.lists(items, max_size=0 if depth > DEEPEST else 2)
        case "string":
            return st.from_regex(schema["pattern"]) if "pattern" in schema else text
        case "integer":  # durations, ids and counts: none of them is negative
            return st.integers(0, 2**53 - 1)
        case "number":
            return st.integers(0, 1) | st.floats(0, 1)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
    return json_values


def _objects(schema: Any, root: dict[str, Any], depth: int) -> st.SearchStrategy[Any]:
    fields = {
        name: _values(field, root, depth + 1)
        for name, field in schema.get("properties", {}).items()
    }
    required = {name: fields.get(name, json_values) for name in schema.get("required", [])}
    optional = {name: field for name, field in fields.items() if name not in required}
    extra = schema.get("additionalProperties", True)
    if depth > DEEPEST:
        return st.fixed_dictionaries(required)
    known = st.fixed_dictionaries(required, optional=optional)
    if extra is False or fields:
        return known
    more = st.dictionaries(
        text, _values(extra if extra is not True else {}, root, depth + 1), max_size=2
    )
    return st.builds(lambda a, b: {**b, **a}, known, more)


def _is_deep(schema: Any, root: dict[str, Any], depth: int) -> bool:
    target = _resolve(schema["$ref"], root) if "$ref" in schema else schema
    return depth > DEEPEST and target.get("type") in ("object", "array")


def _resolve(ref: str, root: dict[str, Any]) -> Any:
    target: Any = root
    for step in ref.removeprefix("#/").split("/"):
        target = target[step]
    return target
