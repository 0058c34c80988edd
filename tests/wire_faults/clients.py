"""Minimal clients of both revisions, without timing."""

import itertools
import json
from collections.abc import Mapping
from typing import Any, Final

from tests.wire_faults.server_process import Server
from tests.wire_faults.wire import BOTH, Answer, Events, Wire, request_bytes

__all__ = ["EXTENSION", "Modern", "Session", "meta", "text_of"]

JSON = dict[str, Any]

_PREFIX: Final = "io.modelcontextprotocol/"
EXTENSION: Final = f"{_PREFIX}tasks"
_NAMED: Final = {
    "tools/call": "name",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}


def text_of(result: JSON) -> str:
    """Return the text of a tool result."""
    text: str = result["content"][0]["text"]
    return text


def meta(*, tasks: bool = True, version: str = "2026-07-28") -> JSON:
    """Return the `_meta` of a request of 2026-07-28."""
    capabilities: JSON = {"extensions": {EXTENSION: {}}} if tasks else {}
    return {
        f"{_PREFIX}protocolVersion": version,
        f"{_PREFIX}clientInfo": {"name": "faults", "version": "0"},
        f"{_PREFIX}clientCapabilities": {**capabilities, "elicitation": {"form": {}}},
    }


class _Client:
    """The common part of both clients: each request has its own connection."""

    def __init__(self, server: Server, token: str | None = None) -> None:
        self.server = server
        self._ids = itertools.count(1)
        self.last_id = 0
        self._headers = {"Content-Type": "application/json", "Accept": BOTH}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"

    def next_id(self) -> int:
        self.last_id = next(self._ids)
        return self.last_id

    def wire(self, data: bytes = b"") -> Wire:
        """Open a connection and send the data on it."""
        wire = Wire(self.server.connect())
        try:
            wire.send(data)
        except OSError:
            wire.close()
            raise
        return wire

    def post(self, message: JSON, headers: Mapping[str, str]) -> Answer:
        with self.wire(self.post_bytes(message, headers)) as wire:
            return wire.answer()

    def post_bytes(self, message: JSON, headers: Mapping[str, str]) -> bytes:
        body = json.dumps(message).encode()
        return request_bytes("POST", "/mcp", {**self._headers, **headers}, body)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        with self.wire(self.get_bytes(path, headers)) as wire:
            return wire.answer()

    def get_bytes(self, path: str, headers: Mapping[str, str] | None = None) -> bytes:
        kept = {k: v for k, v in self._headers.items() if k == "Authorization"}
        return request_bytes("GET", path, {**kept, **(headers or {})})


class Session(_Client):
    """A client of 2025-11-25."""

    def __init__(self, server: Server, token: str | None = None) -> None:
        super().__init__(server, token)
        capabilities: JSON = {"elicitation": {"form": {}}, "sampling": {}}
        info = {"name": "faults", "version": "0"}
        params = {
            "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info,
        }  # fmt: skip
        answer = self.post(_call(self.next_id(), "initialize", params), {})
        assert answer.status == 200, answer
        self.headers = {
            "MCP-Session-Id": answer.headers["mcp-session-id"],
            "MCP-Protocol-Version": "2025-11-25",
        }
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: JSON) -> None:
        """Send a notification or a response."""
        answer = self.post(message, self.headers)
        assert (answer.status, answer.body) == (202, b""), answer

    def reply(self, question: JSON, name: str) -> None:
        """Answer a question that came on a stream."""
        result = {"action": "accept", "content": {"name": name}}
        self.send({"jsonrpc": "2.0", "id": question["id"], "result": result})

    def ask(self, method: str, params: JSON | None = None) -> JSON:
        """Send a request and return its result or error response."""
        answer = self.post(_call(self.next_id(), method, params or {}), self.headers)
        assert answer.status == 200, answer
        if not answer.is_stream:
            return _object(answer.json)
        lines = answer.body.decode().splitlines()
        messages = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
        return _object(messages[-1])

    def create(self, tool: str, **arguments: Any) -> str:
        """Create a task and return its id."""
        params = {"name": tool, "arguments": arguments, "task": {"ttl": 600_000}}
        params["_meta"] = {"progressToken": f"progress of {tool}"}
        response = self.ask("tools/call", params)
        assert "result" in response, response
        return str(response["result"]["task"]["taskId"])

    def open(self, method: str, params: JSON) -> Wire:
        """Send a request and return its connection, on which nothing was read."""
        return self.wire(self.request(method, params))

    def request(self, method: str, params: JSON) -> bytes:
        """Return the bytes of a request."""
        return self.post_bytes(_call(self.next_id(), method, params), self.headers)

    def result(self, task_id: str) -> tuple[Wire, Events]:
        """Send a `tasks/result` that is answered by a stream."""
        return self._stream(self.open("tasks/result", {"taskId": task_id}))

    def listen(self, last_event_id: str | None = None) -> tuple[Wire, Events]:
        """Open the GET stream, or resume a stream after that event."""
        headers = {**self._headers, **self.headers, "Accept": "text/event-stream"}
        del headers["Content-Type"]
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        return self._stream(self.wire(request_bytes("GET", "/mcp", headers)))

    def _stream(self, wire: Wire) -> tuple[Wire, Events]:
        status, headers = wire.head()
        if status != 200 or not headers["content-type"].startswith("text/event-stream"):
            wire.close()
            raise AssertionError(f"not a stream: {status} {headers}")
        return wire, Events(wire)

    def status(self, task_id: str) -> str:
        return str(self.ask("tasks/get", {"taskId": task_id})["result"]["status"])


class Modern(_Client):
    """A client of 2026-07-28."""

    def __init__(self, server: Server, token: str | None = None, *, tasks: bool = True) -> None:
        super().__init__(server, token)
        self._tasks = tasks

    def request(self, method: str, params: JSON | None = None) -> bytes:
        """Return the bytes of a request."""
        params = {**(params or {}), "_meta": meta(tasks=self._tasks)}
        body = json.dumps(_call(self.next_id(), method, params)).encode()
        headers = {**self._headers, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        if method in _NAMED:
            headers["Mcp-Name"] = params[_NAMED[method]]
        return request_bytes("POST", "/mcp", headers, body)

    def open(self, method: str, params: JSON | None = None) -> Wire:
        return self.wire(self.request(method, params))

    def ask(self, method: str, params: JSON | None = None) -> JSON:
        with self.open(method, params) as wire:
            answer = wire.answer()
        assert answer.status == 200, answer
        return _object(answer.json)

    def create(self, tool: str, **arguments: Any) -> str:
        response = self.ask("tools/call", {"name": tool, "arguments": arguments})
        assert response["result"]["resultType"] == "task", response
        return str(response["result"]["taskId"])

    def get_task(self, task_id: str) -> JSON:
        return _object(self.ask("tasks/get", {"taskId": task_id})["result"])


def _call(id: Any, method: str, params: JSON) -> JSON:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def _object(value: Any) -> JSON:
    assert isinstance(value, dict), value
    return value
