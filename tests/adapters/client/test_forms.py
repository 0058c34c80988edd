"""Typed input in forms, and the values sent to the server."""

from typing import Any

import pytest

from taskmachine.adapters.client.forms import Field, fields_of
from tests.requirements import covers

COLOURS = {"type": "string", "enum": ["Red", "Green"]}
TITLED = {"type": "string", "oneOf": [{"const": "#F00", "title": "Red"}, {"const": "#0F0"}]}
MANY = {"type": "array", "minItems": 1, "maxItems": 2, "items": COLOURS}
MANY_TITLED = {"type": "array", "items": {"anyOf": TITLED["oneOf"]}}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, " Ada \n", "Ada"),
        ({}, "whatever", "whatever"),
        ({"type": "string", "minLength": 3, "maxLength": 3}, "Ada", "Ada"),
        ({"type": "integer", "minimum": 0, "maximum": 9}, "-0", 0),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "n", False),
        (COLOURS, "red", "Red"),
        (TITLED, "Red", "#F00"),
        (TITLED, "#0F0", "#0F0"),
        (MANY, "Green, red", ["Green", "Red"]),
        (MANY_TITLED, "Red", ["#F00"]),
        ({"type": "integer", "default": 7}, "", 7),
        ({"type": "boolean", "default": False}, "", False),
        ({"type": "string"}, "", None),
    ],
)
def test_a_text_is_read_as_its_field_wants_it(
    schema: dict[str, Any], text: str, value: Any
) -> None:
    read = Field("f", schema, is_required=False).read(text)
    assert (read, type(read)) == (value, type(value))


@covers("2025-11-25:elicitation-client-validates")
@pytest.mark.parametrize(
    ("schema", "text", "words"),
    [
        ({"type": "string"}, "", "required"),
        ({"type": "string", "minLength": 3}, "Al", "at least 3 characters"),
        ({"type": "string", "maxLength": 3}, "Adam", "at most 3 characters"),
        ({"type": "integer"}, "1.5", "whole number"),
        ({"type": "integer", "minimum": 18}, "17", "at least 18"),
        ({"type": "number", "maximum": 1}, "2", "at most 1"),
        ({"type": "number"}, "nan", "a number"),
        ({"type": "number"}, "inf", "a number"),
        ({"type": "number"}, "one", "a number"),
        ({"type": "boolean"}, "perhaps", "yes or no"),
        (COLOURS, "Blue", "one of Red, Green"),
        (TITLED, "Blue", "one of Red, #0F0"),
        (MANY, "Red, Blue", "one of Red, Green"),
        (MANY, "Red, Red, Red", "at most 2 choices"),
    ],
)
def test_field_rejects_invalid_input_with_a_message(
    schema: dict[str, Any], text: str, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Field("f", schema, is_required=True).read(text)


@pytest.mark.parametrize(
    ("schema", "is_required", "label"),
    [
        ({"type": "string"}, True, "f (string)"),
        ({"title": "Name", "description": "Yours"}, False, "Name - Yours (string; may be empty)"),
        (COLOURS, True, "f (Red | Green)"),
        (MANY_TITLED, True, "f (Red | #0F0, with commas)"),
        ({"type": "boolean", "default": True}, True, "f (yes | no; nothing means yes)"),
    ],
)  # fmt: skip
def test_field_label_describes_the_accepted_input(
    schema: dict[str, Any], is_required: bool, label: str
) -> None:
    assert Field("f", schema, is_required).label == label


def test_fields_come_in_the_order_of_the_form_and_odd_ones_not_at_all() -> None:
    schema = {"properties": {"b": {}, "odd": 7, "a": {}}, "required": ["a"]}
    fields = fields_of({"requestedSchema": schema})
    assert [(field.name, field.is_required) for field in fields] == [("b", False), ("a", True)]
    odd_ones: list[dict[str, Any]] = [
        {},
        {"requestedSchema": 7},
        {"requestedSchema": {"properties": []}},
    ]
    for odd in odd_ones:
        assert fields_of(odd) == []
    assert fields_of({"requestedSchema": {"properties": {"a": {}}, "required": 1}}) == [
        Field("a", {}, is_required=False)
    ]
