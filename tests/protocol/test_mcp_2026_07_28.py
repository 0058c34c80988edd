"""Features specific to 2026-07-28."""

import json
from typing import Any

import pytest

from taskmachine.protocol.dialects.mcp_2026_07_28 import messages as g2
from taskmachine.protocol.dialects.mcp_2026_07_28 import receiver as receiver_2026_07_28
from taskmachine.protocol.dialects.receiver import Session
from taskmachine.protocol.errors import (
    HeaderMismatch,
    InvalidParams,
    InvalidResult,
    MalformedMessage,
    MethodNotFound,
    MissingCapability,
    UnsupportedVersion,
)
from taskmachine.protocol.jsonrpc import Error, Request, ResultResponse, encode_message
from taskmachine.protocol.jsonvalue import encode_json
from taskmachine.statemachine import (
    Call,
    Cause,
    LimitExceeded,
    NotFound,
    Outcome,
    Question,
    Reply,
    Task,
    lifecycle,
)
from tests.oracle import judge
from tests.protocol.memory_driver import OFFER
from tests.requirements import covers

DIALECT = g2.DIALECT

META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {
        "extensions": {"io.modelcontextprotocol/tasks": {}}
    },
}
UNDECLARED = {**META, "io.modelcontextprotocol/clientCapabilities": {}}


def task() -> Task:
    call = Call("tools/call", "greet")
    step = lifecycle.submit("t1", "alice", call, 1_700_000_000_123, ttl_ms=60_000)
    return lifecycle.start(step.task, 1_700_000_000_123, worker="w").task


def read(request: Request) -> Any:
    return receiver_2026_07_28.RECEIVER.read(request, Session(OFFER))


def shown(task: Task, **options: Any) -> dict[str, Any]:
    data = encode_message(
        DIALECT.encode_response(1, receiver_2026_07_28.encode_task(task, **options))
    )
    response = ResultResponse(1, json.loads(data)["result"])
    judge(g2.REVISION, "GetTaskResult").validate(response.result)
    return response.result


@covers("2026-07-28:meta-missing-32602", "2026-07-28:progress-token-type")
@pytest.mark.parametrize(
    ("meta", "reason"),
    [
        (None, "params._meta must be an object, got null"),
        ([], "params._meta must be an object, got array"),
        ({}, "params._meta.protocolVersion is required"),
        (
            {"io.modelcontextprotocol/protocolVersion": "2026-07-28"},
            "params._meta.clientCapabilities is required",
        ),
        (
            {**META, "io.modelcontextprotocol/protocolVersion": 5},
            "params._meta.protocolVersion must be a string, got number",
        ),
        (
            {**META, "io.modelcontextprotocol/clientCapabilities": None},
            "params._meta.clientCapabilities must be an object, got null",
        ),
        (
            {**META, "progressToken": {}},
            "params._meta.progressToken must be a string or an integer, got object",
        ),
    ],
)
def test_a_request_with_missing_or_invalid_metadata_is_refused(meta: Any, reason: str) -> None:
    with pytest.raises(InvalidParams) as error:
        DIALECT.decode_request(Request(1, "tools/list", {"_meta": meta}))
    assert error.value.reason == reason
    with pytest.raises(InvalidParams, match=r"params\._meta is required"):
        DIALECT.decode_request(Request(1, "tools/list", {}))


@covers("2026-07-28:unsupported-version-32022")
def test_another_version_is_refused_before_anything_else() -> None:
    meta = {**META, "io.modelcontextprotocol/protocolVersion": "1900-01-01"}
    with pytest.raises(UnsupportedVersion) as error:
        read(Request(1, "no/such", {"_meta": meta}))
    assert DIALECT.encode_error(1, error.value).error == Error(
        -32022,
        "Unsupported protocol version",
        {"supported": ["2026-07-28"], "requested": "1900-01-01"},
    )


@covers(
    "2026-07-28:get-missing-capability-32021",
    "2026-07-28:update-missing-capability-32021",
    "2026-07-28:cancel-missing-capability-32021",
    "2026-07-28:listen-missing-capability-32021",
    "2026-07-28:legacy-capability-is-undeclared",
)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tasks/get", {"taskId": "x"}),
        ("tasks/get", {}),
        ("tasks/update", {"taskId": "x", "inputResponses": {}}),
        ("tasks/cancel", {"taskId": "x"}),
        ("subscriptions/listen", {"notifications": {"taskIds": ["x"]}}),
    ],
)
@pytest.mark.parametrize(
    "capabilities",
    [
        {},
        {"extensions": None},
        {"extensions": {"io.modelcontextprotocol/tasks": True}},
        {"tasks": {"requests": {"tools": {"call": {}}}}},  # the older generation's does not count
    ],
)
def test_a_task_request_without_the_declared_extension_gets_32021(
    method: str, params: Any, capabilities: Any
) -> None:
    meta = {**META, "io.modelcontextprotocol/clientCapabilities": capabilities}
    with pytest.raises(MissingCapability) as error:
        read(Request(1, method, {**params, "_meta": meta}))
    assert DIALECT.encode_error(1, error.value).error == Error(
        -32021,
        "Missing required client capability",
        {"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}},
    )


@covers("2026-07-28:one-sided-extension")
def test_requests_unrelated_to_tasks_do_not_require_the_extension() -> None:
    harmless: dict[str, Any] = {
        "tools/call": {"name": "greet"},
        "tools/list": {},
        "server/discover": {},
        "subscriptions/listen": {"notifications": {"toolsListChanged": True}},
    }
    for method, params in harmless.items():
        read(Request(1, method, {**params, "_meta": UNDECLARED}))


@covers("2026-07-28:tasks-result-gone-32601", "2026-07-28:no-tasks-list")
@pytest.mark.parametrize("method", ["tasks/list", "tasks/result", "initialize", "tasks/create"])
def test_methods_of_other_generations_are_unknown(method: str) -> None:
    with pytest.raises(MethodNotFound) as error:
        DIALECT.decode_request(Request(1, method, {"_meta": META, "taskId": "x"}))
    assert DIALECT.encode_error(1, error.value).error.code == -32601


@covers("2026-07-28:task-parameter-ignored")
def test_the_older_way_to_ask_for_a_task_is_ignored() -> None:
    params = {"name": "x", "task": "whatever", "_meta": META}
    assert not hasattr(DIALECT.decode_request(Request(1, "tools/call", params)), "task")


@covers("2026-07-28:informative-error-messages", "2026-07-28:input-responses-malformed-error")
@pytest.mark.parametrize(
    ("method", "params", "reason"),
    [
        ("tasks/get", {"taskId": 5}, "params.taskId must be a string, got number"),
        ("tasks/update", {"taskId": "x"}, "params.inputResponses is required"),
        (
            "tasks/update",
            {"taskId": "x", "inputResponses": []},
            "params.inputResponses must be an object, got array",
        ),
        (
            "tasks/update",
            {"taskId": "x", "inputResponses": {"k": 1}},
            "params.inputResponses['k'] must be an object, got number",
        ),
        ("subscriptions/listen", {}, "params.notifications is required"),
        (
            "subscriptions/listen",
            {"notifications": {"taskIds": [1]}},
            "params.notifications.taskIds[0] must be a string, got number",
        ),
        (
            "subscriptions/listen",
            {"notifications": {"toolsListChanged": 1}},
            "params.notifications.toolsListChanged must be a boolean, got number",
        ),
        ("tools/call", {"name": "x", "requestState": 1}, "params.requestState must be a string"),
    ],
)
def test_wrong_parameters_name_the_place(method: str, params: Any, reason: str) -> None:
    with pytest.raises(InvalidParams) as error:
        DIALECT.decode_request(Request(1, method, {**params, "_meta": META}))
    assert error.value.reason.startswith(reason)


# --- results ---------------------------------------------------------------------------------

SNAPSHOT = {"taskId": "t", "createdAt": "", "lastUpdatedAt": "", "ttlMs": None}


@covers("2026-07-28:absent-result-type-is-complete", "2026-07-28:client-handles-both-results")
@pytest.mark.parametrize(
    ("result", "kind"),
    [
        ({"content": []}, g2.CallToolResult),  # an absent resultType means complete
        ({"content": [], "resultType": "complete"}, g2.CallToolResult),
        ({"requestState": "s", "resultType": "input_required"}, g2.InputRequiredResult),
        ({**SNAPSHOT, "status": "working", "resultType": "task"}, g2.CreateTaskResult),
    ],
)
def test_result_type_determines_the_decoded_result_class(result: Any, kind: type) -> None:
    assert isinstance(DIALECT.decode_result("tools/call", ResultResponse(1, result)), kind)


def test_null_for_nothing_is_taken_as_absent() -> None:
    nothing = {"statusMessage": None, "result": None, "error": None, "inputRequests": None}
    result = {**SNAPSHOT, "status": "working", **nothing}
    seen = DIALECT.decode_result("tasks/get", ResultResponse(1, result))
    assert (seen.result, seen.error, seen.inputRequests) == (None, None, None)


@covers("2026-07-28:unknown-result-type-invalid", "2026-07-28:task-for-unsupported-request-invalid")
@pytest.mark.parametrize(
    ("method", "result", "reason"),
    [
        ("tools/call", {"resultType": "later"}, "result has an unknown resultType 'later'"),
        ("tools/call", {"resultType": 5}, "result has an unknown resultType 5"),
        (
            "tools/call",
            {"resultType": "input_required"},
            "result must have inputRequests or requestState",
        ),
        (
            "tools/call",
            {"resultType": "input_required", "inputRequests": {"k": {"method": "ping"}}},
            "result.inputRequests['k'].method must be 'elicitation/create' or "
            "'roots/list' or 'sampling/createMessage', got 'ping'",
        ),
        (
            "tasks/get",
            {**SNAPSHOT, "status": "working", "resultType": "task"},
            "result.resultType must be 'complete', got 'task'",
        ),
        ("server/discover", {**SNAPSHOT, "resultType": "task"}, "result.supportedVersions is req"),
        (
            "tasks/get",
            {**SNAPSHOT, "status": "completed"},
            "result must have result, as its status is 'completed'",
        ),
        (
            "tasks/get",
            {**SNAPSHOT, "status": "failed"},
            "result must have error, as its status is 'failed'",
        ),
        (
            "tasks/get",
            {**SNAPSHOT, "status": "input_required"},
            "result must have inputRequests, as its status is 'input_required'",
        ),
        ("subscriptions/listen", {"_meta": {}}, "result._meta.subscriptionId is required"),
    ],
)
def test_a_wrong_answer_of_a_server_names_the_place(method: str, result: Any, reason: str) -> None:
    with pytest.raises(InvalidResult) as error:
        DIALECT.decode_result(method, ResultResponse(1, result))
    assert error.value.reason.startswith(reason)


# --- what a server shows ---------------------------------------------------------------------


def test_a_snapshot() -> None:
    assert shown(task(), poll_interval_ms=250) == {
        "resultType": "complete",
        "taskId": "t1",
        "status": "working",
        "createdAt": "2023-11-14T22:13:20.123Z",
        "lastUpdatedAt": "2023-11-14T22:13:20.123Z",
        "ttlMs": 60000,
        "pollIntervalMs": 250,
    }
    created = DIALECT.shapes.encode(receiver_2026_07_28.encode_created(task(), 250))
    assert created == {**shown(task(), poll_interval_ms=250), "resultType": "task"}


FORM = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}


def waiting() -> Task:
    questions = [
        Question("name", "elicitation/create", encode_json(FORM)),
        Question("idea", "sampling/createMessage", b'{"messages":[],"maxTokens":5}'),
    ]
    step = lifecycle.ask(task(), 1_700_000_000_200, questions)
    assert step is not None
    return step.task


@covers("2026-07-28:get-input-required-has-requests", "2026-07-28:input-requests-complete")
def test_open_questions_are_inlined() -> None:
    requests = shown(waiting())["inputRequests"]
    assert set(requests) == {"name", "idea"}
    assert requests["idea"] == {
        "method": "sampling/createMessage",
        "params": {"messages": [], "maxTokens": 5},
    }
    step = lifecycle.answer(waiting(), 1_700_000_000_300, {"name": Reply(b"{}")})
    assert step is not None
    assert set(shown(step.task)["inputRequests"]) == {"idea"}


@covers("2026-07-28:undeclared-capability-not-used")
def test_only_declared_kinds_of_questions_are_sent() -> None:
    reduced = shown(waiting(), answers=frozenset({"elicitation/create"}))
    assert set(reduced["inputRequests"]) == {"name"}
    assert reduced["statusMessage"] == "Waiting for answers to: sampling/createMessage"
    nothing = shown(waiting(), answers=frozenset())
    assert nothing["inputRequests"] == {}
    whole = shown(waiting(), answers=frozenset({"elicitation/create", "sampling/createMessage"}))
    assert "statusMessage" not in whole


@covers("2026-07-28:is-error-is-completed", "2026-07-28:failed-only-for-jsonrpc-errors")
def test_a_tool_error_is_a_completed_task() -> None:
    body = b'{"content":[],"isError":true}'
    done = lifecycle.complete(task(), 1_700_000_001_000, Outcome.of_result(body, is_error=True))
    result = shown(done.task)
    inlined = {"content": [], "isError": True, "resultType": "complete"}
    assert (result["status"], result["result"]) == ("completed", inlined)


@covers(
    "2026-07-28:error-is-underlying",
    "2026-07-28:reserved-codes-not-invented",
    "2026-07-28:old-codes-not-sent",
)
@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (Outcome.of_error(7, "no", b'{"x":1}'), {"code": 7, "message": "no", "data": {"x": 1}}),
        (Outcome.of_error(-32000, "no"), {"code": -32000, "message": "no"}),
        (Outcome.of_error(-32019, "no"), {"code": -32019, "message": "no"}),
        (Outcome.of_error(-32020, "no"), {"code": -32603, "message": "no"}),
        (Outcome.of_error(-32042, "no"), {"code": -32603, "message": "no"}),
        (Outcome.of_error(-32099, "no"), {"code": -32603, "message": "no"}),
        (Outcome.of_error(-32100, "no"), {"code": -32100, "message": "no"}),
        (Outcome.of_error(-32002, "no"), {"code": -32602, "message": "no"}),
        (Outcome(Cause.TIMED_OUT, message="slow"), {"code": -32603, "message": "slow"}),
        (Outcome(Cause.WORKER_LOST), {"code": -32603, "message": "Internal error"}),
    ],
)
def test_an_error_is_inlined_with_a_code_that_is_free_to_use(
    outcome: Outcome, error: dict[str, Any]
) -> None:
    result = shown(lifecycle.fail(task(), 1_700_000_001_000, outcome).task)
    assert (result["status"], result["error"]) == ("failed", error)


@covers("2026-07-28:get-cancelled", "2026-07-28:payload-matches-status")
def test_a_cancelled_task_has_nothing_to_show() -> None:
    result = shown(lifecycle.cancel(task(), 1_700_000_001_000, reason="enough").task)
    assert result["status"] == "cancelled"
    assert not {"result", "error", "inputRequests"} & set(result)


@covers("2026-07-28:internal-error-32603", "2026-07-28:header-mismatch-32020")
@pytest.mark.parametrize(
    ("error", "code", "words", "schema"),
    [
        (NotFound("t1"), -32602, "Failed to retrieve task: Task not found", "Error"),
        (HeaderMismatch("Mcp-Name is missing"), -32020, "Header mismatch: Mcp-Name", "Error"),
        (LimitExceeded("1000 live tasks", 5), -32603, "Limit reached: 1000 live tasks", "Error"),
        (MalformedMessage(-32600, "Invalid request: x"), -32600, "Invalid request: x", "Error"),
        (ZeroDivisionError("secret"), -32603, "Internal error", "Error"),
    ],
)
def test_error_table(error: Exception, code: int, words: str, schema: str) -> None:
    answer = DIALECT.encode_error(9, error).error
    assert answer.code == code
    assert answer.message.startswith(words)
    judge(g2.REVISION, schema).validate({"code": answer.code, "message": answer.message})


@covers("2026-07-28:missing-capability-names-extension", "2026-07-28:reserved-codes-as-defined")
@pytest.mark.parametrize(
    ("error", "schema"),
    [
        (MissingCapability(g2.TASKS_REQUIRED), "MissingRequiredClientCapabilityError"),
        (UnsupportedVersion("1", ["2026-07-28"]), "UnsupportedProtocolVersionError"),
        (HeaderMismatch("x"), "HeaderMismatchError"),
    ],
)
def test_errors_of_the_protocol_have_their_shape(error: Exception, schema: str) -> None:
    data = encode_message(DIALECT.encode_error(1, error))
    judge(g2.REVISION, schema).validate(json.loads(data))
