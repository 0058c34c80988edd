"""`taskmachine tools`: list the tools of an MCP server, or describe one."""

import argparse
import asyncio
import shlex
import sys
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from taskmachine.adapters.cli.connecting import (
    add_connection_options,
    add_server,
    find_tool,
    opened,
)
from taskmachine.adapters.cli.schemas import Schema
from taskmachine.adapters.rendering.documents import as_json
from taskmachine.adapters.rendering.tasks import plain_table
from taskmachine.adapters.rendering.wording import printable
from taskmachine.protocol.jsonvalue import JSONObject

__all__ = ["add_to"]

MAX_MEMBERS: Final = 100
"""Maximum number of lines for the members of a schema; `--json` prints all of it."""


def add_to(commands: Any, console: Callable[[], Console]) -> None:
    """Add the command to a parser."""
    does = "list the tools of an MCP server, or describe one"
    tools = commands.add_parser("tools", help=does, description=f"L{does[1:]}.")
    add_server(tools)
    tools.add_argument("tool", metavar="TOOL", nargs="?", help="the tool to describe")
    add_connection_options(tools)
    tools.add_argument("--json", action="store_true", help="print JSON, as the server sent it")
    tools.set_defaults(run=lambda options: asyncio.run(_run(options, console)))


async def _run(options: argparse.Namespace, console: Callable[[], Console]) -> int:
    async with opened(options) as session:
        tools = await session.tools()
    shown = tools if options.tool is None else find_tool(tools, options.tool, options.server)
    if options.json:
        sys.stdout.write(as_json(shown))
    elif isinstance(shown, list):
        _print_all(console(), shown)
    else:
        _print_one(console(), shown, options.server)
    return 0


def _print_all(console: Console, tools: Sequence[JSONObject]) -> None:
    if not tools:
        print("The server has no tools.")
        return
    tells_support = any("execution" in tool for tool in tools)
    table = plain_table()
    for name in ("tool", "arguments", *(["task"] if tells_support else []), "description"):
        table.add_column(name, no_wrap=name in ("tool", "task"))
    for tool in tools:
        schema = Schema.of(tool["inputSchema"])
        names = (name if name in schema.required else f"[{name}]" for name in schema.members)
        table.add_row(
            Text(printable(tool["name"]), "bold"),
            Text(printable(" ".join(names))),
            *([_support(tool)] if tells_support else []),
            Text(printable(_description(tool).partition("\n")[0])),
        )
    console.print(table)


def _print_one(console: Console, tool: JSONObject, target: str) -> None:
    console.print(Text(printable(tool["name"]), "bold"))
    description = "\n".join(map(printable, _description(tool).split("\n")))
    console.print(Padding(Text(description), (0, 0, 0, 2)))
    if "execution" in tool:
        console.print(Text.assemble(("\ntask", "bold"), f"\n  {_support(tool)}"))
    given, returned = Schema.of(tool["inputSchema"]), tool.get("outputSchema")
    _print_members(console, "arguments", given)
    if returned is not None:
        _print_members(console, "result", Schema.of(returned))
    needed = [f"{name}=..." for name in given.required]
    command = shlex.join(["taskmachine", "call", target, tool["name"]])
    console.print(Text("\ncall it", "bold"))
    console.print(Text(printable(" ".join([f"  {command}", *needed]))), soft_wrap=True)


def _print_members(console: Console, title: str, schema: Schema) -> None:
    console.print(Text(f"\n{title}", "bold"))
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="cyan")
    grid.add_column()
    grid.add_column(ratio=1)
    for depth, name, member, is_required in islice(schema.walk(), MAX_MEMBERS):
        kind = f"{member.kind()}, required" if is_required else member.kind()
        grid.add_row(
            Text(printable(f"  {'  ' * depth}{name}")),
            Text(printable(kind)),
            Text(printable(member.description)),
        )
    if grid.row_count:
        console.print(grid)
    else:
        console.print(Text(f"  {printable(schema.kind())}" if schema.takes_others else "  none"))


def _description(tool: JSONObject) -> str:
    said = tool.get("description") or tool.get("title")
    return said.strip() if isinstance(said, str) else ""


def _support(tool: JSONObject) -> str:
    """Return whether a call of the tool can or must be a task."""
    execution = tool.get("execution")
    support = execution.get("taskSupport") if isinstance(execution, dict) else None
    return support if support in ("required", "optional") else "no"
