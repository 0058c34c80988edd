"""Checks of clients over stdio: messages, start, and shutdown."""

from collections.abc import Iterator
from typing import Final

from taskmachine.adapters.conformance.clients.view import as_client
from taskmachine.adapters.conformance.history import MISSING, History, Kind
from taskmachine.adapters.conformance.judging import Observation, bad, client_check, good, note

__all__: list[str] = []

_PIPE: Final = "a client that starts its server"


@client_check(
    "2025-11-25:stdio-stdin-only-mcp",
    "2026-07-28:stdio-stdin-only-mcp",
    "2025-11-25:stdio-no-embedded-newlines",
    "2026-07-28:stdio-no-embedded-newlines",
    needs=_PIPE,
)
def only_messages(history: History) -> Iterator[Observation]:
    """Check that every line is a message; a message with a newline becomes two invalid lines."""
    if history.transport == "stdio":
        for entry in history.heard:
            if entry.message is MISSING or not isinstance(entry.message, dict):
                yield bad("the client wrote a line to stdin that is not a JSON-RPC message", entry)
            else:
                yield good(entry)


@client_check("2025-11-25:stdio-supported", needs=_PIPE)
def supports_stdio(history: History) -> Iterator[Observation]:
    """Record clients that start a server process."""
    if history.transport == "stdio":
        yield from (good(entry) for entry in history.heard[:1])


@client_check("2025-11-25:stdio-stderr-not-error", "2026-07-28:stdio-stderr-not-error", needs=_PIPE)
def stderr_is_not_an_error(history: History) -> Iterator[Observation]:
    """Record clients that continue although the server writes to stderr."""
    if history.transport == "stdio":
        used = [e for e in as_client(history).calls("tools/list", "tools/call") if e.is_answered]
        yield from (good(exchange) for exchange in used[:1])


@client_check(
    "2025-11-25:shutdown-close-stdin", "2026-07-28:stdio-shutdown-close-stdin", needs=_PIPE
)
def closes_input_first(history: History) -> Iterator[Observation]:
    """Check that the client closes the server's stdin before it sends any signal."""
    if history.transport != "stdio":
        return
    ended: set[int] = set()
    for entry in history.entries:
        if entry.kind is Kind.EXITED:
            break  # after this, the tester acts
        if entry.kind is Kind.ENDED and entry.line not in ended:
            ended.add(entry.line)
            if entry.text == "end of input":
                yield good(entry)
            else:
                words = f"the client sent {entry.text} without closing the server's stdin first"
                yield bad(words, entry)


@client_check("2026-07-28:stdio-process-outlives-task", needs="a client that creates two tasks")
def process_outlives_task(history: History) -> Iterator[Observation]:
    """Check that the client does not start a process for each task."""
    if history.transport != "stdio":
        return
    lines = [exchange.request.line for exchange in as_client(history).created.values()]
    if len(lines) > 1:
        made = list(as_client(history).created.values())[:2]
        if len(set(lines)) == len(lines):
            yield bad("the client started a server process for each task", *made)
        else:
            yield good(*made)


@client_check("2026-07-28:stdio-probe-recommended", needs=_PIPE)
def begins_with_discover(history: History) -> Iterator[Observation]:
    """Note which request the client sends first; `server/discover` is recommended."""
    if history.transport != "stdio":
        return
    first = next(iter(as_client(history).exchanges), None)
    if first is not None:
        is_probe = first.method == "server/discover"
        if is_probe:
            yield good(first)
        else:
            yield note(f"the client begins with {first.method!r}, not 'server/discover'", first)
