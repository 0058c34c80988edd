"""Subscriptions, cancelled requests and multi round trips of a server of 2026-07-28."""

import json
from typing import Any

import pytest

from taskmachine.protocol.errors import InvalidParams, MissingCapability
from taskmachine.protocol.jsonrpc import Id
from taskmachine.protocol.sealing import RequestState, Sealer, request_digest
from taskmachine.statemachine import Progress, lifecycle
from tests.oracle import judge
from tests.protocol.memory_driver import MemoryDriver
from tests.protocol.plain_2026_07_28 import (
    ABLE,
    ACCEPTED,
    FORM,
    REVISION,
    SUBSCRIPTION_KEY,
    TASKS,
    Peer,
    form,
    returned,
    sampling,
)
from tests.requirements import covers

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


@covers(
    "2026-07-28:ack-first",
    "2026-07-28:nothing-before-ack",
    "2026-07-28:ack-lists-task-ids",
    "2026-07-28:ack-is-subset",
    "2026-07-28:subscription-id-in-meta",
    "2026-07-28:subscription-id-is-request-id",
    "2026-07-28:notification-without-id",
    "2026-07-28:notifications-optional",
)
@pytest.mark.parametrize("id", [7, "seven", 0, ""])
def test_a_subscription_starts_with_an_acknowledgement_of_its_tasks(
    peer: Peer, task_id: str, id: Id
) -> None:
    begun, *told = peer.listen(task_id, "never-issued", id=id)
    judge(REVISION, "SubscriptionsAcknowledgedNotification").validate(begun)
    assert begun["method"] == ACKNOWLEDGED
    assert begun["params"]["notifications"] == {"taskIds": [task_id]}
    peer.complete(task_id)
    told += peer.news()
    assert [seen["params"]["status"] for seen in told] == ["working", "completed"]
    for seen in told:
        judge(REVISION, "TaskStatusNotification").validate(seen)
    for seen in (begun, *told):
        key = seen["params"]["_meta"][SUBSCRIPTION_KEY]
        assert (key, type(key)) == (id, type(id))
        assert "id" not in seen


@covers(
    "2026-07-28:only-requested-notifications",
    "2026-07-28:ack-is-subset",
    "2026-07-28:notifications-only-for-listened-ids",
)
@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"toolsListChanged": True},
        {"taskIds": []},
        {"resourceSubscriptions": ["file:///a"], "promptsListChanged": True},
    ],
)
def test_the_acknowledgement_omits_unrequested_or_absent_notifications(
    peer: Peer, task_id: str, wanted: Any
) -> None:
    (begun,) = peer.send("subscriptions/listen", notifications=wanted)
    judge(REVISION, "SubscriptionsAcknowledgedNotification").validate(begun)
    assert begun["params"]["notifications"] == {}
    peer.complete(task_id)
    assert peer.news() == []


@covers(
    "2026-07-28:notifications-only-for-listened-ids",
    "2026-07-28:listen-with-task-ids",
    "2026-07-28:only-requested-notifications",
    "2026-07-28:no-subscription-state-kept",
)
def test_the_server_notifies_only_subscribers_about_subscribed_tasks() -> None:
    driver = MemoryDriver()
    listener, poller = Peer(driver), Peer(driver)
    mine, other = listener.create(), listener.create()
    listener.listen(mine)
    listener.ask(other, form())
    listener.complete(other)
    assert listener.news() == []
    listener.complete(mine)
    assert [seen["params"]["taskId"] for seen in listener.news()] == [mine]
    assert poller.news() == []
    assert Peer(driver).news() == [], "a new connection begins without subscriptions"


@covers("2026-07-28:notification-is-whole-task", "2026-07-28:poll-beside-notifications")
@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_a_task_notification_equals_the_tasks_get_result(
    peer: Peer, task_id: str, end: str
) -> None:
    acts: list[Any] = [
        lambda: peer.work(task_id, lambda t, now: lifecycle.report(t, now, message="busy")),
        lambda: peer.ask(task_id, form(), sampling()),
        lambda: peer.update(task_id, name=ACCEPTED),
        lambda: peer.work(task_id, lambda t, now: lifecycle.withdraw(t, now)),
        {
            "completed": lambda: peer.complete(task_id),
            "failed": lambda: peer.work(task_id, lifecycle.expire),
            "cancelled": lambda: peer.cancel(task_id),
        }[end],
    ]
    peer.listen(task_id, id="w")
    seen = []
    for act in acts:
        before = len(peer.transcript)
        act()
        (told,) = (m["params"] for m in peer.transcript[before:] if "method" in m)
        polled = peer.get(task_id)
        del polled["resultType"], told["_meta"]
        polled.pop("_meta", None)
        assert told == polled
        seen.append(told["status"])
    assert seen == ["working", "input_required", "input_required", "working", end]


@covers("2026-07-28:undeclared-capability-not-used")
@pytest.mark.parametrize(
    ("able", "kinds"), [(TASKS, set()), ({**TASKS, "elicitation": {}}, {"a"}), (ABLE, {"a", "b"})]
)
def test_a_notification_shows_only_kinds_of_questions_that_the_listener_declared(
    peer: Peer, task_id: str, able: Any, kinds: set[str]
) -> None:
    peer.send("subscriptions/listen", able, notifications={"taskIds": [task_id]})
    peer.ask(task_id, form("a"), sampling("b"))
    (told,) = peer.news()
    judge(REVISION, "TaskStatusNotification").validate(told)
    polled = peer.result("tasks/get", able, taskId=task_id)
    del polled["resultType"], polled["_meta"], told["params"]["_meta"]
    assert told["params"] == polled
    assert set(polled["inputRequests"]) == kinds


@covers("2026-07-28:many-subscriptions", "2026-07-28:stdio-interleaving")
def test_two_subscriptions_to_one_task_both_receive_notifications(peer: Peer, task_id: str) -> None:
    peer.listen(task_id, id=1001)
    peer.listen(task_id, id="b")
    peer.complete(task_id)
    told = peer.news()
    assert [seen["params"]["_meta"][SUBSCRIPTION_KEY] for seen in told] == [1001, "b"]
    assert {seen["params"]["status"] for seen in told} == {"completed"}


@covers(
    "2026-07-28:no-progress-on-listen",
    "2026-07-28:no-log-messages-on-listen",
    "2026-07-28:no-progress-for-tasks",
    "2026-07-28:progress-may-be-absent",
    "2026-07-28:progress-operation-running",
    "2026-07-28:progress-stops-after-completion",
)
def test_tasks_have_neither_progress_nor_log_messages(peer: Peer) -> None:
    says = {"progressToken": "p", "io.modelcontextprotocol/logLevel": "debug"}
    task = peer.create(says=says)
    peer.listen(task)
    for value in (1.0, 2.0):
        progress = Progress(value, 2.0, "on it")
        peer.work(task, lambda t, now, p=progress: lifecycle.report(t, now, progress=p))  # type: ignore[misc]
    peer.complete(task)
    methods = {seen.get("method") for seen in peer.transcript}
    assert methods == {None, ACKNOWLEDGED, "notifications/tasks"}
    assert "progressToken" not in json.dumps(peer.transcript)


@covers(
    "2026-07-28:listen-final-response",
    "2026-07-28:listen-final-response-shape",
    "2026-07-28:listen-teardown-cancelled",
    "2026-07-28:server-cancelled-names-listen",
    "2026-07-28:subscription-id-in-meta",
)
@pytest.mark.parametrize("id", [7, "seven"])
def test_a_server_that_ends_a_subscription_says_so(peer: Peer, task_id: str, id: Id) -> None:
    peer.listen(task_id, id=id)
    peer.news()
    cancelled, answer = peer.do(peer.receiver.ended(id))
    judge(REVISION, "CancelledNotification").validate(cancelled)
    assert cancelled["method"] == "notifications/cancelled"
    assert cancelled["params"]["requestId"] == id
    assert cancelled["params"]["_meta"][SUBSCRIPTION_KEY] == id
    judge(REVISION, "SubscriptionsListenResult").validate(answer["result"])
    assert answer["id"] == answer["result"]["_meta"][SUBSCRIPTION_KEY] == id
    peer.complete(task_id)
    assert peer.news() == [], "nothing follows"
    assert peer.receiver.ended(id) == []


@covers("2026-07-28:server-cancelled-only-for-listen")
@pytest.mark.parametrize("end", ["complete", "cancel", "expire"])
def test_the_end_of_a_task_cancels_nothing_on_the_wire(peer: Peer, task_id: str, end: str) -> None:
    peer.listen(task_id)
    peer.ask(task_id, form())
    if end == "expire":
        peer.work(task_id, lifecycle.expire)
    else:
        getattr(peer, end)(task_id)
    assert "notifications/cancelled" not in {seen.get("method") for seen in peer.transcript}


def cancelled(request_id: Any) -> dict[str, Any]:
    return {"method": "notifications/cancelled", "params": {"requestId": request_id}}


@covers(
    "2026-07-28:stdio-silence-after-cancel",
    "2026-07-28:cancelled-request-not-answered",
    "2026-07-28:cancellation-races-handled",
)
def test_nothing_more_is_said_of_a_cancelled_request(peer: Peer, task_id: str) -> None:
    peer.listen(task_id, id="watch")
    peer.send("tools/call", {}, name="greet", id="call")
    assert peer.post(cancelled("call")) == []
    assert peer.post(cancelled("watch")) == []
    assert peer.connection.abandoned == ["call", "watch"], "the worker is notified"
    assert peer.do(peer.receiver.ran("call", returned())) == []  # it crossed
    assert peer.do(peer.receiver.paused("call", [form()], None)) == []
    assert peer.do(peer.receiver.refused("call", ZeroDivisionError())) == []
    peer.complete(task_id)
    assert peer.news() == []
    assert peer.get(task_id)["status"] == "completed"


@covers(
    "2026-07-28:cancelled-may-be-ignored",
    "2026-07-28:invalid-cancellation-ignored",
    "2026-07-28:cancellation-races-handled",
    "2026-07-28:notification-not-answered",
)
@pytest.mark.parametrize(
    "message",
    [
        cancelled("the call"),
        cancelled("unknown"),
        cancelled(None),
        cancelled({}),
        cancelled([1]),
        cancelled(1.5),
        {"method": "notifications/cancelled"},
        {"method": "notifications/cancelled", "params": {"requestId": "the call", "reason": 5}},
    ],
)
def test_cancellations_of_nothing_that_runs_are_ignored(peer: Peer, message: Any) -> None:
    task = peer.create(id="the call")
    assert peer.post(message) == []
    # The call has been answered by a task: taking it back would be `tasks/cancel`.
    assert peer.get(task)["status"] == "working"


@covers("2026-07-28:notification-not-answered")
@pytest.mark.parametrize(
    "message",
    [
        {"method": "notifications/initialized"},
        {"method": "notifications/tasks", "params": {"taskId": 5}},
        {"method": "notifications/tasks/status", "params": {}},
        {"method": "notifications/progress", "params": {"progressToken": {}}},
        {"method": "tasks/get", "params": {"taskId": "x"}},
        {"method": "nonsense"},
    ],
)
def test_a_notification_is_never_answered(message: Any) -> None:
    assert Peer().post(message) == []


SEALER = Sealer(b"a secret of thirty-two bytes!!!!")
DIGEST = request_digest("tools/call", "greet", b'{"n":1}')


def pause(peer: Peer, id: Id, *questions: Any, state: str | None = None) -> Any:
    peer.news()
    (answer,) = peer.do(peer.receiver.paused(id, questions, state))
    return answer


@covers(
    "2026-07-28:questions-by-mrtr",
    "2026-07-28:server-sends-no-requests",
    "2026-07-28:mrtr-supported-requests",
    "2026-07-28:mrtr-server-may-ask",
    "2026-07-28:mrtr-input-requests-optional",
    "2026-07-28:mrtr-request-state-optional",
    "2026-07-28:mrtr-something-to-do",
    "2026-07-28:mrtr-keys-unique",
    "2026-07-28:input-request-kinds",
    "2026-07-28:result-type-input-required-means-more",
)
@pytest.mark.parametrize(
    ("questions", "state"), [([form("a"), sampling("b")], "s"), ([form("a")], None), ([], "s")]
)
def test_a_plain_call_asks_by_its_result(peer: Peer, questions: Any, state: str | None) -> None:
    peer.send("tools/call", {"elicitation": {}, "sampling": {}}, name="greet", id=1)
    answer = pause(peer, 1, *questions, state=state)
    judge(REVISION, "InputRequiredResult").validate(answer["result"])
    assert (answer["id"], answer["result"]["resultType"]) == (1, "input_required")
    assert list(answer["result"].get("inputRequests", {})) == [q.key for q in questions]
    assert answer["result"].get("requestState") == state
    if questions:
        first = answer["result"]["inputRequests"]["a"]
        assert first == {"method": "elicitation/create", "params": FORM}
    assert all("method" not in seen for seen in peer.transcript)


def test_a_pause_without_anything_to_do_is_a_mistake_of_the_runtime(peer: Peer) -> None:
    peer.send("tools/call", {}, name="greet", id=1)
    with pytest.raises(ValueError, match="must have inputRequests or requestState"):
        peer.receiver.paused(1, [], None)


@covers(
    "2026-07-28:mrtr-no-assumed-retry",
    "2026-07-28:mrtr-may-ask-again",
    "2026-07-28:input-responses-extra-ignored",
)
def test_a_paused_call_leaves_nothing_behind_and_may_come_again(peer: Peer) -> None:
    for _ in range(3):  # the same id each time: none of them is still in use
        peer.send("tools/call", {"elicitation": {}}, name="greet", id=1, requestState="s")
        assert pause(peer, 1, form())["result"]["resultType"] == "input_required"
    peer.connection.runs.clear()
    answers = {"name": ACCEPTED, "unasked": ACCEPTED}
    peer.send("tools/call", ABLE, name="greet", id=1, inputResponses=answers, requestState="s")
    run = peer.connection.runs[1]
    assert run.state == "s"
    assert {key: json.loads(reply.body) for key, reply in run.answers.items()} == answers
    peer.connection.finish_run(1, returned())
    assert peer.news()[0]["result"]["resultType"] == "complete"
    assert not peer.driver.tasks


def retry(peer: Peer, state: str, *, owner: str = "alice", now: int = 0, digest: bytes) -> Any:
    """Open a returned state as a runtime does."""
    peer.send("tools/call", {}, name="greet", id="retry", requestState=state)
    run = peer.connection.runs.pop("retry")
    assert run.state == state
    try:
        SEALER.open_state(owner, run.state, now, digest)
    except InvalidParams as error:
        (answer,) = peer.do(peer.receiver.refused("retry", error))
    else:
        (answer,) = peer.do(peer.receiver.ran("retry", returned()))
    return answer


def damaged(state: str) -> str:
    return state[:10] + ("A" if state[10] != "A" else "B") + state[11:]


@covers(
    "2026-07-28:request-state-untrusted",
    "2026-07-28:request-state-protected",
    "2026-07-28:request-state-rejected-if-tampered",
    "2026-07-28:request-state-bound-to-principal",
    "2026-07-28:request-state-expires",
    "2026-07-28:request-state-bound-to-request",
)
@pytest.mark.parametrize(
    ("state", "changes"),
    [
        ("damaged", {}),
        ("", {}),
        ("x" * 2_000_000, {}),
        ("AAAA", {}),
        ("good", {"owner": "mallory"}),
        ("good", {"now": 60_000}),
        ("good", {"digest": request_digest("tools/call", "greet", b'{"n":2}')}),
        ("good", {"digest": request_digest("tools/call", "slow", b'{"n":1}')}),
    ],
    ids=["damaged", "empty", "huge", "invented", "owner", "expired", "arguments", "tool"],
)
def test_the_server_refuses_an_altered_expired_or_foreign_request_state(
    peer: Peer, state: str, changes: Any
) -> None:
    good = SEALER.seal_state("alice", RequestState({"name": b"{}"}, 60_000, DIGEST))
    assert "result" in retry(peer, good, digest=DIGEST)
    state = {"damaged": damaged(good), "good": good}.get(state, state)
    answer = retry(peer, state, **{"digest": DIGEST, **changes})
    assert answer["error"]["code"] == -32602
    assert "requestState" in answer["error"]["message"]
    assert "result" in retry(peer, good, digest=DIGEST), "the server keeps working"


@covers(
    "2026-07-28:undeclared-capability-32021",
    "2026-07-28:mrtr-declared-kinds-only",
    "2026-07-28:reserved-codes-as-defined",
)
@pytest.mark.parametrize("able", [{}, {"sampling": {}}])
def test_a_call_that_needs_a_missing_capability_is_refused_with_its_name(
    peer: Peer, able: Any
) -> None:
    peer.send("tools/call", able, name="greet", id=1)
    if able:
        answer = pause(peer, 1, form("a"), sampling("b"))
    else:
        error = MissingCapability({"elicitation": {}})
        (answer,) = peer.do(peer.receiver.refused(1, error))
    judge(REVISION, "MissingRequiredClientCapabilityError").validate(answer)
    assert answer["error"]["data"] == {"requiredCapabilities": {"elicitation": {}}}


URL = form("q", mode="url", url="https://example.com", requestedSchema=None)
TOOLS = sampling("q", tools=[{"name": "t", "inputSchema": {"type": "object"}}])


@covers("2026-07-28:elicitation-declared-modes-only", "2026-07-28:sampling-tools-only-if-declared")
@pytest.mark.parametrize(
    ("question", "able", "is_shown"),
    [
        (form("q"), {"form": {}, "url": {}}, True),
        (form("q"), {"url": {}}, False),
        (URL, {"form": {}}, False),
        (URL, {}, False),
        (TOOLS, {}, False),
    ],
)
def test_a_question_is_shown_only_if_its_mode_was_declared(
    peer: Peer, task_id: str, question: Any, able: Any, is_shown: bool
) -> None:
    peer.ask(task_id, question)
    declared = {**TASKS, "elicitation": able, "sampling": able}
    requests = peer.result("tasks/get", declared, taskId=task_id)["inputRequests"]
    assert set(requests) == ({"q"} if is_shown else set())
