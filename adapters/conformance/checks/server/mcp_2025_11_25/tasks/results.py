"""Checks of `tasks/result` (2025-11-25)."""

from collections.abc import Iterator
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading.order import SOON_MS
from taskmachine.adapters.conformance.checks.reading.task_rules import TaskRecord, task_record
from taskmachine.adapters.conformance.checks.reading.tasks_2025_11_25 import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    cancelled_requests,
    comparable_outcome,
    has_access,
    is_overdue,
    is_overloaded,
    plain_calls,
    requests_for,
    results_of_ended_tasks,
    task_support,
)
from taskmachine.adapters.conformance.history import Exchange, History, Kind, Sighting
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, note, warning

__all__: list[str] = []

AN_END: Final = "a task that ends"
NEXT_MS: Final = 100.0
SLOW_WORK: Final = "a task that runs for several seconds"


# --- when the response is sent --------------------------------------------------------------------


@check("2025-11-25:result-blocks", needs=SLOW_WORK)
def result_blocks(history: History) -> Iterator[Observation]:
    """Check that `tasks/result` responds when the task ends, and not before."""
    for record, exchange in _result_requests(history):
        if exchange.response is not None and not _is_given_up(history, exchange):
            later = next((s for s in record.sightings if _is_running_after(s, exchange)), None)
            if later is not None:
                words = f"'tasks/result' returned while the task was {later.status!r}"
                yield bad(words, exchange, later)
                continue
        ended = next((s for s in record.sightings if s.is_terminal), None)
        if ended is None or ended.entry.number < exchange.request.number:
            continue
        if _late_ms(exchange, ended) > SOON_MS and is_overdue(history, exchange):
            yield bad("'tasks/result' did not return although the task had ended", exchange, ended)
        elif any(_is_running_during(s, exchange) for s in record.sightings):
            yield good(exchange, ended)


@check("2025-11-25:result-of-terminal-task", needs=AN_END)
def result_of_an_ended_task_comes(history: History) -> Iterator[Observation]:
    """Check that `tasks/result` of a task that has ended responds immediately."""
    for record, exchange in _result_requests(history):
        ended = record.ended_before(exchange.request)
        if ended is None or ended.status == "cancelled":
            continue
        if is_overdue(history, exchange):
            words = "'tasks/result' did not return for a task that had already ended"
            yield bad(words, ended, exchange)
        elif exchange.is_answered:
            yield good(ended, exchange)


@check("2025-11-25:result-of-cancelled-task", needs="a task that is cancelled")
def result_of_a_cancelled_task_comes(history: History) -> Iterator[Observation]:
    """Check that `tasks/result` of a cancelled task responds; the specification leaves open how."""
    for record, exchange in _result_requests(history):
        ended = record.ended_before(exchange.request)
        if ended is None or ended.status != "cancelled":
            continue
        if is_overdue(history, exchange):
            yield bad("'tasks/result' of a cancelled task did not return", ended, exchange)
        elif exchange.error is not None:
            yield good(ended, exchange)
        elif exchange.is_answered:
            words = "'tasks/result' of a cancelled task returned a result, not an error"
            yield note(words, ended, exchange)


@check("2025-11-25:get-works-while-result-blocks", needs=SLOW_WORK)
def get_is_served_meanwhile(history: History) -> Iterator[Observation]:
    """Check that `tasks/get` is served while `tasks/result` blocks."""
    for _, exchange in _result_requests(history):
        over = exchange.response or exchange.end
        for get in requests_for(history, exchange.task_id, "tasks/get"):
            if get.request.number < exchange.request.number:
                continue
            if over is not None and get.request.number > over.number:
                break
            if is_overdue(history, get) or _is_served_next(get, exchange):
                words = "the target does not respond to 'tasks/get' while 'tasks/result' blocks"
                yield bad(words, exchange.request, get)
            elif get.is_answered:
                yield good(exchange.request, get)


@check("2025-11-25:result-request-cancellable", needs=SLOW_WORK)
def cancelling_result_keeps_task(history: History) -> Iterator[Observation]:
    """Check that cancelling a `tasks/result` request does not cancel the task."""
    for record, exchange in _result_requests(history):
        is_cancelled = requests_for(history, record.id, "tasks/cancel")
        if not _is_given_up(history, exchange) or is_cancelled:
            continue
        for later in record.sightings:
            if later.exchange is None or later.exchange.request.number < exchange.request.number:
                continue
            if later.status == "cancelled":
                yield bad("cancelling a 'tasks/result' request cancelled the task", exchange, later)
                break
            yield good(exchange, later)


# --- content of the response ----------------------------------------------------------------------


@check("2025-11-25:result-exactly-underlying", needs=AN_END)
def result_is_that_of_the_call(history: History) -> Iterator[Observation]:
    """Check that a task has a single outcome, which is that of the call.

    A tool may return different values to a plain call: a difference in values is only a warning,
    and only if two plain calls agree.
    """
    first: dict[str, Exchange] = {}
    for record, exchange in results_of_ended_tasks(history):
        earlier = first.setdefault(record.id, exchange)
        if comparable_outcome(earlier) != comparable_outcome(exchange):
            yield bad("two responses to 'tasks/result' for the same task differ", earlier, exchange)
            continue
        if earlier is not exchange:
            yield good(earlier, exchange)
        yield from _compared(history, record, exchange)


@check("2025-11-25:result-matches-request-type", needs=AN_END)
def result_is_of_the_type_of_the_call(history: History) -> Iterator[Observation]:
    """Check that the result is a tool result and not a task."""
    for _, exchange in results_of_ended_tasks(history):
        if exchange.error is not None:
            continue
        if "taskId" in exchange.fields or isinstance(exchange.fields.get("task"), dict):
            yield bad("'tasks/result' returned a task instead of a tool result", exchange)
        elif not isinstance(exchange.fields.get("content"), list):
            yield bad("the result of 'tasks/result' has no array 'content'", exchange)
        else:
            yield good(exchange)


@check("2025-11-25:result-is-success-response", needs="a tool that returns 'isError'")
def result_is_not_an_error(history: History) -> Iterator[Observation]:
    """Check that the result of a call does not become an error of `tasks/result`."""
    for record, exchange in results_of_ended_tasks(history):
        plain = _plain(history, record)
        is_sure = len(plain) > 1 or _end(record, exchange) == "completed"
        if not plain or any(call.error is not None for call in plain):
            continue
        if exchange.error is None:
            yield good(plain[0], exchange)
        elif is_sure:
            words = "a call without 'task' returns a result, but 'tasks/result' an error"
            yield bad(words, plain[0], exchange)


@check("2025-11-25:result-same-error", needs="a tool call that ends with a JSON-RPC error")
def error_is_that_of_the_call(history: History) -> Iterator[Observation]:
    """Check that `tasks/result` returns the same error as the call."""
    for record, exchange in results_of_ended_tasks(history):
        plain = _plain(history, record)
        errors = [call.error for call in plain]
        if len(plain) < 2 or errors[0] is None or any(error != errors[0] for error in errors):
            continue
        if plain[0].code in (METHOD_NOT_FOUND, INVALID_REQUEST):
            continue  # The target rejects the call, not the tool.
        if exchange.error is None:
            words = "a call without 'task' returns an error, but 'tasks/result' a result"
            yield bad(words, plain[0], exchange)
        elif exchange.code != plain[0].code:
            words = f"the error is {plain[0].code} for the call, {exchange.code} for 'tasks/result'"
            yield bad(words, plain[0], exchange)
        elif exchange.error != plain[0].error:
            words = "the error of 'tasks/result' differs from that of a call without 'task'"
            yield warning(words, plain[0], exchange)
        else:
            yield good(plain[0], exchange)


# --- status and outcome ---------------------------------------------------------------------------


@check("2025-11-25:status-completed", needs="a task that completes")
def completed_has_a_result(history: History) -> Iterator[Observation]:
    """Check that a completed task has a result."""
    for record, exchange in results_of_ended_tasks(history):
        if _end(record, exchange) != "completed":
            continue
        if exchange.error is not None:
            words = f"'tasks/result' of a completed task returned the error {exchange.code}"
            yield bad(words, *record.sightings[-1:], exchange)
        else:
            yield good(exchange)


@check("2025-11-25:status-failed", needs="a task that fails")
def failed_has_an_error(history: History) -> Iterator[Observation]:
    """Check that a failed task has a JSON-RPC error or a result with `isError`."""
    for record, exchange in results_of_ended_tasks(history):
        if _end(record, exchange) != "failed":
            continue
        if exchange.error is None and exchange.fields.get("isError") is not True:
            words = "a failed task has a result without 'isError'"
            yield bad(words, *record.sightings[-1:], exchange)
        else:
            yield good(exchange)


@check("2025-11-25:failed-on-jsonrpc-error", needs="a tool call that ends with a JSON-RPC error")
def jsonrpc_error_means_failed(history: History) -> Iterator[Observation]:
    """Check that a task whose call ends with a JSON-RPC error is `failed`."""
    for record, exchange in results_of_ended_tasks(history):
        if exchange.error is None:
            continue
        if _end(record, exchange) == "failed":
            yield good(exchange)
        else:
            words = f"'tasks/result' returned error {exchange.code}, but the task is not 'failed'"
            yield bad(words, exchange)


@check("2025-11-25:failed-on-is-error", needs="a tool that returns 'isError'")
def is_error_means_failed(history: History) -> Iterator[Observation]:
    """Check that a task whose result has `isError` is `failed`; lower-case "should" in the text."""
    for record, exchange in results_of_ended_tasks(history):
        if exchange.fields.get("isError") is not True:
            continue
        if _end(record, exchange) == "failed":
            yield good(exchange)
        else:
            words = "the tool result has 'isError', but the task is 'completed' instead of 'failed'"
            yield warning(words, *record.sightings[-1:], exchange)


@check("2025-11-25:failed-status-message", needs="a task that fails")
def failed_has_status_message(history: History) -> Iterator[Observation]:
    """Check that a failed task has a status message."""
    for exchange in history.calls("tasks/get"):
        if exchange.fields.get("status") != "failed":
            continue
        words = exchange.fields.get("statusMessage")
        if isinstance(words, str) and words.strip():
            yield good(exchange)
        else:
            yield bad("a failed task has no 'statusMessage' that explains the failure", exchange)


# --- selections -----------------------------------------------------------------------------------


def _result_requests(history: History) -> Iterator[tuple[TaskRecord, Exchange]]:
    """Yield `tasks/result` requests of callers with access, without those rejected for load."""
    for exchange in history.calls("tasks/result"):
        record = task_record(history, exchange.task_id, exchange.request)
        if record is None or is_overloaded(exchange):
            continue
        if has_access(history, record, exchange):
            yield record, exchange


def _is_running_after(sighting: Sighting, exchange: Exchange) -> bool:
    if sighting.exchange is None or exchange.response is None:
        return False
    is_later = sighting.exchange.request.number > exchange.response.number
    return is_later and sighting.status in ("working", "input_required")


def _is_running_during(sighting: Sighting, exchange: Exchange) -> bool:
    if sighting.exchange is None or sighting.is_terminal:
        return False
    is_later = sighting.exchange.request.number > exchange.request.number
    return is_later and (
        exchange.response is None or sighting.entry.number < exchange.response.number
    )


def _is_served_next(get: Exchange, exchange: Exchange) -> bool:
    """Return whether a slow `tasks/get` responded only just after `tasks/result` did."""
    if get.response is None or exchange.response is None or (get.waited_ms or 0) < SOON_MS:
        return False
    return 0 < get.response.at - exchange.response.at < NEXT_MS


def _late_ms(exchange: Exchange, ended: Sighting) -> float:
    """Return the time from the known end of the task to the response or the end of the wait."""
    last = exchange.response
    if last is None and exchange.end is not None and exchange.end.kind is Kind.GAVE_UP:
        last = exchange.end
    return 0.0 if last is None else last.at - ended.until


def _is_given_up(history: History, exchange: Exchange) -> bool:
    """Return whether the client disconnected or cancelled the request."""
    key = exchange.request.line, repr(exchange.request.body.get("id"))
    is_left = (
        exchange.end is not None and exchange.end.kind is Kind.LEFT and not exchange.is_answered
    )
    return is_left or key in cancelled_requests(history)


def _end(record: TaskRecord, exchange: Exchange) -> Any:
    ended = record.ended_before(exchange.request)
    return None if ended is None else ended.status


def _plain(history: History, record: TaskRecord) -> list[Exchange]:
    """Return plain calls of the same tool with the same arguments, if it allows plain calls."""
    created = None if record.created is None else record.created.exchange
    if created is None or task_support(history, created) == "required":
        return []
    return plain_calls(history, created)


def _compared(history: History, record: TaskRecord, exchange: Exchange) -> Iterator[Observation]:
    plain = [call for call in _plain(history, record) if call.error is None]
    if not plain or exchange.error is not None:
        return
    expected, found = comparable_outcome(plain[0])["result"], comparable_outcome(exchange)["result"]
    if expected == found:
        yield good(plain[0], exchange)
    elif len(plain) > 1 and all(
        comparable_outcome(call) == comparable_outcome(plain[0]) for call in plain
    ):
        if {*expected} != {*found}:
            names = ", ".join(sorted({*expected} ^ {*found}))
            words = f"'tasks/result' and a call without 'task' differ in {names}"
            yield bad(words, plain[0], exchange)
        else:
            words = "'tasks/result' and a call without 'task' return different values"
            yield warning(words, plain[0], exchange)
