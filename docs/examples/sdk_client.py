#!/usr/bin/env python3
"""A client of the official SDK, `mcp` 2.x, that waits for tasks and answers their questions.

    python sdk_client.py                                starts the demo server itself
    python sdk_client.py http://127.0.0.1:8000/mcp      for `taskmachine serve --http ...`

The end of the input (Ctrl-D) declines a question.  Without a terminal it answers by itself.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

from mcp import Client, MCPError, StdioServerParameters
from mcp.client import ClientRequestContext
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, TextContent

from taskmachine import TaskmachineError
from taskmachine.client import Field, fields_of
from taskmachine.mcp import ClientTasks, steady_http

SERVER = StdioServerParameters(
    command=str(Path(sys.executable).with_name("taskmachine")),
    args=["serve", "--stdio", "--store", "memory:", "--log-level", "error"],
)


async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """Answer a question of a plain call or a task; called once for each."""
    print("asked:", params.message, flush=True)
    fields = fields_of(params.model_dump(by_alias=True, mode="json"))
    try:
        typed = {field.name: await fill_in(field) for field in fields}
    except EOFError:
        return ElicitResult(action="decline")
    content = {name: value for name, value in typed.items() if value is not None}
    return ElicitResult(action="accept", content=content)


async def fill_in(field: Field) -> Any:
    if not sys.stdin.isatty():
        return field.default
    while True:
        try:
            return field.read(await asyncio.to_thread(input, f"  {field.label}: "))
        except ValueError as error:
            print(f"  {error}")


def text_of(result: CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


async def main(url: str | None) -> None:
    tasks = ClientTasks()
    target = SERVER if url is None else steady_http(url)
    async with Client(target, extensions=[tasks], elicitation_callback=answer) as client:
        # Like a plain call, though the server makes it a task.
        print(text_of(await client.call_tool("count", {"to": 3, "pause_ms": 100})))

        # The same with access to the task.
        async with tasks.start(client, "deploy", {"version": "1.4"}) as task:
            async for update in task:  # until the end
                print(f"{update.status}: {update.message or ''}", flush=True)
            print(text_of(await task.result()))


def why(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):  # the SDK wraps errors of the connection
        error = error.exceptions[0]
    return str(error)


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1] if sys.argv[1:] else None))
    except (ExceptionGroup, MCPError, TaskmachineError) as error:
        sys.exit(why(error))
