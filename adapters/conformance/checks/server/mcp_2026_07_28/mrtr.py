"""Calls that are tried again, and what becomes of the state that they carry."""

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading.answers import (
    is_sampling_result,
    outcome_after,
)
from taskmachine.adapters.conformance.checks.reading.answers import still_asks as asks_still
from taskmachine.adapters.conformance.checks.reading.asked import (
    KINDS,
    Told,
    all_asked,
    all_told,
    input_requests,
)
from taskmachine.adapters.conformance.checks.reading.order import SOON_MS, gone_right_after
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

STATE = "a tool that asks for input and hands out a `requestState`"


@lru_cache(maxsize=2)
def rounds(history: History) -> tuple[tuple[Exchange, Exchange], ...]:
    """Each call that was tried again as it should be, with the answer that asked for it."""
    found = []
    handed = _handed_out(history)
    for retry in history.calls("tools/call"):
        if "inputResponses" not in retry.params and "requestState" not in retry.params:
            continue
        state = retry.params.get("requestState")
        askings = [
            asking
            for asking in handed.get(state if isinstance(state, str) else None, ())
            if asking.response is not None
            and asking.response.number < retry.request.number
            and asking.request.caller == retry.request.caller
            and _salient(asking) == _salient(retry)
        ]
        if askings and (state is None or isinstance(state, str)):
            found.append((askings[-1], retry))
    return tuple(found)


def first_calls(history: History) -> Iterator[tuple[Exchange, Exchange]]:
    """Pairs of the same call: the first was asked for input, and not tried again before."""
    waiting: dict[Any, Exchange] = {}
    for call in history.calls("tools/call"):
        key = (call.request.line, call.request.caller, _salient(call))
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
def _handed_out(history: History) -> dict[str | None, list[Exchange]]:
    """The answers that ask for input, by their state."""
    found: dict[str | None, list[Exchange]] = {}
    for exchange in history.calls("tools/call"):
        if exchange.fields.get("resultType") == "input_required":
            state = exchange.fields.get("requestState")
            if state is None or isinstance(state, str):
                found.setdefault(state, []).append(exchange)
    return found


def _salient(call: Exchange) -> str:
    """What a call is about."""
    about = [call.params.get("name"), call.params.get("arguments")]
    return json.dumps(about, sort_keys=True)


def _carriers(history: History) -> Iterator[tuple[Exchange, list[Exchange]]]:
    """Calls with a state, each with the answers that had handed it out."""
    handed = _handed_out(history)
    for retry in history.calls("tools/call"):
        state = retry.params.get("requestState")
        if isinstance(state, str):
            yield (
                retry,
                [
                    asking
                    for asking in handed.get(state, ())
                    if asking.response and asking.response.number < retry.request.number
                ],
            )


def _verdict(history: History, retry: Exchange, words: str) -> Iterator[Observation]:
    """Refused, or asked again as if there were no state: good.  Done: not."""
    outcome = outcome_of_call(history, retry)
    if outcome is not None and outcome.kind == "success":
        yield bad(words, retry, outcome.where)
    elif outcome is not None or retry.fields.get("resultType") == "input_required":
        yield good(retry)


@check("2026-07-28:request-state-untrusted", needs=STATE)
def untrusted(history: History) -> Iterator[Observation]:
    """A state that was never handed out harms nobody."""
    for retry, askings in _carriers(history):
        if askings or not _handed_out(history):
            continue
        gone = gone_right_after(history, retry.request)
        if retry.status >= 500 and retry.status != 503:
            yield bad(f"a damaged state was answered with HTTP {retry.status}", retry)
        elif gone is not None:
            yield bad("the process ended at a damaged state", retry.request, gone)
        elif retry.is_answered:
            yield good(retry)


@check(
    "2026-07-28:request-state-protected",
    "2026-07-28:request-state-rejected-if-tampered",
    needs=STATE,
)
def rejected_if_tampered(history: History) -> Iterator[Observation]:
    """A state that was changed is not accepted.

    It may be if nothing depends on it, which cannot be known: never more than a warning.
    """
    if not any(state is not None for state in _handed_out(history)):
        return
    for retry, askings in _carriers(history):
        if askings:
            continue
        for seen in _verdict(history, retry, "a state that was changed was accepted"):
            yield seen if seen.outcome == "good" else warning(seen.words, *seen.evidence)


@check("2026-07-28:request-state-bound-to-principal", needs=f"{STATE}, and two principals")
def bound_to_principal(history: History) -> Iterator[Observation]:
    """The state of somebody else is not accepted."""
    for retry, askings in _carriers(history):
        who = history.principals.get(retry.request.caller)
        owners = {history.principals.get(asking.request.caller) for asking in askings}
        if askings and who not in owners:
            yield from _verdict(history, retry, "the state of somebody else was accepted")


@check("2026-07-28:request-state-bound-to-request", needs=STATE)
def bound_to_request(history: History) -> Iterator[Observation]:
    """The state of another call is not accepted, where states are read at all."""
    askings = (asking for handed in _handed_out(history).values() for asking in handed)
    readers = [asking.params.get("name") for asking in askings]
    for retry, owners in _carriers(history):
        is_other = _salient(retry) not in {_salient(asking) for asking in owners}
        if owners and is_other and retry.params.get("name") in readers:
            yield from _verdict(history, retry, "the state of another call was accepted")


cannot_check(
    "No duration is given, and a tester cannot wait for the longest.",
    "2026-07-28:request-state-expires",
)
cannot_check(
    "Whether a tool must act once is not said on the wire.",
    "2026-07-28:request-state-single-use",
)


MAY_ASK: Final = ("tools/call", "prompts/get", "resources/read")
ASKS = "a tool that asks for input"
REFUSED: Final = (-32600, -32602)
"""What says that the parameters are wrong; all else may be a limit, or a fault of the tool."""


def _asking(history: History) -> Iterator[Exchange]:
    """The answers that ask for input."""
    for exchange in history.exchanges:
        if exchange.fields.get("resultType") == "input_required":
            yield exchange


# --- how a server asks -----------------------------------------------------------------------


@check("2026-07-28:server-sends-no-requests")
def no_requests(history: History) -> Iterator[Observation]:
    """A server has nothing to request."""
    for entry in history.heard:
        if entry.is_request:
            yield bad(f"the target sent a request: {entry.method}", entry)
    for exchange in history.calls("tools/call", "tasks/get"):
        if exchange.is_answered:
            yield good(exchange)


@check("2026-07-28:questions-by-mrtr", needs=ASKS)
def questions_by_mrtr(history: History) -> Iterator[Observation]:
    """What a server wants to know stands in a result, or in a task."""
    for entry in history.heard:
        if entry.is_request and entry.method in KINDS:
            yield bad(f"{entry.method} came as a request", entry)
    for asked in all_asked(history):
        yield good(asked.where)


@check("2026-07-28:request-scoped-notifications", needs="a tool that reports progress")
def request_scoped_notifications(history: History) -> Iterator[Observation]:
    """Before its answer a call may tell how far it is."""
    for exchange in history.exchanges:
        for entry in exchange.others:
            if entry.is_notification:
                yield good(exchange.request, entry)
    for entry in history.notifications("notifications/progress", "notifications/message"):
        if entry.post is None:
            yield good(entry)


@check("2026-07-28:mrtr-supported-requests", "2026-07-28:mrtr-server-may-ask", needs=ASKS)
def supported_requests(history: History) -> Iterator[Observation]:
    """Three methods may be answered with questions."""
    for exchange in _asking(history):
        if exchange.method in MAY_ASK:
            yield good(exchange)


@check("2026-07-28:mrtr-no-other-requests")
def no_other_requests(history: History) -> Iterator[Observation]:
    """All others are not."""
    for exchange in history.exchanges:
        if exchange.method in MAY_ASK or not exchange.fields:
            continue
        if exchange.fields.get("resultType") == "input_required":
            yield bad(f"{exchange.method} was answered with `input_required`", exchange)
        else:
            yield good(exchange)


# --- what a server asks ----------------------------------------------------------------------


@check("2026-07-28:mrtr-input-requests-optional", needs=ASKS)
def input_requests_optional(history: History) -> Iterator[Observation]:
    """There may be questions: a map of them."""
    for exchange in _asking(history):
        if isinstance(exchange.fields.get("inputRequests", {}), dict):
            yield good(exchange)
        else:
            yield note("`inputRequests` is no object", exchange)


@check("2026-07-28:mrtr-request-state-optional", needs=ASKS)
def request_state_optional(history: History) -> Iterator[Observation]:
    """There may be a state: a string."""
    for exchange in _asking(history):
        if isinstance(exchange.fields.get("requestState", ""), str):
            yield good(exchange)
        else:
            yield note("`requestState` is no string", exchange)


@check("2026-07-28:mrtr-something-to-do", needs=ASKS)
def something_to_do(history: History) -> Iterator[Observation]:
    """There is one of them at least."""
    for exchange in _asking(history):
        if {"inputRequests", "requestState"} & exchange.fields.keys():
            yield good(exchange)
        else:
            yield bad("`input_required` has no `inputRequests` and no `requestState`", exchange)


@check("2026-07-28:input-request-kinds", needs=ASKS)
def input_request_kinds(history: History) -> Iterator[Observation]:
    """Each question is of one of three kinds."""
    for asked in all_asked(history):
        if isinstance(asked.method, str) and asked.method in KINDS:
            yield good(asked.where)
        else:
            words = f"the question {asked.key!r} has the method {asked.method!r}"
            yield bad(words, asked.where)


@check("2026-07-28:mrtr-declared-kinds-only", needs=ASKS)
def declared_kinds_only(history: History) -> Iterator[Observation]:
    """Nothing is asked of a kind that the client did not declare."""
    for asked in all_asked(history):
        capability = KINDS.get(asked.method) if isinstance(asked.method, str) else None
        if capability is None or asked.declared is None:
            continue
        if capability in asked.declared:
            yield good(asked.where)
        else:
            yield bad(f"{asked.method} was asked without the capability", asked.where)


# --- what a server expects -------------------------------------------------------------------


@check("2026-07-28:mrtr-no-assumed-retry", needs=ASKS)
def no_assumed_retry(history: History) -> Iterator[Observation]:
    """A call that was never tried again does not block the next one."""
    for first, second in first_calls(history):
        if second.is_answered:
            yield good(first, second)
        elif (second.waited_ms or 0) > SOON_MS:
            yield bad("a call waits for an earlier one that nobody tries again", first, second)


@check("2026-07-28:mrtr-may-ask-again", needs="a tool that asks twice")
def may_ask_again(history: History) -> Iterator[Observation]:
    """An answer may lead to another question."""
    for asking, retry in rounds(history):
        if retry.fields.get("resultType") == "input_required":
            yield good(asking, retry)


@check("2026-07-28:input-responses-malformed-error", needs=ASKS)
def malformed_error(history: History) -> Iterator[Observation]:
    """`inputResponses` that are no object are an error."""
    for exchange in history.calls("tools/call", "tasks/update"):
        if isinstance(exchange.params.get("inputResponses", {}), dict):
            continue
        if exchange.error is not None:
            yield good(exchange)
        elif exchange.is_answered:
            yield bad("`inputResponses` that are no object were accepted", exchange)


@check("2026-07-28:input-responses-validated", needs=ASKS)
def responses_validated(history: History) -> Iterator[Observation]:
    """An answer that has not the shape of one is not taken."""
    for told in all_told(history):
        if told.exchange is None or not _is_misshapen(told):
            continue
        outcome, asking = outcome_after(history, told), asks_still(history, told)
        if told.exchange.error is not None:
            yield good(told.exchange)
        elif asking is not None:
            yield good(told.exchange, asking)
        elif outcome is not None and outcome.kind == "success":
            words = f"an answer to {told.asked.method} without its shape was taken"
            yield bad(words, told.asked.where, told.exchange, outcome.where)
        elif outcome is not None:
            yield good(told.exchange, outcome.where)


def _is_misshapen(told: Told) -> bool:
    if not isinstance(told.answer, dict):
        return True
    match told.asked.method:
        case "elicitation/create":
            return told.answer.get("action") not in ("accept", "decline", "cancel")
        case "sampling/createMessage":
            return not is_sampling_result(told.answer)
    return False


@check("2026-07-28:input-responses-extra-ignored", needs=ASKS)
def extra_ignored(history: History) -> Iterator[Observation]:
    """An answer that nobody asked for is no error, if the others are right.

    That they are is known if they were accepted without it.
    """
    plain: list[tuple[Exchange, Exchange]] = []
    for asking, retry in rounds(history):
        given = retry.params.get("inputResponses")
        asked = input_requests(asking.fields)
        if not isinstance(given, dict) or not asked or not asked.keys() <= given.keys():
            continue
        if given.keys() == asked.keys():
            plain.append((asking, retry))
    for asking, retry in rounds(history):
        given = retry.params.get("inputResponses")
        asked = input_requests(asking.fields)
        if not isinstance(given, dict) or not asked.keys() < given.keys() or not asked:
            continue
        if retry.fields:
            yield good(asking, retry)
        elif retry.code in REFUSED and (twin := _accepted(plain, given, retry)) is not None:
            yield bad("an answer that nobody asked for is an error", twin, retry)


def _accepted(
    plain: list[tuple[Exchange, Exchange]], given: dict[str, object], retry: Exchange
) -> Exchange | None:
    """A retry of the same tool that was fine with the same answers, but for the extra one."""
    for asking, other in plain:
        keys = input_requests(asking.fields).keys()
        answers = other.params["inputResponses"]
        if (
            other.fields
            and other.params.get("name") == retry.params.get("name")
            and all(answers[key] == given.get(key) for key in keys)
        ):
            return other
    return None


@check("2026-07-28:missing-answers-asked-again", needs=ASKS)
def missing_asked_again(history: History) -> Iterator[Observation]:
    """Without an answer that it needs, a server asks again."""
    for asking, retry in rounds(history):
        given = retry.params.get("inputResponses", {})
        asked = input_requests(asking.fields)
        if not isinstance(given, dict) or not asked.keys() - given.keys():
            continue
        if retry.fields.get("resultType") == "input_required":
            yield good(asking, retry)
        elif retry.code in REFUSED:
            yield bad("an answer was missing, and the call was refused", asking, retry)


cannot_check(
    "A key that is there twice is lost when JSON is read.",
    "2026-07-28:mrtr-keys-unique",
)
