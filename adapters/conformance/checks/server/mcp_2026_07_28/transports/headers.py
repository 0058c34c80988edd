"""Checks of headers that mirror the body: method, name, and tool parameters (2026-07-28)."""

from collections.abc import Iterator
from typing import Final

from taskmachine.adapters.conformance.checks.reading.requests_2026_07_28 import (
    Mirror,
    faults,
    is_unrelated_rejection,
    mirrors,
    modern_calls,
    successful_equivalent,
)
from taskmachine.adapters.conformance.history import MISSING, Exchange, History
from taskmachine.adapters.conformance.judging import Observation, bad, check, good

__all__: list[str] = []

_SPELLED: Final = {"mcp-method": "Mcp-Method", "mcp-name": "Mcp-Name"}


def _wrong(history: History, *kinds: str) -> Iterator[tuple[Exchange, Mirror]]:
    """Yield answered requests whose only fault is one header fault of these kinds."""
    for exchange in modern_calls(history):
        if not exchange.is_answered or is_unrelated_rejection(exchange):
            continue
        wrong = [m for m in mirrors(history, exchange) if m.fault is not None]
        if len(wrong) != 1 or wrong[0].fault not in kinds or wrong[0].header == _VERSION:
            continue
        if faults(history, exchange) == {wrong[0].header}:
            yield exchange, wrong[0]


_VERSION: Final = "mcp-protocol-version"


def _is_case_only(mirror: Mirror) -> bool:
    value, expected = mirror.value, mirror.expected
    is_text = isinstance(value, str) and isinstance(expected, str)
    return is_text and value != expected and str(value).lower() == str(expected).lower()


def _words(mirror: Mirror) -> str:
    name = _SPELLED.get(mirror.header, mirror.header)
    if mirror.fault == "missing":
        return f"the header {name!r} is missing"
    return f"the header is '{name}: {mirror.sent}', but the body has {mirror.expected!r}"


def _refused(exchange: Exchange, mirror: Mirror) -> Observation:
    if exchange.error is not None:
        return good(exchange)
    return bad(f"the target accepted a request although {_words(mirror)}", exchange)


def _refused_by(history: History, exchange: Exchange, mirror: Mirror) -> Iterator[Observation]:
    """Check that the rejection has HTTP status 400 and error -32020."""
    if exchange.error is None:
        return
    if (exchange.status, exchange.code) == (400, -32020):
        yield good(exchange)
    elif exchange.code == -32020 or successful_equivalent(history, exchange) is not None:
        how = f"HTTP status {exchange.status} and error {exchange.code}"
        words = f"{_words(mirror)}, and the request was rejected with {how}, not 400 and -32020"
        yield bad(words, exchange)


# --- method and name --------------------------------------------------------------------------


def _mismatches(history: History) -> Iterator[tuple[Exchange, Mirror]]:
    """Yield requests whose header has another method or name, not only in letter case."""
    for exchange, mirror in _wrong(history, "different"):
        if not mirror.is_parameter and not _is_case_only(mirror):
            yield exchange, mirror


@check("2026-07-28:header-body-mismatch-rejected", needs="HTTP")
def mismatches_are_refused(history: History) -> Iterator[Observation]:
    """Check that a request whose headers contradict its body is rejected."""
    return (_refused(exchange, mirror) for exchange, mirror in _mismatches(history))


@check("2026-07-28:header-mismatch-400", needs="HTTP")
def mismatches_get_400(history: History) -> Iterator[Observation]:
    """Check that the rejection has HTTP status 400."""
    for exchange, mirror in _mismatches(history):
        if exchange.error is None:
            continue
        if exchange.status == 400:
            yield good(exchange)
        elif exchange.code == -32020 or successful_equivalent(history, exchange) is not None:
            words = f"{_words(mirror)}, and the request got HTTP status {exchange.status}, not 400"
            yield bad(words, exchange)


@check("2026-07-28:header-mismatch-32020", needs="HTTP")
def mismatches_get_32020(history: History) -> Iterator[Observation]:
    """Check that the rejection has the code -32020."""
    for exchange, mirror in _mismatches(history):
        if exchange.code == -32020:
            yield good(exchange)
        elif exchange.error is not None and successful_equivalent(history, exchange) is not None:
            words = f"{_words(mirror)}, and the request got error {exchange.code}, not -32020"
            yield bad(words, exchange)


@check("2026-07-28:header-missing-rejected", needs="HTTP")
def missing_headers_are_refused(history: History) -> Iterator[Observation]:
    """Check that a request without a required header is rejected like one with a wrong value."""
    for exchange, mirror in _wrong(history, "missing"):
        if mirror.is_parameter:
            continue
        if exchange.error is None:
            yield _refused(exchange, mirror)
        else:
            yield from _refused_by(history, exchange, mirror)


@check("2026-07-28:header-values-case-sensitive", needs="HTTP")
def values_are_case_sensitive(history: History) -> Iterator[Observation]:
    """Check that header values are case-sensitive."""
    for exchange, mirror in _wrong(history, "different"):
        if _is_case_only(mirror) and not mirror.is_parameter:
            yield _refused(exchange, mirror)


def _right(history: History) -> Iterator[tuple[Exchange, list[Mirror]]]:
    """Yield valid requests that succeeded or were rejected because of their headers."""
    for exchange in modern_calls(history):
        found = mirrors(history, exchange)
        is_told = isinstance(exchange.result, dict) or exchange.code == -32020
        if found and is_told and not faults(history, exchange):
            yield exchange, found


@check("2026-07-28:header-names-case-insensitive", needs="HTTP")
def names_are_case_insensitive(history: History) -> Iterator[Observation]:
    """Check that header names in lower case are accepted."""
    for exchange, found in _right(history):
        if any(m.is_encoded or m.has_other_notation or m.is_parameter for m in found):
            continue
        if exchange.error is None:
            yield good(exchange)
        else:
            words = "the target rejected a request whose header names are in lower case"
            yield bad(words, exchange)


@check("2026-07-28:header-values-decoded", "2026-07-28:header-decoded-before-compare", needs="HTTP")
def values_are_decoded(history: History) -> Iterator[Observation]:
    """Check that values in Base64 are decoded before comparison."""
    for exchange, found in _right(history):
        encoded = next((m for m in found if m.is_encoded), None)
        if encoded is None:
            continue
        if exchange.error is None:
            yield good(exchange)
        elif successful_equivalent(history, exchange) is not None:
            words = f"the header {encoded.sent!r} was not decoded to {encoded.expected!r}"
            yield bad(words, exchange)


# --- tool parameters --------------------------------------------------------------------------

_ANNOTATED: Final = "HTTP, and a known call of a tool with 'x-mcp-header'"


def _wrong_parameters(history: History, *kinds: str) -> Iterator[tuple[Exchange, Mirror]]:
    for exchange, mirror in _wrong(history, *kinds):
        if mirror.is_parameter:
            yield exchange, mirror


@check("2026-07-28:param-header-matches-body", needs=_ANNOTATED, fault="different")
@check("2026-07-28:param-header-bad-characters", needs=_ANNOTATED, fault="malformed")
@check("2026-07-28:param-header-missing-rejected", needs=_ANNOTATED, fault="missing")
def wrong_parameters_are_refused(history: History, fault: str) -> Iterator[Observation]:
    """Check that a call with a wrong, malformed or missing parameter header is rejected."""
    return (_refused(exchange, mirror) for exchange, mirror in _wrong_parameters(history, fault))


@check("2026-07-28:param-header-failure-32020", needs=_ANNOTATED)
def wrong_parameters_get_32020(history: History) -> Iterator[Observation]:
    """Check that each of these rejections has status 400 and error -32020."""
    for exchange, mirror in _wrong_parameters(history, "different", "malformed", "missing"):
        yield from _refused_by(history, exchange, mirror)


@check(
    "2026-07-28:param-header-not-expected-for-null",
    needs=_ANNOTATED + " that accepts null",
    nothing=None,
)
@check(
    "2026-07-28:param-header-not-expected-if-absent",
    needs=_ANNOTATED + " on an optional argument",
    nothing=MISSING,
)
def header_is_not_expected(history: History, nothing: object) -> Iterator[Observation]:
    """Check that an argument that is null or absent requires no header."""
    for exchange, found in _right(history):
        without = [m for m in found if m.is_parameter and m.sent is None]
        is_asked = any(m.expected is nothing for m in without)
        if not is_asked or any(m.is_encoded for m in found):
            continue
        if exchange.error is None:
            yield good(exchange)
        elif all(m.expected is nothing for m in without):
            yield bad("the target requires a header for an argument without a value", exchange)


@check("2026-07-28:header-integers-numeric", needs=_ANNOTATED + " on an integer")
def integers_are_numbers(history: History) -> Iterator[Observation]:
    """Check that integers are compared as numbers."""
    for exchange, found in _right(history):
        other = next((m for m in found if m.has_other_notation), None)
        if other is None:
            continue
        if exchange.error is None:
            yield good(exchange)
        else:
            words = f"the header {other.sent!r} was not accepted for {other.expected!r}"
            yield bad(words, exchange)
