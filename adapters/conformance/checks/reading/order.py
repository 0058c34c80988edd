"""Order of messages, where the order of arrival alone could mislead.

HTTP streams overtake each other: a message that was received later may have been sent earlier.
"""

from bisect import bisect_right
from functools import lru_cache
from typing import Final

import attrs

from taskmachine.adapters.conformance.history import Entry, Exchange, History, Kind

__all__ = [
    "SOON_MS",
    "exited_after",
    "is_after",
    "is_received_before",
    "is_replayed",
    "next_response",
    "response_head",
]

SOON_MS: Final = 5_000.0
"""A response that takes longer is not prompt."""


def is_after(history: History, later: Entry, earlier: Entry) -> bool:
    """Return whether the target certainly sent one message after the other.

    It did if both came on one stream or pipe, or if the stream of the later one was opened after
    the earlier one was received.
    """
    if later.number <= earlier.number:
        return False
    if later.post is None or later.post == earlier.post:
        return later.line == earlier.line
    opened = _index(history).opened.get(later.post)
    return opened is not None and opened.number > earlier.number and not _is_resumed(opened)


def is_received_before(history: History, sent: Entry, received: Entry) -> bool:
    """Return whether the target certainly had received a message when it sent the other.

    Over a pipe it had if it responded to a request sent after the message. Over HTTP it had if it
    accepted the message before that stream was opened, or if `SOON_MS` have passed since.
    """
    if received.number <= sent.number:
        return False
    if sent.post is None:
        answer = next_response(history, sent)
        return sent.line == received.line and answer is not None and answer.number < received.number
    head = response_head(history, sent)
    if head is None or head.number > received.number:
        return False
    return received.at - head.at > SOON_MS or is_after(history, received, head)


def is_replayed(history: History, received: Entry) -> bool:
    """Return whether it came on a resumed stream, which repeats old messages."""
    opened = None if received.post is None else _index(history).opened.get(received.post)
    return opened is not None and _is_resumed(opened)


def response_head(history: History, sent: Entry) -> Entry | None:
    """Return the head of the HTTP response to a message of the tester."""
    return None if sent.post is None else _index(history).heads.get(sent.post)


def next_response(history: History, since: Entry) -> Entry | None:
    """Return the first response to a request sent later on the same connection."""
    asked = _index(history).asked.get(since.line, [])
    later = asked[bisect_right(asked, since.number, key=lambda e: e.request.number) :]
    answers = [exchange.response for exchange in later if exchange.response is not None]
    return min(answers, key=lambda entry: entry.number, default=None)


def exited_after(history: History, sent: Entry, besides: Entry | None = None) -> Entry | None:
    """Return the end of the process, if no other message to it can be the cause.

    The target had responded to everything before; `besides` does not count. One request may follow.
    """
    line = [e for e in _index(history).lines.get(sent.line, ()) if e is not besides]
    at = line.index(sent)
    if sent.post is not None or (at and line[at - 1].kind is Kind.SENT):
        return None
    following = line[at + 1 : at + 3]
    if following and following[0].kind is Kind.SENT and following[0].is_request:
        following = following[1:]
    return following[0] if following and following[0].kind is Kind.EXITED else None


@attrs.frozen(eq=False)
class _Index:
    opened: dict[int, Entry] = attrs.field(factory=dict)
    """First message sent in each HTTP request."""
    heads: dict[int, Entry] = attrs.field(factory=dict)
    asked: dict[int, list[Exchange]] = attrs.field(factory=dict)
    """Exchanges of each connection."""
    lines: dict[int, list[Entry]] = attrs.field(factory=dict)
    """Entries of each connection."""


@lru_cache(maxsize=2)
def _index(history: History) -> _Index:
    index = _Index()
    for entry in history.entries:
        index.lines.setdefault(entry.line, []).append(entry)
        if entry.post is not None and entry.kind is Kind.SENT:
            index.opened.setdefault(entry.post, entry)
        elif entry.post is not None and entry.kind is Kind.HEAD:
            index.heads.setdefault(entry.post, entry)
    for exchange in history.exchanges:
        index.asked.setdefault(exchange.request.line, []).append(exchange)
    return index


def _is_resumed(opened: Entry) -> bool:
    return opened.http is not None and "last-event-id" in opened.http.headers
