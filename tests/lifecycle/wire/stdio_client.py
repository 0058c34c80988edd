"""A client on the standard input and output of a server, in both generations at once."""

import json
import threading
from itertools import count
from typing import IO, Any

from tests.lifecycle.wire.http_client import HELLO, meta
from tests.lifecycle.wire.record import JSON, NEW, OLD, PIPE, Channel, Evidence, Exchange, Wire, now
from tests.lifecycle.wire.tool_control import BOUND_S

__all__ = ["STDIO", "StdioClient"]

STDIO = "stdio"
_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


class StdioClient:
    """The client of the stdio server; each run records into its own evidence."""

    owner = STDIO
    session: str | None = None
    get_stream: Exchange | None = None

    def __init__(self, source: IO[bytes], sink: IO[bytes]) -> None:
        self._sink = sink
        self._ids = count(1)
        self._pending: dict[int | str, Exchange] = {}
        self._taking = threading.Lock()
        self.record_in(Evidence())
        self._reading = threading.Thread(target=self._read, args=(source,))
        self._reading.start()

    def record_in(self, evidence: Evidence) -> None:
        """Record all further messages in this evidence."""
        with self._taking:
            self.evidence = evidence
            self._channel = Channel(STDIO, OLD, PIPE)
            evidence.channels.append(self._channel)
            self._pending.clear()

    def initialize(self) -> None:
        self.ask(OLD, "initialize", HELLO)
        self.post(OLD, {"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(
        self, wire: Wire, method: str, params: JSON | None = None, *, id: int | None = None
    ) -> Exchange:
        exchange = self._send(wire, method, params or {}, id, None)
        if not exchange.done.wait(BOUND_S):
            exchange.failure = "timeout"
        return exchange

    def begin(
        self, wire: Wire, method: str, params: JSON, kind: str, task_id: str | None = None
    ) -> Exchange:
        return self._send(wire, method, params, None, None)

    def subscribe(self, task_ids: list[str]) -> Exchange:
        channel = Channel(STDIO, NEW, "subscription")
        self.evidence.channels.append(channel)
        params = {"notifications": {"taskIds": task_ids}}
        subscribing = self._send(NEW, "subscriptions/listen", params, None, channel)
        self.evidence.until(lambda: channel.messages or subscribing.done.is_set(), BOUND_S)
        return subscribing

    def cancel_wait(self, exchange: Exchange) -> None:
        exchange.is_dropped, exchange.cancelled_at = True, now()
        params: JSON = {"requestId": exchange.id}
        if exchange.wire == NEW:
            params["_meta"] = meta()
        self.post(OLD, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def drop(self, exchange: Exchange) -> None:
        """Cancel a request, since stdio has no connection to close."""
        if not exchange.done.is_set():
            self.cancel_wait(exchange)

    def post(self, wire: Wire, message: Any) -> None:
        self.write(json.dumps(message).encode())

    def reply(self, id: Any, result: JSON) -> None:
        self.post(OLD, {"jsonrpc": "2.0", "id": id, "result": result})

    def write(self, line: bytes) -> None:
        self._sink.write(line + b"\n")
        self._sink.flush()

    def close(self) -> None:
        """Cancel all pending requests at the end of a run."""
        for exchange in list(self._pending.values()):
            self.drop(exchange)

    def join(self) -> None:
        self._reading.join()

    def _send(
        self, wire: Wire, method: str, params: JSON, id: int | None, channel: Channel | None
    ) -> Exchange:
        if wire == NEW:
            params = {**params, "_meta": {**meta(), **params.get("_meta", {})}}
        id = next(self._ids) if id is None else id
        exchange = Exchange(STDIO, wire, method, params, id, channel=channel)
        self.evidence.exchanges.append(exchange)
        self._pending[id] = exchange
        request = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        self.post(wire, request)
        return exchange

    def _read(self, source: IO[bytes]) -> None:
        for line in source:
            with self._taking:
                self._take(line)

    def _take(self, line: bytes) -> None:
        self.evidence.raw.append((STDIO, line))
        try:
            message = json.loads(line)
        except ValueError:
            self.evidence.problems.append(f"the server wrote a line that is not JSON: {line!r}")
            return
        if "method" in message:
            subscription = message.get("params", {}).get("_meta", {}).get(_SUBSCRIPTION)
            subscribing = self._pending.get(subscription)
            place = subscribing.channel if subscribing is not None else None
            self.evidence.receive(place or self._channel, message)
            return
        if message.get("id") is None:  # the error for a request that could not be parsed
            self.evidence.receive(self._channel, message)
            return
        exchange = self._pending.get(message["id"])
        if exchange is None:
            self.evidence.problems.append(f"a response to no request: {message}")
            return
        exchange.complete(message, line.strip())
        with self.evidence.changed:
            exchange.done.set()
            self.evidence.changed.notify_all()
