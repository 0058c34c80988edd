"""erlmcp: what its sources promise to test, and what is special."""

import json
import math
from collections.abc import Callable
from itertools import count
from typing import Any, get_args

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmachine.protocol.dialects.erlmcp import messages as erlmcp
from taskmachine.protocol.dialects.erlmcp.messages import DIALECT, ProgressToken, StatusNotSettable
from taskmachine.protocol.dialects.erlmcp.receiver import RECEIVER
from taskmachine.protocol.dialects.erlmcp.requestor import REQUESTOR
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
from taskmachine.protocol.operations import FREE_FORM, Browse, Create
from taskmachine.protocol.outputs import Asked, Changed, Finished, Moved, Perform, Send
from taskmachine.protocol.requestor import Output, Requestor
from taskmachine.statemachine import (
    Call,
    Cause,
    Event,
    IllegalTransition,
    LimitExceeded,
    NotFound,
    Outcome,
    Progress,
    Question,
    Reply,
    State,
    Task,
    lifecycle,
)
from taskmachine.statemachine.lifecycle import Step
from tests.protocol.desk import OFFER, Desk, Line
from tests.protocol.messages import maybe_text, ms, tokens
from tests.strategies import ids, json_objects, json_values, text

DONE = Outcome.of_result(b'{"content":[],"structuredContent":{"final":"done"}}')


class Office(Desk):
    """A desk that turns pages of any size and has room for so many live tasks."""

    room = 1000

    def _perform(self, line: Line, wanted: Perform) -> None:
        id, operation = wanted.id, wanted.operation
        assert id is not None
        if isinstance(operation, Browse):
            mine = [task for task in reversed(self.tasks.values()) if task.owner == line.owner]
            start, limit = int(operation.cursor or 0), operation.limit or 100
            end = start + limit
            cursor = str(end) if mine[end:] else None
            self.handle(line, line.receiver.paged(id, mine[start:end], cursor, now=self.now))
        elif isinstance(operation, Create) and self._live() >= self.room:
            error = LimitExceeded(f"{self.room} live tasks", 500)
            self.handle(line, line.receiver.refused(id, error))
        else:
            super()._perform(line, wanted)

    def _live(self) -> int:
        return sum(not task.is_terminal for task in self.tasks.values())


@attrs.define(eq=False)
class Client:
    """Speaks plain JSON with a receiver of this dialect."""

    desk: Office
    line: Line
    _numbers: "count[int]" = attrs.field(factory=lambda: count(1))

    def ask(self, method: str, **params: Any) -> Any:
        """The result, or the code of the error; what was pushed meanwhile stays in `line.sent`."""
        id = next(self._numbers)
        answers = [
            message
            for message in self.line.receive(Request(id, method, params))
            if not isinstance(message, Notification)
        ]
        [answer] = [json.loads(encode_message(message)) for message in answers]
        assert answer["id"] == id
        return answer["result"] if "result" in answer else answer["error"]["code"]

    def create(self, **params: Any) -> str:
        task = self.ask("tasks/create", action={"name": "greet"}, **params)["task"]
        task_id: str = task["taskId"]
        return task_id

    def get(self, task_id: str) -> Any:
        return self.ask("tasks/get", taskId=task_id)["task"]

    def status(self, task_id: str) -> str:
        status: str = self.get(task_id)["status"]
        return status

    def started(self) -> str:
        """A new task that a worker has."""
        task_id = self.create()
        self.work(task_id, lambda task, now: lifecycle.start(task, now, worker="w"))
        return task_id

    def waiting(self, **partial: Any) -> str:
        """A new task whose worker waits for input."""
        task_id = self.started()
        self.request_input(task_id, "k1", **partial)
        return task_id

    def request_input(self, task_id: str, key: str, **partial: Any) -> None:
        question = Question(key, "elicitation/create", FREE_FORM)
        shown = json.dumps(partial).encode() if partial else None
        self.work(task_id, lambda task, now: lifecycle.ask(task, now, [question], partial=shown))

    def work(self, task_id: str, act: Callable[[Task, int], Step | None]) -> Task:
        self.desk.now += 10
        return self.desk.move(task_id, lambda task: act(task, self.desk.now))

    def finish(self, task_id: str, outcome: Outcome = DONE) -> Task:
        act = lifecycle.fail if outcome.result is None else lifecycle.complete
        return self.work(task_id, lambda task, now: act(task, now, outcome))

    def pushed(self, method: str) -> list[Any]:
        """The parameters of the notifications so far."""
        messages = [send.message for send in self.line.sent]
        return [
            json.loads(encode_message(message))["params"]
            for message in messages
            if isinstance(message, Notification) and message.method == method
        ]

    def changes(self) -> list[str]:
        """Every status that was pushed since a worker has the task."""
        told = self.pushed("notifications/tasks/status")
        statuses = [params["task"]["status"] for params in told]
        return [status for status in statuses if status != "pending"]

    def record(self, task_id: str) -> Task:
        return self.desk.tasks[task_id]


@pytest.fixture
def client() -> Client:
    desk = Office()
    return Client(desk, desk.connect(RECEIVER))


# --- the life of a task -------------------------------------------------------------


def test_create_answers_with_a_pending_task(client: Client) -> None:
    task = client.ask(
        "tasks/create",
        action={"name": "greet", "arguments": {"who": "Ada"}, "type": "greeting"},
        metadata={"priority": "high"},
        options={"ttl_ms": 60_000},
    )["task"]
    now = client.desk.now
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
    [answer] = client.line.receive(Request(1, "tasks/create", {"action": {"name": name}}))
    assert answer == ErrorResponse(1, Error(-32602, words))


def test_the_lifecycle(client: Client) -> None:
    """And every change of status is told."""
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
    """A timeout has a code of its own."""
    task_id = client.started()
    client.finish(task_id, outcome)
    task = client.get(task_id)
    assert (task["status"], task["error"]) == ("failed", error)
    assert "result" not in task
    assert client.ask("tasks/result", taskId=task_id) == error["code"]


def test_cancel_with_a_reason(client: Client) -> None:
    """The reason is told by the task and by the notification."""
    task_id = client.started()
    assert client.ask("tasks/cancel", taskId=task_id, reason="user requested") == {}
    task = client.get(task_id)
    assert task["status"] == "cancelled"
    assert task["error"] == {"code": -32084, "message": "user requested"}
    assert client.ask("tasks/result", taskId=task_id) == -32084
    shown = DIALECT.encode_notification(erlmcp.encode_cancelled(client.record(task_id)))
    assert shown == Notification(
        "notifications/cancelled", {"taskId": task_id, "reason": "user requested"}
    )


def test_what_has_ended_never_changes(client: Client) -> None:
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
    """The task of 100 ms fails at its end, and is then forgotten."""
    task_id = client.create(options={"ttl_ms": 100})
    created = client.get(task_id)
    assert created["expiresAt"] - created["createdAt"] == 100
    client.work(task_id, lifecycle.expire)
    expired = client.get(task_id)
    assert expired["error"]["code"] == -32603
    assert expired["updatedAt"] > created["updatedAt"]
    assert expired["expiresAt"] == created["expiresAt"], "it counts from creation"
    assert lifecycle.purge(client.desk.tasks.pop(task_id), client.desk.now)
    assert client.ask("tasks/get", taskId=task_id) == -32081
    assert client.ask("tasks/result", taskId=task_id) == -32081


def test_the_cap_of_live_tasks(client: Client) -> None:
    """A task that has ended frees its place."""
    client.desk.room = 2
    first, _ = client.create(), client.create()
    assert client.ask("tasks/create", action={"name": "greet"}) == -32087
    client.ask("tasks/cancel", taskId=first)
    assert client.create()


def test_50_tasks_in_pages_of_20(client: Client) -> None:
    """20, 20, 10, and no cursor on the last page."""
    made = [client.create() for _ in range(50)]
    Client(client.desk, client.desk.connect(RECEIVER, owner="bob")).create()
    pages = [client.ask("tasks/list", limit=20)]
    while "cursor" in pages[-1]:
        pages.append(client.ask("tasks/list", cursor=pages[-1]["cursor"], limit=20))
    assert [len(page["tasks"]) for page in pages] == [20, 20, 10]
    assert [task["taskId"] for page in pages for task in page["tasks"]] == made[::-1]
    assert pages[0]["tasks"][0] == client.get(made[-1])
    assert "cursor" not in client.ask("tasks/list")


def test_there_is_no_list_where_callers_cannot_be_told_apart(client: Client) -> None:
    anonymous = Client(
        client.desk, client.desk.connect(RECEIVER, attrs.evolve(OFFER, listing=False))
    )
    assert anonymous.ask("tasks/list") == -32601


def test_a_foreign_task_is_not_found_in_any_method(client: Client) -> None:
    """As if it did not exist, in every method."""
    task_id = client.waiting()
    before = client.record(task_id)
    stranger = Client(client.desk, client.desk.connect(RECEIVER, owner="bob"))
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


# --- tasks/update -------------------------------------------------------------------


def test_metadata_is_merged_and_new_keys_win(client: Client) -> None:
    """What the action said stays out of it."""
    created = client.ask(
        "tasks/create",
        action={"name": "greet", "type": "x"},
        metadata={"a": 1, "b": {"x": 1}},
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
    """Only while processing; every question has a key of its own."""
    task_id = client.started()
    for number in (1, 2):
        updated = client.ask("tasks/update", taskId=task_id, status="input_required")
        assert updated["status"] == "input_required"
        [question] = client.record(task_id).open_questions
        assert question == Question(f"input-{number}", "elicitation/create", FREE_FORM)
        assert client.ask("tasks/update", taskId=task_id, input="x")["status"] == "processing"


@pytest.mark.parametrize(
    "status", ["pending", "processing", "completed", "failed", "cancelled", "working", ""]
)
def test_no_other_status_can_be_set(client: Client, status: str) -> None:
    """An error, and nothing changes."""
    task_id = client.started()
    before = client.record(task_id)
    wanted = {"taskId": task_id, "status": status, "metadata": {"a": 1}}
    assert client.ask("tasks/update", **wanted) == -32086
    assert client.record(task_id) == before


def test_input_is_requested_only_while_processing(client: Client) -> None:
    """And what came with it is not stored either."""
    task_id = client.create()
    before = client.record(task_id)
    wanted = {"taskId": task_id, "status": "input_required", "metadata": {"a": 1}}
    assert client.ask("tasks/update", **wanted) == -32086
    assert client.record(task_id) == before


def test_input_is_not_requested_twice(client: Client) -> None:
    """From processing only."""
    task_id = client.waiting()
    before = client.record(task_id)
    assert client.ask("tasks/update", taskId=task_id, status="input_required") == -32086
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
    answers = client.line.receive(Request(1, "tasks/update", {"taskId": task_id, **params}))
    assert answers == [ErrorResponse(1, Error(-32602, words))]
    assert client.record(task_id) == before


# --- input --------------------------------------------------------------------------


def test_the_lifecycle_of_input(client: Client) -> None:
    """No result while input is wanted, only what there is of it."""
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
    asked = lifecycle.ask(_task(), 2, [asking], partial=shown)
    assert asked is not None
    [message] = _over_the_wire(DIALECT.encode_response(1, erlmcp.encode_task(asked.task)))
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
    """To the worker it is a form that was filled in."""
    task_id = client.waiting()
    updated = client.ask("tasks/update", taskId=task_id, **params)
    assert updated["status"] == "processing"
    assert updated["metadata"] == params.get("metadata", {})
    [question] = client.record(task_id).questions
    assert question.answer is not None
    assert json.loads(question.answer.body) == {"action": "accept", "content": content}
    assert client.pushed("notifications/tasks/status")[-1]["task"]["status"] == "processing"


def test_input_that_nobody_wants_is_refused(client: Client) -> None:
    for task_id in (client.create(), client.started()):
        before = client.record(task_id)
        assert client.ask("tasks/update", taskId=task_id, input="x", metadata={"a": 1}) == -32086
        assert client.record(task_id) == before


def test_a_tool_that_ends_with_open_questions_withdraws_them_first(client: Client) -> None:
    """Nobody sees a task complete while it wants input."""
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
def test_nobody_waits_for_input_for_ever(client: Client, act: Any, code: int) -> None:
    task_id = client.waiting()
    client.work(task_id, act)
    task = client.get(task_id)
    assert (task["status"], task["error"]["code"]) == ("failed", code)
    assert client.ask("tasks/update", taskId=task_id, input="late") == -32090


def test_create_input_resume_complete(client: Client) -> None:
    """The whole of it, and what a client sees of it."""
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
    """Ours: what is asked is shown, and one answer does not fit all."""
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


# --- tasks/progress -----------------------------------------------------------------


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
    """The highest so far is kept."""
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


@pytest.mark.parametrize("token", ["unknown", "", 0, 7])
def test_an_unknown_token(client: Client, token: str | int) -> None:
    assert client.ask("tasks/progress", progressToken=token, progress=0.5) == -32091


@pytest.mark.parametrize("token", [None, 1.5, True, [], {}])
def test_a_token_is_a_string_or_an_integer(client: Client, token: Any) -> None:
    assert client.ask("tasks/progress", progressToken=token, progress=0.5) == -32602


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
    [output] = client.line.receiver.receive(request)  # past JSON, which cannot spell all of them
    assert output == Send(ErrorResponse(1, Error(-32602, words)), 1)
    assert client.record(task_id).progress is None


def test_the_token_outlives_a_pause(client: Client) -> None:
    task_id = client.waiting()
    assert client.ask("tasks/progress", progressToken=task_id, progress=0.5) == {"progress": 0.5}
    assert client.status(task_id) == "input_required"


def test_there_is_no_progress_after_the_end() -> None:
    moving = lifecycle.report(_task(), 2, progress=Progress(0.5)).task
    assert erlmcp.encode_progress(_task()) is None
    assert erlmcp.encode_progress(moving) == erlmcp.Progress("t1", 0.5)
    assert erlmcp.encode_progress(lifecycle.complete(moving, 3, DONE).task) is None


# --- messages --------------------------------------------------------------------------------

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


def _over_the_wire(*messages: Any) -> list[Any]:
    return [json.loads(encode_message(message)) for message in messages]


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


@pytest.mark.parametrize(
    ("method", "params", "reason"),
    [
        ("tasks/create", {}, "params.action is required"),
        ("tasks/create", {"action": "x"}, "params.action must be an object, got string"),
        ("tasks/create", {"action": {}}, "params.action.name is required"),
        (
            "tasks/create",
            {"action": {"name": "x", "arguments": []}},
            "params.action.arguments must be an object, got array",
        ),
        (
            "tasks/create",
            {"action": {"name": "x"}, "metadata": 1},
            "params.metadata must be an object, got number",
        ),
        (
            "tasks/create",
            {"action": {"name": "x"}, "options": {"ttl_ms": -1}},
            "params.options.ttl_ms must be from 0 to 9007199254740991",
        ),
        ("tasks/list", {"cursor": 1}, "params.cursor must be a string, got number"),
        ("tasks/list", {"limit": "1"}, "params.limit must be an integer, got string"),
        ("tasks/list", {"limit": 0}, "params.limit must be at least 1"),
        ("tasks/get", {}, "params.taskId is required"),
        ("tasks/result", {"taskId": 1}, "params.taskId must be a string, got number"),
        (
            "tasks/cancel",
            {"taskId": "x", "reason": 1},
            "params.reason must be a string, got number",
        ),
        ("tasks/update", {"metadata": {}}, "params.taskId is required"),
        (
            "tasks/update",
            {"taskId": "x", "status": 1},
            "params.status must be a string, got number",
        ),
        (
            "tasks/update",
            {"taskId": "x", "inputResponses": {"k": 1}},
            "params.inputResponses['k'] must be an object, got number",
        ),
        ("tasks/progress", {}, "params.progressToken is required"),
        (
            "tasks/progress",
            {"progressToken": []},
            "params.progressToken must be a string or an integer, got array",
        ),
    ],
)
def test_wrong_parameters_name_the_place(
    client: Client, method: str, params: Any, reason: str
) -> None:
    [answer] = client.line.receive(Request(1, method, params))
    assert answer == ErrorResponse(1, Error(-32602, reason))


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
    assert "t1" not in json.dumps(attrs.asdict(answer)), "an id that is not found is not repeated"


def test_a_limit_says_when_to_come_back() -> None:
    assert DIALECT.encode_error(1, LimitExceeded("x", 500)).error.data == {"retryAfterMs": 500}


def test_a_task_of_another_wire_is_shown_as_well() -> None:
    """It may have no tool, and a token that its requestor chose."""
    call = Call("sampling/createMessage", None, b'{"maxTokens":1}', "mine")
    task = lifecycle.submit("t1", "alice", call, 1, ttl_ms=None).task
    [message] = _over_the_wire(DIALECT.encode_response(1, erlmcp.encode_task(task)))
    shown = message["result"]
    assert shown["action"] == {"name": "sampling/createMessage", "arguments": {"maxTokens": 1}}
    assert shown["progressToken"] == "t1"


def _task() -> Task:
    submitted = lifecycle.submit("t1", "alice", Call("tools/call", "greet"), 1, ttl_ms=None).task
    return lifecycle.start(submitted, 1, worker="w").task


# --- the requestor ---------------------------------------------------------------------------


@attrs.define(eq=False)
class Caller:
    """A requestor and a receiver back to back, on a wire that loses nothing."""

    client: Client
    requestor: Requestor
    told: list[Output] = attrs.field(factory=list)
    said: list[Any] = attrs.field(factory=list)
    heard: int = 0

    @property
    def now(self) -> int:
        return self.client.desk.now

    def hear(self, outputs: list[Output]) -> None:
        """Carry on until nobody has anything to say."""
        line = self.client.line
        for output in outputs:
            if isinstance(output, Send):
                self.said.append(json.loads(encode_message(output.message)))
                line.receive(output.message)
            else:
                self.told.append(output)
        while self.heard < len(line.sent):
            message = decode_message(encode_message(line.sent[self.heard].message))
            self.heard += 1
            self.hear(self.requestor.receive(message, now=self.now))

    def start(self, ttl_ms: int | None = None) -> str:
        call = Call("tools/call", "greet", b'{"who":"Ada"}')
        self.hear(self.requestor.start("c", call, now=self.now, ttl_ms=ttl_ms))
        return list(self.client.desk.tasks)[-1]

    def poll(self) -> None:
        self.client.desk.now = max(self.now, self.requestor.next_tick() or 0)
        self.hear(self.requestor.tick(self.now))

    def outcome(self) -> Outcome:
        last = self.told[-1]
        assert isinstance(last, Finished)
        return last.outcome


@pytest.fixture
def caller(client: Client) -> Caller:
    numbers = count(1)
    return Caller(client, Requestor(REQUESTOR, new_id=lambda: next(numbers)))


def test_a_call_from_create_to_its_result(caller: Caller) -> None:
    task_id = caller.start(ttl_ms=60_000)
    assert caller.said[0]["params"] == {
        "action": {"name": "greet", "arguments": {"who": "Ada"}},
        "options": {"ttl_ms": 60_000},
    }
    work = caller.client
    work.work(task_id, lambda task, now: lifecycle.start(task, now, worker="w"))
    caller.poll()
    work.finish(task_id)
    caller.poll()
    assert caller.told == [
        Changed("c", State.SUBMITTED),
        Changed("c", State.WORKING),
        Changed("c", State.COMPLETED),
        Finished("c", DONE),
    ]


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome.of_result(b'{"content":[],"isError":true}', is_error=True),
        Outcome.of_error(-32602, "no", b'{"x":1}'),
        Outcome.of_error(7, "no"),
        Outcome(Cause.TIMED_OUT, message="slow"),
    ],
)
def test_the_caller_is_told_the_outcome_as_it_was(caller: Caller, outcome: Outcome) -> None:
    caller.client.finish(caller.start(), outcome)
    assert "options" not in caller.said[0]["params"]
    caller.poll()
    assert caller.outcome() == outcome


def test_a_caller_cancels(caller: Caller) -> None:
    caller.start()
    caller.hear(caller.requestor.cancel("c", now=caller.now))
    assert caller.outcome() == Outcome(
        Cause.CANCELLED, message="The task was cancelled by request."
    )


def test_a_task_that_is_gone_has_failed(caller: Caller) -> None:
    del caller.client.desk.tasks[caller.start()]
    caller.poll()
    assert caller.outcome() == Outcome.of_error(-32081, "Task not found")


def test_a_call_that_is_refused_has_failed(caller: Caller) -> None:
    caller.client.desk.room = 0
    call = Call("tools/call", "greet")
    caller.hear(caller.requestor.start("c", call, now=caller.now))
    data = b'{"retryAfterMs":500}'
    assert caller.outcome() == Outcome.of_error(-32087, "Limit reached: 0 live tasks", data)


def test_a_caller_answers_what_it_is_asked(caller: Caller) -> None:
    """A person is asked each question once, by its name, also within one millisecond."""
    task_id, work = caller.start(), caller.client
    work.work(task_id, lambda task, now: lifecycle.start(task, now, worker="w"))
    for key in ("k1", "k2"):
        question = Question(key, "elicitation/create", FREE_FORM)
        work.desk.move(task_id, lambda t, q=question: lifecycle.ask(t, caller.now, [q]))  # type: ignore[misc]
        caller.hear([])
        asked = [told for told in caller.told if isinstance(told, Asked)]
        assert asked[-1] == Asked("c", key, "elicitation/create", json.loads(FREE_FORM))
        reply = Reply(b'{"action":"decline"}')
        caller.hear(caller.requestor.answer("c", key, reply, now=caller.now))
        assert work.record(task_id).questions[-1].answer == reply
    assert len(asked) == 2


def test_a_caller_of_a_server_that_does_not_name_its_questions() -> None:
    """It is one question until the time moves on; who says no, cancels."""
    shown = erlmcp.encode_task(_task())
    waiting = attrs.evolve(shown, status="input_required", updatedAt=5)
    first = REQUESTOR.read(erlmcp.TaskStatus(waiting))
    assert first is not None
    assert first == REQUESTOR.read(erlmcp.GetTaskResult(waiting))
    [(key, question)] = first.questions.items()
    assert question == ("elicitation/create", json.loads(FREE_FORM))
    later = REQUESTOR.read(erlmcp.GetTaskResult(attrs.evolve(waiting, updatedAt=6)))
    assert later is not None
    assert later.questions.keys().isdisjoint(first.questions)
    assert REQUESTOR.answer is not None
    accept = Reply(b'{"action":"accept","content":{"input":"yes"}}')
    assert REQUESTOR.answer("t1", key, accept) == erlmcp.UpdateTask("t1", input={"input": "yes"})
    bare = REQUESTOR.answer("t1", key, Reply(b'{"action":"accept"}'))
    assert bare == erlmcp.UpdateTask("t1", input={})
    decline = REQUESTOR.answer("t1", key, Reply(b'{"action":"decline"}'))
    assert decline == erlmcp.CancelTask("t1", "The input was declined.")


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("completed", Outcome.of_result(b"null")),
        ("failed", Outcome.of_error(-32603, "The receiver gave no reason.")),
        ("cancelled", Outcome(Cause.CANCELLED, message="The receiver gave no reason.")),
    ],
)
def test_a_server_that_says_little_is_understood(status: Any, outcome: Outcome) -> None:
    task = erlmcp.Task("t1", status, {}, {}, 1, 2)
    seen = REQUESTOR.read_created(erlmcp.CreateTaskResult(task))
    assert getattr(seen, "outcome", None) == outcome


def test_acknowledgements_show_nothing() -> None:
    assert REQUESTOR.read(erlmcp.EmptyResult()) is None
    assert REQUESTOR.read(erlmcp.UpdateTaskResult("t1", "completed", {}, 1)) is None


def test_progress_is_read_with_the_token_of_the_server() -> None:
    assert REQUESTOR.read_progress is not None
    assert REQUESTOR.read_progress(erlmcp.Progress("t1", 1, 4)) == ("t1", Progress(1, 4))


def test_a_caller_is_told_of_progress(caller: Caller) -> None:
    task_id = caller.start()
    work = caller.client
    work.work(task_id, lambda task, now: lifecycle.report(task, now, progress=Progress(0.5)))
    caller.hear([])
    assert Moved("c", Progress(0.5)) in caller.told


# --- what waits for a change of `receiver` ---------------------------------------------------


def test_creation_is_told(client: Client) -> None:
    task = client.get(client.create())
    assert client.pushed("notifications/tasks/status") == [{"task": task}]


def test_cancellation_is_told(client: Client) -> None:
    task_id = client.create()
    client.ask("tasks/cancel", taskId=task_id, reason="user requested")
    assert client.pushed("notifications/cancelled") == [
        {"taskId": task_id, "reason": "user requested"}
    ]
