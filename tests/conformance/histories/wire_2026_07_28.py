"""Handwritten histories of 2026-07-28; requests carry the required metadata."""

from collections.abc import Mapping
from typing import Any, Final, Self

import attrs

from taskmachine.adapters.conformance.history import MISSING
from tests.conformance.histories.wire import Wire

__all__ = [
    "CAPABILITIES",
    "CLIENT",
    "DISCOVERED",
    "LISTED",
    "MCP",
    "SERVER",
    "TASKS",
    "VERSION",
    "StatelessWire",
    "http",
    "shown",
    "stdio",
]  # fmt: skip

MCP: Final = "io.modelcontextprotocol/"
VERSION: Final = MCP + "protocolVersion"
CAPABILITIES: Final = MCP + "clientCapabilities"
CLIENT: Final = MCP + "clientInfo"
TASKS: Final[Mapping[str, Any]] = {"extensions": {MCP + "tasks": {}}}
SERVER: Final = {MCP + "serverInfo": {"name": "target", "version": "1"}}
LISTED: Final = {"resultType": "complete", "tools": []}
DISCOVERED: Final = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28", "2025-11-25"],
    "capabilities": TASKS,
}
_NAMED_BY: Final = {"tools/call": "name", "tasks/get": "taskId", "tasks/cancel": "taskId"}


@attrs.define
class StatelessWire(Wire):
    """A history builder for 2026-07-28."""

    def ask(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        meta: Mapping[str, Any] | None = None,
        headers: Mapping[str, str | None] | None = None,
        id: Any = MISSING,
    ) -> Self:
        """Send a request; a value of None removes a key of `_meta` or a header."""
        metadata = {VERSION: "2026-07-28", CLIENT: {"name": "a", "version": "1"}}
        filled = _merged({**metadata, CAPABILITIES: TASKS}, meta)
        name = (params or {}).get(_NAMED_BY.get(method, ""))
        usual = {
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": method,
        }
        usual |= {"mcp-name": name} if isinstance(name, str) else {}
        whole = {**(params or {}), "_meta": filled}
        self.request(method, whole, id=id, headers=_merged(usual, headers))
        return self

    def list_tools(self, **how: Any) -> Self:
        """List the tools."""
        self.ask("tools/list", **how).answer(LISTED)
        return self

    def discover(self, *versions: str) -> Self:
        """Perform `server/discover`; the target supports these versions."""
        named = {"supportedVersions": list(versions or ("2026-07-28",))}
        self.ask("server/discover").answer({**DISCOVERED, **named})
        return self

    def create(self, id: str = "t1", **how: Any) -> Self:
        """Call a tool; the target creates a task."""
        self.ask("tools/call", {"name": "tool", "arguments": {}}, **how)
        self.answer({**shown(id), "resultType": "task"})
        return self


def _merged(usual: Mapping[str, Any], more: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in {**usual, **(more or {})}.items() if value is not None}


def shown(id: str = "t1", status: Any = "working", **fields: Any) -> dict[str, Any]:
    """Return a task as `tasks/get` returns it."""
    moments = dict.fromkeys(("createdAt", "lastUpdatedAt"), "2026-11-16T10:00:00.000Z")
    return {"resultType": "complete", "taskId": id, "status": status, **moments, **fields}


def http(**options: Any) -> Any:
    """Begin a history over HTTP."""
    return StatelessWire("http", "2026-07-28", **options)


def stdio() -> Any:
    """Begin a history over stdio."""
    return StatelessWire("stdio", "2026-07-28")
