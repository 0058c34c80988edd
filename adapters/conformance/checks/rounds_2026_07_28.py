"""Calls that are tried again, and what becomes of the state that they carry."""

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from taskmachine.adapters.conformance.checks.order import gone_right_after
from taskmachine.adapters.conformance.checks.outcomes import outcome_of_call
from taskmachine.adapters.conformance.history import Exchange, History
from taskmachine.adapters.conformance.judging import (
    Observation,
    bad,
    cannot_check,
    check,
    good,
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
