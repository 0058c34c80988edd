"""The W3C trace context of a task in the `_meta` of messages.

2026-07-28 reserves the names (SEP-414); 2025-11-25 allows any member in `_meta`.
"""

from typing import Final

from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.statemachine import Task, Trace

__all__ = ["TRACEPARENT", "TRACESTATE", "trace_id", "trace_meta"]

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"


def trace_meta(task: Task) -> JSONObject:
    """Return the `_meta` members for the trace of this task, or none."""
    if task.call.trace is None:
        return {}
    parent, state = task.call.trace
    return {TRACEPARENT: parent} | ({TRACESTATE: state} if state else {})


def trace_id(trace: Trace) -> str:
    """Return the trace id, which all spans of the trace share."""
    return trace[0].split("-")[1]
