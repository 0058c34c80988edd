"""What 2026-07-28 and its tasks demand of a client.  The server is played by hand, in JSON."""

import json
from itertools import count
from typing import Any

import pytest

from taskmachine.protocol.dialects.mcp_2026_07_28 import messages as g2
from taskmachine.protocol.dialects.mcp_2026_07_28 import requestor as requestor_2026_07_28
from taskmachine.protocol.dialects.mcp_2026_07_28.headers import headers_of
from taskmachine.protocol.errors import InvalidResult
from taskmachine.protocol.jsonrpc import Request, ResultResponse, decode_message
from taskmachine.protocol.outputs import Asked, Finished, Send
from taskmachine.protocol.requestor import Output, Requestor
from taskmachine.statemachine import Call, Cause, Reply
from tests.oracle import judge
from tests.protocol.plain_2026_07_28 import (
    ACCEPTED,
    FORM,
    RESULT,
    REVISION,
    SAMPLING,
    SUBSCRIPTION_KEY,
    on_the_wire,
)
from tests.requirements import covers

INFO = {"name": "client", "version": "1"}
SCHEMAS = {
    "tools/call": "CallToolRequest",
    "tasks/get": "GetTaskRequest",
    "tasks/update": "UpdateTaskRequest",
    "tasks/cancel": "CancelTaskRequest",
}
SNAPSHOT: dict[str, Any] = {
    "taskId": "t-1",
    "createdAt": "2026-01-01T00:00:00Z",
    "lastUpdatedAt": "2026-01-01T00:00:00Z",
    "ttlMs": None,
    "pollIntervalMs": 1_000,
}
CREATED = {**SNAPSHOT, "status": "working", "resultType": "task"}
WORKING = {**SNAPSHOT, "status": "working", "resultType": "complete"}
COMPLETED = {**WORKING, "status": "completed", "result": RESULT}
ACKNOWLEDGED = {"resultType": "complete"}
CACHED = {"ttlMs": 0, "cacheScope": "public"}


def waiting(*keys: str) -> dict[str, Any]:
    requests = {key: {"method": "elicitation/create", "params": FORM} for key in keys}
    return {**WORKING, "status": "input_required", "inputRequests": requests}


def paused(*keys: str, **rest: Any) -> dict[str, Any]:
    requests = {key: {"method": "elicitation/create", "params": FORM} for key in keys}
    return {"resultType": "input_required", **({"inputRequests": requests} if keys else {}), **rest}


class Client:
    """A requestor whose messages are checked and parsed as JSON."""

    def __init__(self) -> None:
        capabilities: dict[str, Any] = {
            "elicitation": {},
            "sampling": {},
            "extensions": {"com.example/x": {}},
        }
        ids = count(1)
        dialect = requestor_2026_07_28.Requestor2026(capabilities, INFO)
        self.requestor = Requestor(dialect, new_id=lambda: next(ids))
        self.now = 1_000_000
        self.sent: list[Any] = []
        self.outputs: list[Output] = []

    def _take(self, outputs: list[Output]) -> list[Any]:
        self.outputs += outputs
        sent = [on_the_wire(output.message) for output in outputs if isinstance(output, Send)]
        for message in sent:
            if message.get("method") in SCHEMAS:
                judge(REVISION, SCHEMAS[message["method"]]).validate(message)
        self.sent += sent
        return sent

    def call(self, name: str = "call", tool: str = "greet", arguments: bytes = b"{}") -> Any:
        (request,) = self._take(
            self.requestor.start(name, Call("tools/call", tool, arguments), now=self.now)
        )
        assert request["method"] == "tools/call"
        return request

    def respond(self, request: Any, result: Any) -> list[Any]:
        return self.hear({"id": request["id"], "result": result})

    def refuse(self, request: Any, code: int, **error: Any) -> list[Any]:
        body = {"code": code, "message": "no", **error}
        return self.hear({"id": request["id"], "error": body})

    def hear(self, message: Any) -> list[Any]:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        return self._take(self.requestor.receive(decode_message(data), now=self.now))

    def answer(self, key: str, body: Any = ACCEPTED, name: str = "call") -> list[Any]:
        reply = Reply(json.dumps(body).encode())
        return self._take(self.requestor.answer(name, key, reply, now=self.now))

    def cancel(self, name: str = "call") -> list[Any]:
        return self._take(self.requestor.cancel(name, now=self.now))

    def wait(self) -> list[Any]:
        due = self.requestor.next_tick()
        assert due is not None, "it has nothing more to do"
        self.now = max(self.now, due)
        return self._take(self.requestor.tick(self.now))

    def poll(self) -> Any:
        (request,) = self.wait()
        assert request["method"] == "tasks/get"
        return request

    @property
    def asked(self) -> list[str]:
        return [output.key for output in self.outputs if isinstance(output, Asked)]

    @property
    def finished(self) -> list[Finished]:
        return [output for output in self.outputs if isinstance(output, Finished)]

    def outcome(self) -> Any:
        (end,) = self.finished
        if end.outcome.result is not None:
            return json.loads(end.outcome.result)
        return end.outcome.code if end.outcome.cause is Cause.ERROR else end.outcome.cause


def with_task(client: Client, created: Any = CREATED) -> Any:
    assert client.respond(client.call(), created) == []
    return client.poll()


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def poll(client: Client) -> Any:
    return with_task(client)


@covers(
    "2026-07-28:client-declares-per-request",
    "2026-07-28:extension-identifier",
    "2026-07-28:capability-empty-object",
    "2026-07-28:meta-required-fields",
    "2026-07-28:client-info-sent",
    "2026-07-28:elicitation-declared",
    "2026-07-28:sampling-declared",
    "2026-07-28:client-uses-task-id",
    "2026-07-28:request-id-type",
    "2026-07-28:request-id-not-null",
    "2026-07-28:jsonrpc-2-0",
    "2026-07-28:meta-prefix-format",
    "2026-07-28:meta-label-format",
    "2026-07-28:meta-name-format",
    "2026-07-28:meta-prefix-reserved",
    "2026-07-28:http-metadata-headers",
    "2026-07-28:http-version-header",
    "2026-07-28:http-version-header-matches",
    "2026-07-28:mcp-method-header",
    "2026-07-28:mcp-name-header",
    "2026-07-28:mcp-name-is-task-id",
    "2026-07-28:mcp-method-is-method",
    "2026-07-28:tools-call-headers-built",
)
def test_every_request_declares_the_client_info_and_capabilities(client: Client, poll: Any) -> None:
    client.respond(poll, waiting("name"))
    client.answer("name")
    client.cancel()
    assert [sent["method"] for sent in client.sent] == [*SCHEMAS]
    for sent in client.sent:
        meta = sent["params"]["_meta"]
        assert meta == {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": INFO,
            "io.modelcontextprotocol/clientCapabilities": {
                "elicitation": {},
                "sampling": {},
                "extensions": {"com.example/x": {}, "io.modelcontextprotocol/tasks": {}},
            },
        }
        assert type(sent["id"]) in (int, str)
        assert sent["params"].get("taskId", "t-1") == "t-1"
        headers = headers_of(Request(sent["id"], sent["method"], sent["params"]))
        assert headers == {
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": sent["method"],
            "Mcp-Name": sent["params"].get("taskId", "greet"),
        }


@covers("2026-07-28:request-id-not-in-use")
def test_ids_of_requests_in_flight_all_differ(client: Client) -> None:
    calls = [client.call(f"call-{n}") for n in range(20)]
    for n, call in enumerate(calls[:10]):
        client.respond(call, {**CREATED, "taskId": f"t-{n}"})
    client.wait()
    assert len({sent["id"] for sent in client.sent}) == len(client.sent) == 30


@covers("2026-07-28:mcp-name-encoded", "2026-07-28:header-sentinel-lookalike-encoded")
@pytest.mark.parametrize(
    ("task_id", "header"),
    [
        ("t-é", "=?base64?dC3DqQ==?="),
        (" t ", "=?base64?IHQg?="),
        ("=?base64?dA==?=", "=?base64?PT9iYXNlNjQ/ZEE9PT89?="),
    ],
)
def test_a_task_id_that_no_header_can_carry_is_encoded(
    client: Client, task_id: str, header: str
) -> None:
    poll = with_task(client, {**CREATED, "taskId": task_id})
    assert poll["params"]["taskId"] == task_id
    headers = headers_of(Request(poll["id"], poll["method"], poll["params"]))
    assert headers["Mcp-Name"] == header


@covers("2026-07-28:x-mcp-header-safe-integers")
@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_that_is_not_safe_is_sent_in_no_header(client: Client, sign: int) -> None:
    for number in (2**53 - 1, 2**53):
        call = client.call(str(number), arguments=json.dumps({"n": sign * number}).encode())
        request = Request(call["id"], call["method"], call["params"])
        if number < 2**53:
            assert headers_of(request, {"N": ("n",)})["Mcp-Param-N"] == str(sign * number)
        else:
            with pytest.raises(ValueError, match="beyond the safe integers"):
                headers_of(request, {"N": ("n",)})


@covers("2026-07-28:client-handles-both-results", "2026-07-28:absent-result-type-is-complete")
@pytest.mark.parametrize("plain", [{**RESULT, "resultType": "complete"}, RESULT])
def test_a_plain_result_and_a_task_end_the_same_way(plain: Any) -> None:
    client, other = Client(), Client()
    client.respond(client.call(), plain)
    other.respond(with_task(other), COMPLETED)
    assert client.outcome() == other.outcome() == RESULT
    assert client.requestor.next_tick() is None
    assert other.requestor.next_tick() is None


@covers("2026-07-28:seed-status", "2026-07-28:client-handles-both-results")
@pytest.mark.parametrize("seed", ["working", "input_required", "completed", "failed", "cancelled"])
def test_whatever_the_first_status_is_the_outcome_is_polled_for(client: Client, seed: str) -> None:
    poll = with_task(client, {**CREATED, "status": seed})
    client.respond(poll, COMPLETED)
    assert client.outcome() == RESULT


@covers("2026-07-28:task-for-unsupported-request-invalid")
@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("server/discover", {"supportedVersions": [], "capabilities": {}, **CACHED}),
        ("tools/list", {"tools": [], **CACHED}),
        ("tasks/get", {}),
        ("tasks/update", {}),
        ("tasks/cancel", {}),
        ("subscriptions/listen", {"_meta": {SUBSCRIPTION_KEY: 1}}),
    ],
)
def test_a_task_in_answer_to_anything_but_a_call_is_invalid(method: str, body: Any) -> None:
    result = {**SNAPSHOT, "status": "working", **body}
    g2.DIALECT.decode_result(method, ResultResponse(1, {**result, "resultType": "complete"}))
    with pytest.raises(InvalidResult):
        g2.DIALECT.decode_result(method, ResultResponse(1, {**result, "resultType": "task"}))


@covers("2026-07-28:unknown-result-type-invalid")
@pytest.mark.parametrize("kind", ["nonsense", "Task", "", 5])
def test_an_unknown_kind_of_result_is_an_error(client: Client, kind: Any) -> None:
    client.respond(client.call(), {**RESULT, **CREATED, "resultType": kind})
    assert client.outcome() == -32603
    assert client.requestor.next_tick() is None, "nothing is polled"


@covers("2026-07-28:result-any-object", "2026-07-28:meta-no-assumptions")
def test_unknown_members_of_results_are_tolerated() -> None:
    more = {"com.example": [1], "_meta": {"io.modelcontextprotocol/unheard-of": {}, "": 1}}
    client = Client()
    poll = with_task(client, {**CREATED, **more})
    assert client.respond(poll, {**waiting("name"), **more}) == []
    assert client.asked == ["name"]
    (update,) = client.answer("name")
    client.respond(update, {**ACKNOWLEDGED, **more})
    client.respond(client.poll(), {**COMPLETED, **more})
    assert client.outcome() == RESULT


@covers(
    "2026-07-28:legacy-codes-without-meaning", "2026-07-28:client-retries-with-supported-version"
)
@pytest.mark.parametrize("code", [-32000, -32001, -32002, -32019, -32022, -32603, 7])
def test_an_error_ends_the_call_as_that_error(client: Client, code: int) -> None:
    data = {"supported": ["2099-01-01"], "requested": REVISION}
    assert client.refuse(client.call(), code, data=data) == []
    assert client.outcome() == code
    (end,) = client.finished
    assert end.outcome.data is not None
    assert json.loads(end.outcome.data) == data, "the caller can see the protocol version"


@covers("2026-07-28:legacy-codes-without-meaning")
@pytest.mark.parametrize("code", [-32000, -32001, -32004, -32603])
def test_a_poll_that_fails_for_unknown_reasons_is_made_again(
    client: Client, poll: Any, code: int
) -> None:
    assert client.refuse(poll, code) == []
    client.respond(client.poll(), COMPLETED)
    assert client.outcome() == RESULT


@covers(
    "2026-07-28:poll-until-terminal",
    "2026-07-28:poll-interval-respected",
    "2026-07-28:poll-interval-may-change",
    "2026-07-28:ttl-ms-may-change",
)
@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_the_client_polls_at_the_latest_interval_until_the_task_ends(
    client: Client, poll: Any, end: str
) -> None:
    for interval in (2_000, 500, 7_000, 500):
        client.respond(poll, {**WORKING, "pollIntervalMs": interval, "ttlMs": interval})
        before = client.now
        poll = client.poll()
        assert client.now - before == interval
    payload = {"completed": {"result": RESULT}, "failed": {"error": {"code": 7, "message": "no"}}}
    client.respond(poll, {**WORKING, "status": end, **payload.get(end, {})})
    assert client.outcome() == {"completed": RESULT, "failed": 7}.get(end, Cause.CANCELLED)
    assert client.requestor.next_tick() is None


@covers("2026-07-28:poll-beside-notifications", "2026-07-28:notification-is-whole-task")
def test_a_notification_is_as_good_as_a_poll(client: Client) -> None:
    with_task(client)
    params = {**COMPLETED, "_meta": {SUBSCRIPTION_KEY: 9}}
    del params["resultType"]
    assert client.hear({"method": "notifications/tasks", "params": params}) == []
    assert client.outcome() == RESULT


@covers("2026-07-28:notification-not-answered", "2026-07-28:client-sends-no-responses")
@pytest.mark.parametrize(
    "message",
    [
        {"method": "nonsense"},
        {"method": "notifications/tasks", "params": {"taskId": 5}},
        {"method": "notifications/tasks", "params": {**WORKING, "taskId": "unknown"}},
        {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}},
        {"method": "notifications/message", "params": {"level": "info", "data": 1}},
        {"id": 77, "result": {}},
        {"error": {"code": 1, "message": "x"}},
    ],
)
def test_the_client_does_not_answer_unexpected_messages(
    client: Client, poll: Any, message: Any
) -> None:
    assert client.hear(message) == []
    client.respond(poll, COMPLETED)
    assert client.outcome() == RESULT


@covers(
    "2026-07-28:client-answers-questions",
    "2026-07-28:client-inspects-input-requests",
    "2026-07-28:client-observes-after-update",
    "2026-07-28:questions-deduplicated",
    "2026-07-28:answer-once",
    "2026-07-28:update-ack-before-effect",
    "2026-07-28:elicitation-no-mode-is-form",
)
def test_a_question_is_asked_once_and_answered_once(client: Client, poll: Any) -> None:
    for _ in range(3):  # shown in several polls before it is answered
        client.respond(poll, waiting("a", "b"))
        poll = client.poll()
    assert client.asked == ["a", "b"]
    (update,) = client.answer("a")
    assert update["params"]["inputResponses"] == {"a": ACCEPTED}
    assert update["params"]["taskId"] == "t-1"
    assert client.answer("a", {"action": "decline"}) == []
    client.respond(update, ACKNOWLEDGED)
    for _ in range(3):  # and after the answer, as the server may be slow
        client.respond(poll, waiting("a", "b"))
        poll = client.poll()
    assert client.asked == ["a", "b"]
    updates = [sent for sent in client.sent if sent["method"] == "tasks/update"]
    assert len(updates) == 1
    client.respond(poll, COMPLETED)
    assert client.outcome() == RESULT


@covers("2026-07-28:elicitation-no-mode-is-form", "2026-07-28:client-inspects-input-requests")
def test_the_client_passes_each_question_to_the_caller_unchanged(client: Client, poll: Any) -> None:
    no_mode = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    requests = {
        "a": {"method": "elicitation/create", "params": no_mode},
        "b": {"method": "sampling/createMessage", "params": SAMPLING},
        "c": {"method": "roots/list"},
    }
    client.respond(poll, {**WORKING, "status": "input_required", "inputRequests": requests})
    asked = [(o.key, o.method, o.params) for o in client.outputs if isinstance(o, Asked)]
    assert asked == [
        ("a", "elicitation/create", no_mode),
        ("b", "sampling/createMessage", SAMPLING),
        ("c", "roots/list", {}),
    ]


@covers(
    "2026-07-28:cancelled-notification-not-for-tasks",
    "2026-07-28:cancel-status-may-lag",
    "2026-07-28:cancel-may-lose",
)
@pytest.mark.parametrize("end", ["cancelled", "completed"])
def test_the_client_sends_tasks_cancel_and_accepts_any_terminal_status(
    client: Client, poll: Any, end: str
) -> None:
    (cancel,) = client.cancel()
    assert (cancel["method"], cancel["params"]["taskId"]) == ("tasks/cancel", "t-1")
    client.respond(cancel, ACKNOWLEDGED)
    client.respond(poll, WORKING)
    last = COMPLETED if end == "completed" else {**WORKING, "status": "cancelled"}
    client.respond(client.poll(), last)
    assert client.outcome() == (RESULT if end == "completed" else Cause.CANCELLED)
    assert "notifications/cancelled" not in {sent["method"] for sent in client.sent}


@covers("2026-07-28:cancellation-races-handled", "2026-07-28:cancelled-still-running")
def test_a_cancel_that_crosses_the_create_answer_reaches_the_task(client: Client) -> None:
    call = client.call()
    client.cancel()
    (cancel,) = client.respond(call, CREATED)
    assert (cancel["method"], cancel["params"]["taskId"]) == ("tasks/cancel", "t-1")


@covers(
    "2026-07-28:late-response-ignored",
    "2026-07-28:cancellation-races-handled",
    "2026-07-28:request-timeouts",
)
@pytest.mark.parametrize("late", [{**RESULT, "resultType": "complete"}, CREATED])
def test_an_answer_to_a_call_that_was_given_up_is_ignored(client: Client, late: Any) -> None:
    call = client.call()
    client.wait()
    assert client.outcome() == -32603
    assert client.respond(call, late) == []
    assert len(client.finished) == 1


ARGUMENTS = b'{"city":"New York"}'


@covers(
    "2026-07-28:mrtr-client-builds-answers",
    "2026-07-28:request-state-echoed",
    "2026-07-28:request-state-opaque",
    "2026-07-28:retry-new-id",
    "2026-07-28:answers-only-for-retry",
)
@pytest.mark.parametrize("state", ["s", "", ' {"a": 1}\n', "ü" * 5_000, "=?base64?x?="])
def test_a_paused_call_comes_again_with_all_answers_and_its_state(
    client: Client, state: str
) -> None:
    first = client.call(arguments=ARGUMENTS)
    assert client.respond(first, paused("a", "b", requestState=state)) == []
    assert client.asked == ["a", "b"]
    assert client.answer("a") == [], "one answer is missing"
    parallel = client.call("parallel")
    (again,) = client.answer("b", {"action": "decline"})
    assert again["params"]["inputResponses"] == {"a": ACCEPTED, "b": {"action": "decline"}}
    assert again["params"]["requestState"] == state
    assert again["id"] != first["id"]
    for member in ("name", "arguments", "_meta"):
        assert again["params"][member] == first["params"][member]
    for other in (first, parallel, client.call("later")):
        assert not {"inputResponses", "requestState"} & other["params"].keys()
    client.respond(again, {**RESULT, "resultType": "complete"})
    assert client.outcome() == RESULT


@covers("2026-07-28:no-invented-request-state", "2026-07-28:mrtr-may-ask-again")
def test_each_round_sends_the_state_of_the_round_before(client: Client) -> None:
    request = client.call()
    for state in ("one", None, "three"):
        rest = {} if state is None else {"requestState": state}
        client.respond(request, paused("a", **rest))
        (request,) = client.answer("a", {"action": "accept", "content": {"state": str(state)}})
        assert request["params"].get("requestState") == state
        assert ("requestState" in request["params"]) == (state is not None)
    assert client.asked == ["a", "a", "a"], "each round asks again"


@covers("2026-07-28:mrtr-immediate-retry", "2026-07-28:request-state-echoed")
def test_the_client_immediately_retries_a_call_paused_without_questions(client: Client) -> None:
    first = client.call()
    (again,) = client.respond(first, paused(requestState="s"))
    assert again["params"]["requestState"] == "s"
    assert "inputResponses" not in again["params"]
    assert again["id"] != first["id"]


@covers("2026-07-28:response-keys-outstanding")
def test_the_client_does_not_send_an_answer_to_a_closed_question(client: Client) -> None:
    client.respond(with_task(client), waiting("a", "b"))
    client.respond(client.poll(), waiting("b"))  # withdrawn, or answered elsewhere
    assert client.answer("a") == []
    (update,) = client.answer("b")
    assert update["params"]["inputResponses"] == {"b": ACCEPTED}


@covers("2026-07-28:stdio-no-responses", "2026-07-28:client-sends-no-responses")
def test_a_request_of_a_server_is_not_answered(client: Client, poll: Any) -> None:
    assert client.hear({"id": 5, "method": "elicitation/create", "params": FORM}) == []
    client.respond(poll, COMPLETED)
    assert client.outcome() == RESULT


@covers(
    "2026-07-28:client-sends-cancelled",
    "2026-07-28:stdio-cancelled-notification",
    "2026-07-28:cancelled-own-request",
    "2026-07-28:cancelled-still-running",
    "2026-07-28:timeout-cancels",
)
@pytest.mark.parametrize("how", ["timeout", "cancel"])
def test_a_call_that_is_given_up_before_its_answer_is_cancelled(client: Client, how: str) -> None:
    client.respond(client.call("other"), {**RESULT, "resultType": "complete"})
    call = client.call()
    (told,) = client.wait() if how == "timeout" else client.cancel()
    judge(REVISION, "CancelledNotification").validate(told)
    assert told["params"]["requestId"] == call["id"]


def test_a_paused_call_has_nothing_to_do_after_a_broken_connection(client: Client) -> None:
    client.respond(client.call(), paused("a", requestState="s"))
    client.requestor.disconnected(now=client.now)
    assert client.requestor.tick(client.now) == []
    assert client.requestor.next_tick() is None, "otherwise the driver would never wait"


@covers("2026-07-28:key-scope-is-task", "2026-07-28:answers-only-for-retry")
def test_a_paused_call_may_become_a_task_that_asks_the_same_key_again(client: Client) -> None:
    client.respond(client.call(), paused("name"))
    (again,) = client.answer("name")
    client.respond(again, CREATED)
    client.respond(client.poll(), waiting("name"))
    assert client.asked == ["name", "name"]
    (update,) = client.answer("name", {"action": "decline"})
    assert update["method"] == "tasks/update"
    assert update["params"]["inputResponses"] == {"name": {"action": "decline"}}
