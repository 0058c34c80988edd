"""Checks of the recorded evidence: pure functions that yield a sentence for each violation.

The oracles are `specs/lifecycle.toml` and the records of the callers and tools.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import attrs

from taskmachine.protocol.jsonvalue import decode_json
from taskmachine.statemachine import Cause, Entry, Event, Task
from taskmachine.statemachine.invariants import (
    INVARIANTS,
    RUNTIME,
    Answered,
    Asked,
    Called,
    Created,
    Missed,
    Recorded,
    Saw,
    StepRan,
    every_call_is_answered_within_its_bound,
    violations,
)
from taskmachine.statemachine.invariants import Event as Observed
from tests.chaos.linearizability import NS_PER_MS, Read, Step, linearize
from tests.chaos.record import AUDIT, Evidence, Observation
from tests.chaos.tools import BROKEN, SILENT
from tests.oracle import LIFECYCLES, REVISIONS, SPEC
from tests.recorded_steps import results_of, with_due_times

__all__ = ["CALL_BOUND_MS", "CHECKS", "NOTIFIED_BOUND_MS", "verdict"]

CALL_BOUND_MS: Final = 60_000
"""A call may reach a replica that is stopped for longer than a lease and then a database that
restarts.  Apart from that, only the task that it waits for may delay it."""

NOTIFIED_BOUND_MS: Final = 30_000
"""The same bound for subscribers."""

MAX_LOSSES: Final = 3

_LIFECYCLES: Final = LIFECYCLES | {AUDIT: LIFECYCLES[RUNTIME]}
_OF_TASKS: Final = tuple(i for i in INVARIANTS if i is not every_call_is_answered_within_its_bound)


@attrs.frozen
class _Case:
    """The evidence, and each observation with the version that it showed."""

    evidence: Evidence
    ordered: list[Observation]
    stale: list[str]


def verdict(evidence: Evidence) -> list[str]:
    """Return all violations."""
    case = _ordered(evidence)
    return [f"{check.__name__}: {why}" for check in CHECKS for why in check(case)]


# --- reads are linearizable --------------------------------------------------------------------


def _ordered(evidence: Evidence) -> _Case:
    """Order the observations of each task as real time allows; note those that have no place."""
    ordered: list[Observation] = []
    stale: list[str] = []
    observations = sorted(evidence.observations, key=lambda seen: seen.task_id)
    for task_id, group in groupby(observations, key=lambda seen: seen.task_id):
        of_task = list(group)
        task = evidence.tasks.get(task_id)
        if task is None:  # deleted, or lost, which other checks report
            continue
        reads = [
            Read(seen.since, seen.until, seen.wire, seen.status, seen.updated_ms, seen.version)
            for seen in of_task
        ]
        steps = _steps(task, evidence.entries[task_id])
        versions, wrong = linearize(steps, reads, evidence.epoch_ms)
        stale += [f"{task_id} {why}" for why in wrong]
        placed = zip(of_task, versions, strict=True)
        known = [(seen, version) for seen, version in placed if version is not None]
        known.sort(key=lambda item: (item[1], item[0].since))
        ordered += [attrs.evolve(seen, version=version) for seen, version in known]
    return _Case(evidence, ordered, stale)


def _steps(task: Task, entries: Sequence[Entry]) -> list[Step]:
    steps: list[Step] = []
    before: dict[str, str] = {}
    for entry in entries:
        is_error = entry.dest == "completed" and task.outcome is not None and task.outcome.is_error
        name = "completed_is_error" if is_error else str(entry.dest)
        statuses = {wire: str(SPEC["projection"][wire].get(name, name)) for wire in REVISIONS}
        is_change = statuses != before  # the history does not record other visible changes
        steps.append(Step(entry.seq, entry.at, {**statuses, AUDIT: str(entry.dest)}, is_change))
        before = statuses
    return steps


def reads_are_linearizable(case: _Case) -> Iterator[str]:
    """A read through any replica shows a version that was current during the call."""
    yield from case.stale


# --- the invariants ------------------------------------------------------------------------


def the_ten_invariants_hold(case: _Case) -> Iterator[str]:
    """In the order of versions, which real time allows."""
    evidence = case.evidence
    history: list[Observed] = [*_created(evidence)]
    kept = {made.task_id: made for made in evidence.made if not made.name.endswith(SILENT)}
    for miss in evidence.misses:
        if miss.task_id in kept and kept[miss.task_id].until < miss.since:
            history.append(Missed(miss.since, miss.caller, miss.task_id))
    history += [
        Missed(made.until, made.owner, made.task_id)
        for made in kept.values()
        if made.task_id not in evidence.tasks
    ]
    history += [_saw(seen) for seen in case.ordered]
    history += [Asked(0, task_id, key, words) for task_id, key, words in sorted(evidence.asked)]
    for entries in evidence.entries.values():
        history += with_due_times(entries)
    history += _steps_of_tools(evidence)
    yield from _violations(history)


def _steps_of_tools(evidence: Evidence) -> Iterator[Observed]:
    """In the order of the file to which all processes append."""
    for line in evidence.log_lines:
        place = (line.at_ms, line.task_id, line.key, line.run)
        if line.what == "called":
            yield StepRan(*place)
        elif line.what == "recorded":
            yield Recorded(*place, line.run)


def _violations(history: list[Observed], invariants: Any = _OF_TASKS) -> Iterator[str]:
    for violation in violations(history, _LIFECYCLES, invariants):
        yield f"{violation.invariant}: {violation.subject} {violation.why}"


def _created(evidence: Evidence) -> list[Created]:
    """Return all creates, including unacknowledged ones: the call's name gives the owner."""
    created = {one.task_id: Created(one.until, one.owner, one.task_id) for one in evidence.made}
    for task in evidence.tasks.values():
        owner = evidence.attempts.get(_name(task), "unknown")
        created.setdefault(task.id, Created(0, owner, task.id))
    return list(created.values())


def _saw(seen: Observation, *, pushed: bool = False) -> Saw:
    place = (seen.until, seen.caller, seen.task_id, seen.status, seen.wire)
    return Saw(*place, pushed, seen.outcome)


def calls_are_answered_in_time(case: _Case) -> Iterator[str]:
    """`tasks/result` is answered soon after the end of the task, other calls at once."""
    evidence = case.evidence
    history: list[Observed] = []
    for number, span in enumerate(evidence.spans):
        if span.is_dropped:
            continue
        call = (span.method, span.task_id, number)
        due = span.since // NS_PER_MS
        if span.method == "tasks/result" and span.task_id in evidence.tasks:
            ended = [e.at for e in evidence.entries[span.task_id] if e.dest in _ENDS]
            if not ended:
                continue  # `every_task_ends` reports it
            due = max(due, round(ended[0] - evidence.epoch_ms))
        history.append(Called(due, call, CALL_BOUND_MS))
        if span.until is not None:
            history.append(Answered(span.until // NS_PER_MS, call))
    yield from _violations(history, (every_call_is_answered_within_its_bound,))


_ENDS: Final = LIFECYCLES[RUNTIME].terminal


def notifications_agree_with_reads(case: _Case) -> Iterator[str]:
    """On each stream separately; a read counts if it began after the last notification."""
    owners = {created.task_id: created for created in _created(case.evidence)}
    observations: defaultdict[str, list[Observation]] = defaultdict(list)
    for seen in case.ordered:
        observations[seen.task_id].append(seen)
    for channel in case.evidence.channels:
        pushes = sorted(channel.pushes, key=lambda push: push.task_id)
        for task_id, group in groupby(pushes, key=lambda push: push.task_id):
            pushed = list(group)
            later = [
                seen
                for seen in observations[task_id]
                if seen.since > pushed[-1].until and seen.caller == channel.owner
            ]
            created = [owners[task_id]] if task_id in owners else []
            history: list[Observed] = [*created, *(_saw(push, pushed=True) for push in pushed)]
            history += [_saw(seen) for seen in later]
            for why in _violations(history):
                yield f"on a {channel.kind} stream of {channel.owner}: {why}"


def subscribers_are_notified_of_the_end(case: _Case) -> Iterator[str]:
    """Counts streams that were open when the task ended and for long enough afterwards."""
    for channel in case.evidence.channels:
        notified = {push.task_id for push in channel.pushes if push.status in _ENDS}
        for task_id in channel.agreed - notified:
            for entry in case.evidence.entries.get(task_id, ()):
                ended = round((entry.at - case.evidence.epoch_ms) * NS_PER_MS)
                lasted = (channel.closed or ended) - max(ended, channel.opened)
                if entry.dest in _ENDS and lasted > NOTIFIED_BOUND_MS * NS_PER_MS:
                    yield f"{channel.owner} was subscribed to {task_id} and not notified of its end"


# --- calls, runs and outcomes ------------------------------------------------------------------


def every_task_ends(case: _Case) -> Iterator[str]:
    for task in case.evidence.tasks.values():
        if not task.is_terminal:
            yield f"{task.id} ({task.call.name}) never ended and is {task.state}"


def a_call_makes_one_task(case: _Case) -> Iterator[str]:
    """Each call has a unique name and is repeated only under an idempotency key."""
    named: defaultdict[str, set[str]] = defaultdict(set)
    for made in case.evidence.made:
        named[made.name].add(made.task_id)
    for task in case.evidence.tasks.values():
        named[_name(task)].add(task.id)
    for name, ids in named.items():
        if len(ids) > 1:
            yield f"the call '{name}' created {len(ids)} tasks: {sorted(ids)}"
        if name not in case.evidence.attempts:
            yield f"no caller made the call '{name}', which has a task"


def every_outcome_has_a_cause(case: _Case) -> Iterator[str]:
    """A result comes from a run that finished and contains the answers that were given."""
    evidence = case.evidence
    runs: defaultdict[str, set[str]] = defaultdict(set)
    for line in evidence.log_lines:
        if line.what == "end":
            runs[line.task_id].add(line.run)
    for task in evidence.tasks.values():
        if task.outcome is None:
            continue
        tool, cause = task.call.name, task.outcome.cause
        match cause:
            case Cause.RESULT:
                assert task.outcome.result is not None
                text = decode_json(task.outcome.result)["content"][0]["text"]
                run, _, rest = text.partition(" ")
                results = results_of(evidence.entries[task.id])
                recorded = [results[key] for key in sorted(results)]
                expected = " ".join([_name(task), *_answers(task), *recorded])
                if run not in runs[task.id]:
                    yield f"{task.id} has the result of '{run}', which did not finish"
                if rest != expected:
                    yield f"{task.id} returned '{rest}' instead of '{expected}'"
            case Cause.ERROR:
                if (tool, task.outcome.code) != ("broken", BROKEN):
                    yield f"{task.id} ({tool}) failed: {task.outcome.message}"
            case Cause.CANCELLED:
                if task.id not in evidence.cancels:
                    yield f"{task.id} was cancelled without a tasks/cancel"
            case Cause.EXPIRED:
                if tool != SILENT:
                    yield f"{task.id} ({tool}) expired"
            case Cause.WORKER_LOST:
                if task.is_repeatable and task.losses + 1 < MAX_LOSSES:
                    yield f"{task.id} failed after only {task.losses} lost workers"
            case _:
                yield f"{task.id} ({tool}) ended as {cause}: {task.outcome.message}"


def an_answer_is_one_that_was_given(case: _Case) -> Iterator[str]:
    for task in case.evidence.tasks.values():
        for question in task.questions:
            if question.answer is not None:
                said = decode_json(question.answer.body)["content"]["said"]
                if said not in case.evidence.answers[task.id, question.key]:
                    yield f"'{question.key}' of {task.id} has '{said}', which no caller answered"


def a_run_has_a_claim_of_its_own(case: _Case) -> Iterator[str]:
    """Each run needs its own claim; a task that must not be repeated has at most one."""
    runs: defaultdict[str, set[str]] = defaultdict(set)
    for line in case.evidence.log_lines:
        runs[line.task_id].add(line.run)
    for task in case.evidence.tasks.values():
        entries = case.evidence.entries[task.id]
        claims = sum(entry.event is Event.START for entry in entries)
        if len(runs[task.id]) > claims:
            yield f"{task.id} was claimed {claims} times and run {len(runs[task.id])} times"
        if not task.is_repeatable and max(claims, len(runs[task.id])) > 1:
            yield f"{task.id} must not be repeated and ran {max(claims, len(runs[task.id]))} times"


def a_claim_is_used_by_one_run(case: _Case) -> Iterator[str]:
    """Writes under one claim come from one run, and a run writes under one claim only.

    So a worker that resumes after its lease writes nothing: the fence rejects it.
    """
    windows = _write_windows(case.evidence)
    for task in case.evidence.tasks.values():
        used: set[str] = set()
        for claim in _claims(case.evidence.entries[task.id]):
            runs = windows[task.id].keys() - used
            writes = [entry for entry in claim if entry.event is not Event.START]
            for entry in writes:
                if entry.event in (Event.REPORT, Event.ASK):
                    runs = {run for run in runs if _is_within(windows[task.id][run], entry.at)}
                elif entry.event is Event.COMPLETE and (run := _run_of_result(task)) is not None:
                    runs &= {run}
                if not runs:
                    yield f"{task.id}: {entry.event} at {entry.seq} is from another run"
                    break
            if writes and len(runs) == 1:  # otherwise the claim may be lost before it ran
                used |= runs


_Windows = list[tuple[int, int | None]]


def _write_windows(evidence: Evidence) -> defaultdict[str, dict[str, _Windows]]:
    """Return the periods in which a run may have written, by task and run."""
    by_task: defaultdict[str, dict[str, _Windows]] = defaultdict(dict)
    for line in evidence.log_lines:
        windows = by_task[line.task_id].setdefault(line.run, [])
        if line.what == "writing":
            windows.append((line.at_ms, None))
        elif line.what == "written":
            windows[-1] = (windows[-1][0], line.at_ms)
    return by_task


def _is_within(windows: _Windows, at_ms: int) -> bool:
    return any(since <= at_ms and (until is None or at_ms <= until) for since, until in windows)


def _claims(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Group the entries that workers wrote by claim."""
    claims: list[list[Entry]] = []
    for entry in entries:
        if entry.event is Event.START:
            claims.append([])
        if claims and entry.event in (Event.START, Event.REPORT, Event.ASK, Event.COMPLETE):
            claims[-1].append(entry)
    return claims


def _run_of_result(task: Task) -> str | None:
    """Return the run that wrote the result: tools put its id first in every text."""
    if task.outcome is None or task.outcome.result is None:
        return None
    text: str = decode_json(task.outcome.result)["content"][0]["text"]
    return text.partition(" ")[0]


def there_are_no_complaints(case: _Case) -> Iterator[str]:
    yield from case.evidence.complaints


CHECKS: Final = (
    the_ten_invariants_hold,
    reads_are_linearizable,
    calls_are_answered_in_time,
    notifications_agree_with_reads,
    subscribers_are_notified_of_the_end,
    every_task_ends,
    a_call_makes_one_task,
    every_outcome_has_a_cause,
    an_answer_is_one_that_was_given,
    a_run_has_a_claim_of_its_own,
    a_claim_is_used_by_one_run,
    there_are_no_complaints,
)


def _name(task: Task) -> str:
    return str(decode_json(task.call.arguments).get("name"))


def _answers(task: Task) -> list[str]:
    return [
        str(decode_json(question.answer.body)["content"]["said"])
        for question in task.questions
        if question.answer is not None
    ]
