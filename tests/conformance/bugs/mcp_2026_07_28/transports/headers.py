"""Bugs of headers that repeat the body, and of the marks that ask for them, in 2026-07-28."""

import base64
from collections.abc import Mapping
from typing import Any, Final

from tests.conformance.bugs.mcp_2026_07_28.transports.endpoint import refusal
from tests.conformance.planting import (
    HTTP,
    Bug,
    ClientChange,
    ClientMessage,
    Head,
    Instead,
    Message,
    new,
    plant,
    variant,
)

_NAMED_BY: Final = {"tools/call": "name"} | dict.fromkeys(
    ("tasks/get", "tasks/update", "tasks/cancel"), "taskId"
)


def _right(message: Message) -> dict[str, str]:
    """Return the headers that mirror method and name."""
    method, params = message.get("method"), message.get("params")
    right = {"mcp-method": method} if isinstance(method, str) else {}
    name = params.get(_NAMED_BY.get(str(method))) if isinstance(params, dict) else None
    return right | ({"mcp-name": name} if isinstance(name, str) else {})


def _wrong(message: Message, head: Head) -> dict[str, str]:
    """Return headers with other values, unless they are in Base64."""
    return {
        name: value
        for name, value in _right(message).items()
        if not head.headers.get(name, value).startswith("=?base64?")
        and head.headers.get(name, value) != value
    }


# --- method and name -------------------------------------------------------------------------


@plant(*new("header-body-mismatch-rejected"), transports=HTTP, base=ClientChange)
def prefers_body_to_headers(message: Message, head: Head) -> None:
    for name, value in _wrong(message, head).items():
        if head.headers[name].lower() != value.lower():
            head.headers[name] = value


@plant(*new("header-values-case-sensitive"), transports=HTTP, base=ClientChange)
def ignores_case_of_header_values(message: Message, head: Head) -> None:
    for name, value in _wrong(message, head).items():
        if head.headers[name].lower() == value.lower():
            head.headers[name] = value


@plant(*new("header-mismatch-400"), transports=HTTP, base=ClientMessage)
def refuses_header_mismatch_with_422(message: Message, head: Head) -> Message | Instead | None:
    return refusal(message, -32020, status=422) if _wrong(message, head) else message


@plant(*new("header-mismatch-32020"), transports=HTTP, base=ClientMessage)
def refuses_header_mismatch_with_32600(message: Message, head: Head) -> Message | Instead | None:
    return refusal(message, -32600) if _wrong(message, head) else message


@plant(*new("header-missing-rejected"), transports=HTTP, base=ClientChange)
def fills_in_missing_headers(message: Message, head: Head) -> None:
    for name, value in _right(message).items():
        head.headers.setdefault(name, value)


@plant(*new("header-values-decoded", "header-decoded-before-compare"),
    also=new("reserved-codes-as-defined", "standard-jsonrpc-errors"), transports=HTTP,
    base=ClientMessage)  # fmt: skip
def does_not_decode_base64_headers(message: Message, head: Head) -> Message | Instead | None:
    is_encoded = head.headers.get("mcp-name", "").startswith("=?base64?")
    return refusal(message, -32020) if is_encoded else message


@plant(*new("header-names-case-insensitive"), also=new("reserved-codes-as-defined"),
    transports=HTTP, base=ClientMessage)  # fmt: skip
def loses_lower_case_headers(message: Message, head: Head) -> Message | Instead | None:
    return refusal(message, -32020, "no headers") if message.get("id") == "7" else message


# --- parameters ------------------------------------------------------------------------------


class _Marked(Bug):
    """Checks the headers of parameters by itself, before the server: the bugs say how not.

    The parameter of one tool may be null, which the server behind does not know.
    """

    marks: Final = {"heap": ("pebbles", "mcp-param-pebbles"), "glance": ("at", "mcp-param-at")}

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        for tool in message.get("result", {}).get("tools", ()):
            if tool["name"] == "glance":
                tool["inputSchema"]["properties"]["at"]["type"] = ["string", "null"]
        return [message]

    def client_message(self, message: Message, head: Head) -> Message | Instead:
        params = message.get("params")
        if message.get("method") != "tools/call" or not isinstance(params, dict):
            return message
        arguments, tool = params.get("arguments"), params.get("name")
        if not isinstance(arguments, dict) or not isinstance(tool, str) or tool not in self.marks:
            return message
        name, header = self.marks[tool]
        value = arguments.get(name)
        if value is not None and not isinstance(value, str | int):
            return message
        if self.is_wrong(arguments, name, head.headers.pop(header, None)):
            return refusal(message, self.code)
        if value is None:
            arguments.pop(name, None)
        else:
            head.headers[header] = str(value)
        return message

    code = -32020

    def is_wrong(self, arguments: Mapping[str, Any], name: str, header: str | None) -> bool:
        """Whether the header is not what it should be."""
        value = arguments.get(name)
        if value is None or header is None:
            return self.is_missing(arguments, name, header)
        if not header.startswith("=?base64?"):
            return self.is_different(value, header)
        try:
            return self.is_different(value, base64.b64decode(header[9:-2], validate=True).decode())
        except ValueError:
            return self.minds_garbage

    minds_garbage = True

    def is_missing(self, arguments: Mapping[str, Any], name: str, header: str | None) -> bool:
        """With only one of header and value."""
        return (arguments.get(name) is None) != (header is None)

    def is_different(self, value: Any, header: str) -> bool:
        """With both."""
        return header not in (str(value), f"{value}.0")


@plant(*new("param-header-matches-body"), transports=HTTP)
class DoesNotCompareParameterHeaders(_Marked):
    def is_different(self, value: Any, header: str) -> bool:
        return False


variant(_Marked, "refuses_parameter_mismatch_with_32602", *new("param-header-failure-32020"),
    transports=HTTP, code=-32602)  # fmt: skip
variant(_Marked, "accepts_undecodable_parameter_headers", *new("param-header-bad-characters"),
    transports=HTTP, minds_garbage=False)  # fmt: skip


@plant(*new("param-header-missing-rejected"), transports=HTTP)
class DoesNotRequireParameterHeaders(_Marked):
    def is_missing(self, arguments: Mapping[str, Any], name: str, header: str | None) -> bool:
        return False


@plant(*new("param-header-not-expected-for-null"), also=new("reserved-codes-as-defined"),
    transports=HTTP)  # fmt: skip
class RequiresHeaderForNull(_Marked):
    def is_missing(self, arguments: Mapping[str, Any], name: str, header: str | None) -> bool:
        return (name not in arguments) != (header is None)


@plant(*new("param-header-not-expected-if-absent"), also=new("reserved-codes-as-defined"),
    transports=HTTP)  # fmt: skip
class RequiresHeaderForAbsentParameter(_Marked):
    def is_missing(self, arguments: Mapping[str, Any], name: str, header: str | None) -> bool:
        return header is None and not (name in arguments and arguments[name] is None)


@plant(*new("header-integers-numeric"), also=new("reserved-codes-as-defined"), transports=HTTP)
class ComparesIntegersAsText(_Marked):
    def is_different(self, value: Any, header: str) -> bool:
        return header != str(value)


# --- marks -----------------------------------------------------------------------------------


class _MarksSchema(Bug):
    """Change the input schema of one tool."""

    hook = "mark"

    tool = "drift"

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        for tool in message.get("result", {}).get("tools", ()):
            if tool["name"] == self.tool:
                self.mark(tool["inputSchema"])
        return [message]

    def mark(self, schema: dict[str, Any]) -> None:
        """In place."""


@plant(*new("x-mcp-header-not-empty"), transports=HTTP, base=_MarksSchema)
def declares_empty_header_name(schema: dict[str, Any]) -> None:
    schema["properties"]["along"]["x-mcp-header"] = ""


@plant(*new("x-mcp-header-token"), transports=HTTP, base=_MarksSchema)
def declares_header_name_with_space(schema: dict[str, Any]) -> None:
    schema["properties"]["along"]["x-mcp-header"] = "Along What"


@plant(*new("x-mcp-header-no-control"), also=new("x-mcp-header-token"), transports=HTTP,
    base=_MarksSchema)  # fmt: skip
def declares_header_name_with_newline(schema: dict[str, Any]) -> None:
    schema["properties"]["along"]["x-mcp-header"] = "Along\r\nX-Evil"


@plant(*new("x-mcp-header-unique"), transports=HTTP, base=_MarksSchema)
def declares_header_name_twice(schema: dict[str, Any]) -> None:
    schema["properties"]["along"]["x-mcp-header"] = "Along"
    schema["properties"]["beyond"] = {"type": "string", "x-mcp-header": "ALONG"}


@plant(*new("x-mcp-header-primitive"), transports=HTTP, base=_MarksSchema, tool="linger")
def declares_header_of_number(schema: dict[str, Any]) -> None:
    field = schema["properties"]["duration_seconds"]
    field.update({"type": "number", "x-mcp-header": "Duration"})


@plant(*new("x-mcp-header-reachable"), transports=HTTP, base=_MarksSchema)
def declares_header_of_pattern_property(schema: dict[str, Any]) -> None:
    schema["patternProperties"] = {"^x-": {"type": "string", "x-mcp-header": "Any"}}


@plant(*new("x-mcp-header-chain"), also=new("x-mcp-header-reachable"), transports=HTTP,
    base=_MarksSchema)  # fmt: skip
def declares_header_in_any_of(schema: dict[str, Any]) -> None:
    marked = {"type": "string", "x-mcp-header": "Along"}
    schema["anyOf"] = [{"properties": {"along": marked}}, {}]
