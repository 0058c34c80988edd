"""A server of FastMCP with our extension on the wire: both generations over HTTP, in plain JSON."""

import json
from typing import Any, Final

import pytest
from fastmcp.server.auth import AccessToken, TokenVerifier
from fastmcp.utilities.tasks import TaskConfig

from tests.adapters.bridges.fastmcp_shop import Shop, over_http, shop
from tests.adapters.bridges.mcp.serving import run, seen
from tests.adapters.transports.wire import Events

EXTENSION: Final = "io.modelcontextprotocol/tasks"
HEADER_MISMATCH, MISSING_CAPABILITY, INVALID_PARAMS, NO_METHOD = -32020, -32021, -32602, -32601
RELATED: Final = "io.modelcontextprotocol/related-task"


def test_the_extension_is_declared() -> None:
    async def act() -> None:
        async with shop() as (_, caller):
            said = (await caller.call("server/discover"))["result"]
            assert said["capabilities"]["extensions"][EXTENSION] == {}

    run(act)


def test_a_call_becomes_a_task_and_the_task_has_its_result() -> None:
    async def act() -> None:
        async with shop() as (place, caller):
            created = (await caller.call("tools/call", {"name": "wait", "arguments": {}}))["result"]
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

    run(act)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("add", {"a": 1, "b": 2}),
        ("add", {"a": "one", "b": 2}),
        ("refuse", {}),
        ("crash", {}),
    ],
)
def test_the_result_is_what_a_plain_call_is_answered_with(
    name: str, arguments: dict[str, Any]
) -> None:
    async def act() -> None:
        async with shop() as (_, caller):
            task_id = await caller.create(name, arguments)
            result = (await seen(caller, task_id, "completed"))["result"]
            caller.capabilities = {}
            call = {"name": name, "arguments": arguments}
            plain = (await caller.call("tools/call", call))["result"]
            del plain["_meta"]["io.modelcontextprotocol/serverInfo"]
            plain.setdefault("_meta", {})
            result.setdefault("_meta", {})
            assert result == plain

    run(act)


def test_an_error_of_the_protocol_is_the_error_of_the_task() -> None:
    async def act() -> None:
        async with shop() as (_, caller):
            task_id = await caller.create("protocol", {})
            shown = await seen(caller, task_id, "failed")
            assert shown["error"] == {"code": -31_000, "message": "special", "data": {"why": 1}}

    run(act)


def test_cancelling_stops_the_tool() -> None:
    async def act() -> None:
        async with shop() as (place, caller):
            task_id = await caller.create("wait", {})
            await place.begun.wait()
            answer = await caller.call("tasks/cancel", {"taskId": task_id})
            assert answer["result"]["resultType"] == "complete"
            await place.stopped.wait()
            assert await caller.status(task_id) == "cancelled"

    run(act)


def test_without_the_extension_a_call_is_a_call() -> None:
    async def act() -> None:
        async with shop() as (_, caller):
            caller.capabilities = {}
            call = {"name": "add", "arguments": {"a": 1, "b": 2}}
            answer = await caller.call("tools/call", call)
            assert answer["result"]["structuredContent"] == {"sum": 3}
            answer = await caller.call("tasks/get", {"taskId": "any"})
            assert answer["error"]["code"] == MISSING_CAPABILITY

    run(act)


def test_what_has_to_be_a_task_says_which_capability_is_missing() -> None:
    async def act() -> None:
        place = Shop()

        @place.mcp.tool(task=TaskConfig(mode="required"))
        async def must() -> str:
            return "done"

        async with over_http(place.mcp) as caller:
            task_id = await caller.create("must", {})
            await seen(caller, task_id, "completed")
            caller.capabilities = {}
            message, headers = caller.request("tools/call", {"name": "must", "arguments": {}})
            response = await caller.post(message, **headers)
            assert response.status_code == 400
            error = response.json()["error"]
            assert error["code"] == MISSING_CAPABILITY
            assert error["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}

    run(act)


def test_what_is_no_task_never_becomes_one() -> None:
    async def act() -> None:
        async with shop() as (_, caller):
            answer = await caller.call("tools/call", {"name": "plain", "arguments": {"word": "x"}})
            assert answer["result"]["structuredContent"] == {"result": "x"}
            answer = await caller.call("tools/call", {"name": "nothing", "arguments": {}})
            assert answer["result"]["isError"] is True, "as FastMCP says it"

    run(act)


def test_unknown_tasks_and_methods_of_the_other_generation() -> None:
    async def act() -> None:
        async with shop() as (_, caller):
            for params in ({"taskId": "nobody's"}, {}):
                answer = await caller.call("tasks/get", params)
                assert answer["error"]["code"] == INVALID_PARAMS
            for method in ("tasks/list", "tasks/result"):
                assert (await caller.call(method))["error"]["code"] == NO_METHOD

    run(act)


def test_a_name_in_the_header_has_to_be_that_of_the_body_if_it_is_there() -> None:
    async def act() -> None:
        async with shop() as (_, caller):
            task_id = await caller.create("wait", {})
            for method in ("tasks/get", "tasks/update", "tasks/cancel"):
                params = {"taskId": task_id, "inputResponses": {}}
                message, headers = caller.request(method, params)
                response = await caller.post(message, **{**headers, "mcp-name": "another"})
                assert response.status_code == 400
                assert response.json()["error"]["code"] == HEADER_MISMATCH
            assert await caller.status(task_id) == "working", "nothing was done"

    run(act)


@pytest.mark.parametrize("id", ["s", 17])
def test_subscribers_are_told_of_their_tasks(id: str | int) -> None:
    async def act() -> None:
        async with shop() as (place, caller):
            task_id = await caller.create("wait", {})
            wanted = {"toolsListChanged": True, "taskIds": [task_id, "nobody's"]}
            params = {"notifications": wanted}
            async with caller.stream("subscriptions/listen", params, id=id) as events:
                first = await events.next()
                assert first["method"] == "notifications/subscriptions/acknowledged"
                assert first["params"]["notifications"] == {"taskIds": [task_id]}
                place.open.set()
                while True:
                    told = await events.until("notifications/tasks")
                    meta = told["params"]["_meta"]
                    assert meta == {"io.modelcontextprotocol/subscriptionId": id}
                    if told["params"]["status"] == "completed":
                        break
                assert told["params"]["result"]["structuredContent"] == {"result": "open"}

    run(act)


def test_fastmcp_has_no_other_subscriptions() -> None:
    async def act() -> None:
        async with shop() as (_, caller):
            params = {"notifications": {"toolsListChanged": True}}
            answer = await caller.call("subscriptions/listen", params)
            assert answer["error"]["code"] == NO_METHOD

    run(act)


class Tokens(TokenVerifier):
    """Takes the names of users, and of the scopes that they have."""

    async def verify_token(self, token: str) -> AccessToken | None:
        user, _, scopes = token.partition("+")
        return AccessToken(
            token=token,
            client_id="app",
            scopes=scopes.split("+"),
            subject=user,
            claims={"iss": "i", "sub": user},
        )


@pytest.mark.parametrize(("other", "is_same"), [("ada+more", True), ("bob", False)])
def test_a_task_belongs_to_the_authenticated_user(other: str, is_same: bool) -> None:
    async def act() -> None:
        async with shop(auth=Tokens()) as (_, caller):
            caller.headers["authorization"] = "Bearer ada"
            task_id = await caller.create("wait", {})
            caller.headers["authorization"] = f"Bearer {other}"
            answer = await caller.call("tasks/get", {"taskId": task_id})
            assert ("result" in answer) is is_same
            if not is_same:
                unknown = await caller.call("tasks/get", {"taskId": "x" * len(task_id)})
                answer["id"] = unknown["id"]
                assert json.dumps(answer) == json.dumps(unknown)

    run(act)


# --- 2025-11-25 ------------------------------------------------------------------------------


def test_a_connection_of_the_other_generation_has_its_own_methods() -> None:
    async def act() -> None:
        async with shop() as (place, caller):
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

    run(act)


def test_a_question_comes_to_whoever_waits_for_the_result() -> None:
    async def act() -> None:
        async with shop() as (_, caller):
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

    run(act)


def test_a_plain_call_of_the_other_generation_is_answered_by_fastmcp() -> None:
    async def act() -> None:
        async with shop() as (_, caller):
            await caller.introduce()
            call = {"name": "add", "arguments": {"a": 1, "b": 2}}
            answer = await caller.call("tools/call", call)
            assert answer["result"]["structuredContent"] == {"sum": 3}
            answer = await caller.call("tools/call", {**call, "name": "plain", "task": {}})
            assert answer["error"]["code"] == NO_METHOD, "it must not be a task"
            answer = await caller.call("tools/call", {**call, "name": "nothing", "task": {}})
            assert answer["error"]["code"] == INVALID_PARAMS
            assert "Unknown tool" in answer["error"]["message"]

    run(act)


def test_what_came_before_knows_of_no_tasks() -> None:
    async def act() -> None:
        async with shop() as (_, caller):
            hello = (await caller.introduce("2025-06-18")).text
            assert '"tasks"' not in hello
            caller.headers["mcp-protocol-version"] = "2025-06-18"
            call = {"name": "add", "arguments": {"a": 1, "b": 2}, "task": {}}
            answer = await caller.call("tools/call", call)
            assert answer["result"]["structuredContent"] == {"sum": 3}

    run(act)


def test_what_has_to_be_a_task_is_no_plain_call_of_2025_11_25() -> None:
    async def act() -> None:
        place = Shop()

        @place.mcp.tool(task=TaskConfig(mode="required"))
        async def must() -> str:
            return "done"

        async with over_http(place.mcp) as caller:
            await caller.introduce()
            answer = await caller.call("tools/call", {"name": "must", "arguments": {}})
            assert answer["error"]["code"] == NO_METHOD
            task_id = await caller.create("must", {})
            result = (await caller.call("tasks/result", {"taskId": task_id}))["result"]
            assert result["structuredContent"] == {"result": "done"}

    run(act)
