"""The requestor of erlmcp."""

import json
from itertools import count
from typing import Any

import attrs
import pytest

from taskmachine.protocol.dialects.erlmcp import messages as erlmcp
from taskmachine.protocol.dialects.erlmcp.requestor import REQUESTOR
from taskmachine.protocol.jsonrpc import decode_message, encode_message
from taskmachine.protocol.operations import FREE_FORM
from taskmachine.protocol.outputs import Asked, Changed, Finished, Moved, Send
from taskmachine.protocol.requestor import Output, Requestor
from taskmachine.statemachine import (
    Call,
    Cause,
    Outcome,
    Progress,
    Question,
    Reply,
    State,
    lifecycle,
)
from tests.protocol.erlmcp.client import DONE, Client, started_task


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
        return self.client.driver.now

    def hear(self, outputs: list[Output]) -> None:
        """Exchange messages until neither side has any left."""
        connection = self.client.connection
        for output in outputs:
            if isinstance(output, Send):
                self.said.append(json.loads(encode_message(output.message)))
                connection.receive(output.message)
            else:
                self.told.append(output)
        while self.heard < len(connection.sent):
            message = decode_message(encode_message(connection.sent[self.heard].message))
            self.heard += 1
            self.hear(self.requestor.receive(message, now=self.now))

    def start(self, ttl_ms: int | None = None) -> str:
        call = Call("tools/call", "greet", b'{"who":"Ada"}')
        self.hear(self.requestor.start("c", call, now=self.now, ttl_ms=ttl_ms))
        return list(self.client.driver.tasks)[-1]

    def poll(self) -> None:
        self.client.driver.now = max(self.now, self.requestor.next_tick() or 0)
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
def test_the_requestor_passes_the_outcome_to_the_caller_unchanged(
    caller: Caller, outcome: Outcome
) -> None:
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
    del caller.client.driver.tasks[caller.start()]
    caller.poll()
    assert caller.outcome() == Outcome.of_error(-32081, "Task not found")


def test_a_call_that_is_refused_has_failed(caller: Caller) -> None:
    caller.client.driver.room = 0
    call = Call("tools/call", "greet")
    caller.hear(caller.requestor.start("c", call, now=caller.now))
    data = b'{"retryAfterMs":500}'
    assert caller.outcome() == Outcome.of_error(-32087, "Limit reached: 0 live tasks", data)


def test_the_requestor_asks_the_caller_each_question_once(caller: Caller) -> None:
    task_id, work = caller.start(), caller.client
    work.work(task_id, lambda task, now: lifecycle.start(task, now, worker="w"))
    for key in ("k1", "k2"):
        question = Question(key, "elicitation/create", FREE_FORM)
        work.driver.move(task_id, lambda t, q=question: lifecycle.ask(t, caller.now, [q]))  # type: ignore[misc]
        caller.hear([])
        asked = [told for told in caller.told if isinstance(told, Asked)]
        assert asked[-1] == Asked("c", key, "elicitation/create", json.loads(FREE_FORM))
        reply = Reply(b'{"action":"decline"}')
        caller.hear(caller.requestor.answer("c", key, reply, now=caller.now))
        assert work.record(task_id).questions[-1].answer == reply
    assert len(asked) == 2


def test_a_caller_of_a_server_that_does_not_name_its_questions() -> None:
    """It is one question until the time moves on; who says no, cancels."""
    shown = erlmcp.encode_task(started_task())
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


def test_the_requestor_reports_progress_to_the_caller(caller: Caller) -> None:
    task_id = caller.start()
    work = caller.client
    work.work(task_id, lambda task, now: lifecycle.report(task, now, progress=Progress(0.5)))
    caller.hear([])
    assert Moved("c", Progress(0.5)) in caller.told
