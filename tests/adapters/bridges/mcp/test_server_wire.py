"""A server of the SDK with our extension on the wire: 2026-07-28 over HTTP, in plain JSON."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import pytest
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, MCPServer
from pydantic import AnyHttpUrl, BaseModel

from taskmachine.adapters.bridges.mcp import Tasks
from tests.adapters.bridges.mcp.serving import SERVER, over_http, run, seen
from tests.adapters.transports.wire import Caller

EXTENSION: Final = "io.modelcontextprotocol/tasks"
HEADER_MISMATCH, MISSING_CAPABILITY, INVALID_PARAMS, NO_METHOD = -32020, -32021, -32602, -32601


class Answer(BaseModel):
    name: str


class Shop:
    """A server whose tools the test lets go on."""

    def __init__(self, **options: Any) -> None:
        self.tasks = Tasks(**options.pop("tasks", {}))
        self.server = MCPServer("shop", version="7", extensions=[self.tasks], **SERVER, **options)
        self.open = asyncio.Event()
        self.stopped = asyncio.Event()

        @self.server.tool()
        async def wait(ctx: Context) -> str:
            await ctx.report_progress(1, 2, "half way")
            try:
                await self.open.wait()
            except asyncio.CancelledError:
                self.stopped.set()
                raise
            return "open"

        @self.server.tool()
        async def greet(ctx: Context) -> str:
            answer = await ctx.elicit("Who?", Answer)
            return f"Hello, {answer.data.name}!" if answer.action == "accept" else answer.action

        @self.server.tool()
        async def who() -> str:
            return str(get_access_token())

        @self.server.tool()
        async def add(a: int, b: int) -> dict[str, int]:
            return {"sum": a + b}


@asynccontextmanager
async def shop(**options: Any) -> AsyncIterator[tuple[Shop, Caller]]:
    place = Shop(**options)
    async with over_http(place.server) as caller:
        yield place, caller


def test_the_extension_is_declared() -> None:
    async def act() -> None:
        async with shop() as (_, caller):
            said = (await caller.call("server/discover"))["result"]
            assert said["capabilities"]["extensions"] == {EXTENSION: {}}

    run(act)


def test_a_call_becomes_a_task_and_the_task_has_its_result() -> None:
    async def act() -> None:
        async with shop() as (place, caller):
            call = {"name": "wait", "arguments": {}}
            created = (await caller.call("tools/call", call))["result"]
            assert created["resultType"] == "task"
            assert created["status"] == "working"
            assert isinstance(created["ttlMs"], int)
            assert created["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "shop"
            place.open.set()
            shown = await seen(caller, created["taskId"], "completed")
            assert shown["resultType"] == "complete"
            assert shown["result"]["content"] == [{"type": "text", "text": "open"}]
            assert shown["result"]["structuredContent"] == {"result": "open"}
            assert shown["result"]["isError"] is False
            assert shown["_meta"]["io.modelcontextprotocol/serverInfo"]["version"] == "7"

    run(act)


def test_the_result_is_what_a_plain_call_is_answered_with() -> None:
    async def act() -> None:
        async with shop() as (_, caller):
            call = {"name": "add", "arguments": {"a": 1, "b": 2}}
            task_id = await caller.create("add", {"a": 1, "b": 2})
            result = (await seen(caller, task_id, "completed"))["result"]
            wrong_id = await caller.create("add", {"a": "one", "b": 2})
            wrong = (await seen(caller, wrong_id, "completed"))["result"]
            caller.capabilities = {}
            plain = (await caller.call("tools/call", call))["result"]
            del plain["_meta"]  # the signature of the server, which the task has outside
            assert result == plain
            call["arguments"] = {"a": "one", "b": 2}
            refused = (await caller.call("tools/call", call))["result"]
            assert refused["isError"] is wrong["isError"] is True
            assert wrong["content"] == refused["content"]

    run(act)


def test_a_ttl_without_end_is_null_and_not_left_out() -> None:
    """None of ours has one, but a task that another store kept may."""

    async def act() -> None:
        async with shop() as (place, caller):
            task_id = await caller.create("wait", {})
            store = (await place.tasks.serving()).runtime.service.store
            known = await store.load(task_id)
            assert known is not None
            await store.adopt(attrs.evolve(known, id="endless", ttl_ms=None), [])
            shown = (await caller.call("tasks/get", {"taskId": "endless"}))["result"]
            assert shown["ttlMs"] is None

    run(act)


def test_progress_is_the_status_message() -> None:
    async def act() -> None:
        async with shop() as (_, caller):
            task_id = await caller.create("wait", {})
            while (await seen(caller, task_id, "working")).get("statusMessage") != "half way":
                pass

    run(act)


def test_a_question_is_an_input_request_and_its_answer_reaches_the_tool() -> None:
    async def act() -> None:
        async with shop() as (_, caller):
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

    run(act)


def test_cancelling_stops_the_tool() -> None:
    async def act() -> None:
        async with shop() as (place, caller):
            task_id = await caller.create("wait", {})
            await seen(caller, task_id, "working")
            answer = await caller.call("tasks/cancel", {"taskId": task_id})
            assert answer["result"]["resultType"] == "complete"
            await place.stopped.wait()
            assert await caller.status(task_id) == "cancelled"

    run(act)


def test_nobody_who_does_not_declare_the_extension_gets_a_task() -> None:
    async def act() -> None:
        async with shop() as (_, caller):
            caller.capabilities = {}
            call = {"name": "add", "arguments": {"a": 1, "b": 2}}
            answer = await caller.call("tools/call", call)
            assert answer["result"]["resultType"] == "complete"
            assert answer["result"]["structuredContent"] == {"sum": 3}

    run(act)


@pytest.mark.parametrize("tool", ["add", "greet"])
def test_what_cannot_be_served_without_a_task_says_which_capability_is_missing(tool: str) -> None:
    """`add` has to be a task here; `greet` asks, and only a task can do that."""

    async def act() -> None:
        required = {"tools": ["add", "greet"], "support": "required"}
        options = {"tasks": required} if tool == "add" else {}
        async with shop(**options) as (_, caller):
            caller.capabilities = {"elicitation": {}}
            message, headers = caller.request("tools/call", {"name": tool, "arguments": {}})
            response = await caller.post(message, **headers)
            assert response.status_code == 400
            error = response.json()["error"]
            assert error["code"] == MISSING_CAPABILITY
            assert error["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}

    run(act)


def test_an_unknown_task_is_an_invalid_parameter() -> None:
    async def act() -> None:
        async with shop() as (_, caller):
            for method in ("tasks/get", "tasks/cancel"):
                answer = await caller.call(method, {"taskId": "nobody's"})
                assert answer["error"]["code"] == INVALID_PARAMS
            answer = await caller.call("tasks/get", {})
            assert answer["error"]["code"] == INVALID_PARAMS

    run(act)


def test_methods_of_the_other_generation_are_not_there() -> None:
    async def act() -> None:
        async with shop() as (_, caller):
            for method in ("tasks/list", "tasks/result"):
                message, headers = caller.request(method, {})
                response = await caller.post(message, **headers)
                assert response.status_code == 404
                assert response.json()["error"]["code"] == NO_METHOD

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
            message, headers = caller.request("tasks/get", {"taskId": task_id})
            del headers["mcp-name"]
            response = await caller.post(message, **headers)
            assert response.json()["result"]["taskId"] == task_id

    run(act)


def test_subscribers_are_told_of_their_tasks_and_of_what_the_sdk_tells() -> None:
    async def act() -> None:
        async with shop() as (place, caller):
            task_id = await caller.create("wait", {})
            wanted = {"toolsListChanged": True, "taskIds": [task_id, "nobody's"]}
            params = {"notifications": wanted}
            async with caller.stream("subscriptions/listen", params, id="s") as events:
                first = await events.next()
                assert first["method"] == "notifications/subscriptions/acknowledged"
                agreed = {"toolsListChanged": True, "taskIds": [task_id]}
                assert first["params"]["notifications"] == agreed
                place.open.set()
                while True:
                    told = await events.until("notifications/tasks")
                    meta = told["params"]["_meta"]
                    assert meta == {"io.modelcontextprotocol/subscriptionId": "s"}
                    assert told["params"]["taskId"] == task_id
                    if told["params"]["status"] == "completed":
                        break
                assert told["params"]["result"]["structuredContent"] == {"result": "open"}
                assert "ttlMs" in told["params"]

    run(act)


def test_nothing_is_told_before_the_acknowledgement() -> None:
    async def act() -> None:
        async with shop() as (place, caller):
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

    run(act)


def test_who_does_not_declare_the_extension_is_told_of_no_tasks() -> None:
    async def act() -> None:
        async with shop() as (_, caller):
            task_id = await caller.create("wait", {})
            caller.capabilities = {}
            params = {"notifications": {"taskIds": [task_id]}}
            answer = await caller.call("subscriptions/listen", params)
            assert answer["error"]["code"] == MISSING_CAPABILITY

    run(act)


AUTH: Final = AuthSettings(
    issuer_url=AnyHttpUrl("http://127.0.0.1:1"),
    resource_server_url=AnyHttpUrl("http://127.0.0.1:1"),
    validate_token_resource=False,
)


class Tokens:
    """Verifies the names of users."""

    async def verify_token(self, token: str) -> AccessToken | None:
        user, _, client = token.partition("@")
        return AccessToken(
            token=token, client_id=client, scopes=[], subject=user or None, claims={"iss": "i"}
        )


@pytest.mark.parametrize(
    ("other", "is_same"), [("ada@phone", True), ("bob@desk", False), ("@ada", False)]
)
def test_a_task_belongs_to_the_authenticated_user(other: str, is_same: bool) -> None:
    async def act() -> None:
        async with shop(auth=AUTH, token_verifier=Tokens()) as (_, caller):
            caller.headers["authorization"] = "Bearer ada@desk"
            task_id = await caller.create("wait", {})
            caller.headers["authorization"] = f"Bearer {other}"
            answer = await caller.call("tasks/get", {"taskId": task_id})
            assert ("result" in answer) is is_same
            if not is_same:
                unknown = await caller.call("tasks/get", {"taskId": "x" * len(task_id)})
                assert answer["error"]["code"] == unknown["error"]["code"] == INVALID_PARAMS

    run(act)


def test_a_tool_is_nobody_else_while_it_runs_as_a_task() -> None:
    """The request that happens to begin it may be of another user."""

    async def act() -> None:
        async with shop(auth=AUTH, token_verifier=Tokens()) as (_, caller):
            caller.headers["authorization"] = "Bearer ada@desk"
            task_id = await caller.create("who", {})
            shown = await seen(caller, task_id, "completed")
            assert shown["result"]["structuredContent"] == {"result": "None"}

    run(act)
