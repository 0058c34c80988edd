# mypy: ignore-errors
"""Run whole tasks with the client of FastMCP 4: `fastmcp_4.py URL`, or `fastmcp_4.py COMMAND...`.

Runs in its own environment and prints one JSON object for each step.
"""

import asyncio
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp.exceptions import ToolError
from fastmcp_tasks.client import ToolTask, call_tool_task
from fastmcp_tasks.client_models import ClientCreateTaskResult
from mcp.shared.exceptions import MCPError
from steps import ASKED, fill_in, plain, report, shown


async def error_of(awaitable):
    try:
        return {"result": await awaitable}
    except MCPError as error:
        return {"code": error.error.code, "message": error.error.message}


async def run_steps(client):
    hello = client.server_capabilities
    report("initialize", revision=client.protocol_version, capabilities=plain(hello))
    report("tools", names=[tool.name for tool in await client.list_tools()])
    report("plain", **shown(await client.call_tool("greet", {"name": "Ada"})))

    count = await call_tool_task(client, "count", {"to": 3, "pause_ms": 150})
    report("create", **plain(count.create_result))
    seen = [plain(await count.status())]
    while seen[-1]["status"] == "working":
        await asyncio.sleep(seen[-1]["pollIntervalMs"] / 1000)
        seen.append(plain(await count.status()))
    report("poll", statuses=[status["status"] for status in seen], last=seen[-1])
    report("result", structuredContent=(await count.result()).structured_content)

    deploy = await call_tool_task(client, "deploy", {"version": "1.2"})
    waiting = await deploy.wait(state="input_required", timeout=10)
    report("question", status=waiting.status, inputRequests=plain(waiting)["inputRequests"])
    report("answer", asked=ASKED, **shown(await deploy.result()))
    again = await client.call_tool("deploy", {"version": "1.3"})
    report("answer unseen", asked=ASKED, **shown(again))

    fail = await call_tool_task(client, "fail", raise_on_error=False)
    done = await fail.result()
    report("fail", status=(await fail.status()).status, **shown(done))
    crash = await call_tool_task(client, "crash")
    try:
        await crash.result()
    except ToolError as error:
        report("crash", status=(await crash.status()).status, message=str(error))

    long = await call_tool_task(client, "count", {"to": 1_000, "pause_ms": 1_000})
    await long.cancel()
    report("cancel", **plain(await long.wait(timeout=10)))
    report("cancel again", **await error_of(long.cancel()))

    nothing = ClientCreateTaskResult.model_validate(
        {**plain(long.create_result), "taskId": "no-such-task"}
    )
    report("unknown", **await error_of(ToolTask(client, "count", nothing).status()))


async def main(target):
    if target[0].startswith("http"):
        transport = StreamableHttpTransport(target[0])
    else:
        transport = StdioTransport(target[0], target[1:], keep_alive=False)
    async with Client(transport, elicitation_handler=fill_in) as client:
        await run_steps(client)
    report("end")


asyncio.run(main(sys.argv[1:]))
