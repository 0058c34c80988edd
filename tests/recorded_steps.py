"""What the stored history of a task shows of its steps and sleeps, read as plain JSON."""

import json
from collections.abc import Iterable, Iterator

from taskmachine.statemachine import Entry, Event
from taskmachine.statemachine.invariants import Deferred

__all__ = ["results_of", "with_due_times"]


def results_of(entries: Iterable[Entry]) -> dict[str, str]:
    """Return the first recorded result of each step, by key."""
    results: dict[str, str] = {}
    for entry in entries:
        if entry.data is not None and (record := json.loads(entry.data))["kind"] == "step":
            results.setdefault(record["key"], record["result"])
    return results


def with_due_times(entries: Iterable[Entry]) -> Iterator[Entry | Deferred]:
    """Insert when a sleep ends, as its record says, after the line that released the task."""
    until: int | None = None
    for entry in entries:
        yield entry
        if entry.data is not None and (record := json.loads(entry.data))["kind"] == "sleep":
            until = record["result"]
        elif entry.event is Event.REQUEUE and entry.note == "parked" and until is not None:
            yield Deferred(entry.at, entry.task_id, until)
