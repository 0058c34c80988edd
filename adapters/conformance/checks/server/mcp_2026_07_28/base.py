"""Checks of the 2026-07-28 base protocol: messages, results, errors and their codes."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from taskmachine.adapters.conformance.checks.reading.messages import (
    errors_have_code_and_message,
    errors_have_integer_codes,
    errors_have_the_id,
    notifications_are_not_answered,
    notifications_have_no_id,
    results_are_objects,
    results_have_the_id,
    speaks_jsonrpc,
)
from taskmachine.adapters.conformance.checks.reading.requests_2026_07_28 import (
    TASKS,
    VERSION,
    capabilities,
    declares_tasks,
    faults,
    is_unsupported,
    meta,
    modern_calls,
)
from taskmachine.adapters.conformance.history import Exchange, History, Sighting
from taskmachine.adapters.conformance.judging import Observation, bad, cannot_check, check, good

__all__: list[str] = []

check("2026-07-28:jsonrpc-2-0", needs="any message")(speaks_jsonrpc)
check("2026-07-28:result-same-id", needs="any result")(results_have_the_id)
check("2026-07-28:result-field", needs="any result")(results_are_objects)
check("2026-07-28:error-same-id", needs="any error")(errors_have_the_id)
check("2026-07-28:error-code-and-message", needs="any error")(errors_have_code_and_message)
check("2026-07-28:error-code-integer", needs="any error")(errors_have_integer_codes)
check("2026-07-28:notification-not-answered", needs="a notification")(
    notifications_are_not_answered
)
check("2026-07-28:notification-without-id", needs="a notification sent by the target")(
    notifications_have_no_id
)

# --- results ---------------------------------------------------------------------------------


def _results(history: History) -> Iterator[Exchange]:
    """Yield the requests of this revision with a result."""
    for exchange in modern_calls(history):
        if isinstance(exchange.result, dict):
            yield exchange


@check("2026-07-28:result-any-object", needs="any result")
def results_may_have_any_fields(history: History) -> Iterator[Observation]:
    """Record results, which may have any additional members."""
    return (good(exchange) for exchange in _results(history))


@check("2026-07-28:result-type-present", needs="any result")
def results_have_a_type(history: History) -> Iterator[Observation]:
    """Check that every result has a `resultType`, which is a string."""
    for exchange in _results(history):
        if isinstance(exchange.fields.get("resultType"), str):
            yield good(exchange)
        elif "resultType" in exchange.fields:
            yield bad(f"'resultType' is {exchange.fields['resultType']!r}, not a string", exchange)
        else:
            yield bad(f"the result of {exchange.method!r} has no 'resultType'", exchange)


_SHAPES: Final[Mapping[str, Mapping[str, type]]] = {
    "tools/list": {"tools": list},
    "tools/call": {"content": list},
    "tasks/get": {"taskId": str, "status": str},
}


@check("2026-07-28:result-type-complete-means-final", needs="any result")
def complete_results_are_complete(history: History) -> Iterator[Observation]:
    """Check that a `complete` result has the members that its method requires."""
    for exchange in _results(history):
        shape = _SHAPES.get(exchange.method)
        if shape is None or exchange.fields.get("resultType") != "complete":
            continue
        missing = [n for n, kind in shape.items() if not isinstance(exchange.fields.get(n), kind)]
        if missing:
            words = f"the complete result of {exchange.method!r} has no valid {missing[0]!r}"
            yield bad(words, exchange)
        else:
            yield good(exchange)


@check(
    "2026-07-28:result-type-input-required-means-more",
    needs="a tool that requests input before it creates a task",
)
def input_required_says_what(history: History) -> Iterator[Observation]:
    """Check that an `input_required` result has `inputRequests` or `requestState`."""
    for exchange in _results(history):
        if exchange.fields.get("resultType") == "input_required":
            if {"inputRequests", "requestState"} & set(exchange.fields):
                yield good(exchange)
            else:
                words = "an 'input_required' result has neither 'inputRequests' nor 'requestState'"
                yield bad(words, exchange)


@check("2026-07-28:extensions-add-result-types", needs="a task")
def extensions_add_types(history: History) -> Iterator[Observation]:
    """Record the result type `task`, which an extension adds."""
    return (good(e) for e in _results(history) if e.fields.get("resultType") == "task")


@check("2026-07-28:result-types-from-capabilities", needs="any result")
def types_were_negotiated(history: History) -> Iterator[Observation]:
    """Check that result types belong to the core or to extensions that the request declared."""
    for exchange in _results(history):
        kind = exchange.fields.get("resultType")
        if not isinstance(kind, str):
            continue
        if kind in ("complete", "input_required") or (kind == "task" and declares_tasks(exchange)):
            yield good(exchange)
        elif kind == "task" or not _declares_others(exchange):
            yield bad(f"'resultType' is {kind!r}, which no declared extension defines", exchange)


def _declares_others(exchange: Exchange) -> bool:
    extensions = capabilities(exchange).get("extensions")
    return isinstance(extensions, dict) and bool(set(extensions) - {TASKS})


# --- error codes ------------------------------------------------------------------------------

_STANDARD: Final = frozenset({-32700, -32600, -32601, -32602, -32603})
_DEFINED: Final = frozenset({-32020, -32021, -32022})
_OF_EARLIER_VERSIONS: Final = frozenset({-32002, -32042})
_LEGACY: Final = frozenset(range(-32019, -31999)) - _OF_EARLIER_VERSIONS
_RESERVED: Final = frozenset(range(-32099, -32019)) - _DEFINED - _OF_EARLIER_VERSIONS
_OF_JSON_RPC: Final = frozenset(range(-32768, -32099)) - _STANDARD


def _codes(history: History) -> Iterator[tuple[int, Exchange | Sighting]]:
    """Yield the code of every error response and failed task."""
    for exchange in modern_calls(history):
        if _is_integer(exchange.code):
            yield exchange.code, exchange
    for sighting in history.sightings:
        error = sighting.task.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        if isinstance(code, int) and _is_integer(code):
            yield code, sighting


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@check("2026-07-28:legacy-codes-avoided", needs="any error", codes=_LEGACY)
@check("2026-07-28:reserved-codes-not-invented", needs="any error", codes=_RESERVED)
@check("2026-07-28:old-codes-not-sent", needs="any error", codes=_OF_EARLIER_VERSIONS)
@check("2026-07-28:own-codes-outside-range", needs="any error", codes=_OF_JSON_RPC)
def codes_are_not_used(history: History, codes: frozenset[int]) -> Iterator[Observation]:
    """Check that no error has a reserved or retired code."""
    for code, where in _codes(history):
        if code in codes:
            yield bad(f"an error has the code {code}, which is reserved or obsolete", where)
        else:
            yield good(where)


@check("2026-07-28:error-data-optional", needs="any error")
def data_is_optional(history: History) -> Iterator[Observation]:
    """Record errors; their data is optional."""
    return (good(where) for _, where in _codes(history))


@check("2026-07-28:reserved-codes-as-defined", needs="an error with a code defined by MCP")
def defined_codes_keep_their_meaning(history: History) -> Iterator[Observation]:
    """Check that -32020 is used for headers, -32021 for capabilities, -32022 for versions."""
    for exchange in modern_calls(history):
        if _is_integer(exchange.code) and exchange.code in _DEFINED:
            fault = _misuse(history, exchange)
            yield good(exchange) if fault is None else bad(fault, exchange)


def _misuse(history: History, exchange: Exchange) -> str | None:
    match exchange.code:
        case -32020 if not exchange.status:
            return "the target used error -32020 (header mismatch) over a transport without headers"
        case -32020 if not faults(history, exchange):
            return "the target used error -32020 (header mismatch), although headers and body agree"
        case -32022 if not is_unsupported(history, meta(exchange).get(VERSION)):
            is_version = "mcp-protocol-version" in faults(history, exchange)
            return (
                None
                if is_version
                else "the target used error -32022 (unsupported version) for a supported version"
            )
        case -32021:
            required = _required_capabilities(exchange)
            if required and _is_within(required, capabilities(exchange)):
                return (
                    "the target used error -32021 (missing capability) for capabilities that "
                    "the client declared"
                )
    return None


def _required_capabilities(exchange: Exchange) -> Mapping[str, Any]:
    data = None if exchange.error is None else exchange.error.get("data")
    required = data.get("requiredCapabilities") if isinstance(data, dict) else None
    return required if isinstance(required, dict) else {}


def _is_within(required: Mapping[str, Any], declared: Mapping[str, Any]) -> bool:
    """Return whether all required capabilities were certainly declared; `{}` may require more."""
    for name, inner in required.items():
        had = declared.get(name)
        if not isinstance(inner, dict) or not isinstance(had, dict) or (had and not inner):
            return False
        if not _is_within(inner, had):
            return False
    return True


# --- capabilities ----------------------------------------------------------------------------


@check("2026-07-28:undeclared-capability-32021", needs="a request that lacks a required capability")
def missing_capabilities_are_named(history: History) -> Iterator[Observation]:
    """Check that a -32021 error names the missing capabilities."""
    for exchange in modern_calls(history):
        if exchange.code != -32021:
            continue
        if _required_capabilities(exchange):
            yield good(exchange)
        else:
            yield bad("the error -32021 has no 'data.requiredCapabilities'", exchange)


@check(
    "2026-07-28:undeclared-capability-400",
    needs="HTTP, and a request that lacks a required capability",
)
def missing_capabilities_get_400(history: History) -> Iterator[Observation]:
    """Check that a -32021 error has HTTP status 400."""
    for exchange in modern_calls(history):
        if exchange.code != -32021 or not exchange.status:
            continue
        if exchange.status == 400:
            yield good(exchange)
        else:
            yield bad(f"the error -32021 has HTTP status {exchange.status}, not 400", exchange)


cannot_check(
    "This requirement summarizes the other requirements of its pages, which are checked "
    "separately.",
    "2026-07-28:base-protocol-supported",
)
cannot_check(
    "In this revision servers receive no error responses.",
    "2026-07-28:legacy-codes-without-meaning",
)
cannot_check(
    "Authorization has its own requirements, which this tester does not cover.",
    "2026-07-28:http-auth-spec",
)
