"""Clients of 2025-11-25 over HTTP: posts, headers, sessions, streams."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from taskmachine.adapters.conformance.checks.client.polling import (
    PATIENCE_MS,
    has_hung,
    lived_until,
)
from taskmachine.adapters.conformance.clients.incoming import COMMENT
from taskmachine.adapters.conformance.clients.view import as_client
from taskmachine.adapters.conformance.history import MISSING, Entry, Exchange, History, Kind
from taskmachine.adapters.conformance.judging import Observation, bad, client_check, good

__all__: list[str] = []

_SESSION: Final = "mcp-session-id"
_VERSION: Final = "mcp-protocol-version"
_EARLY_MS: Final = 100.0
"""Of a `retry` time: clocks and the way."""


def _posts(history: History, *methods: str) -> Iterator[Entry]:
    """The HTTP requests of the client with these HTTP methods."""
    for entry in history.heard:
        if entry.http is not None and entry.http.method in methods:
            yield entry


def _header(entry: Entry, name: str) -> str | None:
    return None if entry.http is None else entry.http.headers.get(name)


def _accepts(entry: Entry) -> set[str]:
    return {
        part.partition(";")[0].strip().lower()
        for part in (_header(entry, "accept") or "").split(",")
    }


# --- posts ---------------------------------------------------------------------------------------


@client_check(
    "2025-11-25:http-accept-both", "2026-07-28:http-accept-both", needs="a client over HTTP"
)
def accepts_both(history: History) -> Iterator[Observation]:
    """Both types are listed; a wildcard does not list them."""
    for entry in _posts(history, "POST"):
        missing = {"application/json", "text/event-stream"} - _accepts(entry)
        if missing:
            yield bad(f"`Accept` does not list {sorted(missing)[0]}", entry)
        else:
            yield good(entry)


@client_check(
    "2025-11-25:http-single-message-body",
    "2026-07-28:http-single-message-body",
    "2025-11-25:http-one-post-per-message",
    "2026-07-28:http-one-post-per-message",
    needs="a client over HTTP",
)
def one_message_each(history: History) -> Iterator[Observation]:
    """The body of a POST is one message."""
    for entry in _posts(history, "POST"):
        if isinstance(entry.message, list):
            yield bad("a POST has a batch of messages", entry)
        elif entry.message is MISSING:
            yield bad("the body of a POST is no message", entry)
        else:
            yield good(entry)


def _form(exchange: Exchange, commented: set[int | None]) -> str:
    form = exchange.headers.get("content-type", "")
    return f"{form} with comments" if exchange.request.post in commented else form


@client_check(
    "2025-11-25:http-client-takes-both",
    "2026-07-28:http-client-takes-both",
    needs="a client over HTTP that sends several requests",
    forms=("application/json", "text/event-stream"),
)
@client_check(
    "2026-07-28:sse-comments-ignored",
    needs="a client over HTTP that goes on",
    forms=("text/event-stream with comments",),
)
def answers_are_understood(history: History, forms: tuple[str, ...]) -> Iterator[Observation]:
    """After an answer of each form the client goes on.

    It does not understand one if it never went on after any such answer, and ended there.
    """
    client = as_client(history)
    commented = {e.post for e in history.entries if e.text == COMMENT}
    answered = [e for e in client.exchanges if e.response is not None and e.head is not None]
    last = max((e.request.number for e in client.exchanges), default=0)
    gone_on = [e for e in answered if e.response is not None and e.response.number < last]
    for form in forms:
        fine = [e for e in gone_on if _form(e, commented).startswith(form)]
        if fine:
            yield good(fine[0])
        elif gone_on and _is_reason_to_go_on(answered[-1]) and _ended_at(history, answered[-1]):
            final = answered[-1]
            if final.request.number == last and _form(final, commented).startswith(form):
                yield bad(f"did not go on after an answer as {form}", final)


def _is_reason_to_go_on(exchange: Exchange) -> bool:
    """Whether no client could end because of what it says."""
    if exchange.method == "tools/list":
        return bool(exchange.fields.get("nextCursor") or exchange.fields.get("tools"))
    return exchange.method == "tasks/get" and exchange.fields.get("status") == "working"


def _ended_at(history: History, exchange: Exchange) -> bool:
    """Whether the client left with an error then, or did nothing more for long."""
    if has_hung(history):
        return lived_until(history) - (exchange.heard_at or 0) > PATIENCE_MS
    return _ended_badly(history)


def _ended_badly(history: History) -> bool:
    return not any(e.kind is Kind.EXITED and e.text == "exit status 0" for e in history.entries)


# --- sessions ------------------------------------------------------------------------------------


def _hellos(history: History) -> dict[int, tuple[Entry, Mapping[str, str], Mapping[str, Any]]]:
    """For each session: the answer to `initialize`, its headers and its result."""
    return {
        exchange.request.line: (exchange.response, exchange.headers, exchange.fields)
        for exchange in as_client(history).calls("initialize")
        if exchange.response is not None and exchange.fields
    }


def _after_hello(history: History) -> Iterator[tuple[Entry, Mapping[str, str], Mapping[str, Any]]]:
    """HTTP requests after `initialize` was answered, with the headers and result of the answer."""
    hellos = _hellos(history)
    for entry in _posts(history, "POST", "GET", "DELETE"):
        hello = hellos.get(entry.line)
        if hello is not None and entry.number > hello[0].number and entry.method != "initialize":
            yield entry, hello[1], hello[2]


@client_check("2025-11-25:session-id-sent", needs="a client over HTTP")
def session_id_sent(history: History) -> Iterator[Observation]:
    """Every HTTP request after `initialize` has the session id."""
    for entry, headers, _ in _after_hello(history):
        given, sent = headers.get(_SESSION), _header(entry, _SESSION)
        if sent == given:
            yield good(entry)
        elif sent is None:
            yield bad("a request has no session id", entry)
        else:
            yield bad("a request has another session id than was given", entry)


@client_check("2025-11-25:protocol-version-header", needs="a client over HTTP")
def version_header(history: History) -> Iterator[Observation]:
    """Every HTTP request after `initialize` has the header."""
    for entry, _, hello in _after_hello(history):
        if hello.get("protocolVersion") != history.revision:
            continue  # nothing was agreed on
        if _header(entry, _VERSION) is None:
            yield bad("a request has no `MCP-Protocol-Version`", entry)
        else:
            yield good(entry)


@client_check("2025-11-25:protocol-version-header-negotiated", needs="a client over HTTP")
def version_header_negotiated(history: History) -> Iterator[Observation]:
    """Its value is the version of the answer."""
    for entry, _, hello in _after_hello(history):
        sent = _header(entry, _VERSION)
        if sent is not None and hello.get("protocolVersion") == history.revision:
            if sent == hello.get("protocolVersion"):
                yield good(entry)
            else:
                yield bad(f"`MCP-Protocol-Version` is {sent!r:.40}", entry)


@client_check("2025-11-25:session-404-starts-anew", needs="a client that goes on after a 404")
def starts_anew(history: History) -> Iterator[Observation]:
    """After a 404 there is a new `initialize` without a session id, or nothing at all.

    A client that ends there breaks no rule that can be seen.
    """
    refused = [
        head
        for head in history.entries
        if head.kind is Kind.HEAD and head.http is not None and head.http.status == 404
    ]
    if not refused:
        return
    later = [e for e in _posts(history, "POST", "GET") if e.number > refused[0].number]
    hello = next((e for e in later if e.method == "initialize"), None)
    insisting = [e for e in later if e.line == refused[0].line and e.is_request]
    if hello is not None:
        if _header(hello, _SESSION) is None:
            yield good(refused[0], hello)
        else:
            yield bad("began anew with the session id that was refused", refused[0], hello)
    elif len(insisting) >= 2:
        yield bad("went on with a session that was refused", refused[0], insisting[0])


@client_check("2025-11-25:session-deleted-by-client", needs="a client that ends by itself")
def session_deleted(history: History) -> Iterator[Observation]:
    """A client that ends in peace ends its session."""
    if has_hung(history) or _ended_badly(history):
        return
    deleted = {entry.line: entry for entry in _posts(history, "DELETE")}
    lost = {
        e.line
        for e in history.entries
        if e.kind is Kind.HEAD and e.http is not None and e.http.status == 404
    }
    for line, (response, headers, hello) in _hellos(history).items():
        if _SESSION not in headers or hello.get("protocolVersion") != "2025-11-25":
            continue
        if line in deleted:
            yield good(deleted[line])
        elif line not in lost:
            yield bad("left without ending its session", response)


# --- streams -------------------------------------------------------------------------------------


@client_check("2025-11-25:get-stream-accept", needs="a client that opens a GET stream")
def get_accepts(history: History) -> Iterator[Observation]:
    """`Accept` lists events."""
    for entry in _posts(history, "GET"):
        if "text/event-stream" in _accepts(entry):
            yield good(entry)
        else:
            yield bad("a GET does not accept text/event-stream", entry)


@client_check("2025-11-25:get-stream-optional", needs="a client that opens a GET stream")
def may_listen(history: History) -> Iterator[Observation]:
    """It may."""
    for entry in _posts(history, "GET"):
        yield good(entry)


@client_check("2025-11-25:get-stream-client-may-close", needs="a client that closes a GET stream")
def may_close(history: History) -> Iterator[Observation]:
    """It may."""
    gets = {entry.post for entry in _posts(history, "GET")}
    for entry in history.entries:
        if entry.kind is Kind.ENDED and entry.post in gets:
            yield good(entry)


@client_check("2025-11-25:many-streams", needs="a client with several streams at once")
def many_streams(history: History) -> Iterator[Observation]:
    """They all work."""
    open_posts: set[int | None] = set()
    for entry in history.entries:
        if entry.kind is Kind.HEAD and entry.http is not None:
            if entry.http.headers.get("content-type") == "text/event-stream":
                open_posts.add(entry.post)
                if len(open_posts) > 1:
                    yield good(entry)
        elif entry.kind in (Kind.LEFT, Kind.ENDED):
            open_posts.discard(entry.post)


def _cut_streams(history: History) -> Iterator[tuple[Entry, Entry, Entry | None]]:
    """Streams that we closed after an event with an id: event, end, and who came back."""
    for event in history.entries:
        event_id = event.http.event_id if event.http is not None else None
        if event.kind is not Kind.SENT or event.message is not MISSING or event_id is None:
            continue
        end = next(
            (e for e in history.entries if e.kind is Kind.LEFT and e.post == event.post), None
        )
        if end is None:
            continue
        back = next(
            (e for e in _posts(history, "GET") if _header(e, "last-event-id") == event_id), None
        )
        yield event, end, back


@client_check(
    "2025-11-25:sse-client-reconnects",
    "2025-11-25:resume-by-get",
    needs="a client over HTTP that calls a tool whose stream is cut",
)
def comes_back(history: History) -> Iterator[Observation]:
    """A GET with the id of the last event arrives."""
    for event, end, back in _cut_streams(history):
        if back is not None:
            yield good(event, end, back)
        elif lived_until(history) - end.at > PATIENCE_MS:
            yield bad("did not come back to a stream that was closed", event, end)


@client_check(
    "2025-11-25:sse-retry-respected",
    needs="a client over HTTP that comes back to a stream that was cut",
)
def waits_before_coming_back(history: History) -> Iterator[Observation]:
    """Not sooner than the `retry` time."""
    for event, end, back in _cut_streams(history):
        retry = event.http.retry_ms if event.http is not None else None
        if back is None or retry is None:
            continue
        waited = back.at - end.at
        if waited < retry - _EARLY_MS:
            yield bad(f"came back after {waited:.0f} ms; `retry` is {retry} ms", event, end, back)
        else:
            yield good(event, end, back)


@client_check(
    "2025-11-25:cancel-sent-explicitly",
    needs="a client over HTTP that gives up a plain call",
)
def cancels_explicitly(history: History) -> Iterator[Observation]:
    """Whoever leaves the stream of a call that is not answered, and goes on, says so."""
    client = as_client(history)
    cancelled = {
        repr(entry.params.get("requestId")): entry
        for entry in history.notifications("notifications/cancelled")
    }
    for exchange in client.calls("tools/call"):
        told = cancelled.get(repr(exchange.request.body.get("id")))
        if told is not None:
            yield good(exchange, told)
        elif not exchange.is_answered and exchange.end is not None:
            left = exchange.end
            lives_on = any(e.request.number > left.number for e in client.exchanges)
            if left.kind is Kind.LEFT and lives_on:
                yield bad("gave up a call without `notifications/cancelled`", exchange)
