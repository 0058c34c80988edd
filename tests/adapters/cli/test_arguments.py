"""Arguments of a tool as typed in a shell, read by its schema."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from taskmachine.adapters.cli.call.arguments import read_arguments, read_whole
from taskmachine.adapters.cli.schemas import Schema
from taskmachine.statemachine import ConfigurationError

PROPERTIES: dict[str, Any] = {
    "text": {"type": "string"},
    "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    "whole": {"type": "integer"},
    "real": {"type": "number"},
    "yes": {"type": "boolean"},
    "list": {"type": "array", "items": {"$ref": "#/$defs/Point"}},
    "point": {"$ref": "#/$defs/Point"},
    "level": {"enum": [1, 2]},
    "stage": {"enum": ["test", "live"]},
    "limit": {"type": ["integer", "null"]},
    "any": {},
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": PROPERTIES,
    "$defs": {
        "Point": {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "next": {"$ref": "#/$defs/Point"}},
        }
    },
}


def read(*words: str, whole: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    tool = {"name": "draw", "inputSchema": {**SCHEMA, **more}}
    return read_arguments(tool, words, whole)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("text=5", "5"),
        ("text=", ""),
        ("text=a=b", "a=b"),
        ("text:=null", None),
        ("maybe=null", "null"),
        ("whole=5", 5),
        ("whole=-5", -5),
        ("whole=5.0", 5.0),
        ("real=2", 2),
        ("real=1e3", 1000.0),
        ("yes=true", True),
        ('list=[{"x": 1}]', [{"x": 1}]),
        ('point={"x": 1}', {"x": 1}),
        ("level=2", 2),
        ("stage=live", "live"),
        ("limit=null", None),
        ("limit=7", 7),
        ("any=7", 7),
        ("any=seven", "seven"),
        ('any:="7"', "7"),
    ],
)
def test_a_value_has_the_type_of_the_schema(word: str, value: Any) -> None:
    [(_, got)] = read(word).items()
    assert (got, type(got)) == (value, type(value))


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("whole=x", "whole must be of type integer, got 'x'"),
        ("whole=1.5", "whole must be of type integer, got '1.5'"),
        ("whole=true", "whole must be of type integer, got 'true'"),
        ("yes=yes", "yes must be of type boolean, got 'yes'"),
        ("list=1,2", "list must be of type array of object, got '1,2': write JSON, as in '[1, 2]'"),
        ("point=1", "point must be of type object, got '1': write JSON, as in '{\"a\": 1}'"),
        ("level=x", "level must be of type 1 | 2, got 'x'"),
        ("limit=x", "limit must be of type integer | null, got 'x'"),
        (f"whole={'9' * 99}x", f"whole must be of type integer, got '{'9' * 40}...'"),
        ("whole:=x", "whole:= is not valid JSON"),
        ("text", "'text' is not an argument of a tool: write KEY=VALUE"),
        ("=5", "'=5' is not an argument of a tool: write KEY=VALUE"),
        ("txet=5", "draw has no argument 'txet': did you mean 'text'?"),
        ("q=5", "draw has no argument 'q': it takes text, maybe, whole"),
        ("text=@/does/not/exist", "cannot read /does/not/exist: No such file"),
        ("text=\udcff", "text is not text in UTF-8"),
        ("real=NaN", "real must be of type number, got 'NaN'"),
    ],
)
def test_a_wrong_argument_is_explained(word: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(word)
    assert words in str(caught.value)


def test_a_value_may_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "value"
    file.write_text("17")
    assert read(f"text=@{file}", f"whole=@{file}", f"any:=@{file}") == {
        "text": "17",
        "whole": 17,
        "any": 17,
    }


def test_what_is_required_is_named() -> None:
    with pytest.raises(
        ConfigurationError, match="draw needs whole, list: add whole=INTEGER list=A"
    ):
        read("text=a", required=["list", "text", "whole"])
    assert read("text=a", whole={"q": 1, "text": "b"}, required=["whole"]) == {"q": 1, "text": "a"}
    assert read("q=1", additionalProperties=True) == {"q": 1}
    assert read("q=x", additionalProperties={}) == {"q": "x"}


def test_whole_arguments_are_an_object() -> None:
    assert read_whole('{"a": 1}') == {"a": 1}
    for text, words in (("{", "--args is not valid JSON"), ("[1]", "--args must be a JSON object")):
        with pytest.raises(ConfigurationError, match=words):
            read_whole(text)


# --- schemas ---------------------------------------------------------------------------------


def test_kinds_are_words_for_people() -> None:
    members = Schema.of(SCHEMA).members
    assert {name: member.kind() for name, member in members.items()} == {
        "text": "string",
        "maybe": "string | null",
        "whole": "integer",
        "real": "number",
        "yes": "boolean",
        "list": "array of object",
        "point": "object",
        "level": "1 | 2",
        "stage": "test | live",
        "limit": "integer | null",
        "any": "any",
    }


@pytest.mark.parametrize(
    ("node", "description"),
    [
        ({"description": "A  number.", "minimum": 0, "maximum": 9}, "A number; 0 to 9"),
        ({"maximum": 0}, "at most 0"),
        ({"minLength": 1, "default": ""}, 'length at least 1; default ""'),
        ({"default": False}, "default false"),
    ],
)
def test_descriptions_name_the_limits(node: dict[str, Any], description: str) -> None:
    assert Schema.of(node).description == description


@pytest.mark.parametrize(
    "document",
    [
        None,
        {"$ref": "#"},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"properties": {"a": {"anyOf": [{"$ref": "#/properties/a"}] * 1_000}}},
        {"properties": [1], "required": "a", "enum": 5},
        {"properties": {"a": {"items": {"$ref": "#"}, "type": "array"}}, "required": ["b"]},
        {"properties": {"a": {"$ref": "#/nowhere"}, "b": {"$ref": 5}, "c": {"type": 5}}},
    ],
)
def test_a_strange_schema_ends_in_words(document: Any) -> None:
    schema = Schema.of(document)
    assert all(depth <= 4 for depth, *_ in islice(schema.walk(), 1_000))
    assert schema.kind()
    assert all(member.kind() and member.types() for member in schema.members.values())
