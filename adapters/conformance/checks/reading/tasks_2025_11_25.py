"""How the checks of 2025-11-25 read a history: who offered what, and which answer says nothing."""

import json
import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading.order import SOON_MS
from taskmachine.adapters.conformance.checks.reading.sightings import Life, life_of
from taskmachine.adapters.conformance.history import Entry, Exchange, History, Kind

__all__ = [
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "TASK_FIELDS",
    "call_key",
    "cancelled_requests",
    "declares",
    "has_principals",
    "in_flight",
    "is_foreign",
    "is_overloaded",
    "is_sound",
    "is_task_call",
    "kept_until",
    "knows_tasks",
    "lifetime_end",
    "made",
    "may_ask",
    "milliseconds",
    "outcome",
    "plain_calls",
    "requests_for",
    "settled",
    "support",
    "tasks_capability",
    "waited_in_vain",
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
    """What the target declared under `tasks` on that line; None if nothing, or nobody asked."""
    return history.capabilities.get(line, {}).get("tasks")


def knows_tasks(history: History, exchange: Exchange) -> bool:
    """Whether the target said on that line that it has tasks."""
    return tasks_capability(history, exchange.request.line) is not None


def declares(history: History, exchange: Exchange, *path: str) -> bool:
    """Whether `tasks` has that item on the line of the exchange, in whatever shape."""
    found = tasks_capability(history, exchange.request.line)
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return found is not None and found is not False


def support(history: History, exchange: Exchange) -> str | None:
    """How the called tool is marked; None if it was never listed, or marked with nonsense."""
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
    """Whether it asks for a task, in the way it ought to be asked for."""
    task = exchange.params.get("task")
    if exchange.method != "tools/call" or not isinstance(task, dict):
        return False
    return "ttl" not in task or (milliseconds(task["ttl"]) or 0) > 0


def made(exchange: Exchange) -> str | None:
    """The id of the task that it was answered with."""
    task = exchange.fields.get("task")
    id = task.get("taskId") if isinstance(task, dict) else None
    return id if isinstance(id, str) else None


def call_key(exchange: Exchange) -> str:
    """The same for calls of the same tool with the same arguments."""
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
    """The answered calls of the same tool with the same arguments that did not ask for a task."""
    return [
        other
        for other in _calls(history).get(call_key(call), ())
        if "task" not in other.params and other.is_answered and not is_overloaded(other)
    ]


def is_sound(history: History, call: Exchange) -> bool:
    """Whether nothing is wrong with the arguments: the same call was served at another time."""
    return any(
        other.fields and other.fields.get("isError") is not True
        for other in _calls(history).get(call_key(call), ())
    )


# --- answers -------------------------------------------------------------------------------------


def is_overloaded(exchange: Exchange) -> bool:
    """Whether the target only says that it is too much at the moment."""
    if exchange.status in (429, 503):
        return True
    if exchange.error is None or exchange.code in (METHOD_NOT_FOUND, INVALID_PARAMS):
        return False
    said = json.dumps([exchange.error.get("message"), exchange.error.get("data")]).lower()
    return any(word in said for word in _BUSY)


def outcome(exchange: Exchange) -> Any:
    """What was answered, without metadata: two outcomes can be compared."""
    if exchange.error is not None:
        return {"error": dict(exchange.error)}
    return {"result": {k: v for k, v in exchange.fields.items() if k != "_meta"}}


def waited_in_vain(history: History, exchange: Exchange) -> bool:
    """Whether no answer came soon, though the connection was there, and others were answered.

    A target that has much to do is slow for everybody: that says nothing of this request.
    """
    if exchange.is_answered or (exchange.end is not None and exchange.end.kind is Kind.GAVE_UP):
        return (exchange.waited_ms or 0) > SOON_MS and not _is_busy(history, exchange)
    return False


def _is_busy(history: History, exchange: Exchange) -> bool:
    """Whether most of what was asked meanwhile had to wait as well."""
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
    """Whether it was sent before the one and neither answered nor given up before the other."""
    over = exchange.response or exchange.end
    return exchange.request.number < since.number and (over is None or over.number > until.number)


@lru_cache(maxsize=4)
def cancelled_requests(history: History) -> frozenset[tuple[int, str]]:
    """Lines and ids of requests that we said we do not want any more."""
    return frozenset(
        (entry.line, repr(entry.params.get("requestId")))
        for entry in history.entries
        if entry.kind is Kind.SENT and entry.method == "notifications/cancelled"
    )


# --- tasks ---------------------------------------------------------------------------------------


def requests_for(history: History, task_id: Any, method: str) -> list[Exchange]:
    """All requests of that method that name that task."""
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
    """A duration; None if it is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and value >= 0 and math.isfinite(value) else None


def settled(history: History) -> Iterator[tuple[Life, Exchange]]:
    """Answers to `tasks/result` of tasks that had completed or failed, for those who may ask."""
    for exchange in history.calls("tasks/result"):
        life = life_of(history, exchange.task_id, exchange.request)
        if life is None or not may_ask(history, life, exchange):
            continue
        ended = life.ended_before(exchange.request)
        if ended is None or any(s.status == "cancelled" for s in life.sightings):
            continue
        if (
            exchange.is_answered
            and not is_overloaded(exchange)
            and not _is_gone(history, life, exchange)
        ):
            yield life, exchange


def kept_until(history: History, life: Life) -> float | None:
    """The moment of ours until which a task must be there; None if that cannot be said."""
    is_cancelled = any(s.status == "cancelled" for s in life.sightings)
    if is_cancelled or requests_for(history, life.id, "tasks/cancel"):
        return None
    return lifetime_end(life)


def lifetime_end(life: Life) -> float | None:
    """When its ttl is over, at the earliest; None if that cannot be said.

    The shortest one that was ever shown counts, from when its creation was asked for.
    """
    ttls = [s.task.get("ttl") for s in life.sightings if "ttl" in s.task]
    lengths = [math.inf if ttl is None else milliseconds(ttl) for ttl in ttls]
    known = [length for length in lengths if length is not None]
    if life.created is None or not known or len(known) < len(lengths):
        return None
    return life.created.since + min(known)


def _is_gone(history: History, life: Life, exchange: Exchange) -> bool:
    """Whether an answer may mean that the task is no longer there."""
    until = kept_until(history, life)
    is_late = until is None or exchange.heard_at is None or exchange.heard_at >= until
    return exchange.code == INVALID_PARAMS and is_late


# --- callers -------------------------------------------------------------------------------------


def has_principals(history: History) -> bool:
    """Whether there are callers with different credentials."""
    return len({who for who in history.principals.values() if who is not None}) > 1


def may_ask(history: History, life: Life, exchange: Exchange) -> bool:
    """Whether whoever sent it made the task, or has the same credentials and was shown it."""
    line, who = exchange.request.line, history.principals.get(exchange.request.caller)
    if life.created is not None and life.created.entry.line == line:
        return True
    is_shown = any(s.entry.line == line and s.where == "get" for s in life.sightings)
    return is_shown and who is not None and not is_foreign(history, life, exchange.request.caller)


def is_foreign(history: History, life: Life, asked_by: str) -> bool:
    """Whether that caller and the one who made the task have different credentials."""
    if life.created is None:
        return False
    owner = history.principals.get(life.created.entry.caller)
    other = history.principals.get(asked_by)
    return owner is not None and other is not None and owner != other
