"""W3C Trace Context in requests and stored tasks.

Malformed values are ignored.  `baggage` is neither read nor passed on: it would carry data that
callers choose to the span exporters.
"""

from collections.abc import Mapping
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from taskmachine.protocol.jsonrpc import Request
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.protocol.trace_context import TRACEPARENT, TRACESTATE
from taskmachine.statemachine import Trace

__all__ = ["context_of_request", "context_of_task", "current_meta", "current_trace"]

MAX_STATE: Final = 512
"""Maximum length of a `tracestate`: the minimum that W3C demands to propagate."""

_PROPAGATOR: Final = TraceContextTextMapPropagator()
_NOWHERE: Final = Context()


def context_of_request(request: Request) -> Context | None:
    """Return the trace context in the `_meta` of a request, or None."""
    meta = request.params.get("_meta")
    return _extracted(meta) if isinstance(meta, dict) and TRACEPARENT in meta else None


def context_of_task(kept: Trace | None) -> Context:
    """Return the trace context that is stored with a task, or an empty one."""
    if kept is None:
        return _NOWHERE
    return _extracted({TRACEPARENT: kept[0], TRACESTATE: kept[1]}) or _NOWHERE


def current_trace(context: Context | None = None) -> Trace | None:
    """Return the given or current context in the form that is stored with a task."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, context)
    if TRACEPARENT not in carrier:
        return None
    state = carrier.get(TRACESTATE, "")
    return carrier[TRACEPARENT], state if len(state) <= MAX_STATE else ""


def current_meta() -> JSONObject:
    """Return members for the `_meta` of an outgoing request; empty without a current span."""
    kept = current_trace()
    if kept is None:
        return {}
    return {TRACEPARENT: kept[0]} | ({TRACESTATE: kept[1]} if kept[1] else {})


def _extracted(meta: Mapping[str, object]) -> Context | None:
    carrier = {name: value for name, value in meta.items() if isinstance(value, str)}
    found = _PROPAGATOR.extract(carrier, _NOWHERE)
    return found if trace.get_current_span(found).get_span_context().is_valid else None
