"""Whole calls through receiver and runtime, on every dialect."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import Runtime, RuntimeConfig, start_runtime
from taskmachine.adapters.stores import StoreError
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.protocol.jsonrpc import encode_message
from taskmachine.statemachine import NotFound, Task
from tests.adapters.connections import DIALECTS, Connection, greeting_tools, quiet


@asynccontextmanager
async def a_line(
    dialect: str, limits: Limits | None = None
) -> AsyncIterator[tuple[Connection, Runtime]]:
    runtime = await start_runtime(
        MemoryStore(b"s" * 32), greeting_tools(), RuntimeConfig(limits=limits or Limits())
    )
    line = Connection(runtime, dialect, "alice")
    await line.introduce()
    try:
        yield line, runtime
    finally:
        for task in (await runtime.service.page("alice", None, 200)).tasks:
            await runtime.service.cancel("alice", task.id)
        await line.conversation.close()
        await runtime.stop()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_tool_runs_as_a_task(dialect: str) -> None:
    async with a_line(dialect) as (line, _):
        task_id = await line.create("add", {"a": 2, "b": 3})
        shown = (await line.call("tasks/get", {"taskId": task_id}))["result"]
        assert shown.get("task", shown)["status"] == "completed"
        if dialect == "2026-07-28":
            result = shown["result"]
        else:
            result = (await line.call("tasks/result", {"taskId": task_id}))["result"]
        assert result.get("result", result)["structuredContent"] == {"sum": 5}


@pytest.mark.parametrize("dialect", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("arguments", [{"a": 2, "b": 3}, {"a": "two"}])
async def test_a_plain_call_has_the_same_outcome_as_a_task(
    dialect: str, arguments: dict[str, Any]
) -> None:

    async with a_line(dialect) as (line, _):
        task_id = await line.create("add", arguments)
        if dialect == "2026-07-28":
            as_task = (await line.call("tasks/get", {"taskId": task_id}))["result"]["result"]
            line.capabilities = {}
        else:
            as_task = (await line.call("tasks/result", {"taskId": task_id}))["result"]
        plain = await line.call("tools/call", {"name": "add", "arguments": arguments})
        for result in (as_task, plain["result"]):
            result.pop("_meta", None)
            result.pop("resultType", None)
        assert plain["result"] == as_task
        assert as_task.get("isError", False) is ("b" not in arguments)


async def test_a_question_of_a_task_is_answered_in_2025() -> None:
    async with a_line("2025-11-25") as (line, _):
        task_id = await line.create("greet", {})
        sent = await line.ask("tasks/result", {"taskId": task_id}, id="r")
        questions = [json.loads(encode_message(send.message)) for send in line.sent]
        [question] = [m for m in questions if m.get("method") == "elicitation/create"]
        assert not [m for m in map(json.loads, sent) if m.get("id") == "r"], "it blocks"
        answer = {"action": "accept", "content": {"name": "Ada"}}
        before = len(line.sent)
        line.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        await quiet()
        messages = [json.loads(encode_message(send.message)) for send in line.sent[before:]]
        [result] = [message for message in messages if message.get("id") == "r"]
        assert result["result"]["content"][0]["text"] == "Hello, Ada!"


async def test_a_question_of_a_task_is_answered_in_2026() -> None:
    async with a_line("2026-07-28") as (line, _):
        task_id = await line.create("greet", {"salute": "Hi"})
        shown = (await line.call("tasks/get", {"taskId": task_id}))["result"]
        assert shown["status"] == "input_required"
        answer = {"name": {"action": "accept", "content": {"name": "Ada"}}}
        assert shown["inputRequests"].keys() == answer.keys()
        await line.call("tasks/update", {"taskId": task_id, "inputResponses": answer})
        shown = (await line.call("tasks/get", {"taskId": task_id}))["result"]
        assert shown["result"]["content"][0]["text"] == "Hi, Ada!"


async def test_a_plain_call_of_2026_that_asks_is_called_again_with_the_answers() -> None:
    async with a_line("2026-07-28") as (line, _):
        line.capabilities = {"elicitation": {"form": {}}}
        call = {"name": "greet", "arguments": {}}
        paused = (await line.call("tools/call", call))["result"]
        assert paused["resultType"] == "input_required"
        assert paused["inputRequests"].keys() == {"name"}
        answer = {"name": {"action": "accept", "content": {"name": "Ada"}}}
        state = {"requestState": paused["requestState"]}
        again = {**call, "inputResponses": answer, **state}
        assert (await line.call("tools/call", again))["result"]["content"][0]["text"] == (
            "Hello, Ada!"
        )
        stolen = {**again, "name": "add"}
        assert (await line.call("tools/call", stolen))["error"]["code"] == -32602


async def test_plain_call_without_elicitation_names_the_required_capability() -> None:
    async with a_line("2026-07-28") as (line, _):
        line.capabilities = {}
        error = (await line.call("tools/call", {"name": "greet", "arguments": {}}))["error"]
        assert error["code"] == -32021
        assert error["data"] == {"requiredCapabilities": {"elicitation": {}}}


async def test_progress_and_changes_reach_the_creator_of_the_task_in_2025() -> None:
    async with a_line("2025-11-25") as (line, _):
        task_id = await line.create("hang", {})
        before = len(line.sent)
        await line.call("tasks/cancel", {"taskId": task_id})
        messages = [json.loads(encode_message(send.message)) for send in line.sent[before:]]
        [status] = [m for m in messages if m.get("method") == "notifications/tasks/status"]
        assert status["params"]["status"] == "cancelled"


async def test_a_watch_of_2026_reports_changes_of_existing_tasks_only() -> None:
    async with a_line("2026-07-28") as (line, _):
        task_id = await line.create("hang", {})
        wanted = {"notifications": {"taskIds": [task_id, "no-such-task"]}}
        begun = [json.loads(m) for m in await line.ask("subscriptions/listen", wanted, id="w")]
        assert begun[0]["params"]["notifications"]["taskIds"] == [task_id]
        messages = await line.ask("tasks/cancel", {"taskId": task_id})
        statuses = [json.loads(message).get("params", {}).get("status") for message in messages]
        assert "cancelled" in statuses


async def test_requests_beyond_the_limit_are_refused() -> None:
    async with a_line("2025-11-25", Limits(calls=2)) as (line, _):
        task_id = await line.create("hang", {})
        for id in (10, 11):
            assert await line.ask("tasks/result", {"taskId": task_id}, id=id) == []
        answer = await line.call("tasks/result", {"taskId": task_id}, id=12)
        assert "2 requests at the same time" in answer["error"]["message"]


@pytest.mark.parametrize("how", ["the request is given up", "the conversation ends"])
def test_an_abandoned_plain_call_is_stopped(how: str) -> None:
    async def main() -> None:
        async with a_line("2026-07-28") as (_, runtime):
            stopped = asyncio.Event()

            @runtime.tools.task(support="forbidden")
            async def endless() -> None:
                try:
                    await asyncio.Event().wait()
                finally:
                    stopped.set()

            line = Connection(runtime, "2026-07-28", "alice")
            assert await line.ask("tools/call", {"name": "endless"}, id=5) == []
            if how == "the conversation ends":
                await line.conversation.close()
            else:
                line.conversation.handle(line.conversation.receiver.closed(5))
            await asyncio.wait_for(stopped.wait(), 5)
            assert line.sent == []

    asyncio.run(main())


async def test_nothing_is_sent_after_the_end_of_a_conversation() -> None:
    async with a_line("2025-11-25") as (line, runtime):
        task_id = await line.create("hang", {})
        assert await line.ask("tasks/result", {"taskId": task_id}, id=10) == []
        await line.conversation.close()
        before = len(line.sent)
        assert (await runtime.service.cancel("alice", task_id)).is_terminal
        await quiet()
        assert line.sent[before:] == []


async def test_an_internal_error_affects_one_response_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_line("2025-11-25") as (line, runtime):

        async def broken(*_: object) -> None:
            raise ZeroDivisionError("secret detail")

        with monkeypatch.context() as patch:
            patch.setattr(runtime.service, "get", broken)
            answer = await line.call("tasks/get", {"taskId": "x"})
        assert answer["error"] == {"code": -32603, "message": "Internal error"}
        assert (await line.call("tasks/get", {"taskId": "x"}))["error"]["code"] == -32602


async def test_too_many_tasks_of_one_watch_are_refused() -> None:
    async with a_line("2026-07-28", Limits(watched=2)) as (line, _):
        wanted = {"notifications": {"taskIds": ["a", "b", "c"]}}
        answer = await line.call("subscriptions/listen", wanted)
        assert "2 tasks of one watch" in answer["error"]["message"]


async def test_a_tool_that_is_offered_and_gone_is_refused() -> None:
    async with a_line("2025-11-25") as (line, runtime):
        del runtime.tools._tools["add"]
        for params in ({"name": "add"}, {"name": "add", "task": {}}):
            answer = await line.call("tools/call", params)
            assert answer["error"]["code"] == -32602


async def test_an_answer_to_a_question_is_not_lost_when_the_store_fails_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_line("2025-11-25") as (line, runtime):
        await line.call("tasks/get", {"taskId": await line.create("greet", {})})
        sent = [json.loads(encode_message(send.message)) for send in line.sent]
        [question] = [m for m in sent if m.get("method") == "elicitation/create"]
        perform, failures = runtime.service.perform, [StoreError("no disk")] * 2

        async def unsteady(owner: str, operation: Any) -> Any:
            if failures:
                raise failures.pop()
            return await perform(owner, operation)

        monkeypatch.setattr(runtime.service, "perform", unsteady)
        answer = {"action": "accept", "content": {"name": "Ada"}}
        line.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        [task] = (await runtime.service.page("alice")).tasks
        assert (await runtime.service.collect("alice", task.id, 5)).state == "completed"


async def test_a_new_task_is_followed_although_the_store_fails_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with a_line("2025-11-25") as (line, runtime):
        await line.conversation.listen()
        get, was_read = runtime.service.get, asyncio.Event()
        failures = [StoreError("no disk")] * 2

        async def unsteady(owner: str, task_id: str) -> Task:
            if failures:
                raise failures.pop()
            was_read.set()
            return await get(owner, task_id)

        monkeypatch.setattr(runtime.service, "get", unsteady)
        await line.create("hang", {})
        async with asyncio.timeout(5):
            await was_read.wait()


async def test_a_late_answer_to_a_question_does_no_harm() -> None:
    async with a_line("2025-11-25") as (line, _):
        task_id = await line.create("greet", {})
        await line.call("tasks/get", {"taskId": task_id})
        sent = [json.loads(encode_message(send.message)) for send in line.sent]
        [question] = [m for m in sent if m.get("method") == "elicitation/create"]
        await line.call("tasks/cancel", {"taskId": task_id})
        before = len(line.sent)
        line.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}})
        await quiet()
        assert line.sent[before:] == []


@pytest.mark.parametrize("end", ["cancel", "forget"])
async def test_a_change_of_one_task_while_the_next_is_read_is_reported(
    monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """2026-07-28: a watch of several tasks reports the end of each."""
    async with a_line("2026-07-28") as (line, runtime):
        first, second = [await line.create("hang", {}) for _ in range(2)]
        service = runtime.service
        get = service.get

        async def slow(owner: str, task_id: str) -> Task:
            if task_id == second and end == "forget":
                line.conversation._following._on_version(first, None)
            elif task_id == second and not (await get(owner, first)).is_terminal:
                await service.cancel(owner, first)
            return await get(owner, task_id)

        monkeypatch.setattr(service, "get", slow)
        wanted = {"notifications": {"taskIds": [first, second]}}
        messages = [json.loads(m) for m in await line.ask("subscriptions/listen", wanted)]
        known = messages[0]["params"]["notifications"]["taskIds"]
        statuses = {m["params"]["taskId"]: m["params"]["status"] for m in messages[1:]}
        if end == "cancel":
            assert known == [first, second]
            assert statuses == {first: "cancelled", second: "working"}
        else:
            assert known == [second]
            assert statuses == {second: "working"}


@pytest.mark.parametrize(
    ("error", "code"), [(StoreError("no disk"), -32603), (NotFound("forgotten"), -32602)]
)
async def test_a_failed_wait_is_refused_without_side_effects(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_line("2025-11-25") as (line, runtime):
        task_id = await line.create("hang", {})
        assert await line.ask("tasks/result", {"taskId": task_id}, id="patient") == []
        get, reads = runtime.service.get, count(1)

        async def failing(owner: str, task_id: str) -> Task:
            if next(reads) == 2:  # the first is that of the request, the second of its follower
                raise error
            return await get(owner, task_id)

        with monkeypatch.context() as patch:
            patch.setattr(runtime.service, "get", failing)
            refused = await line.call("tasks/result", {"taskId": task_id}, id="unlucky")
        assert refused["error"]["code"] == code
        before = len(line.sent)
        await runtime.service.cancel("alice", task_id)
        await quiet()
        messages = [json.loads(encode_message(send.message)) for send in line.sent[before:]]
        assert [message["id"] for message in messages if "id" in message] == ["patient"]
        assert runtime.service.waiting("alice") == 0
