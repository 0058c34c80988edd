"""Checks of `tasks/get` and `tasks/cancel` and of their errors (2025-11-25)."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading.task_rules import (
    TaskRecord,
    task_record,
    terminal_final,
)
from taskmachine.adapters.conformance.checks.reading.tasks_2025_11_25 import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    declares,
    has_access,
    has_tasks_capability,
    is_overdue,
    is_overloaded,
    is_task_call,
    lifetime_end,
    requests_for,
)
from taskmachine.adapters.conformance.history import Entry, Exchange, History
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, warning

__all__: list[str] = []

INTERNAL_ERROR: Final = -32603
A_CANCEL: Final = "a task that can be cancelled"


# --- get -----------------------------------------------------------------------------------------


@check("2025-11-25:get-returns-task-flat", needs="a task")
def get_is_flat_and_prompt(history: History) -> Iterator[Observation]:
    """Check that `tasks/get` returns the task itself, and does not wait for it to end."""
    for exchange in history.calls("tasks/get"):
        if not isinstance(exchange.result, dict):
            continue
        record = task_record(history, exchange.task_id, exchange.request)
        if "taskId" not in exchange.fields:
            yield bad("the result of 'tasks/get' is not a task: it has no 'taskId'", exchange)
        elif record is not None and _waited_for_the_end(history, record, exchange):
            words = "'tasks/get' waited until the task ended instead of responding immediately"
            yield bad(words, exchange)
        else:
            yield good(exchange)


@check("2025-11-25:get-not-upgraded-to-sse", needs="HTTP")
def get_is_no_stream(history: History) -> Iterator[Observation]:
    """Check that the response to `tasks/get` is JSON."""
    for exchange in history.calls("tasks/get"):
        kind = _content_type(exchange)
        if "tasks" not in history.capabilities.get(exchange.request.line, {}):
            continue  # no tasks are declared, so clients do not poll
        if kind == "text/event-stream":
            words = "the target responded to 'tasks/get' with an SSE stream instead of JSON"
            yield bad(words, exchange)
        elif kind == "application/json":
            yield good(exchange)


@check("2025-11-25:streamable-http-still-applies", needs="HTTP")
def answers_are_json_or_streams(history: History) -> Iterator[Observation]:
    """Check the content type of responses to task requests; the transport checks cover the rest."""
    for exchange in history.exchanges:
        is_about_tasks = exchange.method.startswith("tasks/") or is_task_call(exchange)
        if not is_about_tasks or exchange.status != 200:
            continue
        kind = _content_type(exchange)
        if kind in ("application/json", "text/event-stream"):
            yield good(exchange)
        else:
            yield bad(f"{exchange.method!r} got content type {kind!r}, not JSON or SSE", exchange)


@check("2025-11-25:task-id-param-decides", needs="a task")
def the_parameter_names_the_task(history: History) -> Iterator[Observation]:
    """Check that the response concerns the task in `taskId`."""
    for exchange in history.calls("tasks/get", "tasks/cancel", "tasks/result"):
        if task_record(history, exchange.task_id, exchange.request) is None:
            continue
        shown = _answered_task(exchange)
        if shown == exchange.task_id:
            yield good(exchange)
        elif shown is not None:
            words = f"a request for the task {exchange.task_id!r} returned the task {shown!r}"
            yield bad(words, exchange)


# --- cancel --------------------------------------------------------------------------------------


@check("2025-11-25:cancel-capability", needs=A_CANCEL)
def cancel_is_declared(history: History) -> Iterator[Observation]:
    """Check that `tasks/cancel` succeeds where it is declared, and only there."""
    for exchange in history.calls("tasks/cancel"):
        if not has_tasks_capability(history, exchange) or not exchange.is_answered:
            continue
        record = task_record(history, exchange.task_id, exchange.request)
        if not declares(history, exchange, "cancel"):
            if exchange.error is None:
                words = "the target serves 'tasks/cancel' without declaring 'tasks.cancel'"
                yield warning(words, exchange)
            else:
                yield good(exchange)
        elif exchange.code == METHOD_NOT_FOUND:
            yield bad("the target declares 'tasks.cancel', but does not implement it", exchange)
        elif record is not None and _is_wrongly_refused(history, record, exchange):
            yield bad("the target rejected 'tasks/cancel' of a running task", exchange)
        elif record is not None:
            yield good(exchange)


@check("2025-11-25:cancel-answers-with-task", needs=A_CANCEL)
def cancel_answers_with_the_task(history: History) -> Iterator[Observation]:
    """Check that `tasks/cancel` returns the cancelled task itself."""
    for exchange in history.calls("tasks/cancel"):
        if exchange.error is not None or not exchange.is_answered:
            continue
        if "taskId" not in exchange.fields:
            yield bad("the result of 'tasks/cancel' is not a task: it has no 'taskId'", exchange)
        elif exchange.fields.get("status") != "cancelled":
            status = exchange.fields.get("status")
            words = f"'tasks/cancel' returned a task with the status {status!r}, not 'cancelled'"
            yield bad(words, exchange)
        else:
            yield good(exchange)


@check("2025-11-25:cancelled-before-answer", needs=A_CANCEL)
def cancelled_when_the_cancel_is_answered(history: History) -> Iterator[Observation]:
    """Check that the task is cancelled when the response is sent."""
    for record, exchange in _cancels(history):
        assert exchange.response is not None
        later = next((s for s in record.sightings if _is_asked_after(s, exchange.response)), None)
        status = exchange.fields.get("status")
        if "status" in exchange.fields and status != "cancelled":
            words = f"the target responded to 'tasks/cancel' while the task was still {status!r}"
            yield bad(words, exchange)
        elif later is not None and later.status in ("working", "input_required"):
            words = f"the task was {later.status!r} after the response to 'tasks/cancel'"
            yield bad(words, exchange, later)
        else:
            yield good(exchange)


check("2025-11-25:cancelled-sticks", needs=A_CANCEL, statuses=("cancelled",))(terminal_final)


@check("2025-11-25:cancel-terminal-refused", needs=A_CANCEL)
def cancel_of_an_ended_task_is_refused(history: History) -> Iterator[Observation]:
    """Check that cancelling a task in a terminal status is rejected with -32602."""
    for exchange in history.calls("tasks/cancel"):
        record = task_record(history, exchange.task_id, exchange.request)
        ended = None if record is None else record.ended_before(exchange.request)
        if ended is None or not exchange.is_answered or is_overloaded(exchange):
            continue
        if exchange.code == INVALID_PARAMS:
            yield good(ended, exchange)
        elif exchange.error is None:
            words = f"the target accepted 'tasks/cancel' of a {ended.status!r} task"
            yield bad(words, ended, exchange)
        elif declares(history, exchange, "cancel"):
            words = f"'tasks/cancel' of a {ended.status!r} task got {exchange.code}, not -32602"
            yield bad(words, ended, exchange)


@check("2025-11-25:may-delete-cancelled", needs=A_CANCEL)
def cancelled_tasks_may_be_deleted(history: History) -> Iterator[Observation]:
    """Note reads of a cancelled task: it may be deleted or kept."""
    for record, exchange in _cancels(history):
        reads = requests_for(history, record.id, "tasks/get")
        later = next((r for r in reads if _is_answered_after(r, exchange)), None)
        if later is not None:
            yield good(exchange, later)


# --- errors --------------------------------------------------------------------------------------


@check("2025-11-25:result-unknown-32602", needs="a target that declares 'tasks'")
def result_of_unknown_task_is_refused(history: History) -> Iterator[Observation]:
    """Check that `tasks/result` for an unknown task is rejected with -32602, without waiting."""
    yield from unknown_task_is_refused(history, "tasks/result")
    for exchange in _unknown(history, "tasks/result"):
        if is_overdue(history, exchange):
            words = "'tasks/result' for an unknown task blocks instead of being rejected"
            yield bad(words, exchange)


@check("2025-11-25:internal-error-32603", needs="a target with an internal error")
def internal_errors_have_their_code(history: History) -> Iterator[Observation]:
    """Check that an internal error has the code -32603."""
    for exchange in history.calls("tasks/get", "tasks/list", "tasks/cancel"):
        words = "" if exchange.error is None else str(exchange.error.get("message")).lower()
        if exchange.code == INTERNAL_ERROR:
            yield good(exchange)
        elif exchange.error is not None and re.search(r"\binternal (server )?error\b", words):
            yield bad(f"an internal error has the code {exchange.code}, not -32603", exchange)
        elif not exchange.is_answered and exchange.status >= 500 and exchange.status != 503:
            words = f"an internal error got HTTP status {exchange.status} without error -32603"
            yield bad(words, exchange)


@check("2025-11-25:informative-error-messages", needs="an error response")
def errors_are_informative(history: History) -> Iterator[Observation]:
    """Check that errors have a message, which differs between causes."""
    for exchange in history.calls("tasks/get", "tasks/list", "tasks/cancel"):
        if exchange.error is None:
            continue
        if _words(exchange):
            yield good(exchange)
        else:
            yield bad("a JSON-RPC error has no informative message", exchange)
    unknown = next((e for e in _unknown(history, "tasks/cancel") if e.error is not None), None)
    refused = next((e for e in _refused_cancels(history) if e.error is not None), None)
    if unknown is not None and refused is not None and _words(unknown) == _words(refused):
        words = "the errors for an unknown and for an ended task have the same message"
        yield bad(words, unknown, refused)


# --- selections -----------------------------------------------------------------------------------


def _content_type(exchange: Exchange) -> str | None:
    kind = exchange.headers.get("content-type")
    return None if kind is None else kind.partition(";")[0].strip().lower()


def _waited_for_the_end(history: History, record: TaskRecord, exchange: Exchange) -> bool:
    was_alive = any(
        not s.is_terminal and s.entry.number < exchange.request.number for s in record.sightings
    )
    is_over = exchange.fields.get("status") in ("completed", "failed")
    return was_alive and is_over and is_overdue(history, exchange)


def _answered_task(exchange: Exchange) -> Any:
    if exchange.method != "tasks/result":
        return exchange.fields.get("taskId")
    return None if exchange.response is None else exchange.response.related_task


def _is_asked_after(sighting: Any, entry: Entry) -> bool:
    return sighting.exchange is not None and sighting.exchange.request.number > entry.number


def _is_answered_after(read: Exchange, cancel: Exchange) -> bool:
    response = cancel.response
    is_later = response is not None and read.request.number > response.number
    return is_later and read.is_answered


def _cancels(history: History) -> Iterator[tuple[TaskRecord, Exchange]]:
    """Yield the successful cancel requests."""
    for exchange in history.calls("tasks/cancel"):
        record = task_record(history, exchange.task_id, exchange.request)
        if record is not None and exchange.is_answered and exchange.error is None:
            yield record, exchange


def _is_wrongly_refused(history: History, record: TaskRecord, exchange: Exchange) -> bool:
    """Return whether a cancel was rejected as if the task had ended, although it still runs."""
    if exchange.code != INVALID_PARAMS or exchange.response is None:
        return False
    if not has_access(history, record, exchange) or record.ended_before(exchange.request):
        return False
    response = exchange.response
    return any(
        _is_asked_after(s, response) and s.status in ("working", "input_required")
        for s in record.sightings
    )


def _unknown(history: History, method: str) -> Iterator[Exchange]:
    """Yield requests for tasks that were never seen, where tasks are declared."""
    for exchange in history.calls(method):
        if not isinstance(exchange.request.body.get("params"), dict):
            continue
        if not has_tasks_capability(history, exchange) or repr(exchange.task_id) in _seen(history):
            continue
        if method != "tasks/cancel" or declares(history, exchange, "cancel"):
            yield exchange


@lru_cache(maxsize=4)
def _seen(history: History) -> frozenset[str]:
    """Return the ids of all tasks, of any JSON type, for comparison with requested ids."""
    return frozenset(repr(sighting.id) for sighting in history.sightings)


@check("2025-11-25:get-unknown-32602", needs="a target that declares 'tasks'", method="tasks/get")
@check(
    "2025-11-25:cancel-unknown-32602",
    needs="a target that declares 'tasks.cancel'",
    method="tasks/cancel",
)
def unknown_task_is_refused(history: History, method: str) -> Iterator[Observation]:
    """Check that a request for an unknown task is rejected with -32602."""
    for exchange in _unknown(history, method):
        if not exchange.is_answered or is_overloaded(exchange):
            continue
        if exchange.code == INVALID_PARAMS:
            yield good(exchange)
        elif exchange.error is not None:
            yield bad(f"{method!r} for an unknown task got {exchange.code}, not -32602", exchange)
        else:
            yield bad(f"the target accepted {method!r} for an unknown task", exchange)


def _refused_cancels(history: History) -> Iterator[Exchange]:
    """Yield rejected cancels of tasks that had ended and must still exist."""
    for exchange in history.calls("tasks/cancel"):
        record = task_record(history, exchange.task_id, exchange.request)
        if record is None or exchange.code != INVALID_PARAMS:
            continue
        ended = record.ended_before(exchange.request)
        is_there = (exchange.heard_at or 0) < (lifetime_end(record) or 0)
        if is_there and ended is not None and ended.status != "cancelled":
            yield exchange


def _words(exchange: Exchange) -> str:
    """Return the message of an error without the task id."""
    words = (exchange.error or {}).get("message")
    text = words if isinstance(words, str) else ""
    return text.replace(str(exchange.task_id), "").strip()
