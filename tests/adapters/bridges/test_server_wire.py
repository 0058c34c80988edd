"""Servers with our extension on the wire: HTTP in both revisions, in plain JSON."""

import asyncio
import json
from types import ModuleType
from typing import Any, Final

import attrs
import pytest

from tests.adapters.bridges import fastmcp_shop, sdk_shop
from tests.adapters.bridges.mcp.serving import bounded, seen
from tests.adapters.transports.wire import Events

EXTENSION: Final = "io.modelcontextprotocol/tasks"
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
RELATED: Final = "io.modelcontextprotocol/related-task"
HEADER_MISMATCH, MISSING_CAPABILITY, INVALID_PARAMS, NO_METHOD = -32020, -32021, -32602, -32601


@pytest.fixture(params=[sdk_shop, fastmcp_shop], ids=["sdk", "fastmcp"])
def bridge(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


@bounded
async def test_the_extension_is_declared(bridge: ModuleType) -> None:
    async with bridge.shop() as (_, caller):
        said = (await caller.call("server/discover"))["result"]
        declared = said["capabilities"]["extensions"]
        assert declared[EXTENSION] == {}
        if bridge is sdk_shop:
            assert declared.keys() == {EXTENSION}


@bounded
async def test_a_call_becomes_a_task_and_the_task_has_its_result(bridge: ModuleType) -> None:
    async with bridge.shop() as (place, caller):
        call = {"name": "wait", "arguments": {}}
        created = (await caller.call("tools/call", call))["result"]
        assert created["resultType"] == "task"
        assert created["status"] == "working"
        assert isinstance(created["ttlMs"], int)
        while (await seen(caller, created["taskId"], "working")).get("statusMessage") is None:
            pass
        shown = await seen(caller, created["taskId"], "working")
        assert shown["statusMessage"] == "half way"
        place.open.set()
        shown = await seen(caller, created["taskId"], "completed")
        assert shown["resultType"] == "complete"
        assert shown["result"]["content"] == [{"type": "text", "text": "open"}]
        assert shown["result"]["structuredContent"] == {"result": "open"}
        if bridge is sdk_shop:
            assert created["_meta"][SERVER_INFO]["name"] == "shop"
            assert shown["result"]["isError"] is False
            assert shown["_meta"][SERVER_INFO]["version"] == "7"


@pytest.mark.parametrize(
    ("name", "arguments", "is_error"),
    [
        ("add", {"a": 1, "b": 2}, False),
        ("add", {"a": "one", "b": 2}, True),
        ("refuse", {}, True),
        ("crash", {}, True),
    ],
)
@bounded
async def test_the_result_is_that_of_a_plain_call(
    bridge: ModuleType, name: str, arguments: dict[str, Any], is_error: bool
) -> None:
    async with bridge.shop() as (_, caller):
        task_id = await caller.create(name, arguments)
        result = (await seen(caller, task_id, "completed"))["result"]
        caller.capabilities = {}
        call = {"name": name, "arguments": arguments}
        plain = (await caller.call("tools/call", call))["result"]
        del plain["_meta"][SERVER_INFO]  # which the answer has, and not the result in it
        plain["_meta"] = plain["_meta"] or None
        result.setdefault("_meta", None)
        assert {**result, "_meta": result["_meta"] or None} == plain
        assert plain.get("isError", False) is is_error


@bounded
async def test_an_error_of_the_protocol_is_the_error_of_the_task(bridge: ModuleType) -> None:
    async with bridge.shop() as (_, caller):
        task_id = await caller.create("protocol", {})
        shown = await seen(caller, task_id, "failed")
        assert shown["error"] == {"code": -31_000, "message": "special", "data": {"why": 1}}


@bounded
async def test_a_ttl_without_end_is_null_and_not_left_out(bridge: ModuleType) -> None:
    """Our own tasks have a TTL, but tasks that were adopted from another store may not."""
    async with bridge.shop() as (place, caller):
        task_id = await caller.create("wait", {})
        store = (await place.tasks.serving()).runtime.service.store
        known = await store.load(task_id)
        assert known is not None
        await store.adopt(attrs.evolve(known, id="endless", ttl_ms=None), [])
        shown = (await caller.call("tasks/get", {"taskId": "endless"}))["result"]
        assert shown["ttlMs"] is None


@bounded
async def test_a_question_is_an_input_request_and_its_answer_reaches_the_tool(
    bridge: ModuleType,
) -> None:
    async with bridge.shop() as (_, caller):
        task_id = await caller.create("greet", {})
        shown = await seen(caller, task_id, "input_required")
        [(key, request)] = shown["inputRequests"].items()
        assert request["method"] == "elicitation/create"
        assert request["params"]["message"] == "Who?"
        assert request["params"]["requestedSchema"]["required"] == ["name"]
        answer = {key: {"action": "accept", "content": {"name": "Ada"}}}
        update = {"taskId": task_id, "inputResponses": answer}
        assert (await caller.call("tasks/update", update))["result"]["resultType"] == "complete"
        result = (await seen(caller, task_id, "completed"))["result"]
        assert result["content"] == [{"type": "text", "text": "Hello, Ada!"}]


@bounded
async def test_cancelling_stops_the_tool(bridge: ModuleType) -> None:
    async with bridge.shop() as (place, caller):
        task_id = await caller.create("wait", {})
        await seen(caller, task_id, "working")
        await place.begun.wait()
        answer = await caller.call("tasks/cancel", {"taskId": task_id})
        assert answer["result"]["resultType"] == "complete"
        await place.stopped.wait()
        assert await caller.status(task_id) == "cancelled"


@bounded
async def test_without_the_extension_a_call_is_a_call(bridge: ModuleType) -> None:
    async with bridge.shop() as (_, caller):
        caller.capabilities = {}
        call = {"name": "add", "arguments": {"a": 1, "b": 2}}
        answer = await caller.call("tools/call", call)
        assert answer["result"]["resultType"] == "complete"
        assert answer["result"]["structuredContent"] == {"sum": 3}
        answer = await caller.call("tasks/get", {"taskId": "any"})
        assert answer["error"]["code"] == MISSING_CAPABILITY


@bounded
async def test_a_call_that_needs_a_task_names_the_missing_capability(bridge: ModuleType) -> None:
    async with bridge.requiring_shop() as caller:
        task_id = await caller.create("must", {})
        await seen(caller, task_id, "completed")
        caller.capabilities = {"elicitation": {}}
        await is_missing_the_extension(caller, "must")


@bounded
async def test_a_tool_of_the_sdk_that_asks_without_a_task_names_the_missing_capability() -> None:
    async with sdk_shop.shop() as (_, caller):
        caller.capabilities = {"elicitation": {}}
        await is_missing_the_extension(caller, "greet")


async def is_missing_the_extension(caller: Any, tool: str) -> None:
    message, headers = caller.request("tools/call", {"name": tool, "arguments": {}})
    response = await caller.post(message, **headers)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["code"] == MISSING_CAPABILITY
    assert error["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


@bounded
async def test_a_tool_of_fastmcp_without_task_support_never_becomes_a_task() -> None:
    async with fastmcp_shop.shop() as (_, caller):
        answer = await caller.call("tools/call", {"name": "plain", "arguments": {"word": "x"}})
        assert answer["result"]["structuredContent"] == {"result": "x"}
        answer = await caller.call("tools/call", {"name": "nothing", "arguments": {}})
        assert answer["result"]["isError"] is True, "the answer of FastMCP"


@bounded
async def test_unknown_tasks_and_methods_of_the_other_revision(bridge: ModuleType) -> None:
    async with bridge.shop() as (_, caller):
        for method in ("tasks/get", "tasks/cancel"):
            answer = await caller.call(method, {"taskId": "unknown"})
            assert answer["error"]["code"] == INVALID_PARAMS
        answer = await caller.call("tasks/get", {})
        assert answer["error"]["code"] == INVALID_PARAMS
        for method in ("tasks/list", "tasks/result"):
            message, headers = caller.request(method, {})
            response = await caller.post(message, **headers)
            assert response.status_code == 404
            assert response.json()["error"]["code"] == NO_METHOD


@bounded
async def test_mcp_name_header_may_be_absent_but_must_match_the_body(bridge: ModuleType) -> None:
    async with bridge.shop() as (_, caller):
        task_id = await caller.create("wait", {})
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            params = {"taskId": task_id, "inputResponses": {}}
            message, headers = caller.request(method, params)
            response = await caller.post(message, **{**headers, "mcp-name": "another"})
            assert response.status_code == 400
            assert response.json()["error"]["code"] == HEADER_MISMATCH
        assert await caller.status(task_id) == "working", "nothing was done"
        message, headers = caller.request("tasks/get", {"taskId": task_id})
        del headers["mcp-name"]
        response = await caller.post(message, **headers)
        assert response.json()["result"]["taskId"] == task_id


# --- subscriptions ---------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["s", 17])
@bounded
async def test_subscribers_are_notified_of_their_tasks(bridge: ModuleType, id: str | int) -> None:
    async with bridge.shop() as (place, caller):
        task_id = await caller.create("wait", {})
        wanted = {"toolsListChanged": True, "taskIds": [task_id, "unknown"]}
        params = {"notifications": wanted}
        async with caller.stream("subscriptions/listen", params, id=id) as events:
            first = await events.next()
            assert first["method"] == "notifications/subscriptions/acknowledged"
            # FastMCP has no subscriptions of its own.
            agreed = {"toolsListChanged": True} if bridge is sdk_shop else {}
            assert first["params"]["notifications"] == {**agreed, "taskIds": [task_id]}
            place.open.set()
            while True:
                params = (await events.until("notifications/tasks"))["params"]
                assert params["_meta"] == {"io.modelcontextprotocol/subscriptionId": id}
                assert params["taskId"] == task_id
                if params["status"] == "completed":
                    break
            assert params["result"]["structuredContent"] == {"result": "open"}
            assert "ttlMs" in params


@bounded
async def test_nothing_is_sent_before_the_acknowledgement() -> None:
    async with sdk_shop.shop() as (place, caller):
        entered, may_pass = asyncio.Event(), asyncio.Event()

        async def hold(ctx: Any, call_next: Any) -> Any:
            if ctx.method == "subscriptions/listen":
                entered.set()
                await may_pass.wait()
            return await call_next(ctx)

        place.server.middleware.append(hold)
        task_id = await caller.create("wait", {})

        async def meanwhile() -> None:
            await entered.wait()
            place.open.set()
            await seen(caller, task_id, "completed")
            may_pass.set()

        moving = asyncio.create_task(meanwhile())
        params = {"notifications": {"taskIds": [task_id]}}
        async with caller.stream("subscriptions/listen", params) as events:
            first, second = await events.next(), await events.next()
            assert first["method"] == "notifications/subscriptions/acknowledged"
            assert second["method"] == "notifications/tasks"
        await moving


@bounded
async def test_a_client_without_the_extension_cannot_subscribe_to_tasks(bridge: ModuleType) -> None:
    async with bridge.shop() as (_, caller):
        task_id = await caller.create("wait", {})
        caller.capabilities = {}
        params = {"notifications": {"taskIds": [task_id]}}
        answer = await caller.call("subscriptions/listen", params)
        assert answer["error"]["code"] == MISSING_CAPABILITY


@bounded
async def test_fastmcp_has_no_other_subscriptions() -> None:
    async with fastmcp_shop.shop() as (_, caller):
        params = {"notifications": {"toolsListChanged": True}}
        answer = await caller.call("subscriptions/listen", params)
        assert answer["error"]["code"] == NO_METHOD


# --- owners ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "is_same"),
    [("ada@phone", True), ("ada+more@desk", True), ("bob@desk", False), ("@ada", False)],
)
@bounded
async def test_a_task_belongs_to_the_authenticated_user(
    bridge: ModuleType, other: str, is_same: bool
) -> None:
    async with bridge.authenticating_shop() as (_, caller):
        caller.headers["authorization"] = "Bearer ada@desk"
        task_id = await caller.create("wait", {})
        caller.headers["authorization"] = f"Bearer {other}"
        answer = await caller.call("tasks/get", {"taskId": task_id})
        assert ("result" in answer) is is_same
        if not is_same:
            unknown = await caller.call("tasks/get", {"taskId": "x" * len(task_id)})
            assert unknown["error"]["code"] == INVALID_PARAMS
            answer["id"] = unknown["id"]
            assert json.dumps(answer) == json.dumps(unknown)


@bounded
async def test_task_of_an_sdk_tool_has_no_access_token() -> None:
    """The request that happens to start it may be another user's."""
    async with sdk_shop.authenticating_shop() as (_, caller):
        caller.headers["authorization"] = "Bearer ada@desk"
        task_id = await caller.create("who", {})
        shown = await seen(caller, task_id, "completed")
        assert shown["result"]["structuredContent"] == {"result": "None"}


@pytest.mark.parametrize("is_legacy", [False, True])
@bounded
async def test_a_task_keeps_the_claims_that_the_sdk_has_verified(
    bridge: ModuleType, is_legacy: bool
) -> None:
    async with bridge.authenticating_shop() as (place, caller):
        caller.headers["authorization"] = "Bearer ada+read@desk"
        if is_legacy:
            await caller.introduce()
        task_id = await caller.create("wait", {})
        service = (await place.tasks.serving()).runtime.service
        task = await service.store.load(task_id)
        kept = service.caller(task)
        assert (kept.subject, kept.scopes, kept.claims["iss"]) == ("ada", {"read"}, "i")
        assert b"iss" not in task.call.caller


# --- 2025-11-25 on FastMCP; for the SDK see mcp/test_legacy_wire.py --------------------------


@bounded
async def test_a_legacy_connection_has_its_own_methods() -> None:
    async with fastmcp_shop.shop() as (place, caller):
        hello = (await caller.introduce()).text
        [said] = [line[6:] for line in hello.splitlines() if line.startswith("data: {")]
        declared = json.loads(said)["result"]["capabilities"]["tasks"]
        assert declared["requests"] == {"tools": {"call": {}}}
        tools = (await caller.call("tools/list"))["result"]["tools"]
        support = {t["name"]: t.get("execution", {}).get("taskSupport") for t in tools}
        assert support["wait"] == "optional"
        assert support["plain"] in (None, "forbidden")
        call = {"name": "wait", "arguments": {}, "task": {"ttl": 90_000}}
        created = (await caller.call("tools/call", call))["result"]["task"]
        assert created["status"] == "working"
        assert created["ttl"] >= 90_000
        task_id = created["taskId"]
        assert await caller.status(task_id) == "working"
        listed = (await caller.call("tasks/list"))["result"]["tasks"]
        assert [task["taskId"] for task in listed] == [task_id]
        place.open.set()
        result = (await caller.call("tasks/result", {"taskId": task_id}))["result"]
        assert result["structuredContent"] == {"result": "open"}
        assert result["_meta"][RELATED] == {"taskId": task_id}
        assert "resultType" not in result
        answer = await caller.call("tasks/cancel", {"taskId": task_id})
        assert answer["error"]["code"] == INVALID_PARAMS


@bounded
async def test_a_question_is_asked_on_the_stream_of_the_request_for_the_result() -> None:
    async with fastmcp_shop.shop() as (_, caller):
        await caller.introduce()
        task_id = await caller.create("greet", {})
        params = {"taskId": task_id}
        message, headers = caller.request("tasks/result", params)
        body = {"jsonrpc": "2.0", **message}
        async with caller.client.stream(
            "POST", caller.url, json=body, headers={**caller.headers, **headers}
        ) as response:
            events = Events(response)
            question = await events.until("elicitation/create")
            assert question["params"]["message"] == "Who?"
            assert question["params"]["_meta"][RELATED] == {"taskId": task_id}
            await caller.answer(question)
            result = (await events.result())["result"]
        assert result["content"] == [{"type": "text", "text": "Hello, Ada!"}]


@bounded
async def test_a_plain_call_is_answered_by_fastmcp() -> None:
    async with fastmcp_shop.shop() as (_, caller):
        await caller.introduce()
        call = {"name": "add", "arguments": {"a": 1, "b": 2}}
        answer = await caller.call("tools/call", call)
        assert answer["result"]["structuredContent"] == {"sum": 3}
        answer = await caller.call("tools/call", {**call, "name": "plain", "task": {}})
        assert answer["error"]["code"] == NO_METHOD, "it must not be a task"
        answer = await caller.call("tools/call", {**call, "name": "nothing", "task": {}})
        assert answer["error"]["code"] == INVALID_PARAMS
        assert "Unknown tool" in answer["error"]["message"]


@bounded
async def test_earlier_revisions_have_no_tasks() -> None:
    async with fastmcp_shop.shop() as (_, caller):
        hello = (await caller.introduce("2025-06-18")).text
        assert '"tasks"' not in hello
        caller.headers["mcp-protocol-version"] = "2025-06-18"
        call = {"name": "add", "arguments": {"a": 1, "b": 2}, "task": {}}
        answer = await caller.call("tools/call", call)
        assert answer["result"]["structuredContent"] == {"sum": 3}


@bounded
async def test_a_tool_that_requires_a_task_rejects_plain_calls() -> None:
    async with fastmcp_shop.requiring_shop() as caller:
        await caller.introduce()
        answer = await caller.call("tools/call", {"name": "must", "arguments": {}})
        assert answer["error"]["code"] == NO_METHOD
        task_id = await caller.create("must", {})
        result = (await caller.call("tasks/result", {"taskId": task_id}))["result"]
        assert result["structuredContent"] == {"result": "done"}
