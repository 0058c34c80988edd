"""The loop of a requestor: what all dialects share, and what goes wrong on the way."""

from functools import partial
from itertools import count
from typing import Any

import pytest

from taskmachine.protocol.dialects.erlmcp import requestor as requestor_erlmcp
from taskmachine.protocol.dialects.mcp_2025_11_25 import requestor as requestor_2025_11_25
from taskmachine.protocol.dialects.mcp_2026_07_28 import requestor as requestor_2026_07_28
from taskmachine.protocol.dialects.requestor import RequestorDialect
from taskmachine.protocol.jsonrpc import Error, ErrorResponse, Notification, Request, ResultResponse
from taskmachine.protocol.outputs import Asked, Changed, Finished, Moved, Send
from taskmachine.protocol.requestor import MOST_FAILURES, Output, Requestor
from taskmachine.statemachine import Call, Cause, Outcome, Progress, Reply
from tests.protocol.memory_driver import only

G1 = requestor_2025_11_25.REQUESTOR
G2 = requestor_2026_07_28.Requestor2026({"elicitation": {}})
CALL = Call("tools/call", "greet", b"{}")
YES = Reply(b'{"action":"accept"}')
NO = Reply(b'{"code":-1,"message":"no"}', is_error=True)
TIMES = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}
FORM = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}


def shown_2025(status: str = "working", **more: Any) -> dict[str, Any]:
    return {"taskId": "t", "status": status, "ttl": None, **TIMES, **more}


def shown_2026(status: str = "working", **more: Any) -> dict[str, Any]:
    return {"taskId": "t", "status": status, "ttlMs": None, **TIMES, **more}


def waiting_2026(*keys: str) -> dict[str, Any]:
    requests = {key: {"method": "elicitation/create", "params": FORM} for key in keys}
    return shown_2026("input_required", inputRequests=requests)


class Caller:
    """A requestor and its outputs."""

    def __init__(self, dialect: RequestorDialect) -> None:
        ids = count(1)
        self.requestor = Requestor(dialect, new_id=lambda: next(ids))
        self.now = 0
        self.requests: list[Request] = []

    def do(self, outputs: list[Output]) -> list[Output]:
        for output in outputs:
            if isinstance(output, Send) and not isinstance(output.message, Notification):
                assert output.message.id == output.stream, "everything goes where it belongs"
        self.requests += [
            output.message
            for output in outputs
            if isinstance(output, Send) and isinstance(output.message, Request)
        ]
        return outputs

    def start(self, call: Call = CALL) -> None:
        self.do(self.requestor.start("job", call, now=self.now))

    def reply(self, result: dict[str, Any], request: Request | None = None) -> list[Output]:
        to = (request or self.requests[-1]).id
        return self.do(self.requestor.receive(ResultResponse(to, result), now=self.now))

    def refuse(self, code: int, message: str = "no", data: Any = None) -> list[Output]:
        error = ErrorResponse(self.requests[-1].id, Error(code, message, data))
        return self.do(self.requestor.receive(error, now=self.now))

    def wait(self, ms: int) -> list[Output]:
        self.now += ms
        return self.do(self.requestor.tick(self.now))

    def wait_until_due(self) -> list[Output]:
        return self.wait((self.requestor.next_tick() or 0) - self.now)

    def methods(self) -> list[str]:
        return [request.method for request in self.requests]

    def question(self, id: str = "q", **meta: Any) -> list[Output]:
        related = {"io.modelcontextprotocol/related-task": {"taskId": "t"}, **meta}
        request = Request(id, "elicitation/create", {**FORM, "_meta": related})
        return self.do(self.requestor.receive(request, now=self.now))


def started(dialect: RequestorDialect) -> Caller:
    caller = Caller(dialect)
    caller.start()
    return caller


def working_2025() -> Caller:
    caller = started(G1)
    caller.reply({"task": shown_2025()})
    return caller


def working_2026() -> Caller:
    caller = started(G2)
    caller.reply({"resultType": "task", **shown_2026()})
    return caller


def answers(outputs: list[Output]) -> list[Any]:
    return [
        output.message
        for output in outputs
        if isinstance(output, Send) and isinstance(output.message, ResultResponse | ErrorResponse)
    ]


@pytest.mark.parametrize("meta", [{}, {"io.taskmachine/question-key": "k"}])
def test_a_question_stays_open_while_older_news_says_working(meta: dict[str, Any]) -> None:
    caller = working_2025()
    caller.wait(60_000)
    asked = only(caller.question("q-1", **meta), Asked)
    assert caller.methods()[-1] == "tasks/get"
    caller.reply(shown_2025())
    sent = caller.requestor.answer("job", asked.key, YES, now=caller.now)
    assert [answer.id for answer in answers(sent)] == ["q-1"]


def test_two_calls_cannot_have_one_name() -> None:
    caller = started(G1)
    with pytest.raises(ValueError, match="'job' is in progress"):
        caller.start()


def test_nothing_is_done_for_a_call_that_is_unknown() -> None:
    caller = Caller(G1)
    assert caller.requestor.cancel("job", now=0) == []
    assert caller.requestor.answer("job", "key", YES, now=0) == []
    assert caller.requestor.next_tick() is None
    assert caller.requestor.receive(ResultResponse(99, {}), now=0) == []
    assert caller.requestor.receive(ErrorResponse(None, Error(1, "x")), now=0) == []
    assert caller.requestor.receive(ErrorResponse(9, Error(1, "x")), now=0) == []
    assert caller.requestor.receive(Request(1, "ping", {}), now=0) != []


def test_polls_slow_down_where_nothing_is_suggested() -> None:
    caller = working_2025()
    intervals = []
    for _ in range(9):
        due = caller.requestor.next_tick()
        assert due is not None
        intervals.append(due - caller.now)
        assert caller.wait(due - caller.now - 1) == []
        assert len(caller.wait(1)) == 1
        caller.reply(shown_2025())
    assert intervals[:3] == [750, 1125, 1687]
    assert intervals[-1] == 5000


def test_errors_are_waited_out_longer_and_longer_and_not_for_ever() -> None:
    caller = working_2025()
    waits = []
    for failure in range(MOST_FAILURES + 1):
        due = caller.requestor.next_tick()
        assert due is not None
        waits.append(due - caller.now)
        caller.wait(waits[-1])
        told = caller.refuse(-32603)
        assert told == [] or failure == MOST_FAILURES
    assert waits == sorted(waits)
    assert waits[-1] <= 60_000
    assert told == [Finished("job", Outcome.of_error(-32603, "no"))]


def test_a_receiver_can_say_how_long_to_wait() -> None:
    caller = working_2025()
    caller.wait(1000)
    caller.refuse(-32603, data={"retryAfterMs": 90_000})
    assert caller.requestor.next_tick() == caller.now + 90_000


@pytest.mark.parametrize(("suggested", "interval"), [(1, 50), (700, 700), (10**12, 3_600_000)])
def test_the_requestor_bounds_suggested_poll_and_retry_intervals(
    suggested: int, interval: int
) -> None:
    caller = started(G1)
    caller.reply({"task": shown_2025(pollInterval=suggested)})
    assert caller.requestor.next_tick() == interval
    caller.wait(interval)
    caller.refuse(-32603, data={"retryAfterMs": 10**12})
    assert caller.requestor.next_tick() == caller.now + 3_600_000


@pytest.mark.parametrize("is_error", [False, True])
def test_a_result_says_whether_the_tool_failed(is_error: bool) -> None:
    body = {"content": [], "isError": is_error}
    newer = working_2026()
    newer.wait(1000)
    told = newer.reply({"resultType": "complete", **shown_2026("completed", result=body)})
    older = working_2025()
    older.wait(1000)
    older.reply(shown_2025("completed"))
    plain = Caller(G2)
    plain.start()
    told += older.reply(body) + plain.reply(body)
    ends = [output.outcome for output in told if isinstance(output, Finished)]
    assert [outcome.is_error for outcome in ends] == [is_error] * 3


@pytest.mark.parametrize("dialect", [G1, G2])
def test_the_requestor_passes_on_each_progress_once_and_unchanged(dialect: Any) -> None:
    caller = Caller(dialect)
    caller.start(Call("tools/call", "greet", b"{}", progress_token=0))
    params = {"progressToken": 0, "progress": 1, "total": 4, "message": "first"}
    news = Notification("notifications/progress", params)
    moved = [Moved("job", Progress(1, 4, "first"))]
    assert caller.requestor.receive(news, now=0) == moved
    assert caller.requestor.receive(news, now=0) == [], "unchanged progress is not reported"


def test_an_error_of_a_task_comes_with_its_data() -> None:
    caller = working_2026()
    caller.wait(1000)
    error = {"code": 7, "message": "no", "data": {"why": "because"}}
    told = caller.reply({"resultType": "complete", **shown_2026("failed", error=error)})
    assert told[-1] == Finished("job", Outcome.of_error(7, "no", b'{"why":"because"}'))


def test_a_task_that_is_gone_ends_the_call() -> None:
    caller = working_2026()
    caller.wait(1000)
    assert caller.refuse(-32602, "gone") == [Finished("job", Outcome.of_error(-32602, "gone"))]


def test_an_answer_that_makes_no_sense_is_a_failure_and_is_polled_again() -> None:
    caller = working_2026()
    caller.wait(1000)
    assert caller.reply({"resultType": "complete", "taskId": 5}) == []
    caller.wait(60_000)
    assert caller.methods() == ["tools/call", "tasks/get", "tasks/get"]


def test_notifications_that_say_nothing_to_us_are_ignored() -> None:
    caller = working_2025()
    for method, params in [
        ("notifications/unknown", {}),
        ("notifications/tasks/status", {"taskId": "t"}),
        ("notifications/tasks/status", shown_2025() | {"taskId": "other"}),
        ("notifications/initialized", {}),
        ("notifications/progress", {"progressToken": "p", "progress": 1}),
        ("notifications/cancelled", {"requestId": "never"}),
    ]:
        assert caller.requestor.receive(Notification(method, params), now=0) == []


def test_a_status_after_a_terminal_status_changes_nothing() -> None:
    caller = working_2025()
    ended = Notification("notifications/tasks/status", shown_2025("completed"))
    caller.do(caller.requestor.receive(ended, now=0))
    assert caller.methods() == ["tools/call", "tasks/result"]
    late = Notification("notifications/tasks/status", shown_2025("working"))
    assert caller.requestor.receive(late, now=0) == []
    assert caller.requestor.next_tick() is None, "it only waits for the result"
    assert [type(output) for output in caller.reply({"content": []})] == [Finished]


def test_the_requestor_does_not_poll_while_it_waits_for_the_result() -> None:
    caller = working_2025()
    pushed = Notification("notifications/tasks/status", shown_2025("input_required"))
    caller.do(caller.requestor.receive(pushed, now=0))
    assert caller.methods()[-1] == "tasks/result"
    again = Notification("notifications/tasks/status", shown_2025("working"))
    caller.requestor.receive(again, now=0)
    assert caller.requestor.next_tick() is None


def test_a_wire_without_cancelled_requests_gives_up_in_silence() -> None:
    caller = started(requestor_erlmcp.REQUESTOR)
    times = {"createdAt": 0, "updatedAt": 0}
    task = {"taskId": "t", "status": "processing", "action": {"name": "x"}, "metadata": {}}
    caller.reply({"task": {**task, **times}})
    caller.wait(60_000)
    assert caller.methods() == ["tasks/create", "tasks/get"]
    assert caller.wait(60_000) == []


def test_a_question_that_is_delivered_again_is_answered_again_and_not_asked_again() -> None:
    caller = working_2025()
    key = {"io.taskmachine/question-key": "k"}
    asked = only(caller.question("q1", **key), Asked)
    assert caller.question("q2", **key) == []
    [answer] = answers(caller.requestor.answer("job", asked.key, YES, now=0))
    assert answer.id == "q2"
    [again] = answers(caller.question("q3", **key))
    assert (again.id, again.result) == ("q3", answer.result)


def test_the_requestor_asks_a_2025_question_again_after_its_answer() -> None:
    caller = working_2025()
    asked = only(caller.question("q1"), Asked)
    assert answers(caller.requestor.answer("job", asked.key, YES, now=0))
    caller.wait(1000)
    caller.reply(shown_2025("working", statusMessage="thank you"))
    assert [type(output) for output in caller.question("q2")] == [Asked]


def test_an_answer_waits_until_its_question_is_open() -> None:
    caller = working_2025()
    asked = only(caller.question("q1", **{"io.taskmachine/question-key": "k"}), Asked)
    taken_back = Notification("notifications/cancelled", {"requestId": "q1"})
    assert caller.requestor.receive(taken_back, now=0) == []
    assert caller.requestor.answer("job", asked.key, YES, now=0) == []
    assert answers(caller.question("q2", **{"io.taskmachine/question-key": "k"}))


def test_the_requestor_refuses_a_question_of_an_unknown_task() -> None:
    caller = Caller(G1)
    [answer] = answers(caller.question("q1"))
    assert (answer.id, answer.error.code) == ("q1", -32602)


def test_an_answer_that_was_lost_is_sent_again() -> None:
    caller = working_2026()
    caller.wait(1000)
    caller.reply({"resultType": "complete", **waiting_2026("k")})
    caller.do(caller.requestor.answer("job", "k", YES, now=caller.now))
    assert caller.methods()[-1] == "tasks/update"
    caller.refuse(-32603)
    caller.wait(60_000)
    caller.reply({"resultType": "complete", **waiting_2026("k")})
    assert caller.methods()[-1] == "tasks/update"


def test_the_requestor_cancels_a_2026_task_if_the_answer_is_an_error() -> None:
    caller = working_2026()
    caller.wait(1000)
    caller.reply({"resultType": "complete", **waiting_2026("k")})
    caller.do(caller.requestor.answer("job", "k", NO, now=caller.now))
    assert caller.methods()[-1] == "tasks/cancel"


def paused(**more: Any) -> dict[str, Any]:
    requests = {"k": {"method": "elicitation/create", "params": FORM}}
    return {"resultType": "input_required", "inputRequests": requests, **more}


@pytest.mark.parametrize("refuses", [False, True])
def test_a_paused_call_that_is_given_up_has_ended(refuses: bool) -> None:
    caller = started(G2)
    caller.reply(paused())
    answer = partial(caller.requestor.answer, "job", "k", NO)
    end = answer if refuses else partial(caller.requestor.cancel, "job")
    told = only(end(now=0), Finished)
    assert told.outcome.cause is Cause.CANCELLED


def test_a_call_that_is_not_wanted_any_more_is_not_asked_for() -> None:
    caller = started(requestor_2026_07_28.Requestor2026({}))
    told = caller.do(caller.requestor.cancel("job", now=0))
    assert [type(output) for output in told] == [Send, Finished]
    forgotten = Notification("notifications/cancelled", {"requestId": caller.requests[0].id})
    assert told[0] == Send(forgotten, caller.requests[0].id)
    assert caller.reply(paused()) == []
    caller.start()
    caller.requestor.cancel("job", now=0)
    assert caller.wait(60_000) == [], "and what never came is forgotten"


def test_the_requestor_cancels_a_task_created_for_a_cancelled_call() -> None:
    caller = started(G2)
    caller.requestor.cancel("job", now=0)
    create = caller.requests[0]
    caller.start()  # the name is free again, and its new call is another one
    caller.reply({"resultType": "task", **shown_2026()}, create)
    assert caller.methods() == ["tools/call", "tools/call", "tasks/cancel"]
    assert caller.requests[-1].params["taskId"] == "t"


@pytest.mark.parametrize("result", [{"content": []}, {"resultType": "odd"}])
def test_the_requestor_sends_no_cancel_for_a_result_without_a_task(result: dict[str, Any]) -> None:
    caller = started(G2)
    caller.requestor.cancel("job", now=0)
    assert caller.reply(result, caller.requests[0]) == []


def test_an_answer_to_a_call_that_has_ended_is_ignored() -> None:
    caller = working_2026()
    caller.wait(1000)
    poll = caller.requests[-1]
    pushed = Notification("notifications/tasks", shown_2026("completed", result={"content": []}))
    told = caller.requestor.receive(pushed, now=caller.now)
    assert [type(output) for output in told] == [Changed, Finished]
    assert caller.reply({"resultType": "complete", **shown_2026()}, poll) == []
    error = ErrorResponse(poll.id, Error(-32603, "late"))
    assert caller.requestor.receive(error, now=caller.now) == []


def test_a_lost_connection_ends_calls_without_a_create_result() -> None:
    caller = started(G1)
    told = only(caller.requestor.disconnected(now=0), Finished)
    assert told.outcome.cause is Cause.ERROR


def test_the_requestor_ends_an_unanswered_request_after_the_timeout() -> None:
    caller = started(G1)
    assert caller.requestor.next_tick() == 60_000
    [told] = caller.wait(60_000)
    assert told == Finished("job", Outcome.of_error(-32603, "the request timed out"))
