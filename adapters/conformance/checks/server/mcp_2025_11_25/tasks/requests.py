"""The methods of 2025-11-25 for tasks: what they show, refuse, and with which code."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading.sightings import Life, life_of, terminal_final
from taskmachine.adapters.conformance.checks.reading.tasks_2025_11_25 import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    declares,
    is_overloaded,
    is_task_call,
    knows_tasks,
    lifetime_end,
    may_ask,
    requests_for,
    waited_in_vain,
)
from taskmachine.adapters.conformance.history import Entry, Exchange, History
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, warning

__all__: list[str] = []

INTERNAL_ERROR: Final = -32603
A_CANCEL: Final = "a task that can be cancelled"


# --- get -----------------------------------------------------------------------------------------


@check("2025-11-25:get-returns-task-flat", needs="a task")
def get_is_flat_and_prompt(history: History) -> Iterator[Observation]:
    """`tasks/get` answers with the task itself, and does not wait for it."""
    for exchange in history.calls("tasks/get"):
        if not isinstance(exchange.result, dict):
            continue
        life = life_of(history, exchange.task_id, exchange.request)
        if "taskId" not in exchange.fields:
            yield bad("'tasks/get' answers without a task in 'result'", exchange)
        elif life is not None and _waited_for_the_end(history, life, exchange):
            yield bad("'tasks/get' waited until the task was over", exchange)
        else:
            yield good(exchange)


@check("2025-11-25:get-not-upgraded-to-sse", needs="HTTP")
def get_is_no_stream(history: History) -> Iterator[Observation]:
    """`tasks/get` is answered with JSON."""
    for exchange in history.calls("tasks/get"):
        kind = _content_type(exchange)
        if "tasks" not in history.capabilities.get(exchange.request.line, {}):
            continue  # there are none, and so nobody polls
        if kind == "text/event-stream":
            yield bad("'tasks/get' is answered with a stream", exchange)
        elif kind == "application/json":
            yield good(exchange)


@check("2025-11-25:streamable-http-still-applies", needs="HTTP")
def answers_are_json_or_streams(history: History) -> Iterator[Observation]:
    """Requests for tasks are answered as all others; the rows of the transport say how."""
    for exchange in history.exchanges:
        is_about_tasks = exchange.method.startswith("tasks/") or is_task_call(exchange)
        if not is_about_tasks or exchange.status != 200:
            continue
        kind = _content_type(exchange)
        if kind in ("application/json", "text/event-stream"):
            yield good(exchange)
        else:
            yield bad(f"{exchange.method!r} is answered with the content type {kind!r}", exchange)


@check("2025-11-25:task-id-param-decides", needs="a task")
def the_parameter_names_the_task(history: History) -> Iterator[Observation]:
    """The task that is asked for is the one that is answered."""
    for exchange in history.calls("tasks/get", "tasks/cancel", "tasks/result"):
        if life_of(history, exchange.task_id, exchange.request) is None:
            continue
        shown = _answered_task(exchange)
        if shown == exchange.task_id:
            yield good(exchange)
        elif shown is not None:
            yield bad(f"asked for {exchange.task_id!r} it answered for {shown!r}", exchange)


# --- cancel --------------------------------------------------------------------------------------


@check("2025-11-25:cancel-capability", needs=A_CANCEL)
def cancel_is_declared(history: History) -> Iterator[Observation]:
    """`tasks/cancel` is served where it is declared, and only there."""
    for exchange in history.calls("tasks/cancel"):
        if not knows_tasks(history, exchange) or not exchange.is_answered:
            continue
        life = life_of(history, exchange.task_id, exchange.request)
        if not declares(history, exchange, "cancel"):
            if exchange.error is None:
                yield warning("'tasks/cancel' is served, but not declared", exchange)
            else:
                yield good(exchange)
        elif exchange.code == METHOD_NOT_FOUND:
            yield bad("'tasks/cancel' is declared, but not there", exchange)
        elif life is not None and _is_refused_alive(history, life, exchange):
            yield bad("a task that is not over cannot be cancelled", exchange)
        elif life is not None:
            yield good(exchange)


@check("2025-11-25:cancel-answers-with-task", needs=A_CANCEL)
def cancel_answers_with_the_task(history: History) -> Iterator[Observation]:
    """`tasks/cancel` answers with the task itself, cancelled."""
    for exchange in history.calls("tasks/cancel"):
        if exchange.error is not None or not exchange.is_answered:
            continue
        if "taskId" not in exchange.fields:
            yield bad("'tasks/cancel' answers without a task in 'result'", exchange)
        elif exchange.fields.get("status") != "cancelled":
            status = exchange.fields.get("status")
            yield bad(f"'tasks/cancel' answers with a task that is {status!r}", exchange)
        else:
            yield good(exchange)


@check("2025-11-25:cancelled-before-answer", needs=A_CANCEL)
def cancelled_when_the_cancel_is_answered(history: History) -> Iterator[Observation]:
    """When a cancel is answered the task is cancelled."""
    for life, exchange in _cancels(history):
        assert exchange.response is not None
        later = next((s for s in life.sightings if _is_asked_after(s, exchange.response)), None)
        status = exchange.fields.get("status")
        if "status" in exchange.fields and status != "cancelled":
            yield bad(f"a cancel was answered while the task was {status!r}", exchange)
        elif later is not None and later.status in ("working", "input_required"):
            yield bad(f"after a cancel was answered the task is {later.status!r}", exchange, later)
        else:
            yield good(exchange)


check("2025-11-25:cancelled-sticks", needs=A_CANCEL, statuses=("cancelled",))(terminal_final)


@check("2025-11-25:cancel-terminal-refused", needs=A_CANCEL)
def cancel_of_an_ended_task_is_refused(history: History) -> Iterator[Observation]:
    """A task that is over cannot be cancelled: -32602."""
    for exchange in history.calls("tasks/cancel"):
        life = life_of(history, exchange.task_id, exchange.request)
        ended = None if life is None else life.ended_before(exchange.request)
        if ended is None or not exchange.is_answered or is_overloaded(exchange):
            continue
        if exchange.code == INVALID_PARAMS:
            yield good(ended, exchange)
        elif exchange.error is None:
            yield bad(f"a cancel of a task that is {ended.status!r} was accepted", ended, exchange)
        elif declares(history, exchange, "cancel"):
            words = f"a cancel of a task that is {ended.status!r} is refused with {exchange.code}"
            yield bad(words, ended, exchange)


@check("2025-11-25:may-delete-cancelled", needs=A_CANCEL)
def cancelled_tasks_may_go(history: History) -> Iterator[Observation]:
    """A cancelled task may be there or not."""
    for life, exchange in _cancels(history):
        reads = requests_for(history, life.id, "tasks/get")
        later = next((r for r in reads if _is_answered_after(r, exchange)), None)
        if later is not None:
            yield good(exchange, later)


# --- errors --------------------------------------------------------------------------------------


@check("2025-11-25:result-unknown-32602", needs="tasks")
def result_of_nothing_is_refused(history: History) -> Iterator[Observation]:
    """`tasks/result` of a task that never was: -32602, without waiting."""
    yield from unknown_task_is_refused(history, "tasks/result")
    for exchange in _unknown(history, "tasks/result"):
        if waited_in_vain(history, exchange):
            yield bad("'tasks/result' waits for a task that never was", exchange)


@check("2025-11-25:internal-error-32603", needs="a target that fails by itself")
def internal_errors_have_their_code(history: History) -> Iterator[Observation]:
    """Whoever fails by himself says so, with -32603."""
    for exchange in history.calls("tasks/get", "tasks/list", "tasks/cancel"):
        words = "" if exchange.error is None else str(exchange.error.get("message")).lower()
        if exchange.code == INTERNAL_ERROR:
            yield good(exchange)
        elif exchange.error is not None and re.search(r"\binternal (server )?error\b", words):
            yield bad(f"an internal error has the code {exchange.code}", exchange)
        elif not exchange.is_answered and exchange.status >= 500 and exchange.status != 503:
            yield bad(f"HTTP status {exchange.status} instead of an error -32603", exchange)


@check("2025-11-25:informative-error-messages", needs="an error")
def errors_say_what_was_wrong(history: History) -> Iterator[Observation]:
    """Errors have words, and not the same ones for everything."""
    for exchange in history.calls("tasks/get", "tasks/list", "tasks/cancel"):
        if exchange.error is None:
            continue
        if _words(exchange):
            yield good(exchange)
        else:
            yield bad("an error without words", exchange)
    unknown = next((e for e in _unknown(history, "tasks/cancel") if e.error is not None), None)
    refused = next((e for e in _refused_cancels(history) if e.error is not None), None)
    if unknown is not None and refused is not None and _words(unknown) == _words(refused):
        words = "the words for an unknown task and for a task that is over are the same"
        yield bad(words, unknown, refused)


# --- what stands behind them ---------------------------------------------------------------------


def _content_type(exchange: Exchange) -> str | None:
    kind = exchange.headers.get("content-type")
    return None if kind is None else kind.partition(";")[0].strip().lower()


def _waited_for_the_end(history: History, life: Life, exchange: Exchange) -> bool:
    was_alive = any(
        not s.is_terminal and s.entry.number < exchange.request.number for s in life.sightings
    )
    is_over = exchange.fields.get("status") in ("completed", "failed")
    return was_alive and is_over and waited_in_vain(history, exchange)


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


def _cancels(history: History) -> Iterator[tuple[Life, Exchange]]:
    """The cancels that were accepted."""
    for exchange in history.calls("tasks/cancel"):
        life = life_of(history, exchange.task_id, exchange.request)
        if life is not None and exchange.is_answered and exchange.error is None:
            yield life, exchange


def _is_refused_alive(history: History, life: Life, exchange: Exchange) -> bool:
    """Whether a cancel was refused as if the task were over, and it was not, not even later."""
    if exchange.code != INVALID_PARAMS or exchange.response is None:
        return False
    if not may_ask(history, life, exchange) or life.ended_before(exchange.request):
        return False
    response = exchange.response
    return any(
        _is_asked_after(s, response) and s.status in ("working", "input_required")
        for s in life.sightings
    )


def _unknown(history: History, method: str) -> Iterator[Exchange]:
    """Requests for tasks that nobody ever saw, where there are tasks."""
    for exchange in history.calls(method):
        if not isinstance(exchange.request.body.get("params"), dict):
            continue
        if not knows_tasks(history, exchange) or repr(exchange.task_id) in _seen(history):
            continue
        if method != "tasks/cancel" or declares(history, exchange, "cancel"):
            yield exchange


@lru_cache(maxsize=4)
def _seen(history: History) -> frozenset[str]:
    """Ids of tasks; of any type, so that whatever was asked for can be looked up."""
    return frozenset(repr(sighting.id) for sighting in history.sightings)


@check("2025-11-25:get-unknown-32602", needs="tasks", method="tasks/get")
@check(
    "2025-11-25:cancel-unknown-32602",
    needs="a target that declares tasks.cancel",
    method="tasks/cancel",
)
def unknown_task_is_refused(history: History, method: str) -> Iterator[Observation]:
    """A request for a task that never was is refused with -32602."""
    for exchange in _unknown(history, method):
        if not exchange.is_answered or is_overloaded(exchange):
            continue
        if exchange.code == INVALID_PARAMS:
            yield good(exchange)
        elif exchange.error is not None:
            yield bad(f"{method!r} of an unknown task is refused with {exchange.code}", exchange)
        else:
            yield bad(f"{method!r} of an unknown task gives a result", exchange)


def _refused_cancels(history: History) -> Iterator[Exchange]:
    """Cancels of tasks that had ended, and must still be there."""
    for exchange in history.calls("tasks/cancel"):
        life = life_of(history, exchange.task_id, exchange.request)
        if life is None or exchange.code != INVALID_PARAMS:
            continue
        ended = life.ended_before(exchange.request)
        is_there = (exchange.heard_at or 0) < (lifetime_end(life) or 0)
        if is_there and ended is not None and ended.status != "cancelled":
            yield exchange


def _words(exchange: Exchange) -> str:
    """What an error says, without the id of the task."""
    words = (exchange.error or {}).get("message")
    text = words if isinstance(words, str) else ""
    return text.replace(str(exchange.task_id), "").strip()
