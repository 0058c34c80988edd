"""Traces across messages, processes and hours: W3C Trace Context in and out.

What is malformed counts as nothing.  `baggage` is neither read nor passed on: it would carry
whatever a caller likes to wherever our spans go.
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
"""Characters of a `tracestate`: as many as W3C wants to be passed on at least."""

_PROPAGATOR: Final = TraceContextTextMapPropagator()
_NOWHERE: Final = Context()


def context_of_request(request: Request) -> Context | None:
    """The context that the `_meta` of a request names; None if it names none."""
    meta = request.params.get("_meta")
    return _extracted(meta) if isinstance(meta, dict) and TRACEPARENT in meta else None


def context_of_task(kept: Trace | None) -> Context:
    """The context that was kept with a task; an empty one, whatever is current, if none was."""
    if kept is None:
        return _NOWHERE
    return _extracted({TRACEPARENT: kept[0], TRACESTATE: kept[1]}) or _NOWHERE


def current_trace(context: Context | None = None) -> Trace | None:
    """What to keep of the current context, or of that one."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, context)
    if TRACEPARENT not in carrier:
        return None
    state = carrier.get(TRACESTATE, "")
    return carrier[TRACEPARENT], state if len(state) <= MAX_STATE else ""


def current_meta() -> JSONObject:
    """Members for the `_meta` of a request that is sent now; none if no span is current."""
    kept = current_trace()
    if kept is None:
        return {}
    return {TRACEPARENT: kept[0]} | ({TRACESTATE: kept[1]} if kept[1] else {})


def _extracted(meta: Mapping[str, object]) -> Context | None:
    carrier = {name: value for name, value in meta.items() if isinstance(value, str)}
    found = _PROPAGATOR.extract(carrier, _NOWHERE)
    return found if trace.get_current_span(found).get_span_context().is_valid else None
