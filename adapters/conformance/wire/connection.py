"""A connection to a target that records everything sent and received."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import count
from typing import Any, Final

import httpx

from taskmachine.adapters.conformance.history import MISSING, Entry, Exchange, Http, Kind, id_key
from taskmachine.adapters.conformance.recorder import MOST_BYTES, Flooded, Recorder
from taskmachine.adapters.conformance.wire.annotations import header_parameters
from taskmachine.adapters.conformance.wire.answering import Reply, answer
from taskmachine.adapters.conformance.wire.metadata import routing_headers, with_meta
from taskmachine.adapters.conformance.wire.pending import Pending, TargetLost, Work
from taskmachine.adapters.conformance.wire.sse import EventReader
from taskmachine.adapters.conformance.wire.transports import (
    HttpTransport,
    StdioTransport,
    parse,
    read_body,
    read_events,
)

__all__ = ["PATIENCE_MS", "Connection"]

PATIENCE_MS: Final = 10_000.0
RESUMPTIONS: Final = 5
LONGEST_RETRY_MS: Final = 1_000.0


class Connection:
    """A caller's connection; sends any message, valid or not.

    Requests carry what their revision requires: a session, or metadata and headers. `answering`
    answers the target's requests immediately; if it returns None, a request stays open for `reply`.
    """

    def __init__(
        self,
        name: str,
        revision: str,
        recorder: Recorder,
        *,
        capabilities: Mapping[str, Any],
        headers: Mapping[str, str],
        web: HttpTransport | None = None,
        patience_ms: float = PATIENCE_MS,
    ) -> None:
        self.name = name
        self.line = recorder.new_line()
        self.start_ms = 0.0
        """Additional time for the first response of a process."""
        self._patience_ms = patience_ms
        self._has_received = False
        self._has_left = False
        self.answering: Callable[[Entry], Reply | None] = lambda entry: answer(
            entry.method, entry.params
        )
        self.closed_reason: str | None = None
        """Why the connection cannot be used any more."""
        self.session: dict[str, str] = {}
        """Headers of the 2025-11-25 session."""
        self.capabilities = dict(capabilities)
        """The client's capabilities."""
        self.mirrored: dict[str, Mapping[tuple[str, ...], str]] = {}
        """2026-07-28: by tool, the parameters that headers repeat."""
        self.pipe: StdioTransport | None = None
        self._revision = revision
        self._recorder = recorder
        self._headers = dict(headers)
        self._web = web
        self._ids = count(1)
        self._pending: dict[tuple[str, Any], Pending] = {}
        self._work: set[Work] = set()

    @property
    def patience_ms(self) -> float:
        """Time limit of a response."""
        return self._patience_ms if self._has_received else self._patience_ms + self.start_ms

    # --- opening and closing ---------------------------------------------------------------------

    async def connect(self, command: Sequence[str]) -> None:
        """Start the target's process."""
        self.pipe = StdioTransport(self._line_received, self._lost)
        await self.pipe.start(command)

    async def close(self) -> None:
        """End open requests, then the session or the process."""
        await asyncio.gather(*(work.cancel() for work in self._work))
        if self.pipe is not None:
            is_ours = self.closed_reason is None
            if is_ours:
                self._add(Kind.LEFT, text="the tester closed its input")
                self.closed_reason = "the tester disconnected"
            leaves = await self.pipe.close()
            if is_ours and leaves:
                self._add(Kind.EXITED, text="its process exited")
            elif is_ours:
                self._add(Kind.GAVE_UP, text="its process had to be killed")
        elif "mcp-session-id" in self.session and self.closed_reason is None:
            await self.send(b"", method="DELETE", wait_ms=2_000)

    # --- sending ---------------------------------------------------------------------------------

    def start(
        self,
        method: str,
        params: Any = None,
        *,
        id: Any = None,
        headers: Mapping[str, str | None] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Pending:
        """Send a request. Raise TargetLost if the connection has ended.

        `headers` overrides HTTP headers, `meta` is merged into `params._meta`; None removes an
        entry of either. `params` may be of any JSON type. Without an id the next number is used.
        """
        message = {"jsonrpc": "2.0", "id": next(self._ids) if id is None else id, "method": method}
        filled = self._with_meta(params, meta)
        if filled is not None:
            message["params"] = filled
        return self._start(message, "POST", self._all_headers(message, headers))

    async def request(
        self, method: str, params: Any = None, *, wait_ms: float | None = None, **options: Any
    ) -> Exchange:
        """Send a request and wait for the response."""
        return await self.start(method, params, **options).answer(wait_ms)

    async def notify(
        self, method: str, params: Any = None, *, headers: Mapping[str, str | None] | None = None
    ) -> Entry | None:
        """Send a notification, and return the head of the HTTP response."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        filled = self._with_meta(params, None) if self._revision == "2026-07-28" else params
        if filled is not None:
            message["params"] = filled
        return (await self.send(message, headers=headers)).head

    async def reply(self, question: Entry, reply: Reply) -> Entry | None:
        """Answer a request of the target, and return the head of the HTTP response."""
        message = {"jsonrpc": "2.0", "id": question.body.get("id"), **reply}
        return (await self.send(message)).head

    async def send(
        self,
        body: Any,
        *,
        method: str = "POST",
        headers: Mapping[str, str | None] | None = None,
        wait_ms: float | None = None,
    ) -> Exchange:
        """Send bytes unchanged or anything else as JSON, over HTTP with any method.

        Over HTTP the exchange ends with the HTTP response, on stdio with the response to the
        message's id, if it has a method and an id.
        """
        pending = self.begin(body, method=method, headers=headers)
        if self.pipe is not None and not pending.request.is_request and wait_ms is None:
            return pending.exchange
        return await pending.answer(wait_ms)

    def begin(
        self, body: Any, *, method: str = "POST", headers: Mapping[str, str | None] | None = None
    ) -> Pending:
        """Like `send`, without waiting."""
        return self._start(body, method, self._all_headers(body, headers))

    def _start(self, body: Any, method: str, headers: Mapping[str, str]) -> Pending:
        if self.closed_reason is not None:
            raise TargetLost(self.closed_reason)
        if isinstance(body, bytes):
            raw, (message, text) = body, parse(body)
        else:
            raw, message, text = json.dumps(body, ensure_ascii=False).encode(), body, None
        if self._web is None:
            assert self.pipe is not None
            pending = Pending(self, self._add(Kind.SENT, message=message, text=text))
            self._await(pending)
            self.pipe.send(raw)
            return pending
        post, http = self._recorder.new_post(), Http(method, headers=headers)
        said = self._add(Kind.SENT, post=post, message=message, text=text, http=http)
        pending = Pending(self, said)
        self._await(pending)
        content = raw if method == "POST" else None
        pending.work = self._begin(self._exchange(pending, method, headers, content, post))
        return pending

    def _await(self, pending: Pending) -> None:
        if pending.request.is_request:
            self._pending[id_key(pending.id)] = pending

    def _begin(self, doing: Coroutine[Any, Any, None]) -> Work:
        work = Work(doing)
        self._work.add(work)
        work.task.add_done_callback(lambda _: self._work.discard(work))
        return work

    def _with_meta(self, params: Any, meta: Mapping[str, Any] | None) -> Any:
        is_modern = self._revision == "2026-07-28"
        return with_meta(params, meta, self.capabilities if is_modern else None)

    def _all_headers(self, body: Any, more: Mapping[str, str | None] | None) -> dict[str, str]:
        if self._web is None:
            return {}
        is_modern = self._revision == "2026-07-28"
        headers: dict[str, str | None] = {
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            **self._headers,
            **(routing_headers(body, self.mirrored) if is_modern else self.session),
        }
        headers |= {name.lower(): value for name, value in (more or {}).items()}
        return {name: value for name, value in headers.items() if value is not None}

    def learn_tools(self, tools: Any) -> None:
        """Learn which parameters headers repeat; tools with invalid annotations have none."""
        for tool in tools if isinstance(tools, list) else ():
            with contextlib.suppress(TypeError, KeyError):
                self.mirrored[tool["name"]] = header_parameters(tool["inputSchema"])

    # --- receiving -------------------------------------------------------------------------------

    def _add(self, kind: Kind, **what: Any) -> Entry:
        return self._recorder.add(kind, self.name, self.line, **what)

    def gave_up(self, pending: Pending, limit_ms: float) -> Entry:
        """Record that the caller stopped waiting."""
        waited = {"id": pending.id}
        return self._add(
            Kind.GAVE_UP, post=pending.request.post, message=waited, text=f"{limit_ms:g} ms"
        )

    def heard_since(self, pending: Pending) -> Sequence[Entry]:
        """Return the messages on the request's stream, or on stdio since it was sent."""
        return self._recorder.heard_since(pending.request)

    def _line_received(self, line: bytes) -> None:
        self._has_received = True
        try:
            self._recorder.check_limits(len(line))
            message, text = parse(line)
            self._take(self._add(Kind.HEARD, message=message, text=text), None)
        except Flooded as error:
            assert self.pipe is not None
            self.pipe.kill()
            if self.closed_reason is None:
                self._lost(str(error), False)

    def _lost(self, why: str, is_gone: bool) -> None:
        end = self._add(Kind.EXITED if is_gone else Kind.ENDED, text=why)
        self.closed_reason = why
        for pending in list(self._pending.values()):
            pending.settle(end=end)
        self._pending.clear()

    def _take(self, entry: Entry, pending: Pending | None) -> None:
        if entry.is_response:
            asked = self._pending.pop(id_key(entry.body.get("id")), None) or pending
            if asked is not None and asked.response is None:
                asked.settle(response=entry)
        elif pending is not None:
            pending.others.append(entry)
        if entry.is_request:
            reply = self.answering(entry)
            if reply is not None and self.closed_reason is None:
                self._begin(self._reply(entry, reply))

    async def _reply(self, question: Entry, reply: Reply) -> None:
        with contextlib.suppress(TargetLost):
            await self.reply(question, reply)

    async def _exchange(
        self,
        pending: Pending,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None,
        post: int,
    ) -> None:
        reader = EventReader(MOST_BYTES)
        end = await self._read(pending, method, headers, body, post, reader)
        for _ in range(RESUMPTIONS if self._revision == "2025-11-25" else 0):
            # 2025-11-25:sse-may-close-connection
            if pending.response or not pending.request.is_request or not reader.last_event_id:
                break
            try:
                await asyncio.sleep(min(reader.retry_ms or 100, LONGEST_RETRY_MS) / 1_000)
            except asyncio.CancelledError:
                pending.settle(end=self._add(Kind.LEFT, post=post))
                raise
            resumed = {**headers, "last-event-id": reader.last_event_id}
            resumed.pop("content-type", None)
            reader.reconnect()
            again = self._recorder.new_post()
            self._add(Kind.SENT, post=again, http=Http("GET", headers=resumed))
            end = await self._read(pending, "GET", resumed, None, again, reader)
        self._pending.pop(id_key(pending.id), None)
        pending.settle(end=end)

    async def _read(
        self,
        pending: Pending,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None,
        post: int,
        reader: EventReader,
    ) -> Entry:
        assert self._web is not None
        text = None
        try:
            async with self._web.open(method, headers, body) as response:
                answered = {name.lower(): value for name, value in response.headers.items()}
                head = self._add(
                    Kind.HEAD, post=post, http=Http(status=response.status_code, headers=answered)
                )
                pending.head = pending.head or head
                self._notice_lost_session(response.status_code, method, headers)
                kind = answered.get("content-type", "").partition(";")[0].strip().lower()
                if kind == "text/event-stream":
                    await self._stream(response, reader, pending, post)
                else:
                    text = await self._whole(response, kind, pending, post)
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as error:
            return self._add(Kind.ENDED, post=post, text=f"{type(error).__name__}: {error}")
        except Flooded as error:
            self.closed_reason = str(error)
            return self._add(Kind.ENDED, post=post, text=self.closed_reason)
        except asyncio.CancelledError:
            pending.settle(end=self._add(Kind.LEFT, post=post))
            raise
        return self._add(Kind.ENDED, post=post, text=text)

    def _notice_lost_session(self, status: int, method: str, sent: Mapping[str, str]) -> None:
        # 2025-11-25:session-404-starts-new-session, unless the tester ended or changed the session
        own = self.session.get("mcp-session-id")
        if method == "DELETE" and sent.get("mcp-session-id") == own:
            self._has_left = True
        elif status == 404 and own and sent.get("mcp-session-id") == own and not self._has_left:
            self.closed_reason = "its session has ended"

    async def _whole(
        self, response: httpx.Response, kind: str, pending: Pending, post: int
    ) -> str | None:
        """Take the body as one message, or its text if it is neither JSON nor declared as such."""
        body = await read_body(response)
        self._recorder.check_limits(len(body))
        if not body.strip():
            return None
        message, text = parse(body)
        if message is MISSING and kind != "application/json":
            return text
        self._take(self._add(Kind.HEARD, post=post, message=message, text=text), pending)
        return None

    async def _stream(
        self, response: httpx.Response, reader: EventReader, pending: Pending, post: int
    ) -> None:
        async for event in read_events(response, reader):
            self._recorder.check_limits(len(event.data))
            http = Http(event_id=event.id, retry_ms=reader.retry_ms)
            if not event.data:
                self._add(Kind.EVENT, post=post, http=http)
                continue
            message, text = parse(event.data.encode())
            entry = self._add(Kind.HEARD, post=post, message=message, text=text, http=http)
            self._take(entry, pending)
