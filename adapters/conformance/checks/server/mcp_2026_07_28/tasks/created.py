"""Checks of task fields, lifetime, and creation (2026-07-28, tasks extension)."""

from collections.abc import Iterator
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading import task_rules
from taskmachine.adapters.conformance.checks.reading.order import SOON_MS
from taskmachine.adapters.conformance.checks.reading.tasks_2026_07_28 import (
    answered,
    expires_at,
    get_results,
    is_acknowledged,
    is_by_creator,
    modern,
    was_cancelled,
    whole_milliseconds,
)
from taskmachine.adapters.conformance.history import Exchange, History, Sighting
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, note, warning

__all__: list[str] = []

_A_TASK: Final = "a tool whose call creates a task"
_FIELDS: Final = ("taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs")


# --- fields ---------------------------------------------------------------------------------------


@check("2026-07-28:task-required-fields", needs=_A_TASK)
def has_required_fields(history: History) -> Iterator[Observation]:
    """Check that the five required fields are present wherever a task is shown."""
    yield from task_rules.fields_present(modern(history), _FIELDS)
    for sighting in get_results(history):
        if "taskId" not in sighting.task:  # without an id it does not count as a sighting
            yield bad("the result of 'tasks/get' has no 'taskId'", sighting)


@check("2026-07-28:task-id-string", needs=_A_TASK)
def id_is_a_stable_string(history: History) -> Iterator[Observation]:
    """Check that the id is a string and equals the requested one."""
    yield from task_rules.ids_are_strings(modern(history))
    for sighting in get_results(history):
        wanted = None if sighting.exchange is None else sighting.exchange.task_id
        if "taskId" in sighting.task and sighting.id != wanted:
            words = f"a request for the task {wanted!r} returned the task {sighting.id!r}"
            yield bad(words, sighting)


@check("2026-07-28:task-id-from-server", needs="several tasks")
def id_is_made_by_the_server(history: History) -> Iterator[Observation]:
    """Check that each task has its own id, which the caller did not choose."""
    yield from task_rules.ids_unique(modern(history))
    for sighting in modern(history).sightings:
        proposed = list(_proposed_ids(sighting.exchange)) if sighting.where == "create" else []
        if sighting.id in proposed:
            words = f"the target used the task id {sighting.id!r} that the caller had chosen"
            yield bad(words, sighting)
        elif proposed:
            yield good(sighting)


def _proposed_ids(exchange: Exchange | None) -> Iterator[Any]:
    """Yield ids that the caller proposed in parameters a target might read."""
    params = {} if exchange is None else exchange.params
    for holder in (params, params.get("task"), params.get("_meta")):
        if isinstance(holder, dict) and "taskId" in holder:
            yield holder["taskId"]


@check("2026-07-28:ids-unguessable", needs=_A_TASK)
def ids_are_unguessable(history: History) -> Iterator[Observation]:
    """Check that ids have enough entropy and are not sequential."""
    yield from task_rules.ids_unguessable(modern(history))


@check("2026-07-28:status-message-optional", needs="a task with a `statusMessage`")
def status_message_is_text(history: History) -> Iterator[Observation]:
    """Check that `statusMessage` is a string or absent."""
    yield from task_rules.optional_string(modern(history), "statusMessage")


@check("2026-07-28:created-at-iso", needs=_A_TASK)
def created_at_is_constant(history: History) -> Iterator[Observation]:
    """Check that `createdAt` is ISO 8601 and constant."""
    yield from task_rules.timestamps(modern(history), "createdAt")
    yield from task_rules.created_at_constant(modern(history))


@check("2026-07-28:last-updated-at-iso", needs=_A_TASK)
def last_updated_at_never_decreases(history: History) -> Iterator[Observation]:
    """Check that `lastUpdatedAt` is ISO 8601 and never decreases."""
    yield from task_rules.timestamps(modern(history), "lastUpdatedAt")
    yield from task_rules.last_updated_at_in_order(modern(history))


@check("2026-07-28:ttl-ms-integer-or-null", needs=_A_TASK)
def ttl_is_whole_or_null(history: History) -> Iterator[Observation]:
    """Check that `ttlMs` is present, and a non-negative integer or null."""
    for sighting in task_rules.distinct_sightings(modern(history)):
        if "ttlMs" not in sighting.task:
            instead = "; it has 'ttl' of 2025-11-25 instead" if "ttl" in sighting.task else ""
            yield bad(f"the task in a {sighting.where!r} message has no 'ttlMs'{instead}", sighting)
            continue
        ttl = sighting.task["ttlMs"]
        if ttl is None or whole_milliseconds(ttl) is not None:
            yield good(sighting)
        else:
            yield bad(f"'ttlMs' is {ttl!r}, neither a non-negative integer nor null", sighting)


@check("2026-07-28:poll-interval-ms-integer", needs="a task with a `pollIntervalMs`")
def poll_interval_is_whole(history: History) -> Iterator[Observation]:
    """Check that `pollIntervalMs` is a non-negative integer or absent."""
    for sighting in task_rules.distinct_sightings(modern(history)):
        if "pollIntervalMs" in sighting.task:
            interval = sighting.task["pollIntervalMs"]
            if whole_milliseconds(interval) is not None:
                yield good(sighting)
            else:
                yield bad(f"'pollIntervalMs' is {interval!r}, not a non-negative integer", sighting)


@check(
    "2026-07-28:ttl-ms-may-change", needs="a target that changes the ttl of a task", field="ttlMs"
)
@check(
    "2026-07-28:poll-interval-may-change",
    needs="a target that changes the poll interval of a task",
    field="pollIntervalMs",
)
def field_may_change(history: History, field: str) -> Iterator[Observation]:
    """Record changes of ttl or poll interval, which are allowed."""
    for record in task_rules.task_records(modern(history)):
        for earlier, later in record.transitions():
            if earlier.task.get(field) != later.task.get(field):
                yield good(earlier, later)


# --- lifetime -------------------------------------------------------------------------------------


@check(
    "2026-07-28:kept-until-ttl",
    needs="a task that has ended and is read again before its ttl expires",
)
def kept_until_its_ttl(history: History) -> Iterator[Observation]:
    """Check that an ended task can be read until its ttl expires, unless it was cancelled."""
    found = modern(history)
    for get in answered(history, "tasks/get", declared=True):
        over = expires_at(found, get.task_id, get.request)
        end = None if over is None else found.ended_before(get.task_id, get.request)
        if over is None or end is None or not is_by_creator(found, get):
            continue
        is_in_time = (get.heard_at or 0) < over
        if get.fields:
            yield good(end, get)
        elif (
            get.code == -32602 and is_in_time and not was_cancelled(found, get.task_id, get.request)
        ):
            yield warning("the target deleted a task before its ttl expired", end, get)


@check("2026-07-28:may-delete-after-ttl", needs="a task that is read after its ttl")
def may_be_deleted_after_ttl(history: History) -> Iterator[Observation]:
    """Record reads after the ttl: the task may be deleted or kept."""
    yield from (good(get) for get in _reads_after_ttl(history) if get.code == -32602 or get.fields)


@check("2026-07-28:may-fail-after-ttl", needs="a task that fails because its ttl expired")
def may_fail_after_ttl(history: History) -> Iterator[Observation]:
    """Record running tasks that failed after their ttl, which is allowed."""
    for get in _reads_after_ttl(history):
        if get.fields.get("status") == "failed":
            yield good(get)


@check("2026-07-28:purged-reads-as-not-found", needs="a task that is read after its ttl")
def purged_is_not_found(history: History) -> Iterator[Observation]:
    """Check that reading a deleted task is rejected with -32602, like an unknown task."""
    for get in _reads_after_ttl(history):
        if get.code == -32602:
            yield good(get)
        elif get.error is not None:
            words = f"reading a task after its ttl was rejected with {get.code!r}, not -32602"
            yield bad(words, get)


def _reads_after_ttl(history: History) -> Iterator[Exchange]:
    found = modern(history)
    for get in answered(history, "tasks/get", declared=True):
        made = found.created.get(get.task_id) if isinstance(get.task_id, str) else None
        if made is None or made.heard_at is None:
            continue
        spans = [whole_milliseconds(s.task.get("ttlMs")) for s in found.by_task[get.task_id]]
        known = [span for span in spans if span is not None]
        if len(known) == len(spans) and made.heard_at + max(known) < get.sent_at:
            yield get


# --- creation -------------------------------------------------------------------------------------


@check("2026-07-28:create-result-type-task", needs=_A_TASK)
def create_has_result_type_task(history: History) -> Iterator[Observation]:
    """Check that a result that creates a task has `resultType: "task"`."""
    for call in modern(history).calls("tools/call"):
        task = call.fields.get("task")
        nested = task if isinstance(task, dict) else {}
        if not any(isinstance(t.get("taskId"), str) for t in (call.fields, nested)):
            continue
        kind = call.fields.get("resultType")
        if kind == "task":
            yield good(call)
        else:
            yield bad(f"the result that creates a task has 'resultType' {kind!r}, not 'task'", call)


@check("2026-07-28:create-result-flat", needs=_A_TASK)
def create_is_flat(history: History) -> Iterator[Observation]:
    """Check that the fields of a new task are members of the result itself."""
    for sighting in modern(history).sightings:
        if sighting.where != "create" or sighting.exchange is None:
            continue
        if isinstance(sighting.exchange.fields.get("task"), dict):
            words = "the new task is nested under 'task' instead of being the result itself"
            yield bad(words, sighting)
        else:
            yield good(sighting)


@check("2026-07-28:seed-status", needs=_A_TASK)
def first_status(history: History) -> Iterator[Observation]:
    """Check that a new task has one of the five statuses, usually `working`."""
    known = task_rules.reachable_statuses(history.revision)
    for sighting in modern(history).sightings:
        if sighting.where != "create" or "status" not in sighting.task:
            continue
        if sighting.status == "working":
            yield good(sighting)
        elif isinstance(sighting.status, str) and sighting.status in known:
            yield note(f"a new task has the status {sighting.status!r}", sighting)
        else:
            yield bad(f"a new task has the unknown status {sighting.status!r}", sighting)


@check("2026-07-28:only-tools-call", needs=_A_TASK)
def only_tool_calls_become_tasks(history: History) -> Iterator[Observation]:
    """Check that no other method creates a task."""
    for exchange in modern(history).exchanges:
        if not exchange.fields or exchange.method.startswith("tasks/"):
            continue
        if exchange.fields.get("resultType") != "task" or exchange.method == "tools/call":
            yield good(exchange)
        else:
            yield bad(f"only 'tools/call' may create tasks, not {exchange.method!r}", exchange)


@check(
    "2026-07-28:result-type-task-only-on-create",
    needs="a result of another method than 'tools/call'",
)
def only_new_tasks_say_task(history: History) -> Iterator[Observation]:
    """Check that `resultType: "task"` is used for new tasks only."""
    for exchange in modern(history).exchanges:
        if not exchange.fields or exchange.method == "tools/call":
            continue
        if exchange.fields.get("resultType") == "task":
            words = f"'resultType' of {exchange.method!r} is 'task', which is for new tasks"
            yield bad(words, exchange)
        else:
            yield good(exchange)


@check("2026-07-28:result-type-task-reserved", needs=_A_TASK)
def result_type_task_means_task(history: History) -> Iterator[Observation]:
    """Check that a result with `resultType: "task"` is a task."""
    for exchange in modern(history).exchanges:
        if exchange.fields.get("resultType") != "task":
            continue
        nested = exchange.fields.get("task")
        if "taskId" in exchange.fields or "status" in exchange.fields or isinstance(nested, dict):
            yield good(exchange)
        else:
            yield bad("'resultType' is 'task', but the result is not a task", exchange)


@check(
    "2026-07-28:durable-before-create-answer",
    needs="a task that is read immediately after its creation",
)
def readable_immediately(history: History) -> Iterator[Observation]:
    """Check that the first `tasks/get` after the creation finds the task."""
    yield from _first_reads(history, elsewhere=False)


@check(
    "2026-07-28:wait-for-consistency",
    needs="a task that is read on another connection immediately after its creation",
)
def readable_on_other_connections(history: History) -> Iterator[Observation]:
    """Check that a new task is found on other connections, too."""
    if history.transport == "http":  # over stdio, another connection is another server process
        yield from _first_reads(history, elsewhere=True)


def _first_reads(history: History, *, elsewhere: bool) -> Iterator[Observation]:
    found = modern(history)
    for get in answered(history, "tasks/get", declared=True):
        made = found.created.get(get.task_id) if isinstance(get.task_id, str) else None
        if made is None or made.response is None or not is_by_creator(found, get):
            continue
        waited = get.request.at - made.response.at
        is_first = get.request.number > made.response.number and waited < SOON_MS
        if not is_first or (elsewhere and get.request.line == made.request.line):
            continue
        if is_acknowledged(get):
            yield good(made, get)
        elif get.code == -32602 and _should_be_there(found, get):
            where = "on another connection" if elsewhere else "immediately after its creation"
            yield bad(f"'tasks/get' did not find the task {where}", made, get)


def _should_be_there(history: History, get: Exchange) -> bool:
    over = expires_at(history, get.task_id, get.request)
    is_over = any(
        s.is_terminal and get.response is not None and _asked(s) < get.response.number
        for s in history.by_task[get.task_id]
    )
    was_stopped = was_cancelled(history, get.task_id, get.request)
    return over is not None and (get.heard_at or 0) < over and not is_over and not was_stopped


def _asked(sighting: Sighting) -> int:
    """Return the entry from which on the task may have had this state."""
    return sighting.entry.number if sighting.exchange is None else sighting.exchange.request.number
