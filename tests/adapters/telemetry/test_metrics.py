"""Every metric, read after the events that it counts."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from taskmachine.adapters.runtime import maintenance as upkeep
from taskmachine.adapters.runtime.claims import Claim
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import Surroundings, open_runtime
from taskmachine.adapters.server.application import make_application
from taskmachine.adapters.stores import Caps
from taskmachine.adapters.telemetry import names
from taskmachine.adapters.tools.errors import Gone
from taskmachine.adapters.transports.http.streams import MAX_EVENTS, Stream
from taskmachine.adapters.transports.settings import Settings
from taskmachine.protocol.jsonrpc import Notification
from taskmachine.protocol.operations import Create
from taskmachine.statemachine import Call, LimitExceeded
from tests.adapters.memory_service import DONE, Clock
from tests.adapters.telemetry.exporters import Telemetry
from tests.adapters.telemetry.tools import Observed, observing, observing_runtime
from tests.adapters.transports.wire import serving

GREET = Create(Call("tools/call", "greet", b'{"name": "Ada"}'))
ASK = Create(Call("tools/call", "ask", answers=frozenset({"elicitation/create"})))
TOKEN = "a-token-that-is-long-enough-for-anybody"


async def test_tasks_are_counted_from_their_creation_to_their_end() -> None:
    async with observing_runtime() as (telemetry, _, runtime):
        for _ in range(2):
            task = await runtime.create("alice", GREET)
            await runtime.service.collect("alice", task.id)
        task = await runtime.create("alice", ASK)
        await runtime.service.wait("alice", task.id, after=2, timeout_s=20)
        await runtime.count()
        assert telemetry.value(names.LIVE, taskmachine_store="memory") == 1
        assert telemetry.value(names.WAITING, taskmachine_store="memory") == 1
        await runtime.service.cancel("alice", task.id)
        await runtime.count()
        assert telemetry.value(names.LIVE) == telemetry.value(names.WAITING) == 0
    assert telemetry.value(names.CREATED, gen_ai_tool_name="greet") == 2
    assert telemetry.value(names.CREATED, gen_ai_tool_name="ask") == 1
    done: Any = {"gen_ai_tool_name": "greet", "taskmachine_task_outcome": "result"}
    assert telemetry.value(names.SETTLED, **done) == 2
    assert telemetry.value(names.DURATION, **done) == 2
    assert telemetry.value(names.SETTLED, taskmachine_task_outcome="cancelled") == 1


async def test_a_sweep_reports_removed_tasks_and_duration() -> None:
    clock = Clock()
    world = Surroundings(clock=clock)
    async with observing_runtime(world=world) as (telemetry, _, runtime):
        task = await runtime.create("alice", GREET)
        await runtime.service.collect("alice", task.id)
        clock.now += 8 * 24 * 3_600_000
        await upkeep.sweep(runtime.service)
    assert telemetry.value(names.REMOVED, taskmachine_store="memory") == 1
    assert telemetry.value(names.SWEEP_DURATION) >= 1


async def test_steps_that_are_refused_are_counted_by_their_reason() -> None:
    """A late outcome changes nothing, and can be seen."""
    limits = Limits(caps=Caps(live=1))
    async with observing_runtime(limits=limits) as (telemetry, observed, runtime):
        task = await runtime.create("alice", Create(Call("tools/call", "wait")))
        await observed.begun.wait()
        with pytest.raises(LimitExceeded):
            await runtime.create("alice", GREET)
        [held] = await runtime.service.store.browse(None, 1)
        await runtime.service.cancel("alice", task.id)
        with pytest.raises(Gone):
            await Claim(runtime.service, held).settle(DONE)
    assert telemetry.value(names.REFUSED, error_type="limit_exceeded") == 1
    assert telemetry.value(names.REFUSED, error_type="stale_fence") == 1


async def test_dropped_notifications_are_counted() -> None:
    async with observing_runtime(limits=Limits(buffer=1)) as (telemetry, _, runtime):
        task = await runtime.create("alice", ASK)
        subscription = await runtime.subscriptions.subscribe("alice", [task.id])
        await runtime.service.wait("alice", task.id, after=2, timeout_s=20)
        await runtime.service.cancel("alice", task.id)
        assert telemetry.value(names.DROPPED) == subscription.dropped > 0
        subscription.close()


async def test_a_stream_counts_only_dropped_messages_that_were_not_written() -> None:
    dropped: list[None] = []
    stream = Stream("s", on_drop=lambda: dropped.append(None))
    for _ in range(MAX_EVENTS):
        stream.put(Notification("n"))
    stream.written = 2
    for _ in range(3):
        stream.put(Notification("n"))
    assert len(dropped) == 1, "the first two were written"


async def test_callers_cannot_create_metric_attributes() -> None:
    async with observing() as (telemetry, _, caller):
        for n in range(5):
            await caller.call(f"made/up{n}")
            await caller.call("tools/call", {"name": f"made up {n}", "arguments": {}})
            await caller.call("tasks/get", {"taskId": f"made up {n}"})
    assert "made" not in str(telemetry.points())
    assert telemetry.value(names.REQUEST_DURATION, mcp_method_name="_OTHER") == 5
    assert telemetry.value(names.REQUEST_DURATION, gen_ai_tool_name="_OTHER") == 5
    assert telemetry.value(names.REQUEST_DURATION, error_type="-32602") == 10


# --- for Prometheus ------------------------------------------------------------------------------


def page_of(url: str) -> str:
    return url.removesuffix("/mcp") + "/metrics"


async def test_prometheus_reads_the_page() -> None:
    async with observing(metrics=True) as (_, _, caller):
        task_id = await caller.create("ask", {})
        await caller.wait_for(task_id, "input_required")
        response = await caller.client.get(page_of(caller.url))
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {f.name: f for f in text_string_to_metric_families(response.text)}
    assert families["taskmachine_tasks_created"].type == "counter"
    for name, value in (
        ("taskmachine_tasks_created", 1),
        ("taskmachine_tasks_live", 1),
        ("taskmachine_tasks_waiting", 1),
    ):
        [sample] = families[name].samples
        assert sample.value == value, "the current value"
    assert families["mcp_server_operation_duration_seconds"].type == "histogram"
    assert task_id not in response.text


async def test_the_page_is_off_by_default() -> None:
    async with observing() as (_, _, caller):
        assert (await caller.client.get(page_of(caller.url))).status_code == 404


async def test_with_authentication_the_page_needs_a_token(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(f'prometheus = "{TOKEN}"\n')
    tokens.chmod(0o600)
    auth = {"kind": "tokens", "tokens": str(tokens)}

    telemetry = Telemetry()
    observed = Observed(telemetry.tracers)
    async with (
        serving(observed.tools, observer=telemetry.observer, metrics=True, auth=auth) as url,
        httpx.AsyncClient(timeout=20) as client,
    ):
        refused = await client.get(page_of(url))
        assert refused.status_code == 401
        assert "taskmachine_" not in refused.text
        token = {"authorization": f"Bearer {TOKEN}"}
        allowed = await client.get(page_of(url), headers=token)
        assert allowed.status_code == 200


async def test_a_page_without_a_registry_is_refused() -> None:
    async with open_runtime("memory:", Observed(Telemetry().tracers).tools) as runtime:
        application = make_application(Settings(metrics=True))
        with pytest.raises(Exception, match="metrics needs an observer"):
            async with application.serving(runtime):
                await asyncio.sleep(0)
