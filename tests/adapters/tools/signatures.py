"""Types of tools, and shortcuts to their signatures."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Required,
    TypedDict,
    TypeVar,
)

import attrs
import pytest
from msgspec import Meta

from taskmachine.adapters.tools.signatures import Signature, signature_of
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.statemachine import ConfigurationError


class Context:
    """The context of a tool."""


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
    """Return the message of the ValueError, or ""."""
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


class Pairs(Enum):
    A = (1, 2)


class Point(NamedTuple):
    x: int


HUGE = 10**5000
