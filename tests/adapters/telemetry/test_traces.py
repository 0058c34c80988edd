"""One trace from the request to the outcome, across processes."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from taskmachine.adapters.runtime.runtime import RuntimeConfig, Surroundings, new_id, open_runtime
from taskmachine.adapters.stores import open_store
from taskmachine.protocol.operations import Create
from taskmachine.statemachine import Call, State
from tests.adapters.memory_service import Clock
from tests.adapters.telemetry.exporters import (
    CALLERS,
    CALLERS_SPAN,
    CALLERS_TRACE,
    Telemetry,
    attributes,
    span_id,
    trace_id,
)
from tests.adapters.telemetry.tools import Observed, observing, observing_runtime
from tests.adapters.transports.wire import OLD, Caller, callers, serving

BOTH = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
WITH_TRACE = {"_meta": {"traceparent": CALLERS, "tracestate": "vendor=1"}}


async def meet(caller: Caller, revision: str) -> None:
    if revision == "2025-11-25":
        await caller.introduce()


async def ended(telemetry: Telemetry, tool: str) -> Any:
    (span,) = await telemetry.until(f"task {tool}")
    await telemetry.until(f"execute_tool {tool}")
    return span


@BOTH
async def test_a_task_is_one_trace_that_begins_with_the_caller(revision: str) -> None:
    async with observing(revision) as (telemetry, _, caller):
        task_id = await caller.create("greet", {"name": "Ada"}, **WITH_TRACE)
        task = await ended(telemetry, "greet")
    request = telemetry.one("tools/call greet")
    tool_run = telemetry.one("execute_tool greet")
    inside = telemetry.one("inside")
    assert {trace_id(span) for span in (request, task, tool_run, inside)} == {CALLERS_TRACE}
    assert request.parent is not None
    assert request.parent.span_id == CALLERS_SPAN
    assert task.parent is not None
    assert tool_run.parent is not None
    assert task.parent.span_id == tool_run.parent.span_id == span_id(request)
    assert inside.parent is not None
    assert inside.parent.span_id == span_id(tool_run), "a tool's own spans are below its run"
    assert request.kind is SpanKind.SERVER
    shown = attributes(request)
    session = shown.pop("mcp.session.id", None)
    assert (session is not None) is (revision == "2025-11-25")
    assert session is None or session != caller.headers["mcp-session-id"], "it opens it"
    shown.pop("jsonrpc.request.id")
    assert shown == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": revision,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "greet",
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "taskmachine.task.id": task_id,
    }
    assert attributes(tool_run) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "greet",
        "taskmachine.task.id": task_id,
        "taskmachine.task.run": 1,
        "taskmachine.run.end": "result",
    }
    assert attributes(task) == {
        "gen_ai.tool.name": "greet",
        "taskmachine.task.id": task_id,
        "taskmachine.task.run": 1,
        "taskmachine.task.outcome": "result",
    }
    assert all(s.status.status_code is StatusCode.UNSET for s in (request, tool_run, task))
    assert dict(task.context.trace_state) == {"vendor": "1"}


async def test_a_tool_in_a_thread_has_its_span_around_it() -> None:
    async with observing() as (telemetry, _, caller):
        await caller.create("greet_in_thread", {"name": "Ada"}, **WITH_TRACE)
        await ended(telemetry, "greet_in_thread")
    inside = telemetry.one("inside a thread")
    assert inside.parent is not None
    assert inside.parent.span_id == span_id(telemetry.one("execute_tool greet_in_thread"))


@BOTH
async def test_a_plain_call_runs_inside_its_request(revision: str) -> None:
    async with observing(revision) as (telemetry, _, caller):
        caller.capabilities = {}
        params = {"name": "greet", "arguments": {"name": "Ada"}, **WITH_TRACE}
        assert "result" in await caller.call("tools/call", params)
        params = {"name": "fail", "arguments": {"text": "no"}, **WITH_TRACE}
        await caller.call("tools/call", params)
        params = {"name": "crash", "arguments": {"text": "secret"}, **WITH_TRACE}
        await caller.call("tools/call", params)
    inside, request = telemetry.one("inside"), telemetry.one("tools/call greet")
    assert inside.parent is not None
    assert inside.parent.span_id == span_id(request)
    assert attributes(telemetry.one("tools/call fail"))["error.type"] == "tool_error"
    crash = telemetry.one("tools/call crash")
    assert attributes(crash)["error.type"] == "-32603"
    assert attributes(crash)["rpc.response.status_code"] == "-32603"
    assert crash.status.status_code is StatusCode.ERROR
    (raised,) = crash.events
    assert (raised.name, (raised.attributes or {})["exception.type"]) == (
        "exception",
        "builtins.RuntimeError",
    )
    assert "in crash" in str((raised.attributes or {})["exception.stacktrace"])
    assert "secret" not in str(crash.to_json())


async def test_a_question_of_2025_carries_the_trace() -> None:
    async with observing(OLD) as (telemetry, _, caller):
        task_id = await caller.create("ask", {}, **WITH_TRACE)
        async with caller.stream("tasks/result", {"taskId": task_id}) as events:
            question = await events.until("elicitation/create")
            await caller.answer(question)
            assert "result" in await events.result()
        task = await ended(telemetry, "ask")
        await telemetry.until("tasks/result")
    meta = question["params"]["_meta"]
    request = telemetry.one("tools/call ask")
    assert meta["traceparent"] == f"00-{CALLERS_TRACE:032x}-{span_id(request):016x}-01"
    assert meta["tracestate"] == "vendor=1"
    assert trace_id(task) == CALLERS_TRACE
    assert attributes(telemetry.one("tasks/result"))["taskmachine.task.id"] == task_id
    assert telemetry.unended() == [], "a request that waits has one span, and it ends"


async def test_a_task_of_2026_that_parks_is_one_trace_of_two_runs() -> None:
    async with observing() as (telemetry, _, caller):
        task_id = await caller.create("ask_and_park", {}, **WITH_TRACE)
        listen = {"notifications": {"taskIds": [task_id]}}
        async with caller.stream("subscriptions/listen", listen) as events:
            notice = await events.until("notifications/tasks")
            while "inputRequests" not in notice["params"]:
                notice = await events.until("notifications/tasks")
            shown = (await caller.call("tasks/get", {"taskId": task_id}))["result"]
            answers = {"name": {"action": "accept", "content": {"name": "Ada"}}}
            await caller.call("tasks/update", {"taskId": task_id, "inputResponses": answers})
            task = await ended(telemetry, "ask_and_park")
    runs = await telemetry.until("execute_tool ask_and_park", 2)
    assert [attributes(run)["taskmachine.run.end"] for run in runs] == ["parked", "result"]
    assert {trace_id(span) for span in [task, *runs]} == {CALLERS_TRACE}
    for meta in (notice["params"]["_meta"], shown["_meta"]):
        assert meta["traceparent"].startswith(f"00-{CALLERS_TRACE:032x}-")
    assert telemetry.one("subscriptions/listen").end_time, "however it was ended"


@BOTH
@pytest.mark.parametrize(
    ("tool", "arguments", "outcome", "is_error"),
    [
        ("crash", {"text": "secret"}, "error", True),
        ("fail", {"text": "secret"}, "tool_error", True),
        ("dawdle", {}, "timed_out", True),
        ("wait", {}, "cancelled", False),
    ],
)
async def test_the_span_of_a_failed_task_names_the_error(
    revision: str, tool: str, arguments: dict[str, Any], outcome: str, is_error: bool
) -> None:
    async with observing(revision) as (telemetry, observed, caller):
        task_id = await caller.create(tool, arguments, **WITH_TRACE)
        if tool == "wait":
            await observed.begun.wait()
            await caller.call("tasks/cancel", {"taskId": task_id})
        task = await ended(telemetry, tool)
    assert trace_id(task) == CALLERS_TRACE
    assert attributes(task)["taskmachine.task.outcome"] == outcome
    assert attributes(task).get("error.type") == (outcome if is_error else None)
    assert (task.status.status_code is StatusCode.ERROR) is is_error
    tool_run = telemetry.one(f"execute_tool {tool}")
    end = "lost" if outcome == "cancelled" else outcome
    assert attributes(tool_run)["taskmachine.run.end"] == end
    if tool == "crash":
        (raised,) = tool_run.events
        assert (raised.attributes or {})["exception.type"] == "builtins.RuntimeError"
    assert not any("secret" in span.to_json() for span in telemetry.spans)


async def test_a_task_that_expires_in_the_queue_is_one_trace_from_its_creation() -> None:
    telemetry, clock = Telemetry(), Clock()
    observed = Observed(telemetry.tracers)
    world = Surroundings(clock=clock)
    async with (
        serving(observed.tools, observer=telemetry.observer, world=world) as url,
        callers(url) as [caller],
    ):
        await caller.create("ask", {}, **WITH_TRACE)
        await telemetry.until("tools/call ask")
        created = clock.now
        clock.now += 8 * 24 * 3_600_000
        task = await ended(telemetry, "ask")
    assert attributes(task)["taskmachine.task.outcome"] == "expired"
    assert task.start_time == created * 1_000_000
    assert task.end_time == clock.now * 1_000_000
    assert trace_id(task) == CALLERS_TRACE


@BOTH
async def test_a_task_that_outlives_its_server_stays_in_its_trace(
    revision: str, tmp_path: Path
) -> None:
    """The first server stops during the task, and another process continues it."""
    url_of_store = f"sqlite:{tmp_path / 'tasks.db'}"
    before, after = Telemetry(), Telemetry()
    observed = Observed(before.tracers)
    store = await open_store(url_of_store)
    async with (
        serving(observed.tools, store, observer=before.observer) as url,
        callers(url) as [caller],
    ):
        await meet(caller, revision)
        task_id = await caller.create("wait", {}, **WITH_TRACE)
        await observed.begun.wait()
    await store.close()
    assert before.named("task wait") == []
    assert attributes(before.one("execute_tool wait"))["taskmachine.run.end"] == "stopped"
    again = Observed(after.tracers)
    async with open_runtime(
        url_of_store, again.tools, RuntimeConfig(observer=after.observer)
    ) as runtime:
        await again.begun.wait()
        [task] = await runtime.service.store.browse(None, 9)
        assert task.id == task_id
        await runtime.service.cancel(task.owner, task.id)
        span = await ended(after, "wait")
    tool_run = after.one("execute_tool wait")
    assert attributes(tool_run)["taskmachine.task.run"] == 2
    assert {trace_id(s) for s in (span, tool_run, before.one("execute_tool wait"))} == {
        CALLERS_TRACE
    }
    assert span.parent is not None
    assert span.parent.span_id == span_id(before.one("tools/call wait"))


@pytest.mark.parametrize(
    "traceparent",
    [
        "nonsense",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "ff-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
        CALLERS.upper(),
        CALLERS + "\n" + CALLERS,
        7,
        None,
        {"a": 1},
    ],
)
async def test_a_malformed_traceparent_is_ignored(traceparent: Any) -> None:
    async with observing() as (telemetry, _, caller):
        meta = {"traceparent": traceparent, "tracestate": 3}
        await caller.create("greet", {"name": "Ada"}, _meta=meta)
        task = await ended(telemetry, "greet")
    request = telemetry.one("tools/call greet")
    assert request.parent is None
    assert trace_id(task) == trace_id(request) != CALLERS_TRACE


async def test_a_task_without_a_request_begins_a_trace_or_joins_the_current_one() -> None:
    wish = Create(Call("tools/call", "greet", b'{"name": "Ada"}'))
    async with observing_runtime() as (telemetry, _, runtime):
        task = await runtime.create("alice", wish)
        await runtime.service.collect("alice", task.id)
        first = await ended(telemetry, "greet")
        with telemetry.tracers.get_tracer("mine").start_as_current_span("mine"):
            task = await runtime.create("alice", wish)
        await runtime.service.collect("alice", task.id)
        _, second = await telemetry.until("task greet", 2)
    assert first.parent is not None
    assert first.parent.span_id == span_id(telemetry.one("submit greet"))
    assert second.parent is not None
    assert second.parent.span_id == span_id(telemetry.one("mine"))


async def test_a_task_without_a_trace_joins_no_other_trace() -> None:
    """A process without telemetry created it; a request to another process resumes it."""
    store = await open_store("memory:")
    telemetry = Telemetry()
    observed = Observed(telemetry.tracers)
    async with open_runtime("memory:", observed.tools) as runtime:
        call = Call("tools/call", "greet", b'{"name": "Ada"}')
        task = await runtime.service.create("alice", call, task_id=new_id())
        history = await runtime.service.history("alice", task.id)
    assert task.call.trace is None
    await store.adopt(task, history[:1])
    async with (
        serving(observed.tools, store, observer=telemetry.observer) as url,
        callers(url) as [caller],
    ):
        await caller.create("greet", {"name": "Bob"}, **WITH_TRACE)
        runs = await telemetry.until("execute_tool greet", 2)
        await telemetry.until("task greet", 2)
        kept = await store.load(task.id)
    assert kept is not None
    assert kept.state is State.COMPLETED
    mine = {attributes(run)["taskmachine.task.id"]: run for run in runs}
    assert mine[task.id].parent is None
    assert trace_id(mine[task.id]) != CALLERS_TRACE


async def test_requests_that_are_refused_or_unknown_have_a_bounded_name_and_an_end() -> None:
    async with observing() as (telemetry, _, caller):
        await caller.call("made/up")
        await caller.call("tasks/get", {"taskId": "unknown"})
        await caller.call("tools/call", {"name": "made up", "arguments": {}})
        await caller.introduce()
        await asyncio.gather(caller.call("ping"), caller.call("tools/list"))
    assert attributes(telemetry.one("_OTHER"))["error.type"] == "-32601"
    assert attributes(telemetry.one("tasks/get"))["error.type"] == "-32602"
    assert attributes(telemetry.one("tools/call _OTHER"))["error.type"] == "-32602"
    assert {"initialize", "ping", "tools/list"} <= {span.name for span in telemetry.spans}
