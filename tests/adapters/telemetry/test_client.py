"""The client sends the trace context with its requests."""

import pytest

from taskmachine.adapters.client.connect import connect
from taskmachine.adapters.telemetry import current_meta
from tests.adapters.telemetry.exporters import Telemetry, span_id, trace_id
from tests.adapters.telemetry.tools import Observed
from tests.adapters.transports.wire import serving


@pytest.mark.parametrize("generation", ["2025-11-25", "2026-07-28"])
async def test_a_call_inside_a_span_is_one_trace_with_the_task(generation: str) -> None:
    telemetry = Telemetry()
    observed = Observed(telemetry.tracers)
    async with (
        serving(observed.tools, observer=telemetry.observer) as url,
        connect(url, generation=generation, meta=current_meta) as session,
    ):
        await session.tools()
        with telemetry.tracers.get_tracer("mine").start_as_current_span("mine"):
            task = await session.call("greet", {"name": "Ada"})
        await task.result()
        (span,) = await telemetry.until("task greet")
    mine, request = telemetry.one("mine"), telemetry.one("tools/call greet")
    assert request.parent is not None
    assert request.parent.span_id == span_id(mine)
    assert trace_id(span) == trace_id(mine)
    assert telemetry.one("tools/list").parent is None, "no span was current"
