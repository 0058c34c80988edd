"""Judges what was recorded: pure functions, a sentence for everything that is wrong.

The oracle is `specs/lifecycle.toml`, and what callers and tools wrote down themselves.
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
    Saw,
    every_call_is_answered_within_its_bound,
    violations,
)
from taskmachine.statemachine.invariants import Event as Observed
from tests.chaos.record import AUDIT, Evidence, Look
from tests.chaos.register import NS_PER_MS, Read, Step, order
from tests.chaos.tools import BROKEN, SILENT
from tests.oracle import LIFECYCLES, REVISIONS, SPEC

__all__ = ["CALL_BOUND_MS", "CHECKS", "TOLD_BOUND_MS", "verdict"]

CALL_BOUND_MS: Final = 60_000
"""A call may meet a replica that is stopped for longer than a lease, and then a database that is
being restarted; nothing else may keep it waiting, but the task that it waits for."""

TOLD_BOUND_MS: Final = 30_000
"""The same, for whoever watches."""

MAX_LOSSES: Final = 3

_LIFECYCLES: Final = LIFECYCLES | {AUDIT: LIFECYCLES[RUNTIME]}
_OF_TASKS: Final = tuple(i for i in INVARIANTS if i is not every_call_is_answered_within_its_bound)


@attrs.frozen
class _Case:
    """The evidence, and each look with the version that it showed."""

    evidence: Evidence
    ordered: list[Look]
    stale: list[str]


def verdict(evidence: Evidence) -> list[str]:
    """Everything that is wrong."""
    case = _ordered(evidence)
    return [f"{check.__name__}: {why}" for check in CHECKS for why in check(case)]


# --- every task is a register ------------------------------------------------------------------


def _ordered(evidence: Evidence) -> _Case:
    """Looks by task, in an order that real time allows; and why there is none, if so."""
    ordered: list[Look] = []
    stale: list[str] = []
    looks = sorted(evidence.looks, key=lambda look: look.task_id)
    for task_id, group in groupby(looks, key=lambda look: look.task_id):
        of_task = list(group)
        task = evidence.tasks.get(task_id)
        if task is None:  # forgotten, or lost, of which others complain
            continue
        reads = [
            Read(look.since, look.until, look.wire, look.status, look.updated_ms, look.version)
            for look in of_task
        ]
        steps = _steps(task, evidence.entries[task_id])
        versions, wrong = order(steps, reads, evidence.epoch_ms)
        stale += [f"{task_id} {why}" for why in wrong]
        placed = zip(of_task, versions, strict=True)
        known = [(look, version) for look, version in placed if version is not None]
        known.sort(key=lambda item: (item[1], item[0].since))
        ordered += [attrs.evolve(look, version=version) for look, version in known]
    return _Case(evidence, ordered, stale)


def _steps(task: Task, entries: Sequence[Entry]) -> list[Step]:
    steps: list[Step] = []
    before: dict[str, str] = {}
    for entry in entries:
        is_error = entry.dest == "completed" and task.outcome is not None and task.outcome.is_error
        name = "completed_is_error" if is_error else str(entry.dest)
        statuses = {wire: str(SPEC["projection"][wire].get(name, name)) for wire in REVISIONS}
        is_change = statuses != before  # what else can be seen of a step is not written down
        steps.append(Step(entry.seq, entry.at, {**statuses, AUDIT: str(entry.dest)}, is_change))
        before = statuses
    return steps


def every_task_is_a_register(case: _Case) -> Iterator[str]:
    """Reads through any replica show what was current at a moment while they lasted."""
    yield from case.stale


# --- the invariants ------------------------------------------------------------------------


def the_ten_invariants_hold(case: _Case) -> Iterator[str]:
    """In the order of versions, which is one that real time allows."""
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
    history += [_saw(look) for look in case.ordered]
    history += [Asked(0, task_id, key, words) for task_id, key, words in sorted(evidence.asked)]
    history += [entry for entries in evidence.entries.values() for entry in entries]
    yield from _violations(history)


def _violations(history: list[Observed], invariants: Any = _OF_TASKS) -> Iterator[str]:
    for violation in violations(history, _LIFECYCLES, invariants):
        yield f"{violation.invariant}: {violation.subject} {violation.why}"


def _created(evidence: Evidence) -> list[Created]:
    """Also those whose caller never heard of it: the name tells whose they are."""
    created = {one.task_id: Created(one.until, one.owner, one.task_id) for one in evidence.made}
    for task in evidence.tasks.values():
        owner = evidence.attempts.get(_name(task), "nobody")
        created.setdefault(task.id, Created(0, owner, task.id))
    return list(created.values())


def _saw(look: Look, *, pushed: bool = False) -> Saw:
    place = (look.until, look.caller, look.task_id, look.status, look.wire)
    return Saw(*place, pushed, look.outcome)


def calls_are_answered_in_time(case: _Case) -> Iterator[str]:
    """Whoever waits for a task is told of its end; whoever does not is told something at once."""
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
                continue  # of which `every_task_ends` complains
            due = max(due, round(ended[0] - evidence.epoch_ms))
        history.append(Called(due, call, CALL_BOUND_MS))
        if span.until is not None:
            history.append(Answered(span.until // NS_PER_MS, call))
    yield from _violations(history, (every_call_is_answered_within_its_bound,))


_ENDS: Final = LIFECYCLES[RUNTIME].terminal


def what_is_pushed_agrees_with_what_is_read(case: _Case) -> Iterator[str]:
    """On each stream by itself; a read counts if it began after the last push."""
    owners = {created.task_id: created for created in _created(case.evidence)}
    looks: defaultdict[str, list[Look]] = defaultdict(list)
    for look in case.ordered:
        looks[look.task_id].append(look)
    for channel in case.evidence.channels:
        pushes = sorted(channel.pushes, key=lambda push: push.task_id)
        for task_id, group in groupby(pushes, key=lambda push: push.task_id):
            told = list(group)
            later = [
                look
                for look in looks[task_id]
                if look.since > told[-1].until and look.caller == channel.owner
            ]
            created = [owners[task_id]] if task_id in owners else []
            history: list[Observed] = [*created, *(_saw(push, pushed=True) for push in told)]
            history += [_saw(look) for look in later]
            for why in _violations(history):
                yield f"on a {channel.kind} stream of {channel.owner}: {why}"


def whoever_watches_is_told_of_the_end(case: _Case) -> Iterator[str]:
    """On a stream that was there when the task ended, and for long enough afterwards."""
    for channel in case.evidence.channels:
        told = {push.task_id for push in channel.pushes if push.status in _ENDS}
        for task_id in channel.agreed - told:
            for entry in case.evidence.entries.get(task_id, ()):
                ended = round((entry.at - case.evidence.epoch_ms) * NS_PER_MS)
                lasted = (channel.closed or ended) - max(ended, channel.opened)
                if entry.dest in _ENDS and lasted > TOLD_BOUND_MS * NS_PER_MS:
                    yield f"{channel.owner} watched {task_id} and was not told of its end"


# --- what was done, and what came of it --------------------------------------------------------


def every_task_ends(case: _Case) -> Iterator[str]:
    for task in case.evidence.tasks.values():
        if not task.is_terminal:
            yield f"{task.id} ({task.call.name}) is {task.state} for ever"


def a_call_makes_one_task(case: _Case) -> Iterator[str]:
    """Each has a name of its own, and is repeated only under an idempotency key."""
    named: defaultdict[str, set[str]] = defaultdict(set)
    for made in case.evidence.made:
        named[made.name].add(made.task_id)
    for task in case.evidence.tasks.values():
        named[_name(task)].add(task.id)
    for name, ids in named.items():
        if len(ids) > 1:
            yield f"'{name}' is {len(ids)} tasks: {sorted(ids)}"
        if name not in case.evidence.attempts:
            yield f"'{name}' was never called"


def a_task_ends_by_what_was_done_to_it(case: _Case) -> Iterator[str]:
    """A result is of a run that came to its end, with the answers that were given."""
    evidence = case.evidence
    runs: defaultdict[str, set[str]] = defaultdict(set)
    for line in evidence.lines:
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
                expected = " ".join([_name(task), *_answers(task)])
                if run not in runs[task.id]:
                    yield f"{task.id} has the result of '{run}', which did not come to its end"
                if rest != expected:
                    yield f"{task.id} returned '{rest}' instead of '{expected}'"
            case Cause.ERROR:
                if (tool, task.outcome.code) != ("broken", BROKEN):
                    yield f"{task.id} ({tool}) failed: {task.outcome.message}"
            case Cause.CANCELLED:
                if task.id not in evidence.cancels:
                    yield f"{task.id} was cancelled, and nobody did that"
            case Cause.EXPIRED:
                if tool != SILENT:
                    yield f"{task.id} ({tool}) expired"
            case Cause.WORKER_LOST:
                if task.is_repeatable and task.losses + 1 < MAX_LOSSES:
                    yield f"{task.id} was given up after {task.losses} losses"
            case _:
                yield f"{task.id} ({tool}) ended as {cause}: {task.outcome.message}"


def an_answer_is_one_that_was_given(case: _Case) -> Iterator[str]:
    for task in case.evidence.tasks.values():
        for question in task.questions:
            if question.answer is not None:
                said = decode_json(question.answer.body)["content"]["said"]
                if said not in case.evidence.said[task.id, question.key]:
                    yield f"'{said}' answers '{question.key}' of {task.id}, and nobody said that"


def a_run_has_a_claim_of_its_own(case: _Case) -> Iterator[str]:
    """And what must not be repeated has one at most."""
    runs: defaultdict[str, set[str]] = defaultdict(set)
    for line in case.evidence.lines:
        runs[line.task_id].add(line.run)
    for task in case.evidence.tasks.values():
        entries = case.evidence.entries[task.id]
        claims = sum(entry.event is Event.START for entry in entries)
        if len(runs[task.id]) > claims:
            yield f"{task.id} was claimed {claims} times and run {len(runs[task.id])} times"
        if not task.is_repeatable and max(claims, len(runs[task.id])) > 1:
            yield f"{task.id} must not be repeated, and was begun {max(claims, len(runs[task.id]))}"


def a_claim_is_used_by_one_run(case: _Case) -> Iterator[str]:
    """What was written under it, one run has said; and what a run says is under one claim.

    So a worker that comes back after its lease writes nothing: the fence keeps it from that.
    """
    said = _said(case.evidence)
    for task in case.evidence.tasks.values():
        used: set[str] = set()
        for legs in _legs(case.evidence.entries[task.id]):
            runs = said[task.id].keys() - used
            spoken = [entry for entry in legs if entry.event is not Event.START]
            for entry in spoken:
                if entry.event in (Event.REPORT, Event.ASK):
                    runs = {run for run in runs if _is_said(said[task.id][run], entry.at)}
                elif entry.event is Event.COMPLETE and (run := _run_of_result(task)) is not None:
                    runs &= {run}
                if not runs:
                    yield f"{task.id}: {entry.event} at {entry.seq} is not of the run before it"
                    break
            if spoken and len(runs) == 1:  # else it may have been lost before it ran
                used |= runs


_Windows = list[tuple[int, int | None]]


def _said(evidence: Evidence) -> defaultdict[str, dict[str, _Windows]]:
    """By task and run, from when to when it may have written something."""
    said: defaultdict[str, dict[str, _Windows]] = defaultdict(dict)
    for line in evidence.lines:
        windows = said[line.task_id].setdefault(line.run, [])
        if line.what == "speaks":
            windows.append((line.at_ms, None))
        elif line.what == "spoke":
            windows[-1] = (windows[-1][0], line.at_ms)
    return said


def _is_said(windows: _Windows, at_ms: int) -> bool:
    return any(since <= at_ms and (until is None or at_ms <= until) for since, until in windows)


def _legs(entries: Sequence[Entry]) -> list[list[Entry]]:
    """What was written by workers, claim by claim."""
    legs: list[list[Entry]] = []
    for entry in entries:
        if entry.event is Event.START:
            legs.append([])
        if legs and entry.event in (Event.START, Event.REPORT, Event.ASK, Event.COMPLETE):
            legs[-1].append(entry)
    return legs


def _run_of_result(task: Task) -> str | None:
    """Tools begin whatever they say with the name of their run."""
    if task.outcome is None or task.outcome.result is None:
        return None
    text: str = decode_json(task.outcome.result)["content"][0]["text"]
    return text.partition(" ")[0]


def nobody_complained(case: _Case) -> Iterator[str]:
    yield from case.evidence.complaints


CHECKS: Final = (
    the_ten_invariants_hold,
    every_task_is_a_register,
    calls_are_answered_in_time,
    what_is_pushed_agrees_with_what_is_read,
    whoever_watches_is_told_of_the_end,
    every_task_ends,
    a_call_makes_one_task,
    a_task_ends_by_what_was_done_to_it,
    an_answer_is_one_that_was_given,
    a_run_has_a_claim_of_its_own,
    a_claim_is_used_by_one_run,
    nobody_complained,
)


def _name(task: Task) -> str:
    return str(decode_json(task.call.arguments).get("name"))


def _answers(task: Task) -> list[str]:
    return [
        str(decode_json(question.answer.body)["content"]["said"])
        for question in task.questions
        if question.answer is not None
    ]
