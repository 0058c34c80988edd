"""2025-11-25: questions and progress of a task."""

import json
from typing import Any

import pytest

from taskmachine.protocol.operations import Amend, decide
from taskmachine.statemachine import IllegalTransition, Outcome, Progress, Question, lifecycle
from tests.oracle import judge
from tests.protocol.memory_driver import MemoryDriver
from tests.protocol.peers_2025_11_25 import (
    ACCEPT,
    CLIENT,
    ENDS,
    NAME,
    RELATED,
    REVISION,
    SAMPLING,
    SUM,
    VERBS,
    Peer,
)
from tests.requirements import covers


@covers(
    "2025-11-25:input-required-when-asking",
    "2025-11-25:status-input-required",
    "2025-11-25:related-task-on-question",
    "2025-11-25:related-task-on-task-messages",
    "2025-11-25:related-task-value-shape",
    "2025-11-25:leaves-input-required-when-answered",
)
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (NAME, ACCEPT),
        (NAME, {"action": "decline"}),
        (NAME, {"action": "cancel"}),
        (SUM, {"role": "assistant", "model": "m", "content": {"type": "text", "text": "4"}}),
        (
            Question(
                "login",
                "elicitation/create",
                b'{"mode":"url","message":"?","url":"https://x.org","elicitationId":"e",'
                b'"_meta":null}',
            ),
            {"action": "accept"},
        ),
    ],
)
@covers("2025-11-25:elicitation-three-actions")
def test_a_question_sets_input_required_and_its_answer_resumes_the_task(
    peer: Peer, task_id: str, question: Question, answer: dict[str, Any]
) -> None:
    waiting = peer.ask("tasks/result", taskId=task_id)
    peer.ask_from(task_id, question)
    assert peer.status(task_id) == "input_required"
    [asked] = peer.questions()
    assert asked["params"]["_meta"][RELATED] == {"taskId": task_id}
    expected = json.loads(question.params)
    assert {k: v for k, v in asked["params"].items() if k != "_meta"} == {
        k: v for k, v in expected.items() if k != "_meta"
    }
    peer.answer(asked, {**answer, "_meta": {RELATED: {"taskId": task_id}}})
    assert peer.status(task_id) == "working"
    [stored] = peer.driver.tasks[task_id].questions
    assert stored.answer is not None
    assert answer.items() <= json.loads(stored.answer.body).items()
    peer.end(task_id)
    assert len(peer.responses(waiting)) == 1


@covers(
    "2025-11-25:status-input-required",
    "2025-11-25:request-id-not-reused",
    "2025-11-25:request-id-type",
)
def test_a_question_comes_with_the_first_wait_for_the_result_and_not_before(peer: Peer) -> None:
    task_id, other = peer.create(), peer.create()
    peer.ask("tasks/result", taskId=other)
    peer.ask_from(task_id, NAME, SUM)
    told = [task["status"] for task in peer.notifications("notifications/tasks/status")]
    assert told == ["input_required"]
    assert peer.questions() == [], "a client that does not wait may not know the task yet"
    waiting = peer.ask("tasks/result", taskId=task_id)
    asked = peer.questions()
    assert [q["method"] for q in asked] == ["elicitation/create", "sampling/createMessage"]
    peer.notify("notifications/cancelled", requestId=waiting)
    assert peer.questions() == asked, "no request waits any more"
    peer.ask("tasks/result", taskId=task_id)
    again = peer.questions()[len(asked) :]
    assert [q["params"] for q in again] == [q["params"] for q in asked]
    assert len({q["id"] for q in (*asked, *again)}) == 4, "a question sent again has a new id"
    assert all(isinstance(q["id"], str | int) for q in (*asked, *again))


@covers("2025-11-25:status-input-required")
def test_the_server_asks_a_polling_client_after_it_reads_the_task(peer: Peer) -> None:
    task_id, other = peer.create(), peer.create()
    peer.ask_from(task_id)
    peer.status(other)
    peer.result("tasks/list")
    assert peer.questions() == [], "it has not looked at this one"
    assert peer.status(task_id) == "input_required"
    [asked] = peer.questions()
    peer.status(task_id)
    peer.ask("tasks/result", taskId=task_id)
    assert peer.questions() == [asked], "once is enough"
    peer.answer(asked, ACCEPT)
    assert peer.status(task_id) == "working"


@covers("2025-11-25:leaves-input-required-when-answered")
def test_a_task_waits_until_the_last_question_is_answered(peer: Peer, task_id: str) -> None:
    first, second = peer.asked(task_id, NAME, SUM)
    peer.answer(second, {"role": "assistant", "model": "m", "content": []})
    assert peer.status(task_id) == "input_required"
    peer.say({"id": first["id"], "error": {"code": -1, "message": "User rejected"}})
    assert peer.status(task_id) == "working"


@covers("2025-11-25:question-task-id-matches")
def test_each_question_names_the_task_that_asks(peer: Peer) -> None:
    tasks = {"one": peer.create(), "two": peer.create()}
    for key, task_id in tasks.items():
        params = {"message": key, "requestedSchema": {"type": "object", "properties": {}}}
        peer.ask("tasks/result", taskId=task_id)
        peer.ask_from(task_id, Question("key", "elicitation/create", json.dumps(params).encode()))
    asked = {q["params"]["message"]: q for q in peer.questions()}
    named = {key: q["params"]["_meta"][RELATED]["taskId"] for key, q in asked.items()}
    assert named == tasks
    peer.answer(asked["two"], ACCEPT)
    assert peer.status(tasks["one"]) == "input_required"
    assert peer.status(tasks["two"]) == "working"


@covers("2025-11-25:elicitation-bound-to-user")
def test_another_owner_can_neither_read_nor_answer_a_question() -> None:
    driver = MemoryDriver()
    alice, bob = Peer(driver), Peer(driver, owner="bob")
    task_id = alice.create()
    alice.ask("tasks/result", taskId=task_id)
    bob.error("tasks/result", taskId=task_id)
    alice.ask_from(task_id)
    [asked] = alice.questions()
    assert bob.questions() == []
    bob.answer(asked, ACCEPT)
    assert alice.status(task_id) == "input_required"


@covers("2025-11-25:cancelled-same-direction", "2025-11-25:cancelled-still-running")
@pytest.mark.parametrize("end", ENDS)
def test_a_question_that_is_moot_is_taken_back_and_nothing_else(
    peer: Peer, task_id: str, end: str
) -> None:
    answered, still_open = peer.asked(task_id, NAME, SUM)
    peer.answer(answered, ACCEPT)
    peer.move(task_id, VERBS[end])
    assert peer.notifications("notifications/cancelled") == [{"requestId": still_open["id"]}]


@covers("2025-11-25:late-response-ignored", "2025-11-25:cancellation-races-handled")
def test_an_answer_to_a_question_that_was_taken_back_is_ignored(peer: Peer, task_id: str) -> None:
    [asked] = peer.asked(task_id)
    peer.end(task_id)
    before = peer.result("tasks/get", taskId=task_id)
    assert peer.answer(asked, ACCEPT) == []
    assert peer.result("tasks/get", taskId=task_id) == before


@covers(
    "2025-11-25:elicitation-required-params",
    "2025-11-25:elicitation-form-schema",
    "2025-11-25:elicitation-schema-flat",
    "2025-11-25:elicitation-mode-omitted",
)
def test_the_free_form_question_of_ours_is_a_proper_form(peer: Peer, task_id: str) -> None:
    peer.ask("tasks/result", taskId=task_id)
    peer.start(task_id)
    for step in decide(Amend(task_id, asks=True), peer.driver.tasks[task_id], peer.driver.now):
        peer.driver.commit(step)
    [asked] = peer.questions()
    judge(REVISION, "TaskElicitRequest").validate(asked)
    params = asked["params"]
    assert params["message"]
    assert params.get("mode", "form") == "form"
    assert {p["type"] for p in params["requestedSchema"]["properties"].values()} == {"string"}


@covers("2025-11-25:sampling-user-rejected")
def test_a_sampling_task_that_a_person_refuses_fails_with_minus_one() -> None:
    peer = Peer(MemoryDriver(), offer=CLIENT)
    task_id = peer.result("sampling/createMessage", **SAMPLING, task={})["task"]["taskId"]
    peer.end(task_id, Outcome.of_error(-1, "User rejected sampling request"))
    assert peer.status(task_id) == "failed"
    error = peer.error("tasks/result", taskId=task_id)
    assert error == {"code": -1, "message": "User rejected sampling request"}


@covers(
    "2025-11-25:sampling-declared",
    "2025-11-25:only-negotiated-capabilities",
    "2025-11-25:elicitation-declared-modes-only",
    "2025-11-25:sampling-tools-only-if-declared",
)
@pytest.mark.parametrize(
    ("declares", "methods"),
    [
        ({}, set()),
        ({"elicitation": {}}, {"elicitation/create"}),
        ({"elicitation": {"form": {}}}, {"elicitation/create"}),
        ({"elicitation": {"url": {}}}, {"elicitation/create url"}),
        (
            {"elicitation": {"form": {}, "url": {}}},
            {"elicitation/create", "elicitation/create url"},
        ),
        ({"sampling": {}}, {"sampling/createMessage"}),
        ({"sampling": {"tools": {}}}, {"sampling/createMessage", "sampling/createMessage tools"}),
        ({"roots": {}, "elicitation": None}, {"roots/list"}),
    ],
)
def test_a_task_records_the_capabilities_that_its_requestor_declared(
    declares: Any, methods: set[str]
) -> None:
    peer = Peer(MemoryDriver(), declares=declares)
    assert peer.driver.tasks[peer.create()].call.answers == methods


def progress_of(peer: Peer, token: Any) -> list[Any]:
    told = peer.notifications("notifications/progress")
    return [p for p in told if p["progressToken"] == token]


@covers(
    "2025-11-25:progress-optional",
    "2025-11-25:progress-increases",
    "2025-11-25:progress-may-be-float",
    "2025-11-25:progress-total-optional",
    "2025-11-25:progress-message-readable",
    "2025-11-25:progress-supported-on-tasks",
    "2025-11-25:progress-after-create-result",
    "2025-11-25:progress-same-token",
    "2025-11-25:progress-token-known",
    "2025-11-25:related-task-on-progress",
    "2025-11-25:related-task-on-task-messages",
)
@pytest.mark.parametrize("token", ["abc", "", 0, 7])
def test_progress_uses_the_token_of_the_creating_request_and_only_grows(
    peer: Peer, token: Any
) -> None:
    task_id = peer.create(_meta={"progressToken": token})
    peer.start(task_id)
    other = {"_meta": {"progressToken": "other"}}
    steps = [(1, None), (0.5, None), (2.5, 10), (2.5, 10), (4, 10.5)]
    for value, total in steps:
        peer.report(task_id, value, total, f"{value} done")
        peer.ask("tasks/result", taskId=task_id, **other)
        peer.result("tasks/get", taskId=task_id, **other)
    told = peer.notifications("notifications/progress")
    assert told == progress_of(peer, token)
    assert [p["progress"] for p in told] == [1, 2.5, 4]
    assert [p.get("total") for p in told] == [None, 10, 10.5]
    assert [p["message"] for p in told] == ["1 done", "2.5 done", "4 done"]
    assert "total" not in told[0]
    assert all(p["_meta"][RELATED] == {"taskId": task_id} for p in told)


@covers("2025-11-25:progress-stops-at-terminal", "2025-11-25:progress-operation-running")
@pytest.mark.parametrize("end", ENDS)
def test_no_progress_follows_the_end(peer: Peer, end: str) -> None:
    task_id = peer.create(_meta={"progressToken": "t"})
    peer.start(task_id)
    peer.report(task_id, 1)
    assert len(progress_of(peer, "t")) == 1
    before = len(peer.heard)
    # Not even if the last report and the end come as one: a stream may miss versions.
    last = Progress(2)
    peer.move(task_id, lambda t, now: VERBS[end](lifecycle.report(t, now, progress=last).task, now))
    with pytest.raises(IllegalTransition):
        peer.report(task_id, 3)
    assert "notifications/progress" not in [m.get("method") for m in peer.heard[before:]]


@covers("2025-11-25:progress-token-known")
def test_the_server_sends_no_progress_without_a_token(peer: Peer) -> None:
    for meta in ({}, None, {"progressToken": None}):
        task_id = peer.create(_meta=meta)
        peer.report(task_id, 1)
    assert peer.notifications("notifications/progress") == []
