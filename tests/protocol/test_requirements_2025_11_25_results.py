"""2025-11-25: the end of a task, for waiting and for cancelled requests."""

from typing import Any

import pytest

from taskmachine.statemachine import Cause, Outcome
from tests.oracle import judge
from tests.protocol.peers_2025_11_25 import (
    BROKEN,
    ENDED,
    ENDS,
    HELLO,
    RAISED,
    RELATED,
    REVISION,
    VERBS,
    Peer,
    returned,
)
from tests.requirements import covers

RICH = {**HELLO, "structuredContent": {"n": [1]}, "_meta": {"com.example/a": 1}, "future": {}}


OUTCOMES = [
    pytest.param(returned(HELLO), "completed", id="result"),
    pytest.param(returned(RICH), "completed", id="rich"),
    pytest.param(returned({"content": [], "_meta": None}), "completed", id="null meta"),
    pytest.param(returned(BROKEN), "failed", id="isError"),
    pytest.param(RAISED, "failed", id="error"),
    pytest.param(Outcome.of_error(7, "own code"), "failed", id="own code"),
    pytest.param(Outcome(Cause.TIMED_OUT, message="too slow"), "failed", id="timed out"),
    pytest.param(Outcome(Cause.WORKER_LOST), "failed", id="worker lost"),
]


@covers(
    "2025-11-25:result-exactly-underlying",
    "2025-11-25:result-matches-request-type",
    "2025-11-25:result-of-terminal-task",
    "2025-11-25:result-same-error",
    "2025-11-25:result-is-success-response",
    "2025-11-25:related-task-on-result",
    "2025-11-25:related-task-on-error",
    "2025-11-25:related-task-value-shape",
    "2025-11-25:failed-on-jsonrpc-error",
    "2025-11-25:failed-on-is-error",
    "2025-11-25:failed-status-message",
    "2025-11-25:status-completed",
    "2025-11-25:status-failed",
    "2025-11-25:tool-execution-errors",
)
@pytest.mark.parametrize(("outcome", "status"), OUTCOMES)
def test_tasks_result_returns_exactly_the_outcome_of_the_plain_call(
    peer: Peer, outcome: Outcome, status: str
) -> None:
    plain = peer.ask("tools/call", name="greet")
    peer.connection.finish_run(plain, outcome)
    [expected] = peer.responses(plain)
    task_id = peer.create()
    peer.end(task_id, outcome)
    shown = peer.result("tasks/get", taskId=task_id)
    assert shown["status"] == status
    if status == "failed":
        assert shown["statusMessage"]
    answer = peer.call("tasks/result", taskId=task_id)
    if "error" in expected:
        assert answer["error"] == expected["error"], "unchanged, so without related-task"
        return
    judge(REVISION, "GetTaskPayloadResult").validate(answer["result"])
    assert answer["result"]["_meta"].pop(RELATED) == {"taskId": task_id}
    meta = answer["result"].pop("_meta")
    assert meta == (expected["result"].pop("_meta", None) or {})
    assert answer["result"] == expected["result"]
    assert "content" in answer["result"]


@covers(
    "2025-11-25:result-of-cancelled-task",
    "2025-11-25:related-task-on-error",
    "2025-11-25:result-of-terminal-task",
)
def test_the_result_of_a_cancelled_task_is_an_error_that_says_so(peer: Peer, task_id: str) -> None:
    peer.result("tasks/cancel", taskId=task_id)
    error = peer.error("tasks/result", taskId=task_id)
    assert error["code"] == -32000
    assert "cancelled" in error["message"]
    assert error["data"]["_meta"][RELATED] == {"taskId": task_id}


@covers(
    "2025-11-25:result-blocks",
    "2025-11-25:get-works-while-result-blocks",
    "2025-11-25:result-same-id",
    "2025-11-25:error-same-id",
)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("way", ["queued", "working", "input_required"])
def test_tasks_result_blocks_until_the_task_is_terminal(
    peer: Peer, task_id: str, way: str, end: str
) -> None:
    peer.walk(task_id, way)
    for id in (100, "100"):
        peer.say({"id": id, "method": "tasks/result", "params": {"taskId": task_id}})
    peer.move(task_id, VERBS["report"])
    assert peer.status(task_id) not in ENDED
    assert peer.responses(100) == peer.responses("100") == []
    peer.move(task_id, VERBS[end])
    for id in (100, "100"):
        [answer] = peer.responses(id)
        assert type(answer["id"]) is type(id)
        assert ("result" in answer) == (end in ("complete", "break"))


@covers(
    "2025-11-25:result-request-cancellable",
    "2025-11-25:cancelled-request-not-answered",
    "2025-11-25:cancellation-races-handled",
)
def test_a_cancelled_wait_ends_alone(peer: Peer, task_id: str) -> None:
    left, kept = (peer.ask("tasks/result", taskId=task_id) for _ in range(2))
    assert peer.notify("notifications/cancelled", requestId=left, reason="bored") == []
    assert peer.connection.abandoned == [left]
    assert peer.status(task_id) == "working"
    peer.end(task_id)
    assert peer.responses(left) == []
    assert len(peer.responses(kept)) == 1
    assert peer.notify("notifications/cancelled", requestId=kept) == [], "it has been answered"
    assert peer.result("tasks/result", taskId=task_id)["content"] == HELLO["content"]


@covers("2025-11-25:cancelled-request-not-answered")
def test_a_cancelled_plain_call_is_not_answered(peer: Peer) -> None:
    id = peer.ask("tools/call", name="greet")
    peer.notify("notifications/cancelled", requestId=id)
    assert peer.connection.abandoned == [id]
    peer.driver.handle(peer.connection, peer.connection.receiver.ran(id, returned(HELLO)))
    assert peer.responses(id) == []


@covers("2025-11-25:cancelled-notification-keeps-task")
@pytest.mark.parametrize("end", ["complete", "fail"])
def test_cancelling_the_request_that_created_a_task_does_not_touch_the_task(
    peer: Peer, end: str
) -> None:
    id = peer.ask("tools/call", name="greet", task={})
    [created] = peer.responses(id)
    task_id = created["result"]["task"]["taskId"]
    assert peer.notify("notifications/cancelled", requestId=id) == []
    assert peer.status(task_id) == "working"
    peer.move(task_id, VERBS[end])
    assert peer.status(task_id) == {"complete": "completed", "fail": "failed"}[end]


@covers(
    "2025-11-25:invalid-cancellation-ignored",
    "2025-11-25:cancelled-may-be-ignored",
    "2025-11-25:cancellation-races-handled",
)
@pytest.mark.parametrize(
    "params", [{"requestId": 99}, {"requestId": "1"}, {"requestId": 1}, {"requestId": {}}, {}]
)
def test_a_cancellation_of_nothing_is_ignored(peer: Peer, task_id: str, params: Any) -> None:
    waiting = peer.ask("tasks/result", taskId=task_id)
    assert peer.notify("notifications/cancelled", **params) == []
    peer.end(task_id)
    assert len(peer.responses(waiting)) == 1
