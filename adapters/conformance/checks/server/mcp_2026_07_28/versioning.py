"""Checks of discovery, versions, extensions, and earlier revisions (2026-07-28)."""

import json
from collections.abc import Iterator
from typing import Final

from taskmachine.adapters.conformance.checks.reading.meta import (
    label_fault,
    name_fault,
    prefix_fault,
)
from taskmachine.adapters.conformance.checks.reading.requests_2026_07_28 import (
    MODERN,
    VERSION,
    declares_tasks,
    faults,
    is_modern_only,
    is_unrelated_rejection,
    is_unsupported,
    meta,
    modern_calls,
    supported_versions,
)
from taskmachine.adapters.conformance.history import Exchange, History
from taskmachine.adapters.conformance.judging import Observation, bad, check, good

__all__: list[str] = []

_MODERN_REFUSALS: Final = (-32020, -32021, -32022, -32602)

# --- versions ---------------------------------------------------------------------------------


@check("2026-07-28:unsupported-version-32022", needs="any request")
def unsupported_versions_are_refused(history: History) -> Iterator[Observation]:
    """Check that an unsupported version is rejected with -32022 and the supported versions."""
    for exchange in history.exchanges:
        version = meta(exchange).get(VERSION)
        is_asked = is_unsupported(history, version) and faults(history, exchange) == {"version"}
        if not is_asked or not exchange.is_answered or is_unrelated_rejection(exchange):
            continue
        if exchange.code == -32022:
            yield _names_versions(exchange)
        elif exchange.error is None:
            words = f"the target accepted a request of the unsupported version {version!r}"
            yield bad(words, exchange)
        else:
            words = f"unsupported version {version!r} got error {exchange.code}, not -32022"
            yield bad(words, exchange)


def _names_versions(exchange: Exchange) -> Observation:
    data = None if exchange.error is None else exchange.error.get("data")
    supported = data.get("supported") if isinstance(data, dict) else None
    is_list = isinstance(supported, list) and all(isinstance(v, str) for v in supported)
    if supported and is_list:
        return good(exchange)
    return bad("the error -32022 has no 'data.supported' with the supported versions", exchange)


@check("2026-07-28:discover-implemented", needs="any request")
def discovery_is_implemented(history: History) -> Iterator[Observation]:
    """Check that the target implements `server/discover`."""
    for exchange in modern_calls(history, "server/discover"):
        if faults(history, exchange) or not exchange.is_answered:
            continue
        if isinstance(exchange.result, dict):
            yield good(exchange)
        elif exchange.code == -32601:
            yield bad("the target does not implement 'server/discover' (error -32601)", exchange)


@check("2026-07-28:discover-result-fields", needs="'server/discover'")
def discovery_has_versions_and_capabilities(history: History) -> Iterator[Observation]:
    """Check that the result lists this version among the supported ones, and the capabilities."""
    for exchange in modern_calls(history, "server/discover"):
        if not isinstance(exchange.result, dict):
            continue
        versions = exchange.fields.get("supportedVersions")
        if not isinstance(versions, list) or MODERN not in versions:
            yield bad(f"'supportedVersions' lacks {MODERN!r}: {versions!r}", exchange)
        elif not isinstance(exchange.fields.get("capabilities"), dict):
            yield bad("'capabilities' of 'server/discover' is not an object", exchange)
        else:
            yield good(exchange)


# --- extensions -------------------------------------------------------------------------------


@check("2026-07-28:extension-id-format", needs="an extension")
def extensions_have_proper_names(history: History) -> Iterator[Observation]:
    """Check that the identifier of an extension is a `_meta` key with a prefix."""
    for exchange in modern_calls(history, "server/discover"):
        capabilities = exchange.fields.get("capabilities")
        extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
        for name in extensions if isinstance(extensions, dict) else ():
            fault = prefix_fault(name) or label_fault(name) or name_fault(name)
            if "/" not in name:
                fault = "has no prefix"
            if fault is None:
                yield good(exchange)
            else:
                yield bad(f"the extension identifier {name!r} {fault}", exchange)


@check("2026-07-28:one-sided-extension", needs="a tool that creates a task")
def undeclared_calls_become_no_tasks(history: History) -> Iterator[Observation]:
    """Check that a call without the declared extension creates no task."""
    for exchange in modern_calls(history, "tools/call"):
        if declares_tasks(exchange) or not exchange.is_answered:
            continue
        if exchange.fields.get("resultType") == "task":
            yield bad("a call that did not declare the tasks extension created a task", exchange)
        else:
            yield good(exchange)


# --- earlier revisions ------------------------------------------------------------------------


def _initializations(history: History) -> Iterator[Exchange]:
    return (exchange for exchange in history.calls("initialize") if exchange.is_answered)


@check("2026-07-28:both-eras", needs="any request")
def initialize_may_be_there(history: History) -> Iterator[Observation]:
    """Record responses to `initialize`, which the target may support or reject."""
    return (good(exchange) for exchange in _initializations(history))


@check(
    "2026-07-28:initialize-refusal-names-versions",
    needs="a target that supports no earlier revision",
)
def refused_initialize_names_versions(history: History) -> Iterator[Observation]:
    """Check that the rejection of `initialize` names a supported version."""
    for exchange in _initializations(history) if is_modern_only(history) else ():
        if exchange.error is None or is_unrelated_rejection(exchange):
            continue
        said = json.dumps(exchange.error)
        if any(version in said for version in supported_versions(history)):
            yield good(exchange)
        else:
            yield bad("the rejection of 'initialize' names no supported version", exchange)


def _first_initialize(history: History) -> Exchange | None:
    return next((e for e in _initializations(history) if isinstance(e.result, dict)), None)


@check(
    "2026-07-28:modern-request-served-statelessly", needs="a target that supports earlier revisions"
)
def modern_requests_stay_modern(history: History) -> Iterator[Observation]:
    """Check that a request with the new `_meta` is served as such, even after `initialize`."""
    initialize = _first_initialize(history)
    for exchange in modern_calls(history) if initialize is not None else ():
        is_later = initialize is not None and exchange.request.number > initialize.request.number
        if not is_later or not isinstance(exchange.result, dict):
            continue
        if initialize is not None and not isinstance(exchange.fields.get("resultType"), str):
            words = f"after 'initialize', a result for {MODERN} has no 'resultType'"
            yield bad(words, initialize, exchange)
        else:
            yield good(exchange)


@check("2026-07-28:both-eras-concurrently", needs="a target that supports earlier revisions")
def both_eras_are_served(history: History) -> Iterator[Observation]:
    """Record requests of this revision that were served beside those of earlier ones."""
    initialize = _first_initialize(history)
    if initialize is not None:
        for exchange in modern_calls(history):
            if exchange.request.number > initialize.request.number and exchange.is_answered:
                yield good(exchange)


@check("2026-07-28:initialize-selects-legacy", needs="a target that supports earlier revisions")
def initialize_selects_the_old_rules(history: History) -> Iterator[Observation]:
    """Check that requests of a session begun by `initialize` need no `_meta`."""
    for initialize in _initializations(history):
        if not isinstance(initialize.result, dict):
            continue
        for exchange in history.calls("tools/list"):
            if not _is_in_session(exchange, initialize) or not exchange.is_answered:
                continue
            if isinstance(exchange.result, dict):
                yield good(initialize, exchange)
            elif exchange.code in _MODERN_REFUSALS:
                words = f"after 'initialize' the target rejected a request by the rules of {MODERN}"
                yield bad(words, initialize, exchange)


def _is_in_session(exchange: Exchange, initialize: Exchange) -> bool:
    """Return whether it is a request without `_meta` in the session that `initialize` began."""
    is_old = "_meta" not in exchange.params and exchange.request.line == initialize.request.line
    session = initialize.headers.get("mcp-session-id")
    is_same = session is None or exchange.sent_headers.get("mcp-session-id") == session
    is_named = exchange.request.http is None or exchange.sent_headers.get(
        "mcp-protocol-version"
    ) == initialize.fields.get("protocolVersion")
    return is_old and is_same and is_named and exchange.request.number > initialize.request.number
