"""Attrs classes, and the TypedDict of `typing`, anywhere in an annotation."""

import dataclasses
from typing import Annotated, Any, Generic, NamedTuple, Required, TypedDict, TypeVar

import attrs
import pytest
from pydantic import Field, ValidationError

from taskmachine.adapters.tools.json_schemas import schema_of
from taskmachine.adapters.tools.type_adapters import adapter_of
from taskmachine.statemachine import ConfigurationError

T = TypeVar("T")


@attrs.frozen
class Size:
    """How large."""

    width: int = attrs.field(validator=attrs.validators.ge(1))
    height: Annotated[int, Field(description="upwards")] = 1
    _unit: str = "mm"
    tags: list[str] = attrs.field(factory=list, alias="labels")
    area: int = attrs.field(init=False, default=0)


@attrs.define
class Tree:
    value: int
    left: "Tree | None" = None
    more: "list[Tree]" = attrs.Factory(list)


@attrs.define
class Box(Generic[T]):
    item: T
    others: list[T] = attrs.Factory(list)


def _split(text: str) -> list[str]:
    return text.split(",")


@attrs.define
class Converted:
    words: list[str] = attrs.field(converter=_split)
    number: int = attrs.field(converter=int, default=3)


@dataclasses.dataclass
class Holder:
    size: Size
    tree: Tree | None = None


class Row(NamedTuple):
    size: Size


class Entry(TypedDict, total=False):
    """An entry."""

    size: Required[Size]
    note: Annotated[str, Field(max_length=3)]
    next: "Entry"


SIZE = {"width": 2, "unit": "cm"}


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (Size, {"width": 2}, Size(2)),
        (Size, {"width": "2", "labels": ["a"]}, Size(2, labels=["a"])),
        (Size, SIZE, Size(2, unit="cm")),
        (Size | None, None, None),
        (list[Size], [SIZE], [Size(2, unit="cm")]),
        (dict[str, Annotated[Size, Field(title="it")]], {"a": SIZE}, {"a": Size(2, unit="cm")}),
        (tuple[int, Size], [1, SIZE], (1, Size(2, unit="cm"))),
        (Tree, {"value": 1, "left": {"value": 2}, "more": [{"value": 3}]},
         Tree(1, Tree(2), [Tree(3)])),
        (Box[int], {"item": "1", "others": [2]}, Box(1, [2])),
        (Box[Size], {"item": SIZE}, Box(Size(2, unit="cm"))),
        (Converted, {"words": "a,b", "number": "4"}, Converted("a,b", 4)),
        (Holder, {"size": SIZE, "tree": {"value": 1}}, Holder(Size(2, unit="cm"), Tree(1))),
        (Row, [SIZE], Row(Size(2, unit="cm"))),
        (Entry, {"size": SIZE, "next": {"size": SIZE}},
         {"size": Size(2, unit="cm"), "next": {"size": Size(2, unit="cm")}}),
    ],
)  # fmt: skip
def test_values_are_made_and_written_by_pydantic(hint: Any, value: Any, expected: Any) -> None:
    adapter = adapter_of(hint)
    made = adapter.validate_python(value)
    assert made == expected
    assert adapter.validate_python(made) == made, "an instance is taken as it is"
    if hint is not Converted:  # the output type of a converter is not its input type
        assert adapter.validate_json(adapter.dump_json(made)) == made


@pytest.mark.parametrize(
    ("hint", "value", "place", "words"),
    [
        (Size, {}, ("width",), "Field required"),
        (Size, {"width": 0}, (), "'width' must be >= 1: 0"),
        (Size, {"width": 1, "tags": []}, ("tags",), "Extra inputs"),
        (Size, {"width": 1, "area": 1}, ("area",), "Extra inputs"),
        (list[Size], [{"width": 0}], (0,), "'width' must be"),
        (Tree, {"value": 1, "left": {"value": "x"}}, ("left", "value"), "valid integer"),
        (Box[int], {"item": "x"}, ("item",), "valid integer"),
        (Converted, {"words": ["a"]}, ("words",), "valid string"),
        (Holder, {"size": {"width": 0}}, ("size",), "'width' must be"),
        (Entry, {"size": SIZE, "note": "long"}, ("note",), "at most 3"),
        (Entry, {}, ("size",), "Field required"),
    ],
)
def test_problems_have_their_place(hint: Any, value: Any, place: Any, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        adapter_of(hint).validate_python(value)
    (problem,) = caught.value.errors()
    assert problem["loc"] == place
    assert words in problem["msg"]


def test_whatever_a_constructor_raises_is_a_validation_error() -> None:
    @attrs.frozen
    class Broken:
        kind: str

        def __attrs_post_init__(self) -> None:
            raise {"key": KeyError("gone"), "long": TypeError("y" * 10**6)}.get(
                self.kind, ZeroDivisionError()
            )

    for kind, words in (("key", "gone"), ("long", "y" * 200), ("", "ZeroDivisionError")):
        with pytest.raises(ValidationError) as caught:
            adapter_of(Broken).validate_python({"kind": kind})
        assert caught.value.errors()[0]["msg"] == f"Value error, {words}"


def test_the_schema_of_an_attrs_class() -> None:
    assert schema_of(adapter_of(Size), "it") == {
        "type": "object",
        "description": "How large.",
        "properties": {
            "width": {"type": "integer"},
            "height": {"type": "integer", "default": 1, "description": "upwards"},
            "unit": {"type": "string", "default": "mm"},
            "labels": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["width"],
        "additionalProperties": False,
    }
    converted = adapter_of(Converted)
    assert schema_of(converted, "it")["properties"]["words"] == {"type": "string"}
    written = schema_of(converted, "it", "serialization")
    assert written["properties"]["words"] == {"type": "array", "items": {"type": "string"}}


def test_a_class_that_refers_to_itself_has_an_object_at_the_top() -> None:
    for hint in (Tree, Entry):
        schema = schema_of(adapter_of(hint), "it")
        assert schema["type"] == "object"
        assert schema["properties"] == schema["$defs"][hint.__name__]["properties"]


def test_a_local_class_may_refer_to_itself_but_not_to_others() -> None:
    @attrs.define
    class Local:
        next: "Local | None" = None

    assert adapter_of(Local).validate_python({"next": {}}) == Local(Local())

    @attrs.define
    class Lost:
        other: "Elsewhere"  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ConfigurationError, match="annotations of Lost: name 'Elsewhere'"):
        adapter_of(list[Lost])


def test_an_adapter_is_made_once() -> None:
    assert adapter_of(Tree) is adapter_of(Tree)


def test_equal_unions_keep_their_order() -> None:
    first, second = adapter_of(int | str), adapter_of(str | int)
    assert [kind["type"] for kind in schema_of(first, "it")["anyOf"]] == ["integer", "string"]
    assert [kind["type"] for kind in schema_of(second, "it")["anyOf"]] == ["string", "integer"]
