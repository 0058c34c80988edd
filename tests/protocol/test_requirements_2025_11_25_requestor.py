"""What 2025-11-25 demands of a requestor, seen on the wire."""

import json
from typing import Any

import pytest

from taskmachine.protocol.dialects.mcp_2025_11_25.requestor import Requestor2025
from taskmachine.protocol.outputs import Asked, Changed, Finished, Moved
from taskmachine.statemachine import Call, Cause, Outcome, Progress, Reply
from tests.oracle import judge
from tests.protocol.memory_driver import only
from tests.protocol.peers_2025_11_25 import (
    ACCEPT,
    FORM,
    HELLO,
    RELATED,
    REVISION,
    SAMPLING,
    Caller,
    shown,
)
from tests.requirements import covers

SERVER: Any = {"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}
TOOLS: Any = {"greet": "optional", "slow": "required", "quick": "forbidden", "odd": None}
DONE = Outcome.of_result(json.dumps(HELLO, separators=(",", ":")).encode())


@pytest.fixture
def caller() -> Caller:
    return Caller()


def elicit(task_id: str = "t1", id: Any = "q1", **params: Any) -> dict[str, Any]:
    meta = {"_meta": {RELATED: {"taskId": task_id}}}
    return {"id": id, "method": "elicitation/create", "params": {**FORM, **meta, **params}}


def sample(**params: Any) -> dict[str, Any]:
    params = {**SAMPLING, "_meta": {RELATED: {"taskId": "t1"}}, **params}
    return {"id": "q1", "method": "sampling/createMessage", "params": params}


@covers(
    "2025-11-25:augment-only-if-declared",
    "2025-11-25:no-tasks-without-capability",
    "2025-11-25:no-tool-task-without-capability",
    "2025-11-25:forbidden-tool-not-called-as-task",
    "2025-11-25:required-tool-called-as-task",
    "2025-11-25:optional-tool-either-way",
    "2025-11-25:task-support-default-forbidden",
    "2025-11-25:only-negotiated-capabilities",
)
@pytest.mark.parametrize(
    ("peer", "tool", "augmented"),
    [
        (SERVER, "slow", True),
        (SERVER, "greet", True),
        (SERVER, "quick", False),
        (SERVER, "odd", False),
        (SERVER, "not listed", False),
        ({"tools": {}}, "slow", False),
        ({"tasks": None}, "slow", False),
        ({"tasks": {"requests": []}}, "slow", False),
        ({"tasks": {"requests": {"tools": {}}}}, "slow", False),
        ({"tasks": {"requests": {"tools": {"call": True}}}}, "slow", False),
        ({"tools": {}, "tasks": {"list": {}, "requests": {}}}, "slow", False),
    ],
)
def test_a_tool_is_called_as_a_task_where_server_and_tool_allow_it(
    peer: Any, tool: str, augmented: bool
) -> None:
    caller = Caller(Requestor2025({}, peer, TOOLS))
    call = caller.start(call=Call("tools/call", tool, b'{"a":1}'), ttl_ms=60_000)
    assert call["params"].get("task") == ({"ttl": 60_000} if augmented else None)
    assert (call["params"]["name"], call["params"]["arguments"]) == (tool, {"a": 1})
    if not augmented:
        assert caller.reply(HELLO) == [Finished("job", DONE)]


@covers("2025-11-25:augment-only-if-declared", "2025-11-25:no-tasks-without-capability")
@pytest.mark.parametrize(
    ("peer", "augmented"),
    [
        ({"sampling": {}}, False),
        ({"tasks": {"requests": {"elicitation": {"create": {}}}}}, False),
        ({"tasks": {"requests": {"sampling": {"createMessage": {}}}}}, True),
    ],
)
def test_a_server_asks_for_a_sampling_task_where_the_client_takes_it(
    peer: Any, augmented: bool
) -> None:
    caller = Caller(Requestor2025({}, peer, {}))
    call = Call("sampling/createMessage", None, json.dumps(SAMPLING).encode())
    params = caller.start(call=call)["params"]
    assert ("task" in params) == augmented
    assert {key: params[key] for key in SAMPLING} == SAMPLING


@covers(
    "2025-11-25:task-field-asks-for-task",
    "2025-11-25:request-ttl",
    "2025-11-25:ttl-parameter-number",
)
@pytest.mark.parametrize(
    ("ttl_ms", "task"), [(None, {}), (60_000, {"ttl": 60_000}), (0, {"ttl": 0})]
)
def test_the_wish_for_a_task_may_name_a_ttl(caller: Caller, ttl_ms: Any, task: Any) -> None:
    assert caller.start(ttl_ms=ttl_ms)["params"]["task"] == task


@covers(
    "2025-11-25:poll-until-terminal",
    "2025-11-25:poll-interval-respected",
    "2025-11-25:status-notification-not-relied-on",
)
def test_a_task_is_polled_at_its_interval_until_the_end(caller: Caller) -> None:
    caller.create(pollInterval=3_000)
    for _ in range(20):
        assert caller.wait(2_999) == []
        [poll] = caller.wait(1)
        assert (poll["method"], poll["params"]) == ("tasks/get", {"taskId": "t1"})
        caller.reply(shown(pollInterval=3_000))
    caller.wait(3_000)
    caller.reply(shown(status="completed"))
    collect = caller.sent[-1]
    assert collect["method"] == "tasks/result"
    assert caller.reply(HELLO) == [Finished("job", DONE)]
    assert caller.wait(10**7) == [], "it has ended"


@covers("2025-11-25:poll-interval-respected")
def test_a_new_interval_counts_from_then_on(caller: Caller) -> None:
    caller.create(pollInterval=1_000)
    caller.wait(1_000)
    caller.reply(shown(pollInterval=20_000))
    assert caller.wait(19_999) == []
    assert len(caller.wait(1)) == 1


@covers("2025-11-25:poll-despite-notifications")
def test_notifications_do_not_replace_polling(caller: Caller) -> None:
    caller.create()
    told = caller.hear(method="notifications/tasks/status", params=shown(statusMessage="busy"))
    assert told == [Changed("job", "working", "busy")]
    [poll] = caller.wait(1_000)
    assert poll["method"] == "tasks/get"


@covers("2025-11-25:poll-when-not-waiting")
def test_a_broken_wait_is_followed_by_polls(caller: Caller) -> None:
    caller.create(status="input_required")
    assert caller.sent[-1]["method"] == "tasks/result"
    caller.do(caller.requestor.disconnected(now=caller.now))
    [poll] = caller.wait(0)
    assert poll["method"] == "tasks/get"
    caller.reply(shown(status="working"))
    assert [request["method"] for request in caller.wait(1_000)] == ["tasks/get"]


@covers("2025-11-25:result-called-on-input-required")
@pytest.mark.parametrize("how", ["created", "polled", "told"])
def test_the_requestor_sends_tasks_result_when_input_is_required(caller: Caller, how: str) -> None:
    waiting = shown(status="input_required")
    if how == "created":
        caller.create(status="input_required")
    elif how == "polled":
        caller.create()
        caller.wait(1_000)
        caller.reply(waiting)
    else:
        caller.create()
        caller.hear(method="notifications/tasks/status", params=waiting)
    last = caller.sent[-1]
    assert (last["method"], last["params"]) == ("tasks/result", {"taskId": "t1"})


@covers(
    "2025-11-25:no-related-task-on-task-requests",
    "2025-11-25:request-id-type",
    "2025-11-25:request-id-not-null",
    "2025-11-25:request-id-not-reused",
)
def test_task_requests_carry_only_the_task_id_and_use_unique_request_ids(caller: Caller) -> None:
    caller.create()
    for _ in range(3):
        caller.wait(1_000)
        caller.reply(shown())
    caller.do(caller.requestor.cancel("job", now=caller.now))
    caller.wait(1_000)
    caller.reply(shown(status="completed"))
    methods = {request["method"] for request in caller.sent}
    assert methods == {"tools/call", "tasks/get", "tasks/cancel", "tasks/result"}
    for request in caller.sent[1:]:
        assert request["params"] == {"taskId": "t1"}
    ids = [request["id"] for request in caller.sent]
    assert len(set(ids)) == len(ids)
    assert all(type(id) in (str, int) for id in ids)


@covers(
    "2025-11-25:related-task-on-answer",
    "2025-11-25:related-task-on-task-messages",
    "2025-11-25:elicitation-three-actions",
)
@pytest.mark.parametrize("meta", [{}, {"_meta": None}, {"_meta": {"com.example/a": 1}}])
@pytest.mark.parametrize("body", [ACCEPT, {"action": "decline"}, {"action": "cancel"}])
def test_an_answer_names_the_task_of_its_question(caller: Caller, body: Any, meta: Any) -> None:
    caller.create(status="input_required")
    asked = only(caller.hear(**elicit()), Asked)
    assert (asked.method, asked.params) == ("elicitation/create", FORM)
    reply = Reply(json.dumps({**body, **meta}).encode())
    caller.do(caller.requestor.answer("job", asked.key, reply, now=caller.now))
    answer = caller.sent[-1]
    assert answer["id"] == "q1"
    assert answer["result"]["_meta"] == {**(meta.get("_meta") or {}), RELATED: {"taskId": "t1"}}
    assert body.items() <= answer["result"].items()


@covers("2025-11-25:sampling-user-rejected")
def test_a_refusal_is_answered_with_its_error(caller: Caller) -> None:
    caller.create(status="input_required")
    asked = only(caller.hear(**elicit()), Asked)
    reply = Reply(b'{"code":-1,"message":"User rejected"}', is_error=True)
    caller.do(caller.requestor.answer("job", asked.key, reply, now=caller.now))
    assert caller.sent[-1]["id"] == "q1"
    assert {"code": -1, "message": "User rejected"}.items() <= caller.sent[-1]["error"].items()


URL = {"mode": "url", "url": "https://x.org", "elicitationId": "e"}


@covers(
    "2025-11-25:elicitation-undeclared-mode-32602",
    "2025-11-25:elicitation-empty-is-form",
    "2025-11-25:elicitation-no-mode-is-form",
    "2025-11-25:elicitation-declared",
    "2025-11-25:sampling-declared",
    "2025-11-25:sampling-tools-declared",
)
@pytest.mark.parametrize(
    ("declared", "asked", "code"),
    [
        ({"elicitation": {}}, elicit(), None),
        ({"elicitation": {}}, elicit(mode="form"), None),
        ({"elicitation": {}}, elicit(**URL), -32602),
        ({"elicitation": {"form": {}}}, elicit(**URL), -32602),
        ({"elicitation": {"url": {}}}, elicit(**URL), None),
        ({"elicitation": {"url": {}}}, elicit(), -32602),
        ({"elicitation": {"url": {}}}, elicit(mode="form"), -32602),
        ({"elicitation": {"form": {}, "url": {}}}, elicit(**URL), None),
        ({"elicitation": {}}, elicit(mode=["form"]), -32602),
        ({}, elicit(), -32601),
        ({"sampling": {}}, elicit(), -32601),
        ({"sampling": {}}, sample(), None),
        ({"sampling": {}}, sample(tools=[]), -32602),
        ({"sampling": {}}, sample(toolChoice={"mode": "auto"}), -32602),
        ({"sampling": {"tools": {}}}, sample(tools=[]), None),
        ({"elicitation": {}}, sample(), -32601),
    ],
)
def test_only_declared_kinds_of_questions_reach_the_caller(
    declared: Any, asked: Any, code: int | None
) -> None:
    caller = Caller(Requestor2025(declared, SERVER, TOOLS))
    caller.create(status="input_required")
    told = caller.hear(**asked)
    if code is None:
        assert [type(output) for output in told] == [Asked]
        return
    assert told == []
    assert (caller.sent[-1]["id"], caller.sent[-1]["error"]["code"]) == ("q1", code)


@covers("2025-11-25:tasks-cancelled-by-tasks-cancel")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_task_is_cancelled_by_tasks_cancel_alone(caller: Caller, when: str) -> None:
    create = caller.start()
    if when == "before":  # the task id is unknown until the create is answered
        caller.do(caller.requestor.cancel("job", now=caller.now))
    caller.reply({"task": shown()}, to=create)
    if when == "after":
        caller.do(caller.requestor.cancel("job", now=caller.now))
    assert [m["method"] for m in caller.sent] == ["tools/call", "tasks/cancel"]
    assert caller.sent[-1]["params"] == {"taskId": "t1"}


@covers("2025-11-25:cancelled-not-relied-on")
@pytest.mark.parametrize("how", ["answer", "poll", "push"])
def test_a_cancelled_task_need_not_be_kept(caller: Caller, how: str) -> None:
    caller.create()
    cancelled = shown(status="cancelled", statusMessage="enough")
    caller.do(caller.requestor.cancel("job", now=caller.now))
    if how == "answer":
        told = caller.reply(cancelled)
    elif how == "poll":
        [poll] = caller.wait(1_000)
        told = caller.reply(cancelled, to=poll)
    else:
        told = caller.hear(method="notifications/tasks/status", params=cancelled)
    ended = Finished("job", Outcome(Cause.CANCELLED, message="enough"))
    assert told == [Changed("job", "cancelled", "enough"), ended]
    assert caller.wait(10**7) == [], "nothing is asked of a task that may be gone"


@covers("2025-11-25:result-of-cancelled-task")
def test_a_wait_for_a_task_that_is_cancelled_ends_as_cancelled(caller: Caller) -> None:
    caller.create(status="input_required")
    told = caller.refuse(-32000, "Task cancelled")
    assert told == [Finished("job", Outcome(Cause.CANCELLED, message="Task cancelled"))]


@covers("2025-11-25:cancelled-not-relied-on", "2025-11-25:cancellation-races-handled")
@pytest.mark.parametrize("message", ["Task not found", "already in terminal status 'completed'"])
def test_a_cancel_that_comes_too_late_still_ends_the_call(caller: Caller, message: str) -> None:
    caller.create()
    caller.do(caller.requestor.cancel("job", now=caller.now))
    assert caller.refuse(-32602, message) == []
    [poll] = caller.wait(60_000)[:1]
    assert poll["method"] == "tasks/get"
    if "not found" in message:
        only(caller.refuse(-32602, message, to=poll), Finished)
        return
    caller.reply(shown(status="completed"), to=poll)
    assert caller.reply(HELLO) == [Finished("job", DONE)]


@covers(
    "2025-11-25:progress-token-type",
    "2025-11-25:progress-may-be-float",
    "2025-11-25:progress-any-frequency",
    "2025-11-25:progress-supported-on-tasks",
)
@pytest.mark.parametrize("token", ["abc", 7, 0])
def test_progress_is_taken_under_the_token_that_was_given(caller: Caller, token: Any) -> None:
    call = caller.start(call=Call("tools/call", "greet", progress_token=token))
    assert call["params"]["_meta"] == {"progressToken": token}
    caller.reply({"task": shown()})

    def hear(value: float, under: Any = token) -> Any:
        params = {"progressToken": under, "progress": value, "_meta": {RELATED: {"taskId": "t1"}}}
        return caller.hear(method="notifications/progress", params=params)

    assert hear(0.5) == [Moved("job", Progress(0.5))]
    assert hear(0.5) == hear(0.25) == hear(3, "other") == []
    assert hear(2) == [Moved("job", Progress(2))]


@covers("2025-11-25:progress-token-type")
def test_a_call_without_requested_progress_has_no_token(caller: Caller) -> None:
    assert "_meta" not in caller.start()["params"]


@covers(
    "2025-11-25:negotiation-errors-handled",
    "2025-11-25:late-response-ignored",
    "2025-11-25:timeout-sends-cancelled",
    "2025-11-25:cancelled-same-direction",
)
def test_the_requestor_abandons_an_unanswered_poll_and_polls_again(caller: Caller) -> None:
    caller.create()
    [lost] = caller.wait(1_000)
    sent = caller.wait(60_000)
    [cancelled] = [m for m in sent if m["method"] == "notifications/cancelled"]
    judge(REVISION, "CancelledNotification").validate(cancelled)
    assert cancelled["params"]["requestId"] == lost["id"]
    later = [m for m in [*sent, *caller.wait(60_000)] if m["method"] == "tasks/get"]
    assert later != []
    assert caller.reply(shown(status="completed"), to=lost) == [], "too late to count"
    caller.reply(shown(status="completed"), to=later[-1])
    assert caller.reply(HELLO) == [Finished("job", DONE)]


@covers("2025-11-25:result-any-object", "2025-11-25:meta-no-assumptions")
def test_the_requestor_tolerates_unknown_fields_from_the_receiver(caller: Caller) -> None:
    odd = {"future": {"x": [1]}, "_meta": {"io.modelcontextprotocol/future": 5, "a": None}}
    caller.start()
    caller.reply({"task": {**shown(), **odd}, **odd})
    caller.wait(1_000)
    caller.reply({**shown(status="completed"), **odd})
    told = only(caller.reply({**HELLO, **odd}), Finished)
    assert told.outcome.result is not None
    assert json.loads(told.outcome.result) == {**HELLO, **odd}
