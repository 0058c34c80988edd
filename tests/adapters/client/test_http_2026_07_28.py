"""The client's Streamable HTTP of 2026-07-28, against scripted servers."""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from taskmachine.adapters.client.connect import connect
from taskmachine.adapters.client.errors import (
    BadAnswer,
    CallFailed,
    Cancelled,
    ConnectionLost,
    Refused,
)
from taskmachine.adapters.client.remote_task import Question, Update
from taskmachine.protocol.errors import InvalidParams
from taskmachine.statemachine import ConfigurationError
from tests.adapters.client.scripted import (
    DISCOVERED,
    DONE,
    FORM,
    Exchange,
    Json,
    calling,
    connected,
    modern,
    serving,
    shown_2026,
)
from tests.requirements import covers

CREATED = {**shown_2026(), "resultType": "task"}
COMPLETED = shown_2026("completed", result=DONE)


async def name_is_ada(question: Question) -> Json:
    assert question.message == "Please enter your name."
    return question.accept(name="Ada")


async def a_task(exchange: Exchange) -> None:
    await exchange.result(CREATED if exchange.what == "tools/call" else COMPLETED)


@covers(
    "2026-07-28:http-one-post-per-message",
    "2026-07-28:http-accept-both",
    "2026-07-28:http-single-message-body",
    "2026-07-28:param-headers-supported",
)
async def test_request_headers_describe_the_request() -> None:
    schema = {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    }
    tool = {"name": "execute_sql", "inputSchema": schema}

    async with serving(modern(a_task, tool)) as server:  # noqa: SIM117
        async with connect(server.url, token="secret") as session:
            assert session.server.generation == "2026-07-28"
            assert session.server.info == {"name": "scripted", "version": "1"}
            task = await session.call("execute_sql", {"region": "us-west1"}, key="k-1")
            assert task.id == "t-1"
            assert await task.result() == DONE
    assert {exchange.method for exchange in server.seen} == {"POST"}
    for exchange in server.seen:
        assert exchange.headers["accept"] == "application/json, text/event-stream"
        assert exchange.headers["content-type"] == "application/json"
        assert exchange.headers["authorization"] == "Bearer secret"
        assert exchange.headers["mcp-protocol-version"] == "2026-07-28"
        assert exchange.headers["mcp-method"] == exchange.what
        assert "mcp-session-id" not in exchange.headers
        meta = exchange.params["_meta"]
        assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        declared = meta["io.modelcontextprotocol/clientCapabilities"]
        assert declared == {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    [call], [get] = server.of("tools/call"), server.of("tasks/get")
    assert call.headers["mcp-name"] == "execute_sql"
    assert call.headers["mcp-param-region"] == "us-west1"
    assert call.params["_meta"]["taskmachine/idempotency-key"] == "k-1"
    assert get.headers["mcp-name"] == "t-1"


@covers("2026-07-28:x-mcp-header-invalid-excluded")
async def test_a_tool_that_marks_headers_wrongly_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    marked = {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}}
    tools = [{"name": "bad", "inputSchema": marked}, {"name": "good", "inputSchema": {}}]

    with caplog.at_level(logging.WARNING):
        async with connected(modern(a_task, *tools)) as (_, session):
            assert [tool["name"] for tool in await session.tools()] == ["good"]
    assert "ignoring tool 'bad'" in caplog.text


async def test_a_number_that_no_header_can_carry_is_not_sent() -> None:
    marked = {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}}

    async with connected(modern(a_task, {"name": "work", "inputSchema": marked})) as (
        server,
        session,
    ):
        task = await session.call("work", {"n": 2**53})
        with pytest.raises(InvalidParams, match="beyond the safe integers"):
            await task.result()
        assert server.of("tools/call") == []


@covers("2026-07-28:header-mismatch-retry", "2026-07-28:era-cached")
async def test_stale_headers_are_mended_by_a_look_at_the_tools() -> None:

    async def script(exchange: Exchange) -> None:
        if len(exchange.server.of("tools/call")) == 1:
            await exchange.error(-32020, "Header mismatch: Mcp-Param-Region is missing", 400)
        else:
            await exchange.result({"resultType": "complete", **DONE})

    async with calling(modern(script)) as (server, task):
        assert await task.result() == DONE
    assert [e.what for e in server.seen][1:] == [*["tools/list", "tools/call"] * 2]


@covers("2026-07-28:http-client-takes-both", "2026-07-28:sse-comments-ignored")
async def test_a_stream_brings_progress_and_then_the_answer() -> None:
    async def script(exchange: Exchange) -> None:
        token = exchange.params["_meta"]["progressToken"]
        await exchange.stream()
        await exchange.send(": keep-alive\r\n")
        for value in (1, 2):
            params = {"progressToken": token, "progress": value, "total": 2, "message": "half"}
            told = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
            await exchange.event(told)
        await seen.wait()
        await exchange.event(exchange.answer({"resultType": "complete", **DONE}))
        await exchange.closed.wait()  # the client closes the connection after the answer

    seen = asyncio.Event()
    async with calling(modern(script)) as (_, task):
        assert task.id is None
        updates = []
        async for update in task:
            updates.append(update)
            seen.set()
        assert updates == [
            Update("working", "half", 1, 2),
            Update("working", "half", 2, 2),
            Update("completed", "half", 2, 2),
        ]
        assert await task.result() == DONE


@covers("2026-07-28:question-as-standalone-request", "2026-07-28:http-no-responses")
async def test_a_plain_call_that_asks_is_made_again_with_the_answer() -> None:
    async def script(exchange: Exchange) -> None:
        if "inputResponses" in exchange.params:
            await exchange.result({"resultType": "complete", **DONE})
            return
        asked = {"name": {"method": "elicitation/create", "params": FORM}}
        result = {"resultType": "input_required", "inputRequests": asked, "requestState": "blob"}
        await exchange.result(result)

    async with connected(modern(script), answer=name_is_ada) as (server, session):
        task = await session.call("work", {"a": 1})
        assert await task.result() == DONE
    first, second = server.of("tools/call")
    assert second.message["id"] != first.message["id"]
    assert second.params["requestState"] == "blob"
    assert second.params["arguments"] == {"a": 1}
    answers = {"name": {"action": "accept", "content": {"name": "Ada"}}}
    assert second.params["inputResponses"] == answers
    declared = first.params["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    assert declared["elicitation"] == {"form": {}}


def asking(answered: Callable[[Exchange], Any]) -> Any:
    async def script(exchange: Exchange) -> None:
        match exchange.what:
            case "tools/call":
                await exchange.result(CREATED)
            case "tasks/get":
                asked = {"name": {"method": "elicitation/create", "params": FORM}}
                waiting = shown_2026("input_required", inputRequests=asked)
                await exchange.result(COMPLETED if state["answered"] else waiting)
            case "tasks/update":
                state["answered"] = True
                answered(exchange)
                await exchange.result({"resultType": "complete"})
            case "tasks/cancel":
                state["cancelled"] = True
                await exchange.result({"resultType": "complete"})

    state = {"answered": False, "cancelled": False}
    return script


@covers("2026-07-28:question-as-standalone-request", "2026-07-28:http-no-responses")
async def test_a_task_that_asks_is_answered_by_an_update() -> None:
    sent: list[Exchange] = []

    async with calling(modern(asking(sent.append)), answer=name_is_ada) as (_, task):
        statuses = [update.status async for update in task]
        assert statuses == ["working", "input_required", "completed"]
        assert await task.result() == DONE
    [update] = sent
    assert update.headers["mcp-name"] == "t-1"
    answers = {"name": {"action": "accept", "content": {"name": "Ada"}}}
    assert update.params["inputResponses"] == answers


async def test_client_cancels_the_task_when_the_answer_callback_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(question: Question) -> Json:
        raise RuntimeError("no idea")

    async with connected(modern(asking(lambda _: None)), answer=broken) as (server, session):
        await session.call("work")
        await server.until("tasks/cancel")
        assert server.of("tasks/update") == []
    assert "no idea" in caplog.text


async def test_client_cancels_a_task_that_asks_an_undeclared_question() -> None:
    async with connected(modern(asking(lambda _: None))) as (server, session):
        await session.call("work")
        await server.until("tasks/cancel")
        assert server.of("tasks/update") == []


async def test_slow_reader_misses_the_oldest_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskmachine.adapters.client.remote_task.MOST_UPDATES", 2)

    async def script(exchange: Exchange) -> None:
        await exchange.stream()
        for value in (1, 2, 3):
            token = exchange.params["_meta"]["progressToken"]
            params = {"progressToken": token, "progress": value}
            told = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
            await exchange.event(told)
        await exchange.event(exchange.answer({"resultType": "complete", **DONE}))

    async with calling(modern(script)) as (_, task):
        await task.result()
        shown = [(update.status, update.progress) async for update in task]
        assert shown == [("working", 3), ("completed", 3)]


async def test_polls_go_on_after_broken_connections() -> None:

    async def script(exchange: Exchange) -> None:
        if exchange.what == "tools/call":
            await exchange.result(CREATED)
        elif len(exchange.server.of("tasks/get")) > 2:
            await exchange.result(COMPLETED)
        # else the connection closes without an answer

    async with calling(modern(script)) as (_, task):
        assert await task.result() == DONE


async def test_unanswered_call_with_unknown_outcome_raises_connection_lost() -> None:
    async def silent(exchange: Exchange) -> None:
        pass

    async with calling(modern(silent)) as (_, task):
        with pytest.raises(ConnectionLost, match="no connection to"):
            await task.result()
        assert [update.status async for update in task] == ["failed"]


async def test_a_task_is_cancelled_by_a_request() -> None:
    async def script(exchange: Exchange) -> None:
        match exchange.what:
            case "tools/call":
                await exchange.result(CREATED)
            case "tasks/cancel":
                state.append("cancelled")
                await exchange.result({"resultType": "complete"})
            case "tasks/get":
                await exchange.result(shown_2026(state[-1], statusMessage="as you wish"))

    state = ["working"]

    async with calling(modern(script)) as (server, task):
        await task.cancel()
        with pytest.raises(Cancelled, match="as you wish"):
            await task.result()
        await task.cancel()  # no effect
        assert len(server.of("tasks/cancel")) == 1


async def test_a_plain_call_is_cancelled_by_closing_its_stream() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.stream()
        params = {"progressToken": exchange.params["_meta"]["progressToken"], "progress": 1}
        await exchange.event(
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        )
        await exchange.closed.wait()
        closed.set()

    closed = asyncio.Event()

    async with calling(modern(script)) as (server, task):
        await task.cancel()
        with pytest.raises(Cancelled):
            await task.result()
        async with asyncio.timeout(5):
            await closed.wait()
    assert server.of("notifications/cancelled") == []


async def test_cancelling_a_pending_call_closes_its_connection() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.closed.wait()
        closed.set()

    closed = asyncio.Event()

    async with serving(modern(script)) as server, connect(server.url) as session:
        calling = asyncio.ensure_future(session.call("work"))
        await server.until("tools/call")
        calling.cancel()
        async with asyncio.timeout(5):
            await closed.wait()
        assert calling.cancelled() or await asyncio.wait({calling})


@covers("2026-07-28:listen-ended-by-client")
async def test_subscriptions_bring_news_before_the_next_poll() -> None:
    slow = {**CREATED, "pollIntervalMs": 3_600_000}

    async def script(exchange: Exchange) -> None:
        match exchange.what:
            case "server/discover":
                await exchange.result(DISCOVERED)
            case "tools/list":
                listed = {"tools": [{"name": "work", "inputSchema": {}}], "ttlMs": 0}
                await exchange.result({"cacheScope": "public", **listed})
            case "tools/call":
                await exchange.result(slow)
            case "subscriptions/listen":
                assert exchange.params["notifications"] == {"taskIds": ["t-1"]}
                meta = {"io.modelcontextprotocol/subscriptionId": exchange.message["id"]}
                await exchange.stream()
                for method, params in [
                    ("subscriptions/acknowledged", {"notifications": {"taskIds": ["t-1"]}}),
                    ("tasks", {k: v for k, v in COMPLETED.items() if k != "resultType"}),
                ]:
                    told = {
                        "method": f"notifications/{method}",
                        "params": {**params, "_meta": meta},
                    }
                    await exchange.event({"jsonrpc": "2.0", **told})
                await exchange.closed.wait()
                closed.set()

    closed = asyncio.Event()

    async with calling(script) as (server, task):
        async with asyncio.timeout(5):
            assert await task.result() == DONE
            await closed.wait()  # the client does not listen after the end
        assert server.of("tasks/get") == []


RESULT = {"jsonrpc": "2.0", "id": 999, "result": {"resultType": "complete", **DONE}}


@pytest.mark.parametrize(
    ("status", "kind", "body", "error", "words"),
    [
        (200, "text/html", "<h1>Hello</h1>", BadAnswer, "text/html"),
        (200, "application/json", "{", BadAnswer, "Parse error"),
        (200, "application/json", json.dumps(RESULT), BadAnswer, "another message"),
        (200, "application/json", '{"jsonrpc":"2.0","method":"x"}', BadAnswer, "another message"),
        (200, "application/json", " " * (4 * 1024 * 1024 + 1), BadAnswer, "more than 4194304"),
        (200, "text/event-stream", "data: {\n\n", BadAnswer, "not a JSON-RPC message"),
        (200, "text/event-stream", "data: " + "x" * 4194304, BadAnswer, "more than 4194304"),
        (200, "text/event-stream", "", ConnectionLost, "ended before the answer to tools/call"),
        (202, "application/json", "", BadAnswer, "is invalid"),
        (500, "text/plain", "oops", Refused, "HTTP 500"),
        (502, "application/json", "{", Refused, "HTTP 502"),
        (307, "text/plain", "", Refused, "use http://elsewhere.example/ instead"),
    ],
)
async def test_client_raises_an_error_for_a_bad_answer_at_once(
    status: int, kind: str, body: str, error: type[Exception], words: str
) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.reply(status, body, kind, Location="http://elsewhere.example/")

    async with calling(modern(script)) as (_, task):
        with pytest.raises(error, match=words):
            await task.result()


async def test_an_answer_without_end_is_left_early() -> None:
    sent = 0

    async def script(exchange: Exchange) -> None:
        nonlocal sent
        await exchange.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
        while sent < 100 and not exchange.closed.is_set():
            await exchange.send(" " * 1024 * 1024)
            sent += 1

    async with calling(modern(script)) as (_, task):
        with pytest.raises(BadAnswer, match="more than 4194304 bytes"):
            await task.result()
    assert sent < 50, "not all of it was read"


async def test_an_answer_of_the_wrong_shape_is_a_failure() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.result({"resultType": "surprise"})

    async with calling(modern(script)) as (_, task):
        with pytest.raises(CallFailed, match="unknown resultType 'surprise'"):
            await task.result()


async def test_an_error_that_refuses_the_request_unread_is_its_answer() -> None:
    async def script(exchange: Exchange) -> None:
        body = {"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error", "data": 7}}
        await exchange.reply(400, json.dumps(body))

    async with calling(modern(script)) as (_, task):
        with pytest.raises(CallFailed) as caught:
            await task.result()
        assert (caught.value.code, caught.value.data) == (-32700, 7)


@covers("2026-07-28:tool-timeouts")
async def test_client_times_out_on_an_unanswered_request() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.closed.wait()
        closed.set()

    closed = asyncio.Event()

    async with calling(modern(script), timeout=1) as (_, task):
        with pytest.raises(CallFailed, match="the request timed out"):
            await task.result()
        async with asyncio.timeout(5):
            await closed.wait()  # the connection is not kept alive


async def test_closing_the_session_ends_pending_waits_with_connection_lost() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.result(CREATED if exchange.what == "tools/call" else shown_2026())

    async with serving(modern(script)) as server:
        async with connect(server.url) as session:
            task = await session.call("work")
        with pytest.raises(ConnectionLost, match="was closed"):
            await task.result()
        with pytest.raises(ConnectionLost, match="was closed"):
            await session.call("work")
        with pytest.raises(ConnectionLost, match="was closed"):
            await session.tools()


async def test_lists_of_tools_are_read_to_their_end() -> None:
    async def script(exchange: Exchange) -> None:
        if exchange.what == "server/discover":
            await exchange.result(DISCOVERED)
            return
        page = int(exchange.params.get("cursor", 0))
        tools = [{"name": f"tool-{page}", "inputSchema": {}, "title": "kept"}]
        more = {"nextCursor": str(page + 1)} if page < 2 else {}
        await exchange.result({"tools": tools, "ttlMs": 0, "cacheScope": "public", **more})

    async with serving(script) as server, connect(server.url) as session:
        tools = await session.tools()
        assert [tool["name"] for tool in tools] == ["tool-0", "tool-1", "tool-2"]
        assert tools[0]["title"] == "kept"


@pytest.mark.parametrize(
    "token", ["", "two words", "line\nbreak", "caf\N{LATIN SMALL LETTER E WITH ACUTE}"]
)
async def test_a_token_is_visible_ascii(token: str) -> None:
    with pytest.raises(ConfigurationError, match="visible ASCII"):
        async with connect("http://127.0.0.1:1/mcp", token=token):
            raise AssertionError("connected")


async def test_connecting_to_a_closed_port_raises_connection_lost_at_once() -> None:
    with pytest.raises(ConnectionLost, match=r"no connection to http://127\.0\.0\.1:1/mcp"):
        async with connect("http://127.0.0.1:1/mcp"):
            raise AssertionError("connected")
