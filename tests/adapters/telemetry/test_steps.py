"""Steps, retries and sleeps in spans and metrics."""

import sys
from types import FrameType
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

from taskmachine.adapters.runtime.runtime import RuntimeConfig, open_runtime
from taskmachine.adapters.telemetry import names
from taskmachine.adapters.tools import steps
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.registry import Tools
from taskmachine.protocol.operations import Create
from taskmachine.statemachine import Call
from tests.adapters.telemetry.exporters import Telemetry, attributes, span_id
from tests.adapters.telemetry.tools import observing_runtime


async def run(tool: str) -> tuple[Telemetry, str]:
    """Run a tool as a task; return its telemetry and its id."""
    async with observing_runtime() as (telemetry, _, runtime):
        task = await runtime.create("alice", Create(Call("tools/call", tool)))
        await runtime.service.collect("alice", task.id)
        await telemetry.until(f"task {tool}")
    return telemetry, task.id


async def test_a_step_that_is_called_is_a_span_below_its_run() -> None:
    """In the function form and as a block; the spans of the function are below it."""
    telemetry, task_id = await run("import_orders")
    runs = [span_id(span) for span in telemetry.named("execute_tool import_orders")]
    shown = telemetry.named("step import_orders")
    assert [attributes(step) for step in shown] == [
        {
            "gen_ai.tool.name": "import_orders",
            "taskmachine.task.id": task_id,
            "taskmachine.step.key": key,
            "taskmachine.step.is_recorded": True,
        }
        for key in ("fetch", "count")
    ]
    assert [step.parent and step.parent.span_id for step in shown] == runs
    for step, name in zip(shown, ("inside a step", "inside a block"), strict=True):
        inside = telemetry.one(name)
        assert inside.parent is not None
        assert inside.parent.span_id == span_id(step)
    assert not any("secret" in span.to_json() for span in telemetry.spans)


async def test_a_step_that_was_found_recorded_is_counted() -> None:
    telemetry, _ = await run("import_orders")
    assert telemetry.points()["taskmachine.task.steps.replayed"] == [
        ({"gen_ai.tool.name": "import_orders", "taskmachine.store": "memory"}, 1)
    ]


async def test_a_run_that_is_retried_is_an_error_and_counted() -> None:
    telemetry, _ = await run("import_orders")
    first, second = telemetry.named("execute_tool import_orders")
    assert attributes(first)["taskmachine.run.end"] == "retried"
    assert attributes(first)["error.type"] == "retried"
    assert first.status.status_code is StatusCode.ERROR
    assert attributes(second)["taskmachine.run.end"] == "result"
    assert second.status.status_code is StatusCode.UNSET
    assert telemetry.points()["taskmachine.task.retries"] == [
        ({"gen_ai.tool.name": "import_orders", "taskmachine.store": "memory"}, 1)
    ]
    assert telemetry.value(names.SETTLED, taskmachine_task_outcome="result") == 1


async def test_a_step_that_fails_is_an_error_without_its_text() -> None:
    """Its function runs in a thread."""
    telemetry, _ = await run("spoil")
    step, inside = telemetry.one("step spoil"), telemetry.one("inside a thread of a step")
    assert inside.parent is not None
    assert inside.parent.span_id == span_id(step)
    assert attributes(step)["error.type"] == "builtins.RuntimeError"
    assert attributes(step)["taskmachine.step.is_recorded"] is False
    assert step.status.status_code is StatusCode.ERROR
    assert "secret" not in step.to_json()
    assert names.REPLAYED not in telemetry.points()


@pytest.mark.parametrize("is_observed", [False, True])
async def test_a_step_without_an_observer_enters_an_empty_block(is_observed: bool) -> None:
    entered: list[str] = []

    def profile(frame: FrameType, event: str, _: Any) -> None:
        caller = frame.f_back.f_code.co_filename if frame.f_back else ""
        if event == "call" and frame.f_code.co_name == "__enter__" and caller == steps.__file__:
            entered.append(frame.f_code.co_qualname.removesuffix(".__enter__"))

    tools = Tools()

    async def fetch() -> Any:  # a type would be read in blocks
        return 1

    @tools.task()
    async def import_orders(ctx: Context) -> Any:
        sys.setprofile(profile)
        try:
            return await ctx.step("fetch", fetch)
        finally:
            sys.setprofile(None)

    config = RuntimeConfig(observer=Telemetry().observer if is_observed else None)
    async with open_runtime("memory:", tools, config) as runtime:
        task = await runtime.create("alice", Create(Call("tools/call", "import_orders")))
        assert (await runtime.service.collect("alice", task.id)).recorded == 1
    assert ("nullcontext" in entered) is not is_observed
