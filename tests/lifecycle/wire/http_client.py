"""An HTTP client with one connection for each request; threads read the streams."""

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from itertools import count
from typing import Any, Final

import attrs

from tests.lifecycle.wire.record import (
    GET_STREAM,
    JSON,
    NEW,
    OLD,
    Channel,
    Evidence,
    Exchange,
    Wire,
    now,
)
from tests.lifecycle.wire.tool_control import BOUND_S

__all__ = ["CAPABILITIES", "HELLO", "HttpClient", "meta"]

CAPABILITIES: Final[JSON] = {"elicitation": {"form": {}}}
HELLO: Final[JSON] = {
    "protocolVersion": OLD,
    "capabilities": CAPABILITIES,
    "clientInfo": {"name": "wire", "version": "1"},
}
_TASKS: Final[JSON] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
_NAMED_BY: Final = {
    "tools/call": "name",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}


def meta(*, with_tasks: bool = True) -> JSON:
    """Return the `_meta` of a request of 2026-07-28."""
    return {
        "io.modelcontextprotocol/protocolVersion": NEW,
        "io.modelcontextprotocol/clientInfo": {"name": "wire", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": CAPABILITIES | (_TASKS if with_tasks else {}),
    }


class Connection:
    """One request and its response, as one body or as a stream of events."""

    def __init__(
        self, address: str, exchange: Exchange, evidence: Evidence, timeout_s: float | None
    ) -> None:
        self.headers: Any = {}
        self._exchange = exchange
        self._evidence = evidence
        self._http = http.client.HTTPConnection(address, timeout=BOUND_S)
        self._http.connect()
        self._socket = self._http.sock
        self._socket.settimeout(timeout_s)
        self._until = None if timeout_s is None else now() + round(timeout_s * 1e9)
        self._thread: threading.Thread | None = None

    def begin(self, verb: str, headers: JSON, body: bytes | None) -> None:
        """Run the exchange in a thread."""
        self._thread = threading.Thread(target=self.run, args=(verb, headers, body))
        self._thread.start()

    def run(self, verb: str, headers: JSON, body: bytes | None) -> None:
        exchange = self._exchange
        try:
            self._http.request(verb, "/mcp", body, headers)
            with contextlib.closing(self._http.getresponse()) as response:
                exchange.status = response.status
                self.headers = response.headers
                if response.headers.get("content-type", "").startswith("text/event-stream"):
                    exchange.streaming.set()
                    self._read_events(response)
                else:
                    self._read_body(response.read())
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            # http.client raises all of these when another thread closes its socket.
            if not exchange.is_dropped:
                exchange.failure = repr(error)
        finally:
            self._http.close()
            self._socket.close()
            with self._evidence.changed:
                if exchange.channel is not None and exchange.channel.is_open:
                    exchange.channel.closed.append(now())
                exchange.streaming.set()
                exchange.done.set()
                self._evidence.changed.notify_all()

    def drop(self) -> None:
        """Close the connection without notice, as a client that has lost it."""
        if not self._exchange.done.is_set():
            self.abandon()
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join()

    def abandon(self) -> None:
        """Mark the request as given up."""
        self._exchange.is_dropped = True
        if self._exchange.channel is not None:
            self._exchange.channel.abandoned_at = self._exchange.channel.abandoned_at or now()

    def _read_body(self, raw: bytes) -> None:
        self._evidence.raw.append((self._exchange.owner, raw))
        self._exchange.raw = raw
        if raw:
            self._receive(json.loads(raw), raw, None)

    def _read_events(self, response: http.client.HTTPResponse) -> None:
        event_id, data = None, b""
        for line in response:
            self._evidence.raw.append((self._exchange.owner, line))
            if self._until is not None and now() > self._until:
                raise TimeoutError("the stream sent no event in time")
            field, _, value = line.rstrip(b"\r\n").partition(b":")
            value = value.removeprefix(b" ")
            if field == b"id" and line:
                event_id = value.decode()
                if self._exchange.channel is not None:
                    self._evidence.mark_event_id(self._exchange.channel, event_id)
            elif field == b"data":
                data += value
            elif line.strip() == b"" and data:
                self._receive(json.loads(data), data, event_id)
                data = b""

    def _receive(self, message: Any, raw: bytes, event_id: str | None) -> None:
        if isinstance(message, dict) and "method" not in message:
            self._exchange.complete(message, raw)
        if self._exchange.channel is not None:
            self._evidence.receive(self._exchange.channel, message, event_id)


@attrs.define(eq=False)
class HttpClient:
    """One owner in both generations; 2025-11-25 in a session."""

    owner: str
    token: str
    address: str
    evidence: Evidence
    session: str | None = None
    get_stream: Exchange | None = None
    connections: dict[Exchange, Connection] = attrs.field(factory=dict)
    _ids: Iterator[int] = attrs.field(factory=lambda: count(1))

    # --- sessions ----------------------------------------------------------------------------

    def initialize(self) -> None:
        """Start a session."""
        hello = self._exchange(OLD, "initialize", HELLO, None)
        connection = self._connection(hello, BOUND_S)
        connection.run("POST", self.headers(OLD, "initialize", {}), _body(hello))
        self.session = connection.headers["mcp-session-id"]
        assert self.session, f"no session: {hello.answer}"
        taken = self.post(OLD, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert taken.status == 202, taken.status

    def end_session(self) -> None:
        """End the session and close all its streams."""
        for exchange, connection in self.connections.items():
            if exchange.session == self.session and not exchange.done.is_set():
                connection.abandon()
        assert self.raw("DELETE", self.headers(OLD, "", {})).status == 204
        for exchange, connection in self.connections.items():
            if exchange.session == self.session:
                connection.drop()
        self.session = self.get_stream = None

    # --- requests ----------------------------------------------------------------------------

    def ask(
        self, wire: Wire, method: str, params: JSON | None = None, *, id: int | None = None
    ) -> Exchange:
        """Send a request and wait for its response."""
        exchange = self._exchange(wire, method, params or {}, id)
        connection = self._connection(exchange, BOUND_S)
        connection.run("POST", self.headers(wire, method, exchange.params), _body(exchange))
        return exchange

    def begin(
        self, wire: Wire, method: str, params: JSON, kind: str, task_id: str | None = None
    ) -> Exchange:
        """Send a request whose response may take any time."""
        exchange = self._exchange(wire, method, params, None)
        exchange.channel = self._channel(wire, kind, task_id)
        connection = self._connection(exchange, None)
        connection.begin("POST", self.headers(wire, method, exchange.params), _body(exchange))
        return exchange

    def subscribe(self, task_ids: list[str]) -> Exchange:
        """Send `subscriptions/listen` and wait for its acknowledgement."""
        params = {"notifications": {"taskIds": task_ids}}
        subscribing = self.begin(NEW, "subscriptions/listen", params, "subscription")
        self.evidence.until(
            lambda: (
                subscribing.done.is_set() or (subscribing.channel and subscribing.channel.messages)
            ),
            BOUND_S,
        )
        return subscribing

    def open_get_stream(self, last_event_id: str | None = None) -> Exchange:
        """Open the GET stream of the session."""
        if self.get_stream is not None:
            self.connections[self.get_stream].abandon()  # the server ends it
        exchange = self._exchange(OLD, "GET", {}, None)
        exchange.channel = self._channel(OLD, GET_STREAM)
        self._get(exchange, last_event_id)
        self.get_stream = exchange
        return exchange

    def drop(self, exchange: Exchange) -> None:
        self.connections[exchange].drop()

    def resume(self, exchange: Exchange) -> None:
        """Resume a stream after its last event."""
        assert exchange.channel is not None
        exchange.is_dropped = False
        exchange.done.clear()
        exchange.streaming.clear()
        exchange.channel.opened.append(now())
        self._get(exchange, exchange.channel.last_event_id)

    def post(self, wire: Wire, message: Any) -> Exchange:
        """Post any message and wait for the HTTP response."""
        return self.raw("POST", self.headers(wire, "", {}), json.dumps(message).encode())

    def reply(self, id: Any, result: JSON) -> None:
        """Respond to a request of the server."""
        assert self.post(OLD, {"jsonrpc": "2.0", "id": id, "result": result}).status == 202

    def cancel_wait(self, exchange: Exchange) -> None:
        """Send `notifications/cancelled` for a request."""
        exchange.is_dropped, exchange.cancelled_at = True, now()
        params = {"requestId": exchange.id}
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        assert self.post(exchange.wire, message).status == 202

    def raw(self, verb: str, headers: JSON, body: bytes | None = None) -> Exchange:
        """Send any HTTP request."""
        exchange = Exchange(self.owner, OLD, verb, {}, 0)
        Connection(self.address, exchange, self.evidence, BOUND_S).run(verb, headers, body)
        assert exchange.failure is None, f"{verb} {body!r}: {exchange.failure}"
        return exchange

    def close(self) -> None:
        for connection in self.connections.values():
            connection.drop()
        if self.session is not None:
            self.end_session()

    # --- on the wire -------------------------------------------------------------------------

    def _exchange(self, wire: Wire, method: str, params: JSON, id: int | None) -> Exchange:
        if wire == NEW:
            params = {**params, "_meta": {**meta(), **params.get("_meta", {})}}
        id = next(self._ids) if id is None else id
        session = self.session if wire == OLD else None
        exchange = Exchange(self.owner, wire, method, params, id, session=session)
        self.evidence.exchanges.append(exchange)
        return exchange

    def _channel(self, wire: Wire, kind: str, task_id: str | None = None) -> Channel:
        session = self.session if wire == OLD else None
        channel = Channel(self.owner, wire, kind, session, task_id)
        self.evidence.channels.append(channel)
        return channel

    def _connection(self, exchange: Exchange, timeout_s: float | None) -> Connection:
        connection = Connection(self.address, exchange, self.evidence, timeout_s)
        self.connections[exchange] = connection
        return connection

    def _get(self, exchange: Exchange, last_event_id: str | None) -> None:
        headers = self.headers(OLD, "", {}) | {"Accept": "text/event-stream"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = last_event_id
        self._connection(exchange, None).begin("GET", headers, None)
        assert exchange.streaming.wait(BOUND_S), "the server opened no stream"
        assert exchange.status == 200, f"the stream was refused: {exchange.raw!r}"

    def headers(self, wire: Wire, method: str, params: JSON) -> JSON:
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        if wire == NEW:
            headers |= {"MCP-Protocol-Version": NEW, "Mcp-Method": method}
            if method in _NAMED_BY:
                headers["Mcp-Name"] = str(params[_NAMED_BY[method]])
        elif method != "initialize":
            headers |= {"MCP-Protocol-Version": OLD, "Mcp-Session-Id": self.session or ""}
        return headers


def _body(exchange: Exchange) -> bytes:
    request = {"jsonrpc": "2.0", "id": exchange.id, "method": exchange.method}
    return json.dumps({**request, "params": exchange.params}).encode()
