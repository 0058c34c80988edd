"""What became of a call of a tool, at once or as a task."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal

import attrs

from taskmachine.adapters.conformance.history import Entry, Exchange, History, Sighting

__all__ = [
    "Outcome",
    "made_by",
    "maker",
    "outcome_of_call",
    "outcome_of_task",
    "results_of",
    "results_of_tools",
    "sightings_of",
]


@attrs.frozen(eq=False)
class Outcome:
    """How it ended."""

    kind: Literal["success", "tool error", "error"]
    """`tool error` is a result with `isError`; `error` is one of JSON-RPC."""
    result: Mapping[str, Any]
    """Empty if it is an error of JSON-RPC."""
    where: Exchange | Sighting
    """What shows it."""


def outcome_of_call(history: History, call: Exchange) -> Outcome | None:
    """The end of what a call began; None if that is not known, or it only asked for input."""
    if call.error is not None:
        return Outcome("error", {}, call)
    task_id = made_by(call)
    if task_id is not None:
        return outcome_of_task(history, task_id, call.request)
    if not call.fields or call.fields.get("resultType", "complete") != "complete":
        return None
    return _of_result(call.fields, call)


def outcome_of_task(history: History, task_id: str, seen_by: Entry) -> Outcome | None:
    """How a task ended; None if that was not seen, or if it was cancelled.

    `seen_by` is anything on a line where the task is known.
    """
    if maker(history, task_id, seen_by) is None:
        return None
    for exchange in results_of(history, task_id, seen_by):
        return _of_result(exchange.fields, exchange)
    for sighting in sightings_of(history, task_id, seen_by):
        if sighting.status == "failed":
            return Outcome("error", {}, sighting)
        result = sighting.task.get("result")
        if sighting.status == "completed" and isinstance(result, dict):
            return _of_result(result, sighting)
    return None


def sightings_of(history: History, task_id: str, seen_by: Entry) -> list[Sighting]:
    """Where a task was shown."""
    return [
        sighting
        for sighting in history.by_task.get(task_id, ())
        if _is_same_place(history, sighting.entry, seen_by)
    ]


def results_of(history: History, task_id: str, seen_by: Entry) -> list[Exchange]:
    """Of 2025-11-25: where the result of a task was shown."""
    return [
        exchange
        for exchange in history.results.get(task_id, ())
        if exchange.fields and _is_same_place(history, exchange.request, seen_by)
    ]


def made_by(call: Exchange) -> str | None:
    """The task that a call became."""
    shown = call.fields if call.fields.get("resultType") == "task" else call.fields.get("task")
    id = shown.get("taskId") if isinstance(shown, dict) else None
    return id if isinstance(id, str) else None


def maker(history: History, task_id: Any, seen_by: Entry) -> Exchange | None:
    """The call that made a task; None if that was not here, or if two got the same id."""
    if not isinstance(task_id, str):
        return None
    calls = [
        c for c in _makers(history).get(task_id, ()) if _is_same_place(history, c.request, seen_by)
    ]
    return calls[0] if len(calls) == 1 else None


def results_of_tools(history: History) -> Iterator[tuple[str, Outcome]]:
    """Every result of a tool, each time it was shown, with the name of the tool."""
    for call in history.calls("tools/call"):
        if made_by(call) is None and call.error is None:
            found = outcome_of_call(history, call)
            if found is not None:
                yield from _named(call, found)
    for exchange in history.calls("tasks/result"):
        if exchange.fields:
            made = maker(history, exchange.task_id, exchange.request)
            yield from _named(made, _of_result(exchange.fields, exchange))
    for sighting in history.sightings:
        result = sighting.task.get("result")
        if sighting.status == "completed" and isinstance(result, dict):
            made = maker(history, sighting.id, sighting.entry)
            yield from _named(made, _of_result(result, sighting))


def _named(call: Exchange | None, outcome: Outcome) -> Iterator[tuple[str, Outcome]]:
    name = None if call is None else call.params.get("name")
    if isinstance(name, str):
        yield name, outcome


@lru_cache(maxsize=2)
def _makers(history: History) -> dict[str, list[Exchange]]:
    found: dict[str, list[Exchange]] = {}
    for sighting in history.sightings:
        if sighting.where == "create" and isinstance(sighting.id, str) and sighting.exchange:
            found.setdefault(sighting.id, []).append(sighting.exchange)
    return found


def _is_same_place(history: History, one: Entry, other: Entry) -> bool:
    """Over pipes each line is a process, with ids of its own."""
    return history.transport == "http" or one.line == other.line


def _of_result(result: Mapping[str, Any], where: Exchange | Sighting) -> Outcome:
    return Outcome("tool error" if result.get("isError") is True else "success", result, where)
