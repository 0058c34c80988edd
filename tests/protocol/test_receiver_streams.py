"""Streams that come and go, plain calls that talk meanwhile, sessions taken up again."""

from collections.abc import Callable
from itertools import count
from typing import Any

import attrs
import pytest

from taskmachine.protocol.dialects.mcp_2025_11_25 import messages as g1
from taskmachine.protocol.dialects.mcp_2025_11_25.receiver import RECEIVER as RECEIVER_2025
from taskmachine.protocol.dialects.mcp_2026_07_28 import messages as g2
from taskmachine.protocol.dialects.mcp_2026_07_28.receiver import RECEIVER as RECEIVER_2026
from taskmachine.protocol.jsonrpc import Error, ErrorResponse, Notification, Request, ResultResponse
from taskmachine.protocol.operations import Answer, Create, Run
from taskmachine.protocol.outputs import Abandoned, Perform, Replied, Send
from taskmachine.protocol.receiver import Receiver
from taskmachine.protocol.sealing import Sealer
from taskmachine.statemachine import (
    Call,
    NotFound,
    Outcome,
    Progress,
    Question,
    Reply,
    Task,
    lifecycle,
)
from tests.protocol.memory_driver import OFFER, only

FORM = Question("k", "elicitation/create", b'{"message":"?"}')
CALL = Call("tools/call", "greet", progress_token="p")
TASK = lifecycle.submit("t", "alice", CALL, 0, ttl_ms=None).task
WORKING = lifecycle.start(TASK, 0, worker="w").task
DONE = Outcome.of_result(b'{"content":[]}')


def asked(task: Task = WORKING) -> Task:
    step = lifecycle.ask(task, 0, [FORM])
    assert step is not None
    return step.task


def restored(sealer: Sealer | None = None, first: int = 100) -> Receiver:
    """A receiver of 2025-11-25 whose client initialized with another process."""
    ids = count(first)
    return Receiver(
        RECEIVER_2025,
        OFFER,
        owner="alice",
        new_id=lambda: next(ids),
        capabilities={"elicitation": {}},
        sealer=sealer,
    )


@pytest.fixture
def receiver() -> Receiver:
    return restored()


def sent(outputs: Any) -> list[tuple[Any, Any]]:
    """Return method, or id of a response, and stream of each message sent."""
    shown = []
    for out in outputs:
        assert isinstance(out, Send)
        message = out.message
        what = message.id if isinstance(message, ResultResponse | ErrorResponse) else message.method
        shown.append((what, out.stream))
    return shown


def collect(receiver: Receiver, id: int, task: Task) -> Any:
    receiver.receive(Request(id, "tasks/result", {"taskId": "t"}))
    return receiver.answered(id, task, now=0)


def look(receiver: Receiver, task: Task) -> Any:
    receiver.receive(Request("look", "tasks/get", {"taskId": "t"}))
    [_, *delivered] = receiver.answered("look", task, now=0)
    return delivered


def test_a_session_that_is_taken_up_again_needs_no_introduction(receiver: Receiver) -> None:
    assert receiver.capabilities == {"elicitation": {}}
    wanted = only(receiver.receive(Request(1, "tools/call", {"name": "quick"})), Perform)
    assert isinstance(wanted.operation, Run)
    assert wanted.operation.call.answers == {"elicitation/create"}
    assert sent(collect(receiver, 2, asked())) == [("elicitation/create", 2)]


def test_the_receiver_has_the_client_capabilities_after_initialize() -> None:
    receiver = Receiver(RECEIVER_2025, OFFER, owner="alice", new_id=lambda: 1)
    assert receiver.capabilities is None
    hello = g1.Initialize(g1.REVISION, {"sampling": {}}, {})
    receiver.receive(g1.DIALECT.encode_request(0, hello))
    assert receiver.capabilities == {"sampling": {}}


def test_an_answer_finds_its_question_although_another_process_asked() -> None:
    sealer = Sealer(b"s" * 32)
    before, after = restored(sealer), restored(sealer, first=200)
    [question] = collect(before, 1, asked())
    id = question.message.id
    answer = Perform(None, Answer("t", {"k": Reply(b'{"action":"accept"}')}))
    assert after.receive(ResultResponse(id, {"action": "accept"})) == [answer]
    assert before.receive(ResultResponse(id, {"action": "accept"})) == [answer]
    stranger = Receiver(RECEIVER_2025, OFFER, owner="bob", new_id=lambda: 1, sealer=sealer)
    assert stranger.receive(ResultResponse(id, {"action": "accept"})) == []
    for made_up in (7, "x", id[:-1], ""):
        assert after.receive(ResultResponse(made_up, {})) == []


def test_the_same_question_never_has_the_same_id_twice() -> None:
    receiver = restored(Sealer(b"s" * 32))
    receiver.lost(None)
    [first] = collect(receiver, 1, asked())
    receiver.closed(1)
    [second] = collect(receiver, 2, asked())
    assert first.message.id != second.message.id


def test_a_wait_survives_its_lost_stream_and_its_question_moves(receiver: Receiver) -> None:
    assert sent(collect(receiver, 1, asked())) == [("elicitation/create", 1)]
    assert sent(receiver.lost(1)) == [("elicitation/create", None)], "the general stream has it"
    assert receiver.opened(1) == [], "it is in flight, on one stream at a time"
    assert receiver.is_pending(1)
    done = lifecycle.complete(lifecycle.start(TASK, 0, worker="w").task, 1, outcome=DONE).task
    final = attrs.evolve(done, version=9)
    assert (1, 1) in sent(receiver.moved(final, now=1))
    assert not receiver.is_pending(1)


def test_a_reopened_general_stream_carries_the_question_of_a_lost_wait(receiver: Receiver) -> None:
    receiver.lost(None)
    collect(receiver, 1, asked())
    assert receiver.lost(1) == []
    assert sent(receiver.opened()) == [("elicitation/create", None)]
    assert receiver.follow(asked()) == [], "once is enough"


def test_a_question_of_a_wait_that_was_given_up_comes_with_the_next_one(receiver: Receiver) -> None:
    collect(receiver, 1, asked())
    assert receiver.closed(1) == [Abandoned(1)], "the general stream is open, but no request waits"
    assert sent(collect(receiver, 2, asked())) == [("elicitation/create", 2)]
    assert sent(receiver.lost(2)) == [("elicitation/create", None)]
    assert receiver.closed(2) == [Abandoned(2)]
    assert collect(receiver, 3, asked()) == [], "it is in flight, on the general stream"
    assert sent(receiver.lost(None)) == [("elicitation/create", 3)]


def test_a_question_that_a_look_brought_comes_again_with_the_next_look_or_wait(
    receiver: Receiver,
) -> None:
    assert look(receiver, asked()) == [], "it is not followed, so it could not be withdrawn"
    receiver.follow(asked())
    assert sent(look(receiver, asked())) == [("elicitation/create", None)]
    assert look(receiver, asked()) == [], "it is in flight"
    assert receiver.lost(None) == []
    assert look(receiver, asked()) == [], "that stream is not read"
    assert receiver.opened() == []
    assert sent(look(receiver, asked())) == [("elicitation/create", None)]
    receiver.lost(None)
    assert sent(collect(receiver, 1, asked())) == [("elicitation/create", 1)]


def test_a_question_waits_for_a_reader(receiver: Receiver) -> None:
    receiver.lost(None)
    assert not receiver.is_listening
    collect(receiver, 1, WORKING)
    receiver.lost(1)
    assert receiver.moved(attrs.evolve(asked(), version=5), now=0) == []
    assert sent(receiver.opened(1)) == [("elicitation/create", 1)]


def test_progress_uses_the_stream_of_the_wait_or_else_the_general_stream(
    receiver: Receiver,
) -> None:
    tasks = [WORKING]
    for n in range(1, 5):
        tasks.append(lifecycle.report(tasks[-1], n, progress=Progress(n, 4)).task)
    collect(receiver, 1, tasks[0])
    assert sent(receiver.moved(tasks[1], now=1)) == [("notifications/progress", 1)]
    receiver.lost(1)
    assert sent(receiver.moved(tasks[2], now=2)) == [("notifications/progress", None)]
    receiver.lost(None)
    assert receiver.moved(tasks[3], now=3) == []
    receiver.opened(1)
    assert sent(receiver.moved(tasks[4], now=4)) == [("notifications/progress", 1)]


def test_the_receiver_sends_no_status_to_a_lost_general_stream(receiver: Receiver) -> None:
    receiver.lost(None)
    collect(receiver, 1, WORKING)
    busy = lifecycle.report(WORKING, 1, message="busy").task
    assert receiver.moved(busy, now=1) == []
    receiver.opened()
    busier = lifecycle.report(busy, 2, message="busier").task
    assert sent(receiver.moved(busier, now=2)) == [("notifications/tasks/status", None)]


def test_a_stream_that_has_carried_nothing_of_a_task_gets_its_end(receiver: Receiver) -> None:
    done = lifecycle.cancel(WORKING, 1, reason="enough").task
    assert receiver.follow(done, is_news=True) == []
    assert sent(receiver.moved(done, now=1)) == [("notifications/tasks/status", None)]


def test_a_reopened_general_stream_carries_statuses_of_earlier_tasks(receiver: Receiver) -> None:
    receiver.lost(None)
    receiver.receive(Request(1, "tools/call", {"name": "greet", "task": {}}))
    receiver.answered(1, TASK, now=0)
    assert receiver.moved(asked(), now=0) == []
    assert receiver.opened() == []
    assert receiver.follow(asked()) == [], "questions go to waiting requests"
    assert receiver.follow(asked()) == []
    busy = lifecycle.report(asked(), 1, message="busy").task
    assert sent(receiver.moved(busy, now=1)) == [("notifications/tasks/status", None)]
    assert sent(collect(receiver, 2, busy)) == [("elicitation/create", 2)]
    ended = lifecycle.cancel(TASK, 1, reason="x").task
    assert receiver.follow(ended) == []
    assert receiver.follow(attrs.evolve(asked(), owner="bob")) == []


def test_a_wait_for_a_removed_task_ends_with_not_found(receiver: Receiver) -> None:
    assert sent(collect(receiver, 1, WORKING)) == []
    [refusal] = receiver.removed("t")
    assert refusal == Send(g1.DIALECT.encode_error(1, NotFound("t")), 1)
    assert not receiver.is_pending(1)
    assert receiver.removed("t") == []
    assert sent(collect(receiver, 2, asked())) == [("elicitation/create", 2)]
    assert sent(receiver.removed("t")) == [("notifications/cancelled", 2), (2, 2)]


def test_a_watch_of_a_removed_task_sends_nothing() -> None:
    receiver = watching(1)
    assert receiver.removed("t") == []
    assert receiver.moved(lifecycle.complete(WORKING, 0, DONE).task, now=0) == []


def watching(*ids: int | str) -> Receiver:
    receiver = Receiver(RECEIVER_2026, OFFER, owner="alice", new_id=lambda: 1)
    meta = g2.RequestMeta(g2.REVISION, g2.TASKS_REQUIRED)
    for id in ids:
        listen = g2.Listen(g2.SubscriptionFilter(taskIds=["t"]), meta)
        receiver.receive(g2.DIALECT.encode_request(id, listen))
        receiver.watched(id, [WORKING], now=0)
    return receiver


def test_the_receiver_lists_its_open_watches_and_ends_each() -> None:
    receiver = watching("a", "b")
    assert receiver.watches == ["a", "b"]
    assert sent(receiver.ended("a")) == [("notifications/cancelled", "a"), ("a", "a")]
    assert receiver.watches == ["b"]


def plain_call(receiver: Receiver, token: object = "p") -> None:
    meta = {} if token is None else {"progressToken": token}
    receiver.receive(Request(1, "tools/call", {"name": "quick", "_meta": meta}))


def test_a_plain_call_reports_progress_on_its_own_stream(receiver: Receiver) -> None:
    plain_call(receiver)
    [told] = receiver.reported(1, Progress(1, 2, "half"))
    params = {"progressToken": "p", "progress": 1, "total": 2, "message": "half"}
    assert told == Send(Notification("notifications/progress", params), 1)
    receiver.ran(1, DONE)
    assert receiver.reported(1, Progress(2, 2)) == [], "nothing after the end"
    plain_call(receiver, token=None)
    assert receiver.reported(1, Progress(1, 2)) == [], "it was not requested"


def test_a_2026_plain_call_reports_progress_and_a_2026_task_does_not() -> None:
    receiver = Receiver(RECEIVER_2026, OFFER, owner="alice", new_id=lambda: 1)
    for name, capabilities, tells in (("quick", {}, 1), ("slow", g2.TASKS_REQUIRED, 0)):
        meta = g2.RequestMeta(g2.REVISION, capabilities, progressToken="p")
        wanted = only(
            receiver.receive(g2.DIALECT.encode_request(name, g2.CallTool(name, meta))), Perform
        )
        assert isinstance(wanted.operation, Run | Create)
        assert (wanted.operation.call.progress_token == "p") is bool(tells)
        assert len(receiver.reported(name, Progress(1))) == tells


def test_a_plain_call_asks_and_is_answered_on_its_own_stream(receiver: Receiver) -> None:
    plain_call(receiver)
    [question] = receiver.asked(1, [FORM])
    assert question == Send(Request(100, "elicitation/create", {"message": "?"}), 1)
    reply = Reply(b'{"action":"decline"}')
    answer = ResultResponse(100, {"action": "decline"})
    assert receiver.receive(answer) == [Replied(1, "k", reply)]
    assert receiver.receive(answer) == [], "the first answer counts"
    receiver.asked(1, [FORM])
    refusal = ErrorResponse(101, Error(-1, "no"))
    replied = only(receiver.receive(refusal), Replied)
    assert replied.reply.is_error


def test_the_end_of_a_plain_call_withdraws_its_open_questions() -> None:
    ends: tuple[Callable[[Receiver], object], ...] = (
        lambda receiver: receiver.ran(1, DONE),
        lambda receiver: receiver.ran(1, Outcome.of_error(7, "no")),
        lambda receiver: receiver.refused(1, NotFound("t")),
    )
    for end in ends:
        receiver = restored()
        plain_call(receiver)
        receiver.asked(1, [FORM])
        assert sent(end(receiver)) == [("notifications/cancelled", 1), (1, 1)]
        assert receiver.receive(ResultResponse(100, {})) == []
    receiver = restored()
    plain_call(receiver)
    receiver.asked(1, [FORM])
    [withdrawn, abandoned] = receiver.closed(1)
    assert sent([withdrawn]) == [("notifications/cancelled", 1)]
    assert abandoned == Abandoned(1)
    assert receiver.asked(1, [FORM]) == [], "no request waits for it any more"


def asking_first() -> Receiver:
    first = attrs.evolve(OFFER.tools["slow"], first=(FORM,))
    offer = attrs.evolve(OFFER, tools={"slow": first})
    return Receiver(RECEIVER_2026, offer, owner="alice", new_id=lambda: 1)


def test_a_tool_can_ask_before_its_call_becomes_a_task() -> None:
    receiver = asking_first()
    capabilities = {**g2.TASKS_REQUIRED, "elicitation": {}}
    call = g2.CallTool("slow", g2.RequestMeta(g2.REVISION, capabilities))
    wanted = only(receiver.receive(g2.DIALECT.encode_request(1, call)), Perform)
    assert isinstance(wanted.operation, Create)
    assert wanted.operation.first == (FORM,)
    paused = only(receiver.paused(1, [FORM], "sealed"), Send)
    assert isinstance(paused.message, ResultResponse)
    result = paused.message.result
    assert result["resultType"] == "input_required"
    assert result["requestState"] == "sealed"
    assert result["inputRequests"].keys() == {"k"}
    assert "taskId" not in result
    answers = {"k": {"action": "accept", "content": {}}}
    again = attrs.evolve(call, inputResponses=answers, requestState="sealed")
    wanted = only(receiver.receive(g2.DIALECT.encode_request(2, again)), Perform)
    assert isinstance(wanted.operation, Create)
    assert wanted.operation.state == "sealed"
    assert wanted.operation.answers.keys() == {"k"}


def test_a_client_that_cannot_answer_the_first_question_gets_32021() -> None:
    receiver = asking_first()
    call = g2.CallTool("slow", g2.RequestMeta(g2.REVISION, g2.TASKS_REQUIRED))
    receiver.receive(g2.DIALECT.encode_request(1, call))
    refused = only(receiver.paused(1, [FORM], "sealed"), Send)
    assert isinstance(refused.message, ErrorResponse)
    assert refused.message.error.code == -32021
