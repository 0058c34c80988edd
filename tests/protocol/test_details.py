"""Small things that no other test would miss: found by mutants of `protocol`."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from taskmachine.protocol import DIALECTS, Dialect
from taskmachine.protocol.dialects.mcp_2025_11_25 import messages as g1
from taskmachine.protocol.dialects.mcp_2026_07_28 import messages as g2
from taskmachine.protocol.dialects.mcp_2026_07_28 import receiver as receiver_2026_07_28
from taskmachine.protocol.dialects.mcp_2026_07_28.headers import (
    check_headers,
    headers_of,
    mirrored_parameters,
)
from taskmachine.protocol.dialects.receiver import Session
from taskmachine.protocol.errors import (
    AlreadyEnded,
    HeaderMismatch,
    InvalidParams,
    InvalidResult,
    MalformedMessage,
    MethodNotFound,
    MissingCapability,
    TaskSupportMismatch,
    UnsupportedVersion,
)
from taskmachine.protocol.jsonrpc import (
    Error,
    Notification,
    Request,
    ResultResponse,
    decode_message,
    encode_message,
    json_type,
)
from taskmachine.protocol.jsonvalue import MAX_BYTES, MAX_DEPTH, decode_json, encode_json
from taskmachine.protocol.offer import Offer
from taskmachine.statemachine import (
    Call,
    Cause,
    Outcome,
    Question,
    Task,
    TaskmachineError,
    lifecycle,
)
from tests.oracle import judge


def task() -> Task:
    call = Call("tools/call", "greet")
    step = lifecycle.submit("t1", "alice", call, 1_700_000_000_123, ttl_ms=60_000)
    return lifecycle.start(step.task, 1_700_000_000_123, worker="w").task


def ended(outcome: Outcome) -> Task:
    return lifecycle.complete(task(), 1_700_000_001_000, outcome).task


@pytest.mark.parametrize(
    "data",
    [
        b'{"jsonrpc":"2.0","id":3}',
        b'{"jsonrpc":"2.0","id":3,"result":[]}',
        b'{"jsonrpc":"2.0","id":3,"error":5}',
        b'{"jsonrpc":"2.0","id":3,"error":{"code":"1","message":"x"}}',
        b'{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":5}}',
    ],
)
def test_the_id_of_a_broken_response_is_kept_too(data: bytes) -> None:
    with pytest.raises(MalformedMessage) as error:
        decode_message(data)
    assert error.value.id == 3


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"code":"1","message":"x"}', "error.code must be an integer, got string"),
        (b'{"code":1,"message":5}', "error.message must be a string, got number"),
    ],
)
def test_the_refusal_of_a_malformed_error_names_the_actual_type(body: bytes, reason: str) -> None:
    with pytest.raises(MalformedMessage) as error:
        decode_message(b'{"jsonrpc":"2.0","id":1,"error":' + body + b"}")
    assert (error.value.code, error.value.reason) == (-32600, f"Invalid request: {reason}")


def test_a_string_of_brackets_alone_has_no_depth() -> None:
    words = "[" * (MAX_DEPTH + 1)
    assert decode_json(encode_json(words)) == words


def test_siblings_at_the_largest_depth_are_not_too_deep() -> None:
    outer = MAX_DEPTH - 1
    decode_json(b"[" * outer + b"[],{}" + b"]" * outer)
    with pytest.raises(ValueError, match="nested deeper than 128"):
        decode_json(b"[" * outer + b"[],[[]]" + b"]" * outer)


@pytest.mark.parametrize("sibling", [b"[],", b"{},"])
def test_closed_siblings_do_not_change_the_nesting_limit(sibling: bytes) -> None:
    before = b"[" + sibling * 200
    decode_json(before + b"[" * (MAX_DEPTH - 1) + b"]" * MAX_DEPTH)
    with pytest.raises(ValueError, match="nested deeper than 128"):
        decode_json(before + b"[" * MAX_DEPTH + b"]" * (MAX_DEPTH + 1))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("", "string"),
        (1, "number"),
        (1.5, "number"),
        (True, "boolean"),
        ({}, "object"),
        ([], "array"),
        (None, "null"),
        (b"", "bytes"),
    ],
)
def test_json_type_returns_the_json_name_of_a_type_if_it_has_one(value: Any, name: str) -> None:
    assert json_type(value) == name


def test_a_message_of_the_largest_size_is_read() -> None:
    assert MAX_BYTES == 4 * 1024 * 1024
    assert decode_json(b" " * (MAX_BYTES - 2) + b"{}") == {}


@pytest.mark.parametrize("spoken", [d.messages for d in DIALECTS.values()], ids=DIALECTS)
def test_an_unknown_method_is_named_in_the_answer(spoken: Dialect) -> None:
    attempts: list[Callable[[], object]] = [
        lambda: spoken.decode_request(Request(1, "no/such", {})),
        lambda: spoken.decode_notification(Notification("no/such")),
    ]
    for decode in attempts:
        with pytest.raises(MethodNotFound) as error:
            decode()
        answer = spoken.encode_error(1, error.value).error
        assert answer == Error(-32601, "Method not found: no/such")


@pytest.mark.parametrize(
    ("error", "fields", "words"),
    [
        (
            MalformedMessage(-32600, "Invalid request: x", 7),
            {"code": -32600, "reason": "Invalid request: x", "id": 7},
            "Invalid request: x",
        ),
        (MethodNotFound("no/such"), {"method": "no/such"}, "unknown method 'no/such'"),
        (InvalidParams("params is x"), {"reason": "params is x"}, "params is x"),
        (
            InvalidResult("tasks/get", "result is x"),
            {"method": "tasks/get", "reason": "result is x"},
            "invalid answer to tasks/get: result is x",
        ),
        (
            MissingCapability({"roots": {}}),
            {"required": {"roots": {}}},
            "the client did not declare {'roots': {}}",
        ),
        (
            UnsupportedVersion("1900", ["2026-07-28"]),
            {"requested": "1900", "supported": ("2026-07-28",)},
            "protocol version '1900' is not among ['2026-07-28']",
        ),
        (HeaderMismatch("Mcp-Name is x"), {"reason": "Mcp-Name is x"}, "Mcp-Name is x"),
        (
            TaskSupportMismatch("greet", "required"),
            {"tool": "greet", "support": "required"},
            "task support of tool 'greet' is 'required'",
        ),
        (AlreadyEnded("failed"), {"status": "failed"}, "the task is already failed"),
    ],
)
def test_an_error_carries_its_fields_and_says_them(
    error: TaskmachineError, fields: dict[str, object], words: str
) -> None:
    assert vars(error) == fields
    assert str(error) == words


def test_a_wrong_value_is_not_taken_for_a_place() -> None:
    odd = {"taskId": "x", "status": "a @ b", "createdAt": "", "lastUpdatedAt": "", "ttl": None}
    with pytest.raises(InvalidResult) as error:
        g1.DIALECT.decode_result("tasks/get", ResultResponse(1, odd))
    assert error.value.reason.startswith("result.status must be 'cancelled' or ")
    assert error.value.reason.endswith(", got 'a @ b'")


@pytest.mark.parametrize("number", [-1, 2**53])
def test_only_durations_have_bounds(number: int) -> None:
    params = {"messages": [], "maxTokens": number}
    request = Request(1, "sampling/createMessage", params)
    assert g1.DIALECT.decode_request(request, sender="server").maxTokens == number


def test_the_answer_to_the_call_is_the_task_inside_an_object() -> None:
    created = g1.DIALECT.shapes.encode(g1.encode_created(task(), 250))
    assert created == {"task": g1.DIALECT.shapes.encode(g1.encode_task(task(), 250))}
    judge(g1.REVISION, "CreateTaskResult").validate(created)


def test_a_result_without_meta_gets_related_task() -> None:
    shown = g1.encode_outcome(ended(Outcome.of_result(b'{"content":[]}')))
    assert shown == g1.TaskPayload(g1.related_task("t1"), {"content": []})


def test_an_error_without_words_has_none() -> None:
    failed = lifecycle.fail(task(), 2, Outcome(Cause.ERROR, code=7)).task
    assert g1.encode_outcome(failed) == Error(7, "")


def test_a_question_without_meta_is_tied_to_its_task() -> None:
    question = Question("k", "elicitation/create", b'{"message":"?"}')
    request = g1.encode_question("q1", task(), question)
    assert request.params["message"] == "?"
    assert request.params["_meta"][g1.RELATED_TASK] == {"taskId": "t1"}


FORM = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}


def waiting() -> Task:
    questions = [
        Question("name", "elicitation/create", encode_json(FORM)),
        Question("idea", "sampling/createMessage", b'{"messages":[],"maxTokens":5}'),
    ]
    step = lifecycle.ask(task(), 1_700_000_000_200, questions)
    assert step is not None
    return step.task


def pushed(task: Task, **options: Any) -> dict[str, Any]:
    status = receiver_2026_07_28.encode_status(task, "s1", **options)
    message: dict[str, Any] = json.loads(encode_message(g2.DIALECT.encode_notification(status)))
    judge(g2.REVISION, "TaskStatusNotification").validate(message)
    assert message["method"] == "notifications/tasks"
    params: dict[str, Any] = message["params"]
    return params


@pytest.mark.parametrize("capabilities", [[], "tasks", 1])
def test_capabilities_that_are_no_object_declare_nothing(capabilities: Any) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }
    request = Request(1, "tasks/get", {"taskId": "x", "_meta": meta})
    with pytest.raises(MissingCapability):
        receiver_2026_07_28.RECEIVER.read(request, Session(Offer({})))


def test_a_notification_names_its_subscription() -> None:
    assert pushed(task())["_meta"] == {"io.modelcontextprotocol/subscriptionId": "s1"}


@pytest.mark.parametrize("answers", [None, frozenset(), frozenset({"elicitation/create"})])
def test_an_encoded_notification_equals_the_poll_of_the_same_client(
    answers: frozenset[str] | None,
) -> None:
    polled = receiver_2026_07_28.encode_task(waiting(), 250, answers=answers)
    result = json.loads(encode_message(g2.DIALECT.encode_response(1, polled)))["result"]
    body = pushed(waiting(), poll_interval_ms=250, answers=answers)
    del body["_meta"], result["resultType"]
    assert body == result


def test_every_kind_of_question_that_is_not_sent_is_named() -> None:
    seen = receiver_2026_07_28.encode_task(waiting(), answers=frozenset())
    assert seen.statusMessage == (
        "Waiting for answers to: elicitation/create, sampling/createMessage"
    )


META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


def request(method: str = "tasks/get", **params: Any) -> Request:
    return Request(1, method, {"_meta": META, **params})


def call(**arguments: Any) -> Request:
    return request("tools/call", name="sql", arguments=arguments)


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def marked(name: Any, kind: Any = "string") -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": name}


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (schema(a=schema(b=marked("a b"))), "x-mcp-header of 'a.b' is not a header name"),
        (
            schema(a=schema(b=marked("A", "array"))),
            "x-mcp-header of 'a.b' needs type string, integer or boolean",
        ),
        (schema(a=marked("A"), b=schema(c=marked("a"))), "x-mcp-header 'a' is used twice"),
        (
            {"$defs": {"x": marked("A")}, **schema(a={"type": "array", "items": marked("B")})},
            "x-mcp-header is only allowed on properties nested in `properties`",
        ),
    ],
)
def test_a_mark_against_the_rules_is_named_by_its_place(broken: Any, reason: str) -> None:
    with pytest.raises(ValueError, match="x-mcp-header") as error:
        mirrored_parameters(broken)
    assert str(error.value) == reason


@pytest.mark.parametrize(
    "header",
    [
        {"Mcp-Method": "=?base64?dGFza3MvZ2V0?="},
        {"MCP-Protocol-Version": "=?base64?MjAyNi0wNy0yOA==?="},
    ],
)
def test_only_names_and_parameters_may_come_in_base64(header: dict[str, str]) -> None:
    headers = {**headers_of(request(taskId="t1")), **header}
    with pytest.raises(HeaderMismatch, match="differs from the body"):
        check_headers(headers.items(), request(taskId="t1"))


def test_a_long_header_is_not_repeated_in_full() -> None:
    headers = {**headers_of(request(taskId="t1")), "Mcp-Name": "x" * 1000}
    with pytest.raises(HeaderMismatch) as error:
        check_headers(headers.items(), request(taskId="t1"))
    assert error.value.reason == f"Mcp-Name is '{'x' * 80}', which differs from the body"


def test_mirrored_text_keeps_its_case() -> None:
    mirrored = mirrored_parameters(schema(region=marked("Region")))
    headers = headers_of(call(region="US-West"), mirrored)
    assert headers["Mcp-Param-Region"] == "US-West"
    check_headers(headers.items(), call(region="US-West"), mirrored)
    with pytest.raises(HeaderMismatch):
        check_headers(headers.items(), call(region="us-west"), mirrored)


@pytest.mark.parametrize("count", [2**53 - 1, -(2**53 - 1)])
def test_the_largest_safe_integer_can_be_mirrored(count: int) -> None:
    mirrored = mirrored_parameters(schema(count=marked("Count", "integer")))
    sent = headers_of(call(count=count), mirrored)
    assert sent["Mcp-Param-Count"] == str(count)
    check_headers(sent.items(), call(count=count), mirrored)
    beyond = count + (1 if count > 0 else -1)
    with pytest.raises(HeaderMismatch):
        check_headers(
            {**sent, "Mcp-Param-Count": str(beyond)}.items(), call(count=beyond), mirrored
        )
