"""The schemas and conversion of results."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from enum import Flag, StrEnum
from types import MappingProxyType
from typing import (
    Annotated,
    Any,
    Literal,
)
from uuid import UUID

import attrs
import jsonschema_rs
import pytest

from taskmachine.adapters.tools.signatures import signature_of
from taskmachine.protocol.jsonvalue import decode_json, encode_json
from tests.adapters.tools.signatures import (
    HUGE,
    PARTLY,
    Checked,
    Circle,
    Colour,
    Level,
    Name,
    Pairs,
    Partly,
    Point,
    Size,
    Square,
    Tree,
    closed,
    returning,
    wrong,
)

# --- results ---------------------------------------------------------------------------------


def test_output_schema_exists_only_for_object_results() -> None:
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
def test_unserializable_result_is_refused_with_a_short_message(value: Any, words: str) -> None:
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
def test_result_that_violates_its_type_hint_is_refused(hint: Any, value: Any, words: str) -> None:
    assert wrong(returning(hint).write, value) == words


def test_written_result_matches_the_output_schema() -> None:
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
