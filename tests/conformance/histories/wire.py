"""Histories written by hand on the level of the wire: heads, events, ends, texts that are no JSON.

    web().request("ping", id=1).head(200).answer({}).ends().history

`told` is the shorter way where only messages count.  Time passes by 10 ms with each entry, or by
`after` milliseconds.
"""

from collections.abc import Mapping
from typing import Any, Literal

import attrs

from taskmachine.adapters.conformance.history import MISSING, Entry, History, Http, Kind

__all__ = ["Wire", "pipe", "web"]


@attrs.define
class Wire:
    """A history that grows.  What is heard belongs to what was sent last, unless `post` is told."""

    transport: Literal["stdio", "http"]
    revision: Literal["2025-11-25", "2026-07-28"]
    entries: list[Entry] = attrs.field(factory=list)
    _last: Any = None
    _post: int | None = None
    _posts: int = 0
    _line: int = 1
    _caller: str = "A"

    @property
    def history(self) -> History:
        """All that happened."""
        return History(self.revision, self.transport, list(self.entries), {"A": None, "B": None})

    def on(self, line: int, caller: str = "A") -> "Wire":
        """From now on this line is meant."""
        self._line, self._caller = line, caller
        return self

    # --- the tester ------------------------------------------------------------------------------

    def request(self, method: str, params: Any = None, *, id: Any = MISSING, **how: Any) -> "Wire":
        """A request; its id is a new number unless there is one."""
        number = len(self.entries) + 1 if id is MISSING else id
        message = {"jsonrpc": "2.0", "id": number, "method": method}
        return self.sent(message if params is None else {**message, "params": params}, **how)

    def notify(self, method: str, params: Any = None, **how: Any) -> "Wire":
        """A notification."""
        message = {"jsonrpc": "2.0", "method": method}
        return self.sent(message if params is None else {**message, "params": params}, **how)

    def sent(
        self,
        message: Any = MISSING,
        *,
        text: str | None = None,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        after: float = 10,
    ) -> "Wire":
        """Whatever: a message, or a text that is none; over HTTP by any HTTP method."""
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
    ) -> "Wire":
        """The head of an HTTP answer; `_` in names of headers stands for a hyphen."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        http = Http(status=status, headers=({"content-type": kind} if kind else {}) | named)
        return self._add(Kind.HEAD, after, http=http)

    def stream(self, after: float = 10) -> "Wire":
        """The head of a stream of events."""
        return self.head(200, "text/event-stream", after)

    def answer(self, result: Any, *, id: Any = MISSING, **how: Any) -> "Wire":
        """A result."""
        own = self._last if id is MISSING else id
        return self.says({"jsonrpc": "2.0", "id": own, "result": result}, **how)

    def error(
        self, code: Any, message: Any = "no", *, data: Any = MISSING, id: Any = MISSING, **how: Any
    ) -> "Wire":
        """An error."""
        error = {"code": code, "message": message} | ({} if data is MISSING else {"data": data})
        own = self._last if id is MISSING else id
        return self.says({"jsonrpc": "2.0", "id": own, "error": error}, **how)

    def tells(self, method: str, params: Any = None, *, id: Any = MISSING, **how: Any) -> "Wire":
        """A notification; with an id it is a question."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        message |= {} if params is None else {"params": params}
        return self.says(message | ({} if id is MISSING else {"id": id}), **how)

    def says(
        self,
        message: Any = MISSING,
        *,
        text: str | None = None,
        event: str | None = None,
        retry: int | None = None,
        post: int | None = None,
        after: float = 10,
    ) -> "Wire":
        """Whatever: a message, or a text that is none; over HTTP after a head, if none was told."""
        http = None
        if self.transport == "http":
            here = self._post if post is None else post
            if not any(e.kind is Kind.HEAD and e.post == here for e in self.entries):
                self.head(after=0)
            http = Http(event_id=event, retry_ms=retry)
        return self._add(Kind.HEARD, after, message=message, text=text, http=http, post=post)

    # --- ends ------------------------------------------------------------------------------------

    def ends(self, *, post: int | None = None, after: float = 10) -> "Wire":
        """The target ended the answer, or its output."""
        return self._add(Kind.ENDED, after, post=post)

    def leaves(self, *, post: int | None = None, after: float = 10) -> "Wire":
        """We broke off."""
        return self._add(Kind.LEFT, after, post=post)

    def gives_up(self, *, after: float = 10_000) -> "Wire":
        """We waited in vain for the answer to the last request."""
        return self._add(Kind.GAVE_UP, after, message={"id": self._last})

    def exits(self, *, after: float = 10) -> "Wire":
        """The process is gone."""
        return self._add(Kind.EXITED, after, text="exit status 1")

    def _add(self, kind: Kind, after: float, *, post: int | None = None, **what: Any) -> "Wire":
        at = (self.entries[-1].at if self.entries else 0.0) + after
        here = self._post if post is None else post
        self.entries.append(
            Entry(len(self.entries), at, kind, self._caller, self._line, here, **what)
        )
        return self


def web(revision: Literal["2025-11-25", "2026-07-28"] = "2025-11-25") -> Wire:
    """A history over HTTP."""
    return Wire("http", revision)


def pipe(revision: Literal["2025-11-25", "2026-07-28"] = "2025-11-25") -> Wire:
    """A history over a pipe."""
    return Wire("stdio", revision)
