"""Checks of clients that respond to elicitation and sampling (2025-11-25)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import jsonschema_rs

from taskmachine.adapters.conformance.checks.client.polling import INACTIVE_MS, active_until
from taskmachine.adapters.conformance.clients.view import as_client
from taskmachine.adapters.conformance.history import Entry, History, Kind
from taskmachine.adapters.conformance.judging import Observation, bad, client_check, good

__all__ = ["elicit_result_fault"]

_RESPONDS: Final = "a client that responds to elicitations"


def _declared(history: History, line: int, kind: str) -> Mapping[str, Any] | None:
    for entry in history.heard:
        if entry.method == "initialize" and entry.line == line:
            capabilities = entry.params.get("capabilities")
            found = capabilities.get(kind) if isinstance(capabilities, dict) else None
            return found if isinstance(found, dict) else None
    return None


def _elicitations(history: History) -> Iterator[tuple[Entry, Entry]]:
    """Yield elicitations without `task`, each with its response."""
    for request, response in as_client(history).questions:
        is_plain = request.method == "elicitation/create" and "task" not in request.params
        if is_plain and response is not None:
            yield request, response


def elicit_result_fault(result: Any, schema: Any) -> str | None:
    """Return why a result is not a valid response to a form, or None."""
    if not isinstance(result, dict):
        return "an elicitation result is not an object"
    action = result.get("action")
    if action not in ("accept", "decline", "cancel"):
        return (
            f"`action` of an elicitation result is {action!r:.40}, not 'accept', 'decline' "
            "or 'cancel'"
        )
    if action != "accept" or not isinstance(schema, dict):
        return None
    content = result.get("content")
    if not isinstance(content, dict):
        return "an accepted form has no `content`"
    if not jsonschema_rs.is_valid(schema, content, offline=True):
        return "`content` of an accepted form violates its `requestedSchema`"
    return None


@client_check(
    "2025-11-25:elicitation-three-actions",
    "2025-11-25:elicitation-client-validates",
    needs=_RESPONDS,
)
def three_actions(history: History) -> Iterator[Observation]:
    """Check that the action is accept, decline or cancel, and that accepted content is valid."""
    for request, response in _elicitations(history):
        if "result" in response.body:
            schema = request.params.get("requestedSchema")
            fault = elicit_result_fault(response.body["result"], schema)
            yield good(request, response) if fault is None else bad(fault, request, response)


@client_check("2025-11-25:elicitation-declared", needs=_RESPONDS)
def elicitation_declared(history: History) -> Iterator[Observation]:
    """Check that a client that accepts elicitations declared the capability."""
    for request, response in _elicitations(history):
        if "result" not in response.body:
            continue
        if _declared(history, request.line, "elicitation") is None:
            words = "the client responded to an elicitation without declaring `elicitation`"
            yield bad(words, request, response)
        else:
            yield good(request, response)


@client_check("2025-11-25:elicitation-one-mode", needs=_RESPONDS)
def one_mode(history: History) -> Iterator[Observation]:
    """Check that a client that declared only forms does not reject all of them."""
    forms = [(q, a) for q, a in _elicitations(history) if q.params.get("mode", "form") == "form"]
    answered = [(q, a) for q, a in forms if "result" in a.body]
    if answered:
        yield good(*answered[0])
    elif forms:
        request, response = forms[0]
        declared = _declared(history, request.line, "elicitation")
        if declared is not None and not set(declared) - {"form"}:
            words = "the client declared `elicitation`, but rejects every form"
            yield bad(words, request, response)


@client_check("2025-11-25:elicitation-no-mode-is-form", needs=_RESPONDS)
def no_mode_is_form(history: History) -> Iterator[Observation]:
    """Check that a client that accepts forms also accepts one without `mode`."""
    forms = [a for q, a in _elicitations(history) if q.params.get("mode") == "form"]
    takes_forms = any("result" in response.body for response in forms)
    for request, response in _elicitations(history):
        if "mode" not in request.params:
            if "result" in response.body:
                yield good(request, response)
            elif takes_forms:
                words = "the client rejected a form without `mode`; 'form' is the default"
                yield bad(words, request, response)


@client_check("2025-11-25:elicitation-undeclared-mode-32602", needs=_RESPONDS)
def undeclared_mode(history: History) -> Iterator[Observation]:
    """Check that an undeclared mode is rejected with -32602."""
    for request, response in _elicitations(history):
        declared = _declared(history, request.line, "elicitation")
        mode = request.params.get("mode", "form")
        if declared is None or mode == "form" or mode in declared:
            continue
        error = response.body.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        if code == -32602:
            yield good(request, response)
        elif "result" in response.body:
            words = f"the client accepted an elicitation in mode '{mode}', which it did not declare"
            yield bad(words, request, response)
        else:
            words = f"the client rejected an undeclared elicitation mode with {code}, not -32602"
            yield bad(words, request, response)


@client_check(
    "2025-11-25:elicitation-empty-is-form", needs="a client that declares `elicitation: {}`"
)
def empty_is_form(history: History) -> Iterator[Observation]:
    """Record forms accepted by clients that declare an empty object."""
    for request, response in _elicitations(history):
        is_form = request.params.get("mode", "form") == "form"
        is_empty = _declared(history, request.line, "elicitation") == {}
        if is_empty and is_form and "result" in response.body:
            yield good(request, response)


@client_check("2025-11-25:sampling-declared", needs="a client that responds to sampling")
def sampling_declared(history: History) -> Iterator[Observation]:
    """Check that a client that responds to sampling declared the capability."""
    for request, response in as_client(history).questions:
        if request.method != "sampling/createMessage" or response is None:
            continue
        if "result" in response.body:
            if _declared(history, request.line, "sampling") is None:
                words = "the client responded to sampling without declaring `sampling`"
                yield bad(words, request, response)
            else:
                yield good(request, response)


@client_check(
    "2025-11-25:messages-on-any-stream", needs="a client that responds to elicitation or sampling"
)
def answers_on_any_stream(history: History) -> Iterator[Observation]:
    """Check that requests on a GET stream or on the stream of a poll get a response, too."""
    client = as_client(history)
    if not any(response is not None for _, response in client.questions):
        return
    for request, response in client.questions:
        carrier = next((e for e in history.heard if e.post == request.post), None)
        if request.related_task is None or carrier is None or carrier.method == "tasks/result":
            continue
        if response is not None:
            yield good(request, response)
        elif _stayed_connected(history, request):
            words = "the client did not respond to a request that came on a different stream"
            yield bad(words, carrier, request)


def _stayed_connected(history: History, request: Entry) -> bool:
    """Return whether the client stayed connected to the stream and active for long enough."""
    left = any(
        e.kind is Kind.ENDED and e.post == request.post and e.at < request.at + INACTIVE_MS
        for e in history.entries
    )
    return not left and active_until(history) - request.at > INACTIVE_MS
