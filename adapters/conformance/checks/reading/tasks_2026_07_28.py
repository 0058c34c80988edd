"""Requests, tasks and input requests of the tasks extension (2026-07-28) in a history.

A run may also contain connections of 2025-11-25, to see whether the target mixes up the revisions.
They are left out here.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import attrs

from taskmachine.adapters.conformance.checks.reading.requests_2026_07_28 import (
    TASKS,
    capabilities,
    declares_tasks,
    faults,
    is_modern,
)
from taskmachine.adapters.conformance.checks.reading.task_rules import TaskRecord
from taskmachine.adapters.conformance.history import Entry, Exchange, History, Sighting

__all__ = [
    "answered",
    "call_key",
    "can_show",
    "contradicts",
    "declared_extensions",
    "detailed_tasks",
    "expires_at",
    "get_results",
    "input_responses",
    "is_acknowledged",
    "is_by_creator",
    "is_throttled_or_denied",
    "legacy_lines",
    "modern",
    "requests_about",
    "supports_tasks",
    "valid_requests",
    "was_cancelled",
    "was_mentioned",
    "whole_milliseconds",
]

_FOREVER_MS: Final = 2**60
_BUSY: Final = re.compile(r"rate|limit|too many|busy|retry|quota|overload|throttl", re.IGNORECASE)


# --- which messages ------------------------------------------------------------------------------


def legacy_lines(history: History) -> frozenset[int]:
    """Return the connections on which `initialize` succeeded: they use an older revision."""
    return frozenset(e.request.line for e in history.calls("initialize") if e.fields)


@lru_cache(maxsize=8)
def modern(history: History) -> History:
    """Return the history without connections of an older revision."""
    legacy = legacy_lines(history)
    if not legacy:
        return history
    return attrs.evolve(history, entries=tuple(e for e in history.entries if e.line not in legacy))


@lru_cache(maxsize=8)
def valid_requests(history: History) -> tuple[Exchange, ...]:
    """Return the requests of this revision without a fault in their metadata or headers."""
    found = modern(history)
    return tuple(e for e in found.exchanges if is_modern(e) and not faults(found, e))


def answered(history: History, *methods: str, declared: bool | None = None) -> Iterator[Exchange]:
    """Yield the valid requests of these methods whose response is about the request itself."""
    for exchange in valid_requests(history):
        if exchange.method not in methods or not exchange.is_answered:
            continue
        if (
            declared is None or declares_tasks(exchange) is declared
        ) and not is_throttled_or_denied(exchange):
            yield exchange


def is_throttled_or_denied(exchange: Exchange) -> bool:
    """Return whether it was rejected because of credentials or rate, and not for its content."""
    if exchange.status in (401, 403, 408, 429, 502, 503, 504):
        return True
    error = exchange.error or {}
    data, message = error.get("data"), error.get("message")
    if isinstance(data, dict) and "retryAfterMs" in data:
        return True
    return isinstance(message, str) and _BUSY.search(message) is not None


def is_acknowledged(exchange: Exchange) -> bool:
    """Return whether the response is a result."""
    return exchange.response is not None and "result" in exchange.response.body


def declared_extensions(history: History) -> Iterator[tuple[Mapping[str, Any], Exchange]]:
    """Yield the `capabilities` of each `server/discover` result, with the exchange."""
    for exchange in modern(history).calls("server/discover"):
        declared = exchange.fields.get("capabilities")
        if isinstance(declared, dict):
            yield declared, exchange


def supports_tasks(history: History) -> bool:
    """Return whether the target supports the extension: it declares it, or creates tasks."""
    for declared, _ in declared_extensions(history):
        extensions = declared.get("extensions")
        if isinstance(extensions, dict) and TASKS in extensions:
            return True
    return bool(modern(history).created)


# --- tasks ---------------------------------------------------------------------------------------


def get_results(history: History) -> Iterator[Sighting]:
    """Yield the results of `tasks/get`, including those without an id."""
    for exchange in modern(history).calls("tasks/get"):
        if exchange.response is not None and exchange.fields and is_modern(exchange):
            span = exchange.request.at, exchange.response.at
            yield Sighting(exchange.fields, "get", exchange.response, exchange, *span)


def detailed_tasks(history: History) -> Iterator[Sighting]:
    """Yield tasks with all fields of their status, from `tasks/get` and notifications.

    Those equal to the previous one are left out.
    """
    last: dict[Any, str] = {}
    notifications = [s for s in modern(history).sightings if s.where == "notification"]
    for sighting in sorted([*get_results(history), *notifications], key=lambda s: s.entry.number):
        key, said = (sighting.where, sighting.entry.line, repr(sighting.id)), repr(sighting.task)
        if last.get(key) != said:
            last[key] = said
            yield sighting


def requests_about(history: History, record: TaskRecord, *methods: str) -> list[Exchange]:
    """Return the requests about a task in the order sent."""
    line = record.sightings[0].entry.line if history.transport == "stdio" else None
    named = _by_task(history).get((line, record.id), ())
    return [exchange for exchange in named if exchange.method in methods]


@lru_cache(maxsize=8)
def _by_task(history: History) -> dict[tuple[int | None, str], list[Exchange]]:
    found: dict[tuple[int | None, str], list[Exchange]] = {}
    for exchange in modern(history).exchanges:
        if isinstance(exchange.task_id, str) and is_modern(exchange):
            line = exchange.request.line if history.transport == "stdio" else None
            found.setdefault((line, exchange.task_id), []).append(exchange)
    return found


def was_mentioned(history: History, id: Any) -> bool:
    """Return whether the target ever mentioned that task, in any form."""
    return isinstance(id, str) and id in _mentioned(history)


@lru_cache(maxsize=8)
def _mentioned(history: History) -> frozenset[str]:
    answers = [call.fields for call in history.calls("tools/call")]
    nested = [fields["task"] for fields in answers if isinstance(fields.get("task"), dict)]
    ids = [task.get("taskId") for task in (*answers, *nested)]
    return frozenset(history.by_task) | {id for id in ids if isinstance(id, str)}


def is_by_creator(history: History, exchange: Exchange) -> bool:
    """Return whether the caller created the task; over stdio a process has only its own tasks."""
    made = history.created.get(exchange.task_id) if isinstance(exchange.task_id, str) else None
    if made is None:
        return False
    if history.transport == "stdio":
        return made.request.line == exchange.request.line
    return made.request.caller == exchange.request.caller


def was_cancelled(history: History, id: Any, before: Entry) -> bool:
    """Return whether a client had requested its cancellation, after which it may disappear."""
    return any(
        exchange.task_id == id and exchange.request.number < before.number
        for exchange in history.calls("tasks/cancel")
    )


def expires_at(history: History, id: Any, before: Entry) -> float | None:
    """Return the earliest time at which the task may expire, judged by its states until then.

    Infinite without a ttl; None if unknown.
    """
    made = history.created.get(id) if isinstance(id, str) else None
    if made is None:
        return None
    shown = [s.task.get("ttlMs", -1) for s in history.by_task[id] if s.entry.number < before.number]
    known = [float("inf") if ttl is None else whole_milliseconds(ttl) for ttl in shown]
    spans = [span for span in known if span is not None]
    return made.sent_at + min(spans) if spans and len(spans) == len(shown) else None


def whole_milliseconds(value: Any) -> float | None:
    """Return a whole number of milliseconds; None if the value is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int):
        return float(min(value, _FOREVER_MS)) if value >= 0 else None
    return value if value >= 0 and value.is_integer() else None


def contradicts(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two states of a terminal task have different outcomes."""
    shared = [name for name in ("result", "error") if name in one and name in other]
    return any(_comparable(one[name]) != _comparable(other[name]) for name in shared)


def _comparable(result: Any) -> Any:
    """Return a result without the members that may differ between responses."""
    if not isinstance(result, dict):
        return result
    return {name: value for name, value in result.items() if name not in ("resultType", "_meta")}


def call_key(exchange: Exchange) -> str:
    """Return a key that is equal for calls of one tool with the same arguments.

    `task` is not part of this revision.
    """
    said = {name: value for name, value in exchange.params.items() if name not in ("_meta", "task")}
    return repr(_sorted({"arguments": {}, **said}))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return [(name, _sorted(value[name])) for name in sorted(value)]
    return [_sorted(one) for one in value] if isinstance(value, list) else value


# --- questions -----------------------------------------------------------------------------------


def input_responses(update: Exchange) -> Mapping[str, Any]:
    """Return the `inputResponses` of a `tasks/update`, by key."""
    given = update.params.get("inputResponses")
    return given if isinstance(given, dict) else {}


def can_show(sighting: Sighting, question: Any) -> bool:
    """Return whether that poll declared the capability for a request of that kind."""
    if sighting.exchange is None:
        return False
    method = question.get("method") if isinstance(question, dict) else None
    kind = method.partition("/")[0] if isinstance(method, str) else ""
    return kind in capabilities(sighting.exchange)
