"""Questions inside of results, and calls that are tried again with the answers."""

from collections.abc import Iterator
from typing import Final

from taskmachine.adapters.conformance.checks.answers import is_sampling_result, outcome_after
from taskmachine.adapters.conformance.checks.answers import still_asks as asks_still
from taskmachine.adapters.conformance.checks.asked import (
    KINDS,
    Told,
    all_asked,
    all_told,
    input_requests,
)
from taskmachine.adapters.conformance.checks.order import SOON_MS
from taskmachine.adapters.conformance.checks.rounds_2026_07_28 import first_calls, rounds
from taskmachine.adapters.conformance.history import Exchange, History
from taskmachine.adapters.conformance.judging import (
    Observation,
    bad,
    cannot_check,
    check,
    good,
    note,
)

__all__: list[str] = []

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
