"""An observer that records OpenTelemetry spans and metrics.

config = RuntimeConfig(observer=OpenTelemetry())
async with open_runtime("sqlite:tasks.db", tools, config) as runtime:
    ...
"""

from collections.abc import Callable, Container, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from typing import Final

from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import SpanKind, TracerProvider
from prometheus_client import CollectorRegistry

from taskmachine.adapters.runtime.observer import Carrier, RunEnd, Served
from taskmachine.adapters.stores import Totals
from taskmachine.adapters.telemetry import names, spans
from taskmachine.adapters.telemetry.meters import Labels, Meters
from taskmachine.adapters.telemetry.propagation import current_trace
from taskmachine.protocol.jsonrpc import Request
from taskmachine.statemachine import (
    Call,
    Event,
    IllegalTransition,
    KeyReused,
    LimitExceeded,
    StaleFence,
    Task,
    TaskmachineError,
    Trace,
)
from taskmachine.statemachine.lifecycle import Step

__all__ = ["OpenTelemetry"]

_REFUSALS: Final = {
    IllegalTransition: "illegal_transition",
    StaleFence: "stale_fence",
    LimitExceeded: "limit_exceeded",
    KeyReused: "key_reused",
}


class OpenTelemetry:
    """Spans and metrics of one runtime, recorded with these providers or the global ones.

    `registry` is the Prometheus registry of one of the meter provider's readers, for `/metrics`.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self.registry = registry
        ours = version("taskmachine")
        self._tracer = (tracer_provider or trace.get_tracer_provider()).get_tracer(
            names.SCOPE, ours
        )
        self._meters = Meters(
            (meter_provider or metrics.get_meter_provider()).get_meter(names.SCOPE, ours)
        )
        self._tools: Container[str] = ()
        self._store: Labels = {}

    def began(self, tools: Container[str], store: str) -> None:
        self._tools = tools
        self._store = {names.STORE: store}

    # --- requests ----------------------------------------------------------------------------

    def requested(self, request: Request, *, revision: str, is_known: bool, by: Carrier) -> Served:
        method = request.method if is_known else names.OTHER
        named = request.params.get("name")
        tool = self._tool(named if isinstance(named, str) else None)
        tool_or_none = tool if method == "tools/call" else None
        labels: Labels = {names.METHOD: method, names.REVISION: revision}
        if by.transport is not None:
            labels[names.TRANSPORT] = by.transport
        if tool_or_none is not None:
            labels[names.TOOL] = tool

        def ended(error: str | None, seconds: float) -> None:
            failed = {} if error is None else {names.ERROR_TYPE: _error_label(error)}
            self._meters.request_duration.record(seconds, {**labels, **failed})

        return spans.begin_request(
            self._tracer,
            request,
            method=method,
            tool=tool_or_none,
            revision=revision,
            by=by,
            on_end=ended,
        )

    def raised(self, error: BaseException) -> None:
        spans.record_exception(error)

    # --- tasks -------------------------------------------------------------------------------

    def trace(self, call: Call) -> Trace | None:
        found = current_trace()
        if found is not None:
            return found
        # Not created by a request: the trace begins with the task.
        root = self._tracer.start_span(f"submit {self._tool(call.name)}", kind=SpanKind.PRODUCER)
        root.end()
        return current_trace(trace.set_span_in_context(root))

    def committed(self, steps: Sequence[Step]) -> None:
        for step in steps:
            task, event = step.task, step.entry.event
            if event is Event.SUBMIT:
                self._meters.created.add(1, self._labels(task))
            elif task.is_terminal:
                self._settled(step)

    def _settled(self, step: Step) -> None:
        task = step.task
        assert task.outcome is not None, "an ended task has an outcome"
        labels = {**self._labels(task), names.OUTCOME: spans.outcome_name(task.outcome)}
        self._meters.settled.add(1, labels)
        self._meters.duration.record(max(0, step.entry.at - task.created_at) / 1_000, labels)
        spans.emit_task(self._tracer, step, self._tool(task.call.name))

    def refused(self, error: TaskmachineError) -> None:
        reason = _REFUSALS.get(type(error), names.OTHER)
        labels = {**self._store, names.ERROR_TYPE: reason}
        if isinstance(error, IllegalTransition):
            labels[names.EVENT] = error.event.value
        self._meters.refused.add(1, labels)

    def tool_run(self, task: Task) -> AbstractContextManager[Callable[[RunEnd], None]]:
        def retried() -> None:
            self._meters.retries.add(1, self._labels(task))

        return spans.tool_run_span(self._tracer, task, self._tool(task.call.name), retried)

    def step(self, task: Task, key: str, is_recorded: bool) -> AbstractContextManager[object]:
        if is_recorded:
            self._meters.replayed.add(1, self._labels(task))
            return nullcontext()
        return spans.step_span(self._tracer, task, self._tool(task.call.name), key)

    # --- upkeep ------------------------------------------------------------------------------

    def swept(self, removed: int, seconds: float) -> None:
        self._meters.removed.add(removed, self._store)
        self._meters.sweep_duration.record(seconds, self._store)

    def dropped(self, count: int = 1) -> None:
        self._meters.dropped.add(count)

    def lost_notification(self) -> None:
        self._meters.lost.add(1, self._store)

    def counted(self, totals: Totals) -> None:
        self._meters.count(totals, self._store)

    # --- names -------------------------------------------------------------------------------

    def _tool(self, name: str | None) -> str:
        """Return the name of a tool of this server: others on the same store may have more."""
        return name if name is not None and name in self._tools else names.OTHER

    def _labels(self, task: Task) -> Labels:
        return {**self._store, names.TOOL: self._tool(task.call.name)}


def _error_label(error: str) -> str:
    """Return the code if it is a JSON-RPC one: tools may raise any other."""
    try:
        is_known = -32_768 <= int(error) <= -32_000
    except ValueError:
        is_known = True
    return error if is_known else names.OTHER
