"""Capabilities, tool calls, responses, tasks and callers in a history of 2025-11-25."""

import json
import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading.order import SOON_MS
from taskmachine.adapters.conformance.checks.reading.task_rules import TaskRecord, task_record
from taskmachine.adapters.conformance.history import Entry, Exchange, History, Kind

__all__ = [
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "TASK_FIELDS",
    "call_key",
    "cancelled_requests",
    "comparable_outcome",
    "created_task_id",
    "declares",
    "has_access",
    "has_principals",
    "has_tasks_capability",
    "has_valid_arguments",
    "in_flight",
    "is_foreign",
    "is_overdue",
    "is_overloaded",
    "is_task_call",
    "kept_until",
    "lifetime_end",
    "milliseconds",
    "plain_calls",
    "requests_for",
    "results_of_ended_tasks",
    "task_support",
    "tasks_capability",
]

INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
QUICK_MS: Final = 1_000.0
TASK_FIELDS: Final = ("taskId", "status", "createdAt", "lastUpdatedAt", "ttl")

_BUSY: Final = (
    "limit", "rate", "too many", "busy", "overload", "retry", "quota", "capacity", "throttl",
    "unavailable",
)  # fmt: skip


# --- what was offered ----------------------------------------------------------------------------


def tasks_capability(history: History, line: int) -> Any:
    """Return what the target declared under `tasks` on that connection; else None."""
    return history.capabilities.get(line, {}).get("tasks")


def has_tasks_capability(history: History, exchange: Exchange) -> bool:
    """Return whether the target declared the `tasks` capability on that connection."""
    return tasks_capability(history, exchange.request.line) is not None


def declares(history: History, exchange: Exchange, *path: str) -> bool:
    """Return whether `tasks` contains that item on the connection, in any shape."""
    found = tasks_capability(history, exchange.request.line)
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return found is not None and found is not False


def task_support(history: History, exchange: Exchange) -> str | None:
    """Return the `taskSupport` of the called tool; None if it was never listed, or is invalid."""
    name = exchange.params.get("name")
    tool = history.tools.get(name) if isinstance(name, str) else None
    if tool is None:
        return None
    execution = tool.get("execution")
    mark = execution.get("taskSupport") if isinstance(execution, dict) else None
    if mark is None:
        return "forbidden"
    return mark if mark in ("required", "optional", "forbidden") else None


# --- calls of tools ------------------------------------------------------------------------------


def is_task_call(exchange: Exchange) -> bool:
    """Return whether the call requests a task, with valid parameters."""
    task = exchange.params.get("task")
    if exchange.method != "tools/call" or not isinstance(task, dict):
        return False
    return "ttl" not in task or (milliseconds(task["ttl"]) or 0) > 0


def created_task_id(exchange: Exchange) -> str | None:
    """Return the id of the task in the response."""
    task = exchange.fields.get("task")
    id = task.get("taskId") if isinstance(task, dict) else None
    return id if isinstance(id, str) else None


def call_key(exchange: Exchange) -> str:
    """Return a key that is equal for calls of the same tool with the same arguments."""
    wanted = [exchange.params.get("name"), exchange.params.get("arguments")]
    return json.dumps(wanted, sort_keys=True)


@lru_cache(maxsize=4)
def _calls(history: History) -> Mapping[str, tuple[Exchange, ...]]:
    found: dict[str, tuple[Exchange, ...]] = {}
    for exchange in history.calls("tools/call"):
        key = call_key(exchange)
        found[key] = (*found.get(key, ()), exchange)
    return found


def plain_calls(history: History, call: Exchange) -> list[Exchange]:
    """Return the answered calls of the same tool and arguments that did not request a task."""
    return [
        other
        for other in _calls(history).get(call_key(call), ())
        if "task" not in other.params and other.is_answered and not is_overloaded(other)
    ]


def has_valid_arguments(history: History, call: Exchange) -> bool:
    """Return whether the arguments are valid: the same call succeeded at another time."""
    return any(
        other.fields and other.fields.get("isError") is not True
        for other in _calls(history).get(call_key(call), ())
    )


# --- answers -------------------------------------------------------------------------------------


def is_overloaded(exchange: Exchange) -> bool:
    """Return whether the target only reports that it is overloaded at the moment."""
    if exchange.status in (429, 503):
        return True
    if exchange.error is None or exchange.code in (METHOD_NOT_FOUND, INVALID_PARAMS):
        return False
    said = json.dumps([exchange.error.get("message"), exchange.error.get("data")]).lower()
    return any(word in said for word in _BUSY)


def comparable_outcome(exchange: Exchange) -> Any:
    """Return the result or error without metadata, for comparison."""
    if exchange.error is not None:
        return {"error": dict(exchange.error)}
    return {"result": {k: v for k, v in exchange.fields.items() if k != "_meta"}}


def is_overdue(history: History, exchange: Exchange) -> bool:
    """Return whether no response came soon, although the connection was open and others were quick.

    A target under load is slow for every request, which says nothing about this one.
    """
    if exchange.is_answered or (exchange.end is not None and exchange.end.kind is Kind.GAVE_UP):
        return (exchange.waited_ms or 0) > SOON_MS and not _is_busy(history, exchange)
    return False


def _is_busy(history: History, exchange: Exchange) -> bool:
    """Return whether most requests sent meanwhile were slow as well."""
    until = exchange.sent_at + (exchange.waited_ms or 0)
    meanwhile = [
        other
        for other in history.exchanges
        if exchange.sent_at - QUICK_MS < other.sent_at < until - QUICK_MS
        and other.sent_at + (other.waited_ms or SOON_MS) > exchange.sent_at
        and other is not exchange
        and other.method != "tasks/result"
    ]
    quick = sum((other.waited_ms or SOON_MS) < QUICK_MS for other in meanwhile)
    return quick < 0.75 * len(meanwhile)


def in_flight(exchange: Exchange, since: Entry, until: Entry) -> bool:
    """Return whether it was sent before `since` and was still pending at `until`."""
    over = exchange.response or exchange.end
    return exchange.request.number < since.number and (over is None or over.number > until.number)


@lru_cache(maxsize=4)
def cancelled_requests(history: History) -> frozenset[tuple[int, str]]:
    """Return connection and id of each request that the client cancelled."""
    return frozenset(
        (entry.line, repr(entry.params.get("requestId")))
        for entry in history.entries
        if entry.kind is Kind.SENT and entry.method == "notifications/cancelled"
    )


# --- tasks ---------------------------------------------------------------------------------------


def requests_for(history: History, task_id: Any, method: str) -> list[Exchange]:
    """Return all requests of that method that name that task."""
    return _requests(history).get((method, repr(task_id)), [])


@lru_cache(maxsize=4)
def _requests(history: History) -> dict[tuple[str, str], list[Exchange]]:
    found: dict[tuple[str, str], list[Exchange]] = {}
    for exchange in history.exchanges:
        if "taskId" in exchange.params:
            key = exchange.method, repr(exchange.task_id)
            found.setdefault(key, []).append(exchange)
    return found


def milliseconds(value: Any) -> float | None:
    """Return a duration in milliseconds; None if the value is not one."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and value >= 0 and math.isfinite(value) else None


def results_of_ended_tasks(history: History) -> Iterator[tuple[TaskRecord, Exchange]]:
    """Yield `tasks/result` responses of completed or failed tasks, to callers with access."""
    for exchange in history.calls("tasks/result"):
        record = task_record(history, exchange.task_id, exchange.request)
        if record is None or not has_access(history, record, exchange):
            continue
        ended = record.ended_before(exchange.request)
        if ended is None or any(s.status == "cancelled" for s in record.sightings):
            continue
        if (
            exchange.is_answered
            and not is_overloaded(exchange)
            and not _may_be_deleted(history, record, exchange)
        ):
            yield record, exchange


def kept_until(history: History, record: TaskRecord) -> float | None:
    """Return the time until which a task must exist, on the tester's clock; None if unknown."""
    is_cancelled = any(s.status == "cancelled" for s in record.sightings)
    if is_cancelled or requests_for(history, record.id, "tasks/cancel"):
        return None
    return lifetime_end(record)


def lifetime_end(record: TaskRecord) -> float | None:
    """Return the earliest time at which its ttl expires; None if unknown.

    The shortest ttl shown counts, from when the creation was requested.
    """
    ttls = [s.task.get("ttl") for s in record.sightings if "ttl" in s.task]
    lengths = [math.inf if ttl is None else milliseconds(ttl) for ttl in ttls]
    known = [length for length in lengths if length is not None]
    if record.created is None or not known or len(known) < len(lengths):
        return None
    return record.created.since + min(known)


def _may_be_deleted(history: History, record: TaskRecord, exchange: Exchange) -> bool:
    """Return whether the response may mean that the task no longer exists."""
    until = kept_until(history, record)
    is_late = until is None or exchange.heard_at is None or exchange.heard_at >= until
    return exchange.code == INVALID_PARAMS and is_late


# --- callers -------------------------------------------------------------------------------------


def has_principals(history: History) -> bool:
    """Return whether there are callers with different credentials."""
    return (
        len({principal for principal in history.principals.values() if principal is not None}) > 1
    )


def has_access(history: History, record: TaskRecord, exchange: Exchange) -> bool:
    """Return whether the caller created the task, or has the same credentials and was shown it."""
    line, principal = exchange.request.line, history.principals.get(exchange.request.caller)
    if record.created is not None and record.created.entry.line == line:
        return True
    is_shown = any(s.entry.line == line and s.where == "get" for s in record.sightings)
    return (
        is_shown
        and principal is not None
        and not is_foreign(history, record, exchange.request.caller)
    )


def is_foreign(history: History, record: TaskRecord, asked_by: str) -> bool:
    """Return whether the caller and the creator of the task have different credentials."""
    if record.created is None:
        return False
    owner = history.principals.get(record.created.entry.caller)
    other = history.principals.get(asked_by)
    return owner is not None and other is not None and owner != other
