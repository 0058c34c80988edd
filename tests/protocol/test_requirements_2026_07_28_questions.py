"""How tasks of 2026-07-28 ask, and how they are answered."""

import json
from typing import Any

import pytest

from taskmachine.protocol.operations import Amend, decide
from taskmachine.statemachine import KeyReused, lifecycle
from tests.oracle import judge
from tests.protocol.plain_2026_07_28 import (
    ACCEPTED,
    FORM,
    REVISION,
    SAMPLING,
    TASKS,
    Peer,
    form,
    sampling,
    still,
)
from tests.requirements import covers


@covers(
    "2026-07-28:input-requests-complete",
    "2026-07-28:get-input-required-has-requests",
    "2026-07-28:input-request-kinds",
)
def test_all_open_questions_are_in_every_answer(peer: Peer, task_id: str) -> None:
    peer.ask(task_id, form("a"), form("b", message="And yours?"))
    peer.ask(task_id, sampling("c"))
    assert peer.get(task_id)["inputRequests"] == {
        "a": {"method": "elicitation/create", "params": FORM},
        "b": {"method": "elicitation/create", "params": {**FORM, "message": "And yours?"}},
        "c": {"method": "sampling/createMessage", "params": SAMPLING},
    }


@covers(
    "2026-07-28:questions-answered-by-update",
    "2026-07-28:task-questions-not-mrtr",
    "2026-07-28:update-ack-empty",
    "2026-07-28:update-result-type-complete",
    "2026-07-28:elicitation-refusals-handled",
)
@pytest.mark.parametrize(
    "answer",
    [
        ACCEPTED,
        {"action": "decline"},
        {"action": "cancel"},
        {"role": "assistant", "content": {"type": "text", "text": "4"}, "model": "m"},
        {"roots": [{"uri": "file:///a"}]},
    ],
)
def test_the_server_stores_every_kind_of_answer_unchanged_and_the_tool_continues(
    peer: Peer, task_id: str, answer: Any
) -> None:
    judge(REVISION, "InputResponse").validate(answer)
    peer.ask(task_id, form())
    ack = peer.update(task_id, name={**answer, "com.example/more": [1]})
    assert ack["resultType"] == "complete"
    assert ack.keys() <= {"resultType", "_meta"}
    (question,) = peer.driver.tasks[task_id].questions
    assert question.answer is not None
    assert json.loads(question.answer.body) == {**answer, "com.example/more": [1]}
    assert not question.answer.is_error
    assert peer.get(task_id)["status"] == "working"
    peer.complete(task_id)
    assert peer.get(task_id)["status"] == "completed"


@covers("2026-07-28:partial-answers", "2026-07-28:partial-stays-input-required")
def test_an_answer_to_one_of_two_questions_leaves_the_other_open(peer: Peer, task_id: str) -> None:
    peer.ask(task_id, form("a"), form("b"))
    peer.update(task_id, a=ACCEPTED)
    shown = peer.get(task_id)
    assert (shown["status"], set(shown["inputRequests"])) == ("input_required", {"b"})
    peer.update(task_id, b=ACCEPTED)
    assert peer.get(task_id)["status"] == "working"


@covers(
    "2026-07-28:ignore-never-issued-keys",
    "2026-07-28:ignore-answered-keys",
    "2026-07-28:ignore-superseded-keys",
    "2026-07-28:input-responses-extra-ignored",
)
def test_the_server_acknowledges_and_ignores_unexpected_answers(peer: Peer, task_id: str) -> None:
    peer.ask(task_id, form("a"), form("b"), form("c"))
    before = peer.get(task_id)
    peer.update(task_id, nobody=ACCEPTED)
    assert peer.get(task_id) == before
    peer.update(task_id, a=ACCEPTED, nobody=ACCEPTED)
    peer.update(task_id, a={"action": "decline"})  # the first one counts
    peer.update(task_id, a={"action": "decline"}, c=ACCEPTED)  # also beside one that is wanted
    peer.work(task_id, lambda t, now: lifecycle.withdraw(t, now))
    peer.update(task_id, b=ACCEPTED)
    answers = {q.key: q.answer for q in peer.driver.tasks[task_id].questions}
    assert answers["a"] is not None
    assert json.loads(answers["a"].body) == ACCEPTED
    assert answers["b"] is None
    assert answers["c"] is not None
    assert peer.get(task_id)["status"] == "working"


@covers(
    "2026-07-28:keys-unique-for-life",
    "2026-07-28:key-not-reused-after-answer",
    "2026-07-28:key-not-two-requests",
)
@pytest.mark.parametrize("answered", [True, False])
def test_a_key_stands_for_one_question_for_life(peer: Peer, task_id: str, answered: bool) -> None:
    peer.ask(task_id, form("name"), form("other"))
    if answered:
        peer.update(task_id, name=ACCEPTED)
    before = peer.get(task_id)
    with pytest.raises(KeyReused):
        peer.ask(task_id, form("name", message="Something else?"))
    peer.ask(task_id, form("name"))  # a re-run asks the same again: it is the same question
    assert still(peer.get(task_id)) == still(before)
    assert ("name" in before["inputRequests"]) is not answered


@covers("2026-07-28:key-scope-is-task", "2026-07-28:mrtr-before-create")
def test_a_plain_call_and_a_task_may_use_the_same_key(peer: Peer) -> None:
    peer.send("tools/call", {"elicitation": {}}, name="greet", id="plain")
    (paused,) = peer.do(peer.receiver.paused("plain", [form("name")], None))
    assert paused["result"]["resultType"] == "input_required"
    # A retry with answers stays a plain call, even if it declares the extension now.
    peer.send("tools/call", name="greet", id="again", inputResponses={"name": ACCEPTED})
    assert "again" in peer.connection.runs
    task = peer.create()
    peer.ask(task, form("name"))
    assert "name" in peer.get(task)["inputRequests"]


@covers(
    "2026-07-28:undeclared-capability-not-used",
    "2026-07-28:sampling-declared",
    "2026-07-28:elicitation-declared",
)
def test_a_poll_returns_only_questions_of_kinds_that_it_declares(peer: Peer, task_id: str) -> None:
    peer.ask(task_id, form("a"), sampling("b"))
    reduced = peer.get(task_id, {**TASKS, "elicitation": {}})
    assert set(reduced["inputRequests"]) == {"a"}
    assert reduced["statusMessage"] == "Waiting for answers to: sampling/createMessage"
    nothing = peer.get(task_id, TASKS)
    assert nothing["inputRequests"] == {}
    assert nothing["statusMessage"] == (
        "Waiting for answers to: elicitation/create, sampling/createMessage"
    )
    whole = peer.get(task_id)
    assert set(whole["inputRequests"]) == {"a", "b"}
    assert "statusMessage" not in whole


@covers("2026-07-28:input-responses-validated", "2026-07-28:input-responses-malformed-error")
@pytest.mark.parametrize(
    "answers",
    [
        5,
        [],
        {"name": 1},
        {"name": None},
        {"name": {}},
        {"name": {"action": "perhaps"}},
        {"name": {"action": "accept", "content": 5}},
        {"name": {"role": "assistant"}},
        {"name": {"roots": {}}},
    ],
)
@pytest.mark.parametrize("method", ["tasks/update", "tools/call"])
def test_the_server_refuses_malformed_input_responses(
    peer: Peer, task_id: str, method: str, answers: Any
) -> None:
    peer.ask(task_id, form())
    params = {"taskId": task_id} if method == "tasks/update" else {"name": "greet"}
    error = peer.error(method, inputResponses=answers, **params)
    assert error["code"] == -32602
    assert "inputResponses" in error["message"]
    assert peer.get(task_id)["status"] == "input_required"
    assert not peer.connection.runs


@covers("2026-07-28:elicitation-required-params", "2026-07-28:elicitation-form-schema")
def test_the_one_question_in_our_own_words_is_a_proper_form(peer: Peer, task_id: str) -> None:
    for step in decide(Amend(task_id, asks=True), peer.driver.tasks[task_id], peer.driver.now):
        peer.driver.commit(step)
    (request,) = peer.get(task_id)["inputRequests"].values()
    judge(REVISION, "ElicitRequest").validate(request)
    assert request["params"]["message"]
