"""Checks of Streamable HTTP: endpoint, access, statuses, removed features (2026-07-28)."""

from collections.abc import Iterator
from typing import Final

from taskmachine.adapters.conformance.checks.reading.posts import Post, posts
from taskmachine.adapters.conformance.checks.reading.requests_2026_07_28 import (
    LEGACY,
    MODERN,
    VERSION,
    Mirror,
    faults,
    is_modern_only,
    is_unrelated_rejection,
    is_unsupported,
    meta,
    mirrors,
    modern_calls,
    successful_equivalent,
    supported_versions,
)
from taskmachine.adapters.conformance.checks.server.mcp_2025_11_25.transports import (
    endpoint as previous,
)
from taskmachine.adapters.conformance.history import Exchange, History
from taskmachine.adapters.conformance.judging import Observation, bad, cannot_check, check, good

__all__ = ["METHODS"]

METHODS: Final = frozenset(
    {
        *("initialize", "ping", "server/discover", "subscriptions/listen", "completion/complete"),
        *("tools/list", "tools/call", "prompts/list", "prompts/get", "logging/setLevel"),
        *("resources/list", "resources/read", "resources/templates/list"),
        *("resources/subscribe", "resources/unsubscribe"),
        *("tasks/get", "tasks/update", "tasks/cancel", "tasks/list", "tasks/result"),
    }
)
"""Methods of any revision."""

_GONE: Final = frozenset({"tasks/list", "tasks/result"})
_FIRST_WITH_HEADER: Final = "2025-06-18"

# --- endpoint ---------------------------------------------------------------------------------


@check("2026-07-28:http-single-endpoint", needs="HTTP")
def one_endpoint_takes_posts(history: History) -> Iterator[Observation]:
    """Check that the URL accepts all valid requests: no 405, and no 404 outside JSON-RPC."""
    for exchange in modern_calls(history):
        if not exchange.status or faults(history, exchange):
            continue
        is_lost = exchange.status == 404 and not exchange.is_answered
        if exchange.status == 405 or is_lost:
            words = f"a valid POST of {exchange.method!r} got HTTP status {exchange.status}"
            yield bad(words, exchange)
        elif exchange.is_answered:
            yield good(exchange)


# --- rules of the previous revision -----------------------------------------------------------

for _name, _observe in {
    "http-origin-validated": previous.foreign_origins_are_refused,
    "http-origin-403": previous.foreign_origins_get_403,
    "http-origin-403-body": previous.body_of_403,
    "http-authentication": previous.callers_are_authenticated,
    "http-202-for-notification": previous.notifications_get_202,
    "http-error-for-refused-notification": previous.refused_notifications_get_an_error_status,
    "http-refused-notification-body": previous.body_of_refused_notifications,
    "http-json-or-sse": previous.answers_are_json_or_events,
}.items():
    check(f"2026-07-28:{_name}", needs="HTTP")(_observe)

# --- statuses ---------------------------------------------------------------------------------


def _is_judged(exchange: Exchange) -> bool:
    """Return whether there is a response that depends on the content of the request."""
    return exchange.is_answered and bool(exchange.status) and not is_unrelated_rejection(exchange)


@check("2026-07-28:http-version-mismatch-32020", needs="HTTP")
def different_versions_are_refused(history: History) -> Iterator[Observation]:
    """Check that different versions in header and body are rejected with 400 and -32020.

    If one of them is unsupported, the target may report that instead. A target that serves earlier
    revisions may treat a request with such a version in the header as one of those.
    """
    for exchange in history.exchanges:
        version = _version_mirror(history, exchange)
        others = faults(history, exchange) - {"mcp-protocol-version", "version"}
        if version is None or version.fault != "different" or others:
            continue
        if not _is_judged(exchange):
            continue
        spoken = {MODERN, *supported_versions(history)}
        is_other_reason = not {version.sent, version.expected} <= spoken
        if (exchange.code, exchange.status) == (-32020, 400):
            yield good(exchange)
        elif _is_treated_as_legacy(history, exchange, version):
            continue
        elif exchange.error is None:
            words = f"the target accepted different versions: {version.sent!r} in the header and "
            yield bad(words + repr(version.expected), exchange)
        elif not (exchange.code == -32022 and is_other_reason):
            words = f"contradictory versions got {_refusal(exchange)}, not 400 and -32020"
            yield bad(words, exchange)


def _is_treated_as_legacy(history: History, exchange: Exchange, version: Mirror) -> bool:
    is_old = version.sent in LEGACY and not is_modern_only(history)
    return is_old and "resultType" not in exchange.fields


def _version_mirror(history: History, exchange: Exchange) -> Mirror | None:
    found = mirrors(history, exchange)
    return found[0] if found and exchange.method != "initialize" else None


def _refusal(exchange: Exchange) -> str:
    return f"HTTP status {exchange.status} and error {exchange.code}"


@check("2026-07-28:http-unsupported-version-400", needs="HTTP")
def unsupported_versions_get_400(history: History) -> Iterator[Observation]:
    """Check that an unsupported version is rejected with status 400."""
    for exchange in history.exchanges:
        is_asked = is_unsupported(history, meta(exchange).get(VERSION))
        if not is_asked or faults(history, exchange) != {"version"} or not _is_judged(exchange):
            continue
        if exchange.status == 400:
            yield good(exchange)
        elif exchange.error is not None:
            words = f"an unsupported version got HTTP status {exchange.status}, not 400"
            yield bad(words, exchange)


@check("2026-07-28:http-unknown-method-404", needs="HTTP")
def unknown_methods_get_404(history: History) -> Iterator[Observation]:
    """Check that an unimplemented method gets 404 with -32601."""
    served = {e.method for e in history.exchanges if isinstance(e.result, dict)}
    for exchange in modern_calls(history):
        is_asked = exchange.method and exchange.method not in served and exchange.status
        if not is_asked or faults(history, exchange):
            continue
        is_unknown = exchange.method in _GONE or exchange.method not in METHODS
        if is_unrelated_rejection(exchange) or not (is_unknown or exchange.code == -32601):
            continue
        if (exchange.status, exchange.code) == (404, -32601):
            yield good(exchange)
        else:
            yield bad(
                f"unknown method {exchange.method!r} got {_refusal(exchange)}, not 404 and -32601",
                exchange,
            )


def _without_version_header(history: History) -> Iterator[Exchange]:
    for exchange in modern_calls(history):
        if faults(history, exchange) == {"mcp-protocol-version"} and _is_judged(exchange):
            mirror = _version_mirror(history, exchange)
            if mirror is not None and mirror.fault == "missing":
                yield exchange


@check("2026-07-28:http-version-header-missing-legacy", needs="HTTP")
def missing_version_header_is_legacy(history: History) -> Iterator[Observation]:
    """Record requests without the header, which the target may accept as legacy or reject."""
    return (good(exchange) for exchange in _without_version_header(history))


@check(
    "2026-07-28:http-version-header-missing-refused",
    needs="HTTP, and a target that supports no revision before 2025-06-18",
)
def missing_version_header_is_refused(history: History) -> Iterator[Observation]:
    """Check that a target without pre-header revisions rejects a missing header: 400, -32020."""
    for exchange in _without_version_header(history) if _has_no_old_clients(history) else ():
        if (exchange.status, exchange.code) == (400, -32020):
            yield good(exchange)
        elif exchange.error is None:
            words = "the target accepted a request without the header 'MCP-Protocol-Version'"
            yield bad(words, exchange)
        elif successful_equivalent(history, exchange) is not None:
            words = f"a missing 'MCP-Protocol-Version' got {_refusal(exchange)}, not 400 and -32020"
            yield bad(words, exchange)


def _has_no_old_clients(history: History) -> bool:
    """Return whether the target certainly supports no revision without the header.

    It does not if a client proposed one and the target chose another.
    """
    initializations = [e for e in history.calls("initialize") if e.fields]
    chosen = [str(e.fields.get("protocolVersion")) for e in initializations]
    if any(v < _FIRST_WITH_HEADER for v in (*chosen, *supported_versions(history))):
        return False
    asked = [str(e.params.get("protocolVersion")) for e in initializations]
    return is_modern_only(history) or any(v < _FIRST_WITH_HEADER for v in asked)


# --- features of earlier revisions ------------------------------------------------------------

_ONLY: Final = "HTTP, and a target that supports no earlier revision"


@check("2026-07-28:http-get-delete-405", needs=_ONLY)
def get_and_delete_get_405(history: History) -> Iterator[Observation]:
    """Check that GET and DELETE are rejected."""
    for post in posts(history) if is_modern_only(history) else ():
        if post.method not in ("GET", "DELETE") or post.is_undecided or post.status == 403:
            continue
        if post.status == 405:
            yield good(*post.entries)
        else:
            yield bad(f"{post.method} got HTTP status {post.status}, not 405", *post.entries)


@check("2026-07-28:http-session-id-ignored", needs=_ONLY)
def session_ids_are_ignored(history: History) -> Iterator[Observation]:
    """Check that a session id has no effect, and that none is assigned."""
    for exchange in modern_calls(history) if is_modern_only(history) else ():
        if "mcp-session-id" in exchange.headers:
            words = "the response has an 'Mcp-Session-Id' header, which this revision removed"
            yield bad(words, exchange)
        elif "mcp-session-id" in exchange.sent_headers:
            yield from _ignored(history, exchange, "Mcp-Session-Id")


def _ignored(history: History, exchange: Exchange, header: str) -> Iterator[Observation]:
    """Check that a header has no effect."""
    if isinstance(exchange.result, dict):
        yield good(exchange)
    elif exchange.is_answered and not is_unrelated_rejection(exchange):
        equivalent = successful_equivalent(history, exchange)
        if equivalent is not None and not faults(history, exchange):
            words = f"the target rejected a request because of the header {header!r}"
            yield bad(words, exchange, equivalent)


def _foreign_message(post: Post) -> str | None:
    """Return a message on this stream that belongs to another request, in words."""
    own = post.sent.body.get("id")
    for entry in post.heard:
        subscription = entry.meta.get("io.modelcontextprotocol/subscriptionId", own)
        if entry.is_response and entry.body.get("id") not in (own, None):
            return f"the response to request {entry.body.get('id')!r}"
        if subscription != own:
            return f"a notification of subscription {subscription!r}"
    return None


@check("2026-07-28:sse-not-resumable", needs="HTTP")
def streams_are_not_resumed(history: History) -> Iterator[Observation]:
    """Check that `Last-Event-ID` does not replay messages of another stream."""
    for post in posts(history):
        is_legacy = "mcp-session-id" in post.sent_headers
        if "last-event-id" not in post.sent_headers or is_legacy or not post.status:
            continue
        replayed = _foreign_message(post)
        if replayed is None:
            yield good(*post.entries)
        else:
            words = f"a request with 'Last-Event-ID' replayed {replayed}; streams are not resumable"
            yield bad(words, *post.entries, *post.heard[:2])


@check("2026-07-28:http-last-event-id-ignored", needs=_ONLY)
def last_event_ids_are_ignored(history: History) -> Iterator[Observation]:
    """Check that `Last-Event-ID` has no effect on a new subscription."""
    if not is_modern_only(history):
        return
    for post in posts(history):
        if "last-event-id" in post.sent_headers and post.is_request:
            began = post.heard[0].method if post.heard else None
            replayed = _foreign_message(post)
            if replayed is not None:
                words = f"'Last-Event-ID' replayed {replayed} instead of being ignored"
                yield bad(words, *post.entries, *post.heard[:2])
            elif began == "notifications/subscriptions/acknowledged":
                yield good(*post.entries, post.heard[0])
    for exchange in modern_calls(history):
        if "last-event-id" in exchange.sent_headers:
            yield from _ignored(history, exchange, "Last-Event-ID")


cannot_check(
    "The tester reaches only the given URL and cannot see on which addresses the target listens.",
    "2026-07-28:http-bind-localhost",
)
cannot_check(
    "Whether the target stops the work of a cancelled request is not observable through the "
    "protocol.",
    "2026-07-28:http-cancelled-work-stops",
    "2026-07-28:stdio-cancelled-work-stops",
)
