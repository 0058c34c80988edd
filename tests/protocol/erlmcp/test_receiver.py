"""The lifecycle of a task in erlmcp: create, list, cancel and update."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from taskmachine.protocol.dialects.erlmcp.receiver import RECEIVER
from taskmachine.protocol.jsonrpc import Error, ErrorResponse, Request
from taskmachine.protocol.operations import FREE_FORM
from taskmachine.statemachine import Cause, Outcome, Question, lifecycle
from tests.protocol.erlmcp.client import DONE, Client
from tests.protocol.memory_driver import OFFER
from tests.protocol.peers_2025_11_25 import ENDED


def test_create_answers_with_a_pending_task(client: Client) -> None:
    task = client.ask(
        "tasks/create",
        action={"name": "greet", "arguments": {"who": "Ada"}, "type": "greeting"},
        metadata={"priority": "high"},
        options={"ttl_ms": 60_000},
    )["task"]
    now = client.driver.now
    assert task == {
        "taskId": task["taskId"],
        "status": "pending",
        "action": {"name": "greet", "arguments": {"who": "Ada"}, "type": "greeting"},
        "metadata": {"priority": "high"},
        "createdAt": now,
        "updatedAt": now,
        "expiresAt": now + 60_000,
        "progressToken": task["taskId"],
    }
    assert client.get(task["taskId"]) == task
    assert client.pushed("notifications/tasks/status") == [{"task": task}]
    call = client.record(task["taskId"]).call
    assert (call.method, call.name, call.arguments) == ("tools/call", "greet", b'{"who":"Ada"}')
    assert call.answers == {"elicitation/create"}


def test_create_without_options_never_expires(client: Client) -> None:
    assert "expiresAt" not in client.get(client.create())
    assert "expiresAt" not in client.get(client.create(options={}))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing", "params.action.name is not a tool of this server: 'nothing'"),
        ("quick", "params.action.name is a tool that cannot run as a task: 'quick'"),
    ],
)
def test_only_tools_that_run_as_tasks_can_be_created(client: Client, name: str, words: str) -> None:
    [answer] = client.connection.receive(Request(1, "tasks/create", {"action": {"name": name}}))
    assert answer == ErrorResponse(1, Error(-32602, words))


def test_the_lifecycle(client: Client) -> None:
    task_id = client.create()
    client.work(task_id, lambda task, now: lifecycle.start(task, now, worker="w"))
    assert client.status(task_id) == "processing"
    client.work(task_id, lambda task, now: lifecycle.requeue(task, now))
    assert client.status(task_id) == "processing", "pending only while it was never started"
    client.finish(task_id)
    ended = client.get(task_id)
    assert ended["result"] == {"content": [], "structuredContent": {"final": "done"}}
    assert client.ask("tasks/result", taskId=task_id) == {"result": ended["result"]}
    assert client.changes() == ["processing", "completed"]
    last = client.pushed("notifications/tasks/status")[-1]
    assert last == {"task": ended}, "nested"


def test_a_pending_task_can_end_as_well(client: Client) -> None:
    done, lost, cancelled = (client.create() for _ in range(3))
    client.finish(done)
    client.finish(lost, Outcome(Cause.WORKER_LOST, message="The worker is gone."))
    assert client.ask("tasks/cancel", taskId=cancelled) == {}
    assert [client.status(id) for id in (done, lost, cancelled)] == [
        "completed", "failed", "cancelled",
    ]  # fmt: skip


def test_a_tool_that_reports_an_error_has_completed(client: Client) -> None:
    task_id = client.started()
    client.finish(task_id, Outcome.of_result(b'{"content":[],"isError":true}', is_error=True))
    assert client.get(task_id)["status"] == "completed"
    result = client.ask("tasks/result", taskId=task_id)
    assert result == {"result": {"content": [], "isError": True}}


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (Outcome.of_error(7, "no", b'{"x":1}'), {"code": 7, "message": "no", "data": {"x": 1}}),
        (Outcome(Cause.TIMED_OUT), {"code": -32085, "message": "The task timed out"}),
        (Outcome(Cause.TIMED_OUT, message="slow"), {"code": -32085, "message": "slow"}),
        (Outcome(Cause.WORKER_LOST, message="gone"), {"code": -32603, "message": "gone"}),
    ],
)
def test_a_failed_task_says_why(client: Client, outcome: Outcome, error: Any) -> None:
    task_id = client.started()
    client.finish(task_id, outcome)
    task = client.get(task_id)
    assert (task["status"], task["error"]) == ("failed", error)
    assert "result" not in task
    assert client.ask("tasks/result", taskId=task_id) == error["code"]


def test_cancel_with_a_reason(client: Client) -> None:
    task_id = client.started()
    assert client.ask("tasks/cancel", taskId=task_id, reason="user requested") == {}
    task = client.get(task_id)
    assert task["status"] == "cancelled"
    assert task["error"] == {"code": -32084, "message": "user requested"}
    assert client.ask("tasks/result", taskId=task_id) == -32084
    shown = {"taskId": task_id, "reason": "user requested"}
    assert client.pushed("notifications/cancelled") == [shown]


def test_the_server_refuses_every_change_to_a_terminal_task(client: Client) -> None:
    for outcome in (DONE, Outcome.of_error(1, "no"), None):
        task_id = client.started()
        if outcome is None:
            client.ask("tasks/cancel", taskId=task_id)
        else:
            client.finish(task_id, outcome)
        before = client.record(task_id)
        assert client.ask("tasks/cancel", taskId=task_id) == -32090
        assert client.ask("tasks/update", taskId=task_id, metadata={"a": 1}) == -32090
        assert client.ask("tasks/update", taskId=task_id, status="input_required") == -32090
        assert client.ask("tasks/update", taskId=task_id, input="x") == -32090
        assert client.ask("tasks/update", taskId=task_id, inputResponses={"k": {}}) == -32090
        assert client.ask("tasks/progress", progressToken=task_id, progress=1) == -32090
        assert client.record(task_id) == before


def test_ttl(client: Client) -> None:
    task_id = client.create(options={"ttl_ms": 100})
    created = client.get(task_id)
    assert created["expiresAt"] - created["createdAt"] == 100
    client.work(task_id, lifecycle.expire)
    expired = client.get(task_id)
    assert expired["error"]["code"] == -32603
    assert expired["updatedAt"] > created["updatedAt"]
    assert expired["expiresAt"] == created["expiresAt"], "it counts from creation"
    assert lifecycle.purge(client.driver.tasks.pop(task_id), client.driver.now)
    assert client.ask("tasks/get", taskId=task_id) == -32081
    assert client.ask("tasks/result", taskId=task_id) == -32081


def test_the_cap_of_live_tasks(client: Client) -> None:
    client.driver.room = 2
    first, _ = client.create(), client.create()
    assert client.ask("tasks/create", action={"name": "greet"}) == -32087
    client.ask("tasks/cancel", taskId=first)
    assert client.create()


def test_50_tasks_in_pages_of_20(client: Client) -> None:
    made = [client.create() for _ in range(50)]
    Client(client.driver, client.driver.connect(RECEIVER, owner="bob")).create()
    pages = [client.ask("tasks/list", limit=20)]
    while "cursor" in pages[-1]:
        pages.append(client.ask("tasks/list", cursor=pages[-1]["cursor"], limit=20))
    assert [len(page["tasks"]) for page in pages] == [20, 20, 10]
    assert [task["taskId"] for page in pages for task in page["tasks"]] == made[::-1]
    assert pages[0]["tasks"][0] == client.get(made[-1])
    assert "cursor" not in client.ask("tasks/list")


def test_the_server_refuses_tasks_list_to_anonymous_callers(client: Client) -> None:
    anonymous = Client(
        client.driver, client.driver.connect(RECEIVER, attrs.evolve(OFFER, listing=False))
    )
    assert anonymous.ask("tasks/list") == -32601


def test_a_foreign_task_is_not_found_in_any_method(client: Client) -> None:
    task_id = client.waiting()
    before = client.record(task_id)
    stranger = Client(client.driver, client.driver.connect(RECEIVER, owner="bob"))
    for name in (task_id, "no such task"):
        assert stranger.ask("tasks/get", taskId=name) == -32081
        assert stranger.ask("tasks/result", taskId=name) == -32081
        assert stranger.ask("tasks/cancel", taskId=name) == -32081
        assert stranger.ask("tasks/update", taskId=name, metadata={"a": 1}) == -32081
        assert stranger.ask("tasks/update", taskId=name, input="x") == -32081
        assert stranger.ask("tasks/update", taskId=name, inputResponses={"k1": {}}) == -32081
        assert stranger.ask("tasks/progress", progressToken=name) == -32091
    assert client.record(task_id) == before
    assert not stranger.pushed("notifications/tasks/status")


def test_metadata_is_merged_and_new_keys_win(client: Client) -> None:
    created = client.ask(
        "tasks/create", action={"name": "greet", "type": "x"}, metadata={"a": 1, "b": {"x": 1}}
    )["task"]
    task_id = created["taskId"]
    updated = client.ask("tasks/update", taskId=task_id, metadata={"b": {"y": 2}, "c": None})
    merged = {"a": 1, "b": {"y": 2}, "c": None}
    task = client.get(task_id)
    assert updated == {
        "taskId": task_id,
        "status": "pending",
        "metadata": merged,
        "updatedAt": task["updatedAt"],
    }
    assert (task["metadata"], task["action"]) == (merged, created["action"])


def test_input_can_be_requested_by_status(client: Client) -> None:
    task_id = client.started()
    for number in (1, 2):
        updated = client.ask("tasks/update", taskId=task_id, status="input_required")
        assert updated["status"] == "input_required"
        [question] = client.record(task_id).open_questions
        assert question == Question(f"input-{number}", "elicitation/create", FREE_FORM)
        assert client.ask("tasks/update", taskId=task_id, input="x")["status"] == "processing"


@pytest.mark.parametrize(
    ("begin", "status"),
    [
        *(
            (Client.started, status)
            for status in ["", "working", "pending", "processing", *sorted(ENDED)]
        ),
        (Client.create, "input_required"),
        (Client.waiting, "input_required"),
    ],
)
def test_only_input_can_be_requested_and_only_while_processing(
    client: Client, begin: Callable[[Client], str], status: str
) -> None:
    task_id = begin(client)
    before = client.record(task_id)
    wanted = {"taskId": task_id, "status": status, "metadata": {"a": 1}}
    assert client.ask("tasks/update", **wanted) == -32086
    assert client.record(task_id) == before


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            {"status": "input_required", "input": "x"},
            "params.status requests input, so params.input must be absent",
        ),
        (
            {"status": "input_required", "metadata": {"input": "x"}},
            "params.status requests input, so params.input must be absent",
        ),
        (
            {"inputResponses": {}, "metadata": {}},
            "params.inputResponses must be the only member besides taskId",
        ),
        (
            {"inputResponses": {}, "status": "failed"},
            "params.inputResponses must be the only member besides taskId",
        ),
        (
            {"inputResponses": {}, "input": False},
            "params.inputResponses must be the only member besides taskId",
        ),
        (
            {"metadata": {"taskmachine/action": 1}},
            "params.metadata has a reserved member: taskmachine/action",
        ),
    ],
)
def test_an_update_does_not_contradict_itself(client: Client, params: Any, words: str) -> None:
    task_id = client.started()
    before = client.record(task_id)
    answers = client.connection.receive(Request(1, "tasks/update", {"taskId": task_id, **params}))
    assert answers == [ErrorResponse(1, Error(-32602, words))]
    assert client.record(task_id) == before
