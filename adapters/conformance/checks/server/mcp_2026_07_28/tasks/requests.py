"""2026-07-28, the tasks extension: acknowledgements, cancelling, refusals, and who may ask."""

import re
from collections.abc import Iterator
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading.requests_2026_07_28 import TASKS, is_modern
from taskmachine.adapters.conformance.checks.reading.sightings import lives
from taskmachine.adapters.conformance.checks.reading.tasks_2026_07_28 import (
    answered,
    ends_at,
    is_acknowledged,
    is_by_creator,
    is_turned_away,
    modern,
    of_task,
    proper,
    supports_tasks,
    was_cancelled,
    was_known,
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
"""Longer ids may not get through headers."""
_INTERNAL: Final = re.compile(r"internal (server )?error", re.IGNORECASE)


# --- acknowledgements ----------------------------------------------------------------------------


def _acknowledgements(history: History, method: str) -> Iterator[Exchange]:
    for exchange in modern(history).calls(method):
        if is_acknowledged(exchange) and is_modern(exchange):
            yield exchange


@check("2026-07-28:update-ack-empty", needs="a task that asks", method="tasks/update")
@check("2026-07-28:cancel-ack-empty", needs="a task", method="tasks/cancel")
def acknowledgement_is_empty(history: History, method: str) -> Iterator[Observation]:
    """`tasks/update` and `tasks/cancel` are answered with nothing."""
    for exchange in _acknowledgements(history, method):
        more = [name for name in exchange.fields if name not in ("resultType", "_meta")]
        known = [name for name in more if name in _OF_TASKS]
        if not isinstance(exchange.result, dict):
            yield bad(f"the acknowledgement of {method} is {exchange.result!r}", exchange)
        elif known:
            yield bad(f"the acknowledgement of {method} has {known[0]!r}", exchange)
        elif more:  # of an extension that nobody here knows
            yield note(f"the acknowledgement of {method} has {more[0]!r}", exchange)
        else:
            yield good(exchange)


@check("2026-07-28:update-result-type-complete", needs="a task that asks", method="tasks/update")
@check("2026-07-28:cancel-result-type-complete", needs="a task", method="tasks/cancel")
def acknowledgement_is_complete(history: History, method: str) -> Iterator[Observation]:
    """That answer has `resultType: "complete"`."""
    for exchange in _acknowledgements(history, method):
        kind = exchange.fields.get("resultType")
        if kind == "complete":
            yield good(exchange)
        else:
            yield bad(f"the acknowledgement of {method} has 'resultType' {kind!r}", exchange)


# --- cancelling ----------------------------------------------------------------------------------


def _cancels(history: History, *, ended: bool) -> Iterator[tuple[Exchange, Any]]:
    """Cancels of tasks that must be there, with the end of the task if that was seen before."""
    found = modern(history)
    for cancel in answered(history, "tasks/cancel", declared=True):
        over = ends_at(found, cancel.task_id, cancel.request)
        if over is None or (cancel.heard_at or 0) > over or not is_by_creator(found, cancel):
            continue
        end = found.ended_before(cancel.task_id, cancel.request)
        if (end is not None) is ended:
            yield cancel, end


@check("2026-07-28:cancel-cooperative", needs="a task that can be cancelled while it works")
def cancel_is_acknowledged(history: History) -> Iterator[Observation]:
    """The cancel of a running task is acknowledged; no more is owed."""
    for cancel, _ in _cancels(history, ended=False):
        if is_acknowledged(cancel):
            yield good(cancel)
        elif not was_cancelled(history, cancel.task_id, cancel.request):
            made = modern(history).created[cancel.task_id]
            words = f"the cancel of a running task gave error {cancel.code!r}"
            yield bad(words, made, cancel)


@check("2026-07-28:cancel-terminal-acked", needs="a task that is cancelled after its end")
def late_cancel_is_acknowledged(history: History) -> Iterator[Observation]:
    """The cancel of a task that has ended is acknowledged, too."""
    for cancel, end in _cancels(history, ended=True):
        if is_acknowledged(cancel):
            yield good(end, cancel)
        elif not was_cancelled(history, cancel.task_id, cancel.request):
            yield bad(f"the cancel of an ended task gave error {cancel.code!r}", end, cancel)


@check(
    "2026-07-28:cancel-status-may-lag",
    needs="a target that cancels slowly",
    statuses=("working", "input_required"),
)
@check(
    "2026-07-28:cancel-may-lose",
    needs="a task that ends otherwise in spite of a cancel",
    statuses=("completed", "failed"),
)
def task_after_its_cancel(history: History, statuses: tuple[str, ...]) -> Iterator[Observation]:
    """After the acknowledgement a task may still run, or end otherwise."""
    for life in lives(modern(history)):
        for cancel in of_task(history, life, "tasks/cancel"):
            if cancel.response is None or not is_acknowledged(cancel):
                continue
            heard = cancel.response.number
            later = [s for s in life.sightings if s.exchange and s.exchange.request.number > heard]
            was_running = modern(history).ended_before(life.id, cancel.request) is None
            if later and later[0].status in statuses and was_running:
                yield good(cancel, later[0])


# --- unknown tasks -------------------------------------------------------------------------------


@check("2026-07-28:get-unknown-32602", needs="the extension", method="tasks/get")
@check("2026-07-28:update-unknown-32602", needs="the extension", method="tasks/update")
@check("2026-07-28:cancel-unknown-32602", needs="the extension", method="tasks/cancel")
def unknown_task_is_refused(history: History, method: str) -> Iterator[Observation]:
    """A request for an id that was never issued, or is none, is refused with -32602."""
    if not supports_tasks(history):
        return
    for exchange in answered(history, method, declared=True):
        if was_known(history, exchange.task_id) or len(str(exchange.task_id)) > _LONG:
            continue
        what = "an unknown task" if isinstance(exchange.task_id, str) else "an id that is none"
        if exchange.code == -32602:
            yield good(exchange)
        elif exchange.error is None:
            yield bad(f"{method} of {what} was served", exchange)
        else:
            yield bad(f"{method} of {what} gave {exchange.code!r}, not -32602", exchange)


# --- undeclared ----------------------------------------------------------------------------------


@check("2026-07-28:get-missing-capability-32021", needs="the extension", method="tasks/get")
@check("2026-07-28:update-missing-capability-32021", needs="the extension", method="tasks/update")
@check("2026-07-28:cancel-missing-capability-32021", needs="the extension", method="tasks/cancel")
def extension_is_needed(history: History, method: str) -> Iterator[Observation]:
    """A request for a task without the declaration is refused with -32021."""
    if not supports_tasks(history):
        return
    for exchange in answered(history, method, declared=False):
        if not isinstance(exchange.task_id, str):
            continue  # two faults: either may be reported
        if exchange.code == -32021:
            yield good(exchange)
        elif exchange.error is None:
            yield bad(f"{method} was served without the extension", exchange)
        else:
            words = f"{method} without the extension gave {exchange.code!r}, not -32021"
            yield bad(words, exchange)


@check("2026-07-28:missing-capability-names-extension", needs="the extension")
def refusal_names_the_extension(history: History) -> Iterator[Observation]:
    """A refusal with -32021 says that it is the extension that is missing.

    A call may lack something else besides, so there it is enough that something is named.
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
            yield bad("-32021 does not name the extension that is missing", exchange)


# --- other errors --------------------------------------------------------------------------------


@check("2026-07-28:standard-jsonrpc-errors", needs="the extension")
def errors_have_standard_codes(history: History) -> Iterator[Observation]:
    """What is wrong with a task request is told by -32602, -32603 or -32021."""
    if not supports_tasks(history):
        return
    for exchange in answered(history, *_METHODS):
        if exchange.error is None:
            continue
        if exchange.code in _CODES:
            yield good(exchange)
        else:
            words = f"{exchange.method} gave {exchange.code!r}, none of the codes of the extension"
            yield bad(words, exchange)


@check("2026-07-28:internal-error-32603", needs="a target that fails on its own account")
def internal_errors_have_their_code(history: History) -> Iterator[Observation]:
    """An internal error, by its words or its HTTP status, has the code -32603."""
    for exchange in proper(history):
        if exchange.method not in (*_METHODS, "tools/call") or is_turned_away(exchange):
            continue
        message = (exchange.error or {}).get("message")
        is_told = isinstance(message, str) and _INTERNAL.search(message) is not None
        if exchange.code == -32603:
            yield good(exchange)
        elif is_told or exchange.status == 500:
            yield bad(f"an internal error has the code {exchange.code!r}, not -32603", exchange)


@check("2026-07-28:informative-error-messages", needs="the extension")
def errors_are_told_apart(history: History) -> Iterator[Observation]:
    """Refusals have a message, and different ones for different causes."""
    unknown: dict[str, Exchange] = {}
    for exchange in answered(history, *_METHODS, declared=True):
        if exchange.code == -32602:
            unknown.setdefault(str((exchange.error or {}).get("message")), exchange)
    for exchange in answered(history, *_METHODS):
        if exchange.error is None:
            continue
        message = exchange.error.get("message")
        if not isinstance(message, str) or not message.strip():
            yield bad("an error without a message", exchange)
        elif exchange.code == -32021 and message in unknown:
            words = "an unknown task and a missing capability have the same message"
            yield bad(words, unknown[message], exchange)
        else:
            yield good(exchange)


@check("2026-07-28:no-tasks-list", needs="the extension", method="tasks/list")
@check("2026-07-28:tasks-result-gone-32601", needs="the extension", method="tasks/result")
def method_is_gone(history: History, method: str) -> Iterator[Observation]:
    """`tasks/list` and `tasks/result` are no methods."""
    for exchange in answered(history, method, declared=True):
        if exchange.code == -32601:
            yield good(exchange)
        elif exchange.error is None:
            yield bad(f"{method} was served", exchange)
        else:
            yield bad(f"{method} gave {exchange.code!r}, not -32601", exchange)


# --- others' tasks -------------------------------------------------------------------------------


@check("2026-07-28:auth-on-each-request", needs="tokens of two callers")
def tasks_belong_to_somebody(history: History) -> Iterator[Observation]:
    """A task is shown neither to another principal nor to one without credentials."""
    found = modern(history)
    for exchange in found.calls(*_METHODS, "subscriptions/listen"):
        for id in _named(exchange):
            made = found.created.get(id)
            was_heard = exchange.head is not None or exchange.others
            if made is None or not was_heard or not _is_foreign(history, made, exchange):
                continue
            if exchange.method == "tasks/get" and is_acknowledged(exchange):
                yield bad("a task was shown to somebody else", made, exchange)
            elif id in _promised(exchange):
                yield bad("somebody else may listen to a task", made, exchange)
            elif exchange.method in _METHODS[1:] and is_acknowledged(exchange):
                # Nothing may come of it, as with unknown tasks.
                words = f"{exchange.method} of a task of somebody else was acknowledged"
                yield warning(words, made, exchange)
            else:
                yield good(made, exchange)


@check("2026-07-28:ids-as-bearer-tokens", needs="two callers without credentials")
def ids_may_be_secrets(history: History) -> Iterator[Observation]:
    """Where nobody has credentials, who knows the id may read the task."""
    found = modern(history)
    for get in found.calls("tasks/get"):
        made = found.created.get(get.task_id) if isinstance(get.task_id, str) else None
        if made is None or history.principals.get(get.request.caller) is not None:
            continue
        if made.request.line != get.request.line and is_acknowledged(get):
            yield good(made, get)


def _named(exchange: Exchange) -> list[str]:
    """The tasks that a request is about."""
    wanted = exchange.params.get("notifications")
    ids = wanted.get("taskIds") if isinstance(wanted, dict) else None
    several = ids if isinstance(ids, list) else []
    return [id for id in (exchange.task_id, *several) if isinstance(id, str)]


def _promised(exchange: Exchange) -> list[Any]:
    """The tasks that a subscription will tell of."""
    for entry in exchange.others:
        if entry.method == "notifications/subscriptions/acknowledged":
            agreed = entry.params.get("notifications")
            ids = agreed.get("taskIds") if isinstance(agreed, dict) else None
            return ids if isinstance(ids, list) else []
    return []


def _is_foreign(history: History, made: Exchange, exchange: Exchange) -> bool:
    """Whether the task was made with credentials, and is asked for with others or without."""
    maker = history.principals.get(made.request.caller)
    if maker is None:
        return False
    is_bare = "authorization" not in exchange.sent_headers
    return is_bare or history.principals.get(exchange.request.caller) != maker
