"""A requestor whose requests are lost one by one."""

from itertools import count
from typing import Any

import pytest

from taskmachine.protocol.dialects.mcp_2025_11_25 import requestor as requestor_2025_11_25
from taskmachine.protocol.dialects.mcp_2026_07_28.requestor import Requestor2026
from taskmachine.protocol.jsonrpc import Notification, ResultResponse
from taskmachine.protocol.outputs import Asked, Finished, Send
from taskmachine.protocol.requestor import MOST_EARLY, MOST_FAILURES, Requestor
from taskmachine.statemachine import Call, Cause, Outcome
from tests.protocol.memory_driver import only
from tests.protocol.test_requestor import (
    FORM,
    G1,
    G2,
    YES,
    Caller,
    answers,
    shown_2025,
    shown_2026,
    started,
    working_2025,
    working_2026,
)

TAKES_TASKS: dict[str, Any] = {"tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}
GONE = Outcome.of_error(-32603, "gone")


def lose(caller: Caller) -> list[Any]:
    return caller.do(caller.requestor.lost(caller.requests[-1].id, "gone", now=caller.now))


def test_a_call_that_is_lost_has_ended() -> None:
    caller = started(G1)
    assert lose(caller) == [Finished("job", GONE)]
    assert lose(caller) == [], "losing it has no effect"


def test_a_poll_that_is_lost_is_made_again_but_not_for_ever() -> None:
    caller = working_2026()
    for _ in range(MOST_FAILURES):
        caller.wait_until_due()
        assert lose(caller) == []
    caller.wait_until_due()
    assert lose(caller) == [Finished("job", GONE)]


def test_an_outcome_that_is_lost_is_asked_for_again() -> None:
    caller = working_2025()
    caller.wait(750)
    caller.reply(shown_2025("completed"))
    assert caller.methods()[-1] == "tasks/result"
    assert lose(caller) == []
    caller.wait_until_due()
    caller.reply(shown_2025("completed"))
    assert caller.methods()[-3:] == ["tasks/result", "tasks/get", "tasks/result"]
    only(caller.reply({"content": []}), Finished)


def test_a_cancel_that_is_lost_is_made_again() -> None:
    for losing in (lose, lambda caller: caller.requestor.disconnected(now=caller.now)):
        caller = working_2026()
        caller.do(caller.requestor.cancel("job", now=caller.now))
        assert caller.methods()[-1] == "tasks/cancel"
        losing(caller)
        caller.wait_until_due()
        caller.reply(shown_2026())
        assert caller.methods()[-2:] == ["tasks/get", "tasks/cancel"]
        caller.reply({})
        caller.wait(60_000)
        caller.reply(shown_2026())
        assert caller.methods()[-1] == "tasks/get", "once it has arrived it is not said again"


def test_the_requestor_repeats_tasks_result_after_the_collect_timeout() -> None:
    ids = count(1)
    caller = Caller(G1)
    caller.requestor = Requestor(G1, new_id=lambda: next(ids), collect_timeout_ms=90_000)
    caller.start()
    caller.reply({"task": shown_2025("input_required")})
    blocked = caller.requests[-1]
    assert blocked.method == "tasks/result"
    assert caller.requestor.next_tick() == 90_000
    assert caller.wait(89_999) == []
    forgotten = only(caller.wait(1), Send)
    assert forgotten.message == Notification("notifications/cancelled", {"requestId": blocked.id})
    caller.wait_until_due()
    caller.reply(shown_2025("input_required"))
    assert caller.methods()[-2:] == ["tasks/get", "tasks/result"]


def test_a_task_is_known_from_the_answer_to_the_end() -> None:
    caller = Caller(G2)
    assert caller.requestor.task_id("job") is None
    caller.start()
    assert caller.requestor.task_id("job") is None
    caller.reply({"resultType": "task", **shown_2026()})
    assert caller.requestor.task_id("job") == "t"


def test_the_requestor_holds_an_early_question_until_the_create_result() -> None:
    caller = started(G1)
    assert caller.question() == []
    out = caller.reply({"task": shown_2025()})
    assert [output.call for output in out if isinstance(output, Asked)] == ["job"]
    [asked] = [output for output in out if isinstance(output, Asked)]
    sent = only(caller.requestor.answer("job", asked.key, YES, now=0), Send)
    assert isinstance(sent.message, ResultResponse)
    assert sent.message.id == "q"


@pytest.mark.parametrize("end", ["result", "error", "loss"])
def test_the_requestor_refuses_an_early_question_if_no_task_follows(end: str) -> None:
    caller = started(G1)
    caller.question()
    match end:
        case "result":
            out = caller.reply({"content": []})
        case "error":
            out = caller.refuse(-32603)
        case _:
            out = lose(caller)
    [refusal] = answers(out)
    assert (refusal.id, refusal.error.code) == ("q", -32602)


def test_an_early_question_that_is_taken_back_is_not_asked() -> None:
    caller = started(G1)
    caller.question()
    withdrawn = Notification("notifications/cancelled", {"requestId": "q"})
    assert caller.requestor.receive(withdrawn, now=0) == []
    assert not any(isinstance(out, Asked) for out in caller.reply({"task": shown_2025()}))


def test_early_questions_are_bounded() -> None:
    caller = started(G1)
    for number in range(MOST_EARLY):
        assert caller.question(f"q-{number}") == []
    assert answers(caller.question("one more"))[0].error.code == -32602


def test_early_questions_end_with_the_connection() -> None:
    caller = started(G1)
    caller.question()
    caller.requestor.disconnected(now=0)
    caller.start()
    assert not any(isinstance(out, Asked) for out in caller.reply({"task": shown_2025()}))


def test_a_plain_call_of_2025_is_given_up_by_a_notification() -> None:
    peer = requestor_2025_11_25.Requestor2025({}, TAKES_TASKS, {"greet": "forbidden"})
    caller = started(peer)
    told, end = caller.requestor.cancel("job", now=0)
    assert isinstance(told, Send)
    assert told.message == Notification(
        "notifications/cancelled", {"requestId": caller.requests[0].id}
    )
    assert isinstance(end, Finished)
    assert end.outcome.cause is Cause.CANCELLED
    assert caller.reply({"content": []}) == [], "a late message does not count"


def test_the_requestor_sends_no_cancel_if_the_receiver_declares_none() -> None:
    peer = requestor_2025_11_25.Requestor2025({}, {}, {})
    caller = started(peer)
    caller.requestor.cancel("job", now=0)
    assert caller.reply({"task": shown_2025()}) == []


@pytest.mark.parametrize("dialect", [G1, G2])
def test_a_key_goes_along(dialect: Any) -> None:
    caller = Caller(dialect)
    caller.start(Call("tools/call", "greet", b"{}", progress_token="p", key="k-1"))
    meta = caller.requests[0].params["_meta"]
    assert meta["taskmachine/idempotency-key"] == "k-1"
    assert meta["progressToken"] == "p"


def test_a_key_goes_along_with_the_answers_of_a_plain_call() -> None:
    caller = Caller(Requestor2026({"elicitation": {}}))
    caller.start(Call("tools/call", "greet", b"{}", key="k-1"))
    question = {"a": {"method": "elicitation/create", "params": FORM}}
    caller.reply({"resultType": "input_required", "inputRequests": question})
    caller.do(caller.requestor.answer("job", "a", YES, now=0))
    assert caller.requests[1].params["_meta"]["taskmachine/idempotency-key"] == "k-1"


def test_a_failure_that_does_not_say_why_is_one() -> None:
    for error in ({}, {"code": "x", "message": "y"}, {"code": 1}):
        caller = working_2026()
        caller.wait(750)
        out = caller.reply(shown_2026("failed", error=error))
        assert out[-1] == Finished("job", Outcome.of_error(-32603, "The server gave no reason."))


def test_an_inlined_result_is_a_plain_one() -> None:
    caller = working_2026()
    caller.wait(750)
    out = caller.reply(shown_2026("completed", result={"content": [], "resultType": "complete"}))
    assert out[-1] == Finished("job", Outcome.of_result(b'{"content":[]}'))
