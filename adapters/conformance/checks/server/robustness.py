"""Checks beyond the specification: the target keeps running and responds to every request."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from taskmachine.adapters.conformance.history import Entry, Exchange, History, Kind, id_key
from taskmachine.adapters.conformance.judging import Observation, bad, check, good, warning

__all__: list[str] = []

LONG_MS: Final = 5_500.0
"""Minimum time the tester waited before a missing response counts."""

AFTERWARDS_MS: Final = 5_000.0
"""Time that `tasks/result` may take after the task has ended."""

MESSAGES_SHOWN: Final = 3
"""Number of messages shown before an unexpected end."""

Key = tuple[int, tuple[str, object]]

_MAY_LAST: Final = frozenset({"tools/call", "subscriptions/listen", "tasks/result"})


@check("alive", needs="a target that responds to requests")
def stays_alive(history: History) -> Iterator[Observation]:
    """Check that the process does not exit and still accepts connections."""
    has_answered = has_refused = False
    headed = {entry.post for entry in history.entries if entry.kind is Kind.HEAD}
    left: set[int] = set()  # after the tester disconnects, the target may exit
    for entry in history.entries:
        is_end = entry.kind is Kind.EXITED or (entry.kind is Kind.ENDED and entry.post is None)
        if entry.kind is Kind.LEFT and entry.post is None:
            left.add(entry.line)
        elif is_end and entry.line not in left:
            yield bad(
                entry.text or "the target's process exited", *_last_before(history, entry), entry
            )
        elif has_refused:
            continue  # a target that is down refuses every connection
        elif has_answered and _is_refusal(entry) and entry.post not in headed:
            has_refused = True
            words = f"the target no longer accepts connections: {entry.text}"
            yield bad(words, *_last_before(history, entry), entry)
        elif entry.kind is Kind.HEARD and entry.is_response:
            has_answered = True
    for exchange in history.calls("ping", "server/discover"):
        if exchange.is_answered:
            yield good(exchange)


@check("answers", needs="a target that responds to requests")
def responds_once(history: History) -> Iterator[Observation]:
    """Check that each valid request has exactly one response."""
    counted: dict[Key, list[Entry]] = {}
    for entry in history.heard:
        if entry.is_response and entry.body.get("id") is not None:
            counted.setdefault(_key(entry), []).append(entry)
    asked = Counter(_key(exchange.request) for exchange in history.exchanges)
    agreed = _agreements(history)
    cancelled = _cancelled(history)
    for exchange in history.exchanges:
        request = exchange.request
        is_modern = history.revision == "2026-07-28" or exchange.method == "initialize"
        is_agreed = is_modern or request.number > agreed.get(request.line, request.number)
        if not _requires_response(exchange) or not is_agreed:
            continue
        answers = counted.get(_key(request), [])
        if len(answers) > asked[_key(request)]:
            yield bad(f"the target sent {len(answers)} responses to one request", request, *answers)
        elif exchange.is_answered:
            yield good(exchange)
        elif _key(request) not in cancelled and (why := _why_lost(history, exchange)):
            yield bad(f"{exchange.method}: {why}", exchange)
        elif _is_broken_off(exchange):
            yield warning(f"{exchange.method}: the connection closed before the response", exchange)


def _key(entry: Entry) -> Key:
    return entry.line, id_key(entry.body.get("id"))


def _agreements(history: History) -> dict[int, int]:
    """Return the entry of the `initialize` response of each connection."""
    return {
        initialize.request.line: initialize.response.number
        for initialize in history.calls("initialize")
        if initialize.response is not None
    }


def _cancelled(history: History) -> set[Key]:
    return {
        (entry.line, id_key(entry.params.get("requestId")))
        for entry in history.entries
        if entry.kind is Kind.SENT and entry.method == "notifications/cancelled"
    }


def _last_before(history: History, end: Entry) -> list[Entry]:
    """Return the last messages before that entry, of its own process or of all HTTP connections."""
    before = (
        entry
        for entry in history.entries
        if entry.number < end.number and (entry.line == end.line or end.post is not None)
    )
    return [entry for entry in before if entry.body][-MESSAGES_SHOWN:]


def _is_refusal(entry: Entry) -> bool:
    """Return whether connecting failed; a later failure may be an idle timeout."""
    is_ended = entry.kind is Kind.ENDED and entry.post is not None
    return is_ended and (entry.text or "").startswith("Connect")


def _is_broken_off(exchange: Exchange) -> bool:
    """Return whether the connection broke, possibly because it was idle: only a warning."""
    end = exchange.end
    is_ended = end is not None and end.kind is Kind.ENDED and end.post is not None
    return is_ended and exchange.head is None and end is not None and not _is_refusal(end)


def _requires_response(exchange: Exchange) -> bool:
    """Return whether JSON-RPC requires a response."""
    body = exchange.request.body
    id = body.get("id")
    return (
        body.get("jsonrpc") == "2.0"
        and isinstance(id, str | int)
        and not isinstance(id, bool)
        and isinstance(body.get("params", {}), dict)
    )


def _why_lost(history: History, exchange: Exchange) -> str | None:
    end = exchange.end
    if end is None:
        return None
    if end.kind is Kind.GAVE_UP:
        return _why_late(history, exchange, end)
    if end.kind is Kind.ENDED and end.post is not None:
        if exchange.head is None:
            return None  # reported by `alive`
        if exchange.status in (200, 202) and exchange.method != "subscriptions/listen":
            return f"HTTP status {exchange.status} without a JSON-RPC response in the body"
    return None


def _why_late(history: History, exchange: Exchange, end: Entry) -> str | None:
    waited = end.at - exchange.sent_at
    if exchange.method == "tasks/result":
        over = [s for s in history.by_task.get(str(exchange.task_id), ()) if s.is_terminal]
        if not over:
            return None
        since = max(exchange.sent_at, over[0].until)
        if end.at - since < AFTERWARDS_MS:
            return None
        return f"no response {(end.at - since) / 1_000:.1f} s after the task had ended"
    if exchange.method in _MAY_LAST and "task" not in exchange.params:
        return None
    return f"no response within {waited / 1_000:.1f} s" if waited >= LONG_MS else None
