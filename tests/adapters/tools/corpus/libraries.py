"""The three libraries: what each shows of a function, and what calls of it return."""

import asyncio
import functools
import json
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
import fastmcp
import fastmcp.exceptions
import fastmcp.utilities.types
import mcp.server.mcpserver
import mcp_types

import taskmachine
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.registry import Threads, Tools
from taskmachine.protocol.caller import Caller
from taskmachine.protocol.jsonvalue import JSONObject, encode_json
from taskmachine.statemachine import ConfigurationError
from tests.adapters.tools.corpus.cases import CASES, Case, Library

__all__ = ["LIBRARIES", "OURS", "Shown", "plain", "shown"]

OURS: Final = "taskmachine"


@attrs.frozen
class Shown:
    """How a library shows a case; a call is `refused`, `failed` or has a result."""

    input: Any
    output: Any
    calls: tuple[Any, ...]


async def _taskmachine(function: Callable[..., Any], case: Case) -> Shown:
    tools = Tools()
    try:
        tools.add(function)
    except ConfigurationError:
        return Shown(None, None, ())
    (tool,) = tools.values()
    definition = tool.offered.definition

    async def call(arguments: Mapping[str, Any]) -> Any:
        work: Any = _NoWork()
        context: Any = Context(work, Caller("alice"), lambda: None, Threads(1).run)
        outcome = await tool.run(encode_json(arguments), context, Threads(1), lambda error: None)
        if outcome.result is None:
            return "failed"
        result = json.loads(outcome.result)
        return "refused" if result.get("isError") else _result(result)

    calls = [await call(arguments) for arguments in case.calls]
    return Shown(definition["inputSchema"], definition.get("outputSchema"), tuple(calls))


class _NoWork:
    task_id = None
    observe_step = None


async def _fastmcp(function: Callable[..., Any], case: Case) -> Shown:
    server = fastmcp.FastMCP("it")
    try:
        server.add_tool(function)
    except Exception:  # noqa: BLE001  it may raise anything
        return Shown(None, None, ())
    (tool,) = await server.list_tools()

    async def call(arguments: Mapping[str, Any]) -> Any:
        try:
            result = await server.call_tool(tool.name, dict(arguments))
        except fastmcp.exceptions.ValidationError:
            return "refused"
        except Exception:  # noqa: BLE001
            return "failed"
        return _result(
            _wire(
                mcp_types.CallToolResult(
                    content=result.content, structured_content=result.structured_content
                )
            )
        )

    calls = [await call(arguments) for arguments in case.calls]
    return Shown(tool.parameters, tool.output_schema, tuple(calls))


async def _mcp(function: Callable[..., Any], case: Case) -> Shown:
    server = mcp.server.mcpserver.MCPServer("it")
    try:
        server.add_tool(function)
    except Exception:  # noqa: BLE001
        return Shown(None, None, ())
    (tool,) = await server.list_tools()

    async def call(arguments: Mapping[str, Any]) -> Any:
        try:
            result = await server.call_tool(tool.name, dict(arguments))
        except mcp.server.mcpserver.exceptions.UnexpectedToolError:
            return "failed"
        except mcp.server.mcpserver.exceptions.ToolError:
            return "refused"
        return _result(_wire(result))

    calls = [await call(arguments) for arguments in case.calls]
    return Shown(tool.input_schema, tool.output_schema, tuple(calls))


def _wire(result: Any) -> JSONObject:
    wire: JSONObject = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return wire


def _result(result: JSONObject) -> JSONObject:
    parts = [part for block in result["content"] for part in _parts(block)]
    return {"content": parts, "structured": result.get("structuredContent")}


def _parts(block: JSONObject) -> list[Any]:
    """Return text as the JSON in it: the libraries space it, and split lists, in different ways."""
    if block["type"] != "text":
        return [block]
    try:
        value = json.loads(block["text"])
    except ValueError:
        return [block["text"]]
    return value if isinstance(value, list) else [value]


LIBRARIES: Final = {
    "fastmcp": (
        _fastmcp,
        Library(
            fastmcp.Context,
            fastmcp.utilities.types.Image,
            fastmcp.utilities.types.Audio,
            fastmcp.utilities.types.File,
        ),
    ),
    "mcp": (
        _mcp,
        Library(
            mcp.server.mcpserver.Context,
            mcp.server.mcpserver.Image,
            mcp.server.mcpserver.Audio,
            fastmcp.utilities.types.File,  # it has none of its own
        ),
    ),
    OURS: (_taskmachine, Library(Context, taskmachine.Image, taskmachine.Audio, taskmachine.File)),
}


@functools.cache
def shown() -> dict[tuple[str, str], Shown]:
    """Return how each library shows each case, by the names of library and case.

    Ours is the last: it teaches pydantic the classes of attrs, so the others would know them.
    """
    found = {}
    with warnings.catch_warnings(action="ignore"):
        for library, (look, names) in LIBRARIES.items():
            for case in CASES.values():
                found[library, case.name] = asyncio.run(look(case.make(names), case))
    return found


def plain(schema: Any) -> Any:
    """Return a schema without titles, and with definitions in their places.

    FastMCP moves each definition to its place, the SDK gives a title to everything.
    """
    if schema is None:
        return None
    definitions = schema.get("$defs", {})

    def moved(part: Any, within: tuple[str, ...]) -> Any:
        if isinstance(part, list):
            return [moved(item, within) for item in part]
        if not isinstance(part, dict):
            return part
        name = str(part.get("$ref", "")).removeprefix("#/$defs/")
        if name in definitions and name not in within:
            rest = {key: value for key, value in part.items() if key != "$ref"}
            return moved({**definitions[name], **rest}, (*within, name))
        is_title = isinstance(part.get("title"), str)
        dropped = {
            "x-fastmcp-wrap-result",
            "$defs",
            "discriminator",
            *(["title"] if is_title else []),
        }
        return {key: moved(value, within) for key, value in part.items() if key not in dropped}

    return moved(schema, ())
