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
def test_all_open_questions_are_in_every_answer() -> None:
    peer = Peer()
    task = peer.create()
    peer.ask(task, form("a"), form("b", message="And yours?"))
    peer.ask(task, sampling("c"))
    assert peer.get(task)["inputRequests"] == {
        "a": {"method": "elicitation/create", "params": FORM},
        "b": {"method": "elicitation/create", "params": {**FORM, "message": "And yours?"}},
        "c": {"method": "sampling/createMessage", "params": SAMPLING},
    }


@covers(
    "2026-07-28:questions-answered-by-update",
    "2026-07-28:task-questions-not-mrtr",
    "2026-07-28:update-ack-empty",
    "2026-07-28:update-result-type-complete",
)
def test_an_answer_by_update_lets_the_tool_go_on() -> None:
    peer = Peer()
    task = peer.create()
    peer.ask(task, form())
    ack = peer.update(task, name=ACCEPTED)
    assert ack["resultType"] == "complete"
    assert ack.keys() <= {"resultType", "_meta"}
    (question,) = peer.driver.tasks[task].questions
    assert question.answer is not None
    assert json.loads(question.answer.body) == ACCEPTED
    assert not question.answer.is_error
    assert peer.get(task)["status"] == "working"


@covers("2026-07-28:partial-answers", "2026-07-28:partial-stays-input-required")
def test_an_answer_to_one_of_two_questions_leaves_the_other_open() -> None:
    peer = Peer()
    task = peer.create()
    peer.ask(task, form("a"), form("b"))
    peer.update(task, a=ACCEPTED)
    shown = peer.get(task)
    assert (shown["status"], set(shown["inputRequests"])) == ("input_required", {"b"})
    peer.update(task, b=ACCEPTED)
    assert peer.get(task)["status"] == "working"


@covers(
    "2026-07-28:ignore-never-issued-keys",
    "2026-07-28:ignore-answered-keys",
    "2026-07-28:ignore-superseded-keys",
    "2026-07-28:input-responses-extra-ignored",
)
def test_the_server_acknowledges_and_ignores_unexpected_answers() -> None:
    peer = Peer()
    task = peer.create()
    peer.ask(task, form("a"), form("b"), form("c"))
    before = peer.get(task)
    peer.update(task, nobody=ACCEPTED)
    assert peer.get(task) == before
    peer.update(task, a=ACCEPTED, nobody=ACCEPTED)
    peer.update(task, a={"action": "decline"})  # the first one counts
    peer.update(task, a={"action": "decline"}, c=ACCEPTED)  # also beside one that is wanted
    peer.work(task, lambda t, now: lifecycle.withdraw(t, now))
    peer.update(task, b=ACCEPTED)
    answers = {q.key: q.answer for q in peer.driver.tasks[task].questions}
    assert answers["a"] is not None
    assert json.loads(answers["a"].body) == ACCEPTED
    assert answers["b"] is None
    assert answers["c"] is not None
    assert peer.get(task)["status"] == "working"


@covers(
    "2026-07-28:keys-unique-for-life",
    "2026-07-28:key-not-reused-after-answer",
    "2026-07-28:key-not-two-requests",
)
@pytest.mark.parametrize("answered", [True, False])
def test_a_key_stands_for_one_question_for_life(answered: bool) -> None:
    peer = Peer()
    task = peer.create()
    peer.ask(task, form("name"), form("other"))
    if answered:
        peer.update(task, name=ACCEPTED)
    before = peer.get(task)
    with pytest.raises(KeyReused):
        peer.ask(task, form("name", message="Something else?"))
    peer.ask(task, form("name"))  # a re-run asks the same again: it is the same question
    assert still(peer.get(task)) == still(before)
    assert ("name" in before["inputRequests"]) is not answered


@covers("2026-07-28:key-scope-is-task", "2026-07-28:mrtr-before-create")
def test_a_plain_call_and_a_task_may_use_the_same_key() -> None:
    peer = Peer()
    peer.send("tools/call", {"elicitation": {}}, name="greet", id="plain")
    outputs = peer.connection.receiver.paused("plain", [form("name")], None)
    peer.driver.handle(peer.connection, outputs)
    assert peer.news()[0]["result"]["resultType"] == "input_required"
    # Who was asked before a task was made gets no task any more, also if it declares now.
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
def test_a_poll_returns_only_questions_of_kinds_that_it_declares() -> None:
    peer = Peer()
    task = peer.create()
    peer.ask(task, form("a"), sampling("b"))
    reduced = peer.get(task, {**TASKS, "elicitation": {}})
    assert set(reduced["inputRequests"]) == {"a"}
    assert "sampling/createMessage" in reduced["statusMessage"]
    assert peer.get(task, TASKS)["inputRequests"] == {}
    assert set(peer.get(task)["inputRequests"]) == {"a", "b"}


@covers("2026-07-28:elicitation-refusals-handled")
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_refused_elicitation_is_an_answer(action: str) -> None:
    peer = Peer()
    task = peer.create()
    peer.ask(task, form())
    peer.update(task, name={"action": action})
    assert peer.get(task)["status"] == "working"
    peer.complete(task)
    assert peer.get(task)["status"] == "completed"


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
def test_the_server_refuses_malformed_input_responses(method: str, answers: Any) -> None:
    peer = Peer()
    task = peer.create()
    peer.ask(task, form())
    params = {"taskId": task} if method == "tasks/update" else {"name": "greet"}
    error = peer.error(method, inputResponses=answers, **params)
    assert error["code"] == -32602
    assert "inputResponses" in error["message"]
    assert peer.get(task)["status"] == "input_required"
    assert not peer.connection.runs


@pytest.mark.parametrize(
    "answer",
    [
        ACCEPTED,
        {"role": "assistant", "content": {"type": "text", "text": "4"}, "model": "m"},
        {"roots": [{"uri": "file:///a"}]},
    ],
)
def test_the_server_stores_every_kind_of_answer_unchanged(answer: Any) -> None:
    judge(REVISION, "InputResponse").validate(answer)
    peer = Peer()
    task = peer.create()
    peer.ask(task, form())
    peer.update(task, name={**answer, "com.example/more": [1]})
    (question,) = peer.driver.tasks[task].questions
    assert question.answer is not None
    assert json.loads(question.answer.body) == {**answer, "com.example/more": [1]}


@covers("2026-07-28:elicitation-required-params", "2026-07-28:elicitation-form-schema")
def test_the_one_question_in_our_own_words_is_a_proper_form() -> None:
    peer = Peer()
    task = peer.create()
    for step in decide(Amend(task, asks=True), peer.driver.tasks[task], peer.driver.now):
        peer.driver.commit(step)
    (request,) = peer.get(task)["inputRequests"].values()
    judge(REVISION, "ElicitRequest").validate(request)
    assert request["params"]["message"]
