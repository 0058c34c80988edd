"""Reading arguments, also hostile ones.  What types mean is in the corpus."""

import math
import time
from enum import Enum
from typing import Annotated, Any, Literal

import attrs
import jsonschema_rs
import pytest
from pydantic import BaseModel, Field

from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.sync_context import SyncContext
from taskmachine.protocol.jsonvalue import decode_json, encode_json
from tests.adapters.tools.reading import read, returning, signature, taking, wrong

HUGE = 10**5000


class Person(BaseModel):
    name: str
    age: int = Field(ge=0)
    friends: "list[Person]" = []


class Color(Enum):
    RED = "red"


class Left(BaseModel):
    next: "Left | Right | int"


class Right(BaseModel):
    next: "Left | Right | int"


class Open(BaseModel):
    kind: Literal["open"]
    next: "Step | None" = None


class Shut(BaseModel):
    kind: Literal["shut"]
    next: "Step | None" = None


Step = Annotated[Open | Shut, Field(discriminator="kind")]
Open.model_rebuild()
Shut.model_rebuild()


@attrs.frozen
class Even:
    even: int = attrs.field()

    @even.validator
    def _is_even(self, _: object, value: int) -> None:
        if value % 2:
            raise ValueError("must\nbe even")


# --- messages for the model ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "value", "words"),
    [
        (int, "a", "arguments.x must be a valid integer, unable to parse string as an integer"),
        (list[int], [1, "a"], "arguments.x[1] must be a valid integer, unable to parse string as"),
        (dict[str, int], {"a b": ""}, "arguments.x['a b'] must be"),
        (dict[str, int], {"a" * 99: ""}, f"arguments.x['{'a' * 40}…'] must be"),
        (Person, {"age": 1}, "arguments.x.name is missing"),
        (Person, {"name": "a", "age": -1}, "arguments.x.age must be greater than or equal to 0"),
        (Person, {"name": "a", "age": 1, "friends": [{"name": "b"}]},
         "arguments.x.friends[0].age is missing"),
        (Even, {"even": 1}, "arguments.x is refused: must be even"),
        (Even, {"even": 2, "odd": 1}, "arguments.x.odd is unknown"),
        (int | list[int], ["a"], "arguments.x must be a valid integer; arguments.x[0] must be"),
        (Annotated[str, Field(pattern="^a$")], "b", "arguments.x is refused: String should match"),
        (Literal["a", "b"], "y" * 10**6, "arguments.x must be 'a' or 'b'"),
    ],
)  # fmt: skip
def test_a_problem_is_named_with_its_place(hint: Any, value: Any, words: str) -> None:
    said = wrong(signature(taking(hint)).read, {"x": value})
    assert said.startswith(words)
    assert len(said) < 600


def test_five_problems_are_listed() -> None:
    def tool(a: int, b: int, c: int, d: Person, e: int) -> None: ...

    said = wrong(signature(tool).read, {"d": {"age": -1}, "f": 1})
    assert said.split("; ") == [
        "arguments.a is missing",
        "arguments.b is missing",
        "arguments.c is missing",
        "arguments.d.name is missing",
        "arguments.d.age must be greater than or equal to 0",
    ]


@pytest.mark.parametrize(("arguments", "kind"), [([], "array"), ("a", "string"), (None, "null")])
def test_arguments_are_an_object(arguments: Any, kind: str) -> None:
    assert wrong(signature(taking(int)).read, arguments) == (
        f"arguments must be an object, got {kind}"
    )


# --- JSON as text ----------------------------------------------------------------------------


def test_a_text_that_is_wrong_as_it_is_gets_parsed() -> None:
    def tool(a: list[int], b: str, c: str | list[str], d: Person | None) -> None: ...

    arguments = {"a": "[1]", "b": "[1]", "c": '["a"]', "d": '{"name": "a", "age": 1}'}
    assert signature(tool).read(arguments) == {
        "a": [1],
        "b": "[1]",
        "c": '["a"]',
        "d": Person(name="a", age=1),
    }
    assert arguments["a"] == "[1]", "the arguments are not changed"


@pytest.mark.parametrize("text", ["1", '"a"', "true", "[", "[" * 10**5, "NaN", "[1e999]"])
def test_other_texts_stay_wrong(text: str) -> None:
    assert wrong(signature(taking(list[int])).read, {"x": text}).startswith("arguments.x must be")


# --- names, defaults, the context ------------------------------------------------------------


def test_parameters_may_have_any_name() -> None:
    def tool(self_: int, schema: int, json: int, copy: int, _x: int, values: int) -> None: ...

    arguments = dict.fromkeys(("self_", "schema", "json", "copy", "_x", "values"), 1)
    assert signature(tool).read(arguments) == arguments
    assert list(signature(tool).input_schema["properties"]) == list(arguments)


def test_defaults_in_the_schema() -> None:
    def tool(a: int = 3, b: float = math.nan, c: Any = print, d: Even = Even(2)) -> None:  # noqa: B008
        ...

    schema = signature(tool).input_schema
    jsonschema_rs.meta.validate(schema)
    shown = {name: part.get("default") for name, part in schema["properties"].items()}
    assert shown == {"a": 3, "b": None, "c": None, "d": {"even": 2}}
    assert encode_json(schema)
    assert "default" not in schema["properties"]["b"]
    values = signature(tool).read({})
    assert values["c"] is print
    assert values["d"] == Even(2)


def test_an_author_keeps_the_titles_and_no_other_is_shown() -> None:
    def tool(a: Annotated[int, Field(title="Amount")], person: Person, color: Color) -> Person:
        return person

    schema = encode_json(signature(tool).input_schema)
    assert schema.count(b'"title"') == 1
    assert b'"title":"Amount"' in schema
    assert b'"title"' not in encode_json(signature(tool).output_schema)


@pytest.mark.parametrize(
    "hint",
    [Context, SyncContext, "Context", Context | None, Annotated[Context, "it"]],
    ids=["class", "blocking", "string", "optional", "annotated"],
)
def test_the_context_is_not_an_argument(hint: Any) -> None:
    def tool(a: int, ctx: Any, **rest: Any) -> None: ...

    tool.__annotations__["ctx"] = hint
    found = signature(tool)
    assert found.context_parameter == "ctx"
    assert list(found.input_schema["properties"]) == ["a"]
    assert found.read({"a": 1, "b": 2}) == {"a": 1, "b": 2}
    assert wrong(found.read, {"a": 1, "ctx": 2}) == "arguments.ctx is unknown"


# --- hostile input ---------------------------------------------------------------------------


def test_deep_values_are_read() -> None:
    deep: Any = {"name": "a", "age": 1}
    for _ in range(60):  # two levels each
        deep = {"name": "a", "age": 1, "friends": [deep]}
    decode_json(encode_json({"arguments": {"x": deep}}))
    assert read(Person, deep).friends[0].friends[0].name == "a"


def test_a_union_of_classes_that_contain_it_takes_no_exponential_time() -> None:
    started = time.monotonic()
    depth, said = 0, ""
    deep: Any = "a"
    while "without a discriminator" not in said:
        deep, depth = {"next": deep}, depth + 1
        said = wrong(signature(taking(Left)).read, {"x": deep})
    assert 10 < depth < 20
    many = {"next": [deep["next"]] * 1_000}
    assert "without a discriminator" in wrong(signature(taking(Left)).read, {"x": many})
    assert time.monotonic() - started < 5
    assert read(Left, {"next": {"next": 1}}) == Left(next=Left(next=1))


def test_a_discriminator_allows_any_depth() -> None:
    deep: Any = {"kind": "open"}
    for _ in range(100):
        deep = {"kind": "shut", "next": deep}
    assert read(Step, deep).next.next.kind == "shut"


def test_many_problems_are_not_listed() -> None:
    started = time.monotonic()
    said = wrong(signature(taking(list[int])).read, {"x": ["a"] * 200_000})
    assert said == "arguments: 200000 values in it are not valid"
    assert time.monotonic() - started < 2


@pytest.mark.parametrize("hint", [int, float, Literal[1], Annotated[int, Field(le=9)], bool])
def test_huge_numbers_do_no_harm(hint: Any) -> None:
    if hint is int:
        assert read(hint, HUGE) == HUGE
    elif hint is not float:
        assert wrong(signature(taking(hint)).read, {"x": HUGE})


def test_a_pattern_takes_linear_time() -> None:
    hint = Annotated[str, Field(pattern="^(a+)+$")]
    assert wrong(signature(taking(hint)).read, {"x": "a" * 10**6 + "b"})


def test_no_parameters() -> None:
    found = signature(returning(None))
    assert found.input_schema == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }
    assert found.read({}) == {}
    assert wrong(found.read, {"x": 1}) == "arguments.x is unknown"
