"""Checks of task objects and status notifications: ids, statuses, times, fields (2025-11-25)."""

from collections.abc import Iterator
from typing import Final

from taskmachine.adapters.conformance.checks.reading import task_rules
from taskmachine.adapters.conformance.checks.reading.tasks_2025_11_25 import (
    TASK_FIELDS,
    cancelled_requests,
    milliseconds,
    requests_for,
)
from taskmachine.adapters.conformance.history import TERMINAL, History, Sighting
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, note, warning

__all__: list[str] = []

A_TASK: Final = "a tool that can be called as a task"
A_NOTIFICATION: Final = "task status notifications"


# --- ids -----------------------------------------------------------------------------------------

check("2025-11-25:task-id-string", needs=A_TASK)(task_rules.ids_are_strings)


@check("2025-11-25:task-id-from-receiver", needs=A_TASK)
def ids_are_made_by_the_receiver(history: History) -> Iterator[Observation]:
    """Check that the requestor cannot choose the task id."""
    for sighting in _created(history):
        asked = sighting.exchange.params.get("task") if sighting.exchange else None
        proposed = asked.get("taskId") if isinstance(asked, dict) else None
        if proposed is None:
            continue
        if sighting.id == proposed:
            words = f"the target used the task id {proposed!r} that the requestor had chosen"
            yield bad(words, sighting)
        else:
            yield good(sighting)


check("2025-11-25:task-id-unique", needs="two tasks")(task_rules.ids_unique)
check("2025-11-25:ids-unguessable", needs=A_TASK)(task_rules.ids_unguessable)


# --- statuses ------------------------------------------------------------------------------------


@check("2025-11-25:begins-working", needs=A_TASK)
def begins_working(history: History) -> Iterator[Observation]:
    """Check that a new task is `working`; a status it may have reached since is only a warning."""
    for sighting in _created(history):
        if sighting.status == "working":
            yield good(sighting)
        elif sighting.status in ("input_required", "completed", "failed"):
            yield warning(f"a new task has the status {sighting.status!r}, not 'working'", sighting)
        elif "status" in sighting.task:
            yield bad(f"a new task has the status {sighting.status!r}, not 'working'", sighting)


check(
    "2025-11-25:paths-from-working", needs="a task that is read at least twice", source="working"
)(task_rules.transitions_from)
check(
    "2025-11-25:paths-from-input-required",
    needs="a task that requests input",
    source="input_required",
)(task_rules.transitions_from)
check("2025-11-25:terminal-final", needs="a task that ends")(task_rules.terminal_final)
check("2025-11-25:status-values", needs=A_TASK)(task_rules.statuses_known)


@check("2025-11-25:status-cancelled", needs="a task that is cancelled")
def cancelled_has_a_reason(history: History) -> Iterator[Observation]:
    """Check that a `cancelled` task was cancelled by a request, or has a status message."""
    for record in task_rules.task_records(history):
        seen = next((s for s in record.sightings if s.status == "cancelled"), None)
        if seen is None or _is_creation_cancelled(history, record):
            continue
        asked = [
            exchange
            for exchange in requests_for(history, record.id, "tasks/cancel")
            if exchange.request.number < seen.entry.number
        ]
        if asked or _has_status_message(seen):
            yield good(*asked[:1], seen)
        else:
            yield warning("a task is 'cancelled' without cancel request or 'statusMessage'", seen)


# --- times ---------------------------------------------------------------------------------------

check("2025-11-25:created-at-everywhere", needs=A_TASK, field="createdAt")(task_rules.timestamps)
check("2025-11-25:last-updated-at-everywhere", needs=A_TASK, field="lastUpdatedAt")(
    task_rules.timestamps
)
check("2025-11-25:created-at-constant", needs="a task that is read at least twice")(
    task_rules.created_at_constant
)
check("2025-11-25:last-updated-at-order", needs="a task that is read at least twice")(
    task_rules.last_updated_at_in_order
)


# --- fields --------------------------------------------------------------------------------------

check("2025-11-25:task-required-fields", needs=A_TASK, names=TASK_FIELDS)(task_rules.fields_present)
check(
    "2025-11-25:status-message-optional", needs="a task with a status message", name="statusMessage"
)(task_rules.optional_string)


@check("2025-11-25:poll-interval-optional", needs="a target that sets 'pollInterval'")
def poll_interval_is_a_duration(history: History) -> Iterator[Observation]:
    """Note poll intervals that are not durations; the value is only a suggestion."""
    for sighting in task_rules.distinct_sightings(history):
        if "pollInterval" not in sighting.task:
            continue
        value = sighting.task["pollInterval"]
        if milliseconds(value) is None:
            words = f"'pollInterval' is {value!r}, which is not a duration in milliseconds"
            yield note(words, sighting)
        else:
            yield good(sighting)


# --- notifications -------------------------------------------------------------------------------


@check("2025-11-25:status-notification-optional", needs=A_NOTIFICATION)
def notifications_are_optional(history: History) -> Iterator[Observation]:
    """Record status notifications; they are optional."""
    for entry in history.notifications("notifications/tasks/status"):
        yield good(entry)


@check("2025-11-25:status-notification-full-task", needs=A_NOTIFICATION)
def notifications_carry_the_task(history: History) -> Iterator[Observation]:
    """Check that the parameters of a status notification are the complete task."""
    for entry in history.notifications("notifications/tasks/status"):
        missing = [name for name in TASK_FIELDS if name not in entry.params]
        if "task" in entry.params and missing:
            words = "the params of a status notification contain 'task' instead of its fields"
            yield bad(words, entry)
        elif missing:
            yield bad(f"a task status notification lacks {', '.join(map(repr, missing))}", entry)
        else:
            yield good(entry)


# --- selections -----------------------------------------------------------------------------------


def _created(history: History) -> Iterator[Sighting]:
    return (sighting for sighting in history.sightings if sighting.where == "create")


def _has_status_message(sighting: Sighting) -> bool:
    words = sighting.task.get("statusMessage")
    return isinstance(words, str) and words.strip() != "" and sighting.status in TERMINAL


def _is_creation_cancelled(history: History, record: task_rules.TaskRecord) -> bool:
    """Return whether the creating call was cancelled, which also cancels the task."""
    created = None if record.created is None else record.created.exchange
    if created is None:
        return True
    key = created.request.line, repr(created.request.body.get("id"))
    return key in cancelled_requests(history)
