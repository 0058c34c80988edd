"""Checks of elicitation: modes, parameters, responses, and users."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from taskmachine.adapters.conformance.checks.reading.input_requests import (
    InputRequest,
    InputResponse,
    all_input_requests,
    all_input_responses,
)
from taskmachine.adapters.conformance.checks.reading.invalid_responses import rejected_or_used
from taskmachine.adapters.conformance.checks.reading.order import SOON_MS
from taskmachine.adapters.conformance.checks.reading.outcomes import creating_call, sightings_of
from taskmachine.adapters.conformance.checks.reading.schemas import certain_fault
from taskmachine.adapters.conformance.history import (
    Entry,
    Exchange,
    History,
    Kind,
    Sighting,
    id_key,
)
from taskmachine.adapters.conformance.judging import Observation, bad, check, good

__all__: list[str] = []

_FORM = "a tool that requests a form"
_URL = "a tool that requests URL elicitation"


def _elicitations(history: History) -> Iterator[InputRequest]:
    for request in all_input_requests(history):
        if request.method == "elicitation/create":
            yield request


def _modes(declared: Mapping[str, Any]) -> set[str]:
    """Return the modes that a client supports."""
    can = declared.get("elicitation")
    if not isinstance(can, dict):
        return set()
    return {"form"} if not can else {"form", "url"} & can.keys()


# --- modes ------------------------------------------------------------------------------------


@check("2025-11-25:elicitation-empty-is-form", needs=_FORM)
def empty_is_form(history: History) -> Iterator[Observation]:
    """Check that a client that declares `elicitation: {}` receives forms only."""
    for request in _elicitations(history):
        if request.declared is not None and request.declared.get("elicitation") == {}:
            yield from _in_a_mode(request, {"form"})


@check(
    "2025-11-25:elicitation-declared-modes-only",
    "2026-07-28:elicitation-declared-modes-only",
    needs=_FORM,
)
def declared_modes_only(history: History) -> Iterator[Observation]:
    """Check that elicitations use only modes that the client declared."""
    for request in _elicitations(history):
        if request.declared is not None:
            yield from _in_a_mode(request, _modes(request.declared))


def _in_a_mode(request: InputRequest, modes: set[str]) -> Iterator[Observation]:
    mode = request.params.get("mode", "form")
    if isinstance(mode, str) and mode in modes:
        yield good(request.where)
    else:
        words = f"the target sent an elicitation in mode {mode!r}, which the client did not declare"
        yield bad(words, request.where)


# --- parameters -------------------------------------------------------------------------------


@check(
    "2025-11-25:elicitation-required-params", "2026-07-28:elicitation-required-params", needs=_FORM
)
def required_params(history: History) -> Iterator[Observation]:
    """Check that there is a message, and a mode unless it is a form."""
    for request in _elicitations(history):
        params = request.params
        is_unnamed_url = (
            "mode" not in params and "url" in params and "requestedSchema" not in params
        )
        if not isinstance(params.get("message"), str):
            yield bad("an elicitation request has no `message`", request.where)
        elif params.get("mode", "form") not in ("form", "url") or is_unnamed_url:
            words = "an elicitation request has no valid `mode`: 'form' (the default) or 'url'"
            yield bad(words, request.where)
        else:
            yield good(request.where)


@check("2025-11-25:elicitation-mode-omitted", needs=_FORM)
def mode_omitted(history: History) -> Iterator[Observation]:
    """Record forms; their mode may be omitted."""
    for request in _elicitations(history):
        if request.params.get("mode", "form") == "form":
            yield good(request.where)


@check("2025-11-25:elicitation-form-schema", "2026-07-28:elicitation-form-schema", needs=_FORM)
def form_schema(history: History) -> Iterator[Observation]:
    """Check that a form has a schema."""
    for request in _elicitations(history):
        if request.params.get("mode", "form") != "form" or "url" in request.params:
            continue
        if isinstance(request.params.get("requestedSchema"), dict):
            yield good(request.where)
        else:
            yield bad("a form elicitation has no `requestedSchema`", request.where)


@check("2025-11-25:elicitation-schema-flat", needs=_FORM)
def schema_flat(history: History) -> Iterator[Observation]:
    """Check that the fields of a form are primitive."""
    for request in _elicitations(history):
        schema = request.params.get("requestedSchema")
        if not isinstance(schema, dict):
            continue
        properties = schema.get("properties", {})
        fields = properties if isinstance(properties, dict) else {}
        nested = [name for name, field in fields.items() if not _is_simple(field)]
        if schema.get("type", "object") != "object" or not isinstance(properties, dict):
            words = "the `requestedSchema` of a form is not an object schema with `properties`"
            yield bad(words, request.where)
        elif nested:
            yield bad(f"the form field {nested[0]!r} is not of a primitive type", request.where)
        else:
            yield good(request.where)


def _is_simple(field: Any) -> bool:
    """Return whether it is neither an object nor an array, except an array of enumerated values."""
    if not isinstance(field, dict) or field.get("type") == "object" or "properties" in field:
        return False
    if field.get("type") != "array":
        return True
    items = field.get("items")
    return isinstance(items, dict) and bool(items.keys() & {"enum", "anyOf", "oneOf", "const"})


@check("2025-11-25:elicitation-url-params", needs=_URL)
def url_params(history: History) -> Iterator[Observation]:
    """Check that a URL elicitation has a message, a URL, and an id."""
    for request in _elicitations(history):
        if request.params.get("mode") != "url":
            continue
        needed = ("message", "url", "elicitationId")
        missing = [name for name in needed if not isinstance(request.params.get(name), str)]
        if missing:
            yield bad(f"an elicitation in mode 'url' has no `{missing[0]}`", request.where)
        else:
            yield good(request.where)


@check("2025-11-25:elicitation-url-valid", needs=_URL)
def url_valid(history: History) -> Iterator[Observation]:
    """Check that the URL is valid."""
    for request in _elicitations(history):
        url = request.params.get("url")
        if request.params.get("mode") == "url" and isinstance(url, str):
            if _is_url(url):
                yield good(request.where)
            else:
                words = f"the `url` of an elicitation is {url!r}, which is not a valid URL"
                yield bad(words, request.where)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and (parts.netloc or parts.path)) and not set(text) & set(" \t\r\n<>")


# --- responses --------------------------------------------------------------------------------


@check(
    "2025-11-25:elicitation-server-validates",
    "2026-07-28:elicitation-server-validates",
    needs=f"{_FORM} and returns the user's input",
)
def server_validates(history: History) -> Iterator[Observation]:
    """Check that content that violates the form's schema is not accepted."""
    for reply in _elicitation_responses(history):
        if reply.answer.get("action") != "accept":
            continue
        schema = reply.request.params.get("requestedSchema")
        if certain_fault(schema, reply.answer.get("content", {})) is not None:
            words = "the target accepted form content that violates the `requestedSchema`"
            yield from rejected_or_used(history, reply, words)


@check("2026-07-28:elicitation-refusals-handled", needs=_FORM)
def refusals_handled(history: History) -> Iterator[Observation]:
    """Check that a task or call continues or ends after a declined elicitation."""
    for reply in _elicitation_responses(history):
        if reply.answer.get("action") not in ("decline", "cancel") or reply.exchange is None:
            continue
        if reply.request.task_id is not None:
            yield from _continues(history, reply, reply.request.task_id)
        elif reply.exchange.fields:
            yield good(reply.exchange)
        elif not reply.exchange.is_answered and (reply.exchange.waited_ms or 0) > SOON_MS:
            words = "a call has no response after its elicitation was declined or cancelled"
            yield bad(words, reply.exchange)


def _continues(history: History, reply: InputResponse, task_id: str) -> Iterator[Observation]:
    assert reply.exchange is not None
    response = reply.exchange.response
    if response is None or reply.exchange.error is not None:
        return
    for sighting in sightings_of(history, task_id, reply.sent):
        if not _is_asked_after(sighting, response.number):
            continue
        is_open = reply.request.key in (sighting.task.get("inputRequests") or ())
        if sighting.status != "input_required" or not is_open:
            yield good(reply.exchange, sighting)
            return
        if sighting.since - response.at > SOON_MS:
            words = "a task still lists an elicitation that was declined or cancelled"
            yield bad(words, reply.exchange, sighting)
            return


def _is_asked_after(sighting: Sighting, number: int) -> bool:
    return sighting.exchange is not None and sighting.exchange.request.number > number


def _elicitation_responses(history: History) -> Iterator[InputResponse]:
    """Yield responses to elicitations that are objects."""
    for reply in all_input_responses(history):
        if reply.request.method == "elicitation/create" and isinstance(reply.answer, dict):
            yield reply


_TWO_PRINCIPALS = "HTTP, the tokens of two principals, and a tool that requests a form"
_TASK_METHODS = ("tasks/get", "tasks/result", "tasks/cancel")


def _is_other(history: History, one: Entry, other: Entry) -> bool:
    """Return whether two entries belong to different principals."""
    first, second = (history.principals.get(entry.caller) for entry in (one, other))
    return first is not None and second is not None and first != second


def _of_tasks(history: History) -> Iterator[tuple[InputRequest, Exchange]]:
    """Yield the elicitations of tasks, with the calls that created the tasks."""
    for request in all_input_requests(history):
        made = creating_call(history, request.task_id, request.entry)
        if made is not None and request.method == "elicitation/create":
            yield request, made


def _foreign_requests(history: History, task_id: str | None, owner: Entry) -> Iterator[Exchange]:
    for exchange in history.calls(*_TASK_METHODS):
        if exchange.task_id == task_id and _is_other(history, owner, exchange.request):
            yield exchange


@check("2025-11-25:elicitation-bound-to-user", needs=_TWO_PRINCIPALS)
def bound_to_user(history: History) -> Iterator[Observation]:
    """Check that only the task's principal is asked, and only its response counts."""
    for request, made in _of_tasks(history):
        if _is_other(history, made.request, request.entry):
            words = "the target sent the elicitation to another principal than the task's"
            yield bad(words, made, request.entry)
            continue
        for exchange in _foreign_requests(history, request.task_id, made.request):
            if exchange.is_answered:
                yield good(request.entry, exchange)
        yield from _foreign_responses(history, request)


def _foreign_responses(history: History, request: InputRequest) -> Iterator[Observation]:
    """Judge responses with the same id from a principal who received no request with that id."""
    own = {entry.number: answer for entry, answer in history.questions}.get(request.entry.number)
    for entry in history.entries:
        is_answer = entry.kind is Kind.SENT and entry.is_response
        if not is_answer or not _is_other(history, request.entry, entry):
            continue
        if id_key(entry.body.get("id")) != id_key(request.entry.body["id"]):
            continue
        if any(
            question.line == entry.line and id_key(question.body["id"]) == id_key(entry.body["id"])
            for question, _ in history.questions
        ):
            continue
        for sighting in sightings_of(history, str(request.task_id), request.entry):
            exchange = sighting.exchange
            if exchange is None or exchange.request.number < entry.number:
                continue
            if own is not None and own.number < sighting.entry.number:
                break
            if sighting.status == "input_required":
                yield good(entry, sighting)
            elif sighting.status in ("working", "completed"):
                words = "the target accepted the response of another principal"
                yield bad(words, request.entry, entry, sighting)
                break


@check("2025-11-25:elicitation-state-per-user", needs=_TWO_PRINCIPALS)
def state_per_user(history: History) -> Iterator[Observation]:
    """Check that the outcome of an elicitation is not shown to another principal."""
    for reply in all_input_responses(history):
        made = creating_call(history, reply.request.task_id, reply.sent)
        if made is None or reply.request.method != "elicitation/create":
            continue
        for exchange in _foreign_requests(history, reply.request.task_id, made.request):
            if exchange.request.number < reply.sent.number or not exchange.is_answered:
                continue
            if exchange.error is None:
                words = "another principal can read a task after its elicitation was answered"
                yield bad(words, reply.sent, exchange)
            else:
                yield good(reply.sent, exchange)


@check("2025-11-25:elicitation-state-not-session-only", needs=_TWO_PRINCIPALS)
def state_not_session_only(history: History) -> Iterator[Observation]:
    """Check that a session id alone gives another principal no access."""
    sessions = {
        exchange.headers["mcp-session-id"]: exchange
        for exchange in history.calls("initialize")
        if "mcp-session-id" in exchange.headers
    }
    for exchange in history.calls(*_TASK_METHODS):
        initialize = sessions.get(exchange.sent_headers.get("mcp-session-id", ""))
        if initialize is None or not _is_other(history, initialize.request, exchange.request):
            continue
        questions = [entry for entry in exchange.others if entry.is_request]
        if questions:
            words = "the target sent an elicitation to another principal who used the session id"
            yield bad(words, exchange.request, questions[0])
        elif exchange.fields:
            yield bad("another principal who used the session id could read a task", exchange)
        elif exchange.status or exchange.is_answered:
            yield good(exchange)
