"""The client of the official SDK with our tasks, against scripted servers."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.client import ClientRequestContext
from mcp_types import (
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
    ListRootsResult,
    Root,
    TextContent,
)
from pydantic import FileUrl, ValidationError

from taskmachine.adapters.bridges.mcp import client as bridge
from taskmachine.adapters.bridges.mcp.client import (
    ConnectionLost,
    CreatedTask,
    TaskGone,
    Tasks,
    steady_http,
)
from taskmachine.protocol import requestor
from taskmachine.statemachine import ConfigurationError
from tests.adapters.client.scripted import (
    DONE,
    FORM,
    Exchange,
    Json,
    Script,
    Scripted,
    modern,
    serving,
    shown_2026,
)

CREATED = {**shown_2026(), "resultType": "task"}
COMPLETED = shown_2026("completed", result=DONE)
ACKNOWLEDGED = {"resultType": "complete"}
FAR_AWAY = 10**12


def asking(**questions: Json) -> Json:
    requests = {key: {"method": "elicitation/create", "params": p} for key, p in questions.items()}
    return shown_2026("input_required", inputRequests=requests)


def text_of(result: CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


@contextlib.asynccontextmanager
async def met(script: Script, tasks: Tasks | None = None, **more: Any) -> AsyncIterator[Any]:
    """Serve a script and connect a client."""
    async with asyncio.timeout(20), serving(modern(script)) as server:
        extensions = [Tasks() if tasks is None else tasks]
        async with Client(server.url, extensions=extensions, **more) as client:
            yield server, client


def shows(*bodies: Json) -> Script:
    """Create a task and return these states in order, repeating the last one."""
    left = [*bodies]

    async def script(exchange: Exchange) -> None:
        match exchange.what:
            case "tools/call":
                await exchange.result(CREATED)
            case "tasks/get":
                await exchange.result(left.pop(0) if len(left) > 1 else left[0])
            case _:
                await exchange.result(ACKNOWLEDGED)

    return script


# --- requests -------------------------------------------------------------------------------------


async def test_task_requests_name_the_task_in_a_header_and_declare_the_extension() -> None:
    async def yes(_: ClientRequestContext, __: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"name": "Ada"})

    script = shows(asking(name=FORM), shown_2026())
    async with met(script, elicitation_callback=yes) as (server, client):
        call = asyncio.create_task(client.call_tool("work"))
        await server.until("tasks/update")
        await server.until("tasks/get", 2)
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
    seen = {exchange.what: exchange for exchange in server.seen}
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        assert seen[method].headers["mcp-name"] == "t-1"
        assert seen[method].headers["mcp-method"] == method
        assert seen[method].params["taskId"] == "t-1"
        meta = seen[method].params["_meta"]
        declared = meta["io.modelcontextprotocol/clientCapabilities"]
        assert declared["extensions"] == {"io.modelcontextprotocol/tasks": {}}
        assert "elicitation" in declared, "all that the client can do, as everywhere else"
    answers = seen["tasks/update"].params["inputResponses"]
    assert answers == {"name": {"action": "accept", "content": {"name": "Ada"}}}


async def test_polls_come_at_the_interval_of_the_server_but_never_in_a_rush() -> None:
    times: list[float] = []
    intervals = iter([300, 1, 1])

    async def script(exchange: Exchange) -> None:
        if exchange.what == "tools/call":
            await exchange.result({**CREATED, "pollIntervalMs": 1})
            return
        times.append(asyncio.get_running_loop().time())
        interval = next(intervals, None)
        shown = COMPLETED if interval is None else {**shown_2026(), "pollIntervalMs": interval}
        await exchange.result(shown)

    async with met(script) as (_, client):
        assert text_of(await client.call_tool("work")) == "done"
    first, second, third = (b - a for a, b in pairwise(times))
    assert first >= 0.3
    assert min(second, third) >= 0.05


async def test_an_interval_without_end_is_bounded() -> None:
    far = {**shown_2026(), "pollIntervalMs": FAR_AWAY}

    async with met(shows(far, far, COMPLETED), Tasks(longest_poll_s=0.1)) as (_, client):
        async with asyncio.timeout(5):
            assert text_of(await client.call_tool("work")) == "done"


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_longest_poll_must_be_positive(seconds: float) -> None:
    with pytest.raises(ConfigurationError, match="more than 0"):
        Tasks(longest_poll_s=seconds)


# --- outcomes -------------------------------------------------------------------------------------


async def test_failed_task_raises_mcp_error_with_its_code_message_and_data() -> None:
    error = {"code": -32050, "message": "The disk is full.", "data": {"free": 0}}

    async with met(shows(shown_2026("failed", error=error))) as (_, client):
        with pytest.raises(MCPError) as caught:
            await client.call_tool("work")
    assert type(caught.value) is MCPError
    told = caught.value.error
    assert (told.code, told.message, told.data) == tuple(error.values())


async def test_a_cancelled_task_is_said_to_be_one() -> None:
    gone = shown_2026("cancelled", statusMessage="The operator did not want it.")
    async with met(shows(gone)) as (_, client):
        with pytest.raises(bridge.Cancelled, match="The operator did not want it"):
            await client.call_tool("work")


async def test_task_unknown_to_the_server_raises_task_gone_at_once() -> None:
    async def script(exchange: Exchange) -> None:
        if exchange.what == "tools/call":
            await exchange.result(CREATED)
        else:
            await exchange.error(-32602, "Failed to retrieve task: Task has expired", 400)

    async with met(script) as (server, client):
        with pytest.raises(TaskGone, match="Task has expired") as caught:
            await client.call_tool("work")
        assert (caught.value.task_id, caught.value.code) == ("t-1", -32602)
        assert len(server.of("tasks/get")) == 1


@pytest.mark.parametrize(
    "shown",
    [
        {**shown_2026(), "status": "dancing"},
        {"resultType": "complete"},
        {**shown_2026("completed")},
        {**shown_2026(), "pollIntervalMs": "soon"},
        shown_2026("input_required", inputRequests={"q": {"method": "tools/call"}}),
    ],
    ids=["status", "empty", "no result", "interval", "question"],
)
async def test_nonsense_is_looked_at_a_few_times_and_then_said_to_be_nonsense(
    shown: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requestor, "MOST_FAILURES", 2)

    async with met(shows(shown)) as (server, client):
        with pytest.raises(MCPError, match="tasks/get"):
            await client.call_tool("work")
        assert len(server.of("tasks/get")) == 3


async def test_nonsense_in_between_does_no_harm() -> None:
    script = shows({**shown_2026(), "status": "dancing"}, COMPLETED)
    async with met(script) as (_, client):
        assert text_of(await client.call_tool("work")) == "done"


async def test_a_result_that_is_none_is_refused_as_the_sdk_refuses_it() -> None:
    async with met(shows(shown_2026("completed", result={"content": 5}))) as (_, client):
        with pytest.raises(ValidationError):
            await client.call_tool("work")


# --- questions ------------------------------------------------------------------------------------


async def test_each_question_is_asked_once_and_answered_when_its_answer_is_there() -> None:
    asked: list[str] = []
    slow = asyncio.Event()

    async def answer(context: ClientRequestContext, _: ElicitRequestParams) -> ElicitResult:
        asked.append(str(context.request_id))
        if context.request_id == "slow":
            await slow.wait()
        return ElicitResult(action="decline")

    async def script(exchange: Exchange) -> None:
        updates = [set(e.params["inputResponses"]) for e in exchange.server.of("tasks/update")]
        match exchange.what:
            case "tools/call":
                await exchange.result(CREATED)
            case "tasks/get" if {"slow"} in updates:
                await exchange.result(COMPLETED)
            case "tasks/get":  # the acknowledgement may arrive before the effect
                await exchange.result(asking(quick=FORM, slow=FORM))
            case _:
                await exchange.result(ACKNOWLEDGED)

    async with met(script, elicitation_callback=answer) as (server, client):
        call = asyncio.create_task(client.call_tool("work"))
        first = await server.until("tasks/update")
        assert first.params["inputResponses"] == {"quick": {"action": "decline"}}
        await server.until("tasks/get", 4)
        assert len(server.of("tasks/update")) == 1
        slow.set()
        assert text_of(await call) == "done"
    assert sorted(asked) == ["quick", "slow"]
    assert len(server.of("tasks/update")) == 2


async def test_a_question_for_the_roots_goes_to_the_handler_for_roots() -> None:
    asked = shown_2026("input_required", inputRequests={"where": {"method": "roots/list"}})

    async def roots(_: ClientRequestContext) -> ListRootsResult:
        return ListRootsResult(roots=[Root(uri=FileUrl("file:///home/ada"))])

    async def script(exchange: Exchange) -> None:
        await shows(COMPLETED if exchange.server.of("tasks/update") else asked)(exchange)

    async with met(script, list_roots_callback=roots) as (server, client):
        assert text_of(await client.call_tool("work")) == "done"
    [update] = server.of("tasks/update")
    wanted = {"where": {"roots": [{"uri": "file:///home/ada"}]}}
    assert update.params["inputResponses"] == wanted


class Broken(Exception):
    """The error of a handler."""


@pytest.mark.parametrize("kind", ["declined", "absent", "broken", "malformed"])
async def test_a_question_without_an_answer_cancels_the_task_and_says_why(kind: str) -> None:
    params = {"mode": "form"} if kind == "malformed" else FORM

    async def answer(_: ClientRequestContext, __: ElicitRequestParams) -> ErrorData:
        if kind == "broken":
            raise Broken("no terminal")
        return ErrorData(code=-1, message="not today")

    wanted: dict[str, tuple[type[Exception], str]] = {
        "declined": (MCPError, "not today"),
        "absent": (MCPError, "Elicitation not supported"),
        "broken": (Broken, "no terminal"),
        "malformed": (ValidationError, "message"),
    }

    handler = None if kind == "absent" else answer
    script = shows(asking(name=params))
    async with met(script, elicitation_callback=handler) as (server, client):
        error, words = wanted[kind]
        with pytest.raises(error, match=words):
            await client.call_tool("work")
        assert len(server.of("tasks/cancel")) == 1
        assert server.of("tasks/update") == []


# --- time limits and cancellation -----------------------------------------------------------------


async def test_the_read_timeout_is_for_each_request_and_a_silent_one_is_made_again() -> None:

    async def script(exchange: Exchange) -> None:
        if exchange.what == "tools/call":
            await exchange.result(CREATED)
        elif len(exchange.server.of("tasks/get")) == 1:
            await exchange.closed.wait()  # never answered
        else:
            await asyncio.wait_for(exchange.server.of("tasks/get")[0].closed.wait(), 10)
            await exchange.result(COMPLETED)

    async with met(script) as (server, client):
        result = await client.call_tool("work", read_timeout_seconds=0.3)
        assert text_of(result) == "done"
        assert len(server.of("tasks/get")) == 2


@pytest.mark.parametrize("seconds", [0.2, None], ids=["read timeout", "none"])
async def test_a_server_that_stays_silent_is_given_up(
    seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requestor, "MOST_FAILURES", 1)
    monkeypatch.setattr(bridge, "REQUEST_S", 0.2 if seconds is None else 60.0)

    async def script(exchange: Exchange) -> None:
        if exchange.what == "tools/call":
            await exchange.result(CREATED)
        else:
            await exchange.closed.wait()

    async with met(script, read_timeout_seconds=seconds) as (server, client):
        with pytest.raises(ConnectionLost, match="no answer to tasks/get"):
            await client.call_tool("work")
        assert len(server.of("tasks/get")) == 2


async def test_cancelling_the_call_cancels_the_task() -> None:
    async with met(shows(shown_2026())) as (server, client):
        call = asyncio.create_task(client.call_tool("work"))
        await server.until("tasks/get")
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        assert len(server.of("tasks/cancel")) == 1, "before the wait ends"


async def test_anyio_cancel_scope_around_a_call_cancels_the_task() -> None:
    """Unlike an asyncio cancellation, it is raised again at every await."""
    async with met(shows(shown_2026())) as (server, client), anyio.create_task_group() as group:

        async def stop() -> None:
            await server.until("tasks/get")
            scope.cancel()

        group.start_soon(stop)
        with anyio.CancelScope() as scope:
            await client.call_tool("work")
        assert scope.cancelled_caught
        assert len(server.of("tasks/cancel")) == 1, "before the wait ends"


async def test_unanswered_tasks_cancel_does_not_delay_the_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bridge, "LAST_WORDS_S", 0.2)

    async def script(exchange: Exchange) -> None:
        if exchange.what == "tasks/cancel":
            await exchange.closed.wait()
        else:
            await exchange.result(CREATED if exchange.what == "tools/call" else shown_2026())

    async with met(script) as (server, client):
        call = asyncio.create_task(client.call_tool("work"))
        await server.until("tasks/get")
        call.cancel()
        async with asyncio.timeout(5):
            await asyncio.wait([call])
        assert call.cancelled()


# --- notifications --------------------------------------------------------------------------------


def telling(news: asyncio.Event, **more: Any) -> Script:
    """Send the result only in a notification, never in answers to polls."""

    async def script(exchange: Exchange) -> None:
        match exchange.what:
            case "tools/call":
                await exchange.result({**CREATED, "pollIntervalMs": FAR_AWAY})
            case "subscriptions/listen":
                meta = {"io.modelcontextprotocol/subscriptionId": exchange.message["id"]}
                await exchange.stream()
                wanted = {"notifications": exchange.params["notifications"], "_meta": meta}
                await _tell(exchange, "notifications/subscriptions/acknowledged", wanted)
                await news.wait()
                body = {key: value for key, value in COMPLETED.items() if key != "resultType"}
                await _tell(exchange, "notifications/tasks", {**body, **more, "_meta": meta})
                await exchange.closed.wait()
            case _:
                await exchange.result(shown_2026())

    return script


async def _tell(exchange: Exchange, method: str, params: Json) -> None:
    await exchange.event({"jsonrpc": "2.0", "method": method, "params": params})


@contextlib.asynccontextmanager
async def listening(script: Script) -> AsyncIterator[Scripted]:
    """Like `modern`, with a server that also supports subscriptions."""
    others = modern(script)

    async def act(exchange: Exchange) -> None:
        await (script if exchange.what == "subscriptions/listen" else others)(exchange)

    async with asyncio.timeout(20), serving(act) as server:
        yield server


async def test_client_gets_notifications_without_polling_and_closes_the_stream() -> None:
    news = asyncio.Event()
    async with listening(telling(news)) as server:
        async with Client(server.url, extensions=[Tasks()]) as client:
            call = asyncio.create_task(client.call_tool("work"))
            stream = await server.until("subscriptions/listen")
            assert stream.params["notifications"] == {"taskIds": ["t-1"]}
            news.set()
            assert text_of(await call) == "done"
            await asyncio.wait_for(stream.closed.wait(), 5)
        assert server.of("tasks/get") == []


async def test_client_ignores_notifications_about_other_tasks() -> None:
    news = asyncio.Event()
    news.set()
    async with (
        listening(telling(news, taskId="t-2")) as server,
        Client(server.url, extensions=[Tasks()]) as client,
    ):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.call_tool("work"), 0.5)


async def test_clients_that_share_an_extension_poll_and_take_no_news() -> None:
    """Otherwise a server could end a task of another server's client."""
    done = {key: value for key, value in COMPLETED.items() if key != "resultType"}

    async def lie(exchange: Exchange) -> None:
        await exchange.stream()
        await _tell(exchange, "notifications/tasks", done)
        await exchange.event(exchange.answer({"resultType": "complete", **DONE}))

    shared = Tasks()
    async with met(lie, shared) as (_, other), met(shows(shown_2026()), shared) as (honest, client):
        call = asyncio.create_task(client.call_tool("work"))
        await honest.until("tasks/get")
        assert text_of(await other.call_tool("work")) == "done"
        await honest.until("tasks/get", len(honest.of("tasks/get")) + 3)
        assert not call.done()
        call.cancel()
        await asyncio.wait([call])
    assert honest.of("subscriptions/listen") == []


async def test_client_limits_notification_streams_and_polls_beyond_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bridge, "MOST_STREAMS", 2)

    news = asyncio.Event()
    async with (
        listening(telling(news)) as server,
        Client(server.url, extensions=[Tasks(longest_poll_s=0.1)]) as client,
    ):
        calls = [asyncio.create_task(client.call_tool("work")) for _ in range(5)]
        await server.until("subscriptions/listen", 2)
        await server.until("tools/call", 5)
        await server.until("tasks/get", 20)
        assert len(server.of("subscriptions/listen")) == 2
        news.set()  # each server calls its task "t-1"
        assert [text_of(result) for result in await asyncio.gather(*calls)] == ["done"] * 5


# --- following a task -----------------------------------------------------------------------------


async def test_task_yields_status_changes_and_repeats_its_result() -> None:
    tasks = Tasks()
    script = shows(shown_2026(statusMessage="half"), COMPLETED)
    async with met(script, tasks) as (_, client), tasks.start(client, "work") as task:
        assert task.id == "t-1"
        seen = [(update.status, update.message) async for update in task]
        assert seen == [("working", None), ("working", "half"), ("completed", None)]
        assert text_of(await task.result()) == text_of(await task.result()) == "done"


async def test_leaving_the_block_leaves_the_task_alone() -> None:
    tasks = Tasks()
    async with met(shows(shown_2026()), tasks) as (server, client):
        async with tasks.start(client, "work"):
            await server.until("tasks/get")
        assert server.of("tasks/cancel") == []


async def test_client_sends_tasks_cancel_before_leaving_the_block() -> None:
    tasks = Tasks()
    async with met(shows(shown_2026()), tasks) as (server, client):
        async with tasks.start(client, "work") as task:
            await task.cancel()
        assert len(server.of("tasks/cancel")) == 1


async def test_a_task_is_found_again_by_its_id() -> None:
    tasks = Tasks()
    async with met(shows(COMPLETED), tasks) as (server, client):
        created = await client.session.call_tool("work", allow_claimed=True)
        assert isinstance(created, CreatedTask)
        async with tasks.follow(client, created.task_id) as task:
            assert text_of(await task.result()) == "done"
        assert len(server.of("tools/call")) == 1


async def test_call_answered_at_once_is_a_completed_task_without_id() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.result({"resultType": "complete", **DONE})

    tasks = Tasks()
    async with met(script, tasks) as (_, client), tasks.start(client, "work") as task:
        assert task.id is None
        assert [update.status async for update in task] == ["completed"]
        await task.cancel()
        assert text_of(await task.result()) == "done"


async def test_calls_inside_the_block_are_ordinary_calls() -> None:

    async def script(exchange: Exchange) -> None:
        if exchange.what == "tools/call" and len(exchange.server.of("tools/call")) == 1:
            await exchange.result({"resultType": "complete", **DONE})
        else:
            await shows(COMPLETED)(exchange)

    tasks = Tasks()
    async with met(script, tasks) as (_, client):
        async with tasks.start(client, "work") as task:
            assert task.id is None
            assert text_of(await client.call_tool("work")) == "done"
        async with tasks.start(client, "work") as task:
            assert task.id == "t-1"
            assert text_of(await client.call_tool("work")) == "done"


async def test_questions_before_the_task_are_answered_as_in_every_call() -> None:
    first = {
        "resultType": "input_required",
        "inputRequests": {"name": {"method": "elicitation/create", "params": FORM}},
        "requestState": "s",
    }

    async def answer(_: ClientRequestContext, __: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"name": "Ada"})

    async def script(exchange: Exchange) -> None:
        if exchange.what == "tools/call" and len(exchange.server.of("tools/call")) == 1:
            await exchange.result(first)
        else:
            await shows(COMPLETED)(exchange)

    tasks = Tasks()
    async with met(script, tasks, elicitation_callback=answer) as (server, client):
        async with tasks.start(client, "work") as task:
            assert task.id == "t-1"
            assert text_of(await task.result()) == "done"
        assert server.of("tools/call")[1].params["requestState"] == "s"


async def test_client_validates_structured_content_against_the_output_schema() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tool = {"name": "work", "inputSchema": {"type": "object"}, "outputSchema": schema}
    wrong = {**DONE, "structuredContent": {"n": "many"}}

    tasks = Tasks()
    async with (
        serving(modern(shows(shown_2026("completed", result=wrong)), tool)) as server,
        Client(server.url, extensions=[tasks]) as client,
    ):
        with pytest.raises(RuntimeError, match="many"):
            await client.call_tool("work")
        async with tasks.start(client, "work") as task:
            with pytest.raises(RuntimeError, match="many"):
                await task.result()


# --- connection failures --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["busy", "cut off", "not json"])
async def test_client_repeats_tasks_get_after_a_transient_failure(kind: str) -> None:

    async def script(exchange: Exchange) -> None:
        if exchange.what != "tasks/get" or len(exchange.server.of("tasks/get")) > 1:
            await shows(COMPLETED)(exchange)
        elif kind == "busy":
            await exchange.reply(503, "busy", "text/plain")
        elif kind == "cut off":
            await exchange.stream()
        else:
            await exchange.reply(200, json.dumps("?"))

    async with met(script) as (_, client):
        assert text_of(await client.call_tool("work")) == "done"


@pytest.mark.parametrize("kind", ["closed", "half"])
async def test_a_steady_way_outlives_a_connection_that_breaks(kind: str) -> None:

    async def script(exchange: Exchange) -> None:
        if exchange.what != "tasks/get" or len(exchange.server.of("tasks/get")) > 1:
            await shows(COMPLETED)(exchange)
        elif kind == "half":
            await exchange.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
            await exchange.send('Content-Length: 100\r\n\r\n{"jsonrpc"')

    async with (
        asyncio.timeout(20),
        serving(modern(script)) as server,
        Client(steady_http(server.url), extensions=[Tasks()]) as client,
    ):
        assert text_of(await client.call_tool("work")) == "done"
        assert len(server.of("tasks/get")) == 2


async def test_a_steady_way_gives_up_in_the_end_and_only_on_that_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requestor, "MOST_FAILURES", 2)

    async def script(exchange: Exchange) -> None:
        if exchange.what == "tools/call":
            await exchange.result(CREATED)  # without declaring tasks

    async with asyncio.timeout(20), serving(modern(script)) as server:
        way = steady_http(server.url, headers={"X-Test": "1"})
        async with Client(way, extensions=[Tasks()]) as client:
            with pytest.raises(ConnectionLost, match="cannot be reached"):
                await client.call_tool("work")
            assert (await client.list_tools()).tools
        assert {exchange.headers["x-test"] for exchange in server.seen} == {"1"}
