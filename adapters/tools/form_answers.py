"""Forms, which are flat objects of primitives, and the validation of their answers."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from taskmachine.protocol.jsonvalue import JSONObject

__all__ = ["fits", "one_field"]


def one_field(field: JSONObject) -> JSONObject:
    """Return the schema of a form with a single field, called `value`."""
    properties = {"value": {"title": "Answer", **field}}
    return {"type": "object", "properties": properties, "required": ["value"]}


def fits(schema: JSONObject, content: Any) -> bool:
    """Return True if the content fits the form.

    Fields with schemas that forms do not support are not checked, and neither are patterns and
    formats: a pattern could take unbounded time.
    """
    if not isinstance(content, dict):
        return False
    properties = schema.get("properties", {})
    return all(name in content for name in schema.get("required", ())) and all(
        _fits(field, content[name]) for name, field in properties.items() if name in content
    )


def _fits(field: Mapping[str, Any], value: Any) -> bool:
    choices = _choices(field)
    if choices is not None:
        return value in choices
    kind = _KINDS.get(field.get("type", ""))
    return kind is None or kind(field, value)


def _choices(field: Mapping[str, Any]) -> list[Any] | None:
    titled = field.get("oneOf") or field.get("anyOf")
    if titled:
        return [option.get("const") for option in titled]
    return field.get("enum")


def _is_text(field: Mapping[str, Any], value: Any) -> bool:
    return isinstance(value, str) and _is_between(field, len(value), "minLength", "maxLength")


def _is_number(field: Mapping[str, Any], value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and _is_between(field, value, "minimum", "maximum")


def _is_integer(field: Mapping[str, Any], value: Any) -> bool:
    return _is_number(field, value) and value == int(value)


def _is_boolean(_: Mapping[str, Any], value: Any) -> bool:
    return isinstance(value, bool)


def _is_choice_of_several(field: Mapping[str, Any], value: Any) -> bool:
    return (
        isinstance(value, list)
        and _is_between(field, len(value), "minItems", "maxItems")
        and all(_fits(field.get("items", {}), item) for item in value)
    )


def _is_between(field: Mapping[str, Any], size: float, least: str, most: str) -> bool:
    return bool(field.get(least, size) <= size <= field.get(most, size))


_KINDS: Final[Mapping[str, Callable[[Mapping[str, Any], Any], bool]]] = {
    "string": _is_text,
    "number": _is_number,
    "integer": _is_integer,
    "boolean": _is_boolean,
    "array": _is_choice_of_several,
}
