"""Checks of SSE streams: their events, their end, and which messages they carry (2025-11-25)."""

import json
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading.order import SOON_MS
from taskmachine.adapters.conformance.checks.reading.posts import (
    Post,
    connections_of_this_version,
    continuations,
    posts,
    stream_origins,
    streams_of,
    was_open_at,
)
from taskmachine.adapters.conformance.history import Entry, Exchange, History, Kind, id_key
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, note

__all__: list[str] = []

_VERSION: Final = "mcp-protocol-version"
UNDERWAY_MS: Final = 500.0
"""Messages of different connections may arrive in the wrong order within this time."""

_STREAM: Final = "a target that responds with an SSE stream"
_GET_STREAM: Final = "a target that supports GET streams"


def _streams(history: History) -> Iterator[Post]:
    """Yield requests whose response is a stream."""
    return (post for post in posts(history) if post.is_request and post.is_stream)


def _get_streams(history: History) -> Iterator[Post]:
    """Yield GET streams that do not resume another one."""
    for post in posts(history):
        if post.method == "GET" and post.is_stream and post.resumes is None:
            yield post


def _is_excused(history: History, post: Post) -> bool:
    """Return whether no response is due: request cancelled, session ended, or connection lost."""
    ended = history.entries[-1].number if post.end is None else post.end.number
    for other in posts(history):
        if other.line != post.line or not post.sent.number < other.sent.number < ended:
            continue
        is_cancel = other.sent.method == "notifications/cancelled"
        if is_cancel and other.sent.params.get("requestId") == post.sent.body.get("id"):
            return True
        if other.method == "DELETE":
            return True
    return post.end is not None and post.end.text is not None


def _own_tasks(history: History, post: Post) -> set[Any]:
    """Return the tasks that a request concerns: it names or creates them."""
    named = post.sent.params.get("taskId")
    if isinstance(named, str):
        return {named}
    return _made(history).get(post.sent.number, set())


@lru_cache(maxsize=4)
def _made(history: History) -> dict[int, set[Any]]:
    """Return the tasks that each request created."""
    made: dict[int, set[Any]] = {}
    for id, created in history.created.items():
        made.setdefault(created.request.number, set()).add(id)
    return made


# --- beginning and end ----------------------------------------------------------------------------


@check("2025-11-25:sse-priming-event", needs=_STREAM)
def streams_are_primed(history: History) -> Iterator[Observation]:
    """Check that a stream begins with an event that has an id and no data."""
    lines = connections_of_this_version(history)
    for post in _streams(history):
        # Without the header an older version is assumed, which does not have this rule.
        version = (post.sent_headers or {_VERSION: history.revision}).get(_VERSION)
        is_said = version == history.revision or post.sent.method == "initialize"
        if post.events and post.line in lines and is_said:
            first = post.events[0]
            if first.kind is Kind.EVENT and first.http is not None and first.http.event_id:
                yield good(post.sent, first)
            else:
                words = "an SSE stream does not begin with an event that has an id and no data"
                yield bad(words, *post.entries[:2], first)


@check("2025-11-25:sse-ends-with-response", needs=_STREAM)
def streams_bring_the_response(history: History) -> Iterator[Observation]:
    """Check that a stream carries the response, possibly after it was resumed."""
    for post in _streams(history):
        later = continuations(history, post)
        if post.response is not None or any(more.response is not None for more in later):
            yield good(*post.entries)
        elif not post.is_ended or _is_excused(history, post):
            continue
        elif not post.event_ids:
            yield bad("an SSE stream ended without the response to its request", *post.entries)
        elif refused := [more for more in later if 400 <= more.status < 500]:
            words = "an SSE stream ended without the response to its request, and cannot be resumed"
            yield bad(words, *post.entries, *refused[0].entries)


@check("2025-11-25:sse-terminates-after-response", needs=_STREAM)
def streams_end_after_the_response(history: History) -> Iterator[Observation]:
    """Check that a stream ends soon after the response.

    A stream that stayed open counts only if the tester received other messages meanwhile, so it was
    not suspended itself.
    """
    times = [entry.at for entry in history.entries if entry.kind in (Kind.HEAD, Kind.HEARD)]
    last = history.entries[-1].at if history.entries else 0.0
    for post in _streams(history):
        if post.response is None:
            continue
        began = post.response.at
        open_ms = (last if post.end is None else post.end.at) - began
        awake = bisect_right(times, began + SOON_MS) - bisect_right(times, began + SOON_MS / 2)
        if open_ms > SOON_MS and awake:
            words = f"an SSE stream stayed open for {open_ms / 1000:.0f} s after the response"
            yield bad(words, *post.entries)
        elif post.is_ended:
            yield good(*post.entries)


@check("2025-11-25:sse-may-close-connection", needs="a target that closes streams early")
def early_closes_can_be_resumed(history: History) -> Iterator[Observation]:
    """Record streams that were closed before the response and then resumed."""
    for post in _streams(history):
        if post.is_ended and post.response is None:
            yield from (
                good(*more.entries) for more in continuations(history, post) if more.is_stream
            )


@check("2025-11-25:sse-retry-before-close", needs="a target that closes streams early")
def early_closes_come_with_retry(history: History) -> Iterator[Observation]:
    """Check that the target sends `retry` before it closes a stream early."""
    for post in _streams(history):
        later = [more for more in continuations(history, post) if more.is_stream]
        if (
            not post.is_ended
            or post.response is not None
            or _is_excused(history, post)
            or not later
        ):
            continue
        # A client that resumes also remembers a `retry` after the last event.
        retries = [event.http.retry_ms for event in later[0].events[:1] if event.http is not None]
        if _has_retry(post):
            yield good(*post.entries)
        elif retries == [None]:
            words = "the target closed an SSE stream before the response without sending 'retry'"
            yield bad(words, *post.entries, *later[0].entries)


def _has_retry(post: Post) -> bool:
    """Return whether a `retry` came with or before one of the events."""
    return any(event.http is not None and event.http.retry_ms is not None for event in post.events)


@check("2025-11-25:sse-session-expiry-ends-stream", needs="a session that ends")
def streams_end_with_their_session(history: History) -> Iterator[Observation]:
    """Record streams that end without a response after their session was ended."""
    ended = [
        post for post in posts(history) if post.method == "DELETE" and 200 <= post.status < 300
    ]
    for post in posts(history):
        for delete in ended:
            is_later = post.end is not None and post.end.number > delete.sent.number
            if post.is_stream and post.is_ended and delete.line == post.line and is_later:
                yield good(*post.entries)


# --- which messages a stream carries --------------------------------------------------------------


@check("2025-11-25:sse-messages-before-response", needs=_STREAM)
def messages_precede_the_response(history: History) -> Iterator[Observation]:
    """Record requests and notifications that precede the response."""
    for post in _streams(history):
        if post.heard and not post.heard[0].is_response:
            yield good(post.sent, post.heard[0])


@check("2025-11-25:sse-messages-related", needs="a stream with messages about a task")
def messages_belong_to_the_request(history: History) -> Iterator[Observation]:
    """Check that messages about a task do not come on the stream of another task's request."""
    tokens = _tokens(history)
    for post in _streams(history):
        own = _own_tasks(history, post)
        for entry in post.heard:
            about = _task_of(entry, tokens)
            if own and about is not None and not entry.is_response:
                if about in own:
                    yield good(post.sent, entry)
                else:
                    words = f"{entry.method!r} came on the stream of a request for a different task"
                    yield bad(words, post.sent, entry)


def _tokens(history: History) -> dict[tuple[str, Any], str]:
    """Map each progress token that was used once to its task."""
    found: dict[tuple[str, Any], str] = {}
    twice: set[tuple[str, Any]] = set()
    for task_id, created in history.created.items():
        token = created.request.meta.get("progressToken")
        if token is not None:
            twice |= {id_key(token)} & found.keys()
            found[id_key(token)] = task_id
    return {token: task_id for token, task_id in found.items() if token not in twice}


def _task_of(entry: Entry, tokens: dict[tuple[str, Any], str]) -> str | None:
    """Return the task that a message names, or whose progress token it has."""
    about = entry.related_task
    if entry.method == "notifications/tasks/status":
        about = entry.params.get("taskId")
    elif about is None and entry.method == "notifications/progress":
        about = tokens.get(id_key(entry.params.get("progressToken")))
    return about if isinstance(about, str) else None


@check("2025-11-25:get-stream-messages", needs=_GET_STREAM)
def messages_on_the_get_stream(history: History) -> Iterator[Observation]:
    """Record requests and notifications on GET streams."""
    for post in _get_streams(history):
        yield from (good(post.sent, entry) for entry in post.heard if not entry.is_response)


@check("2025-11-25:get-stream-unrelated", needs="a task that requests input, and a GET stream")
def requests_come_on_result_stream(history: History) -> Iterator[Observation]:
    """Check that a task's request does not come by GET while `tasks/result` streams for it."""
    waiting = [post for post in _streams(history) if post.sent.method == "tasks/result"]
    for get in _get_streams(history):
        for entry in get.heard:
            for post in waiting if entry.is_request else ():
                is_same = post.line == get.line and entry.related_task in _own_tasks(history, post)
                if is_same and _was_running(post, entry):
                    words = "a task's request came by GET while its 'tasks/result' stream was open"
                    yield bad(words, *post.entries[:2], get.sent, entry)
        for post in waiting:
            for entry in post.heard:
                if entry.is_request and post.line == get.line and was_open_at(get, entry):
                    yield good(post.sent, entry)


def _was_running(post: Post, entry: Entry) -> bool:
    """Return whether the target could certainly have used that stream."""
    if post.head is None or not was_open_at(post, entry):
        return False
    is_early = post.response is None or post.response.number > entry.number
    return is_early and entry.at - post.head.at > UNDERWAY_MS


@check("2025-11-25:get-stream-no-responses", needs=_GET_STREAM)
def no_responses_by_get(history: History) -> Iterator[Observation]:
    """Check that a GET stream carries no response, unless it resumes the stream of a request."""
    begun = stream_origins(history)
    for post in posts(history):
        source = begun.get(post.number)
        is_request = source is not None and source.is_request
        if post.method != "GET" or not post.is_stream or is_request:
            continue
        if post.resumes is not None and source is None:
            continue  # it is unknown which stream this continues
        if post.response is not None:
            words = "the target sent a response on an unrelated GET stream"
            yield bad(words, post.sent, post.response)
        elif post.heard:
            yield good(post.sent, post.heard[0])


@check("2025-11-25:get-stream-server-may-close", needs="a target that closes the GET stream")
def get_stream_closed(history: History) -> Iterator[Observation]:
    """Record GET streams that the target closed, which is always allowed."""
    return (good(*post.entries) for post in _get_streams(history) if post.is_ended)


@check("2025-11-25:get-stream-retry-before-close", needs="a GET stream that is closed and resumed")
def get_stream_closed_with_retry(history: History) -> Iterator[Observation]:
    """Note a GET stream that the target closed without `retry` and the client resumed.

    It is never more than a note: the stream may have been meant to end, and the tester does not see
    a `retry` after the last event.
    """
    for post in _get_streams(history):
        later = [more for more in continuations(history, post) if more.is_stream and more.heard]
        if not post.is_ended or not later:
            continue
        if _has_retry(post):
            yield good(*post.entries)
        else:
            words = "the target closed a resumable GET stream without sending 'retry'"
            yield note(words, *post.entries, *later[0].entries)


# --- one stream per message -----------------------------------------------------------------------


def _twice(history: History, entries: list[tuple[Any, Entry]]) -> Iterator[Observation]:
    """Yield bad for messages with the same key on streams that were open at the same time."""
    by_number = {post.number: post for post in posts(history)}
    begun = stream_origins(history)
    first: dict[Any, Entry] = {}
    for key, entry in entries:
        one, other = first.setdefault(key, entry), by_number.get(entry.post)
        before = by_number.get(one.post)
        if other is None or before is None:
            continue
        is_replay = begun.get(other.number, other) is begun.get(before.number, before)
        if one is not entry and not is_replay and was_open_at(before, entry):
            words = f"the target sent the same {entry.method!r} on two streams"
            yield bad(words, before.sent, one, other.sent, entry)
        elif one is entry and _had_another_stream(history, other, entry):
            yield good(other.sent, entry)


def _had_another_stream(history: History, post: Post, entry: Entry) -> bool:
    """Return whether another stream was open that could have carried it."""
    streams = streams_of(history).get(post.line, ())
    return any(other is not post and was_open_at(other, entry) for other in streams)


@check("2025-11-25:message-on-one-stream", needs="requests sent while several streams are open")
def requests_come_once(history: History) -> Iterator[Observation]:
    """Check that each request of the target comes on one stream."""
    asked = [entry for entry in history.heard if entry.is_request and entry.post is not None]
    return _twice(history, [((e.line, id_key(e.body["id"])), e) for e in asked])


@check("2025-11-25:no-broadcast", needs="notifications sent while several streams are open")
def notifications_come_once(history: History) -> Iterator[Observation]:
    """Check that each progress and status notification of a task comes on one stream."""
    retries = history.notifications("notifications/progress", "notifications/tasks/status")
    return _twice(
        history,
        [
            ((e.line, json.dumps(e.message, sort_keys=True)), e)
            for e in retries
            if e.post is not None
        ],
    )


# --- disconnects ----------------------------------------------------------------------------------


def _disconnected(history: History) -> Iterator[Post]:
    """Yield requests that the client disconnected before the response."""
    for post in posts(history):
        is_left = post.end is not None and post.end.kind is Kind.LEFT
        if is_left and post.response is None and post.is_request:
            yield post


@check("2025-11-25:disconnect-may-happen", needs="HTTP")
def served_after_disconnect(history: History) -> Iterator[Observation]:
    """Record requests that are served after a disconnect."""
    answered = [e.request for e in history.exchanges if e.is_answered]
    for post in _disconnected(history):
        ended = -1 if post.end is None else post.end.number
        if any(request.number > ended and request.line == post.line for request in answered):
            yield good(*post.entries)


@check("2025-11-25:disconnect-is-not-cancel", needs="a task that runs for several seconds")
def disconnects_cancel_nothing(history: History) -> Iterator[Observation]:
    """Check that a disconnected `tasks/result` does not cancel its task."""
    asked = {question.related_task for question, _ in history.questions}
    for post in _disconnected(history):
        task_id = post.sent.params.get("taskId")
        if not isinstance(task_id, str) or task_id in asked or post.end is None:
            continue
        cancel = _first_cancel(history, task_id)
        for sighting in history.by_task.get(task_id, ()):
            shown = sighting.exchange
            if shown is None or shown.request.number < post.end.number:
                continue
            if cancel is not None and cancel.request.number < sighting.entry.number:
                continue
            if sighting.status == "cancelled":
                yield bad("a disconnected request cancelled its task", *post.entries, sighting)
            else:
                yield good(*post.entries, sighting)


def _first_cancel(history: History, task_id: str) -> Exchange | None:
    return next((e for e in history.calls("tasks/cancel") if e.task_id == task_id), None)
