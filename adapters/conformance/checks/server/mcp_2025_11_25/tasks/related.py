"""Checks of related-task metadata (2025-11-25)."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from taskmachine.adapters.conformance.checks.reading.order import SOON_MS, next_response
from taskmachine.adapters.conformance.checks.reading.task_rules import (
    TaskRecord,
    task_record,
    task_records,
)
from taskmachine.adapters.conformance.checks.reading.tasks_2025_11_25 import (
    created_task_id,
    is_overdue,
    is_overloaded,
    is_task_call,
)
from taskmachine.adapters.conformance.history import RELATED, Entry, Exchange, History
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, note

__all__ = ["INPUT_METHODS", "task_of_token"]

INPUT_METHODS: Final = ("elicitation/create", "sampling/createMessage")
A_REQUEST: Final = "a task that requests input"
PROGRESS: Final = "a task that reports progress"


# --- messages of a task ---------------------------------------------------------------------------


@check("2025-11-25:related-task-on-question", needs=A_REQUEST)
def requests_name_their_task(history: History) -> Iterator[Observation]:
    """Check that a request for input names its task."""
    for request, _ in history.questions:
        if request.method in INPUT_METHODS:
            yield from _named(history, request)


@check("2025-11-25:related-task-on-progress", needs=PROGRESS)
def progress_names_its_task(history: History) -> Iterator[Observation]:
    """Check that progress names its task."""
    for entry in history.notifications("notifications/progress"):
        created = task_of_token(history, entry)
        if created is None or created.response is None or entry.number < created.response.number:
            continue
        if entry.related_task == created_task_id(created):
            yield good(entry)
        elif entry.related_task is None:
            words = "a progress notification of a task has no related-task metadata"
            yield bad(words, created, entry)
        else:
            words = "the related-task metadata of a progress notification names another task"
            yield bad(words, created, entry)


@check(
    "2025-11-25:related-task-on-task-messages",
    needs="a task that requests input or reports progress",
)
def all_messages_name_their_task(history: History) -> Iterator[Observation]:
    """Check that all messages of a task name it."""
    yield from requests_name_their_task(history)
    yield from progress_names_its_task(history)
    yield from results_name_their_task(history)


@check("2025-11-25:related-task-on-result", needs="a task that ends")
def results_name_their_task(history: History) -> Iterator[Observation]:
    """Check that the result of `tasks/result` names its task."""
    for exchange in history.calls("tasks/result"):
        if exchange.response is None or not isinstance(exchange.result, dict):
            continue
        named = exchange.response.related_task
        if named == exchange.task_id:
            yield good(exchange)
        elif named is None:
            yield bad("the result of 'tasks/result' has no related-task metadata", exchange)
        else:
            yield bad(f"the related-task metadata of 'tasks/result' names {named!r}", exchange)


@check("2025-11-25:related-task-on-create-result", needs="a tool that can be called as a task")
def create_results_have_no_metadata(history: History) -> Iterator[Observation]:
    """Note creating responses with the metadata: allowed, but absent from the examples."""
    for exchange in history.created.values():
        if exchange.response is not None and RELATED in exchange.response.meta:
            words = "the response that creates the task also has related-task metadata"
            yield note(words, exchange)
        else:
            yield good(exchange)


@check("2025-11-25:related-task-on-error", needs="a task that fails")
def errors_may_name_their_task(history: History) -> Iterator[Observation]:
    """Note errors that do not name the task: the specification defines no place for it."""
    for exchange in history.calls("tasks/result"):
        record = task_record(history, exchange.task_id, exchange.request)
        if (
            record is None
            or exchange.error is None
            or record.ended_before(exchange.request) is None
        ):
            continue
        if record.id in str(exchange.error.get("data")):
            yield good(exchange)
        else:
            yield note("an error of 'tasks/result' does not name the task", exchange)


@check("2025-11-25:related-task-value-shape", needs="a message with related-task metadata")
def metadata_have_their_shape(history: History) -> Iterator[Observation]:
    """Check that the metadata is an object with the id of a task that exists."""
    known = {sighting.id for sighting in history.sightings if isinstance(sighting.id, str)}
    is_complete = all(e.is_answered for e in history.calls("tools/call") if "task" in e.params)
    for entry in history.heard:
        if RELATED not in entry.meta:
            continue
        id = entry.related_task
        if not isinstance(id, str):
            yield bad(f"the related-task metadata {entry.meta[RELATED]!r} has no 'taskId'", entry)
        elif id in known:
            yield good(entry)
        elif is_complete:
            yield bad(f"the related-task metadata names {id!r}, which is not a known task", entry)


@check("2025-11-25:side-channel-allowed", needs=A_REQUEST)
def requests_arrive_once(history: History) -> Iterator[Observation]:
    """Check that each request for input is sent on one stream only."""
    first: dict[tuple[int, str], Entry] = {}
    for request, _ in history.questions:
        if request.method not in INPUT_METHODS:
            continue
        earlier = first.setdefault((request.line, repr(request.body["id"])), request)
        if earlier is request:
            yield good(request)
        elif not _is_replay(earlier, request):
            yield bad("the target sent the same request for input twice", earlier, request)


# --- messages without the metadata ----------------------------------------------------------------


@check("2025-11-25:no-related-task-on-task-results", needs="a task")
def task_results_have_no_metadata(history: History) -> Iterator[Observation]:
    """Check that responses that return a task have no related-task metadata."""
    for exchange in history.calls("tasks/get", "tasks/list", "tasks/cancel"):
        if exchange.response is None or not isinstance(exchange.result, dict):
            continue
        if RELATED in exchange.response.meta:
            yield bad(f"the result of {exchange.method!r} has related-task metadata", exchange)
        else:
            yield good(exchange)


@check("2025-11-25:no-related-task-on-status-notification", needs="task status notifications")
def status_notifications_have_no_metadata(history: History) -> Iterator[Observation]:
    """Check that a status notification has no related-task metadata: it already names its task."""
    for entry in history.notifications("notifications/tasks/status"):
        if RELATED in entry.meta:
            yield bad("a task status notification has related-task metadata", entry)
        else:
            yield good(entry)


@check("2025-11-25:related-task-ignored-on-task-requests", needs="two tasks")
def metadata_of_requests_are_ignored(history: History) -> Iterator[Observation]:
    """Check that metadata naming another task has no effect on a request."""
    for exchange in history.calls("tasks/get", "tasks/result", "tasks/cancel"):
        other = exchange.request.related_task
        record = task_record(history, exchange.task_id, exchange.request)
        if other is None or record is None or is_overloaded(exchange):
            continue
        shown = exchange.fields.get("taskId")
        if exchange.response is not None and exchange.method == "tasks/result":
            shown = exchange.response.related_task
        if is_overdue(history, exchange) and _may_not_wait(record, exchange):
            if next_response(history, exchange.request) is not None:
                words = f"{exchange.method!r} with related-task metadata got no response"
                yield bad(words, exchange)
        elif shown == record.id:
            yield good(exchange)
        elif shown == other:
            yield bad("the related-task metadata, not 'taskId', selected the task", exchange)
        elif exchange.error is not None and _is_served_without(history, exchange):
            words = f"{exchange.method!r} with related-task metadata was rejected, not served"
            yield bad(words, exchange)


# --- progress ------------------------------------------------------------------------------------


@check("2025-11-25:progress-supported-on-tasks", needs=PROGRESS)
def progress_tokens_are_taken(history: History) -> Iterator[Observation]:
    """Check that a task call may have a progress token, and that progress uses it."""
    for entry in history.notifications("notifications/progress"):
        record = task_record(history, entry.related_task, entry)
        created = None if record is None or record.created is None else record.created.exchange
        token = None if created is None else created.request.meta.get("progressToken")
        if created is None or token is None:
            continue
        if repr(entry.params.get("progressToken")) == repr(token):
            yield good(entry)
        else:
            words = "a progress notification of a task has a different token from its call"
            yield bad(words, created, entry)
    for call in history.calls("tools/call"):
        if call.request.meta.get("progressToken") is None or not is_task_call(call):
            continue
        if created_task_id(call) is not None:
            yield good(call)
        elif call.error is not None and not is_overloaded(call):
            served = _served_without_token(history, call)
            if served is not None:
                yield bad("the target rejects a task call that has a progress token", served, call)


@check("2025-11-25:cancel-stops-work", needs="a task that reports progress until it is cancelled")
def progress_ends_with_the_task(history: History) -> Iterator[Observation]:
    """Check that a cancelled task soon stops, as far as its progress shows."""
    reports: dict[str, list[Entry]] = {}
    for entry in history.notifications("notifications/progress"):
        created = task_of_token(history, entry)
        id = None if created is None else created_task_id(created)
        if id is not None:
            reports.setdefault(id, []).append(entry)
    for record in task_records(history):
        cancelled = next((s for s in record.sightings if s.where == "cancel"), None)
        if cancelled is None or cancelled.status != "cancelled":
            continue
        before = [e for e in reports.get(record.id, ()) if e.number < cancelled.entry.number]
        late = [e for e in reports.get(record.id, ()) if e.at > cancelled.until + SOON_MS]
        if late:
            yield bad("a cancelled task still reports progress", cancelled, late[0])
        elif before:
            yield good(before[-1], cancelled)


# --- selections -----------------------------------------------------------------------------------


def task_of_token(history: History, progress: Entry) -> Exchange | None:
    """Return the task call with that progress token; None if there is none, or several."""
    calls = _tokens(history).get((progress.line, repr(progress.params.get("progressToken"))), ())
    return calls[0] if len(calls) == 1 and created_task_id(calls[0]) is not None else None


@lru_cache(maxsize=4)
def _tokens(history: History) -> dict[tuple[int, str], list[Exchange]]:
    found: dict[tuple[int, str], list[Exchange]] = {}
    for exchange in history.exchanges:
        token = exchange.request.meta.get("progressToken")
        if token is not None:
            found.setdefault((exchange.request.line, repr(token)), []).append(exchange)
    return found


def _named(history: History, request: Entry) -> Iterator[Observation]:
    if request.related_task is not None:
        yield good(request)
    elif _is_of_a_task(history, request):
        yield bad("a request for input of a task has no related-task metadata", request)


def _is_of_a_task(history: History, request: Entry) -> bool:
    """Return whether only a task can have sent it: with `tasks/result`, or without other calls."""
    if request.post is not None:
        asked = next((e for e in history.exchanges if e.request.post == request.post), None)
        if asked is not None:
            return asked.method == "tasks/result"
    is_other = any(
        call.request.line == request.line
        and call.request.number < request.number
        and created_task_id(call) is None
        and (call.response is None or call.response.number > request.number)
        for call in history.calls("tools/call")
    )
    return not is_other and any(
        record.created is not None
        and record.created.entry.line == request.line
        and record.created.entry.number < request.number
        and record.ended_before(request) is None
        for record in task_records(history)
    )


def _is_replay(earlier: Entry, later: Entry) -> bool:
    ids = [None if e.http is None else e.http.event_id for e in (earlier, later)]
    return ids[0] is not None and ids[0] == ids[1]


def _may_not_wait(record: TaskRecord, exchange: Exchange) -> bool:
    return exchange.method != "tasks/result" or record.ended_before(exchange.request) is not None


def _is_served_without(history: History, refused: Exchange) -> bool:
    """Return whether the same request without metadata succeeded later."""
    return any(
        other.task_id == refused.task_id
        and other.request.line == refused.request.line
        and other.request.number > refused.request.number
        and other.request.related_task is None
        and other.fields != {}
        for other in history.calls(refused.method)
    )


def _served_without_token(history: History, call: Exchange) -> Exchange | None:
    """Return the same call without the token, which created a task."""
    wanted = {name: value for name, value in call.params.items() if name != "_meta"}
    return next((other for other in history.created.values() if other.params == wanted), None)
