"""Checks of initialization and versions of clients (2025-11-25)."""

from collections.abc import Iterator
from typing import Any, Final

from taskmachine.adapters.conformance.clients.view import as_client
from taskmachine.adapters.conformance.history import Entry, History
from taskmachine.adapters.conformance.judging import Observation, bad, client_check, good

__all__: list[str] = []

_ANY: Final = "a client that sends messages"
_OVERTAKING_MS: Final = 1_000.0
"""The second of two POSTs may arrive first, within this time."""


def _messages(history: History) -> dict[int, list[Entry]]:
    """Return the messages of the client on each connection."""
    lines: dict[int, list[Entry]] = {}
    for entry in history.heard:
        if entry.body:
            lines.setdefault(entry.line, []).append(entry)
    return lines


@client_check("2025-11-25:initialize-sent-by-client", "2025-11-25:initialize-first", needs=_ANY)
def begins_with_initialize(history: History) -> Iterator[Observation]:
    """Check that the first message is `initialize` with its three required parameters."""
    for first, *_ in _messages(history).values():
        missing = [
            name for name, kind in _REQUIRED_PARAMS if not isinstance(first.params.get(name), kind)
        ]
        if first.method != "initialize":
            yield bad("the first message is not 'initialize'", first)
        elif missing:
            yield bad(f"`initialize` has no valid `{missing[0]}`", first)
        else:
            yield good(first)


_REQUIRED_PARAMS: Final = (("protocolVersion", str), ("capabilities", dict), ("clientInfo", dict))


def _initialize(entries: list[Entry], history: History) -> Any:
    exchanges = as_client(history).calls("initialize")
    return next((e for e in exchanges if e.request.line == entries[0].line), None)


@client_check("2025-11-25:initialized-sent", needs=_ANY)
def sends_initialized(history: History) -> Iterator[Observation]:
    """Check that the client sends `initialized` before any ordinary request."""
    for entries in _messages(history).values():
        initialize = _initialize(entries, history)
        if initialize is None or not initialize.fields:
            continue
        initialized = next((e for e in entries if e.method == "notifications/initialized"), None)
        ordinary = next(
            (e for e in entries if e.is_request and e.method not in ("initialize", "ping")), None
        )
        if ordinary is None:
            if initialized is not None:
                yield good(initialized)
        elif initialized is None or initialized.at - ordinary.at > _OVERTAKING_MS:
            yield bad("the client sent a request before `notifications/initialized`", ordinary)
        else:
            yield good(initialized)


@client_check("2025-11-25:client-waits-for-initialize", needs=_ANY)
def waits_for_initialize_response(history: History) -> Iterator[Observation]:
    """Check that the client sends only pings before the response to `initialize`."""
    for entries in _messages(history).values():
        initialize = _initialize(entries, history)
        if initialize is None or initialize.response is None:
            continue
        early = [
            e
            for e in entries
            if initialize.request.number < e.number < initialize.response.number
            and e.is_request
            and e.method != "ping"
        ]
        if early:
            words = f"the client sent {early[0].method!r} before the response to `initialize`"
            yield bad(words, initialize, early[0])
        else:
            yield good(initialize)


@client_check("2025-11-25:client-version-supported", needs=_ANY)
def continues_with_its_version(history: History) -> Iterator[Observation]:
    """Check that the client continues with the version that it proposed."""
    for entries in _messages(history).values():
        initialize = _initialize(entries, history)
        if initialize is None or initialize.params.get("protocolVersion") != initialize.fields.get(
            "protocolVersion"
        ):
            continue
        if any(e.method == "notifications/initialized" for e in entries):
            yield good(initialize)


@client_check("2025-11-25:client-disconnects-on-version", needs="a client that sends messages")
def disconnects_on_unknown_version(history: History) -> Iterator[Observation]:
    """Check that the client disconnects if the server offers a nonexistent version."""
    for entries in _messages(history).values():
        initialize = _initialize(entries, history)
        if initialize is None or not str(initialize.fields.get("protocolVersion", "")).startswith(
            "2099"
        ):
            continue
        later = [
            e for e in entries if initialize.response and e.number > initialize.response.number
        ]
        if later:
            words = "the client continued with a protocol version that does not exist"
            yield bad(words, initialize, later[0])
        else:
            yield good(initialize)


@client_check("2025-11-25:initialize-not-cancelled", needs=_ANY)
def initialize_not_cancelled(history: History) -> Iterator[Observation]:
    """Check that the client does not cancel `initialize`."""
    for entries in _messages(history).values():
        initialize = _initialize(entries, history)
        if initialize is None:
            continue
        id = repr(initialize.request.body.get("id"))
        wrong = next(
            (
                e
                for e in entries
                if e.method == "notifications/cancelled" and repr(e.params.get("requestId")) == id
            ),
            None,
        )
        if wrong is None:
            yield good(initialize)
        else:
            yield bad("the client cancelled `initialize`", initialize, wrong)


@client_check("2025-11-25:cursors-not-persisted", needs="a client that requests a list")
def begins_lists_without_cursor(history: History) -> Iterator[Observation]:
    """Check that the first list request on a connection has no cursor."""
    seen: set[tuple[int, str]] = set()
    for exchange in as_client(history).calls("tools/list", "tasks/list"):
        key = exchange.request.line, exchange.method
        if key not in seen:
            seen.add(key)
            if exchange.params.get("cursor") is None:
                yield good(exchange)
            else:
                yield bad("the first list request of a session has a cursor", exchange)
