"""The client's Streamable HTTP of 2025-11-25, against scripted servers."""

import asyncio
import time
from typing import Any

import pytest

from taskmachine.adapters.client.connect import connect
from taskmachine.adapters.client.errors import CallFailed, Cancelled, ConnectionLost, SessionLost
from taskmachine.adapters.client.remote_task import Question, Update
from tests.adapters.client.scripted import (
    DONE,
    FORM,
    INITIALIZED,
    TOOL,
    Exchange,
    Json,
    calling,
    connected,
    legacy,
    serving,
    shown_2025,
)
from tests.requirements import covers

RELATED = {"io.modelcontextprotocol/related-task": {"taskId": "t-1"}}
QUESTION = {"jsonrpc": "2.0", "id": "q-1", "method": "elicitation/create"}
LEGACY = "2025-11-25"


async def name_is_ada(question: Question) -> Json:
    return question.accept(name="Ada")


def told(method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


async def a_task(exchange: Exchange) -> None:
    match exchange.what:
        case "tools/call":
            await exchange.result({"task": shown_2025()})
        case "tasks/get":
            await exchange.result(shown_2025("completed"))
        case "tasks/result":
            await exchange.result({**DONE, "_meta": RELATED})


@covers(
    "2025-11-25:http-one-post-per-message",
    "2025-11-25:http-accept-both",
    "2025-11-25:http-single-message-body",
    "2025-11-25:session-id-sent",
    "2025-11-25:session-deleted-by-client",
    "2025-11-25:protocol-version-header",
    "2025-11-25:protocol-version-header-negotiated",
)
async def test_a_session_is_carried_along_and_ended() -> None:
    async with serving(legacy(a_task)) as server:
        async with connect(server.url, token="secret") as session:
            task = await session.call("work", ttl_ms=5_000, key="k-1")
            assert task.id == "t-1"
            assert await task.result() == DONE
        probe, hello, *others = server.seen
    assert (probe.what, hello.what) == ("server/discover", "initialize")
    assert "mcp-session-id" not in hello.headers
    for exchange in others:
        assert exchange.headers["mcp-session-id"] == "s-1"
        assert exchange.headers["mcp-protocol-version"] == "2025-11-25"
        assert exchange.headers["authorization"] == "Bearer secret"
        wanted = "application/json, text/event-stream"
        if exchange.method != "DELETE":
            accepted = wanted if exchange.method == "POST" else "text/event-stream"
            assert exchange.headers["accept"] == accepted
    assert others[0].what == "notifications/initialized"
    assert others[-1].what == "DELETE"
    call = server.of("tools/call")[0].params
    assert call["task"] == {"ttl": 5_000}
    assert call["_meta"]["taskmachine/idempotency-key"] == "k-1"


async def test_a_tool_without_task_support_is_called_plainly() -> None:
    async def script(exchange: Exchange) -> None:
        assert "task" not in exchange.params
        await exchange.result(DONE)

    async with calling(legacy(script, TOOL)) as (_, task):
        assert (task.id, await task.result()) == (None, DONE)


@covers(
    "2025-11-25:sse-client-reconnects", "2025-11-25:sse-retry-respected", "2025-11-25:resume-by-get"
)
@pytest.mark.parametrize("is_cut_off", [False, True])
async def test_client_resumes_a_broken_stream_after_the_requested_retry_time(
    is_cut_off: bool,
) -> None:
    async def script(exchange: Exchange) -> None:
        if exchange.what == "tools/call":
            state["token"] = exchange.params["_meta"]["progressToken"]
            state["answer"] = exchange.answer(DONE)
            await exchange.stream(is_cut_off=is_cut_off)
            await exchange.send("retry: 300\n")
            await exchange.event(None, id="e-1")
            state["broken"] = time.monotonic()
        elif exchange.headers["last-event-id"] == "e-1":
            state["resumed"] = time.monotonic()
            await exchange.stream(is_cut_off=is_cut_off)
            params = {"progressToken": state["token"], "progress": 1}
            await exchange.event(told("progress", params), id="e-2")
            await exchange.send('id: e-3\ndata: {"cut')
        else:
            assert exchange.headers["last-event-id"] == "e-2"
            await exchange.stream()
            await exchange.event(state["answer"], id="e-3")

    state: dict[str, Any] = {}

    async with calling(legacy(script, TOOL)) as (server, task):
        assert await task.result() == DONE
        assert len(server.of("tools/call")) == 1
    assert state["resumed"] - state["broken"] >= 0.3


async def test_a_stream_that_cannot_be_resumed_is_lost() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.stream()

    async with calling(legacy(script, TOOL)) as (_, task):
        with pytest.raises(ConnectionLost, match="ended before the answer"):
            await task.result()


async def test_the_general_stream_brings_news_and_is_opened_again() -> None:
    async def script(exchange: Exchange) -> None:
        match exchange.what:
            case "GET":
                await exchange.stream()
                if "last-event-id" not in exchange.headers:
                    await exchange.send("retry: 10\n")
                    await exchange.event(None, id="g-1")
                    return
                assert exchange.headers["last-event-id"] == "g-1"
                await created.wait()
                params = shown_2025("working", statusMessage="half", pollInterval=3_600_000)
                await exchange.event(told("tasks/status", params))
                await seen.wait()
                await exchange.event(told("tasks/status", shown_2025("completed")))
                await exchange.closed.wait()
            case "tools/call":
                await exchange.result({"task": shown_2025(pollInterval=3_600_000)})
            case "tasks/result":
                await exchange.result(DONE)
            case _:
                await legacy(a_task)(exchange)

    created, seen = asyncio.Event(), asyncio.Event()

    async with serving(script) as server:
        async with connect(server.url, generation=LEGACY) as session:
            await server.until("GET", 2)
            task = await session.call("work")
            created.set()
            async for update in task:
                if update == Update("working", "half"):
                    seen.set()
            assert await task.result() == DONE
        assert server.of("tasks/get") == []


@covers("2025-11-25:messages-on-any-stream", "2025-11-25:http-client-takes-both")
async def test_client_answers_a_question_on_the_result_stream_with_related_task() -> None:
    async def script(exchange: Exchange) -> None:
        match exchange.what:
            case "tools/call":
                await exchange.result({"task": shown_2025("input_required")})
            case "tasks/result":
                await exchange.stream()
                await exchange.event({**QUESTION, "params": {**FORM, "_meta": RELATED}})
                state["reply"] = (await exchange.server.until("answer")).message
                await exchange.event(exchange.answer(DONE))

    state: Json = {}

    async with calling(legacy(script), answer=name_is_ada) as (_, task):
        assert await task.result() == DONE
    accepted = {"action": "accept", "content": {"name": "Ada"}, "_meta": RELATED}
    assert state["reply"] == {"jsonrpc": "2.0", "id": "q-1", "result": accepted}


@covers("2025-11-25:messages-on-any-stream")
async def test_a_question_may_be_faster_than_the_news_of_the_task_that_asks() -> None:
    async def script(exchange: Exchange) -> None:
        match exchange.what:
            case "GET":
                await exchange.stream()
                await called.wait()
                await exchange.event({**QUESTION, "params": {**FORM, "_meta": RELATED}})
                sent.set()
                await exchange.closed.wait()
            case "tools/call":
                called.set()
                await sent.wait()
                await exchange.result({"task": shown_2025()})
            case "answer":
                answers.append(exchange.message)
                await exchange.reply(202)
            case "tasks/get":
                await exchange.result(shown_2025("completed" if answers else "working"))
            case _:
                await legacy(a_task)(exchange)

    called, sent = asyncio.Event(), asyncio.Event()
    answers: list[Json] = []

    async with calling(script, answer=name_is_ada, generation=LEGACY) as (_, task):
        assert await task.result() == DONE
    assert answers[0]["result"]["content"] == {"name": "Ada"}


@covers("2025-11-25:elicitation-one-mode")
async def test_requests_of_the_server_that_belong_to_no_task_are_answered_too() -> None:
    asked: list[Json] = [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {**QUESTION, "id": 2, "params": FORM},
        {**QUESTION, "id": 3, "params": {"mode": "url", "message": "?", "url": "http://x"}},
        {"jsonrpc": "2.0", "id": 4, "method": "sampling/createMessage", "params": {}},
        {"jsonrpc": "2.0", "id": 5, "method": "roots/list"},
    ]

    async def script(exchange: Exchange) -> None:
        await exchange.stream()
        for message in asked:
            await exchange.event(message)
        await exchange.server.until("answer", len(asked))
        await exchange.event(exchange.answer(DONE))

    async with calling(legacy(script, TOOL), answer=name_is_ada) as (server, task):
        assert await task.result() == DONE
    answers = {e.message["id"]: e.message for e in server.of("answer")}
    assert answers[1]["result"] == {}
    assert answers[2]["result"] == {"action": "accept", "content": {"name": "Ada"}}
    assert answers[3]["error"]["code"] == -32602
    assert answers[4]["error"]["code"] == -32601
    assert answers[5]["error"]["code"] == -32601


async def test_a_question_that_is_taken_back_is_not_answered() -> None:
    async def thinking(question: Question) -> Json:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        raise AssertionError

    async def script(exchange: Exchange) -> None:
        await exchange.stream()
        await exchange.event({**QUESTION, "params": FORM})
        await asked.wait()
        await exchange.event(told("cancelled", {"requestId": "q-1"}))
        await stopped.wait()
        await exchange.event(exchange.answer(DONE))

    asked, stopped = asyncio.Event(), asyncio.Event()

    async with calling(legacy(script, TOOL), answer=thinking) as (server, task):
        assert await task.result() == DONE
        assert server.of("answer") == []


def forgetful(*, keeps_tasks: bool) -> Any:
    """A server that loses its first session at the first poll of the task."""

    async def script(exchange: Exchange) -> None:
        session = exchange.headers.get("mcp-session-id")
        if exchange.what == "initialize":
            sessions.append(f"s-{len(sessions)}")
            await exchange.result(INITIALIZED, MCP_Session_Id=sessions[-1])
        elif exchange.what == "tasks/get" and session == "s-0":
            await exchange.reply(404)
        elif exchange.what == "tasks/get" and not keeps_tasks:
            await exchange.error(-32602, "Failed to retrieve task: Task not found")
        else:
            await legacy(a_task)(exchange)

    sessions: list[str] = []
    return script


@covers("2025-11-25:session-404-starts-new-session")
async def test_client_renews_a_lost_session_and_continues_the_task() -> None:
    async with calling(forgetful(keeps_tasks=True), generation=LEGACY) as (server, task):
        assert await task.result() == DONE
        assert ["mcp-session-id" in e.headers for e in server.of("initialize")] == [False] * 2
        assert server.of("tasks/result")[0].headers["mcp-session-id"] == "s-1"


async def test_a_task_that_is_forgotten_with_its_session_says_so() -> None:
    async with connected(forgetful(keeps_tasks=False), generation=LEGACY) as (_, session):
        task = await session.call("work")
        with pytest.raises(SessionLost, match="and the task with it"):
            await task.result()
        assert [tool["name"] for tool in await session.tools()] == ["work"], "it continues"


async def test_a_server_that_forgets_every_session_is_left() -> None:
    async def script(exchange: Exchange) -> None:
        if exchange.what == "tasks/get":
            await exchange.reply(404)
        else:
            await legacy(a_task)(exchange)

    async with calling(script, generation=LEGACY) as (_, task):
        with pytest.raises(SessionLost, match="loses every session"):
            await task.result()


async def test_a_result_that_is_lost_on_the_way_is_asked_for_again() -> None:
    async def script(exchange: Exchange) -> None:
        if exchange.what != "tasks/result" or len(exchange.server.of("tasks/result")) > 1:
            await a_task(exchange)

    async with calling(legacy(script)) as (server, task):
        assert await task.result() == DONE
        assert len(server.of("tasks/result")) == 2


@covers("2025-11-25:cancel-sent-explicitly")
async def test_a_plain_call_is_cancelled_by_a_notification() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.stream()
        params = {"progressToken": exchange.params["_meta"]["progressToken"], "progress": 1}
        await exchange.event(told("progress", params))
        await exchange.closed.wait()

    async with calling(legacy(script, TOOL)) as (server, task):
        await task.cancel()
        with pytest.raises(Cancelled):
            await task.result()
        said = await server.until("notifications/cancelled")
        assert said.params["requestId"] == server.of("tools/call")[0].message["id"]


async def test_many_tasks_begin_one_new_session() -> None:
    async with connected(forgetful(keeps_tasks=True), generation=LEGACY) as (server, session):
        tasks = [await session.call("work") for _ in range(5)]
        for task in tasks:
            assert await task.result() == DONE
        assert len(server.of("initialize")) == 2


async def test_client_raises_session_lost_when_the_session_cannot_be_renewed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("taskmachine.adapters.client.session.RENEWAL_PAUSE_S", 0.01)

    async def script(exchange: Exchange) -> None:
        if exchange.what == "tasks/get":
            await exchange.reply(404)
        elif exchange.what == "initialize" and exchange.server.of("tasks/get"):
            await exchange.reply(503)
        else:
            await legacy(a_task)(exchange)

    async with calling(script, generation=LEGACY) as (_, task):
        with pytest.raises(SessionLost, match="could not renew the session"):
            await task.result()


async def test_a_server_that_takes_no_cancels_is_not_sent_any() -> None:
    async def script(exchange: Exchange) -> None:
        match exchange.what:
            case "initialize":
                capabilities: Json = {"tasks": {"requests": {"tools": {"call": {}}}}}
                await exchange.result({**INITIALIZED, "capabilities": capabilities})
            case "tasks/get":
                await cancelled.wait()
                await exchange.result(shown_2025("completed"))
            case _:
                await legacy(a_task)(exchange)

    cancelled = asyncio.Event()

    async with calling(script, generation=LEGACY) as (server, task):
        with pytest.raises(CallFailed, match="does not support tasks/cancel"):
            await task.cancel()
        cancelled.set()
        assert await task.result() == DONE
        assert server.of("tasks/cancel") == []


async def test_tools_that_have_changed_are_looked_at_again() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.stream()
        await exchange.event(told("tools/list_changed", {}))
        await exchange.event(exchange.answer(DONE))

    async with serving(legacy(script, TOOL)) as server, connect(server.url) as session:
        for _ in range(2):
            assert await (await session.call("work")).result() == DONE
        assert len(server.of("tools/list")) == 2


async def test_an_answer_that_does_not_arrive_is_given_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The question is repeated on the next stream; the user answers once."""

    async def once(question: Question) -> Json:
        asked.append(question.key)
        return question.accept(name="Ada")

    async def script(exchange: Exchange) -> None:
        match exchange.what:
            case "tools/call" | "tasks/get":
                shown = shown_2025("input_required")
                await exchange.result({"task": shown} if exchange.what == "tools/call" else shown)
            case "tasks/result":
                await exchange.stream()
                number = len(exchange.server.of("tasks/result"))
                question = {**QUESTION, "id": f"q-{number}"}
                await exchange.event({**question, "params": {**FORM, "_meta": RELATED}})
                await exchange.server.until("answer", number)
                if number == 2:
                    await exchange.event(exchange.answer(DONE))
            case "answer" if len(exchange.server.of("answer")) == 1:
                await exchange.reply(500)
            case _:
                await legacy(a_task)(exchange)

    asked: list[str] = []

    async with calling(script, generation=LEGACY, answer=once) as (_, task):
        assert await task.result() == DONE
    assert len(asked) == 1
    assert "refused a message: HTTP 500" in caplog.text


@pytest.mark.parametrize("what", ["tools/list", "tools/call"])
async def test_client_repeats_a_request_refused_by_a_lost_session(what: str) -> None:
    async def script(exchange: Exchange) -> None:
        if exchange.what == "initialize":
            session = f"s-{len(exchange.server.of('initialize'))}"
            await exchange.result(INITIALIZED, MCP_Session_Id=session)
        elif exchange.what == what and exchange.headers["mcp-session-id"] == "s-1":
            await exchange.reply(404)
        else:
            await legacy(a_task)(exchange)

    async with calling(script, generation=LEGACY) as (server, task):
        assert await task.result() == DONE
        assert len(server.of(what)) == 2


async def test_a_call_that_was_taken_is_not_made_again_in_a_new_session() -> None:
    async def script(exchange: Exchange) -> None:
        if exchange.what == "tools/call":
            await exchange.stream()
            await exchange.send("retry: 10\n")
            await exchange.event(None, id="e-1")
        elif exchange.what == "GET":
            await exchange.reply(404 if "last-event-id" in exchange.headers else 405)
        else:
            await legacy(a_task)(exchange)

    async with calling(script, generation=LEGACY) as (server, task):
        with pytest.raises(ConnectionLost, match="ended before the answer"):
            await task.result()
        assert len(server.of("tools/call")) == 1
