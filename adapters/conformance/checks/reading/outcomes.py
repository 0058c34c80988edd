"""Outcomes of tool calls, whether immediate or as a task."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal

import attrs

from taskmachine.adapters.conformance.history import Entry, Exchange, History, Sighting

__all__ = [
    "Outcome",
    "created_task_id",
    "creating_call",
    "outcome_of_call",
    "outcome_of_task",
    "results_of",
    "results_of_tools",
    "sightings_of",
]


@attrs.frozen(eq=False)
class Outcome:
    """Outcome of a tool call."""

    kind: Literal["success", "tool error", "error"]
    """`tool error` is a result with `isError`; `error` is a JSON-RPC error."""
    result: Mapping[str, Any]
    """Empty for a JSON-RPC error."""
    where: Exchange | Sighting
    """The message that contains it."""


def outcome_of_call(history: History, call: Exchange) -> Outcome | None:
    """Return the final outcome of a call; None if unknown, or if the call only requested input."""
    if call.error is not None:
        return Outcome("error", {}, call)
    task_id = created_task_id(call)
    if task_id is not None:
        return outcome_of_task(history, task_id, call.request)
    if not call.fields or call.fields.get("resultType", "complete") != "complete":
        return None
    return _of_result(call.fields, call)


def outcome_of_task(history: History, task_id: str, seen_by: Entry) -> Outcome | None:
    """Return the outcome of a task; None if it was not seen or the task was cancelled.

    `seen_by` is any entry of a connection where the task is known.
    """
    if creating_call(history, task_id, seen_by) is None:
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
    """Return the observed states of a task."""
    return [
        sighting
        for sighting in history.by_task.get(task_id, ())
        if _is_same_place(history, sighting.entry, seen_by)
    ]


def results_of(history: History, task_id: str, seen_by: Entry) -> list[Exchange]:
    """Return the `tasks/result` exchanges of a task that returned a result (2025-11-25)."""
    return [
        exchange
        for exchange in history.results.get(task_id, ())
        if exchange.fields and _is_same_place(history, exchange.request, seen_by)
    ]


def created_task_id(call: Exchange) -> str | None:
    """Return the id of the task that a call created."""
    shown = call.fields if call.fields.get("resultType") == "task" else call.fields.get("task")
    id = shown.get("taskId") if isinstance(shown, dict) else None
    return id if isinstance(id, str) else None


def creating_call(history: History, task_id: Any, seen_by: Entry) -> Exchange | None:
    """Return the call that created a task; None if there is none here, or more than one."""
    if not isinstance(task_id, str):
        return None
    calls = [
        c
        for c in _creating_calls(history).get(task_id, ())
        if _is_same_place(history, c.request, seen_by)
    ]
    return calls[0] if len(calls) == 1 else None


def results_of_tools(history: History) -> Iterator[tuple[str, Outcome]]:
    """Yield the name of the tool with every result it returned, each time it was shown."""
    for call in history.calls("tools/call"):
        if created_task_id(call) is None and call.error is None:
            found = outcome_of_call(history, call)
            if found is not None:
                yield from _named(call, found)
    for exchange in history.calls("tasks/result"):
        if exchange.fields:
            made = creating_call(history, exchange.task_id, exchange.request)
            yield from _named(made, _of_result(exchange.fields, exchange))
    for sighting in history.sightings:
        result = sighting.task.get("result")
        if sighting.status == "completed" and isinstance(result, dict):
            made = creating_call(history, sighting.id, sighting.entry)
            yield from _named(made, _of_result(result, sighting))


def _named(call: Exchange | None, outcome: Outcome) -> Iterator[tuple[str, Outcome]]:
    name = None if call is None else call.params.get("name")
    if isinstance(name, str):
        yield name, outcome


@lru_cache(maxsize=2)
def _creating_calls(history: History) -> dict[str, list[Exchange]]:
    found: dict[str, list[Exchange]] = {}
    for sighting in history.sightings:
        if sighting.where == "create" and isinstance(sighting.id, str) and sighting.exchange:
            found.setdefault(sighting.id, []).append(sighting.exchange)
    return found


def _is_same_place(history: History, one: Entry, other: Entry) -> bool:
    """Return whether both entries share task ids: over stdio each process has its own."""
    return history.transport == "http" or one.line == other.line


def _of_result(result: Mapping[str, Any], where: Exchange | Sighting) -> Outcome:
    return Outcome("tool error" if result.get("isError") is True else "success", result, where)
