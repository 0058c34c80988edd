"""Each check accepts a correct record, and rejects a record with one error."""

from collections.abc import Callable
from typing import Any, Final

import attrs
import pytest

from tests.lifecycle.wire import judge
from tests.lifecycle.wire.judge import CHECKS, verdict
from tests.lifecycle.wire.observations import RELATED
from tests.lifecycle.wire.record import (
    GET_STREAM,
    JSON,
    NEW,
    OLD,
    Channel,
    End,
    Evidence,
    Exchange,
    Received,
    TaskModel,
    Wire,
)

ID: Final = "the-task"
NAME: Final = "~alice~"
DONE: Final = ("result", ("done",), False)


def task(status: str, at: int, wire: Wire = OLD, **more: Any) -> JSON:
    ttl = {"ttl": 1} if wire == OLD else {"ttlMs": 1}
    times = {"createdAt": "T00", "lastUpdatedAt": f"T{at:02}"}
    return {"taskId": ID, "status": status, **times, **ttl, **more}


def exchange(
    at: int, method: str, answer: JSON, wire: Wire = OLD, until: int | None = None, **params: Any
) -> Exchange:
    session = "s" if wire == OLD else None
    made = Exchange("alice", wire, method, params, at, sent=at, session=session)
    made.complete({"jsonrpc": "2.0", "id": at, **answer}, b"")
    made.received = at + 1 if until is None else until
    return made


def get(at: int, status: str, wire: Wire = OLD, **more: Any) -> Exchange:
    return exchange(at, "tasks/get", {"result": task(status, at, wire, **more)}, wire, taskId=ID)


def status(at: int, word: str) -> Received:
    return Received(
        at, {"method": "notifications/tasks/status", "params": task(word, at)}, f"g.{at}"
    )


def question(at: int, id: str = "r1", related: str = ID) -> Received:
    params = {"message": f"{NAME}/q0", "_meta": {RELATED: {"taskId": related}}}
    return Received(at, {"id": id, "method": "elicitation/create", "params": params}, f"w.{at}")


def progress(at: int, value: float) -> Received:
    params = {"progress": value, "_meta": {RELATED: {"taskId": ID}}}
    return Received(at, {"method": "notifications/progress", "params": params}, f"g.{at}")


RESULT: Final[JSON] = {"content": [{"type": "text", "text": "done"}]}


def correct() -> Evidence:
    """Return the record of a task created at 10, asking from 20 to 30, ended at 40."""
    model = TaskModel(ID, NAME, "alice", OLD, "s", {"name": NAME}, "k")
    model.asked, model.answers, model.answered_at = {"q0": False}, {"q0": "yes"}, {"q0": 30}
    model.ends = [End(DONE, 40, 45)]
    call: JSON = {"name": "controlled", "arguments": {"name": NAME}}
    asked = {"q0": {"method": "elicitation/create", "params": {"message": f"{NAME}/q0"}}}
    result = {"result": RESULT}
    get_stream = Channel("alice", OLD, GET_STREAM, "s", opened=[5])
    get_stream.messages = [status(20, "input_required"), status(31, "working"), progress(32, 1),
                     status(44, "completed")]  # fmt: skip
    waited = Channel("alice", OLD, "result", "s", ID, opened=[12], closed=[44])
    waited.messages = [question(20), Received(44, {"id": 15, "result": RESULT}, "w.44")]
    return Evidence(
        exchanges=[
            exchange(10, "tools/call", {"result": {"task": task("working", 10)}}, **call),
            get(13, "working"),
            exchange(15, "tasks/result", result, until=44, taskId=ID),
            get(22, "input_required", NEW, inputRequests=asked),
            get(33, "working", NEW),
            get(46, "completed"),
            get(48, "completed", NEW, result=RESULT),
            exchange(50, "tasks/list", {"result": {"tasks": [task("completed", 48)]}}),
        ],
        channels=[get_stream, waited],
        models=[model],
        keys=[("alice", "k", ID)],
        listed=[("alice", [[ID], ["older"]])],
        foreign=[("tasks/get", b"no", b"no")],
        raw=[("alice", b"~alice~"), ("bob", b"nothing")],
        secrets={NAME: "alice"},
    )


def find(evidence: Evidence, at: int) -> Exchange:
    return next(e for e in evidence.exchanges if e.sent == at)


# --- errors ------------------------------------------------------------------------------------


def an_ended_task_works(evidence: Evidence) -> None:
    evidence.exchanges.append(get(60, "working", NEW))


def a_task_is_gone(evidence: Evidence) -> None:
    evidence.exchanges.append(
        exchange(60, "tasks/get", {"error": {"code": -32_602, "message": ""}}, taskId=ID)
    )


def a_call_hangs(evidence: Evidence) -> None:
    evidence.exchanges.append(Exchange("alice", OLD, "tasks/get", {"taskId": "x"}, 60, sent=60))


def a_wait_hangs(evidence: Evidence) -> None:
    evidence.exchanges.append(Exchange("alice", OLD, "tasks/result", {"taskId": ID}, 60, sent=14))


def another_owner_reads(evidence: Evidence) -> None:
    seen = get(47, "completed")
    seen.owner = "bob"
    evidence.exchanges.append(seen)


def wires_disagree(evidence: Evidence) -> None:
    other = {"content": [{"type": "text", "text": "something else"}]}
    find(evidence, 48).result["result"] = other
    evidence.models[0].ends.append(End(("result", ("something else",), False), 40))


def a_push_is_contradicted(evidence: Evidence) -> None:
    evidence.channels[0].messages[-1] = status(44, "failed")
    evidence.models[0].ends.append(End(("error", -1), 40))


def it_ends_otherwise(evidence: Evidence) -> None:
    evidence.models[0].ends = [End(("cancelled",), 40, 45)]


def the_later_end_wins(evidence: Evidence) -> None:
    evidence.models[0].ends = [End(("cancelled",), 38, 39), End(DONE, 40)]


def a_wait_does_not_wait(evidence: Evidence) -> None:
    find(evidence, 15).received = 39


def the_end_is_sent_too_early(evidence: Evidence) -> None:
    evidence.models[0].ends = [End(DONE, 45, 46)]
    find(evidence, 15).received = 46


def an_error_is_completed(evidence: Evidence) -> None:
    find(evidence, 15).result["isError"] = True


def an_outcome_is_missing(evidence: Evidence) -> None:
    del find(evidence, 48).result["result"]


def a_question_comes_twice(evidence: Evidence) -> None:
    evidence.channels[0].messages.insert(1, question(21, "r2"))


def a_question_comes_again_as_it_was(evidence: Evidence) -> None:
    evidence.channels[1].closed = [21]
    evidence.channels[0].messages.insert(1, question(22))


def a_question_comes_too_early(evidence: Evidence) -> None:
    evidence.channels[0].messages.insert(0, question(14))


def only_another_session_waits(evidence: Evidence) -> None:
    find(evidence, 15).session = "another"


def an_unknown_question(evidence: Evidence) -> None:
    evidence.models[0].asked = {}


def an_answer_is_forgotten(evidence: Evidence) -> None:
    evidence.models[0].answered_at["q0"] = 21


def an_answer_on_the_general_stream(evidence: Evidence) -> None:
    evidence.channels[0].messages.append(Received(60, {"id": 1, "result": {}}))


def a_question_of_another_task(evidence: Evidence) -> None:
    evidence.channels[1].messages[0] = question(20, related="another")


def an_event_comes_again(evidence: Evidence) -> None:
    evidence.channels[0].messages.insert(1, attrs.evolve(status(20, "input_required"), at=21))


def an_event_comes_elsewhere(evidence: Evidence) -> None:
    evidence.channels[1].messages.insert(1, progress(32, 1))


def progress_goes_back(evidence: Evidence) -> None:
    evidence.channels[0].messages.insert(3, progress(33, 1))


def progress_after_the_end(evidence: Evidence) -> None:
    evidence.channels[0].messages.append(progress(60, 2))


def the_end_is_not_sent(evidence: Evidence) -> None:
    del evidence.channels[0].messages[-1]


def a_secret_leaks(evidence: Evidence) -> None:
    evidence.raw.append(("bob", b'{"text": "~alice~"}'))


def a_foreign_task_shows(evidence: Evidence) -> None:
    evidence.foreign.append(("tasks/get", b"not yours", b"no"))


def two_answers(evidence: Evidence) -> None:
    find(evidence, 13).complete({"id": 13}, b"")


def an_answer_to_another(evidence: Evidence) -> None:
    answer = find(evidence, 13).answer
    assert answer is not None
    answer["id"] = 12


def a_broken_connection(evidence: Evidence) -> None:
    find(evidence, 13).failure = "ConnectionResetError"


def a_key_for_two(evidence: Evidence) -> None:
    evidence.keys.append(("alice", "k", "another"))


def a_key_of_another_owner(evidence: Evidence) -> None:
    evidence.keys.append(("bob", "k", ID))


def a_list_repeats(evidence: Evidence) -> None:
    evidence.listed.append(("alice", [[ID], [ID]]))


def time_goes_back(evidence: Evidence) -> None:
    find(evidence, 46).result["lastUpdatedAt"] = "T05"


def it_is_created_twice(evidence: Evidence) -> None:
    find(evidence, 46).result["createdAt"] = "T01"


def a_problem_was_reported(evidence: Evidence) -> None:
    evidence.problems.append("a problem")


reads = judge.the_named_invariants_hold_for_reads
channels = judge.the_named_invariants_hold_for_every_channel

ERRORS: Final[dict[Callable[[Evidence], None], Callable[..., Any]]] = {
    an_ended_task_works: reads,
    a_task_is_gone: reads,
    a_call_hangs: reads,
    a_wait_hangs: reads,
    another_owner_reads: reads,
    wires_disagree: reads,
    a_push_is_contradicted: channels,
    it_ends_otherwise: judge.a_task_ends_as_it_was_ended,
    the_later_end_wins: judge.a_task_ends_as_it_was_ended,
    a_wait_does_not_wait: judge.nothing_is_shown_as_ended_before_it_could,
    the_end_is_sent_too_early: judge.nothing_is_shown_as_ended_before_it_could,
    an_error_is_completed: judge.a_status_belongs_to_the_outcome,
    an_outcome_is_missing: judge.a_status_belongs_to_the_outcome,
    a_question_comes_twice: judge.a_question_is_in_flight_on_one_channel_at_a_time,
    a_question_comes_again_as_it_was: judge.a_question_is_in_flight_on_one_channel_at_a_time,
    a_question_comes_too_early: judge.only_sessions_that_requested_a_task_are_asked,
    only_another_session_waits: judge.only_sessions_that_requested_a_task_are_asked,
    an_unknown_question: judge.open_questions_have_no_answer,
    an_answer_is_forgotten: judge.open_questions_have_no_answer,
    an_answer_on_the_general_stream: judge.a_channel_carries_only_its_own_messages,
    a_question_of_another_task: judge.a_channel_carries_only_its_own_messages,
    an_event_comes_again: judge.events_of_a_stream_come_once_and_in_order,
    an_event_comes_elsewhere: judge.events_of_a_stream_come_once_and_in_order,
    progress_goes_back: judge.nothing_of_a_task_follows_its_end_on_a_channel,
    progress_after_the_end: judge.nothing_of_a_task_follows_its_end_on_a_channel,
    the_end_is_not_sent: judge.every_open_channel_receives_the_end,
    a_secret_leaks: judge.no_owner_receives_foreign_words,
    a_foreign_task_shows: judge.a_foreign_task_is_one_that_does_not_exist,
    two_answers: judge.every_request_has_one_answer,
    an_answer_to_another: judge.every_request_has_one_answer,
    a_broken_connection: judge.every_request_has_one_answer,
    a_key_for_two: judge.a_key_names_one_task,
    a_key_of_another_owner: judge.a_key_names_one_task,
    a_list_repeats: judge.a_list_has_everything_once,
    time_goes_back: judge.times_never_go_back,
    it_is_created_twice: judge.times_never_go_back,
    a_problem_was_reported: judge.no_problem_was_reported,
}


def test_a_correct_record_passes() -> None:
    assert verdict(correct()) == []


def test_every_check_has_an_error_to_detect() -> None:
    assert set(ERRORS.values()) == set(CHECKS)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_an_error_is_detected(error: Callable[[Evidence], None]) -> None:
    evidence = correct()
    error(evidence)
    assert list(ERRORS[error](evidence)), verdict(evidence)
