"""How clients of 2025-11-25 begin, and with whom they go on."""

from collections.abc import Iterator
from typing import Any, Final

from taskmachine.adapters.conformance.clients.view import as_client
from taskmachine.adapters.conformance.history import Entry, History
from taskmachine.adapters.conformance.judging import Observation, bad, client_check, good

__all__: list[str] = []

_ANY: Final = "a client that begins at all"
_OVERTAKING_MS: Final = 1_000.0
"""Of two POSTs the second may be the first to arrive."""


def _messages(history: History) -> dict[int, list[Entry]]:
    """What the client said on each line."""
    lines: dict[int, list[Entry]] = {}
    for entry in history.heard:
        if entry.body:
            lines.setdefault(entry.line, []).append(entry)
    return lines


@client_check("2025-11-25:initialize-sent-by-client", "2025-11-25:initialize-first", needs=_ANY)
def begins_with_initialize(history: History) -> Iterator[Observation]:
    """The first message is `initialize`, with its three parts."""
    for first, *_ in _messages(history).values():
        missing = [name for name, kind in _PARTS if not isinstance(first.params.get(name), kind)]
        if first.method != "initialize":
            yield bad(f"the first message is {first.method or 'no request'}", first)
        elif missing:
            yield bad(f"`initialize` has no {missing[0]}", first)
        else:
            yield good(first)


_PARTS: Final = (("protocolVersion", str), ("capabilities", dict), ("clientInfo", dict))


def _hello(entries: list[Entry], history: History) -> Any:
    exchanges = as_client(history).calls("initialize")
    return next((e for e in exchanges if e.request.line == entries[0].line), None)


@client_check("2025-11-25:initialized-sent", needs=_ANY)
def says_initialized(history: History) -> Iterator[Observation]:
    """It comes before any ordinary request."""
    for entries in _messages(history).values():
        hello = _hello(entries, history)
        if hello is None or not hello.fields:
            continue
        told = next((e for e in entries if e.method == "notifications/initialized"), None)
        ordinary = next(
            (e for e in entries if e.is_request and e.method not in ("initialize", "ping")), None
        )
        if ordinary is None:
            if told is not None:
                yield good(told)
        elif told is None or told.at - ordinary.at > _OVERTAKING_MS:
            yield bad("a request came before `notifications/initialized`", ordinary)
        else:
            yield good(told)


@client_check("2025-11-25:client-waits-for-initialize", needs=_ANY)
def waits_for_the_answer(history: History) -> Iterator[Observation]:
    """Until `initialize` is answered there are only pings."""
    for entries in _messages(history).values():
        hello = _hello(entries, history)
        if hello is None or hello.response is None:
            continue
        early = [
            e
            for e in entries
            if hello.request.number < e.number < hello.response.number
            and e.is_request
            and e.method != "ping"
        ]
        if early:
            yield bad(f"sent {early[0].method} before `initialize` was answered", hello, early[0])
        else:
            yield good(hello)


@client_check("2025-11-25:client-version-supported", needs=_ANY)
def works_with_its_version(history: History) -> Iterator[Observation]:
    """It works with the version that it proposed."""
    for entries in _messages(history).values():
        hello = _hello(entries, history)
        if hello is None or hello.params.get("protocolVersion") != hello.fields.get(
            "protocolVersion"
        ):
            continue
        if any(e.method == "notifications/initialized" for e in entries):
            yield good(hello)


@client_check("2025-11-25:client-disconnects-on-version", needs="a client that begins at all")
def leaves_unknown_versions(history: History) -> Iterator[Observation]:
    """A version that nobody knows is no base to go on."""
    for entries in _messages(history).values():
        hello = _hello(entries, history)
        if hello is None or not str(hello.fields.get("protocolVersion", "")).startswith("2099"):
            continue
        later = [e for e in entries if hello.response and e.number > hello.response.number]
        if later:
            yield bad("went on with a version that does not exist", hello, later[0])
        else:
            yield good(hello)


@client_check("2025-11-25:initialize-not-cancelled", needs=_ANY)
def initialize_not_cancelled(history: History) -> Iterator[Observation]:
    """Never."""
    for entries in _messages(history).values():
        hello = _hello(entries, history)
        if hello is None:
            continue
        id = repr(hello.request.body.get("id"))
        wrong = next(
            (
                e
                for e in entries
                if e.method == "notifications/cancelled" and repr(e.params.get("requestId")) == id
            ),
            None,
        )
        yield good(hello) if wrong is None else bad("cancelled `initialize`", hello, wrong)


@client_check("2025-11-25:cursors-not-persisted", needs="a client that lists anything")
def begins_lists_anew(history: History) -> Iterator[Observation]:
    """The first list on a line is asked for without a cursor."""
    seen: set[tuple[int, str]] = set()
    for exchange in as_client(history).calls("tools/list", "tasks/list"):
        key = exchange.request.line, exchange.method
        if key not in seen:
            seen.add(key)
            if exchange.params.get("cursor") is None:
                yield good(exchange)
            else:
                yield bad("began a list with a cursor", exchange)
