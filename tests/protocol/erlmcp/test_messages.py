"""The messages and errors of erlmcp."""

import json
from typing import Any, get_args

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmachine.protocol.dialects.erlmcp import messages as erlmcp
from taskmachine.protocol.dialects.erlmcp.messages import DIALECT, ProgressToken, StatusNotSettable
from taskmachine.protocol.errors import (
    AlreadyEnded,
    InvalidParams,
    InvalidResult,
    MalformedMessage,
    MethodNotFound,
)
from taskmachine.protocol.jsonrpc import (
    Error,
    ErrorResponse,
    Notification,
    Request,
    ResultResponse,
    decode_message,
    encode_message,
)
from taskmachine.statemachine import (
    Call,
    Event,
    IllegalTransition,
    LimitExceeded,
    NotFound,
    State,
    lifecycle,
)
from tests.protocol.erlmcp.client import Client, over_the_wire
from tests.protocol.messages import maybe_text, ms, tokens
from tests.strategies import ids, json_objects, json_values, text

_numbers = st.integers(-10, 10) | st.floats(-10, 10)
_metadata = st.none() | json_objects
_extra = st.dictionaries(ids.map("com.example/{}".format), json_values, max_size=2)
_stamps = st.integers(0, 4_000_000_000_000)
_tasks = st.builds(
    erlmcp.Task,
    taskId=ids,
    status=st.sampled_from(get_args(erlmcp.Status)),
    action=json_objects,
    metadata=json_objects,
    createdAt=_stamps,
    updatedAt=_stamps,
    expiresAt=st.none() | _stamps,
    progressToken=st.none() | tokens,
    progress=st.none() | _numbers,
    total=st.none() | _numbers,
    result=json_values,
    error=st.none() | st.builds(erlmcp.TaskError, st.integers(), text, json_values),
    inputRequests=st.none()
    | st.dictionaries(ids, st.builds(erlmcp.InputRequest, text, json_objects), max_size=2),
)

REQUESTS: dict[str, st.SearchStrategy[Any]] = {
    "tasks/create": st.builds(
        erlmcp.CreateTask,
        action=st.builds(erlmcp.Action, text, _metadata, _extra),
        metadata=_metadata,
        options=st.none() | st.builds(erlmcp.Options, st.none() | ms, _extra),
    ),
    "tasks/list": st.builds(erlmcp.ListTasks, maybe_text, st.none() | st.integers()),
    "tasks/get": st.builds(erlmcp.GetTask, ids),
    "tasks/result": st.builds(erlmcp.GetTaskPayload, ids),
    "tasks/cancel": st.builds(erlmcp.CancelTask, ids, maybe_text),
    "tasks/update": st.builds(
        erlmcp.UpdateTask,
        taskId=ids,
        metadata=_metadata,
        status=maybe_text,
        input=json_values,
        inputResponses=st.none() | st.dictionaries(ids, json_objects, max_size=2),
    ),
    "tasks/progress": st.builds(erlmcp.ReportProgress, tokens, _numbers, st.none() | _numbers),
}
RESULTS: dict[str, st.SearchStrategy[Any]] = {
    "tasks/create": st.builds(erlmcp.CreateTaskResult, _tasks),
    "tasks/list": st.builds(erlmcp.ListTasksResult, st.lists(_tasks, max_size=2), maybe_text),
    "tasks/get": st.builds(erlmcp.GetTaskResult, _tasks),
    "tasks/result": st.builds(erlmcp.TaskPayload, json_values),
    "tasks/cancel": st.just(erlmcp.EmptyResult()),
    "tasks/update": st.builds(
        erlmcp.UpdateTaskResult,
        ids,
        st.sampled_from(get_args(erlmcp.Status)),
        json_objects,
        _stamps,
    ),
    "tasks/progress": st.builds(erlmcp.ReportProgressResult, _numbers, st.none() | _numbers),
}
NOTIFICATIONS: dict[str, st.SearchStrategy[Any]] = {
    "notifications/tasks/status": st.builds(erlmcp.TaskStatus, _tasks),
    "notifications/progress": st.builds(erlmcp.Progress, tokens, _numbers, st.none() | _numbers),
    "notifications/cancelled": st.builds(erlmcp.Cancelled, ids, maybe_text),
}


def test_every_message_has_a_strategy() -> None:
    assert REQUESTS.keys() == RESULTS.keys() == DIALECT.methods.keys()
    assert NOTIFICATIONS.keys() == DIALECT.notifications.keys()


@pytest.mark.parametrize("method", REQUESTS)
@given(data=st.data())
def test_requests_and_results_decode_to_the_same(method: str, data: st.DataObject) -> None:
    params, result = data.draw(REQUESTS[method]), data.draw(RESULTS[method])
    request = decode_message(encode_message(DIALECT.encode_request(7, params)))
    assert isinstance(request, Request)
    assert (request.method, DIALECT.decode_request(request)) == (method, params)
    response = decode_message(encode_message(DIALECT.encode_response(7, result)))
    assert isinstance(response, ResultResponse)
    assert DIALECT.decode_result(method, response) == result


@pytest.mark.parametrize("method", NOTIFICATIONS)
@given(data=st.data())
def test_notifications_decode_to_the_same(method: str, data: st.DataObject) -> None:
    params = data.draw(NOTIFICATIONS[method])
    notification = decode_message(encode_message(DIALECT.encode_notification(params)))
    assert isinstance(notification, Notification)
    assert (notification.method, DIALECT.decode_notification(notification)) == (method, params)


ACTION = {"name": "x"}


@pytest.mark.parametrize(
    ("method", "params", "reason"),
    [
        ("tasks/create", {}, "action is required"),
        ("tasks/create", {"action": "x"}, "action must be an object, got string"),
        ("tasks/create", {"action": {}}, "action.name is required"),
        (
            "tasks/create",
            {"action": {"name": "x", "arguments": []}},
            "action.arguments must be an object, got array",
        ),
        (
            "tasks/create",
            {"action": ACTION, "metadata": 1},
            "metadata must be an object, got number",
        ),
        (
            "tasks/create",
            {"action": ACTION, "options": {"ttl_ms": -1}},
            "options.ttl_ms must be from 0 to 9007199254740991",
        ),
        ("tasks/list", {"cursor": 1}, "cursor must be a string, got number"),
        ("tasks/list", {"limit": "1"}, "limit must be an integer, got string"),
        ("tasks/list", {"limit": 0}, "limit must be at least 1"),
        ("tasks/get", {}, "taskId is required"),
        ("tasks/result", {"taskId": 1}, "taskId must be a string, got number"),
        ("tasks/cancel", {"taskId": "x", "reason": 1}, "reason must be a string, got number"),
        ("tasks/update", {"metadata": {}}, "taskId is required"),
        ("tasks/update", {"taskId": "x", "status": 1}, "status must be a string, got number"),
        (
            "tasks/update",
            {"taskId": "x", "inputResponses": {"k": 1}},
            "inputResponses['k'] must be an object, got number",
        ),
        ("tasks/progress", {}, "progressToken is required"),
        (
            "tasks/progress",
            {"progressToken": []},
            "progressToken must be a string or an integer, got array",
        ),
    ],
)
def test_wrong_parameters_name_the_place(
    client: Client, method: str, params: Any, reason: str
) -> None:
    [answer] = client.connection.receive(Request(1, method, params))
    assert answer == ErrorResponse(1, Error(-32602, f"params.{reason}"))


@pytest.mark.parametrize("method", ["tools/call", "initialize", "tasks/subscribe", ""])
def test_an_unknown_method_is_32601(client: Client, method: str) -> None:
    assert client.ask(method) == -32601
    with pytest.raises(MethodNotFound):
        DIALECT.decode_notification(Notification(method))


def test_a_wrong_answer_of_a_peer_names_the_place() -> None:
    with pytest.raises(InvalidResult) as error:
        DIALECT.decode_result("tasks/list", ResultResponse(1, {"tasks": [{"taskId": "x"}]}))
    assert error.value.reason == "result.tasks[0].status is required"


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (NotFound("t1"), -32081, "Task not found"),
        (NotFound(ProgressToken("t1")), -32091, "Unknown progress token"),
        (
            IllegalTransition(State.SUBMITTED, Event.ASK),
            -32086,
            "The operation is not allowed in the task's current state",
        ),
        (IllegalTransition(State.FAILED, Event.REPORT), -32090, "The task has already ended"),
        (AlreadyEnded("failed"), -32090, "The task has already ended"),
        (
            StatusNotSettable("failed"),
            -32086,
            "The only status that can be set is 'input_required'",
        ),
        (LimitExceeded("1000 live tasks", 500), -32087, "Limit reached: 1000 live tasks"),
        (InvalidParams("params.x is wrong"), -32602, "params.x is wrong"),
        (MethodNotFound("x"), -32601, "Method not found: x"),
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


def test_a_task_of_another_wire_is_shown_as_well() -> None:
    """It may have no tool, and a token that its requestor chose."""
    call = Call("sampling/createMessage", None, b'{"maxTokens":1}', "mine")
    task = lifecycle.submit("t1", "alice", call, 1, ttl_ms=None).task
    [message] = over_the_wire(DIALECT.encode_response(1, erlmcp.encode_task(task)))
    shown = message["result"]
    assert shown["action"] == {"name": "sampling/createMessage", "arguments": {"maxTokens": 1}}
    assert shown["progressToken"] == "t1"
