"""A server of the official SDK with our tasks: the demo tools, and the task tools of the suite.

    python sdk_tasks.py --stdio | --http HOST:PORT [--store URL]

Tools that ask require a task: plain calls are the SDK's own, which would ask clients that did not
declare support.
"""

import argparse
import asyncio
from typing import Annotated, Literal

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, CallToolResult, SamplingMessage, TextContent
from pydantic import BaseModel, Field

from taskmachine.adapters.bridges.mcp import Tasks, elicitation

parser = argparse.ArgumentParser()
parser.add_argument("--stdio", action="store_true")
parser.add_argument("--http")
parser.add_argument("--store", default="memory:")
options = parser.parse_args()

tasks = Tasks(store=options.store)
server = MCPServer("sdk", version="1", extensions=[tasks])


class Confirmation(BaseModel):
    confirmed: bool = Field(title="Deploy it")
    stage: Literal["test", "live"] = "test"


class Sure(BaseModel):
    confirm: bool


class Named(BaseModel):
    name: str


@server.tool()
async def greet(name: str = "you") -> CallToolResult:
    """Say hello, at once."""
    return CallToolResult(content=[TextContent(text=f"Hello, {name}!")])


@server.tool()
@tasks.tool(timeout=3_600)
async def count(
    ctx: Context,
    to: Annotated[int, Field(ge=1, le=100_000)] = 10,
    pause_ms: Annotated[int, Field(ge=0, le=60_000)] = 500,
) -> dict[str, int]:
    """Count from one to a number, slowly, and report the progress of it."""
    for number in range(1, to + 1):
        await asyncio.sleep(pause_ms / 1_000)
        await ctx.report_progress(number, to, f"{number} of {to}")
    return {"counted": to}


@server.tool(structured_output=False)
@tasks.tool(support="required", timeout=60)
async def deploy(version: str, ctx: Context) -> str:
    """Deploy a version, after a person has confirmed it in a form."""
    await ctx.report_progress(1, 3, f"{version} is built")
    answer = await ctx.elicit(f"Deploy {version}?", Confirmation)
    if answer.action != "accept" or not answer.data.confirmed:
        return f"{version} was not deployed: not confirmed."
    return f"{version} is deployed to {answer.data.stage}."


@server.tool(structured_output=False)
@tasks.tool(support="required")
async def sample(topic: str, ctx: Context) -> str:
    """Have the caller's own model write a sentence about a topic."""
    asked = TextContent(text=f"Write one sentence about {topic}.")
    said = await ctx.session.create_message(
        [SamplingMessage(role="user", content=asked)], max_tokens=100
    )
    return said.content.text if isinstance(said.content, TextContent) else ""


@server.tool(structured_output=False)
@tasks.tool()
async def fail() -> str:
    """Fail in the way of a tool."""
    raise ToolError("This tool always fails: that is its purpose.")


@server.tool(structured_output=False)
@tasks.tool()
async def crash() -> str:
    """Fail in the way of a program."""
    raise MCPError(INTERNAL_ERROR, "Tool 'crash' failed")


@server.tool(structured_output=False)
@tasks.tool()
async def slow_compute(seconds: float, ctx: Context, label: str = "") -> str:
    """Takes its time."""
    await ctx.report_progress(0, seconds, "computing")
    await asyncio.sleep(seconds)
    return f"{label or 'It'} took {seconds:g} s."


@server.tool(structured_output=False)
@tasks.tool(support="required")
async def failing_job() -> str:
    """Ends with a result that is an error."""
    await asyncio.sleep(0.1)
    raise ToolError("This job always fails.")


@server.tool(structured_output=False)
@tasks.tool()
async def protocol_error_job() -> str:
    """Ends without a result."""
    raise MCPError(INTERNAL_ERROR, "This job always breaks.")


@server.tool(structured_output=False)
@tasks.tool(support="required")
async def confirm_delete(filename: str, ctx: Context) -> str:
    """Asks before it pretends to delete a file."""
    answer = await ctx.elicit(f"Delete {filename}?", Sure)
    is_sure = answer.action == "accept" and answer.data.confirm
    return f"{filename} was {'deleted' if is_sure else 'kept'}."


@server.tool(structured_output=False)
@tasks.tool(support="required")
async def multi_input(ctx: Context) -> str:
    """Asks two things at once."""
    name, sure = await asyncio.gather(
        ctx.elicit("What is your name?", Named), ctx.elicit("Are you sure?", Sure)
    )
    return f"{name.action}, {sure.action}"


@server.tool(structured_output=False)
@tasks.tool(support="required", first=[elicitation("What is your name?", Named)])
async def test_tool_with_task(ctx: Context) -> str:
    """Asks before there is a task, and uses the answer in it."""
    answer = await ctx.elicit("What is your name?", Named)
    return f"Hello, {answer.data.name if answer.action == 'accept' else 'stranger'}!"


if options.stdio:
    server.run()
else:
    host, _, port = options.http.partition(":")
    server.run("streamable-http", host=host, port=int(port))
