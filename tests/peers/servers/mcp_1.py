# mypy: ignore-errors
"""A minimal server with tasks on the Python SDK 1, over stdio or `http PORT`."""

import sys

import anyio
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult, TextContent, Tool, ToolExecution

server = Server("tasks-of-mcp-1")
server.experimental.enable_tasks()

SLEEP = {"type": "object", "properties": {"seconds": {"type": "number"}}, "required": ["seconds"]}


def said(text, *, is_error=False):
    return CallToolResult(content=[TextContent(type="text", text=text)], isError=is_error)


@server.list_tools()
async def list_tools():
    nothing = {"type": "object", "properties": {}}
    task = ToolExecution(taskSupport="required")
    return [
        Tool(name="echo", description="At once", inputSchema=nothing),
        Tool(name="sleep", description="Sleep a while", inputSchema=SLEEP, execution=task),
        Tool(name="ask", description="Ask for a name", inputSchema=nothing, execution=task),
        Tool(name="fail", description="Raise an error", inputSchema=nothing, execution=task),
    ]


async def sleep(task, arguments):
    await task.update_status("Asleep")
    await anyio.sleep(arguments["seconds"])
    return said("Good morning")


async def ask(task, arguments):
    form = {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
    }
    reply = await task.elicit("What is your name?", form)
    return said(f"Hello, {(reply.content or {}).get('name', 'stranger')}")


async def fail(task, arguments):
    raise RuntimeError("it does not work")


WORK = {"sleep": sleep, "ask": ask, "fail": fail}


@server.call_tool()
async def call_tool(name, arguments):
    if name == "echo":
        return said("echo")
    if name not in WORK:
        return said(f"no tool {name}", is_error=True)
    context = server.request_context
    context.experimental.validate_task_mode("required")

    async def work(task):
        return await WORK[name](task, arguments)

    return await context.experimental.run_task(work)


async def over_stdio():
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def over_http(port):
    import contextlib

    import uvicorn
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.applications import Starlette
    from starlette.routing import Mount

    manager = StreamableHTTPSessionManager(server)

    @contextlib.asynccontextmanager
    async def lifespan(app):
        async with manager.run():
            yield

    app = Starlette(routes=[Mount("/mcp", app=manager.handle_request)], lifespan=lifespan)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


if sys.argv[1:2] == ["http"]:
    over_http(int(sys.argv[2]))
else:
    anyio.run(over_stdio)
