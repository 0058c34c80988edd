"""docs/howto/watch.md lists exactly the emitted names."""

import asyncio
import re
from typing import Final

from taskmachine.adapters.runtime import maintenance as upkeep
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import Runtime, RuntimeConfig, Surroundings, open_runtime
from taskmachine.adapters.server import json_log
from taskmachine.adapters.server.application import serve_http
from taskmachine.adapters.transports.settings import Settings
from taskmachine.protocol.operations import Create
from taskmachine.statemachine import Call, lifecycle
from tests.adapters.memory_service import Clock, run
from tests.adapters.telemetry.exporters import CALLERS, Telemetry
from tests.adapters.telemetry.tools import Observed
from tests.adapters.transports.wire import callers
from tests.oracle import REPOSITORY

PAGE: Final = (REPOSITORY / "docs" / "howto" / "watch.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table with these column headings."""
    _, _, rest = PAGE.partition(f"| {heading}")
    table = rest.split("\n\n")[0].splitlines()[2:]
    return [line.strip("|").split("|") for line in table]


def names(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


async def everything(telemetry: Telemetry, clock: Clock) -> None:
    """Cause every kind of event at least once."""
    observed = Observed(telemetry.tracers)
    async with open_runtime(
        "memory:",
        observed.tools,
        RuntimeConfig(
            world=Surroundings(clock=clock), limits=Limits(buffer=1), observer=telemetry.observer
        ),
    ) as runtime:
        url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        settings = Settings(http="127.0.0.1:0")
        server = asyncio.create_task(serve_http(runtime, settings, ready=url.set_result))
        try:
            await requests(await url, telemetry, observed)
            await upkeep_of(runtime, telemetry, clock)
        finally:
            server.cancel()
            await asyncio.gather(server, return_exceptions=True)


async def requests(url: str, telemetry: Telemetry, observed: Observed) -> None:
    async with callers(url, 2) as [modern, legacy]:
        await legacy.introduce()
        meta = {"_meta": {"traceparent": CALLERS}}
        for caller in (modern, legacy):
            await caller.create("crash", {"text": "no"}, **meta)
            task_id = await caller.create("wait", {}, **meta)
            await observed.begun.wait()
            observed.begun.clear()
            await caller.call("tasks/cancel", {"taskId": task_id})
            await caller.call("tasks/get", {"taskId": "unknown"})
        await modern.create("import_orders", {}, **meta)
    await telemetry.until("execute_tool wait", 2)
    await telemetry.until("execute_tool import_orders", 2)


async def upkeep_of(runtime: Runtime, telemetry: Telemetry, clock: Clock) -> None:
    call = Call("tools/call", "ask", answers=frozenset({"elicitation/create"}))
    task = await runtime.create("alice", Create(call))
    subscription = await runtime.subscriptions.subscribe("alice", [task.id])
    await runtime.service.wait("alice", task.id, after=2, timeout_s=20)
    await runtime.service.cancel("alice", task.id)
    subscription.close()
    await telemetry.until("execute_tool ask")
    # An expired task, moved by a process that has an old version.
    await upkeep._moved(runtime.service, task.id, lambda task, now: (lifecycle.expire(task, now),))
    clock.now += 8 * 24 * 3_600_000
    await upkeep.sweep(runtime.service)
    await runtime.count()
    telemetry.observer.lost_notification()  # only a broken store or waiter causes one


def test_the_page_names_every_metric_and_its_attributes() -> None:
    telemetry = Telemetry()
    run(everything(telemetry, Clock()))
    emitted = {
        name: set().union(*(attributes.keys() for attributes, _ in points))
        for name, points in telemetry.points().items()
    }
    documented = {names(row[0]).pop(): names(row[2]) for row in rows("metric |")}
    assert emitted == documented


def test_the_page_names_every_span_and_its_attributes() -> None:
    telemetry = Telemetry()
    run(everything(telemetry, Clock()))
    ours = [
        span
        for span in telemetry.spans
        if span.instrumentation_scope is not None
        and span.instrumentation_scope.name == "taskmachine"
    ]
    emitted = set().union(*((span.attributes or {}).keys() for span in ours))
    assert emitted == {name for row in rows("attribute |") for name in names(row[0])}
    events = [event for span in ours for event in span.events]
    assert events
    for event in events:
        for name in (event.name, *(event.attributes or {})):
            assert f"`{name}`" in PAGE
    kinds = {row[1].strip() for row in rows("span |")}
    assert kinds == {span.kind.name.lower() for span in ours}


def test_the_page_names_every_key_of_the_log() -> None:
    documented = [names(row[0]).pop() for row in rows("key |")]
    assert documented == ["time", "level", *json_log.KEYS, "message", "error", "stack"]
