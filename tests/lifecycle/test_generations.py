"""The model machine again, with every version of every task encoded for both generations."""

import json
from typing import Any

import attrs
import pytest

from taskmachine.protocol.dialects.mcp_2025_11_25 import messages as g1
from taskmachine.protocol.dialects.mcp_2026_07_28 import messages as g2
from taskmachine.protocol.dialects.mcp_2026_07_28 import receiver as receiver_2026_07_28
from taskmachine.protocol.jsonrpc import (
    Error,
    ErrorResponse,
    Notification,
    ResultResponse,
    decode_message,
    encode_message,
)
from taskmachine.statemachine import TABLE, Call, Outcome, State, Task
from taskmachine.statemachine.invariants import Asked, Saw
from tests.lifecycle.test_model import ModelMachine
from tests.oracle import SPEC, judge

RESERVED = range(-32099, -32019)


class BothGenerations(ModelMachine):
    """Both generations show a legal path and the same outcome."""

    def observe(self, task: Task) -> None:
        if task.state is State.REMOVED:
            return
        before = self.history[:-1]
        self._poll_2025(task)
        self._poll_2026(task)
        self._compare_with_projection(task)
        if not any(isinstance(h, Saw) and h.task_id == task.id for h in before):
            assert self._status(g1.REVISION, task) in SPEC["generation"][g1.REVISION]["initial"]

    def _status(self, wire: str, task: Task) -> str:
        reads = [h for h in self.history if isinstance(h, Saw) and h.task_id == task.id]
        return next(read.status for read in reversed(reads) if read.wire == wire)

    def _compare_with_projection(self, task: Task) -> None:
        is_error = task.outcome is not None and task.outcome.is_error
        name = "completed_is_error" if is_error else task.state.value
        for revision in (g1.REVISION, g2.REVISION):
            assert self._status(revision, task) == SPEC["projection"][revision][name]

    def _poll_2025(self, task: Task) -> None:
        dialect = g1.DIALECT
        data = encode_message(dialect.encode_response(1, g1.encode_task(task, 500)))
        judge(g1.REVISION, "GetTaskResult").validate(json.loads(data)["result"])
        seen = dialect.decode_result("tasks/get", _result(data))
        assert (seen.taskId, seen.ttl, seen.pollInterval) == (task.id, task.ttl_ms, 500)
        outcome = self._collect_2025(task) if task.is_terminal else None
        if seen.status == "failed":
            assert seen.statusMessage is not None
        progress = g1.encode_progress(task)
        if progress is not None:
            data = encode_message(dialect.encode_notification(progress))
            judge(g1.REVISION, "TaskProgressNotification").validate(json.loads(data))
            assert not task.is_terminal
        self.history.append(
            Saw(self.now, "alice", task.id, seen.status, g1.REVISION, outcome=outcome)
        )

    def _collect_2025(self, task: Task) -> str:
        answer = g1.encode_outcome(task)
        if isinstance(answer, Error):
            response = decode_message(encode_message(ErrorResponse(1, answer)))
            assert isinstance(response, ErrorResponse)
            if answer.code == -32000 and answer.message == "Task cancelled":
                assert answer.data == {"_meta": g1.related_task(task.id)}
                return "cancelled"
            return _error(response.error.code, response.error.message, response.error.data)
        data = encode_message(g1.DIALECT.encode_response(1, answer))
        judge(g1.REVISION, "GetTaskPayloadResult").validate(json.loads(data)["result"])
        result = _result(data).result
        assert result["_meta"].pop(g1.RELATED_TASK) == {"taskId": task.id}
        return _canonical(result)

    def _poll_2026(self, task: Task) -> None:
        dialect = g2.DIALECT
        data = encode_message(
            dialect.encode_response(1, receiver_2026_07_28.encode_task(task, 500))
        )
        seen = dialect.decode_result("tasks/get", _result(data))
        assert (seen.taskId, seen.ttlMs, seen.pollIntervalMs) == (task.id, task.ttl_ms, 500)
        pushed = decode_message(
            encode_message(
                dialect.encode_notification(receiver_2026_07_28.encode_status(task, "s", 500))
            )
        )
        assert isinstance(pushed, Notification)
        body = {key: value for key, value in pushed.params.items() if key != "_meta"}
        assert body == {k: v for k, v in _result(data).result.items() if k != "resultType"}
        for key, question in (seen.inputRequests or {}).items():
            request = _canonical(question.params)
            self.history.append(Asked(self.now, f"{task.id} on the wire", key, request))
        outcome = None
        if seen.status == "completed":
            result = {k: v for k, v in seen.result.items() if k != "resultType"}
            outcome = _canonical(result)
        elif seen.status == "failed":
            error = seen.error
            assert error["code"] not in {*RESERVED, -32002}
            outcome = _error(error["code"], error["message"], error.get("data"))
        elif seen.status == "cancelled":
            outcome = "cancelled"
        self.history.append(
            Saw(self.now, "alice", task.id, seen.status, g2.REVISION, outcome=outcome)
        )


def _result(data: bytes) -> ResultResponse:
    response = decode_message(data)
    assert isinstance(response, ResultResponse)
    return response


def _error(code: int, message: str, data: Any) -> str:
    """Codes that one wire may not use are the internal error, or their successor, on the other."""
    code = {-32002: -32602}.get(code, -32603 if code in RESERVED else code)
    return _canonical([code, message or "Internal error", data])


def _canonical(value: Any) -> str:
    if isinstance(value, dict) and not value.get("_meta", True):
        value = {key: inner for key, inner in value.items() if key != "_meta"}
    return json.dumps(value, sort_keys=True)


TestBothGenerations = BothGenerations.TestCase


@pytest.mark.parametrize("module", [g1, g2], ids=lambda module: module.REVISION)
def test_the_rows_of_the_table_project_onto_the_edges_of_the_generation(module: Any) -> None:
    """Exhaustively, for every row and both kinds of result, by the projection of real tasks."""
    visible = set(SPEC["table"]["states"]) - {"new", "removed"}
    plain, broken = Outcome.of_result(b"{}"), Outcome.of_result(b"{}", is_error=True)
    edges = set()
    for row in TABLE:
        if {row.source, row.dest} <= visible:
            for outcome in (plain, broken) if row.dest is State.COMPLETED else (None,):
                before = Task("t", "o", Call("tools/call"), 0, 0, state=row.source)
                after = attrs.evolve(before, state=row.dest, outcome=outcome)
                edges.add((module.DIALECT.status(before), module.DIALECT.status(after)))
    wanted = {(source, dest) for source, dest in SPEC["generation"][module.REVISION]["edges"]}
    assert {(source, dest) for source, dest in edges if source != dest} == wanted
