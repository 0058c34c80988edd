"""Features specific to 2025-11-25."""

import json
from typing import Any

import attrs
import pytest

from taskmachine.protocol.dialects.mcp_2025_11_25 import messages as g1
from taskmachine.protocol.errors import (
    AlreadyEnded,
    InvalidParams,
    InvalidResult,
    MalformedMessage,
    MethodNotFound,
    TaskSupportMismatch,
)
from taskmachine.protocol.jsonrpc import Error, Notification, Request, ResultResponse
from taskmachine.statemachine import (
    Call,
    Cause,
    LimitExceeded,
    NotFound,
    Outcome,
    Question,
    Task,
    lifecycle,
)
from tests.oracle import judge
from tests.protocol.peers_2025_11_25 import RAISED
from tests.requirements import covers

DIALECT = g1.DIALECT


def task(token: str | int | None = None) -> Task:
    call = Call("tools/call", "greet", progress_token=token)
    step = lifecycle.submit("t1", "alice", call, 1_700_000_000_123, ttl_ms=None)
    return lifecycle.start(step.task, 1_700_000_000_123, worker="w").task


def ended(outcome: Outcome) -> Task:
    return lifecycle.complete(task(), 1_700_000_001_000, outcome).task


@covers("2025-11-25:ttl-parameter-number", "2025-11-25:get-unknown-32602")
@pytest.mark.parametrize(
    ("method", "params", "reason"),
    [
        ("tasks/get", {"taskId": 5}, "params.taskId must be a string, got number"),
        ("tasks/get", {}, "params.taskId is required"),
        ("tasks/get", {"taskId": None}, "params.taskId must be a string, got null"),
        ("tasks/list", {"cursor": 5}, "params.cursor must be a string, got number"),
        ("tools/call", {"task": []}, "params.task must be an object, got array"),
        ("tools/call", {"task": True}, "params.task must be an object, got boolean"),
        ("tools/call", {"task": {"ttl": -1}}, f"params.task.ttl must be from 0 to {2**53 - 1}"),
        ("tools/call", {"task": {"ttl": 2**53}}, f"params.task.ttl must be from 0 to {2**53 - 1}"),
        ("tools/call", {"task": {"ttl": 1.5}}, "params.task.ttl must be an integer, got number"),
        ("tools/call", {"task": {"ttl": True}}, "params.task.ttl must be an integer, got boolean"),
        ("tools/call", {"arguments": "{}"}, "params.arguments must be an object, got string"),
        (
            "tools/call",
            {"_meta": {"progressToken": 1}, "arguments": 1},
            "params.arguments must be an object, got number",
        ),
    ],
)
def test_wrong_parameters_name_the_place(method: str, params: Any, reason: str) -> None:
    with pytest.raises(InvalidParams) as error:
        DIALECT.decode_request(Request(1, method, {"name": "x", **params}))
    assert error.value.reason == reason
    assert DIALECT.encode_error(1, error.value).error == Error(-32602, f"Invalid params: {reason}")


@pytest.mark.parametrize(
    ("params", "shape", "reason"),
    [
        ({"progressToken": [], "progress": 1}, "progress", "a string or an integer, got array"),
        ({"progressToken": 1.5, "progress": 1}, "progress", "a string or an integer, got number"),
        ({"progressToken": None, "progress": 1}, "progress", "a string or an integer, got null"),
        ({"progressToken": 1, "progress": "1"}, "progress", "must be a number, got string"),
        ({"progressToken": 1, "progress": True}, "progress", "must be a number, got boolean"),
        ({"requestId": {}}, "cancelled", "a string or an integer, got object"),
    ],
)
def test_wrong_notifications_name_the_place(params: Any, shape: str, reason: str) -> None:
    with pytest.raises(InvalidParams, match=reason):
        DIALECT.decode_notification(Notification(f"notifications/{shape}", params))


def test_a_whole_float_ttl_decodes_to_an_integer() -> None:
    call = DIALECT.decode_request(Request(1, "tools/call", {"name": "x", "task": {"ttl": 6e4}}))
    assert call.task.ttl == 60000
    assert isinstance(call.task.ttl, int)


@pytest.mark.parametrize("method", ["tasks/update", "tasks/create", "server/discover", ""])
def test_an_unknown_method_is_32601(method: str) -> None:
    with pytest.raises(MethodNotFound) as error:
        DIALECT.decode_request(Request(1, method, {}))
    assert DIALECT.encode_error(1, error.value).error.code == -32601
    with pytest.raises(MethodNotFound):
        DIALECT.decode_notification(Notification(method))


def test_a_method_is_known_only_from_the_right_side() -> None:
    with pytest.raises(MethodNotFound):
        DIALECT.decode_request(Request(1, "elicitation/create", {"message": "x"}))
    with pytest.raises(MethodNotFound):
        DIALECT.decode_request(Request(1, "tools/call", {"name": "x"}), sender="server")
    get = Request(1, "tasks/get", {"taskId": "x"})
    assert DIALECT.decode_request(get) == DIALECT.decode_request(get, sender="server")


@pytest.mark.parametrize(
    ("method", "result", "reason"),
    [
        ("tools/call", {}, "result.content is required"),
        ("tools/call", {"content": {}}, "result.content must be an array, got object"),
        ("tools/call", {"task": {}}, "result.task.taskId is required"),
        ("tasks/list", {"tasks": [{}]}, "result.tasks[0].taskId is required"),
        (
            "tasks/get",
            {"taskId": "x", "status": "done", "createdAt": "", "lastUpdatedAt": "", "ttl": None},
            "result.status must be 'cancelled' or 'completed' or 'failed' or 'input_required' or "
            "'working', got 'done'",
        ),
        (
            "tasks/get",
            {"taskId": "x", "status": 1, "createdAt": "", "lastUpdatedAt": "", "ttl": None},
            "result.status must be a string, got number",
        ),
        (
            "tools/list",
            {"tools": [{"name": "x", "inputSchema": {}, "execution": {"taskSupport": "always"}}]},
            "result.tools[0].execution.taskSupport must be 'forbidden' or 'optional' or "
            "'required', got 'always'",
        ),
    ],
)
def test_a_wrong_answer_of_a_peer_names_the_place(method: str, result: Any, reason: str) -> None:
    with pytest.raises(InvalidResult) as error:
        DIALECT.decode_result(method, ResultResponse(1, result))
    assert error.value.reason == reason
    assert str(error.value) == f"invalid answer to {method}: {reason}"


def test_nothing_that_a_tool_says_is_lost() -> None:
    future = {"future": {"a": [1]}, "extra": {"b": 2}}
    result = {"content": [], "isError": False, **future, "_meta": {"x/y": 1}}
    decoded = DIALECT.decode_result("tools/call", ResultResponse(1, result))
    assert decoded.extra == future
    assert DIALECT.encode_response(1, decoded) == ResultResponse(1, result)


def test_a_snapshot() -> None:
    assert DIALECT.shapes.encode(g1.encode_task(task(), 250)) == {
        "taskId": "t1",
        "status": "working",
        "createdAt": "2023-11-14T22:13:20.123Z",
        "lastUpdatedAt": "2023-11-14T22:13:20.123Z",
        "ttl": None,
        "pollInterval": 250,
    }
    assert DIALECT.encode_notification(g1.encode_status(task(), 250)) == Notification(
        "notifications/tasks/status", DIALECT.shapes.encode(g1.encode_task(task(), 250))
    )
    created = DIALECT.shapes.encode(g1.encode_created(task(), 250))
    assert created == {"task": DIALECT.shapes.encode(g1.encode_task(task(), 250))}
    judge(g1.REVISION, "CreateTaskResult").validate(created)


@covers("2025-11-25:failed-on-is-error", "2025-11-25:failed-status-message")
def test_a_failed_tool_says_why() -> None:
    failed = ended(Outcome.of_result(b'{"content":[],"isError":true}', is_error=True))
    assert g1.encode_task(failed).status == "failed"
    assert g1.encode_task(failed).statusMessage == "The tool reported an error."


@covers("2025-11-25:result-same-error")
@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (RAISED, Error(-32042, "rate limit exceeded", {"a": 1})),
        (Outcome.of_error(7, "no"), Error(7, "no")),
        (Outcome(Cause.ERROR, code=7), Error(7, "")),
        (Outcome(Cause.TIMED_OUT, message="too slow"), Error(-32603, "too slow")),
        (Outcome(Cause.WORKER_LOST), Error(-32603, "Internal error")),
        (
            Outcome(Cause.CANCELLED, message="enough"),
            Error(-32000, "Task cancelled", {"_meta": g1.related_task("t1")}),
        ),
    ],
)
def test_a_failed_task_encodes_to_the_error_of_the_plain_call(
    outcome: Outcome, error: Error
) -> None:
    assert g1.encode_outcome(lifecycle.fail(task(), 2, outcome).task) == error


def test_encode_outcome_rejects_a_task_that_has_not_ended() -> None:
    with pytest.raises(AssertionError, match="blocks until the end"):
        g1.encode_outcome(task())


@covers("2025-11-25:related-task-on-question")
def test_a_question_is_tied_to_its_task() -> None:
    question = Question("k", "elicitation/create", b'{"message":"?","_meta":{"a/b":1}}')
    request = g1.encode_question("q1", task(), question)
    assert request == Request(
        "q1",
        "elicitation/create",
        {"message": "?", "_meta": {"a/b": 1, **g1.related_task("t1"), g1.QUESTION_KEY: "k"}},
    )


@covers("2025-11-25:internal-error-32603", "2025-11-25:informative-error-messages")
@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (NotFound("t1"), -32602, "Failed to retrieve task: Task not found"),
        (AlreadyEnded("failed"), -32602, "Cannot cancel task: already in terminal status 'failed'"),
        (TaskSupportMismatch("x", "required"), -32601, "Tool 'x' must be called as a task"),
        (TaskSupportMismatch("x", "forbidden"), -32601, "Tool 'x' cannot be called as a task"),
        (LimitExceeded("1000 live tasks", 500), -32603, "Limit reached: 1000 live tasks"),
        (MalformedMessage(-32700, "Parse error: x"), -32700, "Parse error: x"),
        (ZeroDivisionError("secret"), -32603, "Internal error"),
    ],
)
def test_error_table(error: Exception, code: int, words: str) -> None:
    answer = DIALECT.encode_error(9, error)
    assert (answer.id, answer.error.code, answer.error.message) == (9, code, words)
    if isinstance(error, LimitExceeded):
        assert answer.error.data == {"retryAfterMs": 500}
    assert "t1" not in json.dumps(attrs.asdict(answer)), "an id that is not found is not repeated"


def test_a_wrong_value_is_not_taken_for_a_place() -> None:
    odd = {"taskId": "x", "status": "a @ b", "createdAt": "", "lastUpdatedAt": "", "ttl": None}
    with pytest.raises(InvalidResult) as error:
        DIALECT.decode_result("tasks/get", ResultResponse(1, odd))
    assert error.value.reason.startswith("result.status must be 'cancelled' or ")
    assert error.value.reason.endswith(", got 'a @ b'")


@pytest.mark.parametrize("number", [-1, 2**53])
def test_only_durations_have_bounds(number: int) -> None:
    params = {"messages": [], "maxTokens": number}
    request = Request(1, "sampling/createMessage", params)
    assert DIALECT.decode_request(request, sender="server").maxTokens == number
