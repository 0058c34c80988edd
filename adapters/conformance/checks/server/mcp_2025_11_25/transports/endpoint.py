"""Checks of the 2025-11-25 transports: encoding, stdio, endpoint, access, responses to POST."""

import json
import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading.messages import is_well_formed, message_fault
from taskmachine.adapters.conformance.checks.reading.posts import Post, is_in_live_session, posts
from taskmachine.adapters.conformance.history import MISSING, Entry, Exchange, History, Kind
from taskmachine.adapters.conformance.judging import (
    Observation,
    bad,
    cannot_check,
    check,
    good,
    note,
    warning,
)

__all__: list[str] = []

_REPLACED: Final = "\N{REPLACEMENT CHARACTER}"
_RESERVED_ORIGIN: Final = re.compile(r"https?://([\w-]+\.)*(example|invalid|test)(:\d+)?")


# --- encoding -------------------------------------------------------------------------------------


@check("2025-11-25:messages-utf8", needs="messages sent by the target")
def messages_are_utf8(history: History) -> Iterator[Observation]:
    """Check that messages are UTF-8, and that ids outside ASCII are returned unchanged."""
    for entry in history.heard:
        if entry.message is MISSING and _REPLACED in (entry.text or ""):
            yield bad("the target sent bytes that are not UTF-8", entry)
        elif entry.message is not MISSING:
            yield good(entry)
    answers = [e for e in history.heard if e.is_response and isinstance(e.body.get("id"), str)]
    for sent in history.entries:
        id = sent.body.get("id")
        if sent.kind is Kind.SENT and sent.is_request and isinstance(id, str) and not id.isascii():
            for answer in answers:
                if answer.line == sent.line and answer.body["id"] in _misreadings(id):
                    words = f"the request id {id!r} was returned as {answer.body['id']!r}"
                    yield bad(words, sent, answer)


def _misreadings(text: str) -> set[str]:
    """Return what a text becomes when it is encoded or decoded with a wrong encoding."""
    raw = text.encode()
    return {
        raw.decode("latin-1"),
        raw.decode("cp1252", "replace"),
        raw.decode("ascii", "replace"),
        raw.decode("ascii", "ignore"),
        text.encode("ascii", "replace").decode(),
        text.encode("latin-1", "replace").decode("utf-8", "replace"),
    } - {text}


def _split_messages(history: History) -> list[list[Entry]]:
    """Return groups of lines that are JSON only together: one message with embedded newlines."""
    split = []
    for is_text, run in groupby(history.heard, lambda entry: entry.message is MISSING):
        lines = list(run)
        if is_text and len(lines) > 1 and len({entry.line for entry in lines}) == 1:
            split += [lines] if _is_json("\n".join(entry.text or "" for entry in lines)) else []
    return split


def _is_json(text: str) -> bool:
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return False
    return True


@check("2025-11-25:stdio-no-embedded-newlines", needs="stdio")
def messages_are_lines(history: History) -> Iterator[Observation]:
    """Check that each message is a single line."""
    if history.transport != "stdio":
        return
    for lines in _split_messages(history):
        yield bad(f"a message is spread over {len(lines)} lines", *lines)
    for entry in history.heard:
        if entry.message is not MISSING:
            yield good(entry)


@check("2025-11-25:stdio-stdout-only-mcp", needs="stdio")
def output_is_messages(history: History) -> Iterator[Observation]:
    """Check that the target writes nothing but messages to stdout."""
    if history.transport != "stdio":
        return
    split = {entry.number for lines in _split_messages(history) for entry in lines}
    for entry in history.heard:
        if entry.message is MISSING and entry.number not in split:
            yield bad("the target wrote a line to stdout that is not JSON", entry)
        elif entry.message is not MISSING:
            is_other = message_fault(entry.message) and not {"jsonrpc", "id"} & entry.body.keys()
            if is_other:
                yield bad("the target wrote a line to stdout that is not a JSON-RPC message", entry)
            else:
                yield good(entry)


cannot_check(
    "Output on stderr is always allowed, so there is nothing to judge.",
    "2025-11-25:stdio-stderr-free",
)


# --- endpoint and access --------------------------------------------------------------------------


def _fresh_gets(history: History) -> Iterator[Post]:
    """Yield valid GET requests for a stream, without another one open in the session.

    The target may reject a second concurrent GET stream.
    """
    gets = [post for post in posts(history) if post.method == "GET" and post.resumes is None]
    for post in gets:
        is_second = any(
            other.line == post.line
            and other.sent.number < post.sent.number
            and (other.end is None or other.end.number > post.sent.number or other.status == 0)
            for other in gets
        )
        if (
            "text/event-stream" in post.sent_headers.get("accept", "")
            and "origin" not in post.sent_headers
            and is_in_live_session(history, post)
            and _is_initialized(history, post)
            and not is_second
            and not post.is_undecided
            and post.status != 403
        ):
            yield post


def _is_initialized(history: History, post: Post) -> bool:
    """Return whether `initialize` had succeeded on the connection."""
    return any(
        initialize.request.line == post.line
        and initialize.response is not None
        and initialize.response.number < post.sent.number
        and initialize.fields.get("protocolVersion")
        == post.sent_headers.get("mcp-protocol-version")
        for initialize in history.calls("initialize")
    )


@check("2025-11-25:http-single-endpoint", needs="HTTP")
def one_endpoint(history: History) -> Iterator[Observation]:
    """Check that the URL accepts POST and GET."""
    for post in _fresh_gets(history):
        if post.status in (404, 501):
            words = f"the URL that accepts POST responds to GET with HTTP status {post.status}"
            yield bad(words, *post.entries)
        else:
            yield good(*post.entries)


@check("2025-11-25:get-stream-sse-or-405", needs="HTTP")
def get_is_a_stream_or_405(history: History) -> Iterator[Observation]:
    """Check that the response to a GET is an SSE stream or 405."""
    for post in _fresh_gets(history):
        if post.is_stream or post.status == 405:
            yield good(*post.entries)
        else:
            kind = f" and the content type {post.kind!r}" if post.kind else ""
            words = f"a GET got HTTP status {post.status}{kind}, neither an SSE stream nor 405"
            yield bad(words, *post.entries)


def _foreign_posts(history: History) -> Iterator[Post]:
    """Yield requests with an Origin of a reserved domain; 401 and 405 are unrelated to it."""
    for post in posts(history):
        is_foreign = _RESERVED_ORIGIN.fullmatch(post.sent_headers.get("origin", ""))
        if is_foreign and not post.is_undecided and post.status != 405:
            yield post


@check("2025-11-25:http-origin-validated", needs="HTTP")
def foreign_origins_are_refused(history: History) -> Iterator[Observation]:
    """Check that a request with a foreign `Origin` is rejected."""
    for post in _foreign_posts(history):
        if post.status < 300:
            origin = post.sent_headers["origin"]
            yield bad(f"the target accepted a {post.method} with 'Origin: {origin}'", *post.entries)
        else:
            yield good(*post.entries)


@check("2025-11-25:http-origin-403", needs="HTTP")
def foreign_origins_get_403(history: History) -> Iterator[Observation]:
    """Check that the rejection has status 403."""
    for post in _foreign_posts(history):
        if post.status == 403:
            yield good(*post.entries)
        else:
            words = f"a request with a foreign 'Origin' got HTTP status {post.status}, not 403"
            yield bad(words, *post.entries)


@check("2025-11-25:http-origin-403-body", needs="a target that rejects a foreign 'Origin'")
def body_of_403(history: History) -> Iterator[Observation]:
    """Check that the rejection has no body, or a JSON-RPC error without an id."""
    return (_without_id(post) for post in _foreign_posts(history) if post.status == 403)


def _without_id(post: Post) -> Observation:
    body: Any = {} if post.response is None else post.response.body
    if body.get("id") is not None:
        return note("the body of the HTTP error has an 'id'", *post.entries)
    return good(*post.entries)


cannot_check(
    "The tester reaches only the given URL and cannot see on which addresses the target listens.",
    "2025-11-25:http-bind-localhost",
)


@check("2025-11-25:http-authentication", needs="HTTP")
def callers_are_authenticated(history: History) -> Iterator[Observation]:
    """Check that requests without credentials are rejected; without any credentials, add a note."""
    if history.transport != "http":
        return
    has_credentials = any(who is not None for who in history.principals.values())
    for exchange in history.exchanges:
        if "authorization" in exchange.sent_headers or not exchange.status:
            continue
        if exchange.status == 401:
            yield good(exchange)
        elif isinstance(exchange.result, dict) and has_credentials:
            yield bad(f"the target served {exchange.method!r} without credentials", exchange)
        elif isinstance(exchange.result, dict):
            yield note("the target serves requests without an 'Authorization' header", exchange)
            return


# --- responses to POST ----------------------------------------------------------------------------


def _is_one_way(entry: Entry) -> bool:
    """Return whether it is a well-formed notification or response."""
    return (entry.is_notification or entry.is_response) and is_well_formed(entry)


@check("2025-11-25:http-202-for-notification", needs="HTTP")
def notifications_get_202(history: History) -> Iterator[Observation]:
    """Check that an accepted notification or response gets 202 without a body."""
    for post in posts(history):
        if post.method != "POST" or not _is_one_way(post.sent) or not 200 <= post.status < 300:
            continue
        what = "notification" if post.sent.is_notification else "response"
        if post.status != 202:
            yield bad(f"a {what} got HTTP status {post.status}, not 202", *post.entries)
        elif post.has_body:
            yield bad(f"the 202 response to a {what} has a body", *post.entries)
        else:
            yield good(*post.entries)


@check("2025-11-25:http-error-for-refused-notification", needs="HTTP")
def refused_notifications_get_an_error_status(history: History) -> Iterator[Observation]:
    """Check that a rejected notification or response gets an HTTP error status.

    A notification whose method is not a string cannot be valid.
    """
    for post in posts(history):
        body = post.sent.body
        if post.method != "POST" or not body or not post.status or post.status >= 500:
            continue
        if "id" in body and "method" in body:
            continue
        is_refused = post.response is not None and "error" in post.response.body
        if post.status >= 400:
            yield good(*post.entries)
        elif is_refused and post.status < 300:
            words = f"a rejected notification or response got HTTP status {post.status}"
            yield bad(words, *post.entries)
        elif post.status < 300 and not isinstance(body.get("method", ""), str):
            words = "the target accepted a notification whose 'method' is not a string"
            yield warning(words, *post.entries)


@check("2025-11-25:http-refused-notification-body", needs="a notification that is rejected")
def body_of_refused_notifications(history: History) -> Iterator[Observation]:
    """Check that the rejection has no body, or a JSON-RPC error without an id."""
    for post in posts(history):
        is_request = {"id", "method"} <= post.sent.body.keys()
        if post.method == "POST" and post.sent.body and not is_request and post.status >= 400:
            yield _without_id(post)


@check("2025-11-25:http-json-or-sse", needs="HTTP")
def answers_are_json_or_events(history: History) -> Iterator[Observation]:
    """Check that the content type of the response to a request is JSON or an SSE stream."""
    for exchange in history.exchanges:
        if 200 <= exchange.status < 300:
            kind = exchange.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind in ("application/json", "text/event-stream"):
                yield good(exchange)
            else:
                yield bad(_unexpected(exchange, kind), exchange)


def _unexpected(exchange: Exchange, kind: str) -> str:
    content_type = (
        f"the content type {kind!r}, not JSON or an SSE stream"
        if kind
        else "no 'Content-Type' header"
    )
    return f"the response to {exchange.method!r} has {content_type}"
