"""Bugs of headers that repeat the body, and of the marks that ask for them, in 2026-07-28."""

import base64
from collections.abc import Mapping
from typing import Any, Final

from tests.conformance.bugs.mcp_2026_07_28.transports.endpoint import refusal
from tests.conformance.planting import Bug, Head, Instead, Message, plant

__all__: list[str] = []

_HTTP: Final = ("http",)
_NAMED_BY: Final = {"tools/call": "name"} | dict.fromkeys(
    ("tasks/get", "tasks/update", "tasks/cancel"), "taskId"
)


def _right(message: Message) -> dict[str, str]:
    """What method and name should be in the headers."""
    method, params = message.get("method"), message.get("params")
    right = {"mcp-method": method} if isinstance(method, str) else {}
    name = params.get(_NAMED_BY.get(str(method))) if isinstance(params, dict) else None
    return right | ({"mcp-name": name} if isinstance(name, str) else {})


def _wrong(message: Message, head: Head) -> dict[str, str]:
    """The headers that say something else, though not in Base64."""
    return {
        name: value
        for name, value in _right(message).items()
        if not head.headers.get(name, value).startswith("=?base64?")
        and head.headers.get(name, value) != value
    }


# --- method and name -------------------------------------------------------------------------


@plant("2026-07-28:header-body-mismatch-rejected", transports=_HTTP)
class TheBodyCounts(Bug):
    """What the headers say is overwritten, unless it is nearly the same."""

    def asked(self, message: Message, head: Head) -> Message:
        for name, value in _wrong(message, head).items():
            if head.headers[name].lower() != value.lower():
                head.headers[name] = value
        return message


@plant("2026-07-28:header-values-case-sensitive", transports=_HTTP)
class CaseDoesNotCount(Bug):
    """Capital letters are like others."""

    def asked(self, message: Message, head: Head) -> Message:
        for name, value in _wrong(message, head).items():
            if head.headers[name].lower() == value.lower():
                head.headers[name] = value
        return message


@plant("2026-07-28:header-mismatch-400", transports=_HTTP)
class MismatchesAreUnprocessable(Bug):
    """422 instead of 400."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        return refusal(message, -32020, status=422) if _wrong(message, head) else message


@plant("2026-07-28:header-mismatch-32020", transports=_HTTP)
class MismatchesAreInvalid(Bug):
    """-32600 instead of -32020."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        return refusal(message, -32600) if _wrong(message, head) else message


@plant("2026-07-28:header-missing-rejected", transports=_HTTP)
class HeadersAreOptional(Bug):
    """What is missing is filled in."""

    def asked(self, message: Message, head: Head) -> Message:
        for name, value in _right(message).items():
            head.headers.setdefault(name, value)
        return message


@plant(
    "2026-07-28:header-values-decoded",
    "2026-07-28:header-decoded-before-compare",
    also=("2026-07-28:reserved-codes-as-defined", "2026-07-28:standard-jsonrpc-errors"),
    transports=_HTTP,
)
class TakesBase64Literally(Bug):
    """A name in Base64 is another name."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        is_encoded = head.headers.get("mcp-name", "").startswith("=?base64?")
        return refusal(message, -32020) if is_encoded else message


@plant(
    "2026-07-28:header-names-case-insensitive",
    also=("2026-07-28:reserved-codes-as-defined",),
    transports=_HTTP,
)
class LosesHeaders(Bug):
    """Now and then headers in lower case are not seen."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        return refusal(message, -32020, "no headers") if message.get("id") == "7" else message


# --- parameters ------------------------------------------------------------------------------


class _Marked(Bug):
    """Checks the headers of parameters by itself, before the server: the bugs say how not.

    The parameter of one tool may be null, which the server behind does not know.
    """

    marks: Final = {"heap": ("pebbles", "mcp-param-pebbles"), "glance": ("at", "mcp-param-at")}

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        for tool in message.get("result", {}).get("tools", ()):
            if tool["name"] == "glance":
                tool["inputSchema"]["properties"]["at"]["type"] = ["string", "null"]
        return [message]

    def asked(self, message: Message, head: Head) -> Message | Instead:
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


@plant("2026-07-28:param-header-matches-body", transports=_HTTP)
class ParametersAreNotCompared(_Marked):
    """Some header is enough."""

    def is_different(self, value: Any, header: str) -> bool:
        return False


@plant("2026-07-28:param-header-failure-32020", transports=_HTTP)
class WrongParametersAreInvalid(_Marked):
    """-32602 instead of -32020."""

    code = -32602


@plant("2026-07-28:param-header-bad-characters", transports=_HTTP)
class GarbageIsWelcome(_Marked):
    """What cannot be decoded is not compared."""

    minds_garbage = False


@plant("2026-07-28:param-header-missing-rejected", transports=_HTTP)
class ParameterHeadersAreOptional(_Marked):
    """Who sends none is served."""

    def is_missing(self, arguments: Mapping[str, Any], name: str, header: str | None) -> bool:
        return False


@plant(
    "2026-07-28:param-header-not-expected-for-null",
    also=("2026-07-28:reserved-codes-as-defined",),
    transports=_HTTP,
)
class NullNeedsAHeader(_Marked):
    """Null is a value like others."""

    def is_missing(self, arguments: Mapping[str, Any], name: str, header: str | None) -> bool:
        return (name not in arguments) != (header is None)


@plant(
    "2026-07-28:param-header-not-expected-if-absent",
    also=("2026-07-28:reserved-codes-as-defined",),
    transports=_HTTP,
)
class EveryMarkNeedsAHeader(_Marked):
    """The header is expected whatever the arguments are."""

    def is_missing(self, arguments: Mapping[str, Any], name: str, header: str | None) -> bool:
        return header is None and not (name in arguments and arguments[name] is None)


@plant(
    "2026-07-28:header-integers-numeric",
    also=("2026-07-28:reserved-codes-as-defined",),
    transports=_HTTP,
)
class IntegersAreTexts(_Marked):
    """42.0 is not 42."""

    def is_different(self, value: Any, header: str) -> bool:
        return header != str(value)


# --- marks -----------------------------------------------------------------------------------


class _MarksSchema(Bug):
    """Changes the schema of one tool."""

    tool = "drift"

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        for tool in message.get("result", {}).get("tools", ()):
            if tool["name"] == self.tool:
                self.mark(tool["inputSchema"])
        return [message]

    def mark(self, schema: dict[str, Any]) -> None:
        """In place."""


@plant("2026-07-28:x-mcp-header-not-empty", transports=_HTTP)
class EmptyMark(_MarksSchema):
    """A header without a name."""

    def mark(self, schema: dict[str, Any]) -> None:
        schema["properties"]["along"]["x-mcp-header"] = ""


@plant("2026-07-28:x-mcp-header-token", transports=_HTTP)
class MarkWithSpaces(_MarksSchema):
    """A name that no header can have."""

    def mark(self, schema: dict[str, Any]) -> None:
        schema["properties"]["along"]["x-mcp-header"] = "Along What"


@plant(
    "2026-07-28:x-mcp-header-no-control",
    also=("2026-07-28:x-mcp-header-token",),
    transports=_HTTP,
)
class MarkWithNewline(_MarksSchema):
    """A name that ends the header."""

    def mark(self, schema: dict[str, Any]) -> None:
        schema["properties"]["along"]["x-mcp-header"] = "Along\r\nX-Evil"


@plant("2026-07-28:x-mcp-header-unique", transports=_HTTP)
class MarkTwice(_MarksSchema):
    """Two parameters in one header."""

    def mark(self, schema: dict[str, Any]) -> None:
        schema["properties"]["along"]["x-mcp-header"] = "Along"
        schema["properties"]["beyond"] = {"type": "string", "x-mcp-header": "ALONG"}


@plant("2026-07-28:x-mcp-header-primitive", transports=_HTTP)
class MarkOnNumber(_MarksSchema):
    """A number is no integer."""

    tool = "linger"

    def mark(self, schema: dict[str, Any]) -> None:
        field = schema["properties"]["duration_seconds"]
        field.update({"type": "number", "x-mcp-header": "Duration"})


@plant("2026-07-28:x-mcp-header-reachable", transports=_HTTP)
class MarkOnAnyProperty(_MarksSchema):
    """A parameter without a name of its own."""

    def mark(self, schema: dict[str, Any]) -> None:
        schema["patternProperties"] = {"^x-": {"type": "string", "x-mcp-header": "Any"}}


@plant(
    "2026-07-28:x-mcp-header-chain",
    also=("2026-07-28:x-mcp-header-reachable",),
    transports=_HTTP,
)
class MarkInChoice(_MarksSchema):
    """A parameter that is there only sometimes."""

    def mark(self, schema: dict[str, Any]) -> None:
        marked = {"type": "string", "x-mcp-header": "Along"}
        schema["anyOf"] = [{"properties": {"along": marked}}, {}]
