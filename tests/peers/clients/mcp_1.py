# mypy: ignore-errors
"""Run whole tasks with the client of the Python SDK 1: `mcp_1.py URL`, or `mcp_1.py COMMAND...`.

Runs in its own environment and prints one JSON object for each step.
"""

import asyncio
import contextlib
import sys

from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from steps import plain, report


class Person:
    """Answers all questions and records the messages."""

    def __init__(self):
        self.asked = []
        self.progress = []
        self.statuses = []

    async def fill_in(self, context, params):
        self.asked.append({"kind": "form", **plain(params)})
        content = {"confirmed": True, "stage": "live"}
        return types.ElicitResult(action="accept", content=content)

    async def sample(self, context, params):
        self.asked.append({"kind": "sampling", **plain(params)})
        text = types.TextContent(type="text", text="Tasks take time.")
        return types.CreateMessageResult(role="assistant", content=text, model="none")

    async def record(self, message):
        notification = getattr(message, "root", None)
        if isinstance(notification, types.ProgressNotification):
            self.progress.append(plain(notification.params))
        if isinstance(notification, types.TaskStatusNotification):
            self.statuses.append(plain(notification.params))


@contextlib.asynccontextmanager
async def connected(target):
    if target[0].startswith("http"):
        async with streamable_http_client(target[0]) as (read, write, _):
            yield read, write
    else:
        async with stdio_client(StdioServerParameters(command=target[0], args=target[1:])) as both:
            yield both


async def error_of(awaitable):
    try:
        return {"result": plain(await awaitable)}
    except McpError as error:
        return {"code": error.error.code, "message": error.error.message}


async def run_steps(session, person):
    tasks = session.experimental
    hello = await session.initialize()
    report("initialize", revision=hello.protocolVersion, capabilities=plain(hello.capabilities))
    tools = (await session.list_tools()).tools
    support = {t.name: t.execution and t.execution.taskSupport for t in tools}
    report("tools", support=support)
    report("plain", **plain(await session.call_tool("greet", {"name": "Ada"})))

    arguments = {"to": 3, "pause_ms": 150}
    made = await tasks.call_tool_as_task(
        "count", arguments, ttl=90_000, meta={"progressToken": "three"}
    )
    count = made.task.taskId
    report("create", **plain(made))
    seen = [plain(status) async for status in tasks.poll_task(count)]
    report("poll", statuses=[status["status"] for status in seen], last=seen[-1], task=count)
    report("result", **plain(await tasks.get_task_result(count, types.CallToolResult)))
    report("progress", task=count, heard=person.progress)

    deploy = (await tasks.call_tool_as_task("deploy", {"version": "1.2"})).task.taskId
    # The task may end before the next poll, but its notification arrives.
    seen = []
    async for status in tasks.poll_task(deploy):
        seen.append(status.status)
        if status.status == "input_required":
            break
    done = await tasks.get_task_result(deploy, types.CallToolResult)
    seen += [status["status"] for status in person.statuses if status["taskId"] == deploy]
    report("question", seen=seen)
    report("answer", task=deploy, asked=person.asked, **plain(done))
    person.asked.clear()

    sample = (await tasks.call_tool_as_task("sample", {"topic": "tasks"})).task.taskId
    done = await tasks.get_task_result(sample, types.CallToolResult)
    report("sampling", task=sample, asked=person.asked, **plain(done))

    fail = (await tasks.call_tool_as_task("fail")).task.taskId
    done = await tasks.get_task_result(fail, types.CallToolResult)
    report("fail", status=(await tasks.get_task(fail)).status, **plain(done))
    crash = (await tasks.call_tool_as_task("crash")).task.taskId
    answer = await error_of(tasks.get_task_result(crash, types.CallToolResult))
    report("crash", status=(await tasks.get_task(crash)).status, **answer)

    long = {"to": 1_000, "pause_ms": 1_000}
    cancelled = (await tasks.call_tool_as_task("count", long)).task.taskId
    report("cancel", **plain(await tasks.cancel_task(cancelled)))
    report("cancel again", **await error_of(tasks.cancel_task(cancelled)))
    report("cancelled", **plain(await tasks.get_task(cancelled)))
    answer = await error_of(tasks.get_task_result(cancelled, types.CallToolResult))
    report("result of cancelled", **answer)

    listed, cursor = [], None
    while True:
        page = await tasks.list_tasks(cursor)
        listed += [task.taskId for task in page.tasks]
        cursor = page.nextCursor
        if cursor is None:
            break
    made = [cancelled, crash, fail, sample, deploy, count]
    report("list", listed=listed, made=made)
    report("unknown", **await error_of(tasks.get_task("no-such-task")))
    report("forbidden", **await error_of(tasks.call_tool_as_task("greet", {"name": "Ada"})))
    report("notified", statuses=person.statuses, tasks=made)


async def main(target):
    person = Person()
    async with (
        connected(target) as (read, write),
        ClientSession(
            read,
            write,
            elicitation_callback=person.fill_in,
            sampling_callback=person.sample,
            message_handler=person.record,
        ) as session,
    ):
        await run_steps(session, person)
    report("end")


asyncio.run(main(sys.argv[1:]))
