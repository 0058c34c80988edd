"""The classes of the corpus."""

import dataclasses
from datetime import date
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Annotated, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar

import attrs
import typing_extensions
from pydantic import BaseModel, ConfigDict, Field, computed_field, field_validator, model_validator
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypeAliasType

__all__ = [
    "Account",
    "Address",
    "Animal",
    "Attrs",
    "Box",
    "Cat",
    "Checked",
    "City",
    "Colour",
    "Counted",
    "Dog",
    "Even",
    "Folder",
    "Forecast",
    "Frozen",
    "Kind",
    "Level",
    "Line",
    "Loose",
    "Movie",
    "Name",
    "Node",
    "Order",
    "Page",
    "Person",
    "Plain",
    "Point",
    "Range",
    "Settings",
    "Slug",
    "Strict",
    "Tags",
    "Team",
    "Track",
    "Tree",
]

T = TypeVar("T")


class Colour(Enum):
    """A colour."""

    RED = "red"
    GREEN = "green"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Kind(StrEnum):
    SMALL = "small"
    LARGE = "large"


class Address(BaseModel):
    street: str
    zip: str = Field(pattern=r"^\d{4}$", description="Four digits")


class Person(BaseModel):
    """A person."""

    name: str = Field(min_length=1, description="The full name")
    age: int = Field(ge=0, le=150)
    born: date | None = None
    home: Address | None = None


class Team(BaseModel):
    name: str
    people: list[Person] = Field(default_factory=list, max_length=3)


class Account(BaseModel):
    user_name: str = Field(alias="userName", title="User")
    quota: int = Field(default=5, alias="maxQuota")


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    n: int


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")

    n: int


class Checked(BaseModel):
    even: int

    @field_validator("even")
    @classmethod
    def _is_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value


class Range(BaseModel):
    low: int
    high: int

    @model_validator(mode="after")
    def _is_ordered(self) -> "Range":
        if self.low > self.high:
            raise ValueError("low must not be above high")
        return self


class Counted(BaseModel):
    items: list[str]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def count(self) -> int:
        return len(self.items)


class Node(BaseModel):
    value: int
    children: "list[Node]" = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    barks: bool = True


Animal = Annotated[Cat | Dog, Field(discriminator="kind")]


class Page(BaseModel, Generic[T]):
    items: list[T]
    next: str | None = None


@dataclasses.dataclass
class Point:
    """A point."""

    x: int
    y: int = 0


@dataclasses.dataclass(kw_only=True)
class Line:
    start: Point
    end: Point
    labels: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Frozen:
    path: Path


@pydantic_dataclass
class Track:
    title: str
    seconds: int = Field(gt=0)


class Movie(TypedDict, total=False):
    title: typing_extensions.Required[str]
    year: int


class City(typing_extensions.TypedDict):
    name: str
    people: typing_extensions.NotRequired[int]


class Forecast(TypedDict):
    city: City
    degrees: Annotated[list[float], Field(max_length=2)]


class Order(NamedTuple):
    item: str
    count: int = 1  # type: ignore[assignment]  # the name of a method of tuple


@attrs.frozen
class Attrs:
    """A class of attrs."""

    name: str
    size: int = attrs.field(default=1, validator=attrs.validators.ge(0))
    _secret: str = "none"
    tags: list[str] = attrs.field(factory=list)


@attrs.define
class Tree:
    value: int
    left: "Tree | None" = None
    right: "Tree | None" = None


@attrs.define
class Box(Generic[T]):
    content: T


@attrs.define
class Folder:
    owner: Person
    files: list[Attrs]


def _sorted(words: list[str]) -> list[str]:
    return sorted(words)


@attrs.define
class Settings:
    words: list[str] = attrs.field(converter=_sorted)
    limit: float = attrs.field(default=0.5, converter=float)


class Plain:
    """A class with annotations only."""

    city: str
    degrees: float

    def __init__(self, city: str, degrees: float) -> None:
        self.city = city
        self.degrees = degrees


Name = NewType("Name", str)
Slug = Annotated[str, Field(pattern=r"^[a-z-]+$", max_length=10)]
Even = Annotated[int, Field(multiple_of=2)]
Tags = TypeAliasType("Tags", list[Slug])
