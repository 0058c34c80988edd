"""Questions on their way: one stream at a time, redelivered, answered once, taken back."""

from itertools import count

from taskmachine.protocol.side_channel import SideChannel
from taskmachine.statemachine import Call, Question, Reply, Task, lifecycle


def waiting(*keys: str) -> Task:
    step = lifecycle.submit("t", "alice", Call("tools/call"), 0, ttl_ms=None)
    task = lifecycle.start(step.task, 0, worker="w").task
    asked = lifecycle.ask(task, 0, [Question(key, "elicitation/create", b"{}") for key in keys])
    assert asked is not None
    return asked.task


def channel() -> SideChannel:
    ids = count(1)
    return SideChannel(lambda task_id, key: next(ids))


def offered(questions: SideChannel, task: Task, *streams: int | str | None) -> list[object]:
    return [delivery.id for delivery, _ in questions.offer(task, streams)]


def test_a_question_is_in_flight_on_one_stream_at_a_time() -> None:
    questions, task = channel(), waiting("a", "b")
    assert offered(questions, task) == []
    assert offered(questions, task, "s1", "s2") == [1, 2]
    assert offered(questions, task, "s2") == []


def test_a_question_is_resent_under_a_new_id_after_its_stream_closes() -> None:
    questions, task = channel(), waiting("a")
    offered(questions, task, "s1")
    questions.close("s2")
    assert offered(questions, task, "s2") == []
    questions.close("s1")
    assert offered(questions, task, "s2") == [2]


def test_an_answer_counts_under_every_id_and_each_id_once() -> None:
    questions, task = channel(), waiting("a")
    offered(questions, task, "s1")
    questions.close("s1")
    offered(questions, task, "s2")
    late = questions.take(1)
    assert late is not None
    assert (late.task_id, late.key, late.stream) == ("t", "a", "s1")
    assert questions.take(1) is None
    assert questions.take(2) is not None
    assert questions.take(99) is None


def test_an_answered_question_is_not_resent_before_the_task_records_it() -> None:
    questions, task = channel(), waiting("a")
    offered(questions, task, "s1")
    assert questions.take(1) is not None
    assert offered(questions, task, "s1", "s2") == []
    questions.close("s1")
    assert offered(questions, task, "s2") == []
    step = lifecycle.answer(task, 0, {"a": Reply(b"{}")})
    assert step is not None
    assert questions.withdraw(task.id, step.task) == [], (
        "the answering client needs no notification"
    )


def test_a_question_answered_elsewhere_is_withdrawn() -> None:
    questions, task = channel(), waiting("a", "b")
    offered(questions, task, None)
    step = lifecycle.answer(task, 0, {"a": Reply(b"{}")})
    assert step is not None
    assert [(d.key, d.stream) for d in questions.withdraw(task.id, step.task)] == [("a", None)]
    assert questions.withdraw(task.id, step.task) == []
    assert questions.take(2) is not None, "the other one is still open"


def test_the_end_of_a_task_withdraws_and_removes_its_questions() -> None:
    questions, task = channel(), waiting("a", "b")
    offered(questions, task, "s1")
    questions.close("s1")
    offered(questions, task, "s2")
    ended = lifecycle.cancel(task, 0, reason="enough").task
    assert sorted(d.key for d in questions.withdraw(task.id, ended)) == ["a", "b"]
    assert [questions.take(id) for id in (1, 2, 3, 4)] == [None] * 4
