"""Reading arguments, including hostile ones."""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from types import FrameType
from typing import (
    Annotated,
    Any,
    Literal,
)
from uuid import UUID

import attrs
import pytest
from msgspec import Meta

from taskmachine.adapters.tools.signatures import signature_of
from taskmachine.protocol.jsonvalue import JSONObject, decode_json, encode_json
from tests.adapters.tools.signatures import (
    HUGE,
    Checked,
    Circle,
    Colour,
    Left,
    Level,
    Movie,
    Name,
    Partly,
    Percent,
    Size,
    Square,
    Tree,
    complaint,
    read,
    taking,
    wrong,
)

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


def test_argument_reader_stops_after_five_problems() -> None:
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


def test_too_deeply_nested_arguments_are_refused() -> None:
    assert complaint(Left, nested(100_000, 1)) == "arguments is nested too deeply"
