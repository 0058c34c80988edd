"""Checks of task lifetimes (2025-11-25)."""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading.task_rules import (
    TaskRecord,
    task_record,
    task_records,
)
from taskmachine.adapters.conformance.checks.reading.tasks_2025_11_25 import (
    INVALID_PARAMS,
    created_task_id,
    is_overloaded,
    is_task_call,
    kept_until,
    milliseconds,
)
from taskmachine.adapters.conformance.history import Exchange, History, Sighting
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, note

__all__: list[str] = []

ENORMOUS_MS: Final = 10 * 365 * 24 * 3_600_000.0
"""Ten years: a target that grants this has no maximum ttl."""

PROMPT_MS: Final = 60_000.0
"""A task that still exists this long after its ttl is noted."""

A_SHORT_TTL: Final = "a ttl that expires during the run"


@check("2025-11-25:actual-ttl-in-get", needs="a task")
def ttl_is_stated(history: History) -> Iterator[Observation]:
    """Check that `tasks/get` returns the ttl as a duration or null."""
    for exchange in history.calls("tasks/get"):
        if "taskId" not in exchange.fields:
            continue
        ttl = exchange.fields.get("ttl", "missing")
        if ttl == "missing":
            yield bad("the result of 'tasks/get' has no 'ttl'", exchange)
        elif ttl is None or milliseconds(ttl) is not None:
            yield good(exchange)
        else:
            yield bad(f"'ttl' is {ttl!r}, neither a duration in milliseconds nor null", exchange)


@check("2025-11-25:ttl-from-creation", needs="a task that is read at least twice")
def ttl_does_not_count_down(history: History) -> Iterator[Observation]:
    """Check that the ttl, which counts from creation, does not decrease over time."""
    for record in task_records(history):
        seen = _sequential_sightings(record)
        values = [sighting.task["ttl"] for sighting in seen]
        steps = [b - a for a, b in pairwise(values) if a != b]
        if len(steps) >= 2 and all(step < 0 for step in steps):
            words = f"'ttl' counts from creation, but fell from {values[0]} to {values[-1]}"
            yield bad(words, seen[0], seen[-1])
        elif len(values) > 1 and not steps:
            yield good(seen[0], seen[-1])


@check("2025-11-25:ttl-may-be-overridden", needs="a task with a requested ttl")
def ttl_may_differ(history: History) -> Iterator[Observation]:
    """Note tasks with a requested ttl: the target may choose another one."""
    for exchange, requested in _task_calls(history):
        if created_task_id(exchange) is not None and requested is not None:
            yield good(exchange)


@check("2025-11-25:ttl-maximum", needs="a task call that requests a ttl of ten years or more")
def ttl_is_limited(history: History) -> Iterator[Observation]:
    """Check that the target does not grant a ttl of ten years or more."""
    for exchange, requested in _task_calls(history):
        if requested is None or requested < ENORMOUS_MS:
            continue
        if exchange.error is not None:
            yield good(exchange)
        elif created_task_id(exchange) is not None:
            granted = exchange.fields["task"].get("ttl")
            length = math.inf if granted is None else milliseconds(granted)
            if length is not None and length >= ENORMOUS_MS:
                yield bad(f"a requested ttl of {requested:g} ms was granted as {granted}", exchange)
            elif length is not None:
                yield good(exchange)


@check("2025-11-25:kept-until-ttl", needs="a task")
def kept_until_the_ttl_is_over(history: History) -> Iterator[Observation]:
    """Check that a task exists until its ttl expires, unless it was cancelled."""
    for record, exchange in _reads(history):
        until = kept_until(history, record)
        created = record.created
        if until is None or created is None or exchange.request.line != created.entry.line:
            continue
        if exchange.request.number < created.entry.number or (exchange.heard_at or 0) >= until:
            continue
        if exchange.code == INVALID_PARAMS:
            yield bad("the target deleted a task before its ttl expired", created, exchange)
        elif exchange.fields:
            yield good(created, exchange)


@check("2025-11-25:may-delete-after-ttl", needs=A_SHORT_TTL)
def expired_tasks_may_be_deleted(history: History) -> Iterator[Observation]:
    """Note reads after the ttl: the task may be deleted or kept."""
    for record, exchange in _late_reads(history):
        if exchange.fields or exchange.code == INVALID_PARAMS:
            yield good(*record.sightings[:1], exchange)


@check("2025-11-25:purged-reads-as-not-found", needs=A_SHORT_TTL)
def deleted_task_is_not_found(history: History) -> Iterator[Observation]:
    """Check that reading a deleted task is rejected with -32602, like an unknown task."""
    for record, exchange in _late_reads(history):
        if exchange.code == INVALID_PARAMS:
            yield good(*record.sightings[:1], exchange)
        elif exchange.error is not None:
            words = f"reading a task after its ttl was rejected with {exchange.code}, not -32602"
            yield bad(words, exchange)


@check("2025-11-25:expired-cleaned-up", needs=A_SHORT_TTL)
def expired_tasks_are_deleted(history: History) -> Iterator[Observation]:
    """Check that expired tasks are deleted; the specification does not say how soon."""
    for record, exchange in _late_reads(history):
        until = kept_until(history, record)
        if exchange.code == INVALID_PARAMS:
            yield good(*record.sightings[:1], exchange)
        elif exchange.fields and until is not None and exchange.sent_at - until > PROMPT_MS:
            words = "the task still existed more than a minute after its ttl expired"
            yield note(words, *record.sightings[:1], exchange)


def _task_calls(history: History) -> Iterator[tuple[Exchange, float | None]]:
    """Yield task calls with the ttl that they request."""
    for exchange in history.calls("tools/call"):
        if is_task_call(exchange) and not is_overloaded(exchange):
            yield exchange, milliseconds(exchange.params["task"].get("ttl"))


def _reads(history: History) -> Iterator[tuple[TaskRecord, Exchange]]:
    for exchange in history.calls("tasks/get"):
        record = task_record(history, exchange.task_id, exchange.request)
        if record is not None and exchange.is_answered and not is_overloaded(exchange):
            yield record, exchange


def _late_reads(history: History) -> Iterator[tuple[TaskRecord, Exchange]]:
    """Yield reads on the creating connection after the longest ttl ever shown."""
    for record, exchange in _reads(history):
        created = record.created
        ttls: list[Any] = [s.task.get("ttl") for s in record.sightings]
        longest = [milliseconds(ttl) for ttl in ttls]
        if created is None or any(length is None for length in longest):
            continue
        if exchange.request.line != created.entry.line:
            continue
        if exchange.sent_at > created.until + max(length or 0.0 for length in longest):
            yield record, exchange


def _sequential_sightings(record: TaskRecord) -> list[Sighting]:
    """Return sightings with a finite ttl, each requested after the previous one was received."""
    found: list[Sighting] = []
    for sighting in record.sightings:
        if sighting.exchange is None or milliseconds(sighting.task.get("ttl")) is None:
            continue
        if not found or found[-1].precedes(sighting):
            found.append(sighting)
    return found
