"""Checks of multi round-trip requests: input requests, retries, and `requestState`."""

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading.input_requests import (
    REQUIRED_CAPABILITY,
    InputResponse,
    all_input_requests,
    all_input_responses,
    input_requests,
)
from taskmachine.adapters.conformance.checks.reading.invalid_responses import (
    is_sampling_result,
    outcome_after,
    still_requested,
)
from taskmachine.adapters.conformance.checks.reading.order import SOON_MS, exited_after
from taskmachine.adapters.conformance.checks.reading.outcomes import outcome_of_call
from taskmachine.adapters.conformance.history import Exchange, History
from taskmachine.adapters.conformance.judging import (
    Observation,
    bad,
    cannot_check,
    check,
    good,
    note,
    warning,
)

__all__ = ["first_calls", "rounds"]

STATE = "a tool that requests input and returns a `requestState`"


@lru_cache(maxsize=2)
def rounds(history: History) -> tuple[tuple[Exchange, Exchange], ...]:
    """Return each correct retry of a call, with the result that requested input."""
    found = []
    issued = _issued_states(history)
    for retry in history.calls("tools/call"):
        if "inputResponses" not in retry.params and "requestState" not in retry.params:
            continue
        state = retry.params.get("requestState")
        origins = [
            origin
            for origin in issued.get(state if isinstance(state, str) else None, ())
            if origin.response is not None
            and origin.response.number < retry.request.number
            and origin.request.caller == retry.request.caller
            and _identity(origin) == _identity(retry)
        ]
        if origins and (state is None or isinstance(state, str)):
            found.append((origins[-1], retry))
    return tuple(found)


def first_calls(history: History) -> Iterator[tuple[Exchange, Exchange]]:
    """Yield pairs of the same call whose first one requested input and was not retried between."""
    waiting: dict[Any, Exchange] = {}
    for call in history.calls("tools/call"):
        key = (call.request.line, call.request.caller, _identity(call))
        first = waiting.get(key)
        if {"inputResponses", "requestState"} & call.params.keys():
            state = call.params.get("requestState")
            if first is not None and first.fields.get("requestState") == state:
                del waiting[key]
            continue
        if first is not None and first.response and first.response.number < call.request.number:
            yield first, call
        if call.fields.get("resultType") == "input_required":
            waiting[key] = call


@lru_cache(maxsize=2)
def _issued_states(history: History) -> dict[str | None, list[Exchange]]:
    """Return the results that request input, by their `requestState`."""
    found: dict[str | None, list[Exchange]] = {}
    for exchange in history.calls("tools/call"):
        if exchange.fields.get("resultType") == "input_required":
            state = exchange.fields.get("requestState")
            if state is None or isinstance(state, str):
                found.setdefault(state, []).append(exchange)
    return found


def _identity(call: Exchange) -> str:
    """Return what identifies a call."""
    about = [call.params.get("name"), call.params.get("arguments")]
    return json.dumps(about, sort_keys=True)


def _calls_with_state(history: History) -> Iterator[tuple[Exchange, list[Exchange]]]:
    """Yield calls with a `requestState`, each with the results that issued it."""
    issued = _issued_states(history)
    for retry in history.calls("tools/call"):
        state = retry.params.get("requestState")
        if isinstance(state, str):
            yield (
                retry,
                [
                    origin
                    for origin in issued.get(state, ())
                    if origin.response and origin.response.number < retry.request.number
                ],
            )


def _verdict(history: History, retry: Exchange, words: str) -> Iterator[Observation]:
    """Yield good if the retry was rejected or requested input again, bad if it succeeded."""
    outcome = outcome_of_call(history, retry)
    if outcome is not None and outcome.kind == "success":
        yield bad(words, retry, outcome.where)
    elif outcome is not None or retry.fields.get("resultType") == "input_required":
        yield good(retry)


@check("2026-07-28:request-state-untrusted", needs=STATE)
def unknown_state_is_harmless(history: History) -> Iterator[Observation]:
    """Check that an unknown `requestState` causes no failure."""
    for retry, origins in _calls_with_state(history):
        if origins or not _issued_states(history):
            continue
        gone = exited_after(history, retry.request)
        if retry.status >= 500 and retry.status != 503:
            yield bad(f"a modified `requestState` got HTTP status {retry.status}", retry)
        elif gone is not None:
            words = "the target's process exited after a modified `requestState`"
            yield bad(words, retry.request, gone)
        elif retry.is_answered:
            yield good(retry)


@check(
    "2026-07-28:request-state-protected",
    "2026-07-28:request-state-rejected-if-tampered",
    needs=STATE,
)
def rejected_if_tampered(history: History) -> Iterator[Observation]:
    """Check that a modified `requestState` is rejected.

    The target may accept it if nothing depends on it, which the tester cannot know: only a warning.
    """
    if not any(state is not None for state in _issued_states(history)):
        return
    for retry, origins in _calls_with_state(history):
        if origins:
            continue
        for seen in _verdict(history, retry, "the target accepted a modified `requestState`"):
            yield seen if seen.outcome == "good" else warning(seen.words, *seen.evidence)


@check("2026-07-28:request-state-bound-to-principal", needs=f"{STATE}, and two principals")
def bound_to_principal(history: History) -> Iterator[Observation]:
    """Check that the `requestState` of another principal is rejected."""
    for retry, origins in _calls_with_state(history):
        who = history.principals.get(retry.request.caller)
        owners = {history.principals.get(origin.request.caller) for origin in origins}
        if origins and who not in owners:
            yield from _verdict(
                history, retry, "the target accepted the `requestState` of another principal"
            )


@check("2026-07-28:request-state-bound-to-request", needs=STATE)
def bound_to_request(history: History) -> Iterator[Observation]:
    """Check that the `requestState` of another call is rejected, if the tool uses states."""
    origins = (origin for issued in _issued_states(history).values() for origin in issued)
    readers = [origin.params.get("name") for origin in origins]
    for retry, owners in _calls_with_state(history):
        is_other = _identity(retry) not in {_identity(origin) for origin in owners}
        if owners and is_other and retry.params.get("name") in readers:
            yield from _verdict(
                history, retry, "the target accepted the `requestState` of a different call"
            )


cannot_check(
    "The specification sets no lifetime, which may exceed the duration of a run.",
    "2026-07-28:request-state-expires",
)
cannot_check(
    "The protocol does not show whether a tool call may only take effect once.",
    "2026-07-28:request-state-single-use",
)


MAY_REQUEST_INPUT: Final = ("tools/call", "prompts/get", "resources/read")
A_REQUEST = "a tool that requests input"
REFUSED: Final = (-32600, -32602)
"""Codes for invalid parameters; any other code may be a limit, or a failure of the tool."""


def _input_required_results(history: History) -> Iterator[Exchange]:
    """Yield the results that request input."""
    for exchange in history.exchanges:
        if exchange.fields.get("resultType") == "input_required":
            yield exchange


# --- how a server requests input --------------------------------------------------------------


@check("2026-07-28:server-sends-no-requests")
def no_requests(history: History) -> Iterator[Observation]:
    """Check that a server sends no requests."""
    for entry in history.heard:
        if entry.is_request:
            words = f"the target sent the request {entry.method!r}; servers send no requests"
            yield bad(words, entry)
    for exchange in history.calls("tools/call", "tasks/get"):
        if exchange.is_answered:
            yield good(exchange)


@check("2026-07-28:questions-by-mrtr", needs=A_REQUEST)
def input_requested_in_results(history: History) -> Iterator[Observation]:
    """Check that input is requested in a result or in a task."""
    for entry in history.heard:
        if entry.is_request and entry.method in REQUIRED_CAPABILITY:
            words = f"the target sent {entry.method!r} as a request instead of inside a result"
            yield bad(words, entry)
    for requested in all_input_requests(history):
        yield good(requested.where)


@check("2026-07-28:request-scoped-notifications", needs="a tool that reports progress")
def request_scoped_notifications(history: History) -> Iterator[Observation]:
    """Record notifications that precede the response to their call."""
    for exchange in history.exchanges:
        for entry in exchange.others:
            if entry.is_notification:
                yield good(exchange.request, entry)
    for entry in history.notifications("notifications/progress", "notifications/message"):
        if entry.post is None:
            yield good(entry)


@check("2026-07-28:mrtr-supported-requests", "2026-07-28:mrtr-server-may-ask", needs=A_REQUEST)
def supported_requests(history: History) -> Iterator[Observation]:
    """Record input requests in results of the three methods that allow them."""
    for exchange in _input_required_results(history):
        if exchange.method in MAY_REQUEST_INPUT:
            yield good(exchange)


@check("2026-07-28:mrtr-no-other-requests")
def no_other_requests(history: History) -> Iterator[Observation]:
    """Check that other methods return no `input_required`."""
    for exchange in history.exchanges:
        if exchange.method in MAY_REQUEST_INPUT or not exchange.fields:
            continue
        if exchange.fields.get("resultType") == "input_required":
            yield bad(f"the target returned `input_required` for {exchange.method!r}", exchange)
        else:
            yield good(exchange)


# --- content of input requests ----------------------------------------------------------------


@check("2026-07-28:mrtr-input-requests-optional", needs=A_REQUEST)
def input_requests_optional(history: History) -> Iterator[Observation]:
    """Note `inputRequests` that are not an object; they are optional."""
    for exchange in _input_required_results(history):
        if isinstance(exchange.fields.get("inputRequests", {}), dict):
            yield good(exchange)
        else:
            yield note("`inputRequests` is not an object", exchange)


@check("2026-07-28:mrtr-request-state-optional", needs=A_REQUEST)
def request_state_optional(history: History) -> Iterator[Observation]:
    """Note a `requestState` that is not a string; it is optional."""
    for exchange in _input_required_results(history):
        if isinstance(exchange.fields.get("requestState", ""), str):
            yield good(exchange)
        else:
            yield note("`requestState` is not a string", exchange)


@check("2026-07-28:mrtr-something-to-do", needs=A_REQUEST)
def something_to_do(history: History) -> Iterator[Observation]:
    """Check that at least one of the two is present."""
    for exchange in _input_required_results(history):
        if {"inputRequests", "requestState"} & exchange.fields.keys():
            yield good(exchange)
        else:
            words = "an `input_required` result has neither `inputRequests` nor `requestState`"
            yield bad(words, exchange)


@check("2026-07-28:input-request-kinds", needs=A_REQUEST)
def input_request_kinds(history: History) -> Iterator[Observation]:
    """Check that the method of each input request is one of the three allowed."""
    for requested in all_input_requests(history):
        if isinstance(requested.method, str) and requested.method in REQUIRED_CAPABILITY:
            yield good(requested.where)
        else:
            words = f"an input request has the unknown method {requested.method!r}"
            yield bad(words, requested.where)


@check("2026-07-28:mrtr-declared-kinds-only", needs=A_REQUEST)
def declared_kinds_only(history: History) -> Iterator[Observation]:
    """Check that input requests use only capabilities that the client declared."""
    for requested in all_input_requests(history):
        capability = (
            REQUIRED_CAPABILITY.get(requested.method) if isinstance(requested.method, str) else None
        )
        if capability is None or requested.declared is None:
            continue
        if capability in requested.declared:
            yield good(requested.where)
        else:
            words = f"the client did not declare the capability for {requested.method!r}"
            yield bad(words, requested.where)


# --- retries and input responses --------------------------------------------------------------


@check("2026-07-28:mrtr-no-assumed-retry", needs=A_REQUEST)
def no_assumed_retry(history: History) -> Iterator[Observation]:
    """Check that a call that is never retried does not block the next one."""
    for first, second in first_calls(history):
        if second.is_answered:
            yield good(first, second)
        elif (second.waited_ms or 0) > SOON_MS:
            words = "a call is blocked by an earlier call that the client did not retry"
            yield bad(words, first, second)


@check("2026-07-28:mrtr-may-ask-again", needs="a tool that requests input twice")
def may_request_again(history: History) -> Iterator[Observation]:
    """Record responses that lead to another input request."""
    for origin, retry in rounds(history):
        if retry.fields.get("resultType") == "input_required":
            yield good(origin, retry)


@check("2026-07-28:input-responses-malformed-error", needs=A_REQUEST)
def malformed_error(history: History) -> Iterator[Observation]:
    """Check that `inputResponses` that are not an object are rejected."""
    for exchange in history.calls("tools/call", "tasks/update"):
        if isinstance(exchange.params.get("inputResponses", {}), dict):
            continue
        if exchange.error is not None:
            yield good(exchange)
        elif exchange.is_answered:
            yield bad("the target accepted `inputResponses` that are not an object", exchange)


@check("2026-07-28:input-responses-validated", needs=A_REQUEST)
def responses_validated(history: History) -> Iterator[Observation]:
    """Check that a malformed input response is not accepted."""
    for reply in all_input_responses(history):
        if reply.exchange is None or not _is_misshapen(reply):
            continue
        outcome, origin = outcome_after(history, reply), still_requested(history, reply)
        if reply.exchange.error is not None:
            yield good(reply.exchange)
        elif origin is not None:
            yield good(reply.exchange, origin)
        elif outcome is not None and outcome.kind == "success":
            words = f"the target accepted a malformed response to {reply.request.method!r}"
            yield bad(words, reply.request.where, reply.exchange, outcome.where)
        elif outcome is not None:
            yield good(reply.exchange, outcome.where)


def _is_misshapen(reply: InputResponse) -> bool:
    if not isinstance(reply.answer, dict):
        return True
    match reply.request.method:
        case "elicitation/create":
            return reply.answer.get("action") not in ("accept", "decline", "cancel")
        case "sampling/createMessage":
            return not is_sampling_result(reply.answer)
    return False


@check("2026-07-28:input-responses-extra-ignored", needs=A_REQUEST)
def extra_ignored(history: History) -> Iterator[Observation]:
    """Check that an additional input response is ignored, if the others are correct.

    They are known to be correct if the target accepted them without it.
    """
    plain: list[tuple[Exchange, Exchange]] = []
    for origin, retry in rounds(history):
        given = retry.params.get("inputResponses")
        requested = input_requests(origin.fields)
        if not isinstance(given, dict) or not requested or not requested.keys() <= given.keys():
            continue
        if given.keys() == requested.keys():
            plain.append((origin, retry))
    for origin, retry in rounds(history):
        given = retry.params.get("inputResponses")
        requested = input_requests(origin.fields)
        if not isinstance(given, dict) or not requested.keys() < given.keys() or not requested:
            continue
        if retry.fields:
            yield good(origin, retry)
        elif retry.code in REFUSED and (equivalent := _accepted(plain, given, retry)) is not None:
            words = "the target rejected a retry because of an additional input response"
            yield bad(words, equivalent, retry)


def _accepted(
    plain: list[tuple[Exchange, Exchange]], given: dict[str, object], retry: Exchange
) -> Exchange | None:
    """Return a successful retry of the same tool with the same responses but the additional one."""
    for origin, other in plain:
        keys = input_requests(origin.fields).keys()
        answers = other.params["inputResponses"]
        if (
            other.fields
            and other.params.get("name") == retry.params.get("name")
            and all(answers[key] == given.get(key) for key in keys)
        ):
            return other
    return None


@check("2026-07-28:missing-answers-asked-again", needs=A_REQUEST)
def missing_asked_again(history: History) -> Iterator[Observation]:
    """Check that the target requests missing input again."""
    for origin, retry in rounds(history):
        given = retry.params.get("inputResponses", {})
        requested = input_requests(origin.fields)
        if not isinstance(given, dict) or not requested.keys() - given.keys():
            continue
        if retry.fields.get("resultType") == "input_required":
            yield good(origin, retry)
        elif retry.code in REFUSED:
            yield bad("the target did not request a missing input response again", origin, retry)


cannot_check(
    "A JSON parser keeps only one of several equal keys, so duplicates are not observable.",
    "2026-07-28:mrtr-keys-unique",
)
