"""Elicitation: what is asked, in which way, and of whom."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from taskmachine.adapters.conformance.checks.answers import refused_or_taken
from taskmachine.adapters.conformance.checks.asked import Asked, Told, all_asked, all_told
from taskmachine.adapters.conformance.checks.order import SOON_MS
from taskmachine.adapters.conformance.checks.outcomes import sightings_of
from taskmachine.adapters.conformance.checks.schemas import certain_fault
from taskmachine.adapters.conformance.history import History, Sighting
from taskmachine.adapters.conformance.judging import Observation, bad, check, good

__all__: list[str] = []

ASKS = "a tool that asks for a form"
ASKS_URL = "a tool that asks for something at a URL"


def _elicitations(history: History) -> Iterator[Asked]:
    for asked in all_asked(history):
        if asked.method == "elicitation/create":
            yield asked


def _modes(declared: Mapping[str, Any]) -> set[str]:
    """The modes that a client can do."""
    can = declared.get("elicitation")
    if not isinstance(can, dict):
        return set()
    return {"form"} if not can else {"form", "url"} & can.keys()


# --- in which way ----------------------------------------------------------------------------


@check("2025-11-25:elicitation-empty-is-form", needs=ASKS)
def empty_is_form(history: History) -> Iterator[Observation]:
    """A client that says no more than `elicitation: {}` is asked for forms only."""
    for asked in _elicitations(history):
        if asked.declared is not None and asked.declared.get("elicitation") == {}:
            yield from _in_a_mode(asked, {"form"})


@check(
    "2025-11-25:elicitation-declared-modes-only",
    "2026-07-28:elicitation-declared-modes-only",
    needs=ASKS,
)
def declared_modes_only(history: History) -> Iterator[Observation]:
    """Nothing is asked in a way that the client did not declare."""
    for asked in _elicitations(history):
        if asked.declared is not None:
            yield from _in_a_mode(asked, _modes(asked.declared))


def _in_a_mode(asked: Asked, modes: set[str]) -> Iterator[Observation]:
    mode = asked.params.get("mode", "form")
    if isinstance(mode, str) and mode in modes:
        yield good(asked.where)
    else:
        yield bad(f"the client was asked in mode {mode!r}, which it did not declare", asked.where)


# --- what is asked ---------------------------------------------------------------------------


@check(
    "2025-11-25:elicitation-required-params",
    "2026-07-28:elicitation-required-params",
    needs=ASKS,
)
def required_params(history: History) -> Iterator[Observation]:
    """There is a message, and a mode unless it is a form."""
    for asked in _elicitations(history):
        params = asked.params
        is_unnamed_url = (
            "mode" not in params and "url" in params and "requestedSchema" not in params
        )
        if not isinstance(params.get("message"), str):
            yield bad("an elicitation has no `message`", asked.where)
        elif params.get("mode", "form") not in ("form", "url") or is_unnamed_url:
            yield bad("an elicitation is neither a form nor says that it is a URL", asked.where)
        else:
            yield good(asked.where)


@check("2025-11-25:elicitation-mode-omitted", needs=ASKS)
def mode_omitted(history: History) -> Iterator[Observation]:
    """A form may say that it is one, or not."""
    for asked in _elicitations(history):
        if asked.params.get("mode", "form") == "form":
            yield good(asked.where)


@check("2025-11-25:elicitation-form-schema", "2026-07-28:elicitation-form-schema", needs=ASKS)
def form_schema(history: History) -> Iterator[Observation]:
    """A form has a schema."""
    for asked in _elicitations(history):
        if asked.params.get("mode", "form") != "form" or "url" in asked.params:
            continue
        if isinstance(asked.params.get("requestedSchema"), dict):
            yield good(asked.where)
        else:
            yield bad("a form has no `requestedSchema`", asked.where)


@check("2025-11-25:elicitation-schema-flat", needs=ASKS)
def schema_flat(history: History) -> Iterator[Observation]:
    """The fields of a form are simple."""
    for asked in _elicitations(history):
        schema = asked.params.get("requestedSchema")
        if not isinstance(schema, dict):
            continue
        properties = schema.get("properties", {})
        fields = properties if isinstance(properties, dict) else {}
        nested = [name for name, field in fields.items() if not _is_simple(field)]
        if schema.get("type", "object") != "object" or not isinstance(properties, dict):
            yield bad("the schema of a form is no object with properties", asked.where)
        elif nested:
            yield bad(f"the field {nested[0]!r} of a form is no simple value", asked.where)
        else:
            yield good(asked.where)


def _is_simple(field: Any) -> bool:
    """Neither an object nor an array, unless of values to choose from."""
    if not isinstance(field, dict) or field.get("type") == "object" or "properties" in field:
        return False
    if field.get("type") != "array":
        return True
    items = field.get("items")
    return isinstance(items, dict) and bool(items.keys() & {"enum", "anyOf", "oneOf", "const"})


@check("2025-11-25:elicitation-url-params", needs=ASKS_URL)
def url_params(history: History) -> Iterator[Observation]:
    """A URL comes with a message and an id."""
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
    """The URL is one."""
    for asked in _elicitations(history):
        url = asked.params.get("url")
        if asked.params.get("mode") == "url" and isinstance(url, str):
            yield good(asked.where) if _is_url(url) else bad(f"{url!r} is no URL", asked.where)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and (parts.netloc or parts.path)) and not set(text) & set(" \t\r\n<>")


# --- what becomes of answers -----------------------------------------------------------------


@check(
    "2025-11-25:elicitation-server-validates",
    "2026-07-28:elicitation-server-validates",
    needs=f"{ASKS} and shows what it was told",
)
def server_validates(history: History) -> Iterator[Observation]:
    """Content that breaks the schema of the form is not taken for an answer."""
    for told in _answers(history):
        if told.answer.get("action") != "accept":
            continue
        schema = told.asked.params.get("requestedSchema")
        if certain_fault(schema, told.answer.get("content", {})) is not None:
            words = "an answer that breaks the schema of the form was taken"
            yield from refused_or_taken(history, told, words)


@check("2026-07-28:elicitation-refusals-handled", needs=ASKS)
def refusals_handled(history: History) -> Iterator[Observation]:
    """A task or call that is refused an answer goes on, or ends."""
    for told in _answers(history):
        if told.answer.get("action") not in ("decline", "cancel") or told.exchange is None:
            continue
        if told.asked.task_id is not None:
            yield from _goes_on(history, told, told.asked.task_id)
        elif told.exchange.fields:
            yield good(told.exchange)
        elif not told.exchange.is_answered and (told.exchange.waited_ms or 0) > SOON_MS:
            yield bad("a call hangs after its question was refused", told.exchange)


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
            yield bad("a task still asks what it was refused", told.exchange, sighting)
            return


def _is_asked_after(sighting: Sighting, number: int) -> bool:
    return sighting.exchange is not None and sighting.exchange.request.number > number


def _answers(history: History) -> Iterator[Told]:
    """Answers of ours to elicitations that are objects."""
    for told in all_told(history):
        if told.asked.method == "elicitation/create" and isinstance(told.answer, dict):
            yield told
