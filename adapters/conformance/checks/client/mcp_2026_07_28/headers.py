"""Checks of client headers that mirror the body (2026-07-28)."""

import re
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, Final

from taskmachine.adapters.conformance.clients.view import VERSION, as_client
from taskmachine.adapters.conformance.history import Entry, Exchange, History
from taskmachine.adapters.conformance.judging import Observation, bad, client_check, good
from taskmachine.adapters.conformance.wire.annotations import (
    has_valid_annotations,
    header_parameters,
)
from taskmachine.adapters.conformance.wire.header_values import decode_value, is_encoded, to_text
from taskmachine.adapters.conformance.wire.metadata import NAMED_BY

__all__: list[str] = []

_HTTP: Final = "a client over HTTP"
_READS_TASKS: Final = "a client over HTTP that reads its tasks"
_MARKED: Final = "a client over HTTP that calls a tool with 'x-mcp-header' parameters"
_UNUSUAL: Final = "a client over HTTP that uses names which a header cannot carry without encoding"
_OF_TASKS: Final = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
_LARGEST: Final = 2**53 - 1


# --- reading --------------------------------------------------------------------------------------


def _requests(history: History) -> Iterator[Exchange]:
    """Yield HTTP requests except `initialize`, the fallback to an older revision."""
    if history.transport == "http":
        yield from (e for e in as_client(history).exchanges if e.method != "initialize")


def _needs_encoding(value: str) -> bool:
    is_plain = all(" " <= c <= "~" or c == "\t" for c in value) and value == value.strip(" \t")
    return not is_plain or is_encoded(value)


def _name(exchange: Exchange) -> str | None:
    """Return the required value of `Mcp-Name`."""
    value = exchange.params.get(NAMED_BY.get(exchange.method, ""))
    return value if isinstance(value, str) else None


def _pairs(history: History) -> Iterator[tuple[str, str, Exchange]]:
    """Yield names and annotated parameters with the value of their header."""
    for exchange in _requests(history):
        name, header = _name(exchange), exchange.sent_headers.get("mcp-name")
        if name is not None and header is not None:
            yield name, header, exchange
        if exchange.method == "tools/call":
            for header_name, value in _expected(history, exchange).items():
                sent = exchange.sent_headers.get(header_name)
                if sent is not None and value is not None:
                    yield value, sent, exchange


# --- standard headers ----------------------------------------------------------------------------


@client_check("2026-07-28:http-version-header", needs=_HTTP)
def version_header(history: History) -> Iterator[Observation]:
    """Check that every request has `MCP-Protocol-Version`."""
    for exchange in _requests(history):
        if "mcp-protocol-version" in exchange.sent_headers:
            yield good(exchange)
        else:
            yield bad(f"{exchange.method!r} has no 'MCP-Protocol-Version' header", exchange)


@client_check("2026-07-28:http-version-header-matches", needs=_HTTP)
def version_header_matches(history: History) -> Iterator[Observation]:
    """Check that its value equals the version in the body."""
    for exchange in _requests(history):
        header, body = exchange.sent_headers.get("mcp-protocol-version"), exchange.request.meta
        if header is not None and VERSION in body:
            if header == body[VERSION]:
                yield good(exchange)
            else:
                words = (
                    f"'MCP-Protocol-Version' is {header!r:.30}, but the version in the body "
                    f"is {body[VERSION]!r:.30}"
                )
                yield bad(words, exchange)


def _method_fault(exchange: Exchange) -> str | None:
    sent = exchange.sent_headers.get("mcp-method")
    if sent is None:
        return f"{exchange.method!r} has no 'Mcp-Method' header"
    return (
        None
        if sent == exchange.method
        else f"'Mcp-Method' is {sent!r:.40}, but the method in the body is {exchange.method!r}"
    )


def _name_fault(exchange: Exchange) -> str | None:
    wanted, sent = _name(exchange), exchange.sent_headers.get("mcp-name")
    if wanted is None:
        return None
    if sent is None:
        return f"{exchange.method!r} has no 'Mcp-Name' header"
    # A missing encoding is judged by another check.
    raw = wanted.encode().decode("latin-1").strip()
    return (
        None
        if decode_value(sent) == wanted or sent == raw
        else f"'Mcp-Name' is {sent!r:.60}, but the name in the body is {wanted!r:.60}"
    )


@client_check(
    "2026-07-28:mcp-method-header", "2026-07-28:header-values-case-sensitive", needs=_HTTP
)
def method_header(history: History) -> Iterator[Observation]:
    """Check that `Mcp-Method` equals the method."""
    for exchange in _requests(history):
        fault = _method_fault(exchange)
        yield good(exchange) if fault is None else bad(fault, exchange)


@client_check(
    "2026-07-28:mcp-method-is-method",
    needs=_READS_TASKS,
    methods=_OF_TASKS,
    header_fault=_method_fault,
)
@client_check(
    "2026-07-28:mcp-name-header",
    needs="a client over HTTP that calls tools",
    methods=NAMED_BY.keys() - _OF_TASKS,
    header_fault=_name_fault,
)
@client_check(
    "2026-07-28:mcp-name-is-task-id",
    needs=_READS_TASKS,
    methods=_OF_TASKS,
    header_fault=_name_fault,
)
def header_of_methods(
    history: History, methods: Set[str], header_fault: Callable[[Exchange], str | None]
) -> Iterator[Observation]:
    """Check a header that mirrors the method, the name of the tool, or the id of the task."""
    for exchange in _requests(history):
        if exchange.method in methods:
            fault = header_fault(exchange)
            yield good(exchange) if fault is None else bad(fault, exchange)


@client_check("2026-07-28:http-metadata-headers", needs=_HTTP)
def metadata_headers(history: History) -> Iterator[Observation]:
    """Check that all required headers are present."""
    for exchange in _requests(history):
        due = ["mcp-protocol-version", "mcp-method"]
        due += ["mcp-name"] if _name(exchange) is not None else []
        missing = [name for name in due if name not in exchange.sent_headers]
        if missing:
            yield bad(f"{exchange.method!r} has no {missing[0]!r} header", exchange)
        else:
            yield good(exchange)


# --- encoding ------------------------------------------------------------------------------------


@client_check("2026-07-28:mcp-name-encoded", needs=_UNUSUAL)
def names_encoded(history: History) -> Iterator[Observation]:
    """Check that a name with unsafe characters is sent in Base64."""
    for exchange in _requests(history):
        name, sent = _name(exchange), exchange.sent_headers.get("mcp-name")
        if name is not None and sent is not None and _needs_encoding(name):
            if is_encoded(sent) and decode_value(sent) == name:
                yield good(exchange)
            else:
                words = f"the name {name!r:.40} is not in Base64: 'Mcp-Name: {sent:.60}'"
                yield bad(words, exchange)


@client_check("2026-07-28:header-value-base64", "2026-07-28:header-values-encoded", needs=_UNUSUAL)
def values_encoded(history: History) -> Iterator[Observation]:
    """Check that a value with unsafe characters is sent as Base64 of its UTF-8 form."""
    for value, sent, exchange in _pairs(history):
        if _needs_encoding(value) and not is_encoded(value):
            if is_encoded(sent) and decode_value(sent) == value:
                yield good(exchange)
            else:
                yield bad(f"the value {value!r:.40} is not in Base64: {sent!r:.60}", exchange)


@client_check("2026-07-28:header-sentinel-exact", needs=_UNUSUAL)
def sentinel_exact(history: History) -> Iterator[Observation]:
    """Check that the Base64 markers are in lower case."""
    for _, sent, exchange in _pairs(history):
        if re.fullmatch(r"=\?base64\?.*\?=", sent, re.IGNORECASE):
            is_exact = is_encoded(sent)
            if is_exact:
                yield good(exchange)
            else:
                yield bad(f"the header value {sent!r:.60} has inexact Base64 markers", exchange)


@client_check("2026-07-28:header-sentinel-lookalike-encoded", needs=_UNUSUAL)
def lookalike_encoded(history: History) -> Iterator[Observation]:
    """Check that a value that looks encoded is encoded itself."""
    for value, sent, exchange in _pairs(history):
        if is_encoded(value):
            if decode_value(sent) == value:
                yield good(exchange)
            else:
                yield bad(f"{value!r:.40} looks encoded, so it must be encoded itself", exchange)


# --- parameters -----------------------------------------------------------------------------------


def _tools_before(history: History, entry: Entry) -> dict[str, Mapping[str, Any]]:
    """Return the tools that were listed before that entry."""
    tools: dict[str, Mapping[str, Any]] = {}
    for exchange in as_client(history).calls("tools/list"):
        if exchange.response is not None and exchange.response.number < entry.number:
            tools |= {tool["name"]: tool for tool in exchange.fields.get("tools", ())}
    return tools


def _expected(history: History, call: Exchange) -> dict[str, str | None]:
    """Map the headers of annotated parameters to their values; None for headers to omit."""
    name = call.params.get("name")
    tool = _tools_before(history, call.request).get(name) if isinstance(name, str) else None
    schema = {} if tool is None else tool["inputSchema"]
    headers = {}
    for path, header in header_parameters(schema).items():
        value: Any = call.params.get("arguments")
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        headers[f"mcp-param-{header}".lower()] = None if value is None else to_text(value)
    return headers


def _param_fault(history: History, call: Exchange) -> str | None:
    for header, value in _expected(history, call).items():
        sent = call.sent_headers.get(header)
        if value is not None and sent is None:
            return f"the header {header!r} is missing, although its parameter has a value"
        raw = None if value is None else value.encode().decode("latin-1").strip()
        if value is not None and sent is not None and decode_value(sent) != value and sent != raw:
            return f"the header {header!r} is {sent!r:.60}, but the argument is {value!r:.60}"
    return None


@client_check(
    "2026-07-28:param-headers-mirrored", "2026-07-28:param-header-included", needs=_MARKED
)
def parameters_mirrored(history: History) -> Iterator[Observation]:
    """Check that each annotated parameter with a value is in its header."""
    for call in _requests(history):
        if call.method == "tools/call" and any(_expected(history, call).values()):
            fault = _param_fault(history, call)
            yield good(call) if fault is None else bad(fault, call)


@client_check("2026-07-28:tools-call-headers-built", needs="a client over HTTP that calls tools")
def call_headers_built(history: History) -> Iterator[Observation]:
    """Check that a tool call has all of its headers."""
    for call in _requests(history):
        if call.method == "tools/call":
            fault = _method_fault(call) or _name_fault(call) or _param_fault(history, call)
            yield good(call) if fault is None else bad(fault, call)


@client_check("2026-07-28:param-headers-supported", needs=_MARKED)
def annotations_supported(history: History) -> Iterator[Observation]:
    """Record calls of tools with annotations."""
    for call in _requests(history):
        if call.method == "tools/call" and _expected(history, call):
            yield good(call)


@client_check(
    "2026-07-28:param-header-omitted-for-null", needs=f"{_MARKED}, with null", is_present=True
)
@client_check("2026-07-28:param-header-omitted-if-absent", needs=_MARKED, is_present=False)
def header_is_omitted(history: History, is_present: bool) -> Iterator[Observation]:
    """Check that a parameter that is null or absent has no header."""
    for call in _requests(history):
        arguments = call.params.get("arguments")
        if call.method != "tools/call" or not isinstance(arguments, dict):
            continue
        tool = _tools_before(history, call.request).get(str(call.params.get("name")))
        for path, name in header_parameters(None if tool is None else tool["inputSchema"]).items():
            header = f"mcp-param-{name}".lower()
            if len(path) != 1 or arguments.get(path[0]) is not None:
                continue
            if (path[0] in arguments) is not is_present:
                continue
            if header in call.sent_headers:
                words = f"the client sent the header {header!r} for a parameter without a value"
                yield bad(words, call)
            else:
                yield good(call)


@client_check("2026-07-28:x-mcp-header-safe-integers", needs=_MARKED)
def integers_safe(history: History) -> Iterator[Observation]:
    """Check that integers in headers are safe for JavaScript."""
    for call in _requests(history):
        for name, value in call.sent_headers.items():
            if name.startswith("mcp-param-") and re.fullmatch(r"-?\d+", value):
                is_safe = abs(int(value)) <= _LARGEST
                if is_safe:
                    yield good(call)
                else:
                    words = f"the header {name!r} is {value:.40}, which is not a safe integer"
                    yield bad(words, call)


@client_check(
    "2026-07-28:x-mcp-header-invalid-rejected",
    "2026-07-28:x-mcp-header-invalid-excluded",
    needs="a client over HTTP that calls all usable tools",
)
def invalid_annotations_rejected(history: History) -> Iterator[Observation]:
    """Check that a tool with invalid annotations is not called."""
    for call in _requests(history):
        tools = _tools_before(history, call.request)
        tool = tools.get(str(call.params.get("name"))) if call.method == "tools/call" else None
        if tool is None:
            continue
        if not has_valid_annotations(tool["inputSchema"]):
            yield bad(f"the client called {tool['name']!r}, whose annotations are invalid", call)
        elif not all(has_valid_annotations(one["inputSchema"]) for one in tools.values()):
            yield good(call)
