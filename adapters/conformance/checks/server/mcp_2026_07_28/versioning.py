"""Versions and extensions of 2026-07-28: discovery, refusals, and what earlier revisions get."""

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
    is_refused_otherwise,
    is_unsupported,
    meta,
    modern_calls,
    supported_versions,
)
from taskmachine.adapters.conformance.history import Exchange, History
from taskmachine.adapters.conformance.judging import Observation, bad, check, good

__all__: list[str] = []

_MODERN_REFUSALS: Final = (-32020, -32021, -32022, -32602)

# --- versions --------------------------------------------------------------------------------


@check("2026-07-28:unsupported-version-32022", needs="any request")
def unsupported_versions_are_refused(history: History) -> Iterator[Observation]:
    """A version that the target does not know is refused with -32022, and those it knows."""
    for exchange in history.exchanges:
        version = meta(exchange).get(VERSION)
        is_asked = is_unsupported(history, version) and faults(history, exchange) == {"version"}
        if not is_asked or not exchange.is_answered or is_refused_otherwise(exchange):
            continue
        if exchange.code == -32022:
            yield _names_versions(exchange)
        elif exchange.error is None:
            yield bad(f"a request of version {version!r} was served", exchange)
        else:
            yield bad(f"version {version!r} was refused with {exchange.code}", exchange)


def _names_versions(exchange: Exchange) -> Observation:
    data = None if exchange.error is None else exchange.error.get("data")
    supported = data.get("supported") if isinstance(data, dict) else None
    is_list = isinstance(supported, list) and all(isinstance(v, str) for v in supported)
    if supported and is_list:
        return good(exchange)
    return bad("-32022 without 'data.supported'", exchange)


@check("2026-07-28:discover-implemented", needs="any request")
def discovery_is_there(history: History) -> Iterator[Observation]:
    """`server/discover` is answered."""
    for exchange in modern_calls(history, "server/discover"):
        if faults(history, exchange) or not exchange.is_answered:
            continue
        if isinstance(exchange.result, dict):
            yield good(exchange)
        elif exchange.code == -32601:
            yield bad("'server/discover' is not implemented", exchange)


@check("2026-07-28:discover-result-fields", needs="'server/discover'")
def discovery_says_what_there_is(history: History) -> Iterator[Observation]:
    """It names the versions, this one among them, and the capabilities."""
    for exchange in modern_calls(history, "server/discover"):
        if not isinstance(exchange.result, dict):
            continue
        versions = exchange.fields.get("supportedVersions")
        if not isinstance(versions, list) or MODERN not in versions:
            yield bad(f"'supportedVersions' is {versions!r}", exchange)
        elif not isinstance(exchange.fields.get("capabilities"), dict):
            yield bad("'capabilities' is no object", exchange)
        else:
            yield good(exchange)


# --- extensions ------------------------------------------------------------------------------


@check("2026-07-28:extension-id-format", needs="an extension")
def extensions_have_proper_names(history: History) -> Iterator[Observation]:
    """The name of an extension is a key of `_meta` with a prefix."""
    for exchange in modern_calls(history, "server/discover"):
        capabilities = exchange.fields.get("capabilities")
        extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
        for name in extensions if isinstance(extensions, dict) else ():
            fault = prefix_fault(name) or label_fault(name) or name_fault(name)
            if "/" not in name:
                fault = "has no prefix"
            yield good(exchange) if fault is None else bad(f"extension {name!r} {fault}", exchange)


@check("2026-07-28:one-sided-extension", needs="a tool that becomes a task")
def undeclared_calls_become_no_tasks(history: History) -> Iterator[Observation]:
    """Without the extension a call has a plain result, or is refused."""
    for exchange in modern_calls(history, "tools/call"):
        if declares_tasks(exchange) or not exchange.is_answered:
            continue
        if exchange.fields.get("resultType") == "task":
            yield bad("a call that did not declare the extension became a task", exchange)
        else:
            yield good(exchange)


# --- earlier revisions -----------------------------------------------------------------------


def _greetings(history: History) -> Iterator[Exchange]:
    return (exchange for exchange in history.calls("initialize") if exchange.is_answered)


@check("2026-07-28:both-eras", needs="any request")
def initialize_may_be_there(history: History) -> Iterator[Observation]:
    """`initialize` is answered or refused, both are fine."""
    return (good(exchange) for exchange in _greetings(history))


@check(
    "2026-07-28:initialize-refusal-names-versions", needs="a target that knows no earlier revision"
)
def refused_initialize_names_versions(history: History) -> Iterator[Observation]:
    """The refusal of `initialize` names a version that would do."""
    for exchange in _greetings(history) if is_modern_only(history) else ():
        if exchange.error is None or is_refused_otherwise(exchange):
            continue
        said = json.dumps(exchange.error)
        if any(version in said for version in supported_versions(history)):
            yield good(exchange)
        else:
            yield bad("the refusal of 'initialize' names no version", exchange)


def _first_greeting(history: History) -> Exchange | None:
    return next((e for e in _greetings(history) if isinstance(e.result, dict)), None)


@check(
    "2026-07-28:modern-request-served-statelessly", needs="a target that knows earlier revisions"
)
def modern_requests_stay_modern(history: History) -> Iterator[Observation]:
    """After an `initialize` a request with the new `_meta` is served by this revision."""
    greeting = _first_greeting(history)
    for exchange in modern_calls(history) if greeting is not None else ():
        is_later = greeting is not None and exchange.request.number > greeting.request.number
        if not is_later or not isinstance(exchange.result, dict):
            continue
        if greeting is not None and not isinstance(exchange.fields.get("resultType"), str):
            yield bad("a request with `_meta` was served as an old one", greeting, exchange)
        else:
            yield good(exchange)


@check("2026-07-28:both-eras-concurrently", needs="a target that knows earlier revisions")
def both_eras_at_once(history: History) -> Iterator[Observation]:
    """Old and new requests at one target."""
    greeting = _first_greeting(history)
    if greeting is not None:
        for exchange in modern_calls(history):
            if exchange.request.number > greeting.request.number and exchange.is_answered:
                yield good(exchange)


@check("2026-07-28:initialize-selects-legacy", needs="a target that knows earlier revisions")
def initialize_selects_the_old_rules(history: History) -> Iterator[Observation]:
    """After `initialize` a list of tools needs no `_meta`, in that session or process."""
    for greeting in _greetings(history):
        if not isinstance(greeting.result, dict):
            continue
        for exchange in history.calls("tools/list"):
            if not _is_in_session(exchange, greeting) or not exchange.is_answered:
                continue
            if isinstance(exchange.result, dict):
                yield good(greeting, exchange)
            elif exchange.code in _MODERN_REFUSALS:
                yield bad("the rules of this revision after 'initialize'", greeting, exchange)


def _is_in_session(exchange: Exchange, greeting: Exchange) -> bool:
    """Whether it is an old request that belongs to what `initialize` began."""
    is_old = "_meta" not in exchange.params and exchange.request.line == greeting.request.line
    session = greeting.headers.get("mcp-session-id")
    is_same = session is None or exchange.sent_headers.get("mcp-session-id") == session
    is_named = exchange.request.http is None or exchange.sent_headers.get(
        "mcp-protocol-version"
    ) == greeting.fields.get("protocolVersion")
    return is_old and is_same and is_named and exchange.request.number > greeting.request.number
