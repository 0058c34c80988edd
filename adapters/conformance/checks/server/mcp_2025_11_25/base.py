"""Checks of the 2025-11-25 overview: JSON-RPC messages and `_meta`."""

from collections.abc import Iterator
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading import messages, meta
from taskmachine.adapters.conformance.checks.reading.messages import (
    is_well_formed,
    requests_of_the_target,
)
from taskmachine.adapters.conformance.history import Entry, Exchange, History, id_key
from taskmachine.adapters.conformance.judging import Observation, bad, cannot_check, check, good

__all__: list[str] = []

_SENDS_REQUESTS: Final = "a target that sends requests to the client"
_KNOWN: Final = frozenset(
    {"io.modelcontextprotocol/related-task", "io.modelcontextprotocol/model-immediate-response"}
)
_REQUEST_ERRORS: Final = (-32700, -32600, -32602)


# --- rules that both revisions share --------------------------------------------------------------

check("2025-11-25:jsonrpc-2-0")(messages.speaks_jsonrpc)
check("2025-11-25:result-same-id")(messages.results_have_the_id)
check("2025-11-25:result-field")(messages.results_are_objects)
check("2025-11-25:error-same-id", needs="an error")(messages.errors_have_the_id)
check("2025-11-25:error-code-and-message", needs="an error response")(
    messages.errors_have_code_and_message
)
check("2025-11-25:error-code-integer", needs="an error")(messages.errors_have_integer_codes)
check("2025-11-25:notification-not-answered")(messages.notifications_are_not_answered)
check("2025-11-25:notification-without-id", needs="notifications sent by the target")(
    messages.notifications_have_no_id
)
check("2025-11-25:meta-prefix-format", needs="a `_meta` key with a prefix")(meta.meta_prefixes)
check("2025-11-25:meta-label-format", needs="a `_meta` key with a prefix")(meta.meta_labels)
check("2025-11-25:meta-prefix-reverse-dns", needs="a `_meta` key with a prefix")(meta.meta_reversed)
check("2025-11-25:meta-prefix-reserved", needs="a `_meta` key under a prefix reserved for MCP")(
    meta.meta_reserved
)
check("2025-11-25:meta-name-format", needs="a `_meta` object with keys")(meta.meta_names)


# --- requests of the target ----------------------------------------------------------------------


@check("2025-11-25:request-id-type", needs=_SENDS_REQUESTS)
def requests_have_proper_ids(history: History) -> Iterator[Observation]:
    """Check that each request of the target has a string or an integer as its id."""
    for request in requests_of_the_target(history):
        id = request.body["id"]
        is_whole = isinstance(id, int) or (isinstance(id, float) and id.is_integer())
        if isinstance(id, str) or (is_whole and not isinstance(id, bool)):
            yield good(request)
        elif id is not None:
            words = "the id of a request by the target is neither a string nor an integer"
            yield bad(words, request)


@check("2025-11-25:request-id-not-null", needs=_SENDS_REQUESTS)
def requests_have_ids(history: History) -> Iterator[Observation]:
    """Check that no request of the target has the id null."""
    for request in requests_of_the_target(history):
        is_null = request.body["id"] is None
        yield (
            bad("the id of a request by the target is null", request) if is_null else good(request)
        )


@check("2025-11-25:request-id-not-reused", needs=_SENDS_REQUESTS)
def requests_have_new_ids(history: History) -> Iterator[Observation]:
    """Check that the target uses each request id once per session.

    The same request repeated on another HTTP stream is not a new one; another check covers that.
    """
    first: dict[tuple[Any, ...], Entry] = {}
    for request in requests_of_the_target(history):
        one = first.setdefault((request.line, id_key(request.body["id"])), request)
        if one is request:
            yield good(request)
        elif one.message != request.message or one.post == request.post:
            yield bad("the target used the same id for two requests in one session", one, request)


# --- unknown content that a target must accept ----------------------------------------------------


@check("2025-11-25:result-any-object", needs="a result")
def results_have_any_fields(history: History) -> Iterator[Observation]:
    """Check that a result is an object, with any members."""
    for exchange in history.exchanges:
        if isinstance(exchange.result, dict):
            yield good(exchange)


def _requests_with_key(history: History, keys: Any) -> Iterator[Exchange]:
    """Yield valid requests whose `_meta` has a key that satisfies the predicate."""
    for exchange in history.calls("ping", "tools/list"):
        sent = exchange.params.get("_meta")
        is_plain = is_well_formed(exchange.request) and not exchange.params.keys() - {"_meta"}
        if is_plain and isinstance(sent, dict) and any(map(keys, sent)):
            yield exchange


@check("2025-11-25:meta-no-assumptions", needs="a target that responds to 'ping'")
def unknown_keys_are_tolerated(history: History) -> Iterator[Observation]:
    """Check that an unknown reserved key has no effect."""
    for exchange in _requests_with_key(history, _is_unknown):
        if isinstance(exchange.result, dict):
            yield good(exchange)
        elif exchange.code in _REQUEST_ERRORS and _is_served_without(history, exchange):
            words = "the target rejected a request because of an unknown key in '_meta'"
            yield bad(words, exchange)


def _is_unknown(key: str) -> bool:
    return key.startswith("io.modelcontextprotocol/") and key not in _KNOWN


def _is_served_without(history: History, exchange: Exchange) -> bool:
    """Return whether the same request without `_meta` succeeded on the same connection."""
    return any(
        other.request.line == exchange.request.line
        and not other.params
        and isinstance(other.result, dict)
        and other.sent_headers == exchange.sent_headers
        for other in history.calls(exchange.method)
    )


@check("2025-11-25:meta-name-characters", needs="a target that responds to 'ping'")
def unusual_names_are_tolerated(history: History) -> Iterator[Observation]:
    """Check that hyphens, underscores and dots inside a key name are accepted."""
    for exchange in _requests_with_key(
        history, lambda key: bool(set("-_.") & set(key.rpartition("/")[2]))
    ):
        if isinstance(exchange.result, dict):
            yield good(exchange)


@check("2025-11-25:base-protocol-supported")
def initialize_is_implemented(history: History) -> Iterator[Observation]:
    """Check that the target supports `initialize`; other checks cover the rest of the lifecycle."""
    for exchange in history.calls("initialize"):
        if exchange.code == -32601:
            yield bad("the target does not implement 'initialize' (error -32601)", exchange)
        elif isinstance(exchange.result, dict):
            yield good(exchange)


cannot_check(
    "The authorization specification has its own requirements, which this tester does not cover.",
    "2025-11-25:http-auth-spec",
)
