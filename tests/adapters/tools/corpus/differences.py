"""Where we differ from FastMCP or the official SDK, and why."""

import sys
from collections.abc import Iterable
from typing import Final

__all__ = ["DIFFERENCES"]

Difference = tuple[tuple[str, ...], str]

DIFFERENCES: Final[dict[tuple[str, str], Difference]] = {}
"""Expected differences by case and peer, each with its reason."""


def _differ(peer: str, reason: str, where: Iterable[str], *cases: str) -> None:
    for case in cases:
        assert (case, peer) not in DIFFERENCES
        DIFFERENCES[case, peer] = tuple(where), reason


# --- arguments -------------------------------------------------------------------------------

_TEXT = "Some hosts send arrays and objects as JSON text; we parse a text that is wrong as it is."
_differ("fastmcp", _TEXT, ["call 2"], "takes list", "takes list of int", "takes dict")
_differ("fastmcp", _TEXT, ["call 2"], "takes matrix", "takes optional")
_differ("fastmcp", _TEXT, ["call 3"], "takes Union of three", "takes model")

_ANY_TEXT = "The SDK parses each text that looks like JSON, so a tool cannot take such a text."
_differ("mcp", _ANY_TEXT, ["call 4"], "takes any")
_differ("mcp", _ANY_TEXT, ["call 2"], "takes text or list")
_differ("mcp", _ANY_TEXT, ["call 0"], "takes Json")

_UNKNOWN = "The SDK ignores unknown arguments; refused, a model can correct them."
_differ("mcp", _UNKNOWN, ["call 3"], "plain function")
_differ("mcp", _UNKNOWN, ["call 1"], "nothing", "context")

_differ(
    "mcp",
    "A text in Annotated is the description, as in FastMCP.",
    ["input"],
    "takes Annotated with a text",
)
_differ("mcp", "Descriptions come from the docstring, as in FastMCP.", ["input"], "docstring")
_differ(
    "mcp",
    "The SDK shows a text where it takes anything.",
    ["input"],
    "without annotations",
)

_KEYWORDS = "We take **kwargs; FastMCP refuses it, and to the SDK it is a parameter like others."
_differ("fastmcp", _KEYWORDS, ["registered"], "keywords")
_differ("mcp", _KEYWORDS, ["input", "call 0", "call 2"], "keywords")
_differ("mcp", "The SDK refuses parameters that begin with '_'.", ["registered"], "underscore")
_differ(
    "mcp",
    "Arguments have names: the SDK registers a tool whose calls all fail.",
    ["registered"],
    "positional",
    "positional only",
)

_ATTRS = "The others do not know attrs classes."
for _peer in ("fastmcp", "mcp"):
    _differ(
        _peer,
        _ATTRS,
        ["registered"],
        "takes attrs",
        "takes attrs with default",
        "takes list of attrs",
        "takes recursive attrs",
        "takes generic attrs",
        "takes attrs that holds a model",
        "takes attrs with converters",
    )
    _differ(_peer, _ATTRS, ["output", "call 0"], "returns attrs")

_LIMIT = "The others take a limit that does not fit the type, and then fail at each call."
_differ("fastmcp", _LIMIT, ["registered"], "takes limit of another type")
_differ("mcp", _LIMIT, ["registered"], "takes limit of another type")

if sys.version_info < (3, 12):
    _OLD = "Before Python 3.12 pydantic reads only the TypedDict of typing_extensions."
    _differ("fastmcp", _OLD, ["registered"], "takes TypedDict", "takes nested TypedDict")
    _differ("mcp", _OLD, ["registered"], "takes TypedDict", "takes nested TypedDict")
    _differ("fastmcp", _OLD, ["registered"], "returns TypedDict")

# --- results ---------------------------------------------------------------------------------

_CHECKED = (
    "A result is checked by its annotation, as in the SDK; FastMCP returns what does not fit."
)
_differ("fastmcp", _CHECKED, ["call 0"], "returns int from text", "returns int that is none")
_differ("fastmcp", _CHECKED, ["call 0"], "returns model that does not fit")
_FILLED = "The text has the same members as the structured content, with the defaults of the model."
_differ("fastmcp", _FILLED, ["call 0"], "returns model from dict")
_differ("mcp", _FILLED, ["call 0"], "returns model from dict", "returns class with annotations")
_differ(
    "fastmcp",
    "Members have the same names as in arguments, as in the SDK.",
    ["output", "call 0"],
    "returns model with aliases",
)
_differ(
    "fastmcp",
    "A subclass keeps its own members, as in the SDK.",
    ["call 0"],
    "returns base model",
)
_differ(
    "fastmcp",
    "A class with annotations is read as the SDK reads it.",
    ["output", "call 0"],
    "returns class with annotations",
)

_NOTHING = "A schema that says nothing about the result costs tokens only, as in FastMCP."
_differ("mcp", _NOTHING, ["output", "call 0"], "returns None", "returns list of Any")
_differ(
    "mcp",
    "Bytes are text or base64, as in FastMCP; the SDK fails if they are not text.",
    ["output", "call 0"],
    "returns bytes",
    "returns binary bytes",
)
_OBJECT = "An object is structured content, as in FastMCP."
_differ("mcp", _OBJECT, ["call 0"], "returns Any", "untyped dict")
_differ("mcp", _OBJECT, ["output", "call 0"], "returns dict", "returns dict of int to str")

_SCHEMA = "The SDK has no schema for these types, which have one as parameters."
_differ(
    "mcp",
    _SCHEMA,
    ["output", "call 0"],
    "returns NamedTuple",
    "returns enum",
    "returns datetime",
    "returns Decimal",
    "returns Path",
    "returns UUID",
    "returns timedelta",
)
_WRITTEN = "The schema shows what is written: the SDK omits docstrings, defaults, computed fields."
_differ("mcp", _WRITTEN, ["output"], "strings as annotations", "returns dataclass")
_differ("mcp", _WRITTEN, ["output"], "returns nested dataclass", "returns computed field")
_differ("mcp", _WRITTEN, ["output"], "returns Annotated")

_differ("mcp", "The MIME type is the registered one, as in FastMCP.", ["call 0"], "returns audio")
_differ("mcp", "The SDK has no class for files.", ["call 0"], "returns file")

_GENERATOR = "A generator runs after the call, without timeout; the SDK loses its items."
_differ("fastmcp", _GENERATOR, ["registered"], "generator")
_differ("mcp", _GENERATOR, ["registered"], "generator")
