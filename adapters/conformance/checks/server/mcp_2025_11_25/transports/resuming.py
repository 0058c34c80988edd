"""Checks of SSE event ids and resumed streams (2025-11-25)."""

from collections.abc import Iterator
from typing import Any

from taskmachine.adapters.conformance.checks.reading.posts import Post, posts, stream_origins
from taskmachine.adapters.conformance.history import Entry, History, Kind, id_key
from taskmachine.adapters.conformance.judging import Observation, bad, check, good

__all__: list[str] = []


def _resumed(history: History) -> Iterator[tuple[Post, Post]]:
    """Yield the original request and the resuming GET of each resumed stream."""
    begun = stream_origins(history)
    for post in posts(history):
        if post.number in begun and post.is_stream:
            yield begun[post.number], post


@check("2025-11-25:sse-event-ids", needs="a target that responds with an SSE stream")
def events_may_have_ids(history: History) -> Iterator[Observation]:
    """Record streams with events; event ids are optional."""
    for post in posts(history):
        if post.is_stream and post.events:
            yield good(post.sent, post.events[0])


@check("2025-11-25:sse-event-ids-unique", needs="events with ids")
def event_ids_are_unique(history: History) -> Iterator[Observation]:
    """Check that event ids are unique in a session; a replayed event keeps its id."""
    first: dict[tuple[int, str], Entry] = {}
    for post in posts(history):
        for entry in post.events:
            id = None if entry.http is None else entry.http.event_id
            if not id:
                continue
            one = first.setdefault((post.line, id), entry)
            if one is entry or _is_replay(post, one, entry):
                yield good(entry)
            else:
                words = f"two different events of a session have the same id {id!r}"
                yield bad(words, one, post.sent, entry)


def _is_replay(post: Post, one: Entry, entry: Entry) -> bool:
    is_same = entry.kind is Kind.EVENT or entry.message == one.message
    return post.resumes is not None and is_same and one.post != entry.post


@check(
    "2025-11-25:sse-resumable",
    "2025-11-25:loss-mitigated-by-resume",
    "2025-11-25:resume-replays",
    needs="a target whose streams can be resumed",
)
def streams_can_be_resumed(history: History) -> Iterator[Observation]:
    """Record streams that continue after a disconnect."""
    for source, post in _resumed(history):
        if post.heard:
            yield good(*source.entries[:2], *post.entries)


@check(
    "2025-11-25:sse-event-ids-name-stream",
    "2025-11-25:resume-no-other-stream",
    needs="a target whose streams can be resumed",
)
def the_same_stream_is_resumed(history: History) -> Iterator[Observation]:
    """Check that replayed messages belong to the stream of the given event id.

    New messages are allowed: a target without resumption may open a fresh stream.
    """
    begun = stream_origins(history)
    asked = {
        (post.line, id_key(post.sent.body["id"])): post
        for post in posts(history)
        if post.is_request
    }
    first_streams: dict[
        tuple[Any, ...], Post
    ] = {}  # the stream on which a request or event was first received
    for post in posts(history):
        source = begun.get(post.number, post)
        for entry in post.heard:
            keys = list(_keys(post, entry))
            origins = [first_streams.setdefault(key, source) for key in keys]
            if entry.is_response:
                origins += filter(None, [asked.get((post.line, id_key(entry.body.get("id"))))])
            if post.number not in begun:
                continue
            other = next((origin for origin in origins if origin is not source), None)
            if other is not None:
                words = "a resumed stream replayed a message of a different stream"
                yield bad(words, source.sent, other.sent, post.sent, entry)
            elif entry.is_response:
                yield good(source.sent, post.sent, entry)


def _keys(post: Post, entry: Entry) -> Iterator[tuple[Any, ...]]:
    """Yield keys that identify a message in its session."""
    if entry.is_request:
        yield "question", post.line, id_key(entry.body["id"])
    if entry.http is not None and entry.http.event_id:
        yield "event", post.line, entry.http.event_id
