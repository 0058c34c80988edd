"""The signatures: from the documentation of FastMCP and the official SDK, and harder ones.

A case makes its function with the names of the library under test, as its `Image` is another.
"""

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Optional, Union
from uuid import UUID

import annotated_types
import attrs
import mcp_types
from pydantic import (
    AfterValidator,
    AnyUrl,
    BaseModel,
    BeforeValidator,
    Field,
    HttpUrl,
    Json,
    PositiveInt,
    SecretStr,
    StrictInt,
    WithJsonSchema,
    conint,
)

from tests.adapters.tools.corpus.types import (
    Account,
    Address,
    Animal,
    Attrs,
    Box,
    Cat,
    Checked,
    City,
    Colour,
    Counted,
    Dog,
    Even,
    Folder,
    Forecast,
    Frozen,
    Kind,
    Level,
    Line,
    Loose,
    Movie,
    Name,
    Node,
    Order,
    Page,
    Person,
    Plain,
    Point,
    Range,
    Settings,
    Strict,
    Tags,
    Team,
    Track,
    Tree,
)

__all__ = ["CASES", "Case", "Library"]


@attrs.frozen
class Library:
    """The names that a function takes from the library under test."""

    Context: Any
    Image: Any
    Audio: Any
    File: Any


@attrs.frozen
class Case:
    name: str
    make: Callable[[Library], Callable[..., Any]]
    calls: tuple[Mapping[str, Any], ...]


CASES: Final[dict[str, Case]] = {}


def _add(name: str, make: Callable[[Library], Any], calls: Iterable[Mapping[str, Any]]) -> None:
    assert name not in CASES
    CASES[name] = Case(name, make, tuple(calls))


def case(*calls: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Add a function that makes a function, with the arguments of some calls."""

    def add(make: Any) -> Any:
        _add(make.__name__.strip("_").replace("_", " "), make, calls)
        return make

    return add


def takes(name: str, hint: Any, *values: Any, **default: Any) -> None:
    """Add a function with one parameter, which returns what it got."""

    def make(_: Library) -> Any:
        def tool(x: Any) -> str:
            return repr(x)

        tool.__annotations__["x"] = hint
        tool.__defaults__ = tuple(default.values()) or None
        return tool

    calls = [{"x": value} for value in values]
    _add(f"takes {name}", make, [*calls, {}] if default else calls)


def returns(name: str, hint: Any, value: Any) -> None:
    """Add a function with a return annotation; `value` may be a function of the library."""

    def make(library: Library) -> Any:
        def tool() -> Any:
            return value(library) if callable(value) else value

        tool.__annotations__["return"] = hint(library) if _is_maker(hint) else hint
        return tool

    _add(f"returns {name}", make, [{}])


def _is_maker(hint: Any) -> bool:
    return getattr(hint, "__name__", "") == "<lambda>"


# --- parameters: what JSON has ---------------------------------------------------------------

takes("int", int, 1, 1.0, "1", 1.5, "a", True, None, 10**30)
takes("float", float, 1, 1.5, "1.5", "a", None)
takes("str", str, "a", "", 1, None, '["a"]', "null")
takes("bool", bool, True, "yes", "true", 1, 2, "a")
takes("any", Any, 1, "a", None, {"a": [1]}, '{"a": 1}')
takes("object", object, 1, "a", {"a": 1})
takes("none", None, None, 1)
takes("list", list, [1, "a"], "a", "[1]", {})
takes("list of int", list[int], [1, "2"], ["a"], "[1, 2]", "1", 1)
takes("dict", dict, {"a": 1}, [], '{"a": 1}')
takes("dict of str to int", dict[str, int], {"a": "1"}, {"a": "b"})
takes("dict of int to str", dict[int, str], {"1": "a"}, {"a": "a"})
takes("mapping", Mapping[str, float], {"a": 1}, [])
takes("sequence", Sequence[int], [1], "a")
takes("iterable of str", Iterable[str], ["a"], 1)
takes("set", set[int], [1, 1, 2], [[]])
takes("frozenset", frozenset[str], ["a"], 1)
takes("pair", tuple[int, str], [1, "a"], [1], [1, "a", 2])
takes("tuple of any length", tuple[int, ...], [1, 2], ["a"])
takes("nested containers", dict[str, list[tuple[int, int]]], {"a": [[1, 2]]}, {"a": [[1]]})
takes("matrix", list[list[float]], [[1, 2.5]], [1], "[[1]]")

# --- parameters: choices ---------------------------------------------------------------------

takes("optional", int | None, 1, None, "null", "a")
takes("Optional with default", Optional[str], "a", None, default=None)  # noqa: UP045
takes("union", int | str, 1, "1", None, 1.5)
takes("Union of three", Union[int, list[int], None], 1, [1], None, "[1]")  # noqa: UP007
takes("text or list", str | list[str], "a", ["a"], '["a"]')
takes("literal", Literal["a", "b"], "a", "c")
takes("literal of many types", Literal[1, "one", True, None], 1, "one", None, 2)
takes("enum", Colour, "red", "RED", "blue")
takes("enum with default", Colour, "green", default=Colour.RED)
takes("int enum", Level, 1, "1", 3)
takes("str enum", Kind, "small", "huge")
takes("list of enum", list[Colour], ["red"], ["blue"])

# --- parameters: the standard library --------------------------------------------------------

takes("datetime", datetime, "2026-01-02T03:04:05Z", "2026-01-02T03:04:05", "soon", 0)
takes("date", date, "2026-01-02", "2026-02-30")
takes("time", time, "12:30:00", "25:00")
takes("timedelta", timedelta, "P1DT2H", 90, "1 day")
takes("UUID", UUID, "12345678-1234-5678-1234-567812345678", "x")
takes("Path", Path, "/tmp/a.txt", 1)
takes("Decimal", Decimal, "1.10", 1.5, "a")
takes("bytes", bytes, "abc", 1)
takes("complex", complex, "1+2j", "x")
takes("pattern", re.Pattern[str], "a+", "(")

# --- parameters: limits and descriptions -----------------------------------------------------

takes("Annotated with a text", Annotated[int, "How many"], 1, "a")
takes("Annotated Field", Annotated[int, Field(ge=1, description="From 1")], 1, 0)
takes("limit of another type", Annotated[int, Field(min_length=2)], 5)
takes("Field as default", int, 1, 0, default=Field(default=3, ge=1))
takes("Field without default", str, "abc", "ab", default=Field(min_length=3, description="Long"))
takes("Field with default factory", list[int], [1], default=Field(default_factory=lambda: [7]))
takes("Annotated Field and default", Annotated[float, Field(gt=0, le=1)], 1, 0, default=0.5)
takes("Field with title", Annotated[str, Field(title="Your name", examples=["Ada"])], "a")
takes("Field with alias", Annotated[int, Field(alias="count")], 1)
takes("Field with json_schema_extra", Annotated[int, Field(json_schema_extra={"a": 1})], 1)
takes("strict", Annotated[int, Field(strict=True)], 1, "1")
takes("text with pattern", Annotated[str, Field(pattern=r"^[a-z]+$", max_length=5)], "abc", "A")
takes("multiple", Even, 2, 3)
takes("annotated-types", Annotated[int, annotated_types.Ge(1), annotated_types.Lt(9)], 1, 9)
takes("annotated length", Annotated[list[int], annotated_types.Len(1, 2)], [1], [], [1, 2, 3])
takes("limits of items", list[Annotated[int, Field(ge=1)]], [1], [0])
takes("conint", conint(ge=1), 1, 0)
takes("PositiveInt", PositiveInt, 1, 0)
takes("StrictInt", StrictInt, 1, "1")
takes("HttpUrl", HttpUrl, "https://example.org", "example")
takes("AnyUrl", AnyUrl, "ftp://example.org/x", "x")
takes("SecretStr", SecretStr, "s3cret", 1)
takes("Json", Json[list[int]], "[1]", "x")
takes("after validator", Annotated[str, AfterValidator(str.upper)], "a", 1)
takes("before validator", Annotated[int, BeforeValidator(len)], "abc", 1)
takes("WithJsonSchema", Annotated[int, WithJsonSchema({"type": "integer", "x": 1})], 1)
takes("optional with limits", Annotated[int | None, Field(ge=1)], 1, None, 0, default=None)

# --- parameters: classes ---------------------------------------------------------------------

takes("model", Person, {"name": "Ada", "age": 36}, {"name": "", "age": 1}, {"name": "A"},
      '{"name": "Ada", "age": 36}')  # fmt: skip
takes("nested model", Team, {"name": "A", "people": [{"name": "B", "age": 2}]},
      {"name": "A", "people": [{"name": "B"}]})  # fmt: skip
takes("model with default", Address, {"street": "a", "zip": "1234"},
      default=Address(street="Main", zip="0000"))  # fmt: skip
takes("optional model", Address | None, {"street": "a", "zip": "1234"}, None, default=None)
takes("list of models", list[Address], [{"street": "a", "zip": "1234"}], [{"street": "a"}])
takes("model with aliases", Account, {"userName": "a"}, {"user_name": "a"})
takes("strict model", Strict, {"n": 1}, {"n": "1"}, {"n": 1, "m": 2})
takes("loose model", Loose, {"n": 1, "m": 2})
takes("model with validator", Checked, {"even": 2}, {"even": 1})
takes("model validator", Range, {"low": 1, "high": 2}, {"low": 2, "high": 1})
takes("recursive model", Node, {"value": 1, "children": [{"value": 2}]}, {"children": []})
takes("discriminated union", Animal, {"kind": "cat"}, {"kind": "dog", "barks": False}, {"kind": 1})
takes("union of models", Cat | Dog, {"kind": "dog"}, {"kind": "cow"})
takes("generic model", Page[int], {"items": [1]}, {"items": ["a"]})
takes("dataclass", Point, {"x": 1}, {"x": "a"}, {"y": 1}, {"x": 1, "z": 2})
takes("nested dataclass", Line, {"start": {"x": 1}, "end": {"x": 2}}, {"start": {"x": 1}})
takes("frozen dataclass", Frozen, {"path": "/tmp"}, {})
takes("pydantic dataclass", Track, {"title": "a", "seconds": 1}, {"title": "a", "seconds": 0})
takes("TypedDict", Movie, {"title": "a"}, {"year": 1}, {"title": "a", "year": "x"})
takes("TypedDict of typing_extensions", City, {"name": "a"}, {"people": 1})
takes("nested TypedDict", Forecast, {"city": {"name": "a"}, "degrees": [1]}, {"city": {}})
takes("NamedTuple", Order, ["a", 2], {"item": "a"}, [1])
takes("NewType", Name, "a", 1)
takes("type alias", Tags, ["a-b"], ["A"])
takes("attrs", Attrs, {"name": "a"}, {"name": "a", "size": -1}, {"name": "a", "secret": "s"},
      {"name": "a", "other": 1})  # fmt: skip
takes("attrs with default", Attrs, {"name": "a"}, default=Attrs("b"))
takes("list of attrs", list[Attrs | None], [{"name": "a"}, None], [{}])
takes("recursive attrs", Tree, {"value": 1, "left": {"value": 2}}, {"value": 1, "left": {}})
takes("generic attrs", Box[int], {"content": 1}, {"content": "a"})
takes("attrs that holds a model", Folder, {"owner": {"name": "A", "age": 1}, "files": []})
takes("attrs with converters", Settings, {"words": ["b", "a"], "limit": "1"}, {"words": 1})

# --- parameters: forms of functions ----------------------------------------------------------


@case({"a": 1, "b": 2}, {"a": "x", "b": 2}, {"a": 1}, {"a": 1, "b": 2, "c": 3})
def _plain_function(_: Library) -> Any:
    def add(a: int, b: int) -> int:
        """Adds two numbers together."""
        return a + b

    return add


@case({"query": "x"}, {"query": "x", "max_results": "5"}, {"query": "x", "category": None})
def _defaults(_: Library) -> Any:
    def search_products(
        query: str, max_results: int = 10, sort_by: str = "relevance", category: str | None = None
    ) -> str:
        return f"{query} {max_results} {sort_by} {category}"

    return search_products


@case({"image_url": "a", "width": 5}, {"image_url": "a", "width": 5000}, {"image_url": 1})
def _fields_in_docs(_: Library) -> Any:
    async def process_image(
        image_url: Annotated[str, Field(description="URL of the image to process")],
        resize: Annotated[bool, Field(description="Whether to resize the image")] = False,
        width: Annotated[int, Field(description="Target width in pixels", ge=1, le=2000)] = 800,
        format: Annotated[
            Literal["jpeg", "png", "webp"], Field(description="Output image format")
        ] = "jpeg",
    ) -> dict[str, Any]:
        return {"image_url": image_url, "resize": resize, "width": width, "format": format}

    return process_image


@case({"schema": 1, "json": "a", "copy": [1], "model_x": True}, {"schema": 1})
def _names_of_models(_: Library) -> Any:
    def tool(schema: int, json: str, copy: list[int], model_x: bool, dict: str = "") -> str:
        return f"{schema} {json} {copy} {model_x}"

    return tool


@case({"_hidden": 1}, {})
def _underscore(_: Library) -> Any:
    def tool(_hidden: int) -> int:
        return _hidden

    return tool


@case({"a": 1, "b": 2}, {"a": 1}, {"b": 1})
def _keyword_only(_: Library) -> Any:
    def tool(*, a: int, b: int = 3) -> int:
        return a * b

    return tool


@case({"a": 1, "b": "2"}, {"a": 1, "b": "x"}, {"a": 1})
def _keywords(_: Library) -> Any:
    def tool(a: int, **more: int) -> str:
        return f"{a} {sorted(more.items())}"

    return tool


@case({"a": 1})
def _positional(_: Library) -> Any:
    def tool(*numbers: int) -> int:
        return sum(numbers)

    return tool


@case({"a": 1})
def _positional_only(_: Library) -> Any:
    def tool(a: int, /) -> int:
        return a

    return tool


@case({"a": 1}, {"a": [1]}, {})
def _without_annotations(_: Library) -> Any:
    def tool(a, b="x"):  # type: ignore[no-untyped-def]
        return f"{a!r} {b!r}"

    return tool


@case({"x": 1}, {"x": "a"}, {"x": 1, "factor": 3})
def _partial(_: Library) -> Any:
    def multiply(x: int, factor: int) -> int:
        return x * factor

    return functools.update_wrapper(functools.partial(multiply, factor=2), multiply)


@case({"x": 1}, {"x": "a"})
def _bound_method(_: Library) -> Any:
    class Counter:
        def __init__(self) -> None:
            self.total = 40

        def add(self, x: int) -> int:
            """Add to a total."""
            return self.total + x

    return Counter().add


@case({"x": 1}, {"x": "a"})
def _callable_object(_: Library) -> Any:
    class Adder:
        __name__ = "adder"

        def __call__(self, x: int) -> int:
            return x + 1

    return Adder()


@case({"x": "a"}, {})
def _wrapped(_: Library) -> Any:
    def tool(x: str) -> str:
        return x

    @functools.wraps(tool)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return tool(*args, **kwargs).upper()

    return wrapper


@case({"person": {"name": "Ada", "age": 1}, "n": 1}, {"person": {"name": "Ada"}, "n": 1})
def _strings_as_annotations(_: Library) -> Any:
    def tool(person: "Person", n: "Annotated[int, Field(ge=1)]") -> "Point":
        return Point(n, person.age)

    return tool


@case({"x": 1}, {"x": 1, "ctx": {}})
def _context(library: Library) -> Any:
    async def tool(x: int, ctx: Any) -> int:
        assert ctx is not None
        return x

    tool.__annotations__["ctx"] = library.Context
    return tool


@case({"city": "Bern", "days": 2})
def _docstring(_: Library) -> Any:
    def forecast(city: str, days: Annotated[int, Field(description="kept")] = 1) -> str:
        """Forecast the weather.

        Args:
            city: The name of the city.
            days: Not used, as the annotation has a description.

        Returns:
            A sentence.
        """
        return f"{city} {days}"

    return forecast


# --- results: data ---------------------------------------------------------------------------

returns("str", str, "a")
returns("int", int, 5)
returns("int from text", int, "5")
returns("int that is none", int, "a")
returns("float", float, 1.5)
returns("bool", bool, True)
returns("None", None, None)
returns("Any", Any, {"a": 1})
returns("Any as text", Any, "a")
returns("optional", int | None, None)
returns("union", int | str, "a")
returns("literal", Literal["a", "b"], "a")
returns("list", list, [1, 2])
returns("list of Any", list[Any], [1, "a"])
returns("list of int", list[int], [1, 2])
returns("list of str", list[str], ["a", "b"])
returns("list of models", list[Address], [Address(street="a", zip="1234")])
returns("tuple", tuple[int, str], (1, "a"))
returns("set", set[int], {1})
returns("dict", dict, {"a": 1})
returns("dict of str to float", dict[str, float], {"a": 1.5})
returns("dict of int to str", dict[int, str], {1: "a"})
returns("model", Person, Person(name="Ada", age=36, home=Address(street="a", zip="1234")))
returns("model from dict", Person, {"name": "Ada", "age": 36})
returns("model that does not fit", Person, {"name": "Ada"})
returns("optional model", Person | None, None)
returns("union of models", Cat | Dog, Dog(kind="dog"))
returns("recursive model", Node, Node(value=1, children=[Node(value=2)]))
returns("generic model", Page[int], Page[int](items=[1]))
returns("model with aliases", Account, Account(userName="a"))
returns("computed field", Counted, Counted(items=["a"]))
returns("dataclass", Point, Point(1, 2))
returns("nested dataclass", Line, Line(start=Point(1), end=Point(2)))
returns("TypedDict", Movie, {"title": "a"})
returns("NamedTuple", Order, Order("a", 2))
returns("enum", Colour, Colour.RED)
returns("datetime", datetime, datetime(2026, 1, 2, 3, 4, 5))
returns("Decimal", Decimal, Decimal("1.5"))
returns("Path", Path, Path("/tmp"))
returns("UUID", UUID, UUID(int=1))
returns("timedelta", timedelta, timedelta(minutes=1))
returns("attrs", Attrs, Attrs("a"))
returns("class with annotations", Plain, Plain("Bern", 21.5))
returns("Annotated", Annotated[Point, Field(description="Where")], Point(1))
returns("type alias", Tags, ["a"])
returns("bytes", bytes, b"abc")
returns("binary bytes", bytes, b"\xff\x00")
returns("base model", BaseModel, Address(street="a", zip="1234"))

# --- results: content ------------------------------------------------------------------------

PNG: Final = b"\x89PNG"

returns("image", lambda lib: lib.Image, lambda lib: lib.Image(data=PNG, format="png"))
returns("jpeg", lambda lib: lib.Image, lambda lib: lib.Image(data=PNG, format="jpeg"))
returns("audio", lambda lib: lib.Audio, lambda lib: lib.Audio(data=PNG, format="mp3"))
returns("file", lambda lib: lib.File, lambda lib: lib.File(data=b"a,b", format="csv"))
returns("optional image", lambda lib: lib.Image | None, None)
returns(
    "images",
    lambda lib: list[lib.Image],  # type: ignore[name-defined]
    lambda lib: [lib.Image(data=PNG)] * 2,
)
returns("mixed list", list, lambda lib: ["a", lib.Image(data=PNG), {"b": 1}])
returns(
    "text and images",
    lambda lib: list[str | lib.Image],  # type: ignore[name-defined]
    lambda lib: ["a", lib.Image(data=PNG)],
)
returns("undeclared image", Any, lambda lib: lib.Image(data=PNG))
returns("text block", mcp_types.TextContent, mcp_types.TextContent(type="text", text="a"))
returns("blocks", list[mcp_types.ContentBlock], [mcp_types.TextContent(type="text", text="a")])
returns(
    "resource link",
    mcp_types.ResourceLink,
    mcp_types.ResourceLink(type="resource_link", uri="https://example.org/a", name="a"),
)
returns(
    "embedded resource",
    mcp_types.EmbeddedResource,
    mcp_types.EmbeddedResource(
        type="resource", resource=mcp_types.TextResourceContents(uri="a:b", text="c")
    ),
)
returns(
    "result of the SDK",
    mcp_types.CallToolResult,
    mcp_types.CallToolResult(
        content=[mcp_types.TextContent(type="text", text="a")], structured_content={"b": 1}
    ),
)


@case({}, {"x": 1})
def _nothing(_: Library) -> Any:
    def tool():  # type: ignore[no-untyped-def]
        return None

    return tool


@case({})
def _untyped_dict(_: Library) -> Any:
    def tool():  # type: ignore[no-untyped-def]
        return {"a": [1, 2]}

    return tool


@case({})
def _generator(_: Library) -> Any:
    def tool() -> Iterable[int]:
        yield 1
        yield 2

    return tool
