"""Stateless requests of 2026-07-28 over real sockets."""

import asyncio
import base64
from typing import Any

import pytest

from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.transports.settings import Transport
from tests.adapters.transports.wire import NEW, Gate, callers, served, serving
from tests.requirements import covers

ANSWER = {"name": {"action": "accept", "content": {"name": "Ada"}}}


@covers("2026-07-28:http-single-endpoint")
async def test_a_whole_life() -> None:
    async with served(NEW, Gate) as (caller, _):
        found = (await caller.call("server/discover"))["result"]
        assert found["supportedVersions"] == ["2026-07-28"]
        task_id = await caller.create("greet", {})
        await caller.wait_for(task_id, "input_required")
        shown = (await caller.call("tasks/get", {"taskId": task_id}))["result"]
        assert shown["inputRequests"].keys() == {"name"}
        update = {"taskId": task_id, "inputResponses": ANSWER}
        assert (await caller.call("tasks/update", update))["result"]["resultType"] == "complete"
        await caller.wait_for(task_id, "completed")
        shown = (await caller.call("tasks/get", {"taskId": task_id}))["result"]
        assert shown["result"]["content"][0]["text"] == "Hello, Ada!"
        waiting = await caller.create("wait", {})
        for _ in range(2):
            assert "result" in await caller.call("tasks/cancel", {"taskId": waiting})
        assert await caller.status(waiting) == "cancelled"
        gone = await caller.call("tasks/list")
        assert gone["error"]["code"] == -32601


async def test_a_tool_asks_first_and_then_becomes_a_task() -> None:
    async with served(NEW, Gate) as (caller, _):
        call = {"name": "greet_later", "arguments": {}}
        paused = (await caller.call("tools/call", call))["result"]
        assert paused["resultType"] == "input_required"
        assert "taskId" not in paused
        again = {**call, "inputResponses": ANSWER, "requestState": paused["requestState"]}
        created = (await caller.call("tools/call", again))["result"]
        assert created["resultType"] == "task"
        assert "requestState" not in created
        await caller.wait_for(created["taskId"], "completed")
        shown = (await caller.call("tasks/get", {"taskId": created["taskId"]}))["result"]
        assert shown["result"]["content"][0]["text"] == "Hello, Ada!"
        forged = {**again, "requestState": paused["requestState"][:-2] + "xx"}
        assert (await caller.call("tools/call", forged))["error"]["code"] == -32602


@covers("2026-07-28:sse-not-resumable")
async def test_a_plain_call_asks_in_rounds_and_reports_progress() -> None:
    async with served(NEW, Gate) as (caller, gate):
        caller.capabilities = {"elicitation": {}}
        call = {"name": "greet", "arguments": {}}
        paused = (await caller.call("tools/call", call))["result"]
        again = {**call, "inputResponses": ANSWER, "requestState": paused["requestState"]}
        assert (await caller.call("tools/call", again))["result"]["content"][0]["text"] == (
            "Hello, Ada!"
        )
        stepping = {"name": "step", "arguments": {"count": 1}, "_meta": {"progressToken": "p"}}
        gate.steps.release()
        async with caller.stream("tools/call", stepping) as events:
            notice = await events.next()
            assert notice["method"] == "notifications/progress"
            assert notice["params"]["progressToken"] == "p"
            assert events.last_id is None, "streams of this revision are not resumed"
            assert (await events.result())["result"]["content"][0]["text"] == "stepped"


@covers("2026-07-28:http-disconnect-is-cancel", "2026-07-28:cancelled-request-stopped")
async def test_a_plain_call_ends_with_its_connection_and_a_task_does_not() -> None:
    async with served(NEW, Gate) as (caller, gate):
        task_id = await caller.create("wait", {})
        caller.capabilities = {}
        async with caller.stream("tools/call", {"name": "wait", "arguments": {}}):
            pass
        async with asyncio.timeout(10):
            await gate.stopped.wait()
        gate.open.set()
        caller.capabilities = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        await caller.wait_for(task_id, "completed")


@covers("2026-07-28:sse-no-buffering-header")
async def test_a_subscription_is_acknowledged_and_reports_the_same_as_get() -> None:
    async with served(NEW, Gate) as (caller, gate):
        task_id = await caller.create("wait", {})
        wanted = {"notifications": {"taskIds": [task_id, "x" * 32]}}
        async with caller.stream("subscriptions/listen", wanted, id="s") as events:
            begun = await events.next()
            assert begun["method"] == "notifications/subscriptions/acknowledged"
            assert begun["params"]["notifications"] == {"taskIds": [task_id]}
            assert (await events.next())["params"]["status"] == "working"
            gate.open.set()
            notice = await events.next()
            shown = (await caller.call("tasks/get", {"taskId": task_id}))["result"]
            subscription = {"io.modelcontextprotocol/subscriptionId": "s"}
            assert notice["params"].pop("_meta") == subscription
            for changing in ("resultType", "_meta"):
                shown.pop(changing)
            assert notice["params"] == shown


async def test_subscriptions_are_ended_when_the_server_is() -> None:
    gate = Gate()
    async with callers("unused") as [caller]:
        async with serving(gate.tools) as url:
            caller.url = url
            task_id = await caller.create("wait", {})
            wanted = {"notifications": {"taskIds": [task_id]}}
            opened = caller.stream("subscriptions/listen", wanted, id="s")
            events = await opened.__aenter__()
            await events.next()
        cancelled = await events.until("notifications/cancelled")
        assert cancelled["params"]["requestId"] == "s"
        final = await events.next()
        assert final["id"] == "s"
        assert final["result"]["resultType"] == "complete"
        await opened.__aexit__(None, None, None)


async def test_an_idle_stream_sends_comments() -> None:
    async with served(NEW, Gate, transport=Transport(keep_alive_s=0.01)) as (caller, _):
        task_id = await caller.create("wait", {})
        wanted = {"notifications": {"taskIds": [task_id]}}
        async with caller.stream("subscriptions/listen", wanted) as events:
            comments = 0
            async with asyncio.timeout(10):
                async for line in events._lines:
                    comments += line.startswith(":")
                    if comments == 3:
                        break


def _x_mcp_tools() -> Tools:
    tools = Tools()
    region = {"type": "string", "x-mcp-header": "Region"}
    schema = {"type": "object", "properties": {"region": region}}

    @tools.task(schema=schema)
    async def place(region: str = "here") -> str:
        return region

    return tools


@covers(
    "2026-07-28:header-mismatch-400",
    "2026-07-28:binding-may-mirror",
    "2026-07-28:param-headers-optional",
)
async def test_headers_are_compared_with_the_body() -> None:
    async with serving(_x_mcp_tools()) as url, callers(url) as [caller]:
        params: dict[str, Any] = {"name": "place", "arguments": {"region": "Köln"}}
        coded = base64.b64encode("Köln".encode()).decode()
        good = {"mcp-param-region": f"=?base64?{coded}?="}
        for change, expected in (
            ({}, 200),
            ({"mcp-name": "=?base64?cGxhY2U=?="}, 200),
            ({"mcp-param-region": "Bonn"}, 400),
            ({"mcp-name": "other"}, 400),
            ({"mcp-method": "tools/list"}, 400),
            ({"mcp-protocol-version": "2025-11-25"}, 400),
        ):
            message, headers = caller.request("tools/call", params)
            response = await caller.post(message, **{**headers, **good, **change})
            assert response.status_code == expected, change
            if expected == 400:
                assert response.json()["error"]["code"] == -32020
                assert response.json()["id"] == message["id"]


@covers("2026-07-28:undeclared-capability-400")
@pytest.mark.parametrize(
    ("capabilities", "method", "params"),
    [
        ({}, "tasks/get", {"taskId": "x"}),
        ({}, "tasks/update", {"taskId": "x", "inputResponses": {}}),
        ({}, "tasks/cancel", {"taskId": "x"}),
        ({}, "subscriptions/listen", {"notifications": {"taskIds": ["x"]}}),
        ({}, "tools/call", {"name": "greet_later", "arguments": {}}),
    ],
)
async def test_task_requests_without_the_capability_are_refused(
    capabilities: dict[str, Any], method: str, params: dict[str, Any]
) -> None:
    async with served(NEW, Gate) as (caller, _):
        caller.capabilities = capabilities
        message, headers = caller.request(method, params)
        response = await caller.post(message, **headers)
        assert response.status_code == 400
        error = response.json()["error"]
        assert error["code"] == -32021
        needed: Any = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        assert error["data"]["requiredCapabilities"] == needed


async def test_lookups_are_bounded_and_misses_cost_more() -> None:
    async with served(NEW, Gate, transport=Transport(lookups_per_second=1, lookups_burst=20)) as (
        caller,
        _gate,
    ):
        task_id = await caller.create("wait", {})
        assert await caller.status(task_id) == "working"
        for _ in range(2):
            missed = await caller.call("tasks/get", {"taskId": "x" * 32})
            assert missed["error"]["code"] == -32602
        limited = (await caller.call("tasks/get", {"taskId": task_id}))["error"]
        assert "lookups per second" in limited["message"]
        assert limited["data"]["retryAfterMs"] > 0
