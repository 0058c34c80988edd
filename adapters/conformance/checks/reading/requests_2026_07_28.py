"""Metadata and headers of requests of 2026-07-28, and their faults.

A rule about one fault is judged only where that fault is the only one: a target may report any of
several.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import attrs

from taskmachine.adapters.conformance.history import MISSING, Exchange, History
from taskmachine.adapters.conformance.wire.annotations import header_parameters
from taskmachine.adapters.conformance.wire.header_values import decode_value, is_encoded
from taskmachine.adapters.conformance.wire.metadata import NAMED_BY

__all__ = [
    "CAPABILITIES",
    "CLIENT_INFO",
    "LEGACY",
    "MODERN",
    "TASKS",
    "VERSION",
    "Mirror",
    "annotations",
    "capabilities",
    "declares_tasks",
    "faults",
    "is_modern",
    "is_modern_only",
    "is_unrelated_rejection",
    "is_unsupported",
    "meta",
    "mirrors",
    "modern_calls",
    "successful_equivalent",
    "supported_versions",
]

MODERN: Final = "2026-07-28"
LEGACY: Final = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
TASKS: Final = "io.modelcontextprotocol/tasks"

_MAY_LACK_NAME: Final = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
_VISIBLE: Final = re.compile(r"[\t\x20-\x7e]*")

# --- the body --------------------------------------------------------------------------------


def meta(exchange: Exchange) -> Mapping[str, Any]:
    """Return the `_meta` of the request."""
    found = exchange.params.get("_meta")
    return found if isinstance(found, dict) else {}


def capabilities(exchange: Exchange) -> Mapping[str, Any]:
    """Return the client capabilities that the request declared; empty if none."""
    found = meta(exchange).get(CAPABILITIES)
    return found if isinstance(found, dict) else {}


def declares_tasks(exchange: Exchange) -> bool:
    """Return whether the request declared the tasks extension."""
    extensions = capabilities(exchange).get("extensions")
    return isinstance(extensions, dict) and TASKS in extensions


def is_modern(exchange: Exchange) -> bool:
    """Return whether the body names this revision."""
    return exchange.method != "initialize" and meta(exchange).get(VERSION) == MODERN


def modern_calls(history: History, *methods: str) -> Iterator[Exchange]:
    """Yield the requests of this revision, optionally of these methods only."""
    for exchange in history.exchanges:
        if is_modern(exchange) and (not methods or exchange.method in methods):
            yield exchange


# --- what the target says of itself ----------------------------------------------------------


@lru_cache(maxsize=8)
def supported_versions(history: History) -> frozenset[str]:
    """Return all versions that the target ever listed as supported."""
    found: set[str] = set()
    for exchange in history.exchanges:
        named = exchange.fields.get("supportedVersions")
        if exchange.code == -32022 and exchange.error is not None:
            data = exchange.error.get("data")
            named = data.get("supported") if isinstance(data, dict) else None
        found |= {v for v in named if isinstance(v, str)} if isinstance(named, list) else set()
    return frozenset(found)


def is_modern_only(history: History) -> bool:
    """Return whether the target certainly supports no revision with `initialize`."""
    if any(version < MODERN for version in supported_versions(history)):
        return False
    initializations = [e for e in history.calls("initialize") if e.is_answered]
    is_refused = any(e.error is not None and not is_unrelated_rejection(e) for e in initializations)
    return is_refused and not any(e.fields for e in initializations)


def is_unsupported(history: History, version: Any) -> bool:
    """Return whether a version is certainly not supported by the target."""
    return (
        isinstance(version, str)
        and version not in {MODERN, *LEGACY}
        and version not in supported_versions(history)
    )


# --- the headers -----------------------------------------------------------------------------


@attrs.frozen
class Mirror:
    """A header that mirrors a value of the body."""

    header: str
    """In lower case."""
    expected: Any
    """The value in the body; MISSING if there is none."""
    sent: str | None
    is_required: bool = True

    @property
    def is_parameter(self) -> bool:
        """Return whether it mirrors a parameter of a tool."""
        return self.header.startswith("mcp-param-")

    @property
    def is_encoded(self) -> bool:
        """Return whether it was sent as Base64."""
        return self.sent is not None and is_encoded(self.sent)

    @property
    def value(self) -> str | None:
        """Return the decoded value; None if it cannot be decoded."""
        if self.sent is None or not _VISIBLE.fullmatch(self.sent):
            return None
        is_literal = self.header in ("mcp-method", "mcp-protocol-version")
        return self.sent if is_literal else decode_value(self.sent)

    @property
    def fault(self) -> str | None:
        """Return what is wrong with the header, or None.

        `missing`, `malformed` and `different` break a rule. The specification does not decide about
        `omitted` (including the name of a task, which the extension requires and the core does not)
        and `unexpected`.
        """
        is_plain = isinstance(self.expected, str | int)
        if self.sent is None:
            if is_plain:
                return "missing" if self.is_required else "omitted"
            is_nothing = self.expected is None or self.expected is MISSING
            return None if is_nothing and self.is_parameter else "omitted"
        if self.value is None:
            return "malformed"
        if not is_plain:  # without a version in the body only the header counts
            return None if self.header == "mcp-protocol-version" else "unexpected"
        if self.value in _spellings(self.expected) or self.has_other_notation:
            return None
        return "different"

    @property
    def has_other_notation(self) -> bool:
        """Return whether it is the same integer in a different notation."""
        if not _is_integer(self.expected) or self.value in (None, str(self.expected)):
            return False
        match = re.fullmatch(r"(-?[0-9]+)\.0+", str(self.value))
        return match is not None and int(match[1]) == self.expected


def mirrors(history: History, exchange: Exchange) -> list[Mirror]:
    """Return the headers that should mirror values of a request; empty over stdio."""
    if exchange.request.http is None:
        return []
    sent = {name.lower(): value.strip(" \t") for name, value in exchange.sent_headers.items()}
    method, params = exchange.method, exchange.params
    found = [
        Mirror(
            "mcp-protocol-version",
            meta(exchange).get(VERSION, MISSING),
            sent.get("mcp-protocol-version"),
        ),
        Mirror("mcp-method", method, sent.get("mcp-method")),
    ]
    if method in NAMED_BY:
        name = params.get(NAMED_BY[method])
        expected = name if isinstance(name, str) else MISSING
        is_required = method not in _MAY_LACK_NAME
        found.append(Mirror("mcp-name", expected, sent.get("mcp-name"), is_required))
    if method == "tools/call":
        for path, header in annotations(history, params.get("name")).items():
            value = _at(params.get("arguments"), path)
            found.append(Mirror(header, value, sent.get(header)))
    return found


def annotations(history: History, tool: Any) -> dict[Sequence[str], str]:
    """Map the path of each parameter that a tool mirrors in a header to the header's name."""
    schema = history.tools.get(tool, {}).get("inputSchema") if isinstance(tool, str) else None
    return {path: f"mcp-param-{mark.lower()}" for path, mark in header_parameters(schema).items()}


# --- all that is wrong -----------------------------------------------------------------------


def faults(history: History, exchange: Exchange) -> frozenset[str]:
    """Return the reasons for which a target could reject the request whatever its purpose.

    "message", "meta", "version", the names of wrong headers, "origin", "other headers".
    """
    found = {mirror.header for mirror in mirrors(history, exchange) if mirror.fault}
    body = exchange.request.body
    if body.get("jsonrpc") != "2.0" or not (isinstance(body["id"], str) or _is_integer(body["id"])):
        found.add("message")
    if not isinstance(body.get("params", {}), dict):
        found.add("message")
    version = meta(exchange).get(VERSION)
    if not isinstance(version, str) or not isinstance(meta(exchange).get(CAPABILITIES), dict):
        found.add("meta")
    if isinstance(version, str) and version not in {MODERN, *supported_versions(history)}:
        found.add("version")
    return frozenset(found | set(_other_header_faults(history, exchange)))


def successful_equivalent(history: History, exchange: Exchange) -> Exchange | None:
    """Return an equivalent request without faults that succeeded, so this one could have, too.

    Tasks can disappear, so for task requests the equivalent comes later.
    """
    params = _without_meta(exchange)
    return next(
        (
            other
            for other in history.calls(exchange.method)
            if other is not exchange
            and isinstance(other.result, dict)
            and other.request.caller == exchange.request.caller
            and _without_meta(other) == params
            and capabilities(other) == (capabilities(exchange) or capabilities(other))
            and (not exchange.task_id or other.request.number > exchange.request.number)
            and not faults(history, other)
        ),
        None,
    )


def is_unrelated_rejection(exchange: Exchange) -> bool:
    """Return whether the rejection is unrelated to the request (credentials, rate, failure)."""
    return (
        exchange.status in (401, 403, 408, 429) or exchange.status >= 500 or exchange.code == -32603
    )


def _other_header_faults(history: History, exchange: Exchange) -> Iterator[str]:
    http = exchange.request.http
    if http is None:
        return
    if http.method not in ("", "POST"):
        yield "other headers"
    headers = exchange.sent_headers
    accept, kind = headers.get("accept", ""), headers.get("content-type", "")
    if "origin" in headers:
        yield "origin"
    is_usual = "application/json" in accept and "text/event-stream" in accept
    if not is_usual or not kind.startswith("application/json") or "host" in headers:
        yield "other headers"
    is_known = history.principals.get(exchange.request.caller) is not None
    if is_known and "authorization" not in headers:
        yield "other headers"


def _without_meta(exchange: Exchange) -> dict[str, Any]:
    return {name: value for name, value in exchange.params.items() if name != "_meta"}


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _spellings(value: Any) -> tuple[str, ...]:
    if isinstance(value, bool):
        return (str(value).lower(),)
    return (str(value),) if isinstance(value, str | int) else ()


def _at(arguments: Any, path: Sequence[str]) -> Any:
    for step in path:
        arguments = arguments.get(step, MISSING) if isinstance(arguments, dict) else MISSING
    return arguments
