"""Checks of clients over HTTP: POST, headers, sessions, streams (2025-11-25)."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from taskmachine.adapters.conformance.checks.client.polling import (
    INACTIVE_MS,
    active_until,
    exited_normally,
    was_stopped,
)
from taskmachine.adapters.conformance.clients.incoming import COMMENT
from taskmachine.adapters.conformance.clients.view import as_client
from taskmachine.adapters.conformance.history import MISSING, Entry, Exchange, History, Kind
from taskmachine.adapters.conformance.judging import Observation, bad, client_check, good

__all__: list[str] = []

_SESSION: Final = "mcp-session-id"
_VERSION: Final = "mcp-protocol-version"
_EARLY_MS: Final = 100.0
"""Tolerance for `retry` times: clock differences and transmission."""


def _posts(history: History, *methods: str) -> Iterator[Entry]:
    """Yield the client's HTTP requests with these methods."""
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


# --- POST -----------------------------------------------------------------------------------------


@client_check(
    "2025-11-25:http-accept-both", "2026-07-28:http-accept-both", needs="a client over HTTP"
)
def accepts_both(history: History) -> Iterator[Observation]:
    """Check that `Accept` lists both types; a wildcard does not list them."""
    for entry in _posts(history, "POST"):
        missing = {"application/json", "text/event-stream"} - _accepts(entry)
        if missing:
            yield bad(f"`Accept` of a POST does not list {sorted(missing)[0]!r}", entry)
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
    """Check that the body of a POST is a single message."""
    for entry in _posts(history, "POST"):
        if isinstance(entry.message, list):
            words = "the client sent a batch of messages in a POST; each needs its own POST"
            yield bad(words, entry)
        elif entry.message is MISSING:
            yield bad("the body of a POST is not a JSON-RPC message", entry)
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
    needs="a client over HTTP that sends more requests after an SSE stream with comments",
    forms=("text/event-stream with comments",),
)
def accepts_json_and_sse(history: History, forms: tuple[str, ...]) -> Iterator[Observation]:
    """Check that the client continues after a response of each form.

    It does not support a form if it never continued after such a response, and the last response
    before it ended had that form.
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
        elif (
            gone_on and _requires_continuation(answered[-1]) and _stopped_at(history, answered[-1])
        ):
            final = answered[-1]
            if final.request.number == last and _form(final, commented).startswith(form):
                yield bad(f"the client did not continue after a response as {form}", final)


def _requires_continuation(exchange: Exchange) -> bool:
    """Return whether the content of the response gives no reason to end."""
    if exchange.method == "tools/list":
        return bool(exchange.fields.get("nextCursor") or exchange.fields.get("tools"))
    return exchange.method == "tasks/get" and exchange.fields.get("status") == "working"


def _stopped_at(history: History, exchange: Exchange) -> bool:
    """Return whether the client then failed, or was inactive for a long time."""
    if was_stopped(history):
        return active_until(history) - (exchange.heard_at or 0) > INACTIVE_MS
    return not exited_normally(history)


# --- sessions ------------------------------------------------------------------------------------


def _initializations(
    history: History,
) -> dict[int, tuple[Entry, Mapping[str, str], Mapping[str, Any]]]:
    """Return the response to `initialize` of each session, with its headers and result."""
    return {
        exchange.request.line: (exchange.response, exchange.headers, exchange.fields)
        for exchange in as_client(history).calls("initialize")
        if exchange.response is not None and exchange.fields
    }


def _after_initialize(
    history: History,
) -> Iterator[tuple[Entry, Mapping[str, str], Mapping[str, Any]]]:
    """Yield HTTP requests after `initialize`, with the headers and result of its response."""
    hellos = _initializations(history)
    for entry in _posts(history, "POST", "GET", "DELETE"):
        initialize = hellos.get(entry.line)
        if (
            initialize is not None
            and entry.number > initialize[0].number
            and entry.method != "initialize"
        ):
            yield entry, initialize[1], initialize[2]


@client_check("2025-11-25:session-id-sent", needs="a client over HTTP")
def session_id_sent(history: History) -> Iterator[Observation]:
    """Check that every HTTP request after `initialize` has the session id."""
    for entry, headers, _ in _after_initialize(history):
        given, sent = headers.get(_SESSION), _header(entry, _SESSION)
        if sent == given:
            yield good(entry)
        elif sent is None:
            yield bad("a request in a session has no 'Mcp-Session-Id' header", entry)
        else:
            words = "the 'Mcp-Session-Id' of a request differs from the id that the server assigned"
            yield bad(words, entry)


@client_check("2025-11-25:protocol-version-header", needs="a client over HTTP")
def version_header(history: History) -> Iterator[Observation]:
    """Check that every HTTP request after `initialize` has the header."""
    for entry, _, initialize in _after_initialize(history):
        if initialize.get("protocolVersion") != history.revision:
            continue  # no version was negotiated
        if _header(entry, _VERSION) is None:
            yield bad("an HTTP request has no 'MCP-Protocol-Version' header", entry)
        else:
            yield good(entry)


@client_check("2025-11-25:protocol-version-header-negotiated", needs="a client over HTTP")
def version_header_negotiated(history: History) -> Iterator[Observation]:
    """Check that its value is the negotiated version."""
    for entry, _, initialize in _after_initialize(history):
        sent = _header(entry, _VERSION)
        if sent is not None and initialize.get("protocolVersion") == history.revision:
            if sent == initialize.get("protocolVersion"):
                yield good(entry)
            else:
                words = f"'MCP-Protocol-Version' is {sent!r:.40}, not the negotiated version"
                yield bad(words, entry)


@client_check(
    "2025-11-25:session-404-starts-new-session", needs="a client that continues after a 404"
)
def starts_new_session(history: History) -> Iterator[Observation]:
    """Check that a client that continues after a 404 sends a new `initialize` without session id.

    A client that ends there breaks no observable rule.
    """
    refused = [
        head
        for head in history.entries
        if head.kind is Kind.HEAD and head.http is not None and head.http.status == 404
    ]
    if not refused:
        return
    later = [e for e in _posts(history, "POST", "GET") if e.number > refused[0].number]
    initialize = next((e for e in later if e.method == "initialize"), None)
    insisting = [e for e in later if e.line == refused[0].line and e.is_request]
    if initialize is not None:
        if _header(initialize, _SESSION) is None:
            yield good(refused[0], initialize)
        else:
            words = "the client sent a new 'initialize' with the session id that got a 404"
            yield bad(words, refused[0], initialize)
    elif len(insisting) >= 2:
        words = "the client continued a session that got a 404 instead of starting a new one"
        yield bad(words, refused[0], insisting[0])


@client_check("2025-11-25:session-deleted-by-client", needs="a client that exits on its own")
def session_deleted(history: History) -> Iterator[Observation]:
    """Check that a client that exits normally ends its session."""
    if was_stopped(history) or not exited_normally(history):
        return
    deleted = {entry.line: entry for entry in _posts(history, "DELETE")}
    lost = {
        e.line
        for e in history.entries
        if e.kind is Kind.HEAD and e.http is not None and e.http.status == 404
    }
    for line, (response, headers, initialize) in _initializations(history).items():
        if _SESSION not in headers or initialize.get("protocolVersion") != "2025-11-25":
            continue
        if line in deleted:
            yield good(deleted[line])
        elif line not in lost:
            yield bad("the client exited without ending its session with DELETE", response)


# --- streams --------------------------------------------------------------------------------------


@client_check("2025-11-25:get-stream-accept", needs="a client that opens a GET stream")
def get_accepts(history: History) -> Iterator[Observation]:
    """Check that `Accept` lists `text/event-stream`."""
    for entry in _posts(history, "GET"):
        if "text/event-stream" in _accepts(entry):
            yield good(entry)
        else:
            yield bad("`Accept` of a GET does not list 'text/event-stream'", entry)


@client_check("2025-11-25:get-stream-optional", needs="a client that opens a GET stream")
def get_stream_is_optional(history: History) -> Iterator[Observation]:
    """Record GET streams, which are optional."""
    for entry in _posts(history, "GET"):
        yield good(entry)


@client_check("2025-11-25:get-stream-client-may-close", needs="a client that closes a GET stream")
def get_stream_may_be_closed(history: History) -> Iterator[Observation]:
    """Record GET streams that the client closed, which is allowed."""
    gets = {entry.post for entry in _posts(history, "GET")}
    for entry in history.entries:
        if entry.kind is Kind.ENDED and entry.post in gets:
            yield good(entry)


@client_check("2025-11-25:many-streams", needs="a client with several concurrent streams")
def many_streams(history: History) -> Iterator[Observation]:
    """Record concurrent streams, which are allowed."""
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
    """Yield streams that the server closed after an event id: event, end, and resuming GET."""
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
def resumes_stream(history: History) -> Iterator[Observation]:
    """Check that the client resumes the stream with a GET with the last event id."""
    for event, end, back in _cut_streams(history):
        if back is not None:
            yield good(event, end, back)
        elif active_until(history) - end.at > INACTIVE_MS:
            yield bad("the client did not resume a stream that the server closed", event, end)


@client_check(
    "2025-11-25:sse-retry-respected", needs="a client over HTTP that resumes a stream that was cut"
)
def waits_for_retry_time(history: History) -> Iterator[Observation]:
    """Check that the client waits for the `retry` time."""
    for event, end, back in _cut_streams(history):
        retry = event.http.retry_ms if event.http is not None else None
        if back is None or retry is None:
            continue
        waited = back.at - end.at
        if waited < retry - _EARLY_MS:
            words = f"the client reconnected after {waited:.0f} ms; `retry` is {retry} ms"
            yield bad(words, event, end, back)
        else:
            yield good(event, end, back)


@client_check(
    "2025-11-25:cancel-sent-explicitly",
    needs="a client over HTTP that abandons a call without 'task'",
)
def cancels_explicitly(history: History) -> Iterator[Observation]:
    """Check that a client that abandons a call and continues sends `notifications/cancelled`."""
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
            continues = any(e.request.number > left.number for e in client.exchanges)
            if left.kind is Kind.LEFT and continues:
                words = "the client abandoned a call without sending `notifications/cancelled`"
                yield bad(words, exchange)
