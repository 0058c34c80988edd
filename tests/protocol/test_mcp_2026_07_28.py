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
    MissingCapability,
)
from taskmachine.protocol.jsonrpc import Request, ResultResponse, encode_message
from taskmachine.statemachine import Call, LimitExceeded, NotFound, Outcome, Task, lifecycle
from tests.oracle import judge
from tests.protocol.memory_driver import OFFER
from tests.protocol.plain_2026_07_28 import CAPABILITIES_KEY, TASKS, VERSION_KEY
from tests.requirements import covers

DIALECT = g2.DIALECT

META = {VERSION_KEY: g2.REVISION, CAPABILITIES_KEY: TASKS}


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
        (None, " must be an object, got null"),
        ([], " must be an object, got array"),
        ({}, ".protocolVersion is required"),
        ({VERSION_KEY: "2026-07-28"}, ".clientCapabilities is required"),
        ({**META, VERSION_KEY: 5}, ".protocolVersion must be a string, got number"),
        ({**META, CAPABILITIES_KEY: None}, ".clientCapabilities must be an object, got null"),
        ({**META, "progressToken": []}, ".progressToken must be a string or an integer, got array"),
    ],
)
def test_a_request_with_missing_or_invalid_metadata_is_refused(meta: Any, reason: str) -> None:
    with pytest.raises(InvalidParams) as error:
        DIALECT.decode_request(Request(1, "tools/list", {"_meta": meta}))
    assert error.value.reason == f"params._meta{reason}"
    with pytest.raises(InvalidParams, match=r"params\._meta is required"):
        DIALECT.decode_request(Request(1, "tools/list", {}))


@covers("2026-07-28:one-sided-extension")
def test_requests_unrelated_to_tasks_do_not_require_the_extension() -> None:
    harmless: dict[str, Any] = {
        "tools/call": {"name": "greet"},
        "tools/list": {},
        "server/discover": {},
        "subscriptions/listen": {"notifications": {"toolsListChanged": True}},
    }
    for method, params in harmless.items():
        read(Request(1, method, {**params, "_meta": {**META, CAPABILITIES_KEY: {}}}))


IDS = {"taskId": "x", "name": "x"}


@covers("2026-07-28:informative-error-messages", "2026-07-28:input-responses-malformed-error")
@pytest.mark.parametrize(
    ("method", "params", "reason"),
    [
        ("tasks/get", {"taskId": 5}, "taskId must be a string, got number"),
        ("tasks/update", {}, "inputResponses is required"),
        ("tasks/update", {"inputResponses": []}, "inputResponses must be an object, got array"),
        (
            "tasks/update",
            {"inputResponses": {"k": 1}},
            "inputResponses['k'] must be an object, got number",
        ),
        ("subscriptions/listen", {}, "notifications is required"),
        (
            "subscriptions/listen",
            {"notifications": {"taskIds": [1]}},
            "notifications.taskIds[0] must be a string, got number",
        ),
        (
            "subscriptions/listen",
            {"notifications": {"toolsListChanged": 1}},
            "notifications.toolsListChanged must be a boolean, got number",
        ),
        ("tools/call", {"requestState": 1}, "requestState must be a string"),
    ],
)
def test_wrong_parameters_name_the_place(method: str, params: Any, reason: str) -> None:
    with pytest.raises(InvalidParams) as error:
        DIALECT.decode_request(Request(1, method, {**IDS, **params, "_meta": META}))
    assert error.value.reason.startswith(f"params.{reason}")


PAYLOADS = {"completed": "result", "failed": "error", "input_required": "inputRequests"}
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
        *(
            (
                "tasks/get",
                {**SNAPSHOT, "status": s},
                f"result must have {m}, as its status is '{s}'",
            )
            for s, m in PAYLOADS.items()
        ),
        ("subscriptions/listen", {"_meta": {}}, "result._meta.subscriptionId is required"),
    ],
)
def test_a_wrong_answer_of_a_server_names_the_place(method: str, result: Any, reason: str) -> None:
    with pytest.raises(InvalidResult) as error:
        DIALECT.decode_result(method, ResultResponse(1, result))
    assert error.value.reason.startswith(reason)


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


@covers("2026-07-28:internal-error-32603", "2026-07-28:header-mismatch-32020")
@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (NotFound("t1"), -32602, "Failed to retrieve task: Task not found"),
        (HeaderMismatch("Mcp-Name is missing"), -32020, "Header mismatch: Mcp-Name"),
        (LimitExceeded("1000 live tasks", 5), -32603, "Limit reached: 1000 live tasks"),
        (MalformedMessage(-32600, "Invalid request: x"), -32600, "Invalid request: x"),
        (ZeroDivisionError("secret"), -32603, "Internal error"),
    ],
)
def test_error_table(error: Exception, code: int, words: str) -> None:
    answer = DIALECT.encode_error(9, error).error
    assert answer.code == code
    assert answer.message.startswith(words)
    judge(g2.REVISION, "Error").validate({"code": answer.code, "message": answer.message})


@pytest.mark.parametrize("capabilities", [[], "tasks", 1])
def test_capabilities_that_are_no_object_declare_nothing(capabilities: Any) -> None:
    meta = {**META, CAPABILITIES_KEY: capabilities}
    with pytest.raises(MissingCapability):
        read(Request(1, "tasks/get", {"taskId": "x", "_meta": meta}))


@pytest.mark.parametrize("result", ['{"content":[],"_meta":{}}', '{"_meta":{},"content":[]}'])
def test_an_inlined_result_is_complete_wherever_its_content_stands(result: str) -> None:
    done = lifecycle.complete(task(), 1_700_000_000_456, Outcome.of_result(result.encode())).task
    assert shown(done)["result"] == {"resultType": "complete", "content": [], "_meta": {}}
