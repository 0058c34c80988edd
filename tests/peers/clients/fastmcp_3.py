# mypy: ignore-errors
"""Run whole tasks with the client of FastMCP 3: `fastmcp_3.py URL`, or `fastmcp_3.py COMMAND...`.

Runs in its own environment and prints one JSON object for each step.
"""

import asyncio
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from mcp import McpError
from mcp.types import CreateMessageResult, TextContent
from steps import ASKED, fill_in, plain, report, shown


async def error_of(awaitable):
    try:
        return {"result": await awaitable}
    except McpError as error:
        return {"code": error.error.code, "message": error.error.message}


HEARD = []
STATUSES = []


async def sample(messages, params, context):
    ASKED.append({"kind": "sampling", **plain(params)})
    text = TextContent(type="text", text="Tasks take time.")
    return CreateMessageResult(role="assistant", content=text, model="none")


async def record(message):
    notification = getattr(message, "root", None)
    if notification is not None and notification.method == "notifications/progress":
        HEARD.append(plain(notification.params))
    if notification is not None and notification.method == "notifications/tasks/status":
        STATUSES.append(plain(notification.params))


async def run_steps(client):
    hello = client.initialize_result
    report("initialize", revision=hello.protocolVersion, capabilities=plain(hello.capabilities))
    tools = await client.list_tools()
    support = {t.name: t.execution and t.execution.taskSupport for t in tools}
    report("tools", support=support)
    report("plain", **shown(await client.call_tool("greet", {"name": "Ada"})))

    task = await client.call_tool(
        "count", {"to": 3, "pause_ms": 150}, task=True, ttl=90_000, meta={"progressToken": "three"}
    )
    count = task.task_id
    report("create", task=plain(await client.get_task_status(count)))
    seen = []
    while not seen or seen[-1]["status"] == "working":
        seen.append(plain(await client.get_task_status(count)))
        await asyncio.sleep(seen[-1]["pollInterval"] / 1000)
    report("poll", statuses=[status["status"] for status in seen], last=seen[-1], task=count)
    report("result", structuredContent=(await task).structured_content)
    report("progress", task=count, heard=HEARD)

    # Its own `result` requests the result only after the task has ended, so questions would hang.
    deploy = (await client.call_tool("deploy", {"version": "1.2"}, task=True)).task_id
    while (status := await client.get_task_status(deploy)).status == "working":
        await asyncio.sleep(status.pollInterval / 1000)
    done = await client.get_task_result(deploy)
    seen = [s["status"] for s in STATUSES if s["taskId"] == deploy]
    report("question", seen=[status.status, *seen])
    report("answer", task=deploy, asked=ASKED, **done)
    ASKED.clear()
    sampled = (await client.call_tool("sample", {"topic": "tasks"}, task=True)).task_id
    done = await client.get_task_result(sampled)
    report("sampling", task=sampled, asked=ASKED, **done)

    fail = await client.call_tool("fail", task=True, raise_on_error=False)
    done = await fail
    report("fail", status=(await client.get_task_status(fail.task_id)).status, **shown(done))
    crash = (await client.call_tool("crash", task=True)).task_id
    answer = await error_of(client.get_task_result(crash))
    report("crash", status=(await client.get_task_status(crash)).status, **answer)

    long = {"to": 1_000, "pause_ms": 1_000}
    cancelled = (await client.call_tool("count", long, task=True)).task_id
    report("cancel", **plain(await client.cancel_task(cancelled)))
    report("cancel again", **await error_of(client.cancel_task(cancelled)))
    report("cancelled", **plain(await client.get_task_status(cancelled)))
    report("result of cancelled", **await error_of(client.get_task_result(cancelled)))

    listed = [task["taskId"] for task in (await client.list_tasks())["tasks"]]
    made = [cancelled, crash, fail.task_id, sampled, deploy, count]
    report("list", listed=listed, made=made)
    report("unknown", **await error_of(client.get_task_status("no-such-task")))


async def main(target):
    is_url = target[0].startswith("http")
    transport = target[0] if is_url else StdioTransport(target[0], target[1:], keep_alive=False)
    async with Client(
        transport,
        elicitation_handler=fill_in,
        sampling_handler=sample,
        message_handler=record,
    ) as client:
        await run_steps(client)
    report("end")


asyncio.run(main(sys.argv[1:]))
