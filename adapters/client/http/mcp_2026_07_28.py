"""Streamable HTTP of 2026-07-28: stateless requests with descriptive headers."""

import contextlib
import logging
from typing import Final

from taskmachine.adapters.client.connection import Listener
from taskmachine.adapters.client.errors import ConnectionLost
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
from taskmachine.protocol.dialects.mcp_2026_07_28.headers import headers_of, mirrored_parameters
from taskmachine.protocol.errors import InvalidParams
from taskmachine.protocol.jsonrpc import (
    METHOD_NOT_FOUND,
    ErrorResponse,
    Message,
    Notification,
    Request,
)
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.statemachine import TaskmachineError

__all__ = ["ModernHttp"]

log: Final = logging.getLogger("taskmachine")


class ModernHttp:
    """A transport without sessions."""

    def __init__(self, endpoint: Endpoint, listener: Listener) -> None:
        self.is_recognized = False
        """Whether the server rejected an unknown method as only this revision does."""
        self._endpoint = endpoint
        self._listener = listener
        self._posts = Posts()
        self._mirrored: dict[str, dict[str, tuple[str, ...]]] = {}

    def send(self, message: Message) -> None:
        """Send a request, or cancel one by closing its stream."""
        match message:
            case Request(id=id):
                self._posts.start(self._exchange(message), id)
            case Notification(method="notifications/cancelled", params=cancelled):
                self._posts.drop(cancelled)  # 2026-07-28:http-disconnect-is-cancel
            case _:  # 2026-07-28:http-no-responses
                raise AssertionError("nothing else is sent in this generation")

    async def begin(self, first: Notification) -> None:
        """Do nothing: this revision has no handshake."""

    def admit(self, tools: list[JSONObject]) -> list[JSONObject]:
        """Store which parameters are sent as headers; reject malformed declarations."""
        admitted = []
        for tool in tools:
            try:
                self._mirrored[tool["name"]] = mirrored_parameters(tool["inputSchema"])
            except ValueError as error:
                log.warning("ignoring tool %r: %s", tool["name"], error)
            else:
                admitted.append(tool)
        return admitted

    async def close(self) -> None:
        """Close all streams."""
        await self._posts.close()

    async def _exchange(self, request: Request) -> None:
        try:
            await self._follow(request)
        except TaskmachineError as error:
            self._listener.lost(request.id, error)

    async def _follow(self, request: Request) -> None:
        mirrored = self._mirrored.get(request.params.get("name", ""))
        try:
            headers = headers_of(request, mirrored)
        except ValueError as error:
            raise InvalidParams(str(error)) from None
        async with self._endpoint.post(request, headers) as response:
            if not response.is_success or content_type(response) != STREAM:
                answer = await answer_in(response, request)
                self._recognize(response.status_code, answer)
                self._listener.received(answer)
                return
            async with contextlib.aclosing(messages_of(response, Parser())) as messages:
                async for message in messages:
                    self._listener.received(message)
                    if is_answer(message, request):
                        return
        raise ConnectionLost(f"the stream ended before the answer to {request.method}")

    def _recognize(self, status: int, answer: Message) -> None:
        if isinstance(answer, ErrorResponse) and status == 404:
            self.is_recognized |= answer.error.code == METHOD_NOT_FOUND
