"""Checks of task requests: acknowledgement, cancellation, errors, access (2026-07-28)."""

import re
from collections.abc import Iterator
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading.requests_2026_07_28 import TASKS, is_modern
from taskmachine.adapters.conformance.checks.reading.task_rules import task_records
from taskmachine.adapters.conformance.checks.reading.tasks_2026_07_28 import (
    answered,
    expires_at,
    is_acknowledged,
    is_by_creator,
    is_throttled_or_denied,
    modern,
    requests_about,
    supports_tasks,
    valid_requests,
    was_cancelled,
    was_mentioned,
)
from taskmachine.adapters.conformance.history import Exchange, History
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, note, warning

__all__: list[str] = []

_METHODS: Final = ("tasks/get", "tasks/update", "tasks/cancel")
_CODES: Final = (-32602, -32603, -32021)
_OF_TASKS: Final = (
    *("taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttlMs", "ttl"),
    *("pollIntervalMs", "pollInterval", "result", "error", "inputRequests", "task", "tasks"),
)
_LONG: Final = 1_000
"""Longer ids may exceed header limits."""
_INTERNAL: Final = re.compile(r"internal (server )?error", re.IGNORECASE)


# --- acknowledgements ----------------------------------------------------------------------------


def _acknowledgements(history: History, method: str) -> Iterator[Exchange]:
    for exchange in modern(history).calls(method):
        if is_acknowledged(exchange) and is_modern(exchange):
            yield exchange


@check("2026-07-28:update-ack-empty", needs="a task that requests input", method="tasks/update")
@check("2026-07-28:cancel-ack-empty", needs="a task", method="tasks/cancel")
def acknowledgement_is_empty(history: History, method: str) -> Iterator[Observation]:
    """Check that the results of `tasks/update` and `tasks/cancel` are empty."""
    for exchange in _acknowledgements(history, method):
        more = [name for name in exchange.fields if name not in ("resultType", "_meta")]
        known = [name for name in more if name in _OF_TASKS]
        if not isinstance(exchange.result, dict):
            words = f"the result of {method!r} is {exchange.result!r}, not an empty object"
            yield bad(words, exchange)
        elif known:
            words = f"the result of {method!r} must be empty, but contains {known[0]!r}"
            yield bad(words, exchange)
        elif more:  # possibly defined by another extension
            yield note(f"the result of {method!r} contains {more[0]!r}", exchange)
        else:
            yield good(exchange)


@check(
    "2026-07-28:update-result-type-complete",
    needs="a task that requests input",
    method="tasks/update",
)
@check("2026-07-28:cancel-result-type-complete", needs="a task", method="tasks/cancel")
def acknowledgement_is_complete(history: History, method: str) -> Iterator[Observation]:
    """Check that this result has `resultType: "complete"`."""
    for exchange in _acknowledgements(history, method):
        kind = exchange.fields.get("resultType")
        if kind == "complete":
            yield good(exchange)
        else:
            words = f"the result of {method!r} has 'resultType' {kind!r}, not 'complete'"
            yield bad(words, exchange)


# --- cancellation ---------------------------------------------------------------------------------


def _cancels(history: History, *, ended: bool) -> Iterator[tuple[Exchange, Any]]:
    """Yield cancels of tasks that must exist, with the terminal state if it was seen before."""
    found = modern(history)
    for cancel in answered(history, "tasks/cancel", declared=True):
        over = expires_at(found, cancel.task_id, cancel.request)
        if over is None or (cancel.heard_at or 0) > over or not is_by_creator(found, cancel):
            continue
        end = found.ended_before(cancel.task_id, cancel.request)
        if (end is not None) is ended:
            yield cancel, end


@check("2026-07-28:cancel-cooperative", needs="a task that can be cancelled while it is working")
def cancel_is_acknowledged(history: History) -> Iterator[Observation]:
    """Check that cancelling a running task is acknowledged; the task need not stop."""
    for cancel, _ in _cancels(history, ended=False):
        if is_acknowledged(cancel):
            yield good(cancel)
        elif not was_cancelled(history, cancel.task_id, cancel.request):
            made = modern(history).created[cancel.task_id]
            yield bad(f"'tasks/cancel' of a running task got error {cancel.code!r}", made, cancel)


@check("2026-07-28:cancel-terminal-acked", needs="a task that is cancelled after it ended")
def late_cancel_is_acknowledged(history: History) -> Iterator[Observation]:
    """Check that cancelling a task that has ended is acknowledged, too."""
    for cancel, end in _cancels(history, ended=True):
        if is_acknowledged(cancel):
            yield good(end, cancel)
        elif not was_cancelled(history, cancel.task_id, cancel.request):
            yield bad(f"'tasks/cancel' of an ended task got error {cancel.code!r}", end, cancel)


@check(
    "2026-07-28:cancel-status-may-lag",
    needs="a target that cancels tasks with a delay",
    statuses=("working", "input_required"),
)
@check(
    "2026-07-28:cancel-may-lose",
    needs="a task that completes or fails despite a cancel request",
    statuses=("completed", "failed"),
)
def task_after_its_cancel(history: History, statuses: tuple[str, ...]) -> Iterator[Observation]:
    """Record tasks that still run or end otherwise after the acknowledgement, which is allowed."""
    for record in task_records(modern(history)):
        for cancel in requests_about(history, record, "tasks/cancel"):
            if cancel.response is None or not is_acknowledged(cancel):
                continue
            acknowledged = cancel.response.number
            later = [
                s
                for s in record.sightings
                if s.exchange and s.exchange.request.number > acknowledged
            ]
            was_running = modern(history).ended_before(record.id, cancel.request) is None
            if later and later[0].status in statuses and was_running:
                yield good(cancel, later[0])


# --- unknown tasks --------------------------------------------------------------------------------


@check("2026-07-28:get-unknown-32602", needs="the tasks extension", method="tasks/get")
@check("2026-07-28:update-unknown-32602", needs="the tasks extension", method="tasks/update")
@check("2026-07-28:cancel-unknown-32602", needs="the tasks extension", method="tasks/cancel")
def unknown_task_is_refused(history: History, method: str) -> Iterator[Observation]:
    """Check that a request for an unknown or invalid task id is rejected with -32602."""
    if not supports_tasks(history):
        return
    for exchange in answered(history, method, declared=True):
        if was_mentioned(history, exchange.task_id) or len(str(exchange.task_id)) > _LONG:
            continue
        what = (
            "an unknown task"
            if isinstance(exchange.task_id, str)
            else "a 'taskId' that is not a string"
        )
        if exchange.code == -32602:
            yield good(exchange)
        elif exchange.error is None:
            yield bad(f"the target accepted {method!r} for {what}", exchange)
        else:
            yield bad(f"{method!r} for {what} got error {exchange.code!r}, not -32602", exchange)


# --- undeclared extension -------------------------------------------------------------------------


@check("2026-07-28:get-missing-capability-32021", needs="the tasks extension", method="tasks/get")
@check(
    "2026-07-28:update-missing-capability-32021", needs="the tasks extension", method="tasks/update"
)
@check(
    "2026-07-28:cancel-missing-capability-32021", needs="the tasks extension", method="tasks/cancel"
)
def extension_is_required(history: History, method: str) -> Iterator[Observation]:
    """Check that a task request without the declared extension is rejected with -32021."""
    if not supports_tasks(history):
        return
    for exchange in answered(history, method, declared=False):
        if not isinstance(exchange.task_id, str):
            continue  # two faults: the target may report either
        if exchange.code == -32021:
            yield good(exchange)
        elif exchange.error is None:
            words = f"the target accepted {method!r} without the declared tasks extension"
            yield bad(words, exchange)
        else:
            words = f"{method!r} without the extension got error {exchange.code!r}, not -32021"
            yield bad(words, exchange)


@check("2026-07-28:missing-capability-names-extension", needs="the tasks extension")
def refusal_names_the_extension(history: History) -> Iterator[Observation]:
    """Check that error -32021 names the missing extension.

    A tool call may lack other capabilities, too, so there any named capability suffices.
    """
    for exchange in answered(history, *_METHODS, "tools/call", declared=False):
        if exchange.code != -32021:
            continue
        data = (exchange.error or {}).get("data")
        required = data.get("requiredCapabilities") if isinstance(data, dict) else None
        extensions = required.get("extensions") if isinstance(required, dict) else None
        if isinstance(extensions, dict) and TASKS in extensions:
            yield good(exchange)
        elif exchange.method != "tools/call" or not required:
            words = "'data.requiredCapabilities' of error -32021 does not name the tasks extension"
            yield bad(words, exchange)


# --- other errors ---------------------------------------------------------------------------------


@check("2026-07-28:standard-jsonrpc-errors", needs="the tasks extension")
def errors_have_standard_codes(history: History) -> Iterator[Observation]:
    """Check that errors of task requests have the code -32602, -32603 or -32021."""
    if not supports_tasks(history):
        return
    for exchange in answered(history, *_METHODS):
        if exchange.error is None:
            continue
        if exchange.code in _CODES:
            yield good(exchange)
        else:
            words = f"{exchange.method!r} got error {exchange.code!r}, not -32602, -32603 or -32021"
            yield bad(words, exchange)


@check("2026-07-28:internal-error-32603", needs="a target with an internal error")
def internal_errors_have_their_code(history: History) -> Iterator[Observation]:
    """Check that an internal error, by message or HTTP status, has the code -32603."""
    for exchange in valid_requests(history):
        if exchange.method not in (*_METHODS, "tools/call") or is_throttled_or_denied(exchange):
            continue
        message = (exchange.error or {}).get("message")
        says_internal = isinstance(message, str) and _INTERNAL.search(message) is not None
        if exchange.code == -32603:
            yield good(exchange)
        elif says_internal or exchange.status == 500:
            yield bad(f"an internal error has the code {exchange.code!r}, not -32603", exchange)


@check("2026-07-28:informative-error-messages", needs="the tasks extension")
def errors_are_informative(history: History) -> Iterator[Observation]:
    """Check that errors have a message, which differs between causes."""
    unknown: dict[str, Exchange] = {}
    for exchange in answered(history, *_METHODS, declared=True):
        if exchange.code == -32602:
            unknown.setdefault(str((exchange.error or {}).get("message")), exchange)
    for exchange in answered(history, *_METHODS):
        if exchange.error is None:
            continue
        message = exchange.error.get("message")
        if not isinstance(message, str) or not message.strip():
            yield bad("a JSON-RPC error has no message", exchange)
        elif exchange.code == -32021 and message in unknown:
            words = "the errors for an unknown task and a missing capability are the same"
            yield bad(words, unknown[message], exchange)
        else:
            yield good(exchange)


@check("2026-07-28:no-tasks-list", needs="the tasks extension", method="tasks/list")
@check("2026-07-28:tasks-result-gone-32601", needs="the tasks extension", method="tasks/result")
def method_is_removed(history: History, method: str) -> Iterator[Observation]:
    """Check that `tasks/list` and `tasks/result` are not implemented."""
    for exchange in answered(history, method, declared=True):
        if exchange.code == -32601:
            yield good(exchange)
        elif exchange.error is None:
            yield bad(f"the target accepted {method!r}, which this revision removed", exchange)
        else:
            yield bad(f"the removed {method!r} got error {exchange.code!r}, not -32601", exchange)


# --- tasks of other principals --------------------------------------------------------------------


@check("2026-07-28:auth-on-each-request", needs="tokens of two principals")
def tasks_are_bound_to_principals(history: History) -> Iterator[Observation]:
    """Check that a task is inaccessible to other principals and without credentials."""
    found = modern(history)
    for exchange in found.calls(*_METHODS, "subscriptions/listen"):
        for id in _named(exchange):
            made = found.created.get(id)
            was_heard = exchange.head is not None or exchange.others
            if made is None or not was_heard or not _is_foreign(history, made, exchange):
                continue
            if exchange.method == "tasks/get" and is_acknowledged(exchange):
                yield bad("the target returned a task to another principal", made, exchange)
            elif id in _acknowledged_tasks(exchange):
                words = "the target accepted another principal's subscription to a task"
                yield bad(words, made, exchange)
            elif exchange.method in _METHODS[1:] and is_acknowledged(exchange):
                # It may have no effect, as with unknown tasks.
                words = f"the target accepted {exchange.method!r} for another principal's task"
                yield warning(words, made, exchange)
            else:
                yield good(made, exchange)


@check("2026-07-28:ids-as-bearer-tokens", needs="two callers without credentials")
def ids_may_be_bearer_tokens(history: History) -> Iterator[Observation]:
    """Record reads by other callers without credentials, for whom the id grants access."""
    found = modern(history)
    for get in found.calls("tasks/get"):
        made = found.created.get(get.task_id) if isinstance(get.task_id, str) else None
        if made is None or history.principals.get(get.request.caller) is not None:
            continue
        if made.request.line != get.request.line and is_acknowledged(get):
            yield good(made, get)


def _named(exchange: Exchange) -> list[str]:
    """Return the tasks that a request names."""
    wanted = exchange.params.get("notifications")
    ids = wanted.get("taskIds") if isinstance(wanted, dict) else None
    several = ids if isinstance(ids, list) else []
    return [id for id in (exchange.task_id, *several) if isinstance(id, str)]


def _acknowledged_tasks(exchange: Exchange) -> list[Any]:
    """Return the tasks in the acknowledgement of a subscription."""
    for entry in exchange.others:
        if entry.method == "notifications/subscriptions/acknowledged":
            agreed = entry.params.get("notifications")
            ids = agreed.get("taskIds") if isinstance(agreed, dict) else None
            return ids if isinstance(ids, list) else []
    return []


def _is_foreign(history: History, made: Exchange, exchange: Exchange) -> bool:
    """Return whether the creator's credentials differ from the caller's, which may be missing."""
    creating_call = history.principals.get(made.request.caller)
    if creating_call is None:
        return False
    has_no_credentials = "authorization" not in exchange.sent_headers
    return has_no_credentials or history.principals.get(exchange.request.caller) != creating_call
