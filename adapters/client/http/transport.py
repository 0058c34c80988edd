"""HTTP as used by both revisions: one POST per message, answers as JSON or events."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from importlib.metadata import version
from typing import Any, Final

import httpx

from taskmachine.adapters.client.errors import BadAnswer, ConnectionLost, Refused
from taskmachine.adapters.client.sse import EventTooLarge, Parser
from taskmachine.adapters.client.target import how_to_start
from taskmachine.protocol.errors import MalformedMessage
from taskmachine.protocol.jsonrpc import (
    INVALID_REQUEST,
    ErrorResponse,
    Id,
    Message,
    Request,
    ResultResponse,
    decode_message,
    encode_message,
)
from taskmachine.protocol.jsonvalue import MAX_BYTES, JSONObject
from taskmachine.statemachine import ConfigurationError

__all__ = [
    "JSON",
    "STREAM",
    "Endpoint",
    "Posts",
    "answer_in",
    "content_type",
    "is_answer",
    "messages_of",
]

log: Final = logging.getLogger("taskmachine")

JSON: Final = "application/json"
STREAM: Final = "text/event-stream"
CONNECT_S: Final = 10.0
TURNS: Final = 20
"""Event loop iterations needed to close the unfinished generators of httpx."""


class Endpoint:
    """A URL with its connection pool."""

    def __init__(self, url: str, *, token: str | None, timeout: float) -> None:
        """Consider an answer lost after one and a half times `timeout` without a byte.

        The request itself has timed out by then.
        """
        headers = {"User-Agent": f"taskmachine/{version('taskmachine')}"}
        if token is not None:
            if not token or not token.isascii() or not token.isprintable() or " " in token:
                raise ConfigurationError("a token consists of visible ASCII characters")
            headers["Authorization"] = f"Bearer {token}"
        try:
            self._url = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise ConfigurationError(f"{url!r} is not a valid URL: {error}") from None
        silence = 1.5 * timeout
        self._client = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(silence, connect=min(CONNECT_S, timeout), pool=None),
            limits=httpx.Limits(max_connections=None),  # an open stream must not block a poll
        )

    @contextlib.asynccontextmanager
    async def post(
        self, message: Message, headers: Mapping[str, str]
    ) -> AsyncIterator[httpx.Response]:
        """Send a message; raise ConnectionLost if sending or reading the answer fails."""
        more = {"Accept": f"{JSON}, {STREAM}", "Content-Type": JSON, **headers}
        async with self._open("POST", more, encode_message(message)) as response:
            yield response

    @contextlib.asynccontextmanager
    async def get(self, headers: Mapping[str, str]) -> AsyncIterator[httpx.Response]:
        """Open a stream; raise ConnectionLost if opening or reading it fails."""
        async with self._open("GET", {"Accept": STREAM, **headers}) as response:
            yield response

    async def delete(self, headers: Mapping[str, str]) -> None:
        """Delete a session and ignore the answer."""
        async with self._open("DELETE", headers):
            pass

    @contextlib.asynccontextmanager
    async def _open(
        self, method: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> AsyncIterator[httpx.Response]:
        try:
            async with self._client.stream(
                method, self._url, headers=headers, content=body
            ) as response:
                yield response
        except (httpx.HTTPError, httpx.StreamError) as error:
            words = str(error) or type(error).__name__
            if isinstance(error, httpx.ConnectError):
                words += how_to_start(str(self._url))
            raise ConnectionLost(f"no connection to {self._url}: {words}") from None

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()
        for _ in range(TURNS):
            await asyncio.sleep(0)


def content_type(response: httpx.Response) -> str:
    """Return the media type of a response without parameters."""
    named: str = response.headers.get("Content-Type", "")
    return named.partition(";")[0].strip().lower()


def is_answer(message: Message, request: Request) -> bool:
    """Return whether a message answers the request."""
    return isinstance(message, ResultResponse | ErrorResponse) and message.id == request.id


async def answer_in(response: httpx.Response, request: Request) -> Message:
    """Return the answer in the body of a response; raise Refused or BadAnswer if there is none.

    The id is restored in errors without one: the server rejected the request before parsing it.
    """
    try:
        message = decode_message(await _body(response)) if content_type(response) == JSON else None
    except MalformedMessage as error:
        message = None
        if response.is_success:
            raise BadAnswer(f"the answer to {request.method} is invalid: {error}") from None
    if isinstance(message, ErrorResponse) and message.id in (None, request.id):
        if response.status_code in (401, 404) and message.error.code == INVALID_REQUEST:
            raise _refused(response, message.error.message)  # HTTP is the problem, not the message
        return ErrorResponse(request.id, message.error)
    if not response.is_success:
        raise _refused(response)
    if message is not None and is_answer(message, request):
        return message
    what = (
        "another message" if content_type(response) == JSON else content_type(response) or "no type"
    )
    raise BadAnswer(f"the server answered {request.method} with {what} instead of a response")


def _refused(response: httpx.Response, reason: str = "") -> Refused:
    words = f"the server answered with HTTP {response.status_code} {response.reason_phrase}"
    if response.is_redirect:
        # Redirects are not followed, because they would forward the token.
        words += f": use {response.headers.get('Location')} instead"
    if reason:
        words += f": {reason}"
    return Refused(response.status_code, words.strip())


async def _body(response: httpx.Response) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MAX_BYTES:
            raise BadAnswer(f"the answer has more than {MAX_BYTES} bytes")
    return bytes(body)


async def messages_of(response: httpx.Response, parser: Parser) -> AsyncGenerator[Message, None]:
    """Iterate over the messages of an event stream; raise BadAnswer for anything else.

    The caller must close the generator if it stops early.
    """
    async for chunk in response.aiter_bytes():
        try:
            for event in parser.feed(chunk):
                if event.type == "message" and event.data:
                    yield decode_message(event.data.encode())
        except (EventTooLarge, MalformedMessage) as error:
            raise BadAnswer(f"an event is not a JSON-RPC message: {error}") from None


class Posts:
    """The running requests, each in a task of its own."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()
        self._requests: dict[Id, asyncio.Task[None]] = {}

    def start(self, work: Coroutine[Any, Any, None], id: Id | None = None) -> None:
        """Start a request; one with an id can be dropped."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        if id is not None:
            self._requests[id] = task
            task.add_done_callback(lambda _: self._requests.pop(id, None))

    def drop(self, cancelled: JSONObject) -> None:
        """Close the stream of a cancelled request."""
        task = self._requests.get(cancelled.get("requestId", ""))
        if task is not None:
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("sending a message failed: %r", error, exc_info=error)

    async def close(self) -> None:
        """Cancel all running requests."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
