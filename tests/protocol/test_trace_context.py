"""The trace context of a task, where `_meta` has room for it."""

import attrs

from taskmachine.protocol.trace_context import trace_id, trace_meta
from taskmachine.statemachine import Call, Task

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def traced(state: str) -> Task:
    call = attrs.evolve(Call("tools/call"), trace=(PARENT, state))
    return Task("t", "alice", call, 0, 0)


def test_a_task_names_its_trace() -> None:
    assert trace_meta(traced("a=b")) == {"traceparent": PARENT, "tracestate": "a=b"}
    assert trace_meta(traced("")) == {"traceparent": PARENT}
    assert trace_meta(Task("t", "alice", Call("tools/call"), 0, 0)) == {}


def test_all_spans_of_a_trace_share_its_id() -> None:
    assert trace_id((PARENT, "")) == "0af7651916cd43dd8448eb211c80319c"
