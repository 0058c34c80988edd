"""HTTP requests of 2025-11-25 with their responses, streams, sessions and headers."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import attrs

from taskmachine.adapters.conformance.history import Entry, History, Kind

__all__ = [
    "UNDECIDED",
    "Post",
    "continuations",
    "is_in_live_session",
    "posts",
    "stream_origins",
    "streams_of",
    "was_open_at",
]

UNDECIDED: Final = frozenset({0, 401, 408, 429})
"""Statuses that say nothing about the request itself, as do those from 500."""


@attrs.frozen(eq=False)
class Post:
    """One HTTP request, of any method, and its response."""

    sent: Entry
    head: Entry | None
    events: Sequence[Entry]
    """Received messages, and events without a message."""
    end: Entry | None
    """The end of the stream, by the target or the tester."""

    @property
    def number(self) -> int | None:
        """Return the number that its entries share."""
        return self.sent.post

    @property
    def line(self) -> int:
        """Return the number of its session."""
        return self.sent.line

    @property
    def method(self) -> str:
        """Return the HTTP method."""
        return "" if self.sent.http is None else self.sent.http.method

    @property
    def status(self) -> int:
        """Return the HTTP status; 0 without a response."""
        return 0 if self.head is None or self.head.http is None else self.head.http.status

    @property
    def is_undecided(self) -> bool:
        """Return whether the request was refused for a reason unrelated to its content."""
        return self.status in UNDECIDED or self.status >= 500

    @property
    def sent_headers(self) -> Mapping[str, str]:
        return {} if self.sent.http is None else self.sent.http.headers

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers of the response."""
        return {} if self.head is None or self.head.http is None else self.head.http.headers

    @property
    def kind(self) -> str:
        """Return the media type of the response."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def is_stream(self) -> bool:
        """Return whether the response is an event stream."""
        return self.kind == "text/event-stream" and 200 <= self.status < 300

    @property
    def heard(self) -> list[Entry]:
        """Return the messages of the response."""
        return [entry for entry in self.events if entry.kind is Kind.HEARD]

    @property
    def response(self) -> Entry | None:
        """Return the first JSON-RPC response among the messages."""
        return next((entry for entry in self.heard if entry.is_response), None)

    @property
    def has_body(self) -> bool:
        """Return whether a body follows the headers."""
        return bool(self.events) or bool(self.end and self.end.kind is Kind.ENDED and self.end.text)

    @property
    def is_request(self) -> bool:
        """Return whether a JSON-RPC request was posted."""
        return self.method == "POST" and self.sent.is_request

    @property
    def resumes(self) -> str | None:
        """Return the id of the event after which the request resumes a stream."""
        return self.sent_headers.get("last-event-id") if self.method == "GET" else None

    @property
    def session(self) -> str | None:
        """Return the session id in the request."""
        return self.sent_headers.get("mcp-session-id")

    @property
    def is_ended(self) -> bool:
        """Return whether the target ended the response."""
        return self.end is not None and self.end.kind is Kind.ENDED

    @property
    def event_ids(self) -> list[str]:
        """Return the event ids in order."""
        return [e.http.event_id for e in self.events if e.http and e.http.event_id]

    @property
    def entries(self) -> list[Entry]:
        """Return the entries for a transcript: request, head, and response or end."""
        return [e for e in (self.sent, self.head, self.response or self.end) if e is not None]


@lru_cache(maxsize=4)
def posts(history: History) -> tuple[Post, ...]:
    """Return all HTTP requests in the order sent."""
    heads: dict[int, Entry] = {}
    events: dict[int, list[Entry]] = {}
    ends: dict[int, Entry] = {}
    for entry in history.entries:
        if entry.post is None:
            continue
        if entry.kind is Kind.HEAD:
            heads.setdefault(entry.post, entry)
        elif entry.kind in (Kind.HEARD, Kind.EVENT):
            events.setdefault(entry.post, []).append(entry)
        elif entry.kind in (Kind.ENDED, Kind.LEFT):
            ends.setdefault(entry.post, entry)
    return tuple(
        Post(entry, heads.get(entry.post), events.get(entry.post, ()), ends.get(entry.post))
        for entry in history.entries
        if entry.kind is Kind.SENT and entry.post is not None
    )


@lru_cache(maxsize=4)
def stream_origins(history: History) -> dict[int | None, Post]:
    """Map each request that resumes a stream to the request that opened the stream."""
    seen: dict[tuple[int, str], Post] = {}  # keyed by connection and event id
    found: dict[int | None, Post] = {}
    for post in posts(history):
        if post.resumes is not None and (post.line, post.resumes) in seen:
            found[post.number] = seen[post.line, post.resumes]
        for id in post.event_ids:
            seen.setdefault((post.line, id), found.get(post.number, post))
    return found


def is_in_live_session(history: History, post: Post) -> bool:
    """Return whether a request names its session correctly and the session has not ended.

    Without sessions there is nothing to name.
    """
    given, ended = _sessions(history)
    if post.session != given.get(post.line):
        return False
    over = ended.get(post.session or "")
    return over is None or post.sent.number < over


@lru_cache(maxsize=4)
def _sessions(history: History) -> tuple[dict[int, str], dict[str, int]]:
    """Return the session of each connection, and the entry since which a session may have ended.

    A 404 means that it ended, unless a later request in it succeeds.
    """
    given: dict[int, str] = {}
    served: dict[str, int] = {}
    ended: dict[str, int] = {}
    for post in posts(history):
        new = post.headers.get("mcp-session-id")
        if post.sent.method == "initialize" and new is not None and post.status < 300:
            given.setdefault(post.line, new)
        if post.session is not None and post.is_request and 200 <= post.status < 300:
            served[post.session] = post.sent.number
    for post in posts(history):
        if post.session is not None:
            is_lost = post.status == 404 and served.get(post.session, 0) < post.sent.number
            if is_lost or post.method == "DELETE":
                ended.setdefault(post.session, post.sent.number)
    return given, ended


@lru_cache(maxsize=4)
def connections_of_this_version(history: History) -> frozenset[int]:
    """Return the connections that proposed and negotiated 2025-11-25; it introduced some rules."""
    others = {
        exchange.request.line
        for exchange in history.calls("initialize")
        for version in (
            exchange.params.get("protocolVersion"),
            exchange.fields.get("protocolVersion", history.revision),
        )
        if version != history.revision
    }
    return frozenset(entry.line for entry in history.entries) - others


def was_open_at(post: Post, entry: Entry) -> bool:
    """Return whether the stream was certainly connected when that entry was received."""
    began = None if post.head is None else post.head.number
    is_begun = post.is_stream and began is not None and began < entry.number
    return is_begun and (post.end is None or post.end.number > entry.number)


def continuations(history: History, post: Post) -> list[Post]:
    """Return the requests that resumed its stream."""
    return _continued(history).get(post.number, [])


@lru_cache(maxsize=4)
def _continued(history: History) -> dict[int | None, list[Post]]:
    begun = stream_origins(history)
    found: dict[int | None, list[Post]] = {}
    for post in posts(history):
        if post.number in begun:
            found.setdefault(begun[post.number].number, []).append(post)
    return found


@lru_cache(maxsize=4)
def streams_of(history: History) -> dict[int, list[Post]]:
    """Return the streams of each connection, opened by POST or GET."""
    found: dict[int, list[Post]] = {}
    for post in posts(history):
        if post.is_stream:
            found.setdefault(post.line, []).append(post)
    return found
