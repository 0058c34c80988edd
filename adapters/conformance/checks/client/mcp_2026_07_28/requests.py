"""Checks of client metadata, versions, results, and retries (2026-07-28)."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from taskmachine.adapters.conformance.checks.client.polling import exited_normally, was_stopped
from taskmachine.adapters.conformance.clients.view import VERSION, as_client
from taskmachine.adapters.conformance.history import Exchange, History, Kind
from taskmachine.adapters.conformance.judging import Observation, bad, client_check, good

__all__: list[str] = []

_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
_INFO: Final = "io.modelcontextprotocol/clientInfo"
_ANY: Final = "any request"
_RETRIES: Final = "a client that retries a call which requests input"
_SEEN_MS: Final = 300.0
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}.*")


def _requests(history: History) -> Iterator[Exchange]:
    """Yield requests except `initialize`, the fallback to an older revision."""
    return (e for e in as_client(history).exchanges if e.method != "initialize")


# --- every request --------------------------------------------------------------------------------


@client_check("2026-07-28:meta-required-fields", needs=_ANY)
def required_fields(history: History) -> Iterator[Observation]:
    """Check that every request has version and capabilities."""
    for exchange in _requests(history):
        meta = exchange.request.meta
        if not isinstance(meta.get(VERSION), str):
            yield bad(f"{exchange.method!r} has no protocol version in '_meta'", exchange)
        elif not isinstance(meta.get(_CAPABILITIES), dict):
            yield bad(f"{exchange.method!r} has no client capabilities in '_meta'", exchange)
        else:
            yield good(exchange)


@client_check("2026-07-28:client-info-sent", needs=_ANY)
def info_sent(history: History) -> Iterator[Observation]:
    """Check that every request has the client's name and version."""
    for exchange in _requests(history):
        info = exchange.request.meta.get(_INFO)
        named = isinstance(info, dict) and {"name", "version"} <= set(info)
        if named:
            yield good(exchange)
        else:
            words = f"{exchange.method!r} has no 'clientInfo' with name and version in '_meta'"
            yield bad(words, exchange)


@client_check("2026-07-28:trace-context-format", needs="a client that sends trace contexts")
def trace_context(history: History) -> Iterator[Observation]:
    """Check that `traceparent` has the W3C format."""
    for exchange in _requests(history):
        if "traceparent" in exchange.request.meta:
            value = exchange.request.meta["traceparent"]
            is_right = isinstance(value, str) and _TRACEPARENT.fullmatch(value)
            if is_right:
                yield good(exchange)
            else:
                words = f"'traceparent' is {value!r:.60}, which is not in the W3C format"
                yield bad(words, exchange)


@client_check(
    "2026-07-28:client-sends-no-responses",
    "2026-07-28:http-no-responses",
    "2026-07-28:stdio-no-responses",
    needs=_ANY,
)
def no_responses(history: History) -> Iterator[Observation]:
    """Check that the client sends no responses."""
    for entry in history.heard:
        if entry.is_response:
            words = "the client sent a JSON-RPC response; servers of this revision send no requests"
            yield bad(words, entry)
        elif entry.body:
            yield good(entry)


@client_check("2026-07-28:notification-not-answered", needs="a client that subscribes to its tasks")
def notifications_unanswered(history: History) -> Iterator[Observation]:
    """Check that notifications of the server receive no response."""
    client = as_client(history)
    stray = next((e for e in history.heard if e.is_response and e.body.get("id") is None), None)
    for entry in client.notifications():
        if stray is not None and stray.number > entry.number:
            yield bad("the client responded to a notification", entry, stray)
        else:
            yield good(entry)


@client_check(
    "2026-07-28:client-sends-cancelled",
    "2026-07-28:stdio-cancelled-notification",
    needs="a client that cancels a call",
)
def cancellation_names_request(history: History) -> Iterator[Observation]:
    """Check that a cancellation names the request; over HTTP it closes the stream."""
    for entry in history.notifications("notifications/cancelled"):
        if "requestId" in entry.params:
            yield good(entry)
        else:
            yield bad("`notifications/cancelled` has no `requestId`", entry)
    for exchange in as_client(history).calls("tools/call"):
        if exchange.end is not None and exchange.end.kind is Kind.LEFT and not exchange.is_answered:
            yield good(exchange)


# --- versions and errors --------------------------------------------------------------------------


@client_check("2026-07-28:discover-optional-for-client", "2026-07-28:http-era-probe", needs=_ANY)
def may_discover(history: History) -> Iterator[Observation]:
    """Record the first request; discovery is optional."""
    yield from (good(exchange) for exchange in list(_requests(history))[:1])


@client_check("2026-07-28:era-cached", needs="a client that sends `server/discover`")
def discovers_once(history: History) -> Iterator[Observation]:
    """Check that the client does not send `server/discover` before each request."""
    exchanges = list(_requests(history))
    probes = [e for e in exchanges if e.method == "server/discover"]
    if len(probes) > 3 and 2 * len(probes) >= len(exchanges):
        yield bad(f"the client sent `server/discover` {len(probes)} times", *probes[:2])
    elif probes and len(exchanges) > 2 * len(probes):
        yield good(probes[0])


@client_check("2026-07-28:client-retries-with-supported-version", needs=_ANY)
def retries_with_supported(history: History) -> Iterator[Observation]:
    """Check that the client uses a listed version after -32022, or ends."""
    client = as_client(history)
    refused = next((e for e in client.exchanges if e.code == -32022), None)
    if refused is None or refused.error is None or refused.heard_at is None:
        return
    data = refused.error.get("data")
    supported = data.get("supported", []) if isinstance(data, dict) else []
    later = [e for e in client.exchanges if e.sent_at > refused.heard_at]
    for exchange in later:
        version = exchange.request.meta.get(VERSION, exchange.params.get("protocolVersion"))
        if version in supported:
            yield good(refused, exchange)
        elif exchange.sent_at - refused.heard_at > _SEEN_MS or len(later) > 2:
            words = f"after -32022 the client used the unlisted version {version!r:.30}"
            yield bad(words, refused, exchange)
    if not later and not was_stopped(history):
        yield good(refused)


@client_check(
    "2026-07-28:http-400-body-inspected",
    needs="a client over HTTP that receives a 400 and continues",
)
def no_fallback_after_modern_errors(history: History) -> Iterator[Observation]:
    """Check that the client does not fall back to `initialize` after -32020 or -32021."""
    client = as_client(history)
    for refused in client.exchanges:
        if refused.status != 400 or refused.code not in (-32020, -32021):
            continue
        later = [e for e in client.exchanges if e.sent_at > (refused.heard_at or 0)]
        fallback = next((e for e in later if e.method == "initialize"), None)
        if fallback is not None:
            words = f"the client fell back to `initialize` after error {refused.code}"
            yield bad(words, refused, fallback)
        elif later:
            yield good(refused, later[0])


@client_check(
    "2026-07-28:header-mismatch-retry", needs="a client over HTTP that calls tools and continues"
)
def retries_after_mismatch(history: History) -> Iterator[Observation]:
    """Check that after -32020 the client lists the tools and repeats the call."""
    client = as_client(history)
    for refused in client.calls("tools/call"):
        if refused.code != -32020:
            continue
        later = [e for e in client.exchanges if e.request.number > refused.request.number]
        retry = [
            e
            for e in later
            if e.method == "tools/call" and e.params.get("name") == refused.params.get("name")
        ]
        listed = [e for e in later if e.method == "tools/list"]
        if listed and retry:
            yield good(refused, listed[0], retry[0])
        elif later or exited_normally(history):
            missing = "repeat the call" if listed else "list the tools again"
            yield bad(f"after error -32020 the client did not {missing}", refused)


@client_check("2026-07-28:one-sided-extension", needs="a client that calls tools")
def extension_needs_the_server(history: History) -> Iterator[Observation]:
    """Check that the client does not use the extension with a server that does not declare it."""
    client = as_client(history)
    shown = [c for c in client.capabilities.values() if "extensions" not in c]
    if not shown:
        return
    for exchange in client.exchanges:
        if exchange.method.startswith("tasks/"):
            words = "the client used the tasks extension, which the server does not declare"
            yield bad(words, exchange)
        elif exchange.method == "tools/call":
            yield good(exchange)


# --- result types ---------------------------------------------------------------------------------


@client_check("2026-07-28:unknown-result-type-invalid", needs="a client that calls tools")
def unknown_type_invalid(history: History) -> Iterator[Observation]:
    """Check that a result of an unknown type is not treated as a task or input request."""
    client = as_client(history)
    for exchange in client.exchanges:
        kind = exchange.fields.get("resultType", "complete")
        if kind in ("complete", "input_required", "task") or exchange.response is None:
            continue
        later = [e for e in client.exchanges if e.request.number > exchange.response.number]
        task_id, name = exchange.fields.get("taskId"), exchange.params.get("name")
        used = next((e for e in later if e.task_id == task_id and task_id is not None), None)
        retried = next((e for e in later if "inputResponses" in e.params), None)
        wrong = used or retried
        if wrong is not None:
            words = f"the client used a result of the unknown 'resultType' {kind!r} as another type"
            yield bad(words, exchange, wrong)
        elif name is not None:
            yield good(exchange)


@client_check("2026-07-28:absent-result-type-is-complete", needs="a client that calls tools")
def absent_type_complete(history: History) -> Iterator[Observation]:
    """Check that the client continues after a result without a type."""
    client = as_client(history)
    for exchange in client.calls("tools/call"):
        if not exchange.fields or "resultType" in exchange.fields or exchange.response is None:
            continue
        later = [e for e in client.exchanges if e.request.number > exchange.response.number]
        last = max(e.response.number for e in client.exchanges if e.response is not None)
        is_last = exchange.response.number == last  # otherwise a later response may be the cause
        if later or exited_normally(history):
            yield good(exchange)
        elif not was_stopped(history) and is_last:
            yield bad("the client ended after a result without 'resultType' ('complete')", exchange)


# --- retries --------------------------------------------------------------------------------------


def _retries(history: History) -> Iterator[tuple[Exchange, Exchange]]:
    """Yield calls that requested input, each with its retry."""
    client = as_client(history)
    calls = list(client.calls("tools/call"))
    for first in calls:
        if first.fields.get("resultType") != "input_required" or first.response is None:
            continue
        later = [e for e in calls if e.request.number > first.response.number]
        retry = next((e for e in later if e.params.get("name") == first.params.get("name")), None)
        if retry is not None:
            yield first, retry


def _input_requests(exchange: Exchange) -> Mapping[str, Any]:
    found = exchange.fields.get("inputRequests")
    return found if isinstance(found, dict) else {}


@client_check("2026-07-28:request-state-echoed", "2026-07-28:request-state-opaque", needs=_RETRIES)
def state_echoed(history: History) -> Iterator[Observation]:
    """Check that the retry returns the `requestState` unchanged."""
    for first, retry in _retries(history):
        if "requestState" in first.fields:
            if retry.params.get("requestState") == first.fields["requestState"]:
                yield good(first, retry)
            else:
                yield bad("the retry did not return the `requestState` unchanged", first, retry)


@client_check("2026-07-28:no-invented-request-state", needs=_RETRIES)
def no_invented_state(history: History) -> Iterator[Observation]:
    """Check that the retry has no `requestState` if there was none."""
    for first, retry in _retries(history):
        if "requestState" not in first.fields:
            if "requestState" in retry.params:
                words = "the retry has a `requestState`, although the server sent none"
                yield bad(words, first, retry)
            else:
                yield good(first, retry)


@client_check("2026-07-28:mrtr-client-builds-answers", needs=_RETRIES)
def retry_has_all_responses(history: History) -> Iterator[Observation]:
    """Check that the retry responds to each input request."""
    for first, retry in _retries(history):
        answers = retry.params.get("inputResponses")
        missing = set(_input_requests(first)) - set(answers if isinstance(answers, dict) else ())
        if missing:
            words = f"the retry has no response to the input request {sorted(missing)[0]!r}"
            yield bad(words, first, retry)
        elif _input_requests(first):
            yield good(first, retry)


@client_check("2026-07-28:mrtr-immediate-retry", needs=_RETRIES)
def may_retry_at_once(history: History) -> Iterator[Observation]:
    """Record retries of results without input requests, which are allowed."""
    for first, retry in _retries(history):
        if not _input_requests(first):
            yield good(first, retry)


@client_check("2026-07-28:retry-new-id", needs=_RETRIES)
def retry_has_new_id(history: History) -> Iterator[Observation]:
    """Check that a retry has a new request id."""
    for first, retry in _retries(history):
        if first.request.body["id"] == retry.request.body["id"]:
            yield bad("the retry has the same request id as the first call", first, retry)
        else:
            yield good(first, retry)


@client_check("2026-07-28:answers-only-for-retry", needs=_RETRIES)
def input_responses_only_in_retries(history: History) -> Iterator[Observation]:
    """Check that no other request carries input responses or states."""
    retries = {retry.request.number for _, retry in _retries(history)}
    for exchange in as_client(history).exchanges:
        carried = {"inputResponses", "requestState"} & set(exchange.params)
        if exchange.request.number in retries:
            yield good(exchange)
        elif carried and exchange.method != "tasks/update":
            words = f"{exchange.method!r} contains '{min(carried)}', but is not a retry"
            yield bad(words, exchange)
