"""Metadata and headers that each revision requires in a request."""

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Final

from taskmachine.adapters.conformance.wire.header_values import encode_value, to_text

__all__ = ["CLIENT", "EXTENSION", "META", "NAMED_BY", "Mirrored", "routing_headers", "with_meta"]

EXTENSION: Final = "io.modelcontextprotocol/tasks"
META: Final = "io.modelcontextprotocol/"
CLIENT: Final = {"name": "taskmachine-check", "version": version("taskmachine")}
MODERN: Final = "2026-07-28"

Mirrored = Mapping[str, Mapping[tuple[str, ...], str]]
"""Names of the headers that repeat parameters, by tool and parameter path."""

NAMED_BY: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""The parameter that the `Mcp-Name` header repeats, by method."""


def with_meta(
    params: Any, given: Mapping[str, Any] | None, capabilities: Mapping[str, Any] | None
) -> Any:
    """Add metadata to parameters: that of 2026-07-28 if there are capabilities, then the given.

    None removes a key. Parameters that are not an object stay unchanged.
    """
    if params is not None and not isinstance(params, dict):
        return params
    meta = dict((params or {}).get("_meta") or {})
    if capabilities is not None:
        meta = {
            f"{META}protocolVersion": MODERN,
            f"{META}clientInfo": CLIENT,
            f"{META}clientCapabilities": capabilities,
            **meta,
        }
    for key, value in (given or {}).items():
        if value is None:
            meta.pop(key, None)
        else:
            meta[key] = value
    return {**(params or {}), "_meta": meta} if meta else params


def routing_headers(body: Any, mirrored: Mirrored) -> dict[str, str]:
    """Return the headers by which 2026-07-28 repeats parts of the body."""
    headers = {"mcp-protocol-version": MODERN}
    if not isinstance(body, dict) or not isinstance(body.get("method"), str):
        return headers
    headers["mcp-method"] = body["method"]
    params = body.get("params")
    params = params if isinstance(params, dict) else {}
    name = params.get(NAMED_BY.get(body["method"], ""))
    if isinstance(name, str):
        headers["mcp-name"] = encode_value(name)
    for path, header in mirrored.get(str(params.get("name")), {}).items():
        value = params.get("arguments")
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        if value is not None:
            headers[f"mcp-param-{header.lower()}"] = encode_value(to_text(value))
    return headers
