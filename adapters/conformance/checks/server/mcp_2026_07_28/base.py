"""The base protocol of 2026-07-28: messages, results, errors and their codes."""

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
check("2026-07-28:notification-without-id", needs="a notification of the target")(
    notifications_have_no_id
)

# --- results ---------------------------------------------------------------------------------


def _results(history: History) -> Iterator[Exchange]:
    """The requests of this revision that were answered with a result."""
    for exchange in modern_calls(history):
        if isinstance(exchange.result, dict):
            yield exchange


@check("2026-07-28:result-any-object", needs="any result")
def results_may_have_any_fields(history: History) -> Iterator[Observation]:
    """Whatever else is in a result is fine."""
    return (good(exchange) for exchange in _results(history))


@check("2026-07-28:result-type-present", needs="any result")
def results_have_a_type(history: History) -> Iterator[Observation]:
    """Every result has a `resultType`, which is a string."""
    for exchange in _results(history):
        if isinstance(exchange.fields.get("resultType"), str):
            yield good(exchange)
        elif "resultType" in exchange.fields:
            yield bad(f"'resultType' is {exchange.fields['resultType']!r}", exchange)
        else:
            yield bad(f"a result of {exchange.method!r} has no 'resultType'", exchange)


_SHAPES: Final[Mapping[str, Mapping[str, type]]] = {
    "tools/list": {"tools": list},
    "tools/call": {"content": list},
    "tasks/get": {"taskId": str, "status": str},
}


@check("2026-07-28:result-type-complete-means-final", needs="any result")
def complete_results_are_complete(history: History) -> Iterator[Observation]:
    """A result that is `complete` has what its method gives."""
    for exchange in _results(history):
        shape = _SHAPES.get(exchange.method)
        if shape is None or exchange.fields.get("resultType") != "complete":
            continue
        missing = [n for n, kind in shape.items() if not isinstance(exchange.fields.get(n), kind)]
        if missing:
            words = f"a complete result of {exchange.method!r} without {missing[0]!r}"
            yield bad(words, exchange)
        else:
            yield good(exchange)


@check(
    "2026-07-28:result-type-input-required-means-more",
    needs="a tool that asks before there is a task",
)
def input_required_says_what(history: History) -> Iterator[Observation]:
    """A result that is `input_required` has `inputRequests` or `requestState`."""
    for exchange in _results(history):
        if exchange.fields.get("resultType") == "input_required":
            if {"inputRequests", "requestState"} & set(exchange.fields):
                yield good(exchange)
            else:
                yield bad("'input_required' without 'inputRequests' or 'requestState'", exchange)


@check("2026-07-28:extensions-add-result-types", needs="a task")
def extensions_add_types(history: History) -> Iterator[Observation]:
    """`task` is such a type."""
    return (good(e) for e in _results(history) if e.fields.get("resultType") == "task")


@check("2026-07-28:result-types-from-capabilities", needs="any result")
def types_were_negotiated(history: History) -> Iterator[Observation]:
    """Types are of the core, or of extensions that the request declared."""
    for exchange in _results(history):
        kind = exchange.fields.get("resultType")
        if not isinstance(kind, str):
            continue
        if kind in ("complete", "input_required") or (kind == "task" and declares_tasks(exchange)):
            yield good(exchange)
        elif kind == "task" or not _declares_others(exchange):
            words = f"'resultType' is {kind!r}, which the request knows nothing of"
            yield bad(words, exchange)


def _declares_others(exchange: Exchange) -> bool:
    extensions = capabilities(exchange).get("extensions")
    return isinstance(extensions, dict) and bool(set(extensions) - {TASKS})


# --- codes of errors -------------------------------------------------------------------------

_STANDARD: Final = frozenset({-32700, -32600, -32601, -32602, -32603})
_DEFINED: Final = frozenset({-32020, -32021, -32022})
_OF_EARLIER_VERSIONS: Final = frozenset({-32002, -32042})
_LEGACY: Final = frozenset(range(-32019, -31999)) - _OF_EARLIER_VERSIONS
_RESERVED: Final = frozenset(range(-32099, -32019)) - _DEFINED - _OF_EARLIER_VERSIONS
_OF_JSON_RPC: Final = frozenset(range(-32768, -32099)) - _STANDARD


def _codes(history: History) -> Iterator[tuple[int, Exchange | Sighting]]:
    """Every code of an answer, and of a failed task."""
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
    """No error has a code that is kept for others, or given up."""
    for code, where in _codes(history):
        yield bad(f"an error has the code {code}", where) if code in codes else good(where)


@check("2026-07-28:error-data-optional", needs="any error")
def data_is_optional(history: History) -> Iterator[Observation]:
    """With data or without, both are fine."""
    return (good(where) for _, where in _codes(history))


@check("2026-07-28:reserved-codes-as-defined", needs="an error of MCP's own")
def defined_codes_mean_what_they_say(history: History) -> Iterator[Observation]:
    """-32020 is for headers, -32021 for capabilities, -32022 for versions."""
    for exchange in modern_calls(history):
        if _is_integer(exchange.code) and exchange.code in _DEFINED:
            fault = _misuse(history, exchange)
            yield good(exchange) if fault is None else bad(fault, exchange)


def _misuse(history: History, exchange: Exchange) -> str | None:
    match exchange.code:
        case -32020 if not exchange.status:
            return "-32020 where there are no headers"
        case -32020 if not faults(history, exchange):
            return "-32020 though headers and body agree"
        case -32022 if not is_unsupported(history, meta(exchange).get(VERSION)):
            is_version = "mcp-protocol-version" in faults(history, exchange)
            return None if is_version else "-32022 for a version that is supported"
        case -32021:
            required = _required_capabilities(exchange)
            if required and _is_within(required, capabilities(exchange)):
                return "-32021 for capabilities that were declared"
    return None


def _required_capabilities(exchange: Exchange) -> Mapping[str, Any]:
    data = None if exchange.error is None else exchange.error.get("data")
    required = data.get("requiredCapabilities") if isinstance(data, dict) else None
    return required if isinstance(required, dict) else {}


def _is_within(required: Mapping[str, Any], declared: Mapping[str, Any]) -> bool:
    """Whether certainly all that is required was declared: an empty object may stand for more."""
    for name, inner in required.items():
        had = declared.get(name)
        if not isinstance(inner, dict) or not isinstance(had, dict) or (had and not inner):
            return False
        if not _is_within(inner, had):
            return False
    return True


# --- capabilities ----------------------------------------------------------------------------


@check("2026-07-28:undeclared-capability-32021", needs="a request that declares too little")
def missing_capabilities_are_named(history: History) -> Iterator[Observation]:
    """A -32021 error says which capabilities are missing."""
    for exchange in modern_calls(history):
        if exchange.code != -32021:
            continue
        if _required_capabilities(exchange):
            yield good(exchange)
        else:
            yield bad("-32021 without 'data.requiredCapabilities'", exchange)


@check("2026-07-28:undeclared-capability-400", needs="HTTP, a request that declares too little")
def missing_capabilities_get_400(history: History) -> Iterator[Observation]:
    """A -32021 error has HTTP status 400."""
    for exchange in modern_calls(history):
        if exchange.code != -32021 or not exchange.status:
            continue
        if exchange.status == 400:
            yield good(exchange)
        else:
            yield bad(f"-32021 with HTTP status {exchange.status}", exchange)


cannot_check(
    "It is the sum of the other rows of these pages.", "2026-07-28:base-protocol-supported"
)
cannot_check(
    "Servers are sent no errors in this revision.", "2026-07-28:legacy-codes-without-meaning"
)
cannot_check(
    "Authorization has tests of its own; here it is only used.", "2026-07-28:http-auth-spec"
)
