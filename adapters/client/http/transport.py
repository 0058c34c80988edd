"""Messages over HTTP, as both generations have it: a POST for each, answers as JSON or events."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from importlib.metadata import version
from typing import Any, Final

import httpx

from taskmachine.adapters.client.errors import BadAnswer, ConnectionLost, Refused
from taskmachine.adapters.client.sse import EventTooLarge, Parser
from taskmachine.protocol.errors import MalformedMessage
from taskmachine.protocol.jsonrpc import (
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
"""Of the event loop, which has to close the generators of httpx that were not read to the end."""


class Endpoint:
    """One URL, one pool of connections."""

    def __init__(self, url: str, *, token: str | None, timeout: float) -> None:
        """Without a byte for one and a half times `timeout` an answer is lost.

        Whoever waits has given up by then.
        """
        headers = {"User-Agent": f"taskmachine/{version('taskmachine')}"}
        if token is not None:
            if not token or not token.isascii() or not token.isprintable() or " " in token:
                raise ConfigurationError("a token consists of visible ASCII characters")
            headers["Authorization"] = f"Bearer {token}"
        try:
            self._url = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise ConfigurationError(f"{url!r} is no URL: {error}") from None
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
        """Send a message; ConnectionLost if that or reading the answer fails."""
        more = {"Accept": f"{JSON}, {STREAM}", "Content-Type": JSON, **headers}
        async with self._open("POST", more, encode_message(message)) as response:
            yield response

    @contextlib.asynccontextmanager
    async def get(self, headers: Mapping[str, str]) -> AsyncIterator[httpx.Response]:
        """Open a stream; ConnectionLost if that or reading it fails."""
        async with self._open("GET", {"Accept": STREAM, **headers}) as response:
            yield response

    async def delete(self, headers: Mapping[str, str]) -> None:
        """End a session; what the server says to it does not matter."""
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
            raise ConnectionLost(f"no connection to {self._url}: {words}") from None

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()
        for _ in range(TURNS):
            await asyncio.sleep(0)


def content_type(response: httpx.Response) -> str:
    """Of the answer, without parameters."""
    named: str = response.headers.get("Content-Type", "")
    return named.partition(";")[0].strip().lower()


def is_answer(message: Message, request: Request) -> bool:
    """Whether a message answers that request."""
    return isinstance(message, ResultResponse | ErrorResponse) and message.id == request.id


async def answer_in(response: httpx.Response, request: Request) -> Message:
    """The answer that is the body of a response, if there is one; else Refused or BadAnswer.

    A request that was refused before it was read is answered without its id: we know which.
    """
    try:
        message = decode_message(await _body(response)) if content_type(response) == JSON else None
    except MalformedMessage as error:
        message = None
        if response.is_success:
            raise BadAnswer(f"the answer to {request.method} is none: {error}") from None
    if isinstance(message, ErrorResponse) and message.id in (None, request.id):
        return ErrorResponse(request.id, message.error)
    if not response.is_success:
        raise _refused(response)
    if message is not None and is_answer(message, request):
        return message
    what = "something else" if content_type(response) == JSON else content_type(response) or "?"
    raise BadAnswer(f"the answer to {request.method} is none, but {what}")


def _refused(response: httpx.Response) -> Refused:
    words = f"the server answered with HTTP {response.status_code} {response.reason_phrase}"
    if response.is_redirect:
        # A secret in a header must not follow to wherever somebody points.
        words += f": use {response.headers.get('Location')} instead"
    return Refused(response.status_code, words.strip())


async def _body(response: httpx.Response) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MAX_BYTES:
            raise BadAnswer(f"the answer has more than {MAX_BYTES} bytes")
    return bytes(body)


async def messages_of(response: httpx.Response, parser: Parser) -> AsyncGenerator[Message, None]:
    """The messages on a stream of events; BadAnswer if there is something else.

    Whoever stops early closes it.
    """
    async for chunk in response.aiter_bytes():
        try:
            for event in parser.feed(chunk):
                if event.type == "message" and event.data:
                    yield decode_message(event.data.encode())
        except (EventTooLarge, MalformedMessage) as error:
            raise BadAnswer(f"an event is no message: {error}") from None


class Posts:
    """What is on its way, each in a task of its own."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()
        self._requests: dict[Id, asyncio.Task[None]] = {}

    def start(self, work: Coroutine[Any, Any, None], id: Id | None = None) -> None:
        """Let it run; with an id it can be dropped."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)
        if id is not None:
            self._requests[id] = task
            task.add_done_callback(lambda _: self._requests.pop(id, None))

    def drop(self, cancelled: JSONObject) -> None:
        """Nobody waits for that request any more: its stream is closed."""
        task = self._requests.get(cancelled.get("requestId", ""))
        if task is not None:
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("a message was not carried: %r", error, exc_info=error)

    async def close(self) -> None:
        """Stop everything."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
