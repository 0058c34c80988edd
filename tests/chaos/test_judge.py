"""The judge accepts a correct run and finds every change made to its evidence."""

from collections.abc import Callable
from typing import Final

import attrs
import pytest

from taskmachine.protocol.jsonvalue import encode_json
from taskmachine.statemachine import (
    Call,
    Entry,
    Event,
    Outcome,
    Question,
    Reply,
    State,
    Task,
    lifecycle,
)
from taskmachine.statemachine.lifecycle import Step
from tests.chaos.judge import CALL_BOUND_MS, CHECKS, NOTIFIED_BOUND_MS, verdict
from tests.chaos.linearizability import NS_PER_MS
from tests.chaos.record import AUDIT, Channel, Evidence, LogLine, Made, Miss, Observation, Span
from tests.lifecycle.wire.record import NEW, OLD

NAME: Final = "ann1-1-asking"
RUN: Final = "run-1"
TEXT: Final = f"{RUN} {NAME} yes"
RESULT: Final = ("result", (TEXT,), False)
DONE: Final = 5_000
"""When the task ended, in milliseconds."""


class Record:
    """A task and its history, built step by step."""

    def __init__(self, task_id: str, name: str, tool: str, *, is_repeatable: bool = True) -> None:
        call = Call("tools/call", tool, encode_json({"name": name}))
        step = lifecycle.submit(
            task_id, "ann", call, 1_000, ttl_ms=None, is_repeatable=is_repeatable
        )
        self.task, self.entries = step.task, [step.entry]

    def take(self, step: Step | None) -> "Record":
        assert step is not None
        self.task = step.task
        self.entries.append(step.entry)
        return self


def observed(at_ms: int, status: str, updated_ms: int | None, wire: str = NEW) -> Observation:
    """An observation by a call that took one millisecond."""
    since, until = at_ms * NS_PER_MS, (at_ms + 1) * NS_PER_MS
    outcome = RESULT if status == "completed" else None
    return Observation(since, until, "ann", wire, "t1", status, updated_ms, outcome)


def good() -> Evidence:
    """The evidence of a correct run with one task that asked a question."""
    record = Record("t1", NAME, "asking")
    record.take(lifecycle.start(record.task, 2_000, worker="w1"))
    asked = Question("a", "elicitation/create", b"{}")
    record.take(lifecycle.ask(record.task, 3_000, [asked], fence=1))
    reply = Reply(encode_json({"action": "accept", "content": {"said": "yes"}}))
    record.take(lifecycle.answer(record.task, 4_000, {"a": reply}))
    result = encode_json({"content": [{"type": "text", "text": TEXT}]})
    record.take(lifecycle.complete(record.task, DONE, Outcome.of_result(result), fence=1))
    evidence = Evidence(epoch_ms=0.0)
    evidence.attempts[NAME] = "ann"
    evidence.made.append(Made(1_100 * NS_PER_MS, "ann", "t1", NAME))
    evidence.observations += [
        observed(1_100, "working", 1_000),
        observed(3_100, "input_required", 3_000, OLD),
        observed(4_100, "working", 4_000),
        attrs.evolve(observed(DONE + 100, "completed", DONE, AUDIT), version=5),
        observed(DONE + 200, "completed", DONE),
        observed(DONE + 200, "completed", None, OLD),
    ]
    evidence.spans += [
        Span(1_000 * NS_PER_MS, "tools/call", None, 1_100 * NS_PER_MS),
        Span(1_200 * NS_PER_MS, "tasks/result", "t1", (DONE + 300) * NS_PER_MS),
    ]
    pushed = [observed(3_050, "input_required", 3_000), observed(DONE + 50, "completed", DONE)]
    closed = (DONE + 2 * NOTIFIED_BOUND_MS) * NS_PER_MS
    evidence.channels.append(Channel("ann", "watch", 0, pushed, agreed={"t1"}, closed=closed))
    evidence.channels.append(
        Channel("ann", "watch", 0, agreed={"t1"}, closed=(DONE + 1) * NS_PER_MS)
    )
    evidence.asked.add(("t1", "a", f"{NAME}/a"))
    evidence.answers["t1", "a"].add("yes")
    evidence.log_lines += [
        LogLine("t1", RUN, NAME, "begin", 2_100),
        LogLine("t1", RUN, NAME, "writing", 2_900),
        LogLine("t1", RUN, NAME, "written", 4_100),
        LogLine("t1", RUN, NAME, "end", 4_900),
    ]
    keep(evidence, record.task, record.entries)
    return evidence


def keep(evidence: Evidence, task: Task, entries: list[Entry]) -> None:
    evidence.tasks[task.id] = task
    evidence.entries[task.id] = entries


# --- changes to the evidence -------------------------------------------------------------------


def a_task_is_lost(evidence: Evidence) -> None:
    del evidence.tasks["t1"], evidence.entries["t1"]


def its_creator_cannot_find_it(evidence: Evidence) -> None:
    evidence.misses.append(Miss(1_200 * NS_PER_MS, "ann", "t1"))


def two_outcomes_are_shown(evidence: Evidence) -> None:
    other = ("result", ("run-2 something else",), False)
    evidence.observations.append(
        attrs.evolve(observed(DONE + 500, "completed", DONE), outcome=other)
    )


def two_outcomes_are_stored(evidence: Evidence) -> None:
    last = evidence.entries["t1"][-1]
    second = attrs.evolve(last, seq=6, at=DONE + 10, dest=State.FAILED)
    evidence.entries["t1"] = [*evidence.entries["t1"], second]


def another_owner_sees_it(evidence: Evidence) -> None:
    evidence.observations.append(
        attrs.evolve(observed(DONE + 500, "completed", DONE), caller="bob")
    )


def another_owner_is_notified(evidence: Evidence) -> None:
    push = attrs.evolve(observed(DONE + 500, "completed", DONE), caller="bob")
    evidence.channels.append(Channel("bob", "watch", 0, [push]))


def a_replica_shows_an_old_version(evidence: Evidence) -> None:
    evidence.observations.append(observed(4_200, "input_required", 3_000))


def a_replica_is_behind_the_database(evidence: Evidence) -> None:
    evidence.observations.append(observed(DONE + 150, "working", 4_000))


def a_step_is_illegal(evidence: Evidence) -> None:
    submit, start, *rest = evidence.entries["t1"]
    evidence.entries["t1"] = [submit, attrs.evolve(start, source=State.NEW), *rest]


def a_step_is_missing(evidence: Evidence) -> None:
    evidence.entries["t1"] = [e for e in evidence.entries["t1"] if e.seq != 2]


def it_never_ends(evidence: Evidence) -> None:
    record = Record("t2", "ann1-2-quick", "quick")
    evidence.attempts["ann1-2-quick"] = "ann"
    keep(evidence, record.task, record.entries)


def a_call_hangs(evidence: Evidence) -> None:
    evidence.spans.append(Span(2_000 * NS_PER_MS, "tasks/get", "t1"))


def a_call_takes_too_long(evidence: Evidence) -> None:
    since = 2_000 * NS_PER_MS
    late = since + (CALL_BOUND_MS + 1) * NS_PER_MS
    evidence.spans.append(Span(since, "tasks/get", "t1", late))


def a_waiting_caller_is_not_answered(evidence: Evidence) -> None:
    evidence.spans.append(Span(2_000 * NS_PER_MS, "tasks/result", "t1"))


def a_push_comes_after_the_end(evidence: Evidence) -> None:
    evidence.channels[0].pushes.append(observed(DONE + 60, "working", 4_000))


def a_push_is_taken_back(evidence: Evidence) -> None:
    evidence.channels.append(Channel("ann", "watch", 0, [observed(1_050, "completed", DONE)]))


def a_subscriber_is_not_notified(evidence: Evidence) -> None:
    closed = (DONE + NOTIFIED_BOUND_MS + 10) * NS_PER_MS
    evidence.channels.append(Channel("ann", "watch", 0, agreed={"t1"}, closed=closed))


def one_call_makes_two_tasks(evidence: Evidence) -> None:
    evidence.made.append(Made(1_200 * NS_PER_MS, "ann", "t2", NAME))


def a_task_has_no_call(evidence: Evidence) -> None:
    evidence.attempts.clear()


def its_result_is_of_no_run(evidence: Evidence) -> None:
    evidence.log_lines.pop()


def its_result_has_another_answer(evidence: Evidence) -> None:
    stored = evidence.tasks["t1"]
    reply = Reply(encode_json({"action": "accept", "content": {"said": "no"}}))
    question = attrs.evolve(stored.questions[0], answer=reply)
    evidence.tasks["t1"] = stored.with_changes(questions=(question,))
    evidence.answers["t1", "a"].add("no")


def its_answer_was_not_given(evidence: Evidence) -> None:
    evidence.answers.clear()


def it_was_cancelled_without_a_request(evidence: Evidence) -> None:
    record = Record("t2", "ann1-2-quick", "quick")
    record.take(lifecycle.cancel(record.task, 2_000, reason="why not"))
    evidence.attempts["ann1-2-quick"] = "ann"
    keep(evidence, record.task, record.entries)


def its_tool_failed_by_itself(evidence: Evidence) -> None:
    record = Record("t2", "ann1-2-quick", "quick")
    record.take(lifecycle.start(record.task, 2_000, worker="w1"))
    outcome = Outcome.of_error(-32_603, "the store is gone")
    record.take(lifecycle.fail(record.task, 3_000, outcome, fence=1))
    evidence.attempts["ann1-2-quick"] = "ann"
    keep(evidence, record.task, record.entries)


def it_ran_without_a_claim(evidence: Evidence) -> None:
    evidence.log_lines.append(LogLine("t1", "run-2", NAME, "begin", 2_200))


def it_was_repeated(evidence: Evidence) -> None:
    record = Record("t2", "ann1-2-once", "once", is_repeatable=False)
    record.take(lifecycle.start(record.task, 2_000, worker="w1"))
    record.take(lifecycle.requeue(record.task, 3_000, lost=True))
    record.take(lifecycle.start(record.task, 4_000, worker="w2"))
    record.take(lifecycle.cancel(record.task, 5_000, reason="enough"))
    evidence.attempts["ann1-2-once"] = "ann"
    evidence.cancels.add("t2")
    keep(evidence, record.task, record.entries)


def a_worker_was_lost(evidence: Evidence, *, late_ms: int | None = None) -> None:
    """Another worker took over; at `late_ms` the first one writes again."""
    record = Record("t2", "ann1-2-lasting", "lasting")
    reports = {2_500: "run-2", 4_000: "run-3", 4_500: "run-3"}
    if late_ms is not None:
        reports[late_ms] = "run-2"
    record.take(lifecycle.start(record.task, 2_000, worker="w1"))
    for at, run in sorted(reports.items()):
        if at > 3_000 and record.task.worker == "w1":
            record.take(lifecycle.requeue(record.task, 3_000, lost=True))
            record.take(lifecycle.start(record.task, 3_500, worker="w2"))
        record.take(lifecycle.report(record.task, at, message=f"{run} continues"))
        evidence.log_lines += [
            LogLine("t2", run, "ann1-2-lasting", "writing", at - 1),
            LogLine("t2", run, "ann1-2-lasting", "written", at + 1),
        ]
    record.take(lifecycle.cancel(record.task, 6_000, reason="enough"))
    evidence.attempts["ann1-2-lasting"] = "ann"
    evidence.cancels.add("t2")
    keep(evidence, record.task, record.entries)


def a_paused_worker_writes(evidence: Evidence) -> None:
    """The worker that took over has written already."""
    a_worker_was_lost(evidence, late_ms=4_200)


def a_paused_worker_is_faster(evidence: Evidence) -> None:
    """It writes before the worker that took over."""
    a_worker_was_lost(evidence, late_ms=3_600)


def a_paused_worker_ends_it(evidence: Evidence) -> None:
    """The result is from a run whose claim was lost."""
    submit, start, ask, answer, complete = evidence.entries["t1"]
    evidence.entries["t1"] = [
        submit,
        start,
        attrs.evolve(ask, event=Event.REQUEUE, dest=State.SUBMITTED),
        attrs.evolve(start, seq=4, at=4_200),
        attrs.evolve(answer, seq=5, at=4_500, event=Event.REPORT, source=State.WORKING),
        attrs.evolve(complete, seq=6),
    ]
    evidence.log_lines.append(LogLine("t1", "run-9", NAME, "writing", 4_400))


def a_key_asks_two_things(evidence: Evidence) -> None:
    evidence.asked.add(("t1", "a", "something else"))


def a_recorded_step_is_called_again(evidence: Evidence) -> None:
    for number, run in enumerate((RUN, "run-2")):
        for what in ("called", "recorded"):
            evidence.log_lines.append(LogLine("t1", run, NAME, what, 3_000 + number, "a"))


def it_wakes_too_early(evidence: Evidence) -> None:
    record = Record("t2", "ann1-2-durable", "durable")
    record.take(lifecycle.start(record.task, 2_000, worker="w1"))
    data = encode_json({"kind": "sleep", "key": "nap", "request": "", "result": 4_000})
    record.take(lifecycle.record(record.task, 2_100, data))
    record.take(lifecycle.requeue(record.task, 2_200, note="parked"))
    record.take(lifecycle.start(record.task, 3_999, worker="w2"))
    keep(evidence, record.task, record.entries)


def a_process_failed(evidence: Evidence) -> None:
    evidence.complaints.append("worker0: Traceback")


BROKEN: Final[list[tuple[Callable[[Evidence], None], str]]] = [
    (a_task_is_lost, "no_acknowledged_task_is_lost"),
    (its_creator_cannot_find_it, "a_created_task_can_be_read_at_once"),
    (two_outcomes_are_shown, "every_wire_reports_the_same_outcome"),
    (two_outcomes_are_stored, "every_task_walks_one_legal_path"),
    (another_owner_sees_it, "no_caller_sees_a_foreign_task"),
    (another_owner_is_notified, "no_caller_sees_a_foreign_task"),
    (a_replica_shows_an_old_version, "reads_are_linearizable"),
    (a_replica_is_behind_the_database, "reads_are_linearizable"),
    (a_step_is_illegal, "every_task_walks_one_legal_path"),
    (a_step_is_missing, "every_task_walks_one_legal_path"),
    (it_never_ends, "every_task_ends"),
    (a_call_hangs, "calls_are_answered_in_time"),
    (a_call_takes_too_long, "calls_are_answered_in_time"),
    (a_waiting_caller_is_not_answered, "calls_are_answered_in_time"),
    (a_push_comes_after_the_end, "notifications_agree_with_reads"),
    (a_push_is_taken_back, "notifications_agree_with_reads"),
    (a_subscriber_is_not_notified, "subscribers_are_notified_of_the_end"),
    (one_call_makes_two_tasks, "a_call_makes_one_task"),
    (a_task_has_no_call, "a_call_makes_one_task"),
    (its_result_is_of_no_run, "every_outcome_has_a_cause"),
    (its_result_has_another_answer, "every_outcome_has_a_cause"),
    (it_was_cancelled_without_a_request, "every_outcome_has_a_cause"),
    (its_tool_failed_by_itself, "every_outcome_has_a_cause"),
    (its_answer_was_not_given, "an_answer_is_one_that_was_given"),
    (it_ran_without_a_claim, "a_run_has_a_claim_of_its_own"),
    (it_was_repeated, "a_run_has_a_claim_of_its_own"),
    (a_paused_worker_writes, "a_claim_is_used_by_one_run"),
    (a_paused_worker_is_faster, "a_claim_is_used_by_one_run"),
    (a_paused_worker_ends_it, "a_claim_is_used_by_one_run"),
    (a_key_asks_two_things, "a_key_names_one_request_for_life"),
    (a_recorded_step_is_called_again, "a_recorded_step_is_run_to_an_acknowledged_end_once"),
    (it_wakes_too_early, "no_task_starts_before_it_is_due"),
    (a_process_failed, "there_are_no_complaints"),
]


def test_a_correct_run_has_no_violations() -> None:
    assert verdict(good()) == []


@pytest.mark.parametrize(
    ("tamper", "check"), BROKEN, ids=lambda value: getattr(value, "__name__", "")
)
def test_each_change_is_found(tamper: Callable[[Evidence], None], check: str) -> None:
    evidence = good()
    tamper(evidence)
    wrong = verdict(evidence)
    assert any(check in why for why in wrong), wrong


def test_every_check_can_fail() -> None:
    names = {check for _, check in BROKEN}
    of_the_ten = {check.__name__ for check in CHECKS} - names
    assert of_the_ten == {"the_ten_invariants_hold"}, "the ten have their own tests"


@pytest.mark.parametrize("tamper", [it_never_ends, a_paused_worker_writes, it_was_repeated])
def test_nothing_else_is_found(tamper: Callable[[Evidence], None]) -> None:
    evidence = good()
    tamper(evidence)
    assert len(verdict(evidence)) == 1


def test_a_worker_may_be_lost() -> None:
    evidence = good()
    a_worker_was_lost(evidence)
    assert verdict(evidence) == []


def test_a_claim_may_be_lost_before_its_run_began() -> None:
    evidence = good()
    record = Record("t2", "ann1-2-steps", "steps")
    record.take(lifecycle.start(record.task, 2_000, worker="w1"))
    record.take(lifecycle.requeue(record.task, 3_000, lost=True))
    record.take(lifecycle.start(record.task, 3_500, worker="w2"))
    record.take(lifecycle.report(record.task, 4_000, message="run-2"))
    record.take(lifecycle.cancel(record.task, 5_000, reason="enough"))
    evidence.attempts["ann1-2-steps"] = "ann"
    evidence.cancels.add("t2")
    evidence.log_lines.append(LogLine("t2", "run-2", "ann1-2-steps", "writing", 3_900))
    keep(evidence, record.task, record.entries)
    assert verdict(evidence) == []


def test_overlapping_reads_may_have_any_order() -> None:
    evidence = good()
    long = attrs.evolve(observed(3_900, "input_required", 3_000), until=4_500 * NS_PER_MS)
    evidence.observations.append(long)
    assert verdict(evidence) == []


def test_a_create_without_a_response_may_have_no_task() -> None:
    evidence = good()
    evidence.attempts["ann1-3-quick"] = "ann"
    assert verdict(evidence) == []


def test_an_abandoned_wait_needs_no_answer() -> None:
    evidence = good()
    evidence.spans.append(Span(0, "tasks/result", "t1", is_dropped=True))
    assert verdict(evidence) == []
