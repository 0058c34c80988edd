"""Features of FastMCP in tasks: its middleware, tools and contexts."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.auth import require_scopes
from fastmcp.server.dependencies import get_access_token, get_http_request
from fastmcp.server.middleware import Middleware, MiddlewareContext
from fastmcp.server.middleware.caching import ResponseCachingMiddleware
from fastmcp.utilities.tasks import TaskConfig

from taskmachine.adapters.bridges.fastmcp import Tasks
from taskmachine.adapters.bridges.mcp import loop_runtime
from taskmachine.statemachine import ConfigurationError, Times
from tests.adapters.bridges.fastmcp_shop import Shop, Tokens, over_http, shop
from tests.adapters.bridges.mcp.serving import bounded, seen
from tests.adapters.transports.wire import CAPABILITIES, Caller

INTERNAL_ERROR, INVALID_PARAMS = -32603, -32602


async def answered(caller: Caller, task_id: str, **content: Any) -> dict[str, Any]:
    """Answer the only open question and return its parameters."""
    shown = await seen(caller, task_id, "input_required")
    [(key, request)] = shown["inputRequests"].items()
    replies = {key: {"action": "accept", "content": content}}
    update = {"taskId": task_id, "inputResponses": replies}
    assert "result" in await caller.call("tasks/update", update)
    params: dict[str, Any] = request["params"]
    return params


async def text_of(caller: Caller, task_id: str) -> str:
    result = (await seen(caller, task_id, "completed"))["result"]
    return str(result["content"][0]["text"])


# --- questions -------------------------------------------------------------------------------


@bounded
async def test_a_tool_may_ask_by_its_context() -> None:
    async with shop() as (_, caller):
        task_id = await caller.create("greet", {})
        asked = await answered(caller, task_id, name="Ada")
        assert asked["message"] == "Who?"
        assert asked["requestedSchema"]["required"] == ["name"]
        assert await text_of(caller, task_id) == "Hello, Ada!"


@bounded
async def test_tool_can_ask_by_returning_input_requests() -> None:
    async with shop() as (place, caller):
        task_id = await caller.create("guarded", {})
        assert (await answered(caller, task_id, name="Ada"))["message"] == "First name?"
        while (await seen(caller, task_id, "input_required"))["inputRequests"] == {}:
            pass
        assert (await answered(caller, task_id, name="Byron"))["message"] == "Last name?"
        assert await text_of(caller, task_id) == "Ada Byron"
        assert place.runs == 3, "one for each round"


@bounded
async def test_question_to_a_client_without_elicitation_fails_the_task() -> None:
    async with shop() as (_, caller):
        caller.capabilities = {"extensions": CAPABILITIES["extensions"]}
        task_id = await caller.create("greet", {})
        error = (await seen(caller, task_id, "failed"))["error"]
        assert error["code"] == INTERNAL_ERROR
        assert "did not declare" in error["message"]


@bounded
async def test_unanswered_question_fails_the_task_after_its_ttl() -> None:
    times = Times(default_ttl_ms=300, grace_ms=1_500)
    async with shop(tasks=Tasks(times=times, timeout=0.1)) as (_, caller):
        task_id = await caller.create("greet", {})
        await seen(caller, task_id, "input_required")
        error = (await seen(caller, task_id, "failed"))["error"]
        assert error["code"] == INTERNAL_ERROR


# --- access and middleware -------------------------------------------------------------------


class Guard(Middleware):
    """Rejects one tool, rewrites the arguments of another, and calls a third for each."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: Any) -> Any:
        self.seen.append(context.message.name)
        server = context.fastmcp_context
        assert server is not None
        if context.message.name == "wait":
            raise ToolError("not for you")
        if context.message.name == "add" and context.message.arguments["a"] == 1:
            noted = await server.fastmcp.call_tool("add", {"a": 2, "b": 2})
            assert noted.structured_content == {"sum": 4}, "no task, but what it is"
            context.message.arguments["b"] = 100
        return await call_next(context)


@pytest.mark.parametrize("is_legacy", [False, True])
@bounded
async def test_middleware_sees_every_call_before_there_is_a_task(is_legacy: bool) -> None:
    guard = Guard()
    async with shop(middleware=[guard]) as (place, caller):
        if is_legacy:
            await caller.introduce()
        more: dict[str, Any] = {"task": {}} if is_legacy else {}
        call = {"name": "wait", "arguments": {}, **more}
        answer = await caller.call("tools/call", call)
        if is_legacy:
            assert answer["error"]["code"] == INVALID_PARAMS
            assert "not for you" in answer["error"]["message"]
        else:
            assert answer["result"]["isError"] is True
        task_id = await caller.create("add", {"a": 1, "b": 2})
        await seen(caller, task_id, "completed")
        serving = await place.tasks.serving()
        outcome = (await serving.runtime.service.store.browse(None, 10))[0].outcome
        assert outcome is not None
        assert outcome.result is not None
        assert b'"sum":101' in outcome.result.replace(b" ", b"")
        assert len(await serving.runtime.service.store.browse(None, 10)) == 1
        assert guard.seen == ["wait", "add", "add"], "and what runs is not seen again"
        assert not place.begun.is_set()


@bounded
async def test_a_cache_does_not_keep_tasks() -> None:
    async with shop(middleware=[ResponseCachingMiddleware()]) as (_, caller):
        ids = {await caller.create("add", {"a": 1, "b": 2}) for _ in range(2)}
        assert len(ids) == 2
        await caller.introduce()
        ids = {await caller.create("add", {"a": 1, "b": 2}) for _ in range(2)}
        assert len(ids) == 2
        call = {"name": "add", "arguments": {"a": 1, "b": 2}}
        answer = await caller.call("tools/call", call)
        assert answer["result"]["structuredContent"] == {"sum": 3}


@bounded
async def test_tool_called_by_a_tool_runs_within_its_caller() -> None:
    place = Shop()

    @place.server.tool
    async def twice(ctx: Context) -> str:
        once = await ctx.fastmcp.call_tool("add", {"a": 1, "b": 2})
        return str(once.structured_content)

    @place.server.tool(task=True)
    async def thrice(ctx: Context) -> str:
        once = await ctx.fastmcp.call_tool("add", {"a": 1, "b": 2})
        return str(once.structured_content)

    async with over_http(place.server) as caller:
        answer = await caller.call("tools/call", {"name": "twice", "arguments": {}})
        assert answer["result"]["structuredContent"] == {"result": "{'sum': 3}"}
        task_id = await caller.create("thrice", {})
        assert await text_of(caller, task_id) == "{'sum': 3}"


@pytest.mark.parametrize("is_legacy", [False, True])
@bounded
async def test_whether_the_caller_may_use_a_tool_is_decided_before_there_is_a_task(
    is_legacy: bool,
) -> None:
    place = Shop(auth=Tokens())

    @place.server.tool(task=True, auth=require_scopes("write"))
    async def write() -> str:
        return f"{get_access_token()}"

    async with over_http(place.server) as caller:
        caller.headers["authorization"] = "Bearer ada"
        if is_legacy:
            await caller.introduce()
        more: dict[str, Any] = {"task": {}} if is_legacy else {}
        answer = await caller.call("tools/call", {"name": "write", "arguments": {}, **more})
        assert "Unknown tool" in str(answer)
        caller.headers["authorization"] = "Bearer ada+write"
        task_id = await caller.create("write", {})
        if is_legacy:
            result = (await caller.call("tasks/result", {"taskId": task_id}))["result"]
            assert result["content"][0]["text"] == "None"
        else:
            assert await text_of(caller, task_id) == "None", "tokens are not kept"


# --- tools -----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@bounded
async def test_tool_context_in_a_task_comes_from_the_task_record() -> None:
    @asynccontextmanager
    async def lifespan(server: FastMCP[Any]) -> AsyncIterator[dict[str, str]]:
        yield {"pool": "open"}

    place = Shop(lifespan=lifespan)

    @place.server.tool(task=True)
    async def look(ctx: Context) -> dict[str, Any]:
        await ctx.info("this has nowhere to go")
        with pytest.raises(RuntimeError):
            get_http_request()
        return {
            "request": ctx.request_id,
            "task": ctx.task_id,
            "lifespan": ctx.lifespan_context["pool"],
            "server": ctx.fastmcp.name,
        }

    async with over_http(place.server) as caller:
        task_id = await caller.create("look", {})
        result = (await seen(caller, task_id, "completed"))["result"]
        assert result["structuredContent"] == {
            "request": f"task {task_id}",
            "task": None,
            "lifespan": "open",
            "server": "shop",
        }


@bounded
async def test_tools_of_a_mounted_server_run_as_tasks() -> None:
    place, child = Shop(), FastMCP("child")

    @child.tool(task=True)
    async def greet(ctx: Context) -> str:
        answer = await ctx.elicit("Who?", str)
        return f"Hello, {answer.data}!" if answer.action == "accept" else "?"

    place.server.mount(child, namespace="little")
    async with over_http(place.server) as caller:
        task_id = await caller.create("little_greet", {})
        await answered(caller, task_id, value="Ada")
        assert await text_of(caller, task_id) == "Hello, Ada!"


@bounded
async def test_a_task_runs_the_version_that_was_called() -> None:
    place = Shop()

    @place.server.tool(name="which", version="1", task=True)
    async def first() -> str:
        return "one"

    @place.server.tool(name="which", version="2", task=True)
    async def second() -> str:
        return "two"

    async with over_http(place.server) as caller:
        assert await text_of(caller, await caller.create("which", {})) == "two"
        meta = {"fastmcp": {"version": "1"}}
        assert await text_of(caller, await caller.create("which", {}, _meta=meta)) == "one"


@bounded
async def test_a_tool_that_came_later_is_found() -> None:
    async with shop() as (place, caller):

        @place.server.tool(task=True)
        async def late() -> str:
            return "better than never"

        assert await text_of(caller, await caller.create("late", {})) == "better than never"

        @place.server.tool(task=True)
        async def later() -> str:
            return "still"

        await caller.introduce()
        tools = (await caller.call("tools/list"))["result"]["tools"]
        support = {tool["name"]: tool.get("execution") for tool in tools}
        assert support["later"] == {"taskSupport": "optional"}


@bounded
async def test_unserializable_result_is_handled_as_by_fastmcp_without_tasks() -> None:
    place = Shop()

    @place.server.tool(task=True)
    async def odd() -> Any:
        return {"a": object()}

    async with over_http(place.server) as caller:
        task_id = await caller.create("odd", {})
        await caller.wait_for(task_id, "completed")
        result = (await seen(caller, task_id, "completed"))["result"]
        caller.capabilities = {}
        plain = await caller.call("tools/call", {"name": "odd", "arguments": {}})
        assert result.get("isError") == plain["result"].get("isError")


@bounded
async def test_tool_settings_of_fastmcp_override_the_defaults_of_the_extension() -> None:
    tasks = Tasks(poll_interval=3, timeout=7)
    place = Shop(tasks=tasks)

    @place.server.tool(task=TaskConfig(poll_interval=timedelta(seconds=2)))
    @tasks.tool(timeout=9, repeatable=False)
    async def marked() -> str:
        return ""

    @place.server.tool(task=True, timeout=11)
    async def long() -> str:
        return ""

    async with over_http(place.server) as caller:
        for name, expected in (
            ("marked", (9_000, 2_000, False)),
            ("long", (11_000, 3_000, True)),
            ("add", (7_000, 3_000, True)),
        ):
            task_id = await caller.create(name, {"a": 1, "b": 1} if name == "add" else {})
            serving = await tasks.serving()
            task = await serving.runtime.service.store.load(task_id)
            assert task is not None
            assert (task.timeout_ms, task.poll_interval_ms, task.is_repeatable) == expected


@bounded
async def test_a_tool_that_takes_too_long_is_stopped() -> None:
    async with shop(tasks=Tasks(timeout=0.1)) as (place, caller):
        task_id = await caller.create("wait", {})
        error = (await seen(caller, task_id, "failed"))["error"]
        assert "took longer than 0.1 s" in error["message"]
        await place.stopped.wait()


def test_invalid_extension_settings_raise_an_error_at_once() -> None:
    with pytest.raises(ConfigurationError, match="no store for 'nowhere:x'"):
        Tasks("nowhere:x")
    with pytest.raises(ConfigurationError, match="timeout must be"):
        Tasks(timeout=0)
    with pytest.raises(ConfigurationError, match="task="):
        Tasks(support="required")
    tasks = Tasks()
    with pytest.raises(ConfigurationError, match="task="):
        tasks.tool(support="required")

    @tasks.tool()
    async def once() -> None: ...

    with pytest.raises(ConfigurationError, match="'once' is already registered"):
        tasks.tool()(once)
    mcp = FastMCP("x")
    mcp.add_extension(tasks)
    with pytest.raises(ValueError, match="already registered"):
        mcp.add_extension(Tasks())
    with pytest.raises(ValueError, match="another server"):
        FastMCP("y").add_extension(tasks)
    with pytest.raises(ValueError, match="sync function"):
        mcp.tool(name="sync", task=True)(lambda: None)


@bounded
async def test_a_tool_that_blocks_the_loop_is_noticed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_runtime, "LOOK_S", 0.01)
    monkeypatch.setattr(loop_runtime, "STILL_S", 0.05)

    place = Shop()

    @place.server.tool(task=True)
    async def block() -> str:
        time.sleep(0.2)  # blocks the event loop
        return "done"

    async with over_http(place.server) as caller:
        task_id = await caller.create("block", {})
        await seen(caller, task_id, "completed")
        async with asyncio.timeout(5):
            while "was blocked" not in caplog.text:
                await caller.status(task_id)
