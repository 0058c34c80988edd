"""Checks of elicitation: modes, parameters, responses, and users."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from taskmachine.adapters.conformance.checks.reading.answers import refused_or_taken
from taskmachine.adapters.conformance.checks.reading.asked import Asked, Told, all_asked, all_told
from taskmachine.adapters.conformance.checks.reading.order import SOON_MS
from taskmachine.adapters.conformance.checks.reading.outcomes import maker, sightings_of
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

ASKS = "a tool that requests a form"
ASKS_URL = "a tool that requests URL elicitation"


def _elicitations(history: History) -> Iterator[Asked]:
    for asked in all_asked(history):
        if asked.method == "elicitation/create":
            yield asked


def _modes(declared: Mapping[str, Any]) -> set[str]:
    """Return the modes that a client supports."""
    can = declared.get("elicitation")
    if not isinstance(can, dict):
        return set()
    return {"form"} if not can else {"form", "url"} & can.keys()


# --- modes ------------------------------------------------------------------------------------


@check("2025-11-25:elicitation-empty-is-form", needs=ASKS)
def empty_is_form(history: History) -> Iterator[Observation]:
    """Check that a client that declares `elicitation: {}` receives forms only."""
    for asked in _elicitations(history):
        if asked.declared is not None and asked.declared.get("elicitation") == {}:
            yield from _in_a_mode(asked, {"form"})


@check(
    "2025-11-25:elicitation-declared-modes-only",
    "2026-07-28:elicitation-declared-modes-only",
    needs=ASKS,
)
def declared_modes_only(history: History) -> Iterator[Observation]:
    """Check that elicitations use only modes that the client declared."""
    for asked in _elicitations(history):
        if asked.declared is not None:
            yield from _in_a_mode(asked, _modes(asked.declared))


def _in_a_mode(asked: Asked, modes: set[str]) -> Iterator[Observation]:
    mode = asked.params.get("mode", "form")
    if isinstance(mode, str) and mode in modes:
        yield good(asked.where)
    else:
        words = f"the target sent an elicitation in mode {mode!r}, which the client did not declare"
        yield bad(words, asked.where)


# --- parameters -------------------------------------------------------------------------------


@check(
    "2025-11-25:elicitation-required-params",
    "2026-07-28:elicitation-required-params",
    needs=ASKS,
)
def required_params(history: History) -> Iterator[Observation]:
    """Check that there is a message, and a mode unless it is a form."""
    for asked in _elicitations(history):
        params = asked.params
        is_unnamed_url = (
            "mode" not in params and "url" in params and "requestedSchema" not in params
        )
        if not isinstance(params.get("message"), str):
            yield bad("an elicitation request has no `message`", asked.where)
        elif params.get("mode", "form") not in ("form", "url") or is_unnamed_url:
            yield bad(
                "an elicitation request has no valid `mode`: it must be 'form' or 'url', and "
                "only 'form' is the default",
                asked.where,
            )
        else:
            yield good(asked.where)


@check("2025-11-25:elicitation-mode-omitted", needs=ASKS)
def mode_omitted(history: History) -> Iterator[Observation]:
    """Record forms; their mode may be omitted."""
    for asked in _elicitations(history):
        if asked.params.get("mode", "form") == "form":
            yield good(asked.where)


@check("2025-11-25:elicitation-form-schema", "2026-07-28:elicitation-form-schema", needs=ASKS)
def form_schema(history: History) -> Iterator[Observation]:
    """Check that a form has a schema."""
    for asked in _elicitations(history):
        if asked.params.get("mode", "form") != "form" or "url" in asked.params:
            continue
        if isinstance(asked.params.get("requestedSchema"), dict):
            yield good(asked.where)
        else:
            yield bad("a form elicitation has no `requestedSchema`", asked.where)


@check("2025-11-25:elicitation-schema-flat", needs=ASKS)
def schema_flat(history: History) -> Iterator[Observation]:
    """Check that the fields of a form are primitive."""
    for asked in _elicitations(history):
        schema = asked.params.get("requestedSchema")
        if not isinstance(schema, dict):
            continue
        properties = schema.get("properties", {})
        fields = properties if isinstance(properties, dict) else {}
        nested = [name for name, field in fields.items() if not _is_simple(field)]
        if schema.get("type", "object") != "object" or not isinstance(properties, dict):
            words = "the `requestedSchema` of a form is not an object schema with `properties`"
            yield bad(words, asked.where)
        elif nested:
            yield bad(f"the form field {nested[0]!r} is not of a primitive type", asked.where)
        else:
            yield good(asked.where)


def _is_simple(field: Any) -> bool:
    """Return whether it is neither an object nor an array, except an array of enumerated values."""
    if not isinstance(field, dict) or field.get("type") == "object" or "properties" in field:
        return False
    if field.get("type") != "array":
        return True
    items = field.get("items")
    return isinstance(items, dict) and bool(items.keys() & {"enum", "anyOf", "oneOf", "const"})


@check("2025-11-25:elicitation-url-params", needs=ASKS_URL)
def url_params(history: History) -> Iterator[Observation]:
    """Check that a URL elicitation has a message, a URL, and an id."""
    for asked in _elicitations(history):
        if asked.params.get("mode") != "url":
            continue
        needed = ("message", "url", "elicitationId")
        missing = [name for name in needed if not isinstance(asked.params.get(name), str)]
        if missing:
            yield bad(f"an elicitation in mode 'url' has no `{missing[0]}`", asked.where)
        else:
            yield good(asked.where)


@check("2025-11-25:elicitation-url-valid", needs=ASKS_URL)
def url_valid(history: History) -> Iterator[Observation]:
    """Check that the URL is valid."""
    for asked in _elicitations(history):
        url = asked.params.get("url")
        if asked.params.get("mode") == "url" and isinstance(url, str):
            yield (
                good(asked.where)
                if _is_url(url)
                else bad(
                    f"the `url` of an elicitation is {url!r}, which is not a valid URL", asked.where
                )
            )


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
    needs=f"{ASKS} and returns the user's input",
)
def server_validates(history: History) -> Iterator[Observation]:
    """Check that content that violates the form's schema is not accepted."""
    for told in _answers(history):
        if told.answer.get("action") != "accept":
            continue
        schema = told.asked.params.get("requestedSchema")
        if certain_fault(schema, told.answer.get("content", {})) is not None:
            words = "the target accepted form content that violates the `requestedSchema`"
            yield from refused_or_taken(history, told, words)


@check("2026-07-28:elicitation-refusals-handled", needs=ASKS)
def refusals_handled(history: History) -> Iterator[Observation]:
    """Check that a task or call continues or ends after a declined elicitation."""
    for told in _answers(history):
        if told.answer.get("action") not in ("decline", "cancel") or told.exchange is None:
            continue
        if told.asked.task_id is not None:
            yield from _goes_on(history, told, told.asked.task_id)
        elif told.exchange.fields:
            yield good(told.exchange)
        elif not told.exchange.is_answered and (told.exchange.waited_ms or 0) > SOON_MS:
            words = "a call has no response after its elicitation was declined or cancelled"
            yield bad(words, told.exchange)


def _goes_on(history: History, told: Told, task_id: str) -> Iterator[Observation]:
    assert told.exchange is not None
    response = told.exchange.response
    if response is None or told.exchange.error is not None:
        return
    for sighting in sightings_of(history, task_id, told.sent):
        if not _is_asked_after(sighting, response.number):
            continue
        is_open = told.asked.key in (sighting.task.get("inputRequests") or ())
        if sighting.status != "input_required" or not is_open:
            yield good(told.exchange, sighting)
            return
        if sighting.since - response.at > SOON_MS:
            words = "a task still lists an elicitation that was declined or cancelled"
            yield bad(words, told.exchange, sighting)
            return


def _is_asked_after(sighting: Sighting, number: int) -> bool:
    return sighting.exchange is not None and sighting.exchange.request.number > number


def _answers(history: History) -> Iterator[Told]:
    """Yield responses to elicitations that are objects."""
    for told in all_told(history):
        if told.asked.method == "elicitation/create" and isinstance(told.answer, dict):
            yield told


NEEDS = "HTTP, the tokens of two principals, and a tool that requests a form"
LOOKS = ("tasks/get", "tasks/result", "tasks/cancel")


def _is_other(history: History, one: Entry, other: Entry) -> bool:
    """Return whether two entries belong to different principals."""
    first, second = (history.principals.get(entry.caller) for entry in (one, other))
    return first is not None and second is not None and first != second


def _owned(history: History) -> Iterator[tuple[Asked, Exchange]]:
    """Yield the elicitations of tasks, with the calls that created the tasks."""
    for asked in all_asked(history):
        made = maker(history, asked.task_id, asked.entry)
        if made is not None and asked.method == "elicitation/create":
            yield asked, made


def _looks_of_others(history: History, task_id: str | None, owner: Entry) -> Iterator[Exchange]:
    for exchange in history.calls(*LOOKS):
        if exchange.task_id == task_id and _is_other(history, owner, exchange.request):
            yield exchange


@check("2025-11-25:elicitation-bound-to-user", needs=NEEDS)
def bound_to_user(history: History) -> Iterator[Observation]:
    """Check that only the task's principal is asked, and only its response counts."""
    for asked, made in _owned(history):
        if _is_other(history, made.request, asked.entry):
            words = "the target sent the elicitation to another principal than the task's"
            yield bad(words, made, asked.entry)
            continue
        for look in _looks_of_others(history, asked.task_id, made.request):
            if look.is_answered:
                yield good(asked.entry, look)
        yield from _answered_by_others(history, asked)


def _answered_by_others(history: History, asked: Asked) -> Iterator[Observation]:
    """Judge responses with the same id from a principal who received no request with that id."""
    own = {entry.number: answer for entry, answer in history.questions}.get(asked.entry.number)
    for entry in history.entries:
        is_answer = entry.kind is Kind.SENT and entry.is_response
        if not is_answer or not _is_other(history, asked.entry, entry):
            continue
        if id_key(entry.body.get("id")) != id_key(asked.entry.body["id"]):
            continue
        if any(
            question.line == entry.line and id_key(question.body["id"]) == id_key(entry.body["id"])
            for question, _ in history.questions
        ):
            continue
        for sighting in sightings_of(history, str(asked.task_id), asked.entry):
            exchange = sighting.exchange
            if exchange is None or exchange.request.number < entry.number:
                continue
            if own is not None and own.number < sighting.entry.number:
                break
            if sighting.status == "input_required":
                yield good(entry, sighting)
            elif sighting.status in ("working", "completed"):
                words = "the target accepted the response of another principal"
                yield bad(words, asked.entry, entry, sighting)
                break


@check("2025-11-25:elicitation-state-per-user", needs=NEEDS)
def state_per_user(history: History) -> Iterator[Observation]:
    """Check that the outcome of an elicitation is not shown to another principal."""
    for told in all_told(history):
        made = maker(history, told.asked.task_id, told.sent)
        if made is None or told.asked.method != "elicitation/create":
            continue
        for look in _looks_of_others(history, told.asked.task_id, made.request):
            if look.request.number < told.sent.number or not look.is_answered:
                continue
            if look.error is None:
                words = "another principal can read a task after its elicitation was answered"
                yield bad(words, told.sent, look)
            else:
                yield good(told.sent, look)


@check("2025-11-25:elicitation-state-not-session-only", needs=NEEDS)
def state_not_session_only(history: History) -> Iterator[Observation]:
    """Check that a session id alone gives another principal no access."""
    sessions = {
        exchange.headers["mcp-session-id"]: exchange
        for exchange in history.calls("initialize")
        if "mcp-session-id" in exchange.headers
    }
    for exchange in history.calls(*LOOKS):
        hello = sessions.get(exchange.sent_headers.get("mcp-session-id", ""))
        if hello is None or not _is_other(history, hello.request, exchange.request):
            continue
        questions = [entry for entry in exchange.others if entry.is_request]
        if questions:
            words = "the target sent an elicitation to another principal who used the session id"
            yield bad(words, exchange.request, questions[0])
        elif exchange.fields:
            yield bad("another principal who used the session id could read a task", exchange)
        elif exchange.status or exchange.is_answered:
            yield good(exchange)
