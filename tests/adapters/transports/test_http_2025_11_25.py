"""Sessions and streams of 2025-11-25 over real sockets."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.transports.http import sessions
from taskmachine.adapters.transports.settings import Transport
from taskmachine.protocol.sealing import Position
from taskmachine.statemachine import Task
from tests.adapters.transports.wire import OLD, Events, Gate, callers, served, serving
from tests.requirements import covers


async def test_a_whole_life() -> None:
    async with served(OLD, Gate) as (caller, _):
        tools = (await caller.call("tools/list"))["result"]["tools"]
        assert {tool["name"] for tool in tools} >= {"greet", "add"}
        task_id = await caller.create("add", {"a": 1, "b": 2})
        result = (await caller.call("tasks/result", {"taskId": task_id}))["result"]
        assert result["structuredContent"] == {"sum": 3}
        assert result["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task_id}
        assert await caller.status(task_id) == "completed"
        waiting = await caller.create("wait", {})
        listed = (await caller.call("tasks/list"))["result"]["tasks"]
        assert [task["taskId"] for task in listed] == [waiting, task_id]
        cancelled = (await caller.call("tasks/cancel", {"taskId": waiting}))["result"]
        assert cancelled["status"] == "cancelled"
        again = await caller.call("tasks/cancel", {"taskId": waiting})
        assert again["error"]["code"] == -32602


@covers(
    "2025-11-25:sse-ends-with-response",
    "2025-11-25:sse-messages-before-response",
    "2025-11-25:sse-terminates-after-response",
)
async def test_the_end_is_awaited_and_progress_comes_with_it() -> None:
    async with served(OLD, Gate) as (caller, gate):
        more = {"_meta": {"progressToken": "p"}}
        task_id = await caller.create("step", {"count": 2}, **more)
        async with caller.stream("tasks/result", {"taskId": task_id}, id="r") as events:
            for done in (1, 2):
                gate.steps.release()
                params = (await events.until("notifications/progress"))["params"]
                assert params["progress"] == done
                assert params["progressToken"] == "p"
                related = params["_meta"]["io.modelcontextprotocol/related-task"]
                assert related == {"taskId": task_id}
            answer = await events.result()
            assert answer["id"] == "r"
            assert answer["result"]["content"][0]["text"] == "stepped"
            with pytest.raises(EOFError):
                await events.next()


@covers("2025-11-25:side-channel-allowed")
async def test_a_question_is_asked_while_the_end_is_awaited() -> None:
    async with served(OLD, Gate) as (caller, _):
        task_id = await caller.create("greet", {})
        async with caller.stream("tasks/result", {"taskId": task_id}) as events:
            question = await events.next()
            assert question["method"] == "elicitation/create"
            related = question["params"]["_meta"]["io.modelcontextprotocol/related-task"]
            assert related == {"taskId": task_id}
            await caller.answer(question)
            assert (await events.result())["result"]["content"][0]["text"] == "Hello, Ada!"


@covers("2025-11-25:result-stream-disconnect")
async def test_a_dropped_connection_loses_no_question_and_the_next_wait_has_it() -> None:
    async with served(OLD, Gate) as (caller, _):
        task_id = await caller.create("greet", {})
        async with caller.stream("tasks/result", {"taskId": task_id}) as events:
            first = await events.next()
        async with caller.stream("tasks/result", {"taskId": task_id}) as events:
            second = await events.next()
            assert second["method"] == "elicitation/create"
            assert second["id"] != first["id"]
            await caller.answer(first, "Old")  # an answer counts under every id
            assert (await events.result())["result"]["content"][0]["text"] == "Hello, Old!"


@covers("2025-11-25:sse-event-ids", "2025-11-25:sse-resumable", "2025-11-25:resume-replays")
async def test_resumed_stream_continues_at_the_last_event_without_repeats() -> None:
    async with served(OLD, Gate) as (caller, _):
        task_id = await caller.create("greet", {})
        async with caller.stream("tasks/result", {"taskId": task_id}, id="r") as events:
            question = await events.next()
            last_id = events.last_id
        async with caller.listen(last_id) as events:
            await caller.answer(question)
            answer = await events.next()
            assert answer["id"] == "r", "the question was not sent again"
            assert answer["result"]["content"][0]["text"] == "Hello, Ada!"
            with pytest.raises(EOFError):
                await events.next()
            final_id = events.last_id
        async with caller.listen(last_id) as events:
            assert (await events.next())["id"] == "r", "it can be resumed again from the same event"
        async with caller.listen(final_id) as events:
            with pytest.raises(EOFError):
                await events.next()


async def test_a_question_moves_to_another_stream_when_its_own_is_not_resumed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "RESUME_S", 0.0)

    async with served(OLD, Gate) as (caller, _), caller.listen() as general:
        task_id = await caller.create("greet", {})
        async with caller.stream("tasks/result", {"taskId": task_id}) as events:
            first = await events.until("elicitation/create")
        on_general = await general.until("elicitation/create")
        assert on_general["id"] != first["id"]
        async with caller.stream("tasks/result", {"taskId": task_id}) as events:
            await general.response.aclose()
            question = await events.until("elicitation/create")
            assert question["id"] != on_general["id"]
            await caller.answer(question)
            assert (await events.result())["result"]["content"][0]["text"] == "Hello, Ada!"


@covers("2025-11-25:http-single-endpoint", "2025-11-25:get-stream-messages")
async def test_the_general_stream_carries_status_and_questions_of_tasks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "RESUME_S", 0.0)

    async with served(OLD, Gate) as (caller, _):
        before = await caller.create("greet", {})
        async with caller.stream("tasks/result", {"taskId": before}) as events:
            await events.until("elicitation/create")
        async with caller.listen() as general:
            question = await general.until("elicitation/create")
            related = question["params"]["_meta"]["io.modelcontextprotocol/related-task"]
            assert related == {"taskId": before}
            await caller.answer(question)
            while True:
                notice = (await general.until("notifications/tasks/status"))["params"]
                assert notice["taskId"] == before
                if notice["status"] == "completed":
                    break


@covers("2025-11-25:get-not-upgraded-to-sse")
async def test_a_polling_client_gets_questions_on_the_general_stream() -> None:
    async with served(OLD, Gate) as (caller, _), caller.listen() as general:
        task_id = await caller.create("greet", {})
        notice = await general.next()
        while notice["params"]["status"] != "input_required":
            notice = await general.next()
        add = await caller.create("add", {"a": 1, "b": 1})
        while notice["params"]["taskId"] != add:
            notice = await general.next()
            assert notice["method"] == "notifications/tasks/status", (
                "no question before the client asks about the task"
            )
        response = await caller.post(caller.request("tasks/get", {"taskId": task_id})[0])
        assert response.headers["content-type"] == "application/json"
        await caller.answer(await general.until("elicitation/create"))
        await caller.wait_for(task_id, "completed")


@covers("2025-11-25:get-stream-server-may-close")
async def test_a_second_general_stream_replaces_the_first() -> None:
    async with (
        served(OLD, Gate) as (caller, _),
        caller.listen() as first,
        caller.listen() as second,
    ):
        with pytest.raises(EOFError):
            await first.next()
        task_id = await caller.create("add", {"a": 1, "b": 1})
        assert (await second.next())["params"]["taskId"] == task_id


async def told_of_end(events: Events, task_id: str) -> None:
    while (notice := (await events.next())["params"])["status"] != "completed":
        assert notice["taskId"] == task_id
    assert notice["taskId"] == task_id, "only this task"


async def test_an_end_is_sent_again_only_to_a_client_that_missed_it() -> None:
    async with served(OLD, Gate) as (caller, _):
        async with caller.listen() as general:
            before = await primed(general)
            first = await caller.create("add", {"a": 1, "b": 1})
            await told_of_end(general, first)
            last_id = general.last_id
        async with caller.listen():  # replaces the stream before
            pass
        async with caller.listen(last_id) as general:
            second = await caller.create("add", {"a": 2, "b": 2})
            await told_of_end(general, second)
        async with caller.listen(before) as general:
            for task_id in (second, first):
                await told_of_end(general, task_id)


def test_an_end_during_a_reconnect_is_sent_once() -> None:
    class Pages(MemoryStore):
        ends: Callable[[], Awaitable[None]] | None = None

        async def page(self, owner: str, after: Position | None, limit: int) -> Sequence[Task]:
            before = await super().page(owner, after, limit)
            if self.ends is not None:
                ends, self.ends = self.ends, None
                await ends()
            return before

    async def main() -> None:
        gate, store = Gate(), Pages(b"s" * 32)
        async with serving(gate.tools, store) as url, callers(url) as [caller]:
            await caller.introduce()
            task_id = await caller.create("wait", {})

            async def ends() -> None:
                gate.open.set()
                await caller.wait_for(task_id, "completed")

            store.ends = ends
            async with caller.listen("g1-elsewhere.1") as general:
                await told_of_end(general, task_id)
                await told_of_end(general, await caller.create("add", {"a": 1, "b": 1}))

    asyncio.run(main())


async def test_a_plain_call_sends_its_messages_on_its_own_stream() -> None:
    async with served(OLD, Gate) as (caller, gate):
        call = {"name": "greet", "arguments": {}}
        async with caller.stream("tools/call", call) as events:
            question = await events.next()
            assert question["method"] == "elicitation/create"
            assert "_meta" not in question["params"], "it belongs to no task"
            await caller.answer(question)
            assert (await events.result())["result"]["content"][0]["text"] == "Hello, Ada!"
        call = {"name": "step", "arguments": {"count": 1}, "_meta": {"progressToken": 7}}
        gate.steps.release()
        async with caller.stream("tools/call", call) as events:
            assert (await events.next())["params"] == {
                "progressToken": 7,
                "progress": 1,
                "total": 1,
            }
            assert (await events.result())["result"]["content"][0]["text"] == "stepped"


@covers("2025-11-25:disconnect-is-not-cancel", "2025-11-25:cancelled-request-stopped")
async def test_a_plain_call_survives_a_disconnect_and_is_stopped_by_a_cancel() -> None:
    async with served(OLD, Gate) as (caller, gate):
        call = {"name": "wait", "arguments": {}}
        async with caller.stream("tools/call", call, id="c") as events:
            last_id = f"{(await primed(events))}"
        gate.open.set()
        async with caller.listen(last_id) as events:
            assert (await events.next())["result"]["content"][0]["text"] == "open"
        assert not gate.stopped.is_set()
        gate.open.clear()
        async with caller.stream("tools/call", call, id="d"):
            await caller.post({"method": "notifications/cancelled", "params": {"requestId": "d"}})
            async with asyncio.timeout(10):
                await gate.stopped.wait()


async def primed(events: object) -> str:
    """Return the id of the event that primes a client to reconnect."""
    async for line in events._lines:  # type: ignore[attr-defined]
        if line.startswith("id: "):
            return str(line[4:])
    raise EOFError


# --- sessions --------------------------------------------------------------------------------


@covers("2025-11-25:session-ended-404", "2025-11-25:sse-session-expiry-ends-stream")
async def test_a_session_that_was_deleted_is_gone() -> None:
    async with served(OLD, Gate) as (caller, _):
        async with caller.listen() as general:
            gone = await caller.client.delete(caller.url, headers=caller.headers)
            assert gone.status_code == 204
            with pytest.raises(EOFError):
                await general.next()
        response = await caller.post({"id": 1, "method": "ping"})
        assert response.status_code == 404
        assert "send initialize again" in response.json()["error"]["message"]


async def test_a_session_outlives_the_process_and_so_do_its_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "RESUME_S", 0.0)

    store, gate = MemoryStore(b"s" * 32), Gate()
    async with serving(gate.tools, store) as url, callers(url) as [caller]:
        await caller.introduce()
        task_id, other = await caller.create("greet", {}), await caller.create("greet", {})
        async with caller.stream("tasks/result", {"taskId": task_id}, id="r") as events:
            question = await events.next()
            last_id = events.last_id
        call = {"name": "wait", "arguments": {}}
        async with caller.stream("tools/call", call, id="c") as events:
            lost_id = await primed(events)
        headers = caller.headers
    async with serving(gate.tools, store) as url, callers(url) as [caller]:
        caller.headers, caller.is_legacy = headers, True
        async with caller.listen(lost_id) as events:
            lost = await events.next()
            assert lost["id"] == "c"
            assert lost["error"]["code"] == -32603
        async with caller.listen() as general:
            await caller.call("tasks/cancel", {"taskId": other})
            notice = await general.next()
            while notice["params"].get("status") != "cancelled":
                assert notice["method"] == "notifications/tasks/status", (
                    "no question without a waiting request"
                )
                notice = await general.next()
            assert notice["params"]["taskId"] == other, "the general stream reports its tasks, too"
        async with caller.listen(last_id) as events:
            again = await events.next()
            assert again["method"] == "elicitation/create"
            assert again["id"] != question["id"]
            await caller.answer(question, "Eve")  # the question of another process
            answer = await events.result()
            assert answer["id"] == "r"
            assert answer["result"]["content"][0]["text"] == "Hello, Eve!"
        assert await caller.status(task_id) == "completed"


async def test_sessions_without_authentication_do_not_see_each_other() -> None:
    gate = Gate()
    async with serving(gate.tools) as url, callers(url, 2) as [one, other]:
        await one.introduce()
        await other.introduce()
        task_id = await one.create("wait", {})
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            foreign = await other.call(method, {"taskId": task_id})
            unknown = await other.call(method, {"taskId": "x" * 32})
            assert foreign["error"] == unknown["error"]
        assert (await other.call("tasks/list"))["result"]["tasks"] == []
        assert await one.status(task_id) == "working"


async def test_the_number_of_sessions_is_bounded() -> None:
    gate = Gate()
    transport = Transport(sessions=2)
    async with serving(gate.tools, transport=transport) as url, callers(url, 3) as many:
        await many[0].introduce()
        await many[1].introduce()
        async with many[0].listen(), many[1].listen():
            params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
            full = await many[2].post({"id": 1, "method": "initialize", "params": params})
            assert full.status_code == 503
            assert full.headers["retry-after"] == "60"
            assert "2 sessions" in full.json()["error"]["message"]


async def test_an_id_in_use_is_refused() -> None:
    async with served(OLD, Gate) as (caller, _):
        call = {"name": "wait", "arguments": {}}
        async with caller.stream("tools/call", call, id=1):
            twice = await caller.post({"id": 1, "method": "ping"})
            assert twice.status_code == 400
            assert "in use" in twice.json()["error"]["message"]
            assert (await caller.post({"id": "1", "method": "ping"})).status_code == 200
