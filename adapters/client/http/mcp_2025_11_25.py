"""Streamable HTTP of 2025-11-25: sessions, resumable streams, and the GET stream."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Final

import httpx

from taskmachine.adapters.client.connection import Listener
from taskmachine.adapters.client.errors import ConnectionLost, Refused, SessionLost
from taskmachine.adapters.client.http.transport import (
    STREAM,
    Endpoint,
    Posts,
    answer_in,
    content_type,
    is_answer,
    messages_of,
)
from taskmachine.adapters.client.sse import Parser
from taskmachine.protocol.dialects.mcp_2025_11_25.messages import REVISION
from taskmachine.protocol.jsonrpc import (
    Message,
    Notification,
    Request,
)
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.statemachine import TaskmachineError

__all__ = ["LegacyHttp"]

log: Final = logging.getLogger("taskmachine")

SESSION: Final = "MCP-Session-Id"
RETRY_MS: Final = 1_000  # if the server does not set one
LONGEST_RETRY_MS: Final = 30_000
MOST_FRUITLESS: Final = 8  # reconnections in a row without a message
GOODBYE_S: Final = 2.0


class LegacyHttp:
    """A transport with a session."""

    def __init__(self, endpoint: Endpoint, listener: Listener) -> None:
        self._endpoint = endpoint
        self._listener = listener
        self._posts = Posts()
        self._headers: Mapping[str, str] = {}
        """None before the handshake; then the version and, if the server assigned one, the session.
        """
        self._session: str | None = None

    def send(self, message: Message) -> None:
        """Send each message in a POST."""
        match message:
            case Request(id=id):
                self._posts.start(self._exchange(message), id)
            case Notification(method="notifications/cancelled", params=cancelled):
                # 2025-11-25:cancel-sent-explicitly, after which its stream is useless.
                self._posts.start(self._tell(message))
                self._posts.drop(cancelled)
            case _:
                self._posts.start(self._tell(message))

    async def begin(self, first: Notification) -> None:
        """Open the GET stream after the handshake."""
        session = {} if self._session is None else {SESSION: self._session}
        self._headers = {"MCP-Protocol-Version": REVISION, **session}
        await self._tell(first)
        self._posts.start(self._listen(self._headers))

    def admit(self, tools: list[JSONObject]) -> list[JSONObject]:
        """Accept all tools."""
        return tools

    async def close(self) -> None:
        """Close all streams and delete the session."""
        await self._posts.close()
        if self._session is not None:  # 2025-11-25:session-deleted-by-client
            with contextlib.suppress(ConnectionLost, TimeoutError):
                async with asyncio.timeout(GOODBYE_S):
                    # The headers are incomplete if the handshake has failed.
                    await self._endpoint.delete({SESSION: self._session, **self._headers})

    # --- one message -----------------------------------------------------------------------------

    async def _tell(self, message: Message) -> None:
        headers = self._headers
        try:
            async with self._endpoint.post(message, headers) as response:
                self._check_session(response, headers)
                if not response.is_success:
                    log.warning("the server refused a message: HTTP %s", response.status_code)
        except SessionLost:
            pass  # reported to the listener already
        except TaskmachineError as error:
            log.warning("a message did not reach the server: %s", error)

    async def _exchange(self, request: Request) -> None:
        try:
            await self._follow(request)
        except TaskmachineError as error:
            self._listener.lost(request.id, error)

    async def _follow(self, request: Request) -> None:
        """Wait for the answer, reconnecting as often as necessary."""
        parser = Parser()
        headers = self._headers
        try:
            async with self._endpoint.post(request, headers) as response:
                self._check_session(response, headers)
                if request.method == "initialize":
                    self._session = response.headers.get(SESSION)
                if not response.is_success or content_type(response) != STREAM:
                    self._listener.received(await answer_in(response, request))
                    return
                if await self._read(response, parser, request):
                    return
        except ConnectionLost:
            if not parser.last_event_id:
                raise
        await self._resume(parser, headers, request)

    def _check_session(self, response: httpx.Response, headers: Mapping[str, str]) -> None:
        session = headers.get(SESSION)
        if response.status_code != 404 or session is None:
            return
        if session == self._session:  # 2025-11-25:session-404-starts-new-session; reported once
            self._session, self._headers = None, {}
            self._listener.expired()
        raise SessionLost("the server lost the session")

    async def _read(
        self, response: httpx.Response, parser: Parser, request: Request | None
    ) -> bool:
        """Deliver the messages of a stream; return whether the request was answered."""
        async with contextlib.aclosing(messages_of(response, parser)) as messages:
            async for message in messages:
                self._listener.received(message)
                if request is not None and is_answer(message, request):
                    return True
        return False

    # --- streams ---------------------------------------------------------------------------------

    async def _listen(self, headers: Mapping[str, str]) -> None:
        """Deliver the messages of the GET stream; without it, changes arrive later, by polling."""
        parser = Parser()
        with contextlib.suppress(TaskmachineError):
            await self._open(parser, headers, None)
            await self._resume(parser, headers, None)

    async def _resume(
        self, parser: Parser, headers: Mapping[str, str], request: Request | None
    ) -> None:
        """Reconnect until the answer arrives; raise ConnectionLost after too many tries."""
        fruitless = 0
        while fruitless < MOST_FRUITLESS and (request is None or parser.last_event_id):
            backed_off = min(RETRY_MS * 2**fruitless, LONGEST_RETRY_MS)
            wait_ms = backed_off if parser.retry_ms is None else parser.retry_ms
            await asyncio.sleep(wait_ms / 1_000)  # 2025-11-25:sse-retry-respected
            before = parser.last_event_id
            try:
                if await self._open(parser, headers, request):
                    return
                is_fruitful = request is None or parser.last_event_id != before
            except SessionLost:
                break  # the server may have processed a call on this stream
            except ConnectionLost:
                is_fruitful = parser.last_event_id != before
            fruitless = 0 if is_fruitful else fruitless + 1
        raise ConnectionLost("the stream ended before the answer")

    async def _open(
        self, parser: Parser, headers: Mapping[str, str], request: Request | None
    ) -> bool:
        parser.restart()
        resumed = {"Last-Event-ID": parser.last_event_id} if parser.last_event_id else {}
        async with self._endpoint.get({**headers, **resumed}) as response:
            self._check_session(response, headers)
            if response.is_server_error:  # the server may be restarting
                raise ConnectionLost(f"HTTP {response.status_code}")
            if not response.is_success or content_type(response) != STREAM:
                raise Refused(response.status_code, "the server has no such stream")
            return await self._read(response, parser, request)
