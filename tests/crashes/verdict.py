"""Judges what was gathered: pure functions, a sentence for everything that is wrong."""

from collections.abc import Iterator
from itertools import groupby, pairwise

from taskmachine.protocol.jsonvalue import decode_json
from taskmachine.statemachine import Cause, Event, Task
from taskmachine.statemachine.invariants import (
    RUNTIME,
    Asked,
    Created,
    Missed,
    Saw,
    violations,
)
from taskmachine.statemachine.invariants import Event as Observed
from tests.crashes.evidence import Evidence, Seen
from tests.oracle import LIFECYCLES

__all__ = ["CHECKS", "verdict"]


def verdict(evidence: Evidence) -> list[str]:
    """Everything that is wrong."""
    return [f"{check.__name__}: {why}" for check in CHECKS for why in check(evidence)]


def the_ten_invariants_hold(evidence: Evidence) -> Iterator[str]:
    """In the order of versions, which `versions_never_go_back` shows to be that of time."""
    history: list[Observed] = [
        Created(0, made.owner, made.task_id) for made in evidence.made.values()
    ]
    history += [Missed(0, made.owner, made.task_id) for made in evidence.missing]
    history += [
        Missed(0, made.owner, made.task_id)
        for made in evidence.made.values()
        if made.task_id not in evidence.tasks
    ]
    for seen in _by_version(evidence):
        history.append(
            Saw(seen.until, seen.owner, seen.task_id, seen.state, RUNTIME, outcome=seen.outcome)
        )
        history += [
            Asked(seen.until, seen.task_id, key, request)
            for key, (request, _) in seen.questions.items()
        ]
    history += [entry for entries in evidence.entries.values() for entry in entries]
    for violation in violations(history, LIFECYCLES):
        yield f"{violation.invariant}: {violation.subject} {violation.why}"


def versions_never_go_back(evidence: Evidence) -> Iterator[str]:
    """Whoever begins to read after somebody else has read is shown nothing older."""
    newest: dict[str, int] = {}
    ended = sorted(evidence.seen, key=lambda seen: seen.until)
    index = 0
    for seen in sorted(evidence.seen, key=lambda seen: seen.since):
        while ended[index].until < seen.since:
            known = ended[index]
            newest[known.task_id] = max(newest.get(known.task_id, 0), known.version)
            index += 1
        if seen.version < newest.get(seen.task_id, 0):
            yield f"{seen.task_id} was at {newest[seen.task_id]} and then at {seen.version}"


def a_version_is_the_same_for_everybody(evidence: Evidence) -> Iterator[str]:
    for _, group in groupby(_by_version(evidence), lambda seen: (seen.task_id, seen.version)):
        first, *others = group
        for other in others:
            if (other.state, other.outcome, other.questions) != (
                first.state,
                first.outcome,
                first.questions,
            ):
                yield f"{first.task_id} has two versions {first.version}"


def what_was_asked_and_answered_stays(evidence: Evidence) -> Iterator[str]:
    for earlier, later in pairwise(_by_version(evidence)):
        for key, (request, answer) in earlier.questions.items():
            if earlier.task_id == later.task_id and (
                key not in later.questions
                or later.questions[key][0] != request
                or answer not in (None, later.questions[key][1])
            ):
                yield f"{earlier.task_id} has lost '{key}' or its answer"


def an_accepted_answer_is_kept(evidence: Evidence) -> Iterator[str]:
    for answered in evidence.answered:
        task = evidence.tasks.get(answered.task_id)
        kept = [] if task is None else [q.answer for q in task.questions if q.key == answered.key]
        if [None if answer is None else answer.body for answer in kept] != [answered.body]:
            yield f"{answered.task_id} does not have the answer to '{answered.key}'"


def a_result_is_that_of_the_call(evidence: Evidence) -> Iterator[str]:
    for task in evidence.tasks.values():
        if task.outcome is not None and task.outcome.cause is Cause.RESULT:
            assert task.outcome.result is not None
            shown = decode_json(task.outcome.result)["content"][0]["text"]
            if shown != _expected(task):
                yield f"{task.id} returned {shown!r} instead of {_expected(task)!r}"


def nothing_is_stuck(evidence: Evidence) -> Iterator[str]:
    for task in evidence.tasks.values():
        if not task.is_terminal and not task.open_questions:
            yield f"{task.id} is {task.state} for ever"
        if task.worker is not None:
            yield f"{task.id} is held by a worker that is gone"
    if evidence.workers:
        yield f"{evidence.workers} workers are enlisted, and none is there"


def nobody_tries_for_ever(evidence: Evidence) -> Iterator[str]:
    for task in evidence.tasks.values():
        if task.losses > 3:
            yield f"{task.id} has cost {task.losses} workers"


def what_must_not_be_repeated_is_not(evidence: Evidence) -> Iterator[str]:
    for task in evidence.tasks.values():
        starts = sum(entry.event is Event.START for entry in evidence.entries[task.id])
        if not task.is_repeatable and max(starts, evidence.ran[task.id]) > 1:
            yield f"{task.id} was begun {max(starts, evidence.ran[task.id])} times"


def a_key_names_one_task(evidence: Evidence) -> Iterator[str]:
    for (owner, key), task_ids in evidence.keys.items():
        if len(task_ids) > 1:
            yield f"{owner} has {len(task_ids)} tasks for '{key}'"


def a_history_only_grows(evidence: Evidence) -> Iterator[str]:
    for task_id, entries in evidence.histories.items():
        if list(evidence.entries.get(task_id, ())[: len(entries)]) != list(entries):
            yield f"{task_id} has another past than it had"


def nobody_complained(evidence: Evidence) -> Iterator[str]:
    yield from evidence.complaints


CHECKS = (
    the_ten_invariants_hold,
    versions_never_go_back,
    a_version_is_the_same_for_everybody,
    what_was_asked_and_answered_stays,
    an_accepted_answer_is_kept,
    a_result_is_that_of_the_call,
    nothing_is_stuck,
    nobody_tries_for_ever,
    what_must_not_be_repeated_is_not,
    a_key_names_one_task,
    a_history_only_grows,
    nobody_complained,
)


def _by_version(evidence: Evidence) -> list[Seen]:
    return sorted(evidence.seen, key=lambda seen: (seen.task_id, seen.version))


def _expected(task: Task) -> str:
    answers = [
        decode_json(question.answer.body)["content"]["said"]
        for question in task.questions
        if question.answer is not None
    ]
    n = decode_json(task.call.arguments)["n"]
    return " ".join([str(task.call.name), str(n), *answers])
