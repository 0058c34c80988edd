"""What all receivers share."""

from typing import Any

import attrs
import pytest

from taskmachine.protocol.dialects.dialect import wishes_of
from taskmachine.protocol.dialects.erlmcp.receiver import RECEIVER as RECEIVER_ERLMCP
from taskmachine.protocol.dialects.mcp_2025_11_25 import messages as g1
from taskmachine.protocol.dialects.mcp_2025_11_25.receiver import RECEIVER as RECEIVER_2025
from taskmachine.protocol.dialects.mcp_2026_07_28 import messages as g2
from taskmachine.protocol.dialects.mcp_2026_07_28.receiver import RECEIVER as RECEIVER_2026
from taskmachine.protocol.dialects.receiver import poll_interval_ms
from taskmachine.protocol.jsonrpc import Error, ErrorResponse, Request, ResultResponse
from taskmachine.protocol.operations import Answer, Create
from taskmachine.protocol.outputs import Abandoned, Perform, Send
from taskmachine.protocol.receiver import Receiver
from taskmachine.statemachine import Call, NotFound, Outcome, Question, Reply, Task, lifecycle
from tests.protocol.memory_driver import OFFER, only
from tests.requirements import covers

TASK = lifecycle.submit("t", "alice", Call("tools/call"), 0, ttl_ms=None).task
META = g2.RequestMeta(g2.REVISION, g2.TASKS_REQUIRED)


def receiver_2026() -> Receiver:
    return Receiver(RECEIVER_2026, OFFER, owner="alice", new_id=lambda: 1)


def test_the_interval_grows_with_age_within_bounds_unless_the_tool_suggests_one() -> None:
    task = Task("t", "alice", Call("tools/call"), 7, 7)
    ages = (0, 2_500, 10_000, 50_000, 10**9)
    grown = [250, 250, 1_000, 5_000, 5_000]
    assert [poll_interval_ms(task, 7 + age) for age in ages] == grown
    suggested = attrs.evolve(task, poll_interval_ms=90_000)
    assert {poll_interval_ms(suggested, 7 + age) for age in ages} == {90_000}


def test_nothing_is_said_to_a_request_that_was_given_up() -> None:
    receiver = receiver_2026()
    receiver.receive(g2.DIALECT.encode_request(1, g2.GetTask("t", META)))
    assert receiver.closed(1) == [Abandoned(1)]
    assert receiver.answered(1, TASK, now=0) == []
    assert receiver.watched(1, [TASK], now=0) == []
    assert receiver.refused(1, NotFound("t")) == []
    assert receiver.ran(1, Outcome.of_result(b'{"content":[]}')) == []
    assert receiver.paused(1, [], "state") == []
    assert receiver.ended(1) == []
    assert receiver.closed(1) == []


def test_the_receiver_sends_a_watch_only_on_its_own_stream() -> None:
    receiver = receiver_2026()
    listen = g2.Listen(g2.SubscriptionFilter(taskIds=["t"]), META)
    receiver.receive(g2.DIALECT.encode_request("w", listen))
    told = receiver.watched("w", [TASK], now=0)
    working = lifecycle.report(TASK, 1, message="busy").task
    told += receiver.moved(working, now=1)
    assert receiver.moved(working, now=1) == [], "nothing is sent twice"
    told += receiver.ended("w")
    sent = [(getattr(out.message, "method", "result"), out.stream) for out in told]  # type: ignore[union-attr]
    assert sent == [
        ("notifications/subscriptions/acknowledged", "w"),
        ("notifications/tasks", "w"),
        ("notifications/tasks", "w"),
        ("notifications/cancelled", "w"),
        ("result", "w"),
    ]


def test_an_answer_to_nothing_that_was_asked_is_ignored() -> None:
    receiver = receiver_2026()
    assert receiver.receive(ResultResponse("never", {})) == []
    assert receiver.receive(ErrorResponse(None, Error(1, "x"))) == []


def test_an_error_of_a_tool_is_the_answer_to_a_plain_call() -> None:
    receiver = receiver_2026()
    call = g2.CallTool("quick", META)
    only(receiver.receive(g2.DIALECT.encode_request(1, call)), Perform)
    send = only(receiver.ran(1, Outcome.of_error(7, "no")), Send)
    assert send.message == ErrorResponse(1, Error(7, "no"))


def test_a_question_moves_to_the_general_stream_when_its_own_is_lost() -> None:
    ids = iter(range(100, 200))
    receiver = Receiver(RECEIVER_2025, OFFER, owner="alice", new_id=lambda: next(ids))
    hello = g1.Initialize(g1.REVISION, {"elicitation": {}}, {})
    receiver.receive(g1.DIALECT.encode_request(0, hello))
    receiver.receive(g1.DIALECT.encode_notification(g1.Initialized()))
    create = g1.CallTool("greet", {}, g1.TaskMetadata())
    receiver.receive(g1.DIALECT.encode_request(1, create))
    receiver.answered(1, TASK, now=0)
    receiver.closed(None)  # no stream is open
    working = lifecycle.start(TASK, 0, worker="w").task
    asked = lifecycle.ask(working, 0, [Question("k", "elicitation/create", b'{"message":"?"}')])
    assert asked is not None
    assert not _questions(receiver.moved(asked.task, now=0))
    receiver.receive(g1.DIALECT.encode_request(2, g1.GetTaskPayload("t")))
    assert _questions(receiver.answered(2, asked.task, now=0)) == [(100, 2)]
    assert _questions(receiver.opened()) == []
    assert _questions(receiver.lost(2)) == [(101, None)]
    refusal = ErrorResponse(101, Error(-1, "no", {"why": 1}))
    body = b'{"code":-1,"message":"no","data":{"why":1}}'
    answer = Answer("t", {"k": Reply(body, is_error=True)})
    assert receiver.receive(refusal) == [Perform(None, answer)]


def create_with(meta: dict[str, object], name: str = "greet") -> list[object]:
    hello = g1.DIALECT.encode_request(0, g1.Initialize(g1.REVISION, {}, {}))
    answers: list[object] = []
    for rules, method, params in (
        (RECEIVER_2025, "tools/call", {"name": name, "task": {}}),
        (RECEIVER_2026, "tools/call", {"name": name}),
        (RECEIVER_ERLMCP, "tasks/create", {"action": {"name": name}}),
    ):
        receiver = Receiver(rules, TELLING, owner="alice", new_id=lambda: 1)
        receiver.receive(hello)
        asked = {**g2.DIALECT.shapes.encode(META), **meta} if rules is RECEIVER_2026 else meta
        [out] = receiver.receive(Request(1, method, {**params, "_meta": asked}))
        answers.append(out)
    return answers


TELLING = attrs.evolve(
    OFFER, tools={"greet": attrs.evolve(OFFER.tools["greet"], immediate="I am on it.")}
)


def test_a_request_can_carry_an_idempotency_key_in_every_dialect() -> None:
    for key in (None, "k-1"):
        for out in create_with({} if key is None else {"taskmachine/idempotency-key": key}):
            assert isinstance(out, Perform)
            assert isinstance(out.operation, Create)
            assert out.operation.call.key == key


def test_a_request_can_ask_to_start_later_in_every_dialect() -> None:
    for out in create_with({"taskmachine/not-before": "2026-07-28T12:00:00+02:00"}):
        assert isinstance(out, Perform)
        assert isinstance(out.operation, Create)
        assert out.operation.call.not_before == 1_785_232_800_000
        assert wishes_of(out.operation.call) == {
            "taskmachine/not-before": "2026-07-28T10:00:00.000Z"
        }


@pytest.mark.parametrize(
    ("wish", "words", "values"),
    [
        ("idempotency-key", "be 1 to 256 characters", ["", "x" * 257, 7, {}]),
        (
            "not-before",
            "be a time such as 2026-07-28T12:00:00Z",
            ["", "tomorrow", "2026-07-28", 1785232800000, {}],
        ),
    ],
)
def test_a_wish_that_cannot_be_read_is_refused(wish: str, words: str, values: list[Any]) -> None:
    for out in (out for value in values for out in create_with({f"taskmachine/{wish}": value})):
        assert isinstance(out, Send)
        assert isinstance(out.message, ErrorResponse)
        assert out.message.error.code == -32602
        assert f"params._meta['taskmachine/{wish}'] must {words}" in out.message.error.message


@covers("2025-11-25:model-immediate-response")
def test_the_create_result_carries_the_model_immediate_response() -> None:
    receiver = Receiver(RECEIVER_2025, TELLING, owner="alice", new_id=lambda: 1)
    receiver.receive(g1.DIALECT.encode_request(0, g1.Initialize(g1.REVISION, {}, {})))
    receiver.receive(Request(1, "tools/call", {"name": "greet", "task": {}}))
    assert receiver.pending == 1
    [send] = receiver.answered(1, TASK, now=0)
    assert receiver.pending == 0
    assert isinstance(send, Send)
    assert isinstance(send.message, ResultResponse)
    told = {"io.modelcontextprotocol/model-immediate-response": "I am on it."}
    assert send.message.result["_meta"] == told


def _questions(outputs: object) -> list[tuple[object, object]]:
    assert isinstance(outputs, list)
    return [
        (output.message.id, output.stream)
        for output in outputs
        if isinstance(output, Send) and isinstance(output.message, Request)
    ]
