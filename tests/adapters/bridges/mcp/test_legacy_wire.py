"""Messages of an SDK server to clients of 2025-11-25."""

from typing import Any

import pytest

from tests.adapters.bridges.mcp.legacy_client import (
    RELATED,
    LegacyClient,
    LegacyServer,
    accept,
    with_client,
)

JSON = dict[str, Any]


# --- capabilities ----------------------------------------------------------------------------


def test_tasks_capability_is_added_to_the_capabilities_of_the_sdk() -> None:
    async def act(server: LegacyServer, _: LegacyClient) -> None:
        result = (await server.client().introduce({}))["result"]
        assert result["capabilities"]["tasks"] == {
            "list": {},
            "cancel": {},
            "requests": {"tools": {"call": {}}},
        }
        assert "tools" in result["capabilities"]
        assert result["serverInfo"]["name"] == "legacy"

    with_client(act)


def test_every_tool_declares_its_task_support() -> None:
    async def act(_: LegacyServer, client: LegacyClient) -> None:
        tools = (await client.ask("tools/list"))["result"]["tools"]
        support = {tool["name"]: tool["execution"]["taskSupport"] for tool in tools}
        assert support["greet"] == "forbidden"
        assert support["count"] == "optional"
        assert support["hold"] == "required"

    with_client(act)


def test_a_client_of_an_older_revision_is_shown_no_tasks() -> None:
    async def act(server: LegacyServer, _: LegacyClient) -> None:
        older = server.client(revision="2025-06-18")
        hello = (await older.introduce({}))["result"]
        assert hello["protocolVersion"] == "2025-06-18"
        assert "tasks" not in hello["capabilities"]
        tools = (await older.ask("tools/list"))["result"]["tools"]
        assert not any("execution" in tool for tool in tools)
        call = {"name": "count", "arguments": {"to": 1, "pause_ms": 0}, "task": {}}
        result = (await older.ask("tools/call", call))["result"]
        assert result["structuredContent"] == {"counted": 1}
        assert (await older.error("tasks/get", {"taskId": "x"}))["code"] == -32601
        # A tool that requires a task is unknown to this client.
        assert (await older.error("tools/call", {"name": "hold"}))["code"] == -32601

    with_client(act)


# --- calls -----------------------------------------------------------------------------------


def test_a_call_with_a_task_is_answered_with_the_task() -> None:
    async def act(_: LegacyServer, client: LegacyClient) -> None:
        call = {"name": "count", "arguments": {"to": 1, "pause_ms": 0}, "task": {"ttl": 4_000_000}}
        result = (await client.ask("tools/call", call))["result"]
        task = result["task"]
        assert task["status"] == "working"
        assert task["ttl"] == 4_000_000
        assert task.keys() >= {"taskId", "createdAt", "lastUpdatedAt"}
        assert "content" not in result
        done = (await client.ask("tasks/result", {"taskId": task["taskId"]}))["result"]
        assert done["structuredContent"] == {"counted": 1}
        assert done["_meta"][RELATED] == {"taskId": task["taskId"]}
        shown = (await client.ask("tasks/get", {"taskId": task["taskId"]}))["result"]
        assert shown["status"] == "completed"
        assert [t["taskId"] for t in (await client.ask("tasks/list"))["result"]["tasks"]] == [
            task["taskId"]
        ]

    with_client(act)


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"name": "greet", "arguments": {"name": "Ada"}, "task": {}}, -32601),
        ({"name": "hold", "arguments": {}}, -32601),
        ({"name": "count", "arguments": {}, "task": "soon"}, -32602),
        ({"name": "count", "arguments": {}, "task": {"ttl": "long"}}, -32602),
        ({"name": 7, "arguments": {}, "task": {}}, -32602),
    ],
)
def test_server_refuses_a_task_for_an_unfit_tool_call(params: JSON, code: int) -> None:
    async def act(_: LegacyServer, client: LegacyClient) -> None:
        assert (await client.error("tools/call", params))["code"] == code
        assert (await client.ask("tasks/list"))["result"]["tasks"] == []

    with_client(act)


def test_a_plain_call_is_the_sdks_own_with_its_question_and_its_progress() -> None:
    async def act(_: LegacyServer, client: LegacyClient) -> None:
        call: JSON = {"name": "deploy", "arguments": {"version": "1"}, "task": None}
        async with client.asking("tools/call", call) as stream:
            question = await stream.message("elicitation/create")
            assert RELATED not in question["params"].get("_meta", {})
            await client.send(accept(question))
            content = (await stream.answer())["result"]["content"]
            assert content[0]["text"] == "1 is deployed to test."
        count = {"to": 2, "pause_ms": 0}
        call = {"name": "count", "arguments": count, "_meta": {"progressToken": "p"}}
        async with client.asking("tools/call", call) as stream:
            assert (await stream.answer())["result"]["structuredContent"] == {"counted": 2}
            assert [m["params"]["progress"] for m in stream.received[:-1]] == [1, 2]

    with_client(act)


# --- isolation -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
def test_a_task_of_another_session_is_as_one_that_does_not_exist(method: str) -> None:
    async def act(server: LegacyServer, client: LegacyClient) -> None:
        task_id = await client.create("hold")
        other = await server.connect()
        foreign = await other.error(method, {"taskId": task_id})
        assert foreign["code"] == -32602
        assert foreign == await other.error(method, {"taskId": "no-such-task"})
        assert (await other.ask("tasks/list"))["result"]["tasks"] == []
        cancelled = (await client.ask("tasks/cancel", {"taskId": task_id}))["result"]
        assert cancelled["status"] == "cancelled"  # so it was live until now

    with_client(act)


def test_the_end_of_a_session_is_not_the_end_of_anothers_tasks() -> None:
    async def act(server: LegacyServer, client: LegacyClient) -> None:
        task_id = await client.create("deploy", {"version": "1"})
        other = await server.connect()
        await other.create("count", {"to": 1, "pause_ms": 0})
        await other.leave()
        async with client.asking("tasks/result", {"taskId": task_id}) as stream:
            await client.send(accept(await stream.message("elicitation/create")))
            assert "result" in await stream.answer()

    with_client(act)
