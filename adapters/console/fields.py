"""Form fields for the schema of a question, and their input as JSON.

Schemas are untrusted.  A property that no form field fits gets a field for JSON, so that every
question can be answered.
"""

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final

import attrs

from taskmachine.adapters.tools.form_answers import fits
from taskmachine.protocol.jsonvalue import JSONObject, decode_json

__all__ = ["Field", "fields_of", "read_field"]

MOST_FIELDS: Final = 100
MOST_OPTIONS: Final = 500

_INPUTS: Final = {"email": "email", "uri": "url", "date": "date"}
"""Input types by JSON Schema format."""


@attrs.frozen
class Field:
    """A form field.  `kind` is text, number, checkbox, select, choices or json."""

    name: str
    kind: str
    label: str
    schema: Mapping[str, Any]
    description: str = ""
    is_required: bool = False
    value: Any = None
    """The initial value."""
    input: str = "text"
    """The type of the input element."""
    options: Sequence[tuple[str, str]] = ()
    """Value and label."""
    limits: Mapping[str, Any] = attrs.field(factory=dict)
    """Attributes of the element, such as `min`."""


def fields_of(schema: Any) -> list[Field]:
    """Return a field for each property, in the order of the schema."""
    if not isinstance(schema, dict) or not isinstance(schema.get("properties"), dict):
        return []
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    return [
        _field(name, field if isinstance(field, dict) else {}, name in required)
        for name, field in list(schema["properties"].items())[:MOST_FIELDS]
    ]


def _field(name: str, schema: JSONObject, is_required: bool) -> Field:
    field = Field(
        name,
        "json",
        _text(schema.get("title")) or name,
        schema,
        _text(schema.get("description")),
        is_required,
        schema.get("default"),
    )
    options = _options(schema)
    if options:
        return attrs.evolve(field, kind="select", options=options)
    match schema.get("type"):
        case "string":
            limits = _limits(schema, minLength="minlength", maxLength="maxlength")
            if schema.get("format") == "date-time":
                limits["placeholder"] = "2026-07-28T12:00:00Z"
            kind = _INPUTS.get(_text(schema.get("format")), "text")
            return attrs.evolve(field, kind="text", input=kind, limits=limits)
        case "integer" | "number" as kind:
            limits = _limits(schema, minimum="min", maximum="max")
            limits["step"] = "1" if kind == "integer" else "any"
            return attrs.evolve(field, kind="number", input="number", limits=limits)
        case "boolean":
            return attrs.evolve(field, kind="checkbox", value=schema.get("default") is True)
        case "array":
            items = schema.get("items")
            options = _options(items if isinstance(items, dict) else {})
            if options:
                chosen = field.value if isinstance(field.value, list) else []
                return attrs.evolve(field, kind="choices", options=options, value=chosen)
    value = "" if field.value is None else json.dumps(field.value, ensure_ascii=False)
    return attrs.evolve(field, value=value)


def _options(schema: JSONObject) -> list[tuple[str, str]]:
    """Return the texts to choose from, with their titles."""
    titled = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(titled, list):
        found = [
            (option["const"], _text(option.get("title")) or option["const"])
            for option in titled[:MOST_OPTIONS]
            if isinstance(option, dict) and isinstance(option.get("const"), str)
        ]
        return found if len(found) == len(titled) else []
    values = schema.get("enum")
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        return []
    names = schema.get("enumNames")
    if not isinstance(names, list) or len(names) != len(values):
        names = values
    return [(value, _text(name) or value) for value, name in zip(values, names, strict=True)][
        :MOST_OPTIONS
    ]


def _limits(schema: JSONObject, **attributes: str) -> dict[str, Any]:
    return {
        attribute: schema[keyword]
        for keyword, attribute in attributes.items()
        if isinstance(schema.get(keyword), int | float) and not isinstance(schema[keyword], bool)
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


# --- input -----------------------------------------------------------------------------------


def read_field(field: Field, typed: Sequence[str]) -> Any:
    """Return the value of the input, or None if it is empty; ValueError has text for the user."""
    text = typed[-1] if typed else ""
    if field.kind == "checkbox":
        return bool(typed)
    if field.kind == "choices":
        value: Any = list(typed)
        if not value and not field.is_required:
            return None
    elif not text and not field.is_required:
        return None
    elif field.kind in ("number", "json"):
        value = _read_number(field, text) if field.kind == "number" else _read_json(text)
    else:
        if not text and (field.kind == "select" or field.input != "text"):
            raise ValueError("Please fill this in.")
        value = text
    try:
        is_fit = fits({"properties": {field.name: field.schema}}, {field.name: value})
    except (AttributeError, TypeError):  # the schema is invalid: leave the check to the tool
        is_fit = True
    if not is_fit:
        raise ValueError(_wish(field))
    return value


def _read_number(field: Field, text: str) -> float:
    try:
        number = float(text) if field.limits["step"] == "any" else int(text)
    except ValueError:
        raise ValueError(_wish(field)) from None
    if not isfinite(number):
        raise ValueError(_wish(field))
    return number


def _read_json(text: str) -> Any:
    try:
        return decode_json(text.encode())
    except ValueError as error:
        raise ValueError(f"This must be JSON: {error}.") from None


def _wish(field: Field) -> str:
    """Return the requirements of a field for the user."""
    limits = field.limits
    if field.kind == "number":
        kind = "a number" if limits["step"] == "any" else "a whole number"
        return f"This must be {kind}{_between(limits, 'min', 'max', 'from')}."
    if field.kind == "text":
        return f"This must have{_between(limits, 'minlength', 'maxlength', '')} characters."
    if field.kind == "choices":
        least, most = field.schema.get("minItems", 0), field.schema.get("maxItems")
        return f"Choose at least {least}." if most is None else f"Choose {least} to {most}."
    return "Choose one of the options."


def _between(limits: Mapping[str, Any], least: str, most: str, word: str) -> str:
    match limits.get(least), limits.get(most):
        case None, None:
            return ""
        case low, None:
            return f" at least {low}" if not word else f" of at least {low}"
        case None, high:
            return f" at most {high}" if not word else f" of at most {high}"
        case low, high:
            return f" {word} {low} to {high}".replace("  ", " ")
