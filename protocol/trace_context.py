"""The W3C trace context of a task on the wire: where `_meta` has room for it.

2026-07-28 reserves the names (SEP-414).  Where 2025-11-25 lets `_meta` have any member they do
no harm.
"""

from typing import Final

from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.statemachine import Task, Trace

__all__ = ["TRACEPARENT", "TRACESTATE", "trace_id", "trace_meta"]

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"


def trace_meta(task: Task) -> JSONObject:
    """What a message for this task says of its trace; nothing if there is none."""
    if task.call.trace is None:
        return {}
    parent, state = task.call.trace
    return {TRACEPARENT: parent} | ({TRACESTATE: state} if state else {})


def trace_id(trace: Trace) -> str:
    """The part of `traceparent` that all spans of the trace share."""
    return trace[0].split("-")[1]
