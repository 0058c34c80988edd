"""Checks of JSON-RPC messages of clients: rules for both sides, ids, tokens, cancellation."""

from collections.abc import Iterator
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading.messages import (
    errors_have_code_and_message,
    errors_have_integer_codes,
    errors_have_the_id,
    message_fault,
    notifications_have_no_id,
    results_are_objects,
    results_have_the_id,
)
from taskmachine.adapters.conformance.checks.reading.meta import (
    meta_labels,
    meta_names,
    meta_prefixes,
    meta_reserved,
    meta_reversed,
)
from taskmachine.adapters.conformance.clients.incoming import NOT_UTF_8
from taskmachine.adapters.conformance.clients.view import as_client
from taskmachine.adapters.conformance.history import MISSING, Entry, Exchange, History
from taskmachine.adapters.conformance.judging import Observation, bad, client_check, good

__all__: list[str] = []

_OLD: Final = "2025-11-25"
_NEW: Final = "2026-07-28"

# Servers of 2026-07-28 send no requests, so its clients send no responses.
client_check(f"{_OLD}:result-same-id", needs="a client that sends results")(results_have_the_id)
client_check(f"{_OLD}:result-field", needs="a client that sends results")(results_are_objects)
client_check(f"{_OLD}:error-same-id", needs="a client that sends errors")(errors_have_the_id)
client_check(f"{_OLD}:error-code-and-message", needs="a client that sends errors")(
    errors_have_code_and_message
)
client_check(f"{_OLD}:error-code-integer", needs="a client that sends errors")(
    errors_have_integer_codes
)
for _name, _observer in {
    "notification-without-id": notifications_have_no_id,
    "meta-prefix-format": meta_prefixes,
    "meta-label-format": meta_labels,
    "meta-name-format": meta_names,
    "meta-prefix-reverse-dns": meta_reversed,
    "meta-prefix-reserved": meta_reserved,
}.items():
    client_check(f"{_OLD}:{_name}", f"{_NEW}:{_name}", needs="a client that sends such messages")(
        _observer
    )


@client_check(f"{_OLD}:jsonrpc-2-0", f"{_NEW}:jsonrpc-2-0", needs="any message")
def speaks_jsonrpc(history: History) -> Iterator[Observation]:
    """Check that messages are requests, notifications, results or errors, ignoring batches."""
    for entry in history.heard:
        messages = entry.message if isinstance(entry.message, list) else [entry.message]
        for message in messages:
            if message is not MISSING:
                fault = message_fault(message)
                yield good(entry) if fault is None else bad(fault, entry)


@client_check(f"{_OLD}:messages-utf8", f"{_NEW}:messages-utf8", needs="any message")
def utf8(history: History) -> Iterator[Observation]:
    """Check that messages are UTF-8."""
    for entry in history.heard:
        if entry.text is not None and entry.text.startswith(NOT_UTF_8):
            yield bad("the client sent bytes that are not UTF-8", entry)
        elif entry.message is not MISSING:
            yield good(entry)


# --- ids -----------------------------------------------------------------------------------------


def _requests(history: History) -> list[Entry]:
    return [entry for entry in history.heard if entry.is_request]


@client_check(f"{_OLD}:request-id-type", f"{_NEW}:request-id-type", needs="any request")
def id_types(history: History) -> Iterator[Observation]:
    """Check that request ids are strings or integers."""
    for entry in _requests(history):
        id = entry.body["id"]
        if _is_id(id) or id is None:  # null is judged by the next check
            yield good(entry)
        else:
            yield bad(f"the id of a request is {id!r:.60}, neither a string nor an integer", entry)


@client_check(f"{_OLD}:request-id-not-null", f"{_NEW}:request-id-not-null", needs="any request")
def id_not_null(history: History) -> Iterator[Observation]:
    """Check that no request has the id null."""
    for entry in _requests(history):
        is_null = entry.body["id"] is None
        yield bad("the id of a request is null", entry) if is_null else good(entry)


def _is_id(value: Any) -> bool:
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, str | int) and not isinstance(value, bool)


@client_check(f"{_OLD}:request-id-not-reused", needs="two requests")
def id_not_reused(history: History) -> Iterator[Observation]:
    """Check that an id is used once per session, which `initialize` begins."""
    seen: dict[tuple[int, str], Entry] = {}
    for entry in _requests(history):
        if entry.line == 0:  # before any session
            continue
        key = entry.line, repr(entry.body["id"])
        if key in seen:
            words = f"two requests of a session have the id {entry.body['id']!r:.60}"
            yield bad(words, seen[key], entry)
        else:
            yield good(entry)
        seen.setdefault(key, entry)


@client_check(f"{_NEW}:request-id-not-in-use", needs="two concurrent requests")
def id_not_in_use(history: History) -> Iterator[Observation]:
    """Check that the id of an open request is not reused on the same pipe.

    Over HTTP the clients of one program cannot be distinguished.
    """
    if history.transport == "http":
        return
    client = as_client(history)
    for later in client.exchanges:
        for earlier in client.exchanges:
            if earlier.request.number >= later.request.number:
                break
            answered = earlier.response
            is_open = answered is None or answered.number > later.request.number
            if is_open and earlier.request.line == later.request.line:
                if earlier.request.body["id"] == later.request.body["id"]:
                    words = "the client reused the id of a request that was still open"
                    yield bad(words, earlier, later)
                else:
                    yield good(earlier, later)


# --- progress tokens -----------------------------------------------------------------------------


def _tokens(history: History) -> Iterator[tuple[Any, Entry]]:
    for entry in _requests(history):
        if "progressToken" in entry.meta:
            yield entry.meta["progressToken"], entry


@client_check(
    f"{_OLD}:progress-token-type",
    f"{_NEW}:progress-token-type",
    needs="a client that requests progress",
)
def token_types(history: History) -> Iterator[Observation]:
    """Check that progress tokens are strings or integers."""
    for token, entry in _tokens(history):
        if _is_id(token):
            yield good(entry)
        else:
            yield bad(f"a progress token is {token!r:.60}, neither a string nor an integer", entry)


@client_check(
    f"{_OLD}:progress-token-unique",
    f"{_NEW}:progress-token-unique",
    needs="a client that requests progress of two concurrent requests",
)
def tokens_unique(history: History) -> Iterator[Observation]:
    """Check that open requests have different tokens; in 2025-11-25 a task keeps its token open."""
    client = as_client(history)
    spans = [
        (repr(exchange.request.meta["progressToken"]), exchange, _open_until(client, exchange))
        for exchange in client.exchanges
        if "progressToken" in exchange.request.meta
    ]
    for at, (token, later, _) in enumerate(spans):
        for other, earlier, until in spans[:at]:
            if until > later.request.number and earlier.request.line == later.request.line:
                if token == other:
                    words = f"two open requests have the same progress token {token:.60}"
                    yield bad(words, earlier, later)
                else:
                    yield good(earlier, later)


def _open_until(client: History, exchange: Exchange) -> float:
    """Return the number of the entry after which the token of a request may be reused."""
    if exchange.head is not None and exchange.status >= 400:
        return float(exchange.head.number)
    if exchange.response is None:
        return float("inf") if exchange.end is None else float(exchange.end.number)
    task = exchange.fields.get("task")
    task_id = task.get("taskId") if isinstance(task, dict) else None
    if not isinstance(task_id, str):
        return float(exchange.response.number)
    ends = [s.entry.number for s in client.by_task[task_id] if s.is_terminal]
    ends += [e.response.number for e in client.results.get(task_id, ()) if e.response is not None]
    return min(ends, default=float("inf"))


# --- cancellation --------------------------------------------------------------------------------


def _cancellations(history: History) -> Iterator[tuple[Entry, list[Entry]]]:
    """Yield each cancellation of the client with the earlier requests that it may refer to."""
    for entry in history.notifications("notifications/cancelled"):
        named = repr(entry.params.get("requestId"))
        yield (
            entry,
            [
                one
                for one in _requests(history)
                if repr(one.body["id"]) == named
                and one.number < entry.number
                and (one.line == entry.line or history.transport == "http")
            ],
        )


@client_check(
    f"{_OLD}:cancelled-same-direction",
    f"{_NEW}:cancelled-own-request",
    needs="a client that cancels a request",
)
def cancels_own_requests(history: History) -> Iterator[Observation]:
    """Check that each cancellation names a request of the client."""
    for entry, named in _cancellations(history):
        if named:
            yield good(named[-1], entry)
        else:
            yield bad("the client cancelled a request that it never sent", entry)


@client_check(
    f"{_OLD}:cancelled-still-running",
    f"{_NEW}:cancelled-still-running",
    needs="a client that cancels a request",
)
def cancels_open_requests(history: History) -> Iterator[Observation]:
    """Check that the cancelled request had no response that the client must have seen."""
    client = as_client(history)
    answers = {exchange.request.number: exchange for exchange in client.exchanges}
    for entry, named in _cancellations(history):
        if not named:
            continue
        exchange = answers[named[-1].number]
        if exchange.heard_at is not None and entry.at - exchange.heard_at > _SEEN_MS:
            words = "the client cancelled a request after it had received the response"
            yield bad(words, exchange, entry)
        else:
            yield good(exchange, entry)


_SEEN_MS: Final = 300.0


@client_check(
    f"{_OLD}:tasks-cancelled-by-tasks-cancel",
    f"{_NEW}:cancelled-notification-not-for-tasks",
    needs="a client that cancels a task",
)
def tasks_cancelled_by_request(history: History) -> Iterator[Observation]:
    """Check that tasks are cancelled by `tasks/cancel`, not by cancelling the creating call."""
    client = as_client(history)
    created = {exchange.request.number: exchange for exchange in client.created.values()}
    for entry, named in _cancellations(history):
        made = created.get(named[-1].number) if named else None
        seen_at = None if made is None else made.heard_at
        if made is not None and seen_at is not None and entry.at - seen_at > _SEEN_MS:
            words = "the client used `notifications/cancelled` for a task instead of `tasks/cancel`"
            yield bad(words, made, entry)
    for exchange in client.calls("tasks/cancel"):
        yield good(exchange)


@client_check(
    f"{_OLD}:late-response-ignored",
    f"{_NEW}:late-response-ignored",
    f"{_OLD}:cancellation-races-handled",
    f"{_NEW}:cancellation-races-handled",
    needs="a client that cancels a request and still receives the response",
)
def late_answers_ignored(history: History) -> Iterator[Observation]:
    """Record clients that continue after a late response."""
    client = as_client(history)
    answers = {exchange.request.number: exchange for exchange in client.exchanges}
    for entry, named in _cancellations(history):
        response = answers[named[-1].number].response if named else None
        if response is None or response.number < entry.number:
            continue
        later = next((e for e in client.exchanges if e.request.number > response.number), None)
        if later is not None:
            yield good(entry, response, later)
