"""Streams of events of 2026-07-28: what is on them, how they end, and what closing them means."""

from collections.abc import Iterator
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading.messages import same_id
from taskmachine.adapters.conformance.checks.reading.posts import Post, posts
from taskmachine.adapters.conformance.checks.reading.requests_2026_07_28 import MODERN
from taskmachine.adapters.conformance.history import Entry, History, Kind
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, warning

__all__ = ["SOON_MS", "SUBSCRIPTION", "is_of_subscriptions"]

SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
SOON_MS: Final = 5_000.0

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
    """Whether it is a notification that belongs on the stream of `subscriptions/listen`."""
    return entry.is_notification and entry.method in _OF_SUBSCRIPTIONS


def _streams(history: History) -> Iterator[Post]:
    """The requests of this revision that were answered by a stream."""
    for post in posts(history):
        version = post.sent_headers.get("mcp-protocol-version", MODERN)
        if post.is_stream and post.sent.is_request and version == MODERN:
            yield post


@check("2026-07-28:sse-notifications-before-response", needs="HTTP, and a tool that tells progress")
def notifications_may_come_first(history: History) -> Iterator[Observation]:
    """Some came before the response."""
    for post in _streams(history):
        if post.heard and post.heard[0].is_notification:
            yield good(*post.entries, post.heard[0])


@check("2026-07-28:sse-notifications-related", needs="HTTP, and notifications on a stream")
def notifications_belong_to_the_request(history: History) -> Iterator[Observation]:
    """What is told on a stream is about the request of that stream."""
    for post in _streams(history):
        for entry in post.heard:
            if entry.is_notification:
                fault = _foreign(post, entry)
                yield (
                    good(*post.entries, entry)
                    if fault is None
                    else bad(fault, *post.entries, entry)
                )


def _foreign(post: Post, entry: Entry) -> str | None:
    method = post.sent.method
    if is_of_subscriptions(entry) and method != "subscriptions/listen":
        return f"{entry.method!r} came on the stream of {method!r}"
    if entry.method != "notifications/progress":
        return None
    own, told = post.sent.meta.get("progressToken"), entry.params.get("progressToken")
    return None if same_id(own, told) else f"progress of {told!r} came on the stream of {own!r}"


@check("2026-07-28:sse-ends-after-response", needs="HTTP, and an answer as a stream")
def streams_end_with_the_response(history: History) -> Iterator[Observation]:
    """Nothing follows the response, and the stream ends within 5 s."""
    for post in _streams(history):
        response = post.response
        if response is None:
            continue
        after = [entry for entry in post.heard if entry.number > response.number]
        if after:
            yield bad("the stream went on after the response", *post.entries, after[0])
        elif _is_open_long_after(history, post, response):
            yield bad("the stream was still open 5 s after the response", *post.entries)
        elif post.end is not None and post.end.kind is Kind.ENDED:
            yield good(*post.entries)


def _is_open_long_after(history: History, post: Post, response: Entry) -> bool:
    """Whether others were asked 5 s later, and answered, while the stream was still open.

    Without them it may have been the tester who did not look.
    """
    for exchange in history.exchanges:
        heard = exchange.response
        is_later = exchange.sent_at - response.at > SOON_MS and exchange.request.line == post.line
        if is_later and heard is not None and (post.end is None or heard.number < post.end.number):
            return True
    return False


@check("2026-07-28:sse-no-buffering-header", needs="HTTP, and an answer as a stream")
def streams_forbid_buffering(history: History) -> Iterator[Observation]:
    """A stream of events has `X-Accel-Buffering: no`."""
    for post in _streams(history):
        if post.headers.get("x-accel-buffering", "").strip().lower() == "no":
            yield good(*post.entries)
        else:
            yield bad("a stream has no 'X-Accel-Buffering: no'", *post.entries)


# --- closing one -----------------------------------------------------------------------------


@check("2026-07-28:http-silence-after-cancel", needs="HTTP")
def closed_streams_are_silent(history: History) -> Iterator[Observation]:
    """Nothing for a request comes elsewhere after its stream was closed."""
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
            yield bad(
                "a message for a request came after its stream was closed", *post.entries, late
            )
        elif later:
            yield good(*post.entries)


def _is_only_one(history: History, id: Any) -> bool:
    """Whether no other request had that id."""
    return sum(same_id(e.request.body["id"], id) for e in history.exchanges) == 1


def _is_for(entry: Entry, left: Entry, own: Entry | None) -> bool:
    """Whether a message belongs to the request that was left, and not to its own stream's."""
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


@check("2026-07-28:stdio-silence-after-cancel", needs="stdio, and a request that takes a while")
def cancelled_requests_are_silent(history: History) -> Iterator[Observation]:
    """Nothing for a request comes after it was cancelled.

    What was on its way then does not count: two more requests must have been asked and answered
    in between, one after the other.  A late response is only a warning, since a target may have
    work that cannot be cancelled.
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
            yield warning("a cancelled request was answered", cancelled, entry, late)
        else:
            yield bad("a notification for a cancelled request came", cancelled, entry, late)


def _open_request(history: History, cancellation: Entry) -> Entry | None:
    """The request of this revision that is cancelled, if it was not answered before."""
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
    """The second answer on the same line, to requests that were sent one after the other."""
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
