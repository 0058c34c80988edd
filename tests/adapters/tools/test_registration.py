"""Registration: the description of a tool, and errors that name the line of a wrong function."""

import asyncio
import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
import fastmcp
import mcp_types
import msgspec
import pytest
from pydantic import BaseModel, Field

from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.definitions import Options, check_options
from taskmachine.adapters.tools.registry import Threads, Tools
from taskmachine.adapters.tools.retries import exponential
from taskmachine.protocol.caller import Caller
from taskmachine.statemachine import ConfigurationError, Outcome
from tests.adapters.tools.reading import refusal, returning, taking

HERE = Path(__file__).relative_to(Path.cwd()) if Path(__file__).is_relative_to(Path.cwd()) else (
    Path(__file__)
)  # fmt: skip


def shown(tools: Tools) -> Any:
    (tool,) = tools.values()
    return tool.offered.definition


def run(tools: Tools, arguments: bytes = b"{}") -> Outcome:
    (tool,) = tools.values()
    nothing: Any = None
    return asyncio.run(
        tool.run(
            arguments,
            Context(nothing, Caller("alice"), lambda: None, Threads(1).run),
            Threads(1),
            lambda error: None,
        )
    )


# --- ways to register ------------------------------------------------------------------------


def test_with_and_without_parentheses() -> None:
    tools = Tools()

    @tools.task
    def first(x: int) -> int:
        """The first."""
        return x

    @tools.task()
    def second(x: int) -> int:
        return x

    @tools.task("third", description="The third.")
    def unnamed(x: int) -> int:
        return x

    tools.add(first, "fourth", title="Fourth", timeout=5)
    assert [*tools] == ["first", "second", "third", "fourth"]
    assert first(1) == second(1) == unnamed(1) == 1
    assert tools["first"].description == "The first."
    assert tools["third"].description == "The third."
    assert tools["fourth"].timeout_ms == 5_000


def test_what_is_shown_of_a_tool() -> None:
    tools = Tools()

    @tools.task(
        title="Delete files",
        annotations={"readOnlyHint": False, "destructive_hint": True, "title": "Delete"},
        icons=[{"src": "https://example.org/a.png", "mime_type": "image/png"}],
        meta={"team": "files"},
        tags={"b", "a"},
    )
    def delete() -> None:
        """Delete all files."""

    definition = shown(tools)
    assert definition == {
        "name": "delete",
        "description": "Delete all files.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
        "title": "Delete files",
        "annotations": {"readOnlyHint": False, "destructiveHint": True, "title": "Delete"},
        "icons": [{"src": "https://example.org/a.png", "mimeType": "image/png"}],
        "_meta": {"team": "files", "taskmachine/tags": ["a", "b"]},
    }
    mcp_types.Tool.model_validate(definition)


def test_models_of_the_sdk_are_taken() -> None:
    tools = Tools()
    tools.add(
        returning(None),
        annotations=mcp_types.ToolAnnotations(read_only_hint=True),  # type: ignore[arg-type]
        icons=[mcp_types.Icon(src="data:,")],  # type: ignore[list-item]
    )
    assert shown(tools)["annotations"] == {"readOnlyHint": True}
    assert shown(tools)["icons"] == [{"src": "data:,"}]


# --- forms of functions ----------------------------------------------------------------------


class Adder:
    """Adds numbers."""

    def __init__(self, by: int = 1) -> None:
        self.by = by

    async def __call__(self, x: int) -> int:
        """Add.

        Args:
            x: The number.
        """
        return x + self.by

    def add(self, x: int) -> int:
        """Add to a number."""
        return x + self.by


def test_a_callable_object() -> None:
    tools = Tools()
    tools.add(Adder(2))
    definition = shown(tools)
    assert (definition["name"], definition["description"]) == ("Adder", "Adds numbers.")
    assert definition["inputSchema"]["properties"]["x"]["description"] == "The number."
    assert tools["Adder"].is_coroutine
    assert b'"result":3' in (run(tools, b'{"x": 1}').result or b"")


def test_a_bound_method_and_a_partial() -> None:
    tools = Tools()
    tools.add(Adder(2).add)
    assert shown(tools)["description"] == "Add to a number."
    assert b'"result":3' in (run(tools, b'{"x": 1}').result or b"")

    def multiply(x: int, by: int) -> int:
        """Multiply."""
        return x * by

    tools = Tools()
    tools.add(functools.partial(multiply, by=3))
    definition = shown(tools)
    assert (definition["name"], definition["description"]) == ("multiply", "Multiply.")
    assert b'"result":6' in (run(tools, b'{"x": 2}').result or b"")
    assert b'"result":8' in (run(tools, b'{"x": 2, "by": 4}').result or b"")


# --- descriptions from docstrings ------------------------------------------------------------

GOOGLE = """Book a flight.

    At once.

    Args:
        city (str): The city
            of arrival.
        seats: How many.

    Returns:
        A number.
    """
NUMPY = """Book a flight.

    At once.

    Parameters
    ----------
    city : str
        The city of arrival.
    seats : int
        How many.

    Returns
    -------
    int
    """
SPHINX = """Book a flight.

    At once.

    :param city: The city
        of arrival.
    :param int seats: How many.
    :returns: A number.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["Google", "NumPy", "Sphinx"])
def test_docstrings_describe_parameters(text: str) -> None:
    def book(
        city: str, seats: Annotated[int, Field(description="from 1 to 9")], ctx: Context
    ) -> int:
        return seats

    book.__doc__ = text
    tools = Tools()
    tools.add(book)
    definition = shown(tools)
    assert definition["description"] == "Book a flight.\n\nAt once."
    described = {k: v["description"] for k, v in definition["inputSchema"]["properties"].items()}
    assert described == {"city": "The city of arrival.", "seats": "from 1 to 9"}


def test_a_docstring_without_parameters_stays_as_it_is() -> None:
    tools = Tools()
    tools.add(test_a_docstring_without_parameters_stays_as_it_is)
    assert "description" not in shown(tools)

    def tool() -> None:
        """Say what Args: are.

        Returns:
            Nothing.
        """

    tools = Tools()
    tools.add(tool)
    assert shown(tools)["description"] == "Say what Args: are.\n\nReturns:\n    Nothing."


# --- what cannot be a tool -------------------------------------------------------------------


@attrs.frozen
class Unknowable:
    x: "Nowhere"  # type: ignore[name-defined]  # noqa: F821


@attrs.define(init=False)
class Odd:
    a: int

    def __init__(self, b: int) -> None:
        self.a = b


@attrs.frozen
class Holds:
    thread: threading.Thread


@dataclasses.dataclass
class AlsoHolds:
    thread: threading.Thread


class Arbitrary(BaseModel):
    model_config = {"arbitrary_types_allowed": True}

    thread: threading.Thread


class Unfit(BaseModel):
    numbers: list[int] = Field(le=3)


class Struct(msgspec.Struct):
    a: int


USE = "; use JSON types, a pydantic model, a dataclass or an attrs class"

UNFIT: list[tuple[Any, str]] = [
    (threading.Thread, f"threading.Thread cannot be JSON{USE}"),
    (list[threading.Thread], f"cannot be JSON: threading.Thread is not{USE}"),
    (Holds, f"Holds cannot be JSON: threading.Thread is not{USE}"),
    (AlsoHolds, "AlsoHolds cannot be JSON: threading.Thread is not"),
    (Arbitrary, "Arbitrary cannot be JSON: threading.Thread is not"),
    (Struct, "Struct cannot be JSON"),
    (Callable[[int], int], "cannot be JSON; use JSON types"),
    (type, "type cannot be JSON"),
    (5, "5 cannot be JSON"),
    ("Nowhere", "name 'Nowhere' is not defined; define or import it at the top of the module"),
    ("list[Nowhere]", "name 'Nowhere' is not defined"),
    ("1 +", "cannot resolve '1 +'"),
    (Unknowable, "cannot resolve the annotations of Unknowable: name 'Nowhere' is not defined"),
    (list[Odd], "Odd cannot be made from its fields: missing a required argument: 'b'"),
    (Annotated[int, msgspec.Meta(ge=1)], "msgspec.Meta is not supported; use pydantic's Field"),
    (list[Annotated[int, msgspec.Meta(ge=1)]], "msgspec.Meta is not supported"),
    (Annotated[int, Field(min_length=2)], "MinLen(min_length=2) does not fit int"),
    (list[Annotated[str, Field(ge=1)]], "Ge(ge=1) does not fit str"),
    (Unfit, "Le(le=3) does not fit list[int]"),
    (Annotated[str, Field(pattern="(")], "str is not valid: error: unclosed group"),
    (Annotated[str, Field(pattern="(?=a)")], "look-around, including look-ahead and look-behind"),
]


@pytest.mark.parametrize(("hint", "words"), UNFIT, ids=[words for _, words in UNFIT])
def test_a_parameter_that_cannot_be_offered(hint: Any, words: str) -> None:
    function = taking(hint)
    said = refusal(function)
    line = function.__code__.co_firstlineno
    assert said.startswith(f"{HERE.with_name('reading.py')}:{line}: tool 'tool': parameter 'x': ")
    assert words in said
    assert len(said) < 400


@pytest.mark.parametrize(
    "hint",
    [
        *(threading.Thread, list[Holds], Callable, Iterator[int], "Nowhere", Odd, type),
        *(Annotated[int, Field(min_length=2)], Unfit),
    ],
    ids=str,
)
def test_a_result_that_cannot_be_json(hint: Any) -> None:
    said = refusal(returning(hint))
    assert said.startswith(f"{HERE.with_name('reading.py')}:")
    assert ": tool 'tool': the return type: " in said


def limited(a: int = Field(default=3, max_length=2)) -> None: ...
def positional(a: int, /) -> None: ...
def variadic(*args: int) -> None: ...
def twice(a: Context, b: Context) -> None: ...
def keywords(**kwargs: threading.Thread) -> None: ...
def contexts(**kwargs: Context) -> None: ...
def foreign(ctx: fastmcp.Context) -> None: ...
def fine() -> None: ...


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> Any:
    yield 1


FUNCTIONS: list[tuple[Any, str]] = [
    (limited, "parameter 'a': MaxLen(max_length=2) does not fit int"),
    (positional, "parameter 'a': is positional-only, but arguments are passed by name"),
    (variadic, "parameter 'args': takes positional arguments, but they are passed by name"),
    (twice, "takes the context twice: a, b"),
    (keywords, "tool 'keywords': parameter 'kwargs': threading.Thread cannot be JSON"),
    (contexts, "tool 'contexts': parameter 'kwargs': "),
    (foreign, "takes the Context of fastmcp.server.context; use taskmachine.Context"),
    (generator, "'generator': is a generator, which would run after the call; return a list"),
    (
        async_generator,
        "'async_generator': is a generator, which would run after the call; return a list",
    ),
    (Adder.add, "parameter 'self': has no object; register a bound method"),
    (Adder, "is a class; use a function"),
    (lambda: None, 'a lambda has no name; use name="..."'),
    (len, "is positional-only"),
    (5, "a tool must be a function, got 5"),
    ("fine", "a tool must be a function, got 'fine'"),
]


@pytest.mark.parametrize(("function", "words"), FUNCTIONS, ids=[words for _, words in FUNCTIONS])
def test_a_function_that_cannot_be_a_tool(function: Any, words: str) -> None:
    said = refusal(function)
    assert words in said
    if hasattr(function, "__code__"):
        assert said.startswith(f"{HERE}:{function.__code__.co_firstlineno}: ")


OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "'' cannot be the name of a tool; use 1 to 128 letters, digits, '_', '-'"),
    ({"name": "a b"}, "'a b' cannot be the name of a tool"),
    ({"name": "x" * 129}, "cannot be the name of a tool"),
    ({"name": 5}, "5 cannot be the name of a tool"),
    ({"timout": 5}, "'timout' is not known; did you mean 'timeout'?"),
    ({"color": 5}, "'color' is not known; use description, title, "),
    ({"timeout": 0}, "timeout must be from 1 ms to 7 days, got 0 s"),
    ({"timeout": float("nan")}, "timeout must be from 1 ms to 7 days, got nan s"),
    ({"timeout": "5"}, "timeout must be a number of seconds, got str"),
    ({"poll_interval": -1}, "poll_interval must be from 1 ms to 7 days, got -1 s"),
    ({"support": "sometimes"}, "support must be one of required, optional, forbidden"),
    ({"priority": "urgent"}, "priority must be one of low, normal, high"),
    ({"repeatable": "no"}, "repeatable must be True or False, got str"),
    ({"retries": -1}, "retries must be from 0 to 1000, got -1"),
    ({"retries": "3"}, "retries must be from 0 to 1000, got '3'"),
    ({"retries": True}, "retries must be from 0 to 1000, got True"),
    ({"retries": 1, "backoff": 3}, "backoff must be a function, such as exponential(first=1), got"),
    ({"retries": 1, "backoff": exponential}, "exponential(first=1), got <class "),
    ({"retries": 1, "backoff": int.__neg__}, "backoff must return 0 s to 7 days, got -1"),
    ({"retries": 1, "backoff": len}, "backoff(1) raised TypeError("),
    ({"backoff": exponential()}, "backoff needs retries, as in retries=5"),
    ({"retries": 1, "retry_on": "x"}, "retry_on must be an exception class or a tuple of them"),
    ({"retries": 1, "give_up_on": [OSError]}, "give_up_on must be an exception class or a tuple"),
    ({"title": 5}, "title must be a text, got int"),
    ({"annotations": {"readonly": True}}, "'readonly' is not known; did you mean 'readOnlyHint'?"),
    ({"annotations": {"readOnlyHint": "yes"}}, "readOnlyHint must be True or False, got 'yes'"),
    ({"annotations": 5}, "annotations: must be an object, got int"),
    ({"icons": "a.png"}, "icons must be a list of objects, got str"),
    ({"icons": ["a.png"]}, "icons: must be an object, got str"),
    ({"icons": [{"source": "a"}]}, "icons: 'source' is not known; did you mean 'src'?"),
    ({"icons": [{"mimeType": "a"}]}, "icons: each icon needs src, as in "),
    ({"meta": 5}, "meta must be an object, got int"),
    ({"meta": {1: 2}}, "tags, and the keys of meta, must be texts"),
    ({"meta": {"a": object}}, "title, icons or meta cannot be JSON"),
    ({"tags": "admin"}, 'tags must be several texts, as in ["admin"], got str'),
    ({"tags": [5]}, "tags, and the keys of meta, must be texts"),
    ({"first": 5}, "first must be an object, got int"),
    ({"schema": {"type": "string"}}, 'schema must have the type "object"'),
    (
        {"schema": {"type": "object", "properties": {"a": {"type": "array", "x-mcp-header": "A"}}}},
        "tool 'fine': x-mcp-header of 'a' needs type",
    ),
]


@pytest.mark.parametrize(
    ("options", "words"), OPTIONS, ids=[str(options)[:60] for options, _ in OPTIONS]
)
def test_options_that_cannot_be(options: dict[str, Any], words: str) -> None:
    said = refusal(fine, **options)
    assert said.startswith(f"{HERE}:{fine.__code__.co_firstlineno}: ")
    assert words in said


def test_a_parameter_with_a_header_that_cannot_be() -> None:
    hint = Annotated[list[int], Field(json_schema_extra={"x-mcp-header": "A"})]
    assert "x-mcp-header of 'x' needs type" in refusal(taking(hint))


def test_a_name_is_given_once() -> None:
    tools = Tools()
    tools.add(fine)
    with pytest.raises(ConfigurationError, match="a tool 'fine' is already registered"):
        tools.task(fine)


def test_a_literal_of_text_is_no_class() -> None:
    tools = Tools()
    tools.add(returning(Literal["a", "b"]))
    assert shown(tools)["outputSchema"]["properties"]["result"]["enum"] == ["a", "b"]


def test_each_option_is_known() -> None:
    check_options(dict.fromkeys(Options.__annotations__))
