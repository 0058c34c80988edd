"""Checks of the evidence: pure functions that yield a sentence for each violation."""

from collections import Counter
from collections.abc import Iterator
from itertools import groupby, pairwise

from taskmachine.protocol.jsonvalue import decode_json
from taskmachine.statemachine import Cause, Event, Task
from taskmachine.statemachine.invariants import (
    RUNTIME,
    Asked,
    Created,
    Missed,
    Recorded,
    Saw,
    StepRan,
    violations,
)
from taskmachine.statemachine.invariants import Event as Observed
from tests.crashes.evidence import Evidence, Kept, Observation, Stepped
from tests.oracle import LIFECYCLES
from tests.recorded_steps import results_of, with_due_times

__all__ = ["CHECKS", "verdict"]


def verdict(evidence: Evidence) -> list[str]:
    """Return all violations."""
    return [f"{check.__name__}: {why}" for check in CHECKS for why in check(evidence)]


def the_ten_invariants_hold(evidence: Evidence) -> Iterator[str]:
    """In the order of versions, which is that of time: observation_of `versions_never_go_back`."""
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
    for entries in evidence.entries.values():
        history += with_due_times(entries)
    called = {(step.task_id, step.key, step.run) for step in evidence.stepped}
    for step in _steps(evidence):
        place = (step.at, step.task_id, step.key, step.run)
        if isinstance(step, Stepped):
            history.append(StepRan(*place))
        elif place[1:] in called:
            history.append(Recorded(*place, step.result))
    for violation in violations(history, LIFECYCLES):
        yield f"{violation.invariant}: {violation.subject} {violation.why}"


def versions_never_go_back(evidence: Evidence) -> Iterator[str]:
    """A read that started after another one has ended shows no older version."""
    newest: dict[str, int] = {}
    ended = sorted(evidence.observations, key=lambda seen: seen.until)
    index = 0
    for seen in sorted(evidence.observations, key=lambda seen: seen.since):
        while ended[index].until < seen.since:
            known = ended[index]
            newest[known.task_id] = max(newest.get(known.task_id, 0), known.version)
            index += 1
        if seen.version < newest.get(seen.task_id, 0):
            yield f"{seen.task_id} was at {newest[seen.task_id]} and then at {seen.version}"


def a_version_is_the_same_for_all_callers(evidence: Evidence) -> Iterator[str]:
    for _, group in groupby(_by_version(evidence), lambda seen: (seen.task_id, seen.version)):
        first, *others = group
        for other in others:
            if (other.state, other.outcome, other.questions) != (
                first.state,
                first.outcome,
                first.questions,
            ):
                yield f"version {first.version} of {first.task_id} was shown in two ways"


def questions_and_answers_are_kept(evidence: Evidence) -> Iterator[str]:
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
            if shown != (expected := _expected(task, evidence)):
                yield f"{task.id} returned {shown!r} instead of {expected!r}"


def nothing_is_stuck(evidence: Evidence) -> Iterator[str]:
    for task in evidence.tasks.values():
        if not task.is_terminal and not task.open_questions:
            yield f"{task.id} never ended and is {task.state}"
        if task.worker is not None:
            yield f"{task.id} is held by a worker that has ended"
    if evidence.workers:
        yield f"{evidence.workers} workers are registered although no process runs"


def retries_are_bounded(evidence: Evidence) -> Iterator[str]:
    for task in evidence.tasks.values():
        if task.losses > 3:
            yield f"{task.id} was retried after {task.losses} lost workers"


def unrepeatable_tasks_run_once(evidence: Evidence) -> Iterator[str]:
    for task in evidence.tasks.values():
        starts = sum(entry.event is Event.START for entry in evidence.entries[task.id])
        if not task.is_repeatable and max(starts, evidence.ran[task.id]) > 1:
            yield f"{task.id} ran {max(starts, evidence.ran[task.id])} times"


def _steps(evidence: Evidence) -> list[Stepped | Kept]:
    return sorted([*evidence.stepped, *evidence.kept], key=lambda step: step.at)


def a_recorded_step_is_not_called_again(evidence: Evidence) -> Iterator[str]:
    """By no run at all: no worker of a campaign is paused for as long as a lease."""
    kept = set()
    for step in _steps(evidence):
        if isinstance(step, Kept):
            kept.add((step.task_id, step.key))
        elif (step.task_id, step.key) in kept:
            yield f"{step.task_id} called the recorded step '{step.key}' again"


def a_recorded_step_is_kept(evidence: Evidence) -> Iterator[str]:
    """With the result that its tool got, which is that of the last call of its function."""
    results = {(step.task_id, step.key): step.result for step in evidence.stepped}
    for kept in evidence.kept:
        stored = results_of(evidence.entries.get(kept.task_id, ())).get(kept.key)
        if not stored == kept.result == results.get((kept.task_id, kept.key)):
            yield f"{kept.task_id} has {stored} and not {kept.result} for the step '{kept.key}'"


def a_run_calls_a_step_once(evidence: Evidence) -> Iterator[str]:
    calls = Counter((step.task_id, step.key) for step in evidence.stepped)
    for (task_id, key), times in calls.items():
        starts = [entry for entry in evidence.entries[task_id] if entry.event is Event.START]
        if times > len(starts):
            yield f"{task_id} ran {len(starts)} times and called the step '{key}' {times} times"


def a_key_names_one_task(evidence: Evidence) -> Iterator[str]:
    for (owner, key), task_ids in evidence.keys.items():
        if len(task_ids) > 1:
            yield f"{owner} has {len(task_ids)} tasks for '{key}'"


def a_history_only_grows(evidence: Evidence) -> Iterator[str]:
    for task_id, entries in evidence.histories.items():
        if list(evidence.entries.get(task_id, ())[: len(entries)]) != list(entries):
            yield f"the history of {task_id} has changed"


def there_are_no_complaints(evidence: Evidence) -> Iterator[str]:
    yield from evidence.complaints


CHECKS = (
    the_ten_invariants_hold,
    versions_never_go_back,
    a_version_is_the_same_for_all_callers,
    questions_and_answers_are_kept,
    an_accepted_answer_is_kept,
    a_result_is_that_of_the_call,
    nothing_is_stuck,
    retries_are_bounded,
    unrepeatable_tasks_run_once,
    a_recorded_step_is_not_called_again,
    a_recorded_step_is_kept,
    a_run_calls_a_step_once,
    a_key_names_one_task,
    a_history_only_grows,
    there_are_no_complaints,
)


def _by_version(evidence: Evidence) -> list[Observation]:
    return sorted(evidence.observations, key=lambda seen: (seen.task_id, seen.version))


def _expected(task: Task, evidence: Evidence) -> str:
    results = results_of(evidence.entries[task.id])
    answers = [results[key] for key in sorted(results)]
    answers += [
        decode_json(question.answer.body)["content"]["said"]
        for question in task.questions
        if question.answer is not None
    ]
    n = decode_json(task.call.arguments)["n"]
    return " ".join([str(task.call.name), str(n), *answers])
