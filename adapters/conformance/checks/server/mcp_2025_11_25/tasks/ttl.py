"""How long tasks of 2025-11-25 live, and what is left of them."""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading.sightings import Life, life_of, lives
from taskmachine.adapters.conformance.checks.reading.tasks_2025_11_25 import (
    INVALID_PARAMS,
    is_overloaded,
    is_task_call,
    kept_until,
    made,
    milliseconds,
)
from taskmachine.adapters.conformance.history import Exchange, History, Sighting
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, note

__all__: list[str] = []

ENORMOUS_MS: Final = 10 * 365 * 24 * 3_600_000.0
"""Ten years: whoever grants that has no largest ttl."""

PROMPT_MS: Final = 60_000.0
"""What is still there so long after its end is worth a note."""

A_SHORT_TTL: Final = "a ttl that ends during the run"


@check("2025-11-25:actual-ttl-in-get", needs="a task")
def ttl_is_stated(history: History) -> Iterator[Observation]:
    """`tasks/get` says how long a task lives: a duration, or null."""
    for exchange in history.calls("tasks/get"):
        if "taskId" not in exchange.fields:
            continue
        ttl = exchange.fields.get("ttl", "missing")
        if ttl == "missing":
            yield bad("'tasks/get' does not tell the ttl", exchange)
        elif ttl is None or milliseconds(ttl) is not None:
            yield good(exchange)
        else:
            yield bad(f"the ttl is {ttl!r}", exchange)


@check("2025-11-25:ttl-from-creation", needs="a task that is seen twice")
def ttl_does_not_count_down(history: History) -> Iterator[Observation]:
    """A lifetime counts from creation, so it does not shrink while time passes."""
    for life in lives(history):
        seen = _one_after_the_other(life)
        values = [sighting.task["ttl"] for sighting in seen]
        steps = [b - a for a, b in pairwise(values) if a != b]
        if len(steps) >= 2 and all(step < 0 for step in steps):
            yield bad(f"the ttl counts down from {values[0]} to {values[-1]}", seen[0], seen[-1])
        elif len(values) > 1 and not steps:
            yield good(seen[0], seen[-1])


@check("2025-11-25:ttl-may-be-overridden", needs="a task with a requested ttl")
def ttl_may_differ(history: History) -> Iterator[Observation]:
    """Another ttl than the one that was asked for is fine."""
    for exchange, asked in _asked(history):
        if made(exchange) is not None and asked is not None:
            yield good(exchange)


@check("2025-11-25:ttl-maximum", needs="a task that asks for an enormous ttl")
def ttl_is_limited(history: History) -> Iterator[Observation]:
    """Nobody gets a lifetime of ten years."""
    for exchange, asked in _asked(history):
        if asked is None or asked < ENORMOUS_MS:
            continue
        if exchange.error is not None:
            yield good(exchange)
        elif made(exchange) is not None:
            granted = exchange.fields["task"].get("ttl")
            length = math.inf if granted is None else milliseconds(granted)
            if length is not None and length >= ENORMOUS_MS:
                yield bad(f"asked for a ttl of {asked:g} ms it granted {granted}", exchange)
            elif length is not None:
                yield good(exchange)


@check("2025-11-25:kept-until-ttl", needs="a task")
def kept_until_the_ttl_is_over(history: History) -> Iterator[Observation]:
    """A task that nobody cancelled is there until its lifetime is over."""
    for life, exchange in _reads(history):
        until = kept_until(history, life)
        created = life.created
        if until is None or created is None or exchange.request.line != created.entry.line:
            continue
        if exchange.request.number < created.entry.number or (exchange.heard_at or 0) >= until:
            continue
        if exchange.code == INVALID_PARAMS:
            yield bad("a task was gone before its ttl was over", created, exchange)
        elif exchange.fields:
            yield good(created, exchange)


@check("2025-11-25:may-delete-after-ttl", needs=A_SHORT_TTL)
def may_be_gone_afterwards(history: History) -> Iterator[Observation]:
    """Afterwards it may be there or not."""
    for life, exchange in _late_reads(history):
        if exchange.fields or exchange.code == INVALID_PARAMS:
            yield good(*life.sightings[:1], exchange)


@check("2025-11-25:purged-reads-as-not-found", needs=A_SHORT_TTL)
def gone_means_not_found(history: History) -> Iterator[Observation]:
    """A task that is gone is answered with -32602, as one that never was."""
    for life, exchange in _late_reads(history):
        if exchange.code == INVALID_PARAMS:
            yield good(*life.sightings[:1], exchange)
        elif exchange.error is not None:
            yield bad(f"a task after its ttl is answered with {exchange.code}", exchange)


@check("2025-11-25:expired-cleaned-up", needs=A_SHORT_TTL)
def expired_tasks_go(history: History) -> Iterator[Observation]:
    """What is over goes; how soon is not said."""
    for life, exchange in _late_reads(history):
        until = kept_until(history, life)
        if exchange.code == INVALID_PARAMS:
            yield good(*life.sightings[:1], exchange)
        elif exchange.fields and until is not None and exchange.sent_at - until > PROMPT_MS:
            yield note("a task was there long after its ttl", *life.sightings[:1], exchange)


def _asked(history: History) -> Iterator[tuple[Exchange, float | None]]:
    """Calls that ask for a task, with the lifetime that they ask for."""
    for exchange in history.calls("tools/call"):
        if is_task_call(exchange) and not is_overloaded(exchange):
            yield exchange, milliseconds(exchange.params["task"].get("ttl"))


def _reads(history: History) -> Iterator[tuple[Life, Exchange]]:
    for exchange in history.calls("tasks/get"):
        life = life_of(history, exchange.task_id, exchange.request)
        if life is not None and exchange.is_answered and not is_overloaded(exchange):
            yield life, exchange


def _late_reads(history: History) -> Iterator[tuple[Life, Exchange]]:
    """Reads after the longest lifetime that was ever shown, by those who could read before."""
    for life, exchange in _reads(history):
        created = life.created
        ttls: list[Any] = [s.task.get("ttl") for s in life.sightings]
        longest = [milliseconds(ttl) for ttl in ttls]
        if created is None or any(length is None for length in longest):
            continue
        if exchange.request.line != created.entry.line:
            continue
        if exchange.sent_at > created.until + max(length or 0.0 for length in longest):
            yield life, exchange


def _one_after_the_other(life: Life) -> list[Sighting]:
    """Sightings with a finite ttl, each asked for after the one before was heard."""
    found: list[Sighting] = []
    for sighting in life.sightings:
        if sighting.exchange is None or milliseconds(sighting.task.get("ttl")) is None:
            continue
        if not found or found[-1].precedes(sighting):
            found.append(sighting)
    return found
