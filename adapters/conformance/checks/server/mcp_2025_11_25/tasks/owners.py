"""Checks of task ownership and limits (2025-11-25)."""

from collections.abc import Iterator
from typing import Final

from taskmachine.adapters.conformance.checks.reading.task_rules import (
    TaskRecord,
    task_record,
    task_records,
)
from taskmachine.adapters.conformance.checks.reading.tasks_2025_11_25 import (
    declares,
    has_principals,
    is_foreign,
    is_overdue,
    is_overloaded,
    is_task_call,
    requests_for,
)
from taskmachine.adapters.conformance.history import Exchange, History
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, note

__all__: list[str] = []

TWO: Final = "two callers with different credentials"
MANY_LOOKUPS: Final = 100
MANY_TASKS: Final = 40


@check("2025-11-25:foreign-cancel-rejected", needs=TWO)
def foreign_cancel_is_refused(history: History) -> Iterator[Observation]:
    """Check that a caller cannot cancel the tasks of another principal."""
    yield from foreign_request_is_refused(history, "tasks/cancel")
    for record, exchange in _foreign_requests(history, "tasks/cancel"):
        seen = next((s for s in record.sightings if s.status == "cancelled"), None)
        own = [
            other
            for other in requests_for(history, record.id, "tasks/cancel")
            if not is_foreign(history, record, other.request.caller)
        ]
        if seen is not None and not own and seen.entry.number > exchange.request.number:
            words = "a task became 'cancelled' after a cancel request of another principal"
            yield bad(words, exchange, seen)


@check("2025-11-25:foreign-not-listed", needs=TWO)
def foreign_tasks_are_not_listed(history: History) -> Iterator[Observation]:
    """Check that a caller is not shown the tasks of another principal."""
    for exchange in history.calls("tasks/list"):
        tasks = exchange.fields.get("tasks")
        if not isinstance(tasks, list) or not has_principals(history):
            continue
        caller = exchange.request.caller
        foreign = {
            record.id for record in task_records(history) if is_foreign(history, record, caller)
        }
        shown = {task.get("taskId") for task in tasks if isinstance(task, dict)}
        if any(isinstance(id, str) and id in foreign for id in shown):
            yield bad("'tasks/list' contains a task of another principal", exchange)
        elif foreign:
            yield good(exchange)


@check("2025-11-25:bound-to-auth-context", needs=TWO)
def tasks_are_bound(history: History) -> Iterator[Observation]:
    """Check that a task is bound to the credentials of its creator."""
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        yield from foreign_request_is_refused(history, method)
    yield from foreign_tasks_are_not_listed(history)


@check("2025-11-25:list-not-declared-without-identity", needs="HTTP without credentials")
def anonymous_callers_share_no_list(history: History) -> Iterator[Observation]:
    """Check that a target that cannot identify requestors does not declare `tasks.list`."""
    if history.transport != "http":
        return  # A stdio process serves a single client.
    for exchange in history.calls("tasks/list"):
        tasks = exchange.fields.get("tasks")
        if not isinstance(tasks, list) or not declares(history, exchange, "list"):
            continue
        if any(who is not None for who in history.principals.values()):
            continue
        line = exchange.request.line
        others = {
            record.id: record
            for record in task_records(history)
            if _is_made_elsewhere(record, line)
        }
        shown = [task.get("taskId") for task in tasks if isinstance(task, dict)]
        seen = [others[id] for id in shown if isinstance(id, str) and id in others]
        if seen:
            words = "'tasks/list' contains a task of another anonymous requestor"
            yield bad(words, *seen[0].sightings[:1], exchange)
        elif any(
            record.sightings[0].entry.number < exchange.request.number for record in others.values()
        ):
            yield good(exchange)


@check("2025-11-25:rate-limited-operations", needs="a large number of requests")
def lookups_are_limited(history: History) -> Iterator[Observation]:
    """Check that lookups are rate-limited; the specification sets no limit."""
    methods = ("tasks/get", "tasks/result", "tasks/list", "tasks/cancel")
    refused = [exchange for exchange in history.calls(*methods) if is_overloaded(exchange)]
    if refused:
        yield good(refused[0])
        return
    unknown = [
        exchange
        for exchange in history.calls("tasks/get")
        if exchange.error is not None
        and task_record(history, exchange.task_id, exchange.request) is None
    ]
    if len(unknown) >= MANY_LOOKUPS:
        yield note(f"the target did not limit {len(unknown)} lookups of unknown tasks", unknown[-1])


@check("2025-11-25:concurrency-limit", needs="a large number of concurrent tasks")
def concurrent_tasks_are_limited(history: History) -> Iterator[Observation]:
    """Check that excess concurrent tasks are rejected; the specification sets no limit."""
    refused = [e for e in history.calls("tools/call") if is_task_call(e) and is_overloaded(e)]
    if refused:
        yield good(refused[0])
        return
    changes = sorted(
        change for record in task_records(history) if record.created for change in _times(record)
    )
    running = most = 0
    for _, step in changes:
        running += step
        most = max(most, running)
    if most >= MANY_TASKS:
        last = list(history.created.values())[-1:]
        yield note(f"{most} tasks ran concurrently, and the target rejected none", *last)


def _times(record: TaskRecord) -> Iterator[tuple[float, int]]:
    """Yield when the task had certainly started (+1), and when it was last seen running (-1)."""
    working = [s for s in record.sightings if not s.is_terminal and s.exchange is not None]
    if working:
        yield working[0].until, 1
        yield working[-1].since + 0.5, -1


def _foreign_requests(history: History, method: str) -> Iterator[tuple[TaskRecord, Exchange]]:
    """Yield requests for tasks that another principal created."""
    for exchange in history.calls(method):
        record = task_record(history, exchange.task_id, exchange.request)
        if record is not None and is_foreign(history, record, exchange.request.caller):
            yield record, exchange


@check("2025-11-25:foreign-get-rejected", needs=TWO, method="tasks/get")
@check("2025-11-25:foreign-result-rejected", needs=TWO, method="tasks/result")
def foreign_request_is_refused(history: History, method: str) -> Iterator[Observation]:
    """Check that a task and its result are inaccessible to other principals, also after waiting."""
    for _, exchange in _foreign_requests(history, method):
        if method == "tasks/result" and is_overdue(history, exchange):
            words = "'tasks/result' for a task of another principal waits instead of being rejected"
            yield bad(words, exchange)
        elif exchange.error is not None or exchange.status in (401, 403, 404):
            yield good(exchange)
        elif exchange.is_answered:
            yield bad(f"the target serves {method!r} for a task of another principal", exchange)


def _is_made_elsewhere(record: TaskRecord, line: int) -> bool:
    return record.created is not None and record.created.entry.line != line
