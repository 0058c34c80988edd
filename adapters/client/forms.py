"""Parse the forms of elicitation requests, and the text that a user types into them."""

from collections.abc import Callable
from typing import Any, Final

import attrs

from taskmachine.protocol.jsonvalue import JSONObject

__all__ = ["Field", "fields_of"]


@attrs.frozen
class Field:
    """One field of a form."""

    name: str
    schema: JSONObject
    is_required: bool

    @property
    def label(self) -> str:
        """The title or name, the description, and the possible values."""
        title = _text(self.schema.get("title")) or self.name
        about = _text(self.schema.get("description"))
        return " ".join([title, *([f"- {about}"] if about else []), f"({self._wants()})"])

    @property
    def default(self) -> Any:
        """The value of an empty input, or None."""
        return self.schema.get("default")

    def _wants(self) -> str:
        choices = _choices(self._picked_from())
        kind = _text(self.schema.get("type")) or "string"
        wants = kind if choices is None else " | ".join(choices)
        if kind == "array":
            wants = f"{wants}, with commas"
        elif kind == "boolean":
            wants = "yes | no"
        if self.default is not None:
            words = {"True": "yes", "False": "no"} if kind == "boolean" else {}
            wants += f"; nothing means {words.get(str(self.default), self.default)}"
        elif not self.is_required:
            wants += "; may be empty"
        return wants

    def _picked_from(self) -> JSONObject:
        items = self.schema.get("items")
        return items if isinstance(items, dict) else self.schema

    def read(self, text: str) -> Any:
        """Parse typed text; None for an optional field left empty.

        Raises ValueError if the text is invalid.
        """
        text = text.strip()
        if not text:
            if self.default is None and self.is_required:
                raise ValueError("a value is required")
            return self.default
        if self.schema.get("type") == "array":
            values = [self._choose(part.strip()) for part in text.split(",")]
            _check_between(len(values), self.schema, "minItems", "maxItems", "choices")
            return values
        if _choices(self.schema) is not None:
            return self._choose(text)
        reader = _READERS.get(_text(self.schema.get("type")), _read_string)
        return reader(text, self.schema)

    def _choose(self, text: str) -> str:
        choices = _choices(self._picked_from())
        if choices is None or text in choices.values():
            return text
        by_title = {title.lower(): value for title, value in choices.items()}
        if text.lower() not in by_title:
            raise ValueError(f"it must be one of {', '.join(choices)}")
        return by_title[text.lower()]


def fields_of(params: JSONObject) -> list[Field]:
    """Return the fields of a form elicitation in order, without malformed ones."""
    schema = params.get("requestedSchema")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or not isinstance(properties, dict):
        return []
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    return [
        Field(name, field, name in needed)
        for name, field in properties.items()
        if isinstance(field, dict)
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _choices(schema: JSONObject) -> dict[str, str] | None:
    """Return the allowed values by title, or None if any value is allowed."""
    titled = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(titled, list):
        options = [option for option in titled if isinstance(option, dict)]
        return {
            _text(option.get("title")) or _text(option.get("const")): _text(option.get("const"))
            for option in options
        }
    values = schema.get("enum")
    return {_text(value): _text(value) for value in values} if isinstance(values, list) else None


def _read_string(text: str, schema: JSONObject) -> str:
    _check_between(len(text), schema, "minLength", "maxLength", "characters")
    return text  # the server checks the pattern, as a regular expression can take unbounded time


def _read_number(text: str, schema: JSONObject) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError("it must be a number") from None
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError("it must be a number")
    _check_between(number, schema, "minimum", "maximum", "")
    return number


def _read_integer(text: str, schema: JSONObject) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ValueError("it must be a whole number") from None
    _check_between(number, schema, "minimum", "maximum", "")
    return number


def _read_boolean(text: str, _: JSONObject) -> bool:
    word = text.lower()
    if word in ("y", "yes", "true", "1"):
        return True
    if word in ("n", "no", "false", "0"):
        return False
    raise ValueError("it must be yes or no")


_READERS: Final[dict[str, Callable[[str, JSONObject], Any]]] = {
    "number": _read_number,
    "integer": _read_integer,
    "boolean": _read_boolean,
}


def _check_between(size: float, schema: JSONObject, least: str, most: str, unit: str) -> None:
    low, high = schema.get(least), schema.get(most)
    if isinstance(low, int | float) and size < low:
        raise ValueError(f"it must be at least {low:g} {unit}".strip())
    if isinstance(high, int | float) and size > high:
        raise ValueError(f"it must be at most {high:g} {unit}".strip())
