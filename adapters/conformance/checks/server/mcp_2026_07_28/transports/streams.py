"""Checks of SSE streams: their messages, their end, and closing them (2026-07-28)."""

from collections.abc import Iterator
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading.messages import same_id
from taskmachine.adapters.conformance.checks.reading.order import SOON_MS
from taskmachine.adapters.conformance.checks.reading.posts import Post, posts
from taskmachine.adapters.conformance.checks.reading.requests_2026_07_28 import MODERN
from taskmachine.adapters.conformance.history import Entry, History, Kind
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, warning

__all__ = ["SUBSCRIPTION", "is_of_subscriptions"]

SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"

_OF_SUBSCRIPTIONS: Final = frozenset(
    {
        "notifications/subscriptions/acknowledged",
        "notifications/tasks",
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
    }
)


def is_of_subscriptions(entry: Entry) -> bool:
    """Return whether it is a notification that belongs on a `subscriptions/listen` stream."""
    return entry.is_notification and entry.method in _OF_SUBSCRIPTIONS


def _streams(history: History) -> Iterator[Post]:
    """Yield the requests of this revision whose response is a stream."""
    for post in posts(history):
        version = post.sent_headers.get("mcp-protocol-version", MODERN)
        if post.is_stream and post.sent.is_request and version == MODERN:
            yield post


@check(
    "2026-07-28:sse-notifications-before-response", needs="HTTP, and a tool that reports progress"
)
def notifications_may_come_first(history: History) -> Iterator[Observation]:
    """Record notifications that precede the response."""
    for post in _streams(history):
        if post.heard and post.heard[0].is_notification:
            yield good(*post.entries, post.heard[0])


@check("2026-07-28:sse-notifications-related", needs="HTTP, and notifications on a stream")
def notifications_belong_to_the_request(history: History) -> Iterator[Observation]:
    """Check that messages on a stream belong to the request of that stream."""
    for post in _streams(history):
        for entry in post.heard:
            if entry.is_notification:
                fault = _foreign(post, entry)
                if fault is None:
                    yield good(*post.entries, entry)
                else:
                    yield bad(fault, *post.entries, entry)


def _foreign(post: Post, entry: Entry) -> str | None:
    method = post.sent.method
    if is_of_subscriptions(entry) and method != "subscriptions/listen":
        return f"{entry.method!r} came on the stream of a {method!r} request"
    if entry.method != "notifications/progress":
        return None
    own, token = post.sent.meta.get("progressToken"), entry.params.get("progressToken")
    return (
        None
        if same_id(own, token)
        else (
            f"progress with the token {token!r} came on the stream of the request with the token "
            f"{own!r}"
        )
    )


@check(
    "2026-07-28:sse-ends-after-response",
    needs="HTTP, and a target that responds with an SSE stream",
)
def streams_end_with_the_response(history: History) -> Iterator[Observation]:
    """Check that nothing follows the response, and that the stream ends within 5 s."""
    for post in _streams(history):
        response = post.response
        if response is None:
            continue
        after = [entry for entry in post.heard if entry.number > response.number]
        if after:
            words = "the target sent more messages on an SSE stream after the response"
            yield bad(words, *post.entries, after[0])
        elif _is_open_long_after(history, post, response):
            yield bad("an SSE stream was still open 5 s after the response", *post.entries)
        elif post.end is not None and post.end.kind is Kind.ENDED:
            yield good(*post.entries)


def _is_open_long_after(history: History, post: Post, response: Entry) -> bool:
    """Return whether later requests were answered while the stream was still open 5 s later.

    Without such requests the tester itself may have been suspended.
    """
    for exchange in history.exchanges:
        answer = exchange.response
        is_later = exchange.sent_at - response.at > SOON_MS and exchange.request.line == post.line
        if (
            is_later
            and answer is not None
            and (post.end is None or answer.number < post.end.number)
        ):
            return True
    return False


@check(
    "2026-07-28:sse-no-buffering-header",
    needs="HTTP, and a target that responds with an SSE stream",
)
def streams_forbid_buffering(history: History) -> Iterator[Observation]:
    """Check that an SSE stream has `X-Accel-Buffering: no`."""
    for post in _streams(history):
        if post.headers.get("x-accel-buffering", "").strip().lower() == "no":
            yield good(*post.entries)
        else:
            yield bad("the SSE response has no header 'X-Accel-Buffering: no'", *post.entries)


# --- closing a stream -------------------------------------------------------------------------


@check("2026-07-28:http-silence-after-cancel", needs="HTTP")
def closed_streams_are_silent(history: History) -> Iterator[Observation]:
    """Check that no message of a request comes elsewhere after its stream was closed."""
    by_post = {post.sent.post: post.sent for post in posts(history)}
    for post in posts(history):
        end = post.end
        if end is None or end.kind is not Kind.LEFT or post.response is not None:
            continue
        if not post.sent.is_request or not _is_only_one(history, post.sent.body["id"]):
            continue
        later = [e for e in history.heard if e.number > end.number and e.post != post.sent.post]
        late = next((e for e in later if _is_for(e, post.sent, by_post.get(e.post))), None)
        if late is not None:
            words = "the target sent a message of a request after the client had closed its stream"
            yield bad(words, *post.entries, late)
        elif later:
            yield good(*post.entries)


def _is_only_one(history: History, id: Any) -> bool:
    """Return whether the request id was used once."""
    return sum(same_id(e.request.body["id"], id) for e in history.exchanges) == 1


def _is_for(entry: Entry, left: Entry, own: Entry | None) -> bool:
    """Return whether a message belongs to the closed request and not to that of its own stream."""
    id, token = left.body["id"], left.meta.get("progressToken")
    if own is not None and same_id(own.body.get("id"), id):
        return False
    if entry.is_response:
        return same_id(entry.body.get("id"), id)
    if entry.method == "notifications/progress":
        is_shared = own is not None and same_id(own.meta.get("progressToken"), token)
        return (
            token is not None
            and same_id(entry.params.get("progressToken"), token)
            and not is_shared
        )
    return SUBSCRIPTION in entry.meta and same_id(entry.meta[SUBSCRIPTION], id)


@check(
    "2026-07-28:stdio-silence-after-cancel", needs="stdio, and a request that takes several seconds"
)
def cancelled_requests_are_silent(history: History) -> Iterator[Observation]:
    """Check that no message of a request comes after it was cancelled.

    Messages sent before the target received the cancellation do not count: two more requests must
    have been answered in between, one after the other. A late response is only a warning, since
    some work cannot be cancelled.
    """
    for entry in history.entries:
        if entry.kind is not Kind.SENT or entry.method != "notifications/cancelled":
            continue
        cancelled = _open_request(history, entry)
        since = None if cancelled is None else _two_answers_later(history, entry)
        if cancelled is None or since is None:
            continue
        later = [e for e in history.heard if e.line == entry.line and e.number > since.number]
        late = next((e for e in later if _is_for(e, cancelled, None)), None)
        if late is None:
            yield good(cancelled, entry)
        elif late.is_response:
            yield warning("the target responded to a cancelled request", cancelled, entry, late)
        else:
            words = "the target sent a notification of a cancelled request"
            yield bad(words, cancelled, entry, late)


def _open_request(history: History, cancellation: Entry) -> Entry | None:
    """Return the cancelled request of this revision, if it was still open."""
    id = cancellation.params.get("requestId")
    for exchange in history.exchanges:
        asked, response = exchange.request, exchange.response
        is_it = asked.line == cancellation.line and same_id(asked.body["id"], id)
        if is_it and asked.number < cancellation.number and asked.post is None:
            is_open = response is None or response.number > cancellation.number
            return asked if is_open and _is_only_one_on(history, asked) else None
    return None


def _is_only_one_on(history: History, asked: Entry) -> bool:
    same = (
        same_id(e.request.body["id"], asked.body["id"])
        for e in history.exchanges
        if e.request.line == asked.line
    )
    return sum(same) == 1


def _two_answers_later(history: History, entry: Entry) -> Entry | None:
    """Return the second of two sequential responses on the same connection."""
    for _ in range(2):
        answers = [
            exchange.response
            for exchange in history.exchanges
            if exchange.request.line == entry.line
            and exchange.request.number > entry.number
            and exchange.response is not None
        ]
        if not answers:
            return None
        entry = min(answers, key=lambda answer: answer.number)
    return entry
