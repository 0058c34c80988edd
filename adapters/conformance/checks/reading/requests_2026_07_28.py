"""What a request of 2026-07-28 is made of, and what is wrong with it before anybody serves it.

A rule about one fault is judged only where that fault is the only one: which of two is reported
is the target's business.
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
    "is_refused_otherwise",
    "is_unsupported",
    "meta",
    "mirrors",
    "modern_calls",
    "served_twin",
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
    """The `_meta` of the request."""
    found = exchange.params.get("_meta")
    return found if isinstance(found, dict) else {}


def capabilities(exchange: Exchange) -> Mapping[str, Any]:
    """What the request declared; empty if nothing."""
    found = meta(exchange).get(CAPABILITIES)
    return found if isinstance(found, dict) else {}


def declares_tasks(exchange: Exchange) -> bool:
    """Whether the request declared the extension."""
    extensions = capabilities(exchange).get("extensions")
    return isinstance(extensions, dict) and TASKS in extensions


def is_modern(exchange: Exchange) -> bool:
    """Whether the body says that the request is of this revision."""
    return exchange.method != "initialize" and meta(exchange).get(VERSION) == MODERN


def modern_calls(history: History, *methods: str) -> Iterator[Exchange]:
    """The requests of this revision, of these methods if any are named."""
    for exchange in history.exchanges:
        if is_modern(exchange) and (not methods or exchange.method in methods):
            yield exchange


# --- what the target says of itself ----------------------------------------------------------


@lru_cache(maxsize=8)
def supported_versions(history: History) -> frozenset[str]:
    """All versions that the target ever named as its own."""
    found: set[str] = set()
    for exchange in history.exchanges:
        named = exchange.fields.get("supportedVersions")
        if exchange.code == -32022 and exchange.error is not None:
            data = exchange.error.get("data")
            named = data.get("supported") if isinstance(data, dict) else None
        found |= {v for v in named if isinstance(v, str)} if isinstance(named, list) else set()
    return frozenset(found)


def is_modern_only(history: History) -> bool:
    """Whether the target certainly knows no revision with `initialize`: it refused one."""
    if any(version < MODERN for version in supported_versions(history)):
        return False
    greetings = [e for e in history.calls("initialize") if e.is_answered]
    is_refused = any(e.error is not None and not is_refused_otherwise(e) for e in greetings)
    return is_refused and not any(e.fields for e in greetings)


def is_unsupported(history: History, version: Any) -> bool:
    """Whether that is a version which the target cannot know."""
    return (
        isinstance(version, str)
        and version not in {MODERN, *LEGACY}
        and version not in supported_versions(history)
    )


# --- the headers -----------------------------------------------------------------------------


@attrs.frozen
class Mirror:
    """A header that repeats a value of the body."""

    header: str
    """In lower case."""
    expected: Any
    """The value in the body; MISSING if there is none."""
    sent: str | None
    is_required: bool = True

    @property
    def is_parameter(self) -> bool:
        """Whether it belongs to a parameter of a tool."""
        return self.header.startswith("mcp-param-")

    @property
    def is_encoded(self) -> bool:
        """Whether it was sent as Base64."""
        return self.sent is not None and is_encoded(self.sent)

    @property
    def value(self) -> str | None:
        """What was sent, decoded; None if it cannot be."""
        if self.sent is None or not _VISIBLE.fullmatch(self.sent):
            return None
        is_literal = self.header in ("mcp-method", "mcp-protocol-version")
        return self.sent if is_literal else decode_value(self.sent)

    @property
    def fault(self) -> str | None:
        """What is wrong with it; None if nothing is.

        Missing, malformed, different; or what nobody said whether it is wrong: omitted (also the
        name of a task, which the extension wants and the core does not) and unexpected.
        """
        is_plain = isinstance(self.expected, str | int)
        if self.sent is None:
            if is_plain:
                return "missing" if self.is_required else "omitted"
            is_nothing = self.expected is None or self.expected is MISSING
            return None if is_nothing and self.is_parameter else "omitted"
        if self.value is None:
            return "malformed"
        if not is_plain:  # without a version in the body the header is all there is
            return None if self.header == "mcp-protocol-version" else "unexpected"
        if self.value in _spellings(self.expected) or self.is_spelled_otherwise:
            return None
        return "different"

    @property
    def is_spelled_otherwise(self) -> bool:
        """Whether it is the same integer, written in another way."""
        if not _is_integer(self.expected) or self.value in (None, str(self.expected)):
            return False
        match = re.fullmatch(r"(-?[0-9]+)\.0+", str(self.value))
        return match is not None and int(match[1]) == self.expected


def mirrors(history: History, exchange: Exchange) -> list[Mirror]:
    """What the headers of a request should repeat; empty over pipes."""
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
    """Path of each parameter that a tool wants in a header, to the name of that header."""
    schema = history.tools.get(tool, {}).get("inputSchema") if isinstance(tool, str) else None
    return {path: f"mcp-param-{mark.lower()}" for path, mark in header_parameters(schema).items()}


# --- all that is wrong -----------------------------------------------------------------------


def faults(history: History, exchange: Exchange) -> frozenset[str]:
    """Why a target could refuse the request, whatever it is for.

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


def served_twin(history: History, exchange: Exchange) -> Exchange | None:
    """A request for the same that had no fault and was served: this one could have been, too.

    Tasks can vanish, so with those the twin comes later.
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


def is_refused_otherwise(exchange: Exchange) -> bool:
    """Whether the refusal says nothing of the request: no credentials, too many, out of order."""
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
