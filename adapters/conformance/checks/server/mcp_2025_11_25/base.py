"""Overview of 2025-11-25: JSON-RPC messages and `_meta`."""

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

_QUESTION: Final = "a target that asks something"
_KNOWN: Final = frozenset(
    {"io.modelcontextprotocol/related-task", "io.modelcontextprotocol/model-immediate-response"}
)
_BLAMES_THE_REQUEST: Final = (-32700, -32600, -32602)


# --- what both revisions say ---------------------------------------------------------------------

check("2025-11-25:jsonrpc-2-0")(messages.speaks_jsonrpc)
check("2025-11-25:result-same-id")(messages.results_have_the_id)
check("2025-11-25:result-field")(messages.results_are_objects)
check("2025-11-25:error-same-id", needs="an error")(messages.errors_have_the_id)
check("2025-11-25:error-code-and-message", needs="an error")(messages.errors_have_code_and_message)
check("2025-11-25:error-code-integer", needs="an error")(messages.errors_have_integer_codes)
check("2025-11-25:notification-not-answered")(messages.notifications_are_not_answered)
check("2025-11-25:notification-without-id", needs="notifications of the target")(
    messages.notifications_have_no_id
)
check("2025-11-25:meta-prefix-format", needs="`_meta` with a prefix")(meta.meta_prefixes)
check("2025-11-25:meta-label-format", needs="`_meta` with a prefix")(meta.meta_labels)
check("2025-11-25:meta-prefix-reverse-dns", needs="`_meta` with a prefix")(meta.meta_reversed)
check("2025-11-25:meta-prefix-reserved", needs="`_meta` under a prefix of MCP")(meta.meta_reserved)
check("2025-11-25:meta-name-format", needs="`_meta`")(meta.meta_names)


# --- requests of the target ----------------------------------------------------------------------


@check("2025-11-25:request-id-type", needs=_QUESTION)
def requests_have_proper_ids(history: History) -> Iterator[Observation]:
    """A request of the target has a string or an integer as its id."""
    for question in requests_of_the_target(history):
        id = question.body["id"]
        is_whole = isinstance(id, int) or (isinstance(id, float) and id.is_integer())
        if isinstance(id, str) or (is_whole and not isinstance(id, bool)):
            yield good(question)
        elif id is not None:
            yield bad("the id of a request is neither a string nor an integer", question)


@check("2025-11-25:request-id-not-null", needs=_QUESTION)
def requests_have_ids(history: History) -> Iterator[Observation]:
    """No request of the target has the id null."""
    for question in requests_of_the_target(history):
        is_null = question.body["id"] is None
        yield bad("the id of a request is null", question) if is_null else good(question)


@check("2025-11-25:request-id-not-reused", needs=_QUESTION)
def requests_have_new_ids(history: History) -> Iterator[Observation]:
    """An id is used once in a session.

    The same question on another HTTP stream is not a new one: that is judged elsewhere.
    """
    first: dict[tuple[Any, ...], Entry] = {}
    for question in requests_of_the_target(history):
        one = first.setdefault((question.line, id_key(question.body["id"])), question)
        if one is question:
            yield good(question)
        elif one.message != question.message or one.post == question.post:
            yield bad("two requests have the same id", one, question)


# --- what is tolerated ---------------------------------------------------------------------------


@check("2025-11-25:result-any-object", needs="results")
def results_have_any_fields(history: History) -> Iterator[Observation]:
    """A result is an object, whatever is in it."""
    for exchange in history.exchanges:
        if isinstance(exchange.result, dict):
            yield good(exchange)


def _plain(history: History, keys: Any) -> Iterator[Exchange]:
    """Requests that nobody has a reason to refuse, with such a key in `_meta`."""
    for exchange in history.calls("ping", "tools/list"):
        sent = exchange.params.get("_meta")
        is_plain = is_well_formed(exchange.request) and not exchange.params.keys() - {"_meta"}
        if is_plain and isinstance(sent, dict) and any(map(keys, sent)):
            yield exchange


@check("2025-11-25:meta-no-assumptions", needs="a target that answers 'ping'")
def unknown_keys_are_tolerated(history: History) -> Iterator[Observation]:
    """A reserved key that is unknown changes nothing."""
    for exchange in _plain(history, _is_unknown):
        if isinstance(exchange.result, dict):
            yield good(exchange)
        elif exchange.code in _BLAMES_THE_REQUEST and _is_served_without(history, exchange):
            yield bad("a request with an unknown key in '_meta' was refused", exchange)


def _is_unknown(key: str) -> bool:
    return key.startswith("io.modelcontextprotocol/") and key not in _KNOWN


def _is_served_without(history: History, exchange: Exchange) -> bool:
    """Whether the same request without `_meta` was served on the same line."""
    return any(
        other.request.line == exchange.request.line
        and not other.params
        and isinstance(other.result, dict)
        and other.sent_headers == exchange.sent_headers
        for other in history.calls(exchange.method)
    )


@check("2025-11-25:meta-name-characters", needs="a target that answers 'ping'")
def odd_names_are_tolerated(history: History) -> Iterator[Observation]:
    """Hyphens, underscores and dots within a name are fine."""
    for exchange in _plain(history, lambda key: bool(set("-_.") & set(key.rpartition("/")[2]))):
        if isinstance(exchange.result, dict):
            yield good(exchange)


@check("2025-11-25:base-protocol-supported")
def initialize_is_known(history: History) -> Iterator[Observation]:
    """The lifecycle begins with `initialize`; the rest is judged by rows of its own."""
    for exchange in history.calls("initialize"):
        if exchange.code == -32601:
            yield bad("'initialize' is unknown", exchange)
        elif isinstance(exchange.result, dict):
            yield good(exchange)


cannot_check(
    "The authorization specification has requirements of its own, which are not judged here.",
    "2025-11-25:http-auth-spec",
)
