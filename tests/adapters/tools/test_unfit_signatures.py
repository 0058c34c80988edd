"""Functions that cannot be tools."""

import typing
from collections.abc import Callable, Iterator
from dataclasses import InitVar, dataclass
from datetime import datetime
from enum import Enum
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
)

import attrs
import pytest
from msgspec import Meta

from tests.adapters.tools.signatures import (
    Context,
    Movie,
    Pairs,
    Point,
    Size,
    T,
    Tree,
    refusal,
    schema_of,
    taking,
)

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
def test_parameter_with_an_unsupported_type_hint_is_refused(hint: Any, words: str) -> None:
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
