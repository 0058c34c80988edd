"""What a tool's signature says, what it takes, and that both are the same."""

import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime
from enum import Enum, Flag, IntEnum, StrEnum
from functools import cache, partial, wraps
from types import FrameType, MappingProxyType
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
    Union,
)
from uuid import UUID

import attrs
import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from taskmachine.adapters.tools.signatures import Signature, signature_of
from taskmachine.protocol.jsonvalue import JSONObject, decode_json, encode_json
from taskmachine.statemachine import ConfigurationError
from tests.json_schemas import values_of
from tests.strategies import json_values

# --- types that tools use --------------------------------------------------------------------


class Context:
    """What a tool would get from its server."""


class SpecialContext(Context):
    pass


class Colour(Enum):
    RED = "red"
    GREEN = "green"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@attrs.frozen
class Size:
    width: int
    height: int = 1


@attrs.frozen
class Circle:
    radius: float
    kind: Literal["circle"] = "circle"


@dataclass(frozen=True)
class Square:
    side: float
    kind: Literal["square"]
    tags: list[str] = field(default_factory=list)
    area: float = field(init=False, default=0.0)


class Named(TypedDict):
    name: str


class Movie(Named, total=False):
    year: int
    rating: "Required[float]"
    seen: "Annotated[NotRequired[bool], 'by anybody']"


class Partly(TypedDict):
    must: int
    may: "NotRequired[int]"
    note: "Annotated[NotRequired[str], 'more']"


@attrs.define
class Tree:
    value: int
    children: "list[Tree]" = attrs.Factory(list)
    parent: "Tree | None" = None


@attrs.frozen
class Left:
    next: "Left | Right | int"


@attrs.frozen
class Right:
    next: "Left | Right | int"


def _is_even(_: object, attribute: "attrs.Attribute[int]", value: int) -> None:
    if value % 2:
        raise ValueError(f"{attribute.name} must be even")


@attrs.frozen
class Checked:
    even: int = attrs.field(validator=_is_even)
    small: int = attrs.field(default=0, validator=attrs.validators.le(9))
    _hidden: str = attrs.field(default="", validator=attrs.validators.instance_of(str))
    later: int = attrs.field(init=False, default=7)


Name = NewType("Name", str)
Percent = Annotated[int, Meta(ge=0, le=100)]
T = TypeVar("T")


def taking(hint: Any) -> Callable[..., Any]:
    def tool(x: Any) -> None: ...

    tool.__annotations__["x"] = hint
    return tool


def returning(hint: Any) -> Signature:
    def tool() -> Any: ...

    tool.__annotations__["return"] = hint
    return signature_of(tool, (Context,))


def schema_of(hint: Any) -> Any:
    return signature_of(taking(hint), (Context,)).input_schema["properties"]["x"]


def read(hint: Any, value: Any) -> Any:
    return signature_of(taking(hint), (Context,)).read({"x": value})["x"]


def wrong(call: Callable[[Any], Any], value: Any) -> str:
    """What the ValueError says, or nothing."""
    try:
        call(value)
    except ValueError as error:
        caught = error
    else:
        return ""
    assert type(caught) is ValueError
    return str(caught)


def complaint(hint: Any, value: Any) -> str:
    return wrong(signature_of(taking(hint), (Context,)).read, {"x": value})


def refusal(function: Callable[..., Any]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        signature_of(function, (Context,))
    return str(caught.value)


# --- what the schema says --------------------------------------------------------------------

SCHEMAS: list[tuple[Any, Any]] = [
    (int, {"type": "integer"}),
    (float, {"type": "number"}),
    (str, {"type": "string"}),
    (bool, {"type": "boolean"}),
    (None, {"type": "null"}),
    (Any, {}),
    (object, {}),
    (datetime, {"type": "string", "format": "date-time"}),
    (date, {"type": "string", "format": "date"}),
    (UUID, {"type": "string", "format": "uuid"}),
    (list, {"type": "array", "items": {}}),
    (list[None], {"type": "array", "items": {"type": "null"}}),
    (Sequence[int], {"type": "array", "items": {"type": "integer"}}),
    (set[int], {"type": "array", "items": {"type": "integer"}}),
    (frozenset, {"type": "array", "items": {}}),
    (tuple, {"type": "array", "items": {}}),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
    (tuple[()], {"type": "array", "minItems": 0, "maxItems": 0}),
    (
        tuple[int, str],
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "minItems": 2,
            "maxItems": 2,
        },
    ),
    (dict, {"type": "object", "additionalProperties": {}}),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
    (Mapping[Name, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
    (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045
    (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007
    (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Literal["a", 1, True, None], {"enum": ["a", 1, True, None]}),
    (Literal[Colour.RED], {"type": "string", "enum": ["red"]}),
    (Colour, {"type": "string", "enum": ["red", "green"]}),
    (Level, {"type": "number", "enum": [1, 2]}),
    (Name, {"type": "string"}),
    (Size, {"$ref": "#/$defs/Size"}),
    (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
    (Annotated[Size, "how big"], {"$ref": "#/$defs/Size", "description": "how big"}),
    (Annotated[int, frozenset()], {"type": "integer"}),
    (
        Annotated[int, Meta(ge=1, lt=9, description="d", title="t", examples=[1])],
        {
            "type": "integer",
            "minimum": 1,
            "exclusiveMaximum": 9,
            "description": "d",
            "title": "t",
            "examples": [1],
        },
    ),
    (
        Annotated[float, Meta(gt=1, le=9, multiple_of=0.5)],
        {"type": "number", "exclusiveMinimum": 1, "maximum": 9, "multipleOf": 0.5},
    ),
    (
        Annotated[str, Meta(min_length=1, max_length=2, pattern="a$")],
        {"type": "string", "minLength": 1, "maxLength": 2, "pattern": "a$"},
    ),
    (
        Annotated[list[int], Meta(min_length=1, max_length=2)],
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
    ),
    (
        Annotated[dict[str, int], Meta(min_length=1, max_length=2)],
        {
            "type": "object",
            "additionalProperties": {"type": "integer"},
            "minProperties": 1,
            "maxProperties": 2,
        },
    ),
    (
        Annotated[str | None, Meta(max_length=2)],
        {"anyOf": [{"type": "string"}, {"type": "null"}], "maxLength": 2},
    ),
    (Annotated[Any, Meta(max_length=2)], {"maxLength": 2, "maxItems": 2, "maxProperties": 2}),
    (Annotated[Tree, Meta(min_length=2)], {"$ref": "#/$defs/Tree", "minProperties": 2}),
]


@pytest.mark.parametrize(("hint", "schema"), SCHEMAS, ids=[str(hint) for hint, _ in SCHEMAS])
def test_schema(hint: Any, schema: Any) -> None:
    assert schema_of(hint) == schema


def closed(properties: JSONObject, *required: str) -> JSONObject:
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


PARTLY = closed(
    {
        "must": {"type": "integer"},
        "may": {"type": "integer"},
        "note": {"type": "string", "description": "more"},
    },
    "must",
)
DEFINITIONS: list[tuple[Any, Any]] = [
    (
        Size,
        closed(
            {"width": {"type": "integer"}, "height": {"type": "integer", "default": 1}}, "width"
        ),
    ),
    (
        Square,
        closed(
            {
                "side": {"type": "number"},
                "kind": {"type": "string", "enum": ["square"]},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "side",
            "kind",
        ),
    ),
    (
        Movie,
        closed(
            {
                "name": {"type": "string"},
                "year": {"type": "integer"},
                "rating": {"type": "number"},
                "seen": {"type": "boolean", "description": "by anybody"},
            },
            "name",
            "rating",
        ),
    ),
    (Partly, PARTLY),
    (
        Tree,
        closed(
            {
                "value": {"type": "integer"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
                "parent": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}], "default": None},
            },
            "value",
        ),
    ),
    (
        Checked,
        closed(
            {
                "even": {"type": "integer"},
                "small": {"type": "integer", "default": 0},
                "hidden": {"type": "string", "default": ""},
            },
            "even",
        ),
    ),
]


@pytest.mark.parametrize(("cls", "schema"), DEFINITIONS)
def test_a_class_is_a_definition(cls: Any, schema: Any) -> None:
    shown = signature_of(taking(cls), ()).input_schema["$defs"][cls.__name__]
    assert shown.get("properties") == schema["properties"]
    assert sorted(shown.get("required", [])) == sorted(schema.get("required", []))
    assert shown["additionalProperties"] is False
    assert shown["type"] == "object"


def test_parameters() -> None:
    def tool(
        a: int,
        b: "str",
        c: Colour = Colour.RED,
        d: float = float("nan"),
        *,
        e: Size,
        f: Any = print,
        g: list[Size] = [Size(1)],  # noqa: B006, B008
    ) -> None: ...

    schema = signature_of(tool, ()).input_schema
    jsonschema_rs.meta.validate(schema)
    assert list(schema["properties"]) == ["a", "b", "c", "d", "e", "f", "g"]
    assert schema["required"] == ["a", "b", "e"]
    assert schema["additionalProperties"] is False
    defaults = {n: p["default"] for n, p in schema["properties"].items() if "default" in p}
    assert defaults == {"c": "red", "g": [{"width": 1, "height": 1}]}
    assert list(schema["$defs"]) == ["Size"]


def test_no_parameters() -> None:
    def tool() -> None: ...

    signature = signature_of(tool, ())
    assert signature.input_schema == {"type": "object", "additionalProperties": False}
    assert signature.read({}) == {}
    assert signature.context_parameter is None
    with pytest.raises(ValueError, match=r"^arguments\.x is unknown$"):
        signature.read({"x": 1})


def test_keyword_arguments_take_the_rest() -> None:
    def tool(a: int, **rest: str) -> None: ...

    signature = signature_of(tool, ())
    assert signature.input_schema["additionalProperties"] == {"type": "string"}
    assert signature.read({"a": 1, "b": "x"}) == {"a": 1, "b": "x"}
    with pytest.raises(ValueError, match=r"^arguments\.b must be a string, got number$"):
        signature.read({"a": 1, "b": 2})


def test_classes_of_one_name_are_told_apart() -> None:
    def other() -> Any:
        @attrs.frozen
        class Size:
            depth: int

        return Size

    second, third = other(), other()
    signature = signature_of(taking(tuple.__class_getitem__((Size, second, third))), ())
    assert list(signature.input_schema["$defs"]) == ["Size", "Size2", "Size3"]
    value = [{"width": 1}, {"depth": 2}, {"depth": 3}]
    assert signature.read({"x": value}) == {"x": (Size(1), second(2), third(3))}


def test_a_class_has_any_name() -> None:
    cls = attrs.make_class("Größe", {"a": attrs.field(type=int)})
    signature = signature_of(taking(cls), ())
    validator = jsonschema_rs.validator_for(signature.input_schema)
    assert validator.is_valid({"x": {"a": 1}})
    assert not validator.is_valid({"x": {"b": 1}})


# --- the context -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "hint",
    [Context, SpecialContext, "Context", Context | None, Annotated[Context, "it"]],
    ids=["class", "subclass", "string", "optional", "annotated"],
)
def test_the_context_is_not_an_argument(hint: Any) -> None:
    def tool(a: int, ctx: Any) -> None: ...

    tool.__annotations__["ctx"] = hint
    signature = signature_of(tool, (Context,))
    assert signature.context_parameter == "ctx"
    assert list(signature.input_schema["properties"]) == ["a"]
    assert signature.read({"a": 1}) == {"a": 1}
    with pytest.raises(ValueError, match=r"^arguments\.ctx is unknown$"):
        signature.read({"a": 1, "ctx": 2})


def test_nobody_slips_in_a_context() -> None:
    def tool(ctx: Context, **rest: Any) -> None: ...

    signature = signature_of(tool, (Context,))
    assert signature.input_schema["properties"] == {"ctx": False}
    assert signature.read({"rest": 1}) == {"rest": 1}
    with pytest.raises(ValueError, match=r"^arguments\.ctx is unknown$"):
        signature.read({"ctx": {}})


def test_no_context_is_among_the_rest() -> None:
    def tool(**rest: Size) -> None: ...

    assert signature_of(tool, (Size,)).context_parameter is None


def test_a_context_is_no_argument_of_others() -> None:
    def tool(ctx: Context) -> None: ...

    with pytest.raises(ConfigurationError, match="Context cannot be JSON"):
        signature_of(tool, ())


# --- functions that are no plain functions ---------------------------------------------------


def test_wrapped_functions() -> None:
    def tool(a: "Size", b: "int" = 1) -> "Size":
        return a

    elsewhere: dict[str, Any] = {}  # a module of its own, in which `Size` says nothing
    exec("def wrapper(*args, **kwargs): ...", elsewhere)
    wrapper = wraps(tool)(elsewhere["wrapper"])

    class Tools:
        def method(self, a: "Size", b: "int" = 1) -> "Size":
            return a

        def __call__(self, a: "Size", b: "int" = 1) -> "Size":
            return a

    async def asynchronous(a: "Size", b: "int" = 1) -> "Size":
        return a

    plain = signature_of(tool, ())
    assert plain.read({"a": {"width": 2}}) == {"a": Size(2)}
    for other in (wrapper, Tools().method, Tools(), asynchronous, partial(tool), partial(wrapper)):
        signature = signature_of(other, ())
        assert signature.input_schema == plain.input_schema
        assert signature.output_schema == plain.output_schema


# --- what cannot be offered ------------------------------------------------------------------


@attrs.frozen
class Unknowable:
    x: "Nowhere"  # type: ignore[name-defined]  # noqa: F821


@attrs.frozen
class Raw:
    data: bytes


@attrs.frozen
class Box(Generic[T]):
    content: T


@dataclass
class Halved:
    a: int
    b: InitVar[int]


@attrs.define(init=False)
class Odd:
    a: int

    def __init__(self, b: int) -> None:
        self.a = b


@attrs.define(init=False)
class Strict:
    a: int = 1

    def __init__(self, a: int) -> None:
        self.a = a


@attrs.define(init=False)
class Less:
    a: int = 1

    def __init__(self) -> None:
        self.a = 1


class Empty(Enum):
    pass


class Pairs(Enum):
    A = (1, 2)


class Point(NamedTuple):
    x: int


UNFIT: list[tuple[Any, str]] = [
    (bytes, "bytes cannot be JSON"),
    (complex, "complex cannot be JSON"),
    (Iterator[int], "Iterator[int] cannot be JSON"),
    (Callable[[int], int], "cannot be JSON"),
    (T, "T cannot be JSON"),
    (Box, "Box: 'content': ~T cannot be JSON"),
    (Box[int], "cannot be JSON"),
    (Raw, "Raw: 'data': bytes cannot be JSON"),
    (list[Raw], "Raw: 'data': bytes cannot be JSON"),
    (int | bytes, "bytes cannot be JSON"),
    (dict[int, str], "the keys of a JSON object must be strings"),
    (dict[Annotated[str, Meta(min_length=1)], str], "the keys of a JSON object must be strings"),
    (set[list[int]], "list[int] cannot be in a set"),
    (set[typing.List[int]], "List[int] cannot be in a set"),  # noqa: UP006
    (frozenset[Movie], "Movie cannot be in a set"),
    (set[Tree], "Tree cannot be in a set"),
    (Literal[b"x"], "bytes cannot be JSON"),
    (Empty, "Empty cannot be JSON"),
    (Pairs, "tuple cannot be JSON"),
    (Point, "Point cannot be JSON"),
    (5, "5 cannot be JSON"),
    (Unknowable, "Unknowable: cannot resolve an annotation: name 'Nowhere' is not defined"),
    ("Nowhere", "cannot resolve an annotation: name 'Nowhere' is not defined"),
    ("list[Nowhere]", "cannot resolve an annotation: name 'Nowhere' is not defined"),
    ("not python", "cannot resolve an annotation"),
    (attrs.make_class("Bare", ["a"]), "Bare: 'a': has no annotation"),
    (Halved, "Halved: cannot be constructed from its fields: missing a required argument: 'b'"),
    (Odd, "Odd: cannot be constructed from its fields: missing a required argument: 'b'"),
    (Less, "Less: cannot be constructed from its fields: got an unexpected keyword argument 'a'"),
    (Strict, "Strict: cannot be constructed from its fields: missing a required argument: 'a'"),
    (Annotated[int, Meta(min_length=1)], "Meta(min_length=...) does not apply to an integer"),
    (Annotated[str, Meta(ge=1)], "Meta(ge=...) does not apply to a string"),
    (Annotated[bool, Meta(ge=1)], "Meta(ge=...) does not apply to a boolean"),
    (Annotated[Size, Meta(pattern="a")], "Meta(pattern=...) does not apply to an object"),
    (Annotated[datetime, Meta(tz=False)], "Meta(tz=...) does not apply to a time with its zone"),
    (Annotated[str, Meta(extra_json_schema={})], "Meta(extra_json_schema=...) does not apply to"),
    (Annotated[str, Meta(examples=[b""])], "examples[0] cannot be JSON: it is of type bytes"),
]


@pytest.mark.parametrize(("hint", "words"), UNFIT, ids=[str(hint) for hint, _ in UNFIT])
def test_what_cannot_be_offered(hint: Any, words: str) -> None:
    said = refusal(taking(hint))
    assert said.startswith("taking.<locals>.tool: 'x': ")
    assert words in said


def test_parameters_that_cannot_be_offered() -> None:
    def bare(a: int, b) -> None: ...  # type: ignore[no-untyped-def]
    def positional(a: int, /) -> None: ...
    def variadic(*args: int) -> None: ...
    def twice(a: Context, b: Context) -> None: ...
    def keywords(**kwargs: bytes) -> None: ...
    def contexts(**kwargs: Context) -> None: ...
    def promising() -> Raw: ...  # type: ignore[empty-body]
    def lost() -> "Nowhere": ...  # type: ignore[name-defined]  # noqa: F821

    here = "test_parameters_that_cannot_be_offered.<locals>."
    assert refusal(bare) == here + "bare: 'b': has no annotation"
    assert refusal(positional) == here + (
        "positional: 'a': is positional-only, but arguments are passed by name"
    )
    assert (
        refusal(variadic)
        == here + "variadic: 'args': takes positional arguments, but they are passed by name"
    )
    assert refusal(twice) == here + "twice: takes the context twice: a, b"
    assert refusal(keywords) == here + "keywords: 'kwargs': bytes cannot be JSON"
    assert "contexts: 'kwargs': " in refusal(contexts)
    assert refusal(promising) == here + (
        "promising: the return type: Raw: 'data': bytes cannot be JSON"
    )
    assert "lost: the return type: cannot resolve an annotation: name 'Nowhere'" in refusal(lost)
    assert "no signature found" in refusal(dict)
    assert "is not a callable object" in refusal(5)  # type: ignore[arg-type]


class Alias:
    """What `type X = ...` makes, which needs Python 3.12."""

    def __init__(self, make: Callable[["Alias"], Any]) -> None:
        self._make = make

    @property
    def __value__(self) -> Any:
        return self._make(self)


def test_type_aliases() -> None:
    assert schema_of(Alias(lambda _: int)) == {"type": "integer"}
    said = refusal(taking(Alias(lambda alias: list[alias])))  # type: ignore[valid-type]
    assert said == "taking.<locals>.tool: 'x': only a class can refer to itself"


# --- reading ---------------------------------------------------------------------------------

READ: list[tuple[Any, Any, Any]] = [
    (int, 1, 1),
    (int, 1.0, 1),
    (int, 10**400, 10**400),
    (int, 1e300, int(1e300)),
    (float, 1, 1),
    (float, 1.5, 1.5),
    (float, 10**400, 10**400),
    (str, "", ""),
    (str, "x" * 10**6, "x" * 10**6),
    (bool, True, True),
    (None, None, None),
    (Any, {"a": [1]}, {"a": [1]}),
    (list[int], [1, 2.0], [1, 2]),
    (Sequence[int], [1], [1]),
    (tuple[int, ...], [1, 2], (1, 2)),
    (tuple[int, str], [1, "a"], (1, "a")),
    (tuple[()], [], ()),
    (tuple, [1, "a"], (1, "a")),
    (set[int], [1, 1], {1}),
    (frozenset[str], ["a"], frozenset("a")),
    (set[Size], [{"width": 1}], {Size(1)}),
    (dict[str, Size], {"a b": {"width": 1}}, {"a b": Size(1)}),
    (int | str, "1", "1"),
    (int | float, 1.5, 1.5),
    (bool | int, 1, 1),
    (int | None, None, None),
    (Literal[1, True], True, True),
    (Literal[1, True], 1.0, 1),
    (Literal[None], None, None),
    (Literal[Colour.RED, "x"], "red", Colour.RED),
    (Colour, "green", Colour.GREEN),
    (Level, 2, Level.HIGH),
    (Level, 2.0, Level.HIGH),
    (Name, "a", "a"),
    (datetime, "2020-01-02T03:04:05Z", datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)),
    (date, "2020-01-02", date(2020, 1, 2)),
    (UUID, "12345678-1234-1234-1234-123456789ABC", UUID("12345678123412341234123456789abc")),
    (Size, {"width": 2}, Size(2)),
    (Size, {"width": 2.0, "height": 3}, Size(2, 3)),
    (Square, {"side": 1, "kind": "square", "tags": ["a"]}, Square(1, "square", ["a"])),
    (Circle | Square, {"radius": 1}, Circle(1)),
    (Circle | Square, {"side": 1, "kind": "square"}, Square(1, "square")),
    (Circle | Square | Partly | None, {"must": 1}, {"must": 1}),
    (Partly, {"must": 1, "may": 2}, {"must": 1, "may": 2}),
    (Movie, {"name": "a", "rating": 1}, {"name": "a", "rating": 1}),
    (Checked, {"even": 2, "hidden": "x"}, Checked(2, 0, "x")),
    (Tree, {"value": 1, "children": [{"value": 2}]}, Tree(1, [Tree(2)])),
    (Left, {"next": {"next": 1}}, Left(Left(1))),
    (Percent, 0, 0),
    (Percent | str, 100, 100),
    (Annotated[float, Meta(multiple_of=0.1)], 0.3, 0.3),
    (Annotated[str | None, Meta(max_length=2)], None, None),
    (Annotated[str, Meta(pattern=r"^[$]\$$")], "$$", "$$"),
]


@pytest.mark.parametrize(("hint", "value", "expected"), READ, ids=map(str, range(len(READ))))
def test_reading(hint: Any, value: Any, expected: Any) -> None:
    got = read(hint, value)
    assert got == expected
    assert type(got) is type(expected)


def test_items_have_the_right_type() -> None:
    assert [type(item) for item in read(list[int], [1.0, 2])] == [int, int]
    assert type(read(Size, {"width": 2.0}).width) is int


def test_absent_arguments_are_left_to_the_function() -> None:
    def tool(a: int, b: int = 2, *, c: int = 3) -> None: ...

    assert signature_of(tool, ()).read({"a": 1}) == {"a": 1}


HUGE = 10**5000

COMPLAINTS: list[tuple[Any, Any, str]] = [
    (int, "1", "arguments.x must be an integer, got string"),
    (int, True, "arguments.x must be an integer, got boolean"),
    (int, 1.5, "arguments.x must be an integer, got number"),
    (int, None, "arguments.x must be an integer, got null"),
    (int, float("inf"), "arguments.x must be an integer, got number"),
    (float, True, "arguments.x must be a number, got boolean"),
    (float, "1", "arguments.x must be a number, got string"),
    (str, 1, "arguments.x must be a string, got number"),
    (bool, 0, "arguments.x must be a boolean, got number"),
    (None, 0, "arguments.x must be null, got number"),
    (list[int], {}, "arguments.x must be an array, got object"),
    (list[int], [1, "a"], "arguments.x[1] must be an integer, got string"),
    (set[int], "a", "arguments.x must be an array, got string"),
    (set, [[]], "arguments.x has items that cannot be in a set"),
    (tuple[int, str], {}, "arguments.x must be an array, got object"),
    (tuple[int, str], [1], "arguments.x must have exactly 2 items, got 1"),
    (tuple[int, str], [1, 2], "arguments.x[1] must be a string, got number"),
    (dict[str, int], [], "arguments.x must be an object, got array"),
    (dict[str, int], {"a": "b"}, "arguments.x.a must be an integer, got string"),
    (dict[str, int], {"a b": "b"}, "arguments.x['a b'] must be an integer, got string"),
    (dict[str, int], {"a" * 99: ""}, f"arguments.x['{'a' * 40}…'] must be an integer, got string"),
    (Size, [], "arguments.x must be an object, got array"),
    (Size, {}, "arguments.x.width is missing"),
    (Size, {"width": "a"}, "arguments.x.width must be an integer, got string"),
    (Size, {"width": 1, "colour": 2}, "arguments.x.colour is unknown"),
    (
        Size,
        {"colour": 2, "height": ""},
        "arguments.x.width is missing; arguments.x.colour is unknown; "
        "arguments.x.height must be an integer, got string",
    ),
    (Checked, {"even": 1}, "arguments.x is refused: even must be even"),
    (Checked, {"even": 2, "small": 10}, "arguments.x is refused: 'small' must be <= 9: 10"),
    (Checked, {"even": 2, "_hidden": ""}, "arguments.x._hidden is unknown"),
    (Checked, {"even": 2, "later": 1}, "arguments.x.later is unknown"),
    (Movie, {"name": "a"}, "arguments.x.rating is missing"),
    (Partly, {}, "arguments.x.must is missing"),
    (Colour, "blue", "arguments.x must be 'red' or 'green', got 'blue'"),
    (Colour, "RED", "arguments.x must be 'red' or 'green', got 'RED'"),
    (Colour, [], "arguments.x must be 'red' or 'green', got array"),
    (Colour, {}, "arguments.x must be 'red' or 'green', got object"),
    (Colour, "y" * 10**6, f"arguments.x must be 'red' or 'green', got '{'y' * 40}…'"),
    (Level, True, "arguments.x must be 1 or 2, got true"),
    (Level, 3, "arguments.x must be 1 or 2, got 3"),
    (Level, HUGE, "arguments.x must be 1 or 2, got number"),
    (Literal[True, None], 1, "arguments.x must be true or null, got 1"),
    (int | None, "a", "arguments.x must be an integer or null, got string"),
    (Colour | None, "blue", "arguments.x must be 'red' or 'green' or null, got 'blue'"),
    (list[int] | int, ["a"], "arguments.x[0] must be an integer, got string"),
    (Circle | Square, 1, "arguments.x must be an object, got number"),
    (Circle | Square, {"side": "", "kind": "square"},
     "arguments.x.side must be a number, got string"),
    (Circle | Square, {"kind": "square", "side": 1, "z": 1}, "arguments.x.z is unknown"),
    (datetime, 5, "arguments.x must be a time with its zone, got number"),
    (datetime, "2020-01-01", "arguments.x must be a time with its zone, got '2020-01-01'"),
    (date, "2020-02-30", "arguments.x must be a date, got '2020-02-30'"),
    (UUID, "a", "arguments.x must be a UUID, got 'a'"),
    (Percent, -1, "arguments.x must be at least 0"),
    (Percent, 101, "arguments.x must be at most 100"),
    (Percent, HUGE, "arguments.x must be at most 100"),
    (Percent | str, 101, "arguments.x must be at most 100"),
    (Annotated[int, Meta(gt=0)], 0, "arguments.x must be more than 0"),
    (Annotated[int, Meta(lt=0)], 0, "arguments.x must be less than 0"),
    (Annotated[int, Meta(multiple_of=2)], HUGE + 1, "arguments.x must be a multiple of 2"),
    (Annotated[float, Meta(multiple_of=0.1)], 0.35, "arguments.x must be a multiple of 0.1"),
    (Annotated[str, Meta(min_length=1)], "", "arguments.x must have at least 1 characters"),
    (Annotated[str, Meta(max_length=1)], "ab", "arguments.x must have at most 1 characters"),
    (Annotated[list[int], Meta(min_length=1)], [], "arguments.x must have at least 1 items"),
    (Annotated[list[int], Meta(max_length=0)], [1], "arguments.x must have at most 0 items"),
    (Annotated[dict[str, int], Meta(min_length=1)], {}, "arguments.x must have at least 1 members"),
    (Annotated[dict, Meta(max_length=0)], {"a": 1}, "arguments.x must have at most 0 members"),
    (Annotated[str, Meta(pattern="^a$")], "a\n", "arguments.x must match ^a$"),
    (Annotated[str, Meta(pattern=r"^\d$")], "\u0663", r"arguments.x must match ^\d$"),
    (
        list[int],
        ["a"] * 10**5,
        "; ".join(f"arguments.x[{i}] must be an integer, got string" for i in range(5)),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("hint", "value", "words"), COMPLAINTS, ids=map(str, range(len(COMPLAINTS)))
)
def test_complaints(hint: Any, value: Any, words: str) -> None:
    assert complaint(hint, value) == words


def test_at_most_five_complaints() -> None:
    def tool(a: int, b: int, c: int, d: Tree, e: int) -> None: ...

    said = wrong(signature_of(tool, ()).read, {"d": {"v": 1, "w": 1}, "f": 1})
    assert said.split("; ") == [
        "arguments.a is missing",
        "arguments.b is missing",
        "arguments.c is missing",
        "arguments.e is missing",
        "arguments.d.value is missing",
    ]


def test_arguments_are_an_object() -> None:
    read = signature_of(taking(int), ()).read
    assert wrong(read, []) == "arguments must be an object, got array"


def test_whatever_a_constructor_raises_is_a_complaint() -> None:
    @attrs.frozen
    class Broken:
        error: str

        def __attrs_post_init__(self) -> None:
            raise {"key": KeyError("gone"), "long": TypeError("y" * 10**6)}.get(
                self.error, ZeroDivisionError()
            )

    assert complaint(Broken, {"error": "key"}) == "arguments.x is refused: gone"
    assert complaint(Broken, {"error": "long"}) == f"arguments.x is refused: {'y' * 200}"
    assert complaint(Broken, {"error": ""}) == "arguments.x is refused: ZeroDivisionError"
    assert read(Broken | Partly, {"must": 1}) == {"must": 1}


# --- hostile input ---------------------------------------------------------------------------


def nested(depth: int, inner: Any) -> Any:
    for _ in range(depth):
        inner = {"next": inner}
    return inner


def calls_of(call: Callable[[Any], Any], value: Any) -> int:
    """How many Python functions run until it complains."""
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        with suppress(ValueError):
            call(value)
    finally:
        sys.setprofile(None)
    return calls


def test_unions_of_classes_take_no_exponential_time() -> None:
    assert 12 < calls_of(signature_of(taking(Left), ()).read, {"x": nested(12, "a")}) < 1000


def test_nobody_looks_for_more_than_five_problems() -> None:
    assert calls_of(signature_of(taking(list[int]), ()).read, {"x": ["a"] * 10**4}) < 200


def test_deep_values_are_read() -> None:
    tree: JSONObject = {"value": 0}
    for _ in range(62):  # two levels each
        tree = {"value": 0, "children": [tree], "parent": None}
    decode_json(encode_json({"arguments": {"x": tree}}))
    assert read(Tree, tree).children[0].children[0].value == 0
    assert type(read(Left, nested(126, 1))) is Left
    assert complaint(Left, nested(126, "a")).endswith(
        " must be an object or an integer, got string"
    )


def test_what_is_too_deep_is_a_complaint() -> None:
    assert complaint(Left, nested(100_000, 1)) == "arguments is nested too deeply"


# --- what the schema says is what is read ----------------------------------------------------

AGREEING: list[Any] = [hint for hint, _ in SCHEMAS if hint not in (frozenset,)] + [
    Circle | Square | Movie | Tree | None,
    Left | Right,
    list[Circle | Square | Size],
    dict[str, tuple[int, Percent | Literal["a", 1, True]]],
    Movie,
    Partly,
    Tree,
    Level | bool | Size,
    Annotated[int | str | list[int], Meta(min_length=1)],
    Annotated[float, Meta(ge=0.5, lt=3)],
]
SOME: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 1, 1.0, 2.5, -1, "", "a", "red", "$", [], [1], [1, "a"], {}]
)


@st.composite
def mutated(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> Any:
    """A value in which something may be changed, taken away or added."""
    return _mutate(draw, draw(values), draw(st.integers(0, 3)))


def _mutate(draw: st.DrawFn, value: Any, times: int) -> Any:
    for _ in range(times):
        if isinstance(value, dict | list) and value and draw(st.booleans()):
            keys = list(value) if isinstance(value, dict) else range(len(value))
            key = draw(st.sampled_from(keys))
            value = value.copy()
            if draw(st.integers(0, 3)):
                value[key] = _mutate(draw, value[key], 1)
            else:
                del value[key]
        elif isinstance(value, dict) and draw(st.booleans()):
            name = draw(st.sampled_from(["a", "kind", "width", "next", "year", "parent"]))
            value = {**value, name: draw(SOME)}
        elif isinstance(value, list) and draw(st.booleans()):
            value = [*value, draw(SOME)]
        else:
            value = draw(SOME | json_values)
    return value


def accepts(signature: Signature, arguments: Any) -> bool:
    words = wrong(signature.read, arguments)
    assert not words or words.startswith("arguments")
    assert len(words) < 3000
    return not words


@cache
def judges(index: int) -> tuple[Signature, Any, st.SearchStrategy[Any]]:
    """A signature, an independent validator of its schema, and values that are mostly close."""
    signature = signature_of(taking(AGREEING[index]), ())
    schema = signature.input_schema
    jsonschema_rs.meta.validate(schema)
    validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    pairs = st.tuples(SOME, SOME).map(list)
    values = values_of(schema) | st.fixed_dictionaries({"x": pairs | SOME | json_values})
    return signature, validator, mutated(values)


@pytest.mark.parametrize("index", range(len(AGREEING)))
@given(data=st.data())
def test_the_schema_and_the_reader_agree(index: int, data: st.DataObject) -> None:
    signature, validator, values = judges(index)
    arguments = data.draw(values)
    assert accepts(signature, arguments) == validator.is_valid(arguments)
    if accepts(signature, arguments):
        got = signature.read(arguments)
        written = signature.write(got)
        assert validator.is_valid(written)
        assert signature.read(written) == got


DATES = [
    "2020-01-01T00:00:00Z", "2020-01-01t00:00:00z", "2020-01-01 00:00:00Z", "2020-01-01T00:00:00",
    "2020-01-01T00:00:00.123456789Z", "2020-01-01T00:00:60Z", "2020-01-01T00:00:00+0100",
    "2020-01-01T00:00:00+01:00", "2020-01-01T00:00Z", "2020-02-30T00:00:00Z", "2020-02-29",
    "2020-01-01T24:00:00Z", "2020-01-01T00:00:00.Z", "2020-01-01Z", "20200101", "2020-1-1",
    "2020-02-30", "2020-W01-1", " 2020-01-01", "2020-01-01\n", "1577836800", "",
    "12345678-1234-1234-1234-123456789abc", "12345678123412341234123456789abc",
    "12345678-1234-1234-1234-123456789ABC", "12345678-1234-1234-1234-123456789abg",
    "{12345678-1234-1234-1234-123456789abc}", "1234567-81234-1234-1234-123456789abc",
    "12345678-1234-1234-12341-23456789abc", "urn:uuid:12345678-1234-1234-1234-123456789abc",
]  # fmt: skip


@pytest.mark.parametrize("hint", [datetime, date, UUID])
@pytest.mark.parametrize("text", DATES)
def test_formats_agree(hint: Any, text: str) -> None:
    signature = signature_of(taking(hint), ())
    validator = jsonschema_rs.Draft202012Validator(signature.input_schema, validate_formats=True)
    assert accepts(signature, {"x": text}) == validator.is_valid({"x": text})


@pytest.mark.parametrize("number", [0, 0.1, 0.3, 0.35, 1.1, 7, 1e15, -0.2, 1e-7])
@pytest.mark.parametrize("step", [0.1, 0.01, 2, 3.5])
def test_multiples_agree(number: float, step: float) -> None:
    signature = signature_of(taking(Annotated[float, Meta(multiple_of=step)]), ())
    validator = jsonschema_rs.Draft202012Validator(signature.input_schema)
    assert accepts(signature, {"x": number}) == validator.is_valid({"x": number})


# --- results ---------------------------------------------------------------------------------


def test_what_is_returned_has_a_schema_if_it_is_an_object() -> None:
    size = closed({"width": {"type": "integer"}, "height": {"type": "integer", "default": 1}})
    size["required"] = ["width"]
    assert returning(Size).output_schema == size
    assert returning(Annotated[Size, "big"]).output_schema == {**size, "description": "big"}
    assert returning("Size").output_schema == size
    assert returning(Partly).output_schema == PARTLY
    assert returning(dict[str, Size]).output_schema == {
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/Size"},
        "$defs": {"Size": size},
    }
    assert returning(dict).output_schema == {"type": "object", "additionalProperties": {}}
    tree = returning(Tree).output_schema
    assert tree is not None
    assert tree["type"] == "object"
    assert tree["properties"] == tree["$defs"]["Tree"]["properties"]
    jsonschema_rs.meta.validate(tree)
    for hint in (
        None,
        int,
        str,
        list[Size],
        Name,
        Literal["a"],
        Size | None,
        Circle | Square,
        Any,
        Iterator[int],
        bytes,
    ):
        assert returning(hint).output_schema is None

    def silent():  # type: ignore[no-untyped-def]
        pass

    assert signature_of(silent, ()).output_schema is None


class Text(str):
    def __str__(self) -> str:
        return "something else"


class Bits(Flag):
    A = 1
    B = 2


WRITTEN: list[tuple[Any, Any]] = [
    (None, None),
    (True, True),
    (1, 1),
    (1.5, 1.5),
    ("a", "a"),
    (Text("a"), "a"),
    (Colour.RED, "red"),
    (Level.LOW, 1),
    (StrEnum("Kind", "A").A, "a"),  # type: ignore[attr-defined]
    (Bits.A | Bits.B, 3),
    (Pairs.A, [1, 2]),
    ([1, (2, 3)], [1, [2, 3]]),
    (Point(1), [1]),
    ({"b", "a"}, ["a", "b"]),
    (frozenset([3, 1]), [1, 3]),
    ({"a": {"b": Size(1)}}, {"a": {"b": {"width": 1, "height": 1}}}),
    (MappingProxyType({Text("a"): 1}), {"a": 1}),
    (Square(1, "square"), {"side": 1, "kind": "square", "tags": []}),
    (Checked(2, 0, "x"), {"even": 2, "small": 0, "hidden": "x"}),
    (Tree(1, [Tree(2)]), {"value": 1, "children": [{"value": 2, "children": [], "parent": None}],
                          "parent": None}),
    (datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC), "2020-01-02T03:04:05+00:00"),
    (date(2020, 1, 2), "2020-01-02"),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), WRITTEN, ids=map(str, range(len(WRITTEN))))
def test_writing(value: Any, expected: Any) -> None:
    written = returning(Any).write(value)
    assert written == expected
    assert type(written) is type(expected)
    assert decode_json(encode_json(written)) == expected


CYCLE: list[Any] = []
CYCLE += [CYCLE, CYCLE]

UNWRITABLE: list[tuple[Any, str]] = [
    (float("nan"), "result must be a finite number, got nan"),
    ([float("inf")], "result[0] must be a finite number, got inf"),
    ({"a": [float("-inf")]}, "result.a[0] must be a finite number, got -inf"),
    ({1: 2}, "result has a key of type int, not a string"),
    ({"a": {None: 2}}, "result.a has a key of type NoneType, not a string"),
    (b"x", "result cannot be JSON: it is of type bytes"),
    (Size(object()), "result.width cannot be JSON: it is of type object"),  # type: ignore[arg-type]
    (Size, "result cannot be JSON: it is of type type"),
    ([iter([])], "result[0] cannot be JSON: it is of type list_iterator"),
    (1j, "result cannot be JSON: it is of type complex"),
    ("\ud800", "result cannot be JSON: "),
    ({"\ud800": 1}, "result cannot be JSON: "),
    ([HUGE], "result[0] cannot be JSON: "),
    ({"a b": b""}, "result['a b'] cannot be JSON: it is of type bytes"),
    (CYCLE, "result[0][0][0][0][0][0][0][0][0][0][0][… is nested deeper than 128 levels"),
]


@pytest.mark.parametrize(("value", "words"), UNWRITABLE, ids=map(str, range(len(UNWRITABLE))))
def test_what_cannot_be_written(value: Any, words: str) -> None:
    said = wrong(returning(Any).write, value)
    assert said.startswith(words)
    assert len(said) < 300


def test_as_deep_as_a_peer_reads_is_written() -> None:
    deep: Any = []
    for _ in range(127):
        deep = [deep]
    assert returning(Any).write(deep) == decode_json(encode_json(deep)) == deep
    with pytest.raises(ValueError, match="nested deeper than 128 levels"):
        returning(Any).write([deep])


@pytest.mark.parametrize(
    ("hint", "value", "words"),
    [
        (Size, "a", "result must be an object, got string"),
        (Size, None, "result must be an object, got null"),
        (Size, Size("a"), "result.width must be an integer, got string"),  # type: ignore[arg-type]
        (Size, Circle(1), "result.width is missing; result.radius is unknown; "
                          "result.kind is unknown"),
        (Partly, {"must": 1, "x": 1}, "result.x is unknown"),
        (dict[str, int], {"a": "b"}, "result.a must be an integer, got string"),
    ],
)  # fmt: skip
def test_a_result_is_what_was_promised(hint: Any, value: Any, words: str) -> None:
    assert wrong(returning(hint).write, value) == words


def test_what_is_written_has_the_promised_schema() -> None:
    for value in (Size(1), Circle(2.5), Square(1, "square"), Tree(1, [Tree(2)]), Checked(2)):
        signature = returning(type(value))
        assert signature.output_schema is not None
        assert jsonschema_rs.is_valid(signature.output_schema, signature.write(value))


def test_a_result_that_speaks_for_itself_promises_nothing() -> None:
    @attrs.frozen
    class Speaks:
        x: int = 0

    def tool() -> Speaks:
        return Speaks()

    tool.__annotations__["return"] = Speaks
    assert signature_of(tool, ()).output_schema is not None
    assert signature_of(tool, (), (Speaks,)).output_schema is None
