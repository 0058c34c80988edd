"""What callers of 2025-11-25 see of an SDK server, message by message."""

from typing import Any

import pytest

from tests.adapters.bridges.mcp.legacy_visitor import RELATED, House, Visitor, accept, visited

JSON = dict[str, Any]


# --- what is declared ------------------------------------------------------------------------


def test_the_capability_is_added_to_what_the_sdk_declares() -> None:
    async def act(home: House, _: Visitor) -> None:
        result = (await home.visitor().introduce({}))["result"]
        assert result["capabilities"]["tasks"] == {
            "list": {},
            "cancel": {},
            "requests": {"tools": {"call": {}}},
        }
        assert "tools" in result["capabilities"]
        assert result["serverInfo"]["name"] == "legacy"

    visited(act)


def test_every_tool_says_whether_it_can_be_a_task() -> None:
    async def act(_: House, visitor: Visitor) -> None:
        tools = (await visitor.ask("tools/list"))["result"]["tools"]
        support = {tool["name"]: tool["execution"]["taskSupport"] for tool in tools}
        assert support["greet"] == "forbidden"
        assert support["count"] == "optional"
        assert support["hold"] == "required"

    visited(act)


def test_a_client_of_an_older_revision_is_shown_no_tasks() -> None:
    async def act(home: House, _: Visitor) -> None:
        older = home.visitor(revision="2025-06-18")
        hello = (await older.introduce({}))["result"]
        assert hello["protocolVersion"] == "2025-06-18"
        assert "tasks" not in hello["capabilities"]
        tools = (await older.ask("tools/list"))["result"]["tools"]
        assert not any("execution" in tool for tool in tools)
        call = {"name": "count", "arguments": {"to": 1, "pause_ms": 0}, "task": {}}
        result = (await older.ask("tools/call", call))["result"]
        assert result["structuredContent"] == {"counted": 1}
        assert (await older.error("tasks/get", {"taskId": "x"}))["code"] == -32601
        # A tool that is only there as a task is not there for this client.
        assert (await older.error("tools/call", {"name": "hold"}))["code"] == -32601

    visited(act)


# --- calls -----------------------------------------------------------------------------------


def test_a_call_with_a_task_is_answered_with_the_task() -> None:
    async def act(_: House, visitor: Visitor) -> None:
        call = {"name": "count", "arguments": {"to": 1, "pause_ms": 0}, "task": {"ttl": 4_000_000}}
        result = (await visitor.ask("tools/call", call))["result"]
        task = result["task"]
        assert task["status"] == "working"
        assert task["ttl"] == 4_000_000
        assert task.keys() >= {"taskId", "createdAt", "lastUpdatedAt"}
        assert "content" not in result
        done = (await visitor.ask("tasks/result", {"taskId": task["taskId"]}))["result"]
        assert done["structuredContent"] == {"counted": 1}
        assert done["_meta"][RELATED] == {"taskId": task["taskId"]}
        shown = (await visitor.ask("tasks/get", {"taskId": task["taskId"]}))["result"]
        assert shown["status"] == "completed"
        assert [t["taskId"] for t in (await visitor.ask("tasks/list"))["result"]["tasks"]] == [
            task["taskId"]
        ]

    visited(act)


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
def test_what_cannot_be_a_task_is_refused(params: JSON, code: int) -> None:
    async def act(_: House, visitor: Visitor) -> None:
        assert (await visitor.error("tools/call", params))["code"] == code
        assert (await visitor.ask("tasks/list"))["result"]["tasks"] == []

    visited(act)


def test_a_plain_call_is_the_sdks_own_with_its_question_and_its_progress() -> None:
    async def act(_: House, visitor: Visitor) -> None:
        call: JSON = {"name": "deploy", "arguments": {"version": "1"}, "task": None}
        async with visitor.asking("tools/call", call) as stream:
            question = await stream.called("elicitation/create")
            assert RELATED not in question["params"].get("_meta", {})
            await visitor.tell(accept(question))
            content = (await stream.answer())["result"]["content"]
            assert content[0]["text"] == "1 is deployed to test."
        count = {"to": 2, "pause_ms": 0}
        call = {"name": "count", "arguments": count, "_meta": {"progressToken": "p"}}
        async with visitor.asking("tools/call", call) as stream:
            assert (await stream.answer())["result"]["structuredContent"] == {"counted": 2}
            assert [m["params"]["progress"] for m in stream.heard[:-1]] == [1, 2]

    visited(act)


# --- who sees what ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
def test_a_task_of_another_session_is_as_one_that_does_not_exist(method: str) -> None:
    async def act(home: House, visitor: Visitor) -> None:
        task_id = await visitor.create("hold")
        other = await home.visit()
        foreign = await other.error(method, {"taskId": task_id})
        assert foreign["code"] == -32602
        assert foreign == await other.error(method, {"taskId": "no-such-task"})
        assert (await other.ask("tasks/list"))["result"]["tasks"] == []
        cancelled = (await visitor.ask("tasks/cancel", {"taskId": task_id}))["result"]
        assert cancelled["status"] == "cancelled"  # so it was alive until now

    visited(act)


def test_the_end_of_a_session_is_not_the_end_of_anothers_tasks() -> None:
    async def act(home: House, visitor: Visitor) -> None:
        task_id = await visitor.create("deploy", {"version": "1"})
        other = await home.visit()
        await other.create("count", {"to": 1, "pause_ms": 0})
        await other.leave()
        async with visitor.asking("tasks/result", {"taskId": task_id}) as stream:
            await visitor.tell(accept(await stream.called("elicitation/create")))
            assert "result" in await stream.answer()

    visited(act)
