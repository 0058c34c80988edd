"""Input and progress in erlmcp."""

import json
import math
from typing import Any

import pytest
from hypothesis import given

from taskmachine.protocol.dialects.erlmcp import messages as erlmcp
from taskmachine.protocol.dialects.erlmcp.messages import DIALECT
from taskmachine.protocol.jsonrpc import Error, ErrorResponse, Request
from taskmachine.protocol.operations import FREE_FORM
from taskmachine.protocol.outputs import Send
from taskmachine.statemachine import Cause, Outcome, Progress, Question, Reply, lifecycle
from tests.protocol.erlmcp.client import DONE, Client, over_the_wire, started_task
from tests.strategies import json_values


def test_the_lifecycle_of_input(client: Client) -> None:
    task_id = client.started()
    assert client.ask("tasks/result", taskId=task_id) == -32089
    client.request_input(task_id, "k1", processed=100, total=200)
    task = client.get(task_id)
    assert task["status"] == "input_required"
    assert task["result"] == {"processed": 100, "total": 200}
    assert task["updatedAt"] > task["createdAt"]
    assert client.ask("tasks/result", taskId=task_id) == -32089
    assert client.pushed("notifications/tasks/status")[-1] == {"task": task}


@given(partial=json_values)
def test_partial_results_are_free_form_and_gone_afterwards(partial: Any) -> None:
    asking = Question("k1", "elicitation/create", FREE_FORM)
    shown = json.dumps(partial).encode()
    asked = lifecycle.ask(started_task(), 2, [asking], partial=shown)
    assert asked is not None
    [message] = over_the_wire(DIALECT.encode_response(1, erlmcp.encode_task(asked.task)))
    assert message["result"]["result"] == partial
    resumed = lifecycle.answer(asked.task, 3, {"k1": Reply(b"{}")})
    assert resumed is not None
    assert resumed.task.partial is not None
    assert erlmcp.encode_task(resumed.task).result is None


@pytest.mark.parametrize(
    ("params", "content"),
    [
        ({"input": "continue"}, {"input": "continue"}),
        ({"input": 0}, {"input": 0}),
        ({"input": False}, {"input": False}),
        ({"input": {"user_choice": "continue"}}, {"user_choice": "continue"}),
        ({"metadata": {"input": {"user_choice": 1}}}, {"user_choice": 1}),
        ({"metadata": {"input": "inner"}, "input": "outer"}, {"input": "outer"}),
    ],
)
def test_input_resumes_the_task(client: Client, params: Any, content: Any) -> None:
    task_id = client.waiting()
    updated = client.ask("tasks/update", taskId=task_id, **params)
    assert updated["status"] == "processing"
    assert updated["metadata"] == params.get("metadata", {})
    [question] = client.record(task_id).questions
    assert question.answer is not None
    assert json.loads(question.answer.body) == {"action": "accept", "content": content}
    assert client.pushed("notifications/tasks/status")[-1]["task"]["status"] == "processing"


def test_the_server_refuses_input_for_a_task_without_questions(client: Client) -> None:
    for task_id in (client.create(), client.started()):
        before = client.record(task_id)
        assert client.ask("tasks/update", taskId=task_id, input="x", metadata={"a": 1}) == -32086
        assert client.record(task_id) == before


def test_a_tool_that_ends_with_open_questions_withdraws_them_first(client: Client) -> None:
    task_id = client.waiting()
    client.work(task_id, lambda task, now: lifecycle.withdraw(task, now))
    client.finish(task_id)
    assert client.changes() == ["processing", "input_required", "processing", "completed"]


def test_a_task_that_wants_input_can_be_cancelled(client: Client) -> None:
    task_id = client.waiting()
    assert client.ask("tasks/cancel", taskId=task_id) == {}
    task = client.get(task_id)
    assert task["status"] == "cancelled"
    assert "inputRequests" not in task


def test_input_can_be_wanted_many_times(client: Client) -> None:
    task_id = client.started()
    for cycle in (1, 2, 3):
        client.request_input(task_id, f"k{cycle}", cycle=cycle)
        assert client.get(task_id)["result"] == {"cycle": cycle}
        client.ask("tasks/update", taskId=task_id, input={"response": cycle})
    client.finish(task_id)
    answers = [question.answer for question in client.record(task_id).questions]
    contents = [json.loads(answer.body)["content"] for answer in answers if answer is not None]
    assert contents == [{"response": 1}, {"response": 2}, {"response": 3}]


@pytest.mark.parametrize(
    ("act", "code"),
    [
        (lifecycle.expire, -32603),
        (lambda t, now: lifecycle.fail(t, now, Outcome(Cause.TIMED_OUT, message="slow")), -32085),
    ],
)
def test_a_task_that_waits_for_input_fails_on_expiry_or_timeout(
    client: Client, act: Any, code: int
) -> None:
    task_id = client.waiting()
    client.work(task_id, act)
    task = client.get(task_id)
    assert (task["status"], task["error"]["code"]) == ("failed", code)
    assert client.ask("tasks/update", taskId=task_id, input="late") == -32090


def test_create_input_resume_complete(client: Client) -> None:
    task_id = client.create()
    client.work(task_id, lambda task, now: lifecycle.start(task, now, worker="w"))
    client.ask("tasks/progress", progressToken=task_id, progress=0.5)
    client.request_input(task_id, "k1", processed=100)
    client.ask("tasks/update", taskId=task_id, input={"user_choice": "continue"})
    client.finish(task_id)
    assert client.ask("tasks/result", taskId=task_id) == {"result": client.get(task_id)["result"]}
    assert client.changes() == ["processing", "input_required", "processing", "completed"]
    assert client.pushed("notifications/progress") == [{"progressToken": task_id, "progress": 0.5}]


def test_questions_can_be_answered_by_name(client: Client) -> None:
    task_id = client.started()
    client.request_input(task_id, "name")
    client.request_input(task_id, "city")
    asked = {"method": "elicitation/create", "params": json.loads(FREE_FORM)}
    assert client.get(task_id)["inputRequests"] == {"name": asked, "city": asked}
    updated = client.ask("tasks/update", taskId=task_id, inputResponses={"name": {"a": 1}})
    assert updated["status"] == "input_required"
    assert client.get(task_id)["inputRequests"] == {"city": asked}
    again = client.ask("tasks/update", taskId=task_id, inputResponses={"name": {"a": 2}})
    assert again == updated, "the first answer counts"
    client.ask("tasks/update", taskId=task_id, inputResponses={"city": {"action": "decline"}})
    assert "inputRequests" not in client.get(task_id)
    answers = [question.answer for question in client.record(task_id).questions]
    assert answers == [Reply(b'{"a":1}'), Reply(b'{"action":"decline"}')]


def test_progress_in_fractions(client: Client) -> None:
    task_id = client.started()
    token = client.get(task_id)["progressToken"]
    assert client.ask("tasks/progress", progressToken=token) == {"progress": 0.0}
    for value in (0.25, 1, 1.0):
        assert client.ask("tasks/progress", progressToken=token, progress=value) == {
            "progress": value
        }
    task = client.get(task_id)
    assert task["progress"] == 1
    assert "total" not in task
    assert [params["progress"] for params in client.pushed("notifications/progress")] == [
        0.0, 0.25, 1,
    ]  # fmt: skip


def test_progress_in_units(client: Client) -> None:
    task_id = client.started()
    for value in (25, 100, 50):
        echo = client.ask("tasks/progress", progressToken=task_id, progress=value, total=100)
        assert echo == {"progress": value, "total": 100}
    task = client.get(task_id)
    assert (task["progress"], task["total"]) == (100, 100)
    assert client.pushed("notifications/progress") == [
        {"progressToken": task_id, "progress": 25, "total": 100},
        {"progressToken": task_id, "progress": 100, "total": 100},
    ]


@pytest.mark.parametrize(
    ("tokens", "code"), [(("unknown", "", 0, 7), -32091), ((None, 1.5, True, [], {}), -32602)]
)
def test_an_unknown_or_invalid_token(client: Client, tokens: Any, code: int) -> None:
    for token in tokens:
        assert client.ask("tasks/progress", progressToken=token, progress=0.5) == code


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"progress": 1.01}, "Progress must be between 0.0 and 1.0"),
        ({"progress": -0.01}, "Progress must be between 0.0 and 1.0"),
        ({"progress": 10**400}, "Progress must be between 0.0 and 1.0"),
        ({"progress": math.nan}, "Progress must be between 0.0 and 1.0"),
        ({"progress": math.inf}, "Progress must be between 0.0 and 1.0"),
        ({"progress": 101, "total": 100}, "Progress must be between 0.0 and 100"),
        ({"progress": -1, "total": 100}, "Progress must be between 0.0 and 100"),
        ({"progress": 0, "total": -1}, "Progress must be between 0.0 and -1"),
        ({"progress": 10**400, "total": 10**400}, "params.total must be a finite number"),
        ({"progress": 0, "total": -math.inf}, "params.total must be a finite number"),
        ({"progress": 1, "total": math.inf}, "params.total must be a finite number"),
        ({"progress": 1, "total": math.nan}, "params.total must be a finite number"),
        ({"progress": "0.5"}, "params.progress must be a number, got string"),
        ({"progress": 0, "total": True}, "params.total must be a number, got boolean"),
    ],
)
def test_progress_out_of_range(client: Client, params: Any, words: str) -> None:
    task_id = client.started()
    request = Request(1, "tasks/progress", {"progressToken": task_id, **params})
    [output] = client.connection.receiver.receive(
        request
    )  # past JSON, which cannot spell all of them
    assert output == Send(ErrorResponse(1, Error(-32602, words)), 1)
    assert client.record(task_id).progress is None


def test_the_token_outlives_a_pause(client: Client) -> None:
    task_id = client.waiting()
    assert client.ask("tasks/progress", progressToken=task_id, progress=0.5) == {"progress": 0.5}
    assert client.status(task_id) == "input_required"


def test_a_terminal_task_has_no_progress_notification() -> None:
    moving = lifecycle.report(started_task(), 2, progress=Progress(0.5)).task
    assert erlmcp.encode_progress(started_task()) is None
    assert erlmcp.encode_progress(moving) == erlmcp.Progress("t1", 0.5)
    assert erlmcp.encode_progress(lifecycle.complete(moving, 3, DONE).task) is None
