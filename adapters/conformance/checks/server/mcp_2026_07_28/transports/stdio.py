"""Checks of stdio, and of rules for every transport (2026-07-28)."""

from collections.abc import Iterator

from taskmachine.adapters.conformance.checks.reading.order import SOON_MS
from taskmachine.adapters.conformance.checks.reading.requests_2026_07_28 import (
    mirrors,
    modern_calls,
)
from taskmachine.adapters.conformance.checks.server.mcp_2025_11_25.transports import (
    endpoint as previous,
)
from taskmachine.adapters.conformance.history import Entry, History, Kind
from taskmachine.adapters.conformance.judging import Observation, bad, cannot_check, check, good

__all__: list[str] = []


# --- stdio ------------------------------------------------------------------------------------


check("2026-07-28:stdio-stdout-only-mcp", needs="stdio")(previous.output_is_messages)
check("2026-07-28:stdio-no-embedded-newlines", needs="stdio")(previous.messages_are_lines)
check("2026-07-28:messages-utf8", needs="any message")(previous.messages_are_utf8)


@check("2026-07-28:stdio-exit-on-eof", needs="stdio, and a process whose input the tester closes")
def end_of_input_ends_the_process(history: History) -> Iterator[Observation]:
    """Check that the process exits within 5 s after its input was closed."""
    left: dict[int, Entry] = {}
    for entry in history.entries:
        if entry.post is not None or entry.body.get("id") is not None:
            continue
        if entry.kind is Kind.LEFT:
            left.setdefault(entry.line, entry)
        elif entry.kind in (Kind.ENDED, Kind.EXITED, Kind.GAVE_UP) and entry.line in left:
            closed = left.pop(entry.line)
            if entry.kind is not Kind.GAVE_UP:
                yield good(closed, entry)
            elif entry.at - closed.at >= SOON_MS:
                words = "the target's process did not exit within 5 s after its input was closed"
                yield bad(words, closed, entry)


# --- every transport --------------------------------------------------------------------------


@check("2026-07-28:binding-delivers", needs="any message")
def messages_are_delivered(history: History) -> Iterator[Observation]:
    """Check that an HTTP response contains a JSON-RPC response; subscriptions may end without."""
    for exchange in modern_calls(history):
        if exchange.is_answered:
            yield good(exchange)
        elif exchange.method != "subscriptions/listen" and 200 <= exchange.status < 300:
            end = exchange.end
            if end is not None and end.kind is Kind.ENDED and end.post is not None:
                yield bad("the HTTP response ended without a JSON-RPC response", exchange)


@check("2026-07-28:binding-may-mirror", needs="HTTP")
def headers_may_mirror(history: History) -> Iterator[Observation]:
    """Record requests whose headers mirror the body."""
    return (good(exchange) for exchange in modern_calls(history) if mirrors(history, exchange))


cannot_check(
    "Output on stderr is always allowed, so there is nothing to judge.",
    "2026-07-28:stdio-stderr-free",
)
cannot_check(
    "A server may shut down in order; an unexpected exit is judged by 'alive'.",
    "2026-07-28:stdio-shutdown-by-server",
)
