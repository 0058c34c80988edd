"""Which tools of an SDK server become tasks, and the handling of misbehaving ones."""

import asyncio
import threading
import time
from typing import Any

import mcp_types as types
import pytest
from mcp.client import Client
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel

from taskmachine.adapters.bridges.mcp import Tasks, loop_runtime
from taskmachine.statemachine import ConfigurationError, Times
from tests.adapters.bridges.mcp.serving import SERVER, bounded, over_http, seen
from tests.adapters.transports.wire import Caller


def server_with(tasks: Tasks, *names: str) -> MCPServer:
    server = MCPServer("s", extensions=[tasks], **SERVER)
    for name in names:
        server.add_tool(lambda: "done", name=name)
    return server


async def become_tasks(caller: Caller, *names: str) -> list[str]:
    made = []
    for name in names:
        answer = await caller.call("tools/call", {"name": name, "arguments": {}})
        if answer["result"]["resultType"] == "task":
            made.append(name)
    return made


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        (None, ["build", "bake", "greet"]),
        (["bake"], ["bake"]),
        (lambda name: name.startswith("b"), ["build", "bake"]),
        ([], []),
    ],
)
@bounded
async def test_all_tools_or_those_that_are_chosen(which: Any, expected: list[str]) -> None:
    server = server_with(Tasks(tools=which), "build", "bake", "greet")
    async with over_http(server) as caller:
        assert await become_tasks(caller, "build", "bake", "greet") == expected


@bounded
async def test_a_mark_chooses_one_above_or_below_and_under_another_name() -> None:
    tasks = Tasks()
    server = server_with(tasks, "greet")

    @server.tool()
    @tasks.tool()
    def below() -> str:
        return "done"

    @tasks.tool()
    @server.tool()
    def above() -> str:
        return "done"

    @server.tool(name="renamed")
    @tasks.tool("renamed")
    def called_otherwise() -> str:
        return "done"

    async with over_http(server) as caller:
        names = ["greet", "below", "above", "renamed"]
        assert await become_tasks(caller, *names) == names[1:]


@bounded
async def test_a_mark_can_take_one_out() -> None:
    tasks = Tasks(tools=lambda name: True)
    server = server_with(tasks, "bake")

    @server.tool()
    @tasks.tool(support="forbidden")
    def greet() -> str:
        return "done"

    async with over_http(server) as caller:
        assert await become_tasks(caller, "bake", "greet") == ["bake"]


@bounded
async def test_a_tool_that_is_added_while_the_server_runs_is_found() -> None:
    server = server_with(Tasks(), "early")
    async with over_http(server) as caller:
        await seen(caller, await caller.create("early", {}), "completed")
        server.add_tool(lambda: "late", name="late")
        task_id = await caller.create("late", {})
        shown = await seen(caller, task_id, "completed")
        assert shown["result"]["content"] == [{"type": "text", "text": "late"}]


@bounded
async def test_the_terms_of_a_tool_hold() -> None:
    tasks = Tasks(poll_interval=2)
    server = server_with(tasks)

    @server.tool()
    @tasks.tool(timeout=0.05, poll_interval=0.7)
    async def forever() -> None:
        await asyncio.Event().wait()

    async with over_http(server) as caller:
        created = (await caller.call("tools/call", {"name": "forever", "arguments": {}}))["result"]
        assert created["pollIntervalMs"] == 700
        shown = await seen(caller, created["taskId"], "failed")
        assert "took longer than 0.05 s" in shown["error"]["message"]


@bounded
async def test_unknown_tool_gets_the_same_error_as_without_tasks() -> None:
    async with over_http(server_with(Tasks())) as caller:
        answer = await caller.call("tools/call", {"name": "nothing", "arguments": {}})
        assert answer["result"]["isError"] is True


# --- configuration errors --------------------------------------------------------------------


def test_a_tool_that_is_marked_twice() -> None:
    tasks = Tasks()
    tasks.tool("bake")(lambda: "done")
    with pytest.raises(ConfigurationError, match="'bake' is already registered"):
        tasks.tool("bake")(lambda: "done")


@bounded
async def test_a_tool_that_is_registered_twice_is_the_first_one() -> None:
    server = server_with(Tasks(), "bake")
    server.add_tool(lambda: "another", name="bake")
    async with over_http(server) as caller:
        task_id = await caller.create("bake", {})
        shown = await seen(caller, task_id, "completed")
        assert shown["result"]["content"] == [{"type": "text", "text": "done"}]


def test_a_store_that_does_not_exist() -> None:
    with pytest.raises(ConfigurationError, match=r"no store for 'etcd:x'.*memory, postgres"):
        Tasks("etcd:x")


@pytest.mark.parametrize(
    "options", [{"timeout": 0}, {"support": "sometimes"}, {"poll_interval": -1}, {"tools": "bake"}]
)
def test_terms_that_cannot_be(options: Any) -> None:
    with pytest.raises(ConfigurationError):
        Tasks(**options)


def test_one_object_for_two_servers() -> None:
    tasks = Tasks()
    server_with(tasks)
    with pytest.raises(ConfigurationError, match="belongs to another server"):
        server_with(tasks)


def test_second_install_of_the_extension_adds_no_middleware() -> None:
    tasks = Tasks()
    server = server_with(tasks)
    before = len(server.middleware)
    tasks.install(server)
    assert len(server.middleware) == before


@bounded
async def test_an_extension_that_is_not_installed_says_so(caplog: Any) -> None:
    with pytest.raises(MCPError, match="not installed"):
        await Tasks().serving()
    assert "tasks.install(server)" in caplog.text


# --- misbehaving tools -----------------------------------------------------------------------


async def outcome(tool: Any, **options: Any) -> dict[str, Any]:
    """Return the final state of a task of this tool."""
    server = MCPServer("s", extensions=[Tasks(**options)], **SERVER)
    server.add_tool(tool, name="it")
    async with over_http(server) as caller:
        task_id = await caller.create("it", {})
        while True:
            shown: dict[str, Any] = (await caller.call("tasks/get", {"taskId": task_id}))["result"]
            if shown["status"] in ("completed", "failed", "cancelled"):
                return shown


@bounded
async def test_synchronous_function_runs_in_a_thread() -> None:
    def it() -> str:
        return threading.current_thread().name

    [content] = (await outcome(it))["result"]["content"]
    assert content["text"] != threading.main_thread().name


@bounded
async def test_a_tool_that_blocks_the_loop_is_noticed(
    caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_runtime, "LOOK_S", 0.01)
    monkeypatch.setattr(loop_runtime, "STILL_S", 0.05)

    async def it() -> str:
        time.sleep(0.2)  # blocks the event loop
        return "done"

    assert (await outcome(it))["status"] == "completed"
    assert "the event loop was blocked for" in caplog.text


@pytest.mark.parametrize("value", [object(), "\ud800", "x" * 3_200_000])
@bounded
async def test_unserializable_or_oversized_result_is_an_internal_error(
    value: Any, caplog: Any
) -> None:
    def it() -> CallToolResult:
        return CallToolResult(content=[], structured_content={"value": value})

    shown = await outcome(it)
    assert shown["status"] == "failed"
    assert shown["error"]["code"] == -32603
    assert "'it' returned" in shown["error"]["message"]
    assert "tool 'it' returned" in caplog.text


class Odd(BaseModel):
    value: int


@bounded
async def test_result_that_the_sdk_cannot_serialize_becomes_an_error_result() -> None:
    def it() -> Odd:
        return "no such thing"  # type: ignore[return-value]

    shown = await outcome(it)
    assert shown["result"]["isError"] is True
    assert "no such thing" not in str(shown["result"]), "its words stay in the log"


@bounded
async def test_tool_errors_are_the_same_as_without_tasks() -> None:
    def wrong() -> str:
        raise ToolError("not today")

    def refused() -> str:
        raise MCPError(1234, "no", {"why": "because"})

    def crashed() -> str:
        raise RuntimeError("a secret")

    shown = await outcome(wrong)
    assert (shown["status"], shown["result"]["isError"]) == ("completed", True)
    assert "not today" in shown["result"]["content"][0]["text"]
    shown = await outcome(refused)
    assert shown["status"] == "failed"
    assert shown["error"] == {"code": 1234, "message": "no", "data": {"why": "because"}}
    shown = await outcome(crashed)
    assert shown["result"]["isError"] is True
    assert "a secret" not in str(shown)


@bounded
async def test_a_client_that_never_answers_ends_with_the_ttl() -> None:
    class Answer(BaseModel):
        name: str

    async def it(ctx: Context) -> str:
        await ctx.elicit("Who?", Answer)
        raise AssertionError("no answer arrives")

    shown = await outcome(it, times=Times(default_ttl_ms=200, grace_ms=500), timeout=0.05)
    assert shown["status"] == "failed"


@bounded
async def test_a_tool_may_wait_for_an_answer_for_so_long_and_no_longer() -> None:
    async def it(ctx: Context) -> str:
        form = types.ElicitRequestFormParams(
            message="Who?", requested_schema={"type": "object", "properties": {}}
        )
        with pytest.raises(MCPError) as raised:
            await ctx.session.send_request(
                types.ElicitRequest(params=form),
                types.ElicitResult,
                request_read_timeout_seconds=0.05,
            )
        assert raised.value.code == types.REQUEST_TIMEOUT
        return "nobody"

    shown = await outcome(it)
    assert shown["result"]["structuredContent"] == {"result": "nobody"}


@bounded
async def test_progress_under_a_token_is_progress_too() -> None:
    server = MCPServer("s", extensions=[Tasks()], **SERVER)

    @server.tool()
    async def it(ctx: Context) -> None:
        await ctx.session.send_progress_notification("any", 1, 2, "half way")
        await asyncio.Event().wait()

    async with over_http(server) as caller:
        task_id = await caller.create("it", {})
        while (await seen(caller, task_id, "working")).get("statusMessage") != "half way":
            pass


@bounded
async def test_cancelled_tool_gets_an_error_when_it_reports_progress() -> None:
    server = MCPServer("s", extensions=[Tasks()], **SERVER)
    begun = asyncio.Event()
    heard: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @server.tool()
    async def it(ctx: Context) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                await ctx.report_progress(1, 1, "a last word")
            except MCPError as error:
                heard.set_result(error.message)
        return "as if nothing had happened"

    async with over_http(server) as caller:
        task_id = await caller.create("it", {})
        await begun.wait()
        await caller.call("tasks/cancel", {"taskId": task_id})
        assert await heard
        shown = await seen(caller, task_id, "cancelled")
        assert "last word" not in str(shown)


@bounded
async def test_middleware_further_down_may_answer_for_the_tool() -> None:
    server = server_with(Tasks(), "bake")

    async def instead(ctx: Any, call_next: Any) -> Any:
        if str(ctx.request_id).startswith("task "):
            return CallToolResult(content=[TextContent(type="text", text="from the shelf")])
        return await call_next(ctx)

    server.middleware.append(instead)
    async with over_http(server) as caller:
        shown = await seen(caller, await caller.create("bake", {}), "completed")
        assert shown["result"]["content"] == [{"type": "text", "text": "from the shelf"}]


@bounded
async def test_a_plain_call_of_the_sdk_client_is_not_touched() -> None:
    async with Client(server_with(Tasks(), "bake")) as client:
        result = await client.call_tool("bake", {})
        assert result.content == [TextContent(type="text", text="done")]
