"""The schemas of a tool's parameters."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import partial, wraps
from typing import (
    Annotated,
    Any,
    Literal,
    Optional,
    Union,
)
from uuid import UUID

import attrs
import jsonschema_rs
import pytest
from msgspec import Meta

from taskmachine.adapters.tools.signatures import signature_of
from taskmachine.statemachine import ConfigurationError
from tests.adapters.tools.signatures import (
    PARTLY,
    Checked,
    Colour,
    Context,
    Level,
    Movie,
    Name,
    Partly,
    Size,
    SpecialContext,
    Square,
    Tree,
    closed,
    schema_of,
    taking,
)

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


def test_classes_with_the_same_name_get_separate_schema_definitions() -> None:
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


def test_client_arguments_cannot_supply_the_context() -> None:
    def tool(ctx: Context, **rest: Any) -> None: ...

    signature = signature_of(tool, (Context,))
    assert signature.input_schema["properties"] == {"ctx": False}
    assert signature.read({"rest": 1}) == {"rest": 1}
    with pytest.raises(ValueError, match=r"^arguments\.ctx is unknown$"):
        signature.read({"ctx": {}})


def test_no_context_is_among_the_rest() -> None:
    def tool(**rest: Size) -> None: ...

    assert signature_of(tool, (Size,)).context_parameter is None


def test_context_parameter_of_an_ordinary_function_is_refused() -> None:
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
