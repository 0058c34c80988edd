"""Checks of `tasks/result` (2025-11-25)."""

from collections.abc import Iterator
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading.order import SOON_MS
from taskmachine.adapters.conformance.checks.reading.sightings import Life, life_of
from taskmachine.adapters.conformance.checks.reading.tasks_2025_11_25 import (
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    cancelled_requests,
    is_overloaded,
    may_ask,
    outcome,
    plain_calls,
    requests_for,
    settled,
    support,
    waited_in_vain,
)
from taskmachine.adapters.conformance.history import Exchange, History, Kind, Sighting
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, note, warning

__all__: list[str] = []

AN_END: Final = "a task that completes"
NEXT_MS: Final = 100.0
SLOW_WORK: Final = "a task that runs for several seconds"


# --- when the response is sent --------------------------------------------------------------------


@check("2025-11-25:result-blocks", needs=SLOW_WORK)
def result_blocks(history: History) -> Iterator[Observation]:
    """Check that `tasks/result` responds when the task ends, and not before."""
    for life, asked in _asked(history):
        if asked.response is not None and not _is_given_up(history, asked):
            later = next((s for s in life.sightings if _is_alive_after(s, asked)), None)
            if later is not None:
                yield bad(
                    "'tasks/result' returned before the task ended: afterwards it was "
                    f"{later.status!r}",
                    asked,
                    later,
                )
                continue
        ended = next((s for s in life.sightings if s.is_terminal), None)
        if ended is None or ended.entry.number < asked.request.number:
            continue
        if _late_ms(asked, ended) > SOON_MS and waited_in_vain(history, asked):
            yield bad("'tasks/result' did not return although the task had ended", asked, ended)
        elif any(_is_alive_during(s, asked) for s in life.sightings):
            yield good(asked, ended)


@check("2025-11-25:result-of-terminal-task", needs=AN_END)
def result_of_an_ended_task_comes(history: History) -> Iterator[Observation]:
    """Check that `tasks/result` of a task that has ended responds immediately."""
    for life, asked in _asked(history):
        ended = life.ended_before(asked.request)
        if ended is None or ended.status == "cancelled":
            continue
        if waited_in_vain(history, asked):
            yield bad(
                "'tasks/result' did not return for a task that had already ended", ended, asked
            )
        elif asked.is_answered:
            yield good(ended, asked)


@check("2025-11-25:result-of-cancelled-task", needs="a task that is cancelled")
def result_of_a_cancelled_task_comes(history: History) -> Iterator[Observation]:
    """Check that `tasks/result` of a cancelled task responds; the specification leaves open how."""
    for life, asked in _asked(history):
        ended = life.ended_before(asked.request)
        if ended is None or ended.status != "cancelled":
            continue
        if waited_in_vain(history, asked):
            yield bad("'tasks/result' of a cancelled task did not return", ended, asked)
        elif asked.error is not None:
            yield good(ended, asked)
        elif asked.is_answered:
            yield note(
                "'tasks/result' of a cancelled task returned a result, not an error", ended, asked
            )


@check("2025-11-25:get-works-while-result-blocks", needs=SLOW_WORK)
def get_is_served_meanwhile(history: History) -> Iterator[Observation]:
    """Check that `tasks/get` is served while `tasks/result` blocks."""
    for _, asked in _asked(history):
        over = asked.response or asked.end
        for get in requests_for(history, asked.task_id, "tasks/get"):
            if get.request.number < asked.request.number:
                continue
            if over is not None and get.request.number > over.number:
                break
            if waited_in_vain(history, get) or _is_served_next(get, asked):
                words = "the target does not respond to 'tasks/get' while 'tasks/result' blocks"
                yield bad(words, asked.request, get)
            elif get.is_answered:
                yield good(asked.request, get)


@check("2025-11-25:result-request-cancellable", needs=SLOW_WORK)
def giving_up_a_wait_ends_the_wait_only(history: History) -> Iterator[Observation]:
    """Check that cancelling a `tasks/result` request does not cancel the task."""
    for life, asked in _asked(history):
        is_cancelled = requests_for(history, life.id, "tasks/cancel")
        if not _is_given_up(history, asked) or is_cancelled:
            continue
        for later in life.sightings:
            if later.exchange is None or later.exchange.request.number < asked.request.number:
                continue
            if later.status == "cancelled":
                yield bad(
                    "cancelling the 'tasks/result' request, or its connection, cancelled the task",
                    asked,
                    later,
                )
                break
            yield good(asked, later)


# --- content of the response ----------------------------------------------------------------------


@check("2025-11-25:result-exactly-underlying", needs=AN_END)
def result_is_that_of_the_call(history: History) -> Iterator[Observation]:
    """Check that a task has a single outcome, which is that of the call.

    A tool may return different values to a plain call: a difference in values is only a warning,
    and only if two plain calls agree.
    """
    first: dict[str, Exchange] = {}
    for life, asked in settled(history):
        earlier = first.setdefault(life.id, asked)
        if outcome(earlier) != outcome(asked):
            yield bad("two responses to 'tasks/result' for the same task differ", earlier, asked)
            continue
        if earlier is not asked:
            yield good(earlier, asked)
        yield from _compared(history, life, asked)


@check("2025-11-25:result-matches-request-type", needs=AN_END)
def result_is_of_the_type_of_the_call(history: History) -> Iterator[Observation]:
    """Check that the result is a tool result and not a task."""
    for _, asked in settled(history):
        if asked.error is not None:
            continue
        if "taskId" in asked.fields or isinstance(asked.fields.get("task"), dict):
            yield bad("'tasks/result' returned a task instead of a tool result", asked)
        elif not isinstance(asked.fields.get("content"), list):
            yield bad(
                "'tasks/result' did not return a tool result: 'content' is missing or not an array",
                asked,
            )
        else:
            yield good(asked)


@check("2025-11-25:result-is-success-response", needs="a tool that returns 'isError'")
def a_result_stays_a_result(history: History) -> Iterator[Observation]:
    """Check that the result of a call does not become an error of `tasks/result`."""
    for life, asked in settled(history):
        plain = _plain(history, life)
        is_sure = len(plain) > 1 or _end(life, asked) == "completed"
        if not plain or any(call.error is not None for call in plain):
            continue
        if asked.error is None:
            yield good(plain[0], asked)
        elif is_sure:
            words = "a plain call returns a result, but 'tasks/result' returns an error"
            yield bad(words, plain[0], asked)


@check("2025-11-25:result-same-error", needs="a tool call that ends with a JSON-RPC error")
def an_error_stays_the_same(history: History) -> Iterator[Observation]:
    """Check that `tasks/result` returns the same error as the call."""
    for life, asked in settled(history):
        plain = _plain(history, life)
        errors = [call.error for call in plain]
        if len(plain) < 2 or errors[0] is None or any(error != errors[0] for error in errors):
            continue
        if plain[0].code in (METHOD_NOT_FOUND, INVALID_REQUEST):
            continue  # The target rejects the call, not the tool.
        if asked.error is None:
            words = "a plain call returns an error, but 'tasks/result' returns a result"
            yield bad(words, plain[0], asked)
        elif asked.code != plain[0].code:
            words = (
                f"the error code is {plain[0].code} for a plain call, but {asked.code} for "
                "'tasks/result'"
            )
            yield bad(words, plain[0], asked)
        elif asked.error != plain[0].error:
            yield warning(
                "the error of 'tasks/result' differs from that of a plain call", plain[0], asked
            )
        else:
            yield good(plain[0], asked)


# --- status and outcome ---------------------------------------------------------------------------


@check("2025-11-25:status-completed", needs="a task that completes")
def completed_has_a_result(history: History) -> Iterator[Observation]:
    """Check that a completed task has a result."""
    for life, asked in settled(history):
        if _end(life, asked) != "completed":
            continue
        if asked.error is not None:
            words = f"'tasks/result' of a completed task returned the error {asked.code}"
            yield bad(words, *life.sightings[-1:], asked)
        else:
            yield good(asked)


@check("2025-11-25:status-failed", needs="a task that fails")
def failed_has_an_error(history: History) -> Iterator[Observation]:
    """Check that a failed task has a JSON-RPC error or a result with `isError`."""
    for life, asked in settled(history):
        if _end(life, asked) != "failed":
            continue
        if asked.error is None and asked.fields.get("isError") is not True:
            yield bad("a failed task has a result without 'isError'", *life.sightings[-1:], asked)
        else:
            yield good(asked)


@check("2025-11-25:failed-on-jsonrpc-error", needs="a tool call that ends with a JSON-RPC error")
def an_error_makes_it_failed(history: History) -> Iterator[Observation]:
    """Check that a task whose call ends with a JSON-RPC error is `failed`."""
    for life, asked in settled(history):
        if asked.error is None:
            continue
        if _end(life, asked) == "failed":
            yield good(asked)
        else:
            words = f"'tasks/result' returned the error {asked.code}, but the task is not 'failed'"
            yield bad(words, asked)


@check("2025-11-25:failed-on-is-error", needs="a tool that returns 'isError'")
def an_error_of_the_tool_makes_it_failed(history: History) -> Iterator[Observation]:
    """Check that a task whose result has `isError` is `failed`; lower-case "should" in the text."""
    for life, asked in settled(history):
        if asked.fields.get("isError") is not True:
            continue
        if _end(life, asked) == "failed":
            yield good(asked)
        else:
            words = "the tool result has 'isError', but the task is 'completed' instead of 'failed'"
            yield warning(words, *life.sightings[-1:], asked)


@check("2025-11-25:failed-status-message", needs="a task that fails")
def failed_says_why(history: History) -> Iterator[Observation]:
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


def _asked(history: History) -> Iterator[tuple[Life, Exchange]]:
    """Yield `tasks/result` requests of callers with access, without those rejected for load."""
    for exchange in history.calls("tasks/result"):
        life = life_of(history, exchange.task_id, exchange.request)
        if life is None or is_overloaded(exchange):
            continue
        if may_ask(history, life, exchange):
            yield life, exchange


def _is_alive_after(sighting: Sighting, asked: Exchange) -> bool:
    if sighting.exchange is None or asked.response is None:
        return False
    is_later = sighting.exchange.request.number > asked.response.number
    return is_later and sighting.status in ("working", "input_required")


def _is_alive_during(sighting: Sighting, asked: Exchange) -> bool:
    if sighting.exchange is None or sighting.is_terminal:
        return False
    is_later = sighting.exchange.request.number > asked.request.number
    return is_later and (asked.response is None or sighting.entry.number < asked.response.number)


def _is_served_next(get: Exchange, asked: Exchange) -> bool:
    """Return whether a slow `tasks/get` responded only just after `tasks/result` did."""
    if get.response is None or asked.response is None or (get.waited_ms or 0) < SOON_MS:
        return False
    return 0 < get.response.at - asked.response.at < NEXT_MS


def _late_ms(asked: Exchange, ended: Sighting) -> float:
    """Return the time from the known end of the task to the response or the end of the wait."""
    last = asked.response
    if last is None and asked.end is not None and asked.end.kind is Kind.GAVE_UP:
        last = asked.end
    return 0.0 if last is None else last.at - ended.until


def _is_given_up(history: History, asked: Exchange) -> bool:
    """Return whether the client disconnected or cancelled the request."""
    key = asked.request.line, repr(asked.request.body.get("id"))
    is_left = asked.end is not None and asked.end.kind is Kind.LEFT and not asked.is_answered
    return is_left or key in cancelled_requests(history)


def _end(life: Life, asked: Exchange) -> Any:
    ended = life.ended_before(asked.request)
    return None if ended is None else ended.status


def _plain(history: History, life: Life) -> list[Exchange]:
    """Return plain calls of the same tool with the same arguments, if it allows plain calls."""
    created = None if life.created is None else life.created.exchange
    if created is None or support(history, created) == "required":
        return []
    return plain_calls(history, created)


def _compared(history: History, life: Life, asked: Exchange) -> Iterator[Observation]:
    plain = [call for call in _plain(history, life) if call.error is None]
    if not plain or asked.error is not None:
        return
    expected, found = outcome(plain[0])["result"], outcome(asked)["result"]
    if expected == found:
        yield good(plain[0], asked)
    elif len(plain) > 1 and all(outcome(call) == outcome(plain[0]) for call in plain):
        if {*expected} != {*found}:
            names = ", ".join(sorted({*expected} ^ {*found}))
            words = f"'tasks/result' and a plain call differ in {names}"
            yield bad(words, plain[0], asked)
        else:
            yield warning(
                "'tasks/result' and a plain call return different values", plain[0], asked
            )
