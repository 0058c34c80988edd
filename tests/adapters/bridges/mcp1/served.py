# mypy: ignore-errors
"""A server of `mcp` 1.x whose tools the test controls."""

import asyncio
from contextlib import asynccontextmanager
from functools import wraps

import anyio
from mcp import McpError
from mcp.server import Server
from mcp.shared.memory import create_connected_server_and_client_session
from mcp.types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ClientRequest,
    ElicitResult,
    TaskMetadata,
    TextContent,
    Tool,
    ToolExecution,
)

PATIENCE_S = 10
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}


class Served:
    """A server and the state of its tools; `enable` adds tasks."""

    def __init__(self, enable):
        self.server = Server("served")
        self.store = enable(self.server)
        self.go = {}
        self.ended = {}
        self.server.list_tools()(self._list_tools)
        self.server.call_tool()(self._call_tool)

    async def _list_tools(self):
        task = ToolExecution(taskSupport="required")
        names = ("say", "wait", "refuse", "crash", "ask", "report", "unfit", "meddle")
        return [Tool(name=n, inputSchema={"type": "object"}, execution=task) for n in names]

    async def _call_tool(self, name, arguments):
        async def work(task):
            self.go.setdefault(task.task_id, asyncio.Event())
            self.ended[task.task_id] = "running"
            try:
                result = await getattr(self, name)(task, **arguments)
            except BaseException as error:
                self.ended[task.task_id] = type(error).__name__
                raise
            self.ended[task.task_id] = "returned"
            return result

        return await self.server.request_context.experimental.run_task(work)

    async def say(self, task, text="done"):
        return said(text)

    async def wait(self, task):
        await self.go[task.task_id].wait()
        return said("done")

    async def refuse(self, task):
        return said("no", is_error=True)

    async def crash(self, task, after=False):
        if after:
            await self.go[task.task_id].wait()
        raise RuntimeError("it does not work")

    async def ask(self, task):
        answer = await task.elicit("Who?", FORM)
        return said(f"{answer.action} {(answer.content or {}).get('name')}")

    async def report(self, task):
        await task.update_status("before")
        await self.go[task.task_id].wait()
        await task.update_status("after")
        return said("done")

    async def unfit(self, task):
        return CallToolResult(content=[], structuredContent={"value": object()})

    async def meddle(self, task, other):
        for status in ("completed", "cancelled", "input_required", None):
            try:
                await self.store.update_task(other, status=status, status_message="mine")
            except ValueError:
                continue
            return said(f"it is {status}")
        return said("there is none")

    @asynccontextmanager
    async def client(self, **more):
        async with create_connected_server_and_client_session(self.server, **more) as session:
            yield Caller(session)

    async def ends(self, task_id, how):
        await until(lambda: self.ended.get(task_id) == how)


class Caller:
    """A client session with shorter methods."""

    def __init__(self, session):
        self.session = session
        self._tasks = session.experimental

    async def create(self, tool, ttl=60_000, **arguments):
        created = await self._tasks.call_tool_as_task(tool, arguments, ttl=ttl)
        return created.task

    async def refused(self, tool, **arguments):
        """Return the answer of a tool that could not become a task."""
        params = CallToolRequestParams(name=tool, arguments=arguments, task=TaskMetadata(ttl=1))
        request = ClientRequest(CallToolRequest(params=params))
        result = await self.session.send_request(request, CallToolResult)
        assert result.isError
        return text_of(result)

    async def get(self, task_id):
        return await self._tasks.get_task(task_id)

    async def result(self, task_id):
        with anyio.fail_after(PATIENCE_S):
            return await self._tasks.get_task_result(task_id, CallToolResult)

    async def cancel(self, task_id):
        return await self._tasks.cancel_task(task_id)

    async def list(self, cursor=None):
        return await self._tasks.list_tasks(cursor)

    async def status(self, task_id):
        return (await self.get(task_id)).status

    async def sees(self, task_id, status):
        with anyio.fail_after(PATIENCE_S):
            while await self.status(task_id) != status:
                await anyio.sleep(0.01)


def said(text, *, is_error=False):
    return CallToolResult(content=[TextContent(type="text", text=text)], isError=is_error)


def text_of(result):
    return result.content[0].text


async def until(is_so):
    with anyio.fail_after(PATIENCE_S):
        while not is_so():
            await anyio.sleep(0.01)


async def refusal(call):
    try:
        answer = await call
    except McpError as error:
        return error.error
    raise AssertionError(f"answered: {answer}")


async def accept(context, params):
    return ElicitResult(action="accept", content={"name": "Ada"})


async def never(context, params):
    await anyio.sleep_forever()


def alive(act):
    """Run with a time limit; an exception in the server fails the test."""

    @wraps(act)
    def test(**fixtures):
        async def main():
            with anyio.fail_after(3 * PATIENCE_S):
                await act(**fixtures)

        anyio.run(main)

    return test
