"""Handwritten histories on the level of the wire: HTTP heads, events, text that is not JSON.

    http().request("ping", id=1).head(200).answer({}).end().history

Where only messages matter, `messages` is shorter.  Each entry takes 10 ms, or `after`
milliseconds.
"""

from collections.abc import Mapping
from typing import Any, Literal, Self

import attrs

from taskmachine.adapters.conformance.history import MISSING, Entry, History, Http, Kind

__all__ = ["Wire", "http", "stdio"]


@attrs.define
class Wire:
    """A history builder; entries of the target belong to the last POST unless `post` is given."""

    transport: Literal["stdio", "http"]
    revision: Literal["2025-11-25", "2026-07-28"]
    principals: Mapping[str, str | None] = attrs.field(factory=lambda: {"A": None, "B": None})
    entries: list[Entry] = attrs.field(factory=list)
    _last: Any = None
    _post: int | None = None
    _posts: int = 0
    _line: int = 1
    _caller: str = "A"

    @property
    def history(self) -> History:
        """The history so far."""
        return History(self.revision, self.transport, list(self.entries), self.principals)

    def on(self, line: int, caller: str = "A") -> Self:
        """Use this line from now on."""
        self._line, self._caller = line, caller
        return self

    # --- the tester ------------------------------------------------------------------------------

    def request(self, method: str, params: Any = None, *, id: Any = MISSING, **how: Any) -> Self:
        """Send a request; the default id is a new number."""
        number = len(self.entries) + 1 if id is MISSING else id
        message = {"jsonrpc": "2.0", "id": number, "method": method}
        return self.send(message if params is None else {**message, "params": params}, **how)

    def notify(self, method: str, params: Any = None, **how: Any) -> Self:
        """Send a notification."""
        message = {"jsonrpc": "2.0", "method": method}
        return self.send(message if params is None else {**message, "params": params}, **how)

    def send(
        self,
        message: Any = MISSING,
        *,
        text: str | None = None,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        after: float = 10,
    ) -> Self:
        """Send a message, or text that is not one; over HTTP with any HTTP method."""
        http = None
        if self.transport == "http":
            self._posts += 1
            self._post = self._posts
            http = Http(method=method, headers=dict(headers or {}))
        self._last = message.get("id") if isinstance(message, dict) else None
        return self._add(Kind.SENT, after, message=message, text=text, http=http)

    # --- the target ------------------------------------------------------------------------------

    def head(
        self, status: int = 200, kind: str = "application/json", after: float = 10, **headers: str
    ) -> Self:
        """Receive the head of an HTTP response; `_` in header names stands for a hyphen."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        http = Http(status=status, headers=({"content-type": kind} if kind else {}) | named)
        return self._add(Kind.HEAD, after, http=http)

    def stream(self, after: float = 10) -> Self:
        """Receive the head of an event stream."""
        return self.head(200, "text/event-stream", after)

    def answer(self, result: Any, *, id: Any = MISSING, **how: Any) -> Self:
        """Receive a result."""
        own = self._last if id is MISSING else id
        return self.receive({"jsonrpc": "2.0", "id": own, "result": result}, **how)

    def error(
        self, code: Any, message: Any = "no", *, data: Any = MISSING, id: Any = MISSING, **how: Any
    ) -> Self:
        """Receive an error."""
        error = {"code": code, "message": message} | ({} if data is MISSING else {"data": data})
        own = self._last if id is MISSING else id
        return self.receive({"jsonrpc": "2.0", "id": own, "error": error}, **how)

    def push(self, method: str, params: Any = None, *, id: Any = MISSING, **how: Any) -> Self:
        """Receive a notification, or with an id a request."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        message |= {} if params is None else {"params": params}
        return self.receive(message | ({} if id is MISSING else {"id": id}), **how)

    def receive(
        self,
        message: Any = MISSING,
        *,
        text: str | None = None,
        event: str | None = None,
        retry: int | None = None,
        post: int | None = None,
        after: float = 10,
    ) -> Self:
        """Receive a message, or text that is not one; over HTTP after a default head if needed."""
        http = None
        if self.transport == "http":
            here = self._post if post is None else post
            if not any(e.kind is Kind.HEAD and e.post == here for e in self.entries):
                self.head(after=0)
            http = Http(event_id=event, retry_ms=retry)
        return self._add(Kind.HEARD, after, message=message, text=text, http=http, post=post)

    # --- ends ------------------------------------------------------------------------------------

    def end(self, *, post: int | None = None, after: float = 10) -> Self:
        """The target ends the response, or its output."""
        return self._add(Kind.ENDED, after, post=post)

    def disconnect(self, *, post: int | None = None, after: float = 10) -> Self:
        """The tester disconnects."""
        return self._add(Kind.LEFT, after, post=post)

    def time_out(self, *, after: float = 10_000) -> Self:
        """The tester stops waiting for the response to the last request."""
        return self._add(Kind.GAVE_UP, after, message={"id": self._last})

    def exit(self, *, after: float = 10) -> Self:
        """The process exits."""
        return self._add(Kind.EXITED, after, text="exit status 1")

    def _add(self, kind: Kind, after: float, *, post: int | None = None, **what: Any) -> Self:
        at = (self.entries[-1].at if self.entries else 0.0) + after
        here = self._post if post is None else post
        self.entries.append(
            Entry(len(self.entries), at, kind, self._caller, self._line, here, **what)
        )
        return self


def http(revision: Literal["2025-11-25", "2026-07-28"] = "2025-11-25", **options: Any) -> Wire:
    """Begin a history over HTTP."""
    return Wire("http", revision, **options)


def stdio(revision: Literal["2025-11-25", "2026-07-28"] = "2025-11-25") -> Wire:
    """Begin a history over stdio."""
    return Wire("stdio", revision)
