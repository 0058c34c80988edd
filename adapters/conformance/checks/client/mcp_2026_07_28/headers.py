"""Clients of 2026-07-28 over HTTP: what they repeat in headers, and how."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from taskmachine.adapters.conformance.clients.view import VERSION, as_client
from taskmachine.adapters.conformance.history import Entry, Exchange, History
from taskmachine.adapters.conformance.judging import Observation, bad, client_check, good
from taskmachine.adapters.conformance.wire.annotations import (
    has_valid_annotations as is_rightly_marked,
)
from taskmachine.adapters.conformance.wire.annotations import (
    header_parameters as followed_marks,
)
from taskmachine.adapters.conformance.wire.header_values import decode_value, is_encoded, to_text
from taskmachine.adapters.conformance.wire.metadata import NAMED_BY

__all__: list[str] = []

_HTTP: Final = "a client over HTTP"
_MARKED: Final = "a client over HTTP that calls a tool with marked parameters"
_UNUSUAL: Final = "a client over HTTP that uses names which no header can carry"
_OF_TASKS: Final = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
_LARGEST: Final = 2**53 - 1


# --- reading -------------------------------------------------------------------------------------


def _requests(history: History) -> Iterator[Exchange]:
    """Requests over HTTP, but for those by which a client falls back to an older revision."""
    if history.transport == "http":
        yield from (e for e in as_client(history).exchanges if e.method != "initialize")


def _needs_encoding(value: str) -> bool:
    is_plain = all(" " <= c <= "~" or c == "\t" for c in value) and value == value.strip(" \t")
    return not is_plain or is_encoded(value)


def _name(exchange: Exchange) -> str | None:
    """What `Mcp-Name` must say."""
    value = exchange.params.get(NAMED_BY.get(exchange.method, ""))
    return value if isinstance(value, str) else None


def _pairs(history: History) -> Iterator[tuple[str, str, Exchange]]:
    """Header values with what they must stand for: names, and parameters that were marked."""
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
    """Every request has `MCP-Protocol-Version`."""
    for exchange in _requests(history):
        if "mcp-protocol-version" in exchange.sent_headers:
            yield good(exchange)
        else:
            yield bad("a request has no `MCP-Protocol-Version`", exchange)


@client_check("2026-07-28:http-version-header-matches", needs=_HTTP)
def version_header_matches(history: History) -> Iterator[Observation]:
    """It says what the body says."""
    for exchange in _requests(history):
        header, body = exchange.sent_headers.get("mcp-protocol-version"), exchange.request.meta
        if header is not None and VERSION in body:
            if header == body[VERSION]:
                yield good(exchange)
            else:
                words = f"the header says {header!r:.30}, the body {body[VERSION]!r:.30}"
                yield bad(words, exchange)


def _method_fault(exchange: Exchange) -> str | None:
    sent = exchange.sent_headers.get("mcp-method")
    if sent is None:
        return f"`{exchange.method}` has no `Mcp-Method`"
    return None if sent == exchange.method else f"`Mcp-Method` is {sent!r:.40}"


def _name_fault(exchange: Exchange) -> str | None:
    wanted, sent = _name(exchange), exchange.sent_headers.get("mcp-name")
    if wanted is None:
        return None
    if sent is None:
        return f"`{exchange.method}` has no `Mcp-Name`"
    # What is not encoded though it must be is for another rule.
    raw = wanted.encode().decode("latin-1").strip()
    return None if decode_value(sent) == wanted or sent == raw else f"`Mcp-Name` is {sent!r:.60}"


@client_check(
    "2026-07-28:mcp-method-header", "2026-07-28:header-values-case-sensitive", needs=_HTTP
)
def method_header(history: History) -> Iterator[Observation]:
    """`Mcp-Method` is the method."""
    for exchange in _requests(history):
        fault = _method_fault(exchange)
        yield good(exchange) if fault is None else bad(fault, exchange)


@client_check("2026-07-28:mcp-method-is-method", needs="a client over HTTP that asks for tasks")
def method_header_of_tasks(history: History) -> Iterator[Observation]:
    """Also of requests for tasks."""
    for exchange in _requests(history):
        if exchange.method in _OF_TASKS:
            fault = _method_fault(exchange)
            yield good(exchange) if fault is None else bad(fault, exchange)


@client_check("2026-07-28:mcp-name-header", needs="a client over HTTP that calls tools")
def name_header(history: History) -> Iterator[Observation]:
    """`Mcp-Name` is the name of the tool."""
    for exchange in _requests(history):
        if exchange.method in NAMED_BY.keys() - _OF_TASKS:
            fault = _name_fault(exchange)
            yield good(exchange) if fault is None else bad(fault, exchange)


@client_check("2026-07-28:mcp-name-is-task-id", needs="a client over HTTP that asks for tasks")
def name_header_of_tasks(history: History) -> Iterator[Observation]:
    """`Mcp-Name` is the id of the task."""
    for exchange in _requests(history):
        if exchange.method in _OF_TASKS:
            fault = _name_fault(exchange)
            yield good(exchange) if fault is None else bad(fault, exchange)


@client_check("2026-07-28:http-metadata-headers", needs=_HTTP)
def metadata_headers(history: History) -> Iterator[Observation]:
    """All that are due are there."""
    for exchange in _requests(history):
        due = ["mcp-protocol-version", "mcp-method"]
        due += ["mcp-name"] if _name(exchange) is not None else []
        missing = [name for name in due if name not in exchange.sent_headers]
        if missing:
            yield bad(f"`{exchange.method}` has no `{missing[0]}` header", exchange)
        else:
            yield good(exchange)


# --- encoding ------------------------------------------------------------------------------------


@client_check("2026-07-28:mcp-name-encoded", needs=_UNUSUAL)
def names_encoded(history: History) -> Iterator[Observation]:
    """A name that is not safe is in the Base64 form."""
    for exchange in _requests(history):
        name, sent = _name(exchange), exchange.sent_headers.get("mcp-name")
        if name is not None and sent is not None and _needs_encoding(name):
            if is_encoded(sent) and decode_value(sent) == name:
                yield good(exchange)
            else:
                yield bad(f"{name!r:.40} is sent as `Mcp-Name: {sent:.60}`", exchange)


@client_check("2026-07-28:header-value-base64", "2026-07-28:header-values-encoded", needs=_UNUSUAL)
def values_encoded(history: History) -> Iterator[Observation]:
    """A value that is not safe is sent as Base64 of its UTF-8 form."""
    for value, sent, exchange in _pairs(history):
        if _needs_encoding(value) and not is_encoded(value):
            if is_encoded(sent) and decode_value(sent) == value:
                yield good(exchange)
            else:
                yield bad(f"{value!r:.40} is sent as {sent!r:.60}", exchange)


@client_check("2026-07-28:header-sentinel-exact", needs=_UNUSUAL)
def sentinel_exact(history: History) -> Iterator[Observation]:
    """The markers are in lower case."""
    for _, sent, exchange in _pairs(history):
        if re.fullmatch(r"=\?base64\?.*\?=", sent, re.IGNORECASE):
            is_exact = is_encoded(sent)
            yield good(exchange) if is_exact else bad(f"the header is {sent!r:.60}", exchange)


@client_check("2026-07-28:header-sentinel-lookalike-encoded", needs=_UNUSUAL)
def lookalike_encoded(history: History) -> Iterator[Observation]:
    """What only looks encoded is encoded."""
    for value, sent, exchange in _pairs(history):
        if is_encoded(value):
            if decode_value(sent) == value:
                yield good(exchange)
            else:
                yield bad(f"{value!r:.40} is sent as it is", exchange)


# --- parameters ----------------------------------------------------------------------------------


def _tools_before(history: History, entry: Entry) -> dict[str, Mapping[str, Any]]:
    """The tools that had been listed by then."""
    tools: dict[str, Mapping[str, Any]] = {}
    for exchange in as_client(history).calls("tools/list"):
        if exchange.response is not None and exchange.response.number < entry.number:
            tools |= {tool["name"]: tool for tool in exchange.fields.get("tools", ())}
    return tools


def _expected(history: History, call: Exchange) -> dict[str, str | None]:
    """The headers of marked parameters; None for those that must not be there."""
    name = call.params.get("name")
    tool = _tools_before(history, call.request).get(name) if isinstance(name, str) else None
    schema = {} if tool is None else tool["inputSchema"]
    headers = {}
    for path, header in followed_marks(schema).items():
        value: Any = call.params.get("arguments")
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        headers[f"mcp-param-{header}".lower()] = None if value is None else to_text(value)
    return headers


def _param_fault(history: History, call: Exchange) -> str | None:
    for header, value in _expected(history, call).items():
        sent = call.sent_headers.get(header)
        if value is not None and sent is None:
            return f"there is no `{header}`, though the parameter has a value"
        raw = None if value is None else value.encode().decode("latin-1").strip()
        if value is not None and sent is not None and decode_value(sent) != value and sent != raw:
            return f"`{header}` is {sent!r:.60}"
    return None


@client_check(
    "2026-07-28:param-headers-mirrored",
    "2026-07-28:param-header-included",
    needs=_MARKED,
)
def parameters_mirrored(history: History) -> Iterator[Observation]:
    """Each marked parameter with a value is in its header."""
    for call in _requests(history):
        if call.method == "tools/call" and any(_expected(history, call).values()):
            fault = _param_fault(history, call)
            yield good(call) if fault is None else bad(fault, call)


@client_check("2026-07-28:tools-call-headers-built", needs="a client over HTTP that calls tools")
def call_headers_built(history: History) -> Iterator[Observation]:
    """A tool call has all of its headers."""
    for call in _requests(history):
        if call.method == "tools/call":
            fault = _method_fault(call) or _name_fault(call) or _param_fault(history, call)
            yield good(call) if fault is None else bad(fault, call)


@client_check("2026-07-28:param-headers-supported", needs=_MARKED)
def marks_supported(history: History) -> Iterator[Observation]:
    """A tool with marks can be called."""
    for call in _requests(history):
        if call.method == "tools/call" and _expected(history, call):
            yield good(call)


def _omitted(history: History, *, present: bool) -> Iterator[tuple[str, Exchange]]:
    """Headers that must not be there: of parameters that are null, or not there at all."""
    for call in _requests(history):
        arguments = call.params.get("arguments")
        if call.method != "tools/call" or not isinstance(arguments, dict):
            continue
        tool = _tools_before(history, call.request).get(str(call.params.get("name")))
        if tool is None:
            continue
        for path, header in followed_marks(tool["inputSchema"]).items():
            is_there = path[0] in arguments
            if len(path) == 1 and arguments.get(path[0]) is None and is_there is present:
                yield f"mcp-param-{header}".lower(), call


@client_check("2026-07-28:param-header-omitted-for-null", needs=f"{_MARKED}, with null")
def omitted_for_null(history: History) -> Iterator[Observation]:
    """A parameter that is null has no header."""
    for header, call in _omitted(history, present=True):
        is_there = header in call.sent_headers
        yield bad(f"`{header}` is there for null", call) if is_there else good(call)


@client_check("2026-07-28:param-header-omitted-if-absent", needs=_MARKED)
def omitted_if_absent(history: History) -> Iterator[Observation]:
    """A parameter that is not there has no header."""
    for header, call in _omitted(history, present=False):
        is_there = header in call.sent_headers
        yield bad(f"`{header}` is there for nothing", call) if is_there else good(call)


@client_check("2026-07-28:x-mcp-header-safe-integers", needs=_MARKED)
def integers_safe(history: History) -> Iterator[Observation]:
    """Numbers in headers are not too large for JavaScript."""
    for call in _requests(history):
        for name, value in call.sent_headers.items():
            if name.startswith("mcp-param-") and re.fullmatch(r"-?\d+", value):
                is_safe = abs(int(value)) <= _LARGEST
                yield good(call) if is_safe else bad(f"`{name}` is {value:.40}", call)


@client_check(
    "2026-07-28:x-mcp-header-invalid-rejected",
    "2026-07-28:x-mcp-header-invalid-excluded",
    needs="a client over HTTP that calls all tools which it can",
)
def wrong_marks_rejected(history: History) -> Iterator[Observation]:
    """A tool whose marks are wrong is not called; the others are."""
    for call in _requests(history):
        tools = _tools_before(history, call.request)
        tool = tools.get(str(call.params.get("name"))) if call.method == "tools/call" else None
        if tool is None:
            continue
        if not is_rightly_marked(tool["inputSchema"]):
            yield bad(f"called {tool['name']!r}, whose marks are wrong", call)
        elif not all(is_rightly_marked(one["inputSchema"]) for one in tools.values()):
            yield good(call)
