"""The HTTP headers of 2026-07-28 that mirror a request: made by clients, checked by servers.

`MCP-Protocol-Version`, `Mcp-Method`, `Mcp-Name` for every request that has a name, and
`Mcp-Param-*` for tool parameters that their schema marks with `x-mcp-header`.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from taskmachine.protocol.dialects.mcp_2026_07_28.messages import PROTOCOL_VERSION
from taskmachine.protocol.errors import HeaderMismatch
from taskmachine.protocol.jsonrpc import Request
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.protocol.shapes import MAX_SAFE_INTEGER

__all__ = [
    "check_headers",
    "check_sent",
    "decode_header_value",
    "encode_header_value",
    "headers_of",
    "mirrored_parameters",
]

_NAMED_BY: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}

_NAME_REQUIRED: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Methods whose requests must have `Mcp-Name`.  For `tasks/*` the extension obliges only clients,
and some omit it (see docs/explanation/generations.md); if sent, it must be right."""

_SAFE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")
_LEGAL: Final = re.compile(r"[\x20-\x7e\t]*")
_SENTINEL: Final = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

Path = tuple[str, ...]


def encode_header_value(text: str) -> str:
    """Return the text unchanged if a header can carry it, or else in the base64 sentinel."""
    if _SAFE.fullmatch(text) and not _SENTINEL.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def decode_header_value(name: str, value: str) -> str:
    """Return the decoded text, or raise `HeaderMismatch` if characters or base64 are invalid."""
    if not _LEGAL.fullmatch(value):
        raise HeaderMismatch(f"{name} has invalid characters")
    sentinel = _SENTINEL.fullmatch(value)
    if sentinel is None:
        return value
    try:
        return base64.b64decode(sentinel[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise HeaderMismatch(f"{name} is not valid base64 of UTF-8") from None


def mirrored_parameters(input_schema: JSONObject) -> dict[str, Path]:
    """Return header names and property paths from the `x-mcp-header` marks of a tool's schema.

    ValueError if any mark violates the rules; a client then ignores the whole tool.
    """
    found: dict[str, Path] = {}
    marks = 0
    for path, schema in _reachable(input_schema, ()):
        if "x-mcp-header" not in schema:
            continue
        marks += 1
        name, place = schema["x-mcp-header"], ".".join(path)
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise ValueError(f"x-mcp-header of '{place}' is not a header name")
        if not path or schema.get("type") not in ("string", "integer", "boolean"):
            raise ValueError(f"x-mcp-header of '{place}' needs type string, integer or boolean")
        if name.lower() in {other.lower() for other in found}:
            raise ValueError(f"x-mcp-header '{name}' is used twice")
        found[name] = path
    if _count_marks(input_schema) != marks:
        raise ValueError("x-mcp-header is only allowed on properties nested in `properties`")
    return found


def headers_of(request: Request, mirrored: Mapping[str, Path] | None = None) -> dict[str, str]:
    """Return the headers that a client sends with this request.

    ValueError if a parameter is an integer beyond `MAX_SAFE_INTEGER`.
    """
    headers = {
        "MCP-Protocol-Version": request.params["_meta"][PROTOCOL_VERSION],
        "Mcp-Method": request.method,
    }
    if request.method in _NAMED_BY:
        headers["Mcp-Name"] = encode_header_value(request.params[_NAMED_BY[request.method]])
    for name, path in (mirrored or {}).items():
        value = _value_at(request.params.get("arguments"), path)
        if isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER:
            # 2026-07-28:x-mcp-header-safe-integers
            raise ValueError(f"{'.'.join(path)} is beyond the safe integers of a header")
        if value is not None:
            headers[f"Mcp-Param-{name}"] = encode_header_value(_text_of(value))
    return headers


def check_headers(
    headers: Iterable[tuple[str, str]],
    request: Request,
    mirrored: Mapping[str, Path] | None = None,
) -> None:
    """Refuse a request whose headers are missing, repeated, malformed or contradict its body."""
    sent: dict[str, str] = {}
    for name, value in headers:
        name = name.lower()
        if name in sent and name.startswith("mcp-"):
            raise HeaderMismatch(f"{name} is repeated")
        sent[name] = value
    check_sent(sent, request, mirrored)


def check_sent(
    sent: Mapping[str, str], request: Request, mirrored: Mapping[str, Path] | None = None
) -> None:
    """Do the same for a mapping of headers in lower case, which saves 3 us."""
    meta = request.params.get("_meta")
    version = meta.get(PROTOCOL_VERSION) if isinstance(meta, dict) else None
    _check(sent, "MCP-Protocol-Version", version)
    _check(sent, "Mcp-Method", request.method)
    if request.method in _NAME_REQUIRED or (request.method in _NAMED_BY and "mcp-name" in sent):
        _check(sent, "Mcp-Name", request.params.get(_NAMED_BY[request.method]), encoded=True)
    for name, path in (mirrored or {}).items():
        value = _value_at(request.params.get("arguments"), path)
        if value is not None or f"mcp-param-{name}".lower() in sent:
            _check(sent, f"Mcp-Param-{name}", value, encoded=True)


def _check(sent: Mapping[str, str], name: str, body: Any, *, encoded: bool = False) -> None:
    header = sent.get(name.lower())
    if header is None:
        raise HeaderMismatch(f"{name} is missing")
    if header == body and header.isascii() and header.isprintable() and header[:2] != "=?":
        return  # fast path: nothing to decode
    text = decode_header_value(name, header) if encoded else header
    if not _is_same(text, body):
        raise HeaderMismatch(f"{name} is {text[:80]!r}, which differs from the body")


def _is_same(text: str, body: Any) -> bool:
    if isinstance(body, int) and not isinstance(body, bool):
        # Compared as numbers: 42.0 is 42.  Unsafe integers never match; peers may round them.
        number = re.fullmatch(r"(-?\d{1,16})(\.0+)?", text)
        return number is not None and int(number[1]) == body and abs(body) <= MAX_SAFE_INTEGER
    return body is not None and text == _text_of(body)


def _text_of(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value_at(arguments: Any, path: Path) -> Any:
    for step in path:
        arguments = arguments.get(step) if isinstance(arguments, dict) else None
    return arguments


def _reachable(schema: Any, path: Path) -> Iterable[tuple[Path, JSONObject]]:
    """Yield the schemas that a chain of `properties` leads to."""
    if isinstance(schema, dict):
        yield path, schema
        properties = schema.get("properties")
        for name, child in properties.items() if isinstance(properties, dict) else ():
            yield from _reachable(child, (*path, name))


def _count_marks(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_count_marks, value))
    if isinstance(value, dict):
        return ("x-mcp-header" in value) + sum(map(_count_marks, value.values()))
    return 0
