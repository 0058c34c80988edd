"""Transports to a target: a process with pipes, or HTTP."""

import asyncio
import contextlib
import json
import os
import re
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

import httpx

from taskmachine.adapters.conformance.errors import CannotCheck
from taskmachine.adapters.conformance.history import MISSING
from taskmachine.adapters.conformance.recorder import MOST_BYTES
from taskmachine.adapters.conformance.wire.sse import Event, EventReader, EventTooLarge

__all__ = ["HttpTransport", "StdioTransport", "parse", "read_body", "read_events"]

LEAVING_S: Final = 5.0  # for a process to exit after its input was closed
PATIENCE_S: Final = 2.0  # for each further step: terminate, kill
KEPT_STDERR: Final = 40  # lines
CHUNK: Final = 65_536
CONNECT_S: Final = 5.0
KEEPALIVE_S: Final = 2.0
"""Most servers close idle connections after 5 s; the tester closes them earlier, to avoid races."""
MOST_SHOWN: Final = 200  # characters of a log
_WORDS: Final = re.compile(r"\w.*\S")


def parse(text: bytes) -> tuple[Any, str | None]:
    """Decode JSON, or return MISSING and a printable text."""
    try:
        return json.loads(text.decode("utf-8")), None
    except (ValueError, RecursionError):
        return MISSING, text[:2_000].decode("utf-8", "replace")


class StdioTransport:
    """A target that is a child process: one message per line.

    It has its own process group, so that its descendants end with it.
    """

    def __init__(self, heard: Callable[[bytes], None], over: Callable[[str, bool], None]) -> None:
        """Initialize; `over` receives the reason of the end, and whether the process exited."""
        self.stderr: deque[str] = deque(maxlen=KEPT_STDERR)
        self._heard = heard
        self._over = over
        self._process: asyncio.subprocess.Process
        self._readers: list[asyncio.Task[None]] = []
        self._is_closing = False

    async def start(self, command: Sequence[str]) -> None:
        """Start the process. Raise CannotCheck if it cannot be started."""
        pipe = asyncio.subprocess.PIPE
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise CannotCheck(f"cannot start {command[0]!r}: {reason}") from None
        self._readers = [
            asyncio.create_task(self._read_stdout()),
            asyncio.create_task(self._read_stderr()),
        ]

    def send(self, line: bytes) -> None:
        """Write a line."""
        assert self._process.stdin is not None
        if not self._process.stdin.is_closing():
            self._process.stdin.write(line + b"\n")

    async def close(self) -> bool:
        """Close the input, then terminate, then kill the process group.

        Return whether the process exited by itself.
        """
        self._is_closing = True
        assert self._process.stdin is not None
        self._process.stdin.close()
        leaves = False
        for signum in (None, signal.SIGTERM, signal.SIGKILL):
            if signum is not None:
                self._signal(signum)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVING_S if signum is None else PATIENCE_S):
                    await self._process.wait()
                    leaves = signum is None
                    break
        self._signal(signal.SIGKILL)
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        with contextlib.suppress(ConnectionError):
            await self._process.stdin.wait_closed()
        return leaves

    def kill(self) -> None:
        """Kill the process group."""
        self._is_closing = True
        self._signal(signal.SIGKILL)

    def _signal(self, signum: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signum)

    async def _read_stdout(self) -> None:
        assert self._process.stdout is not None
        line = bytearray()
        while chunk := await self._process.stdout.read(CHUNK):
            first, *others = chunk.split(b"\n")
            line += first
            for piece in others:
                if line.strip():
                    self._heard(bytes(line))
                line = bytearray(piece)
            if len(line) > MOST_BYTES:
                self._signal(signal.SIGKILL)
                self._end(f"it wrote a line of more than {MOST_BYTES} bytes", True)
                return
        if line.strip():
            self._heard(bytes(line))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                status = await self._process.wait()
                how = f"signal {-status}" if status < 0 else f"status {status}"
                self._end(f"its process ended with {how}{await self._last_words()}", True)
                return
        self._end("it closed its output", False)

    async def _last_words(self) -> str:
        """Return the last line of the log, which often contains the reason."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.shield(self._readers[1])
        lines = [words.group() for line in self.stderr if (words := _WORDS.search(line))]
        return f": {lines[-1][:MOST_SHOWN]}" if lines else ""

    async def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(CHUNK):
            self.stderr.extend(chunk.decode("utf-8", "replace").splitlines()[-KEPT_STDERR:])

    def _end(self, why: str, is_gone: bool) -> None:
        if not self._is_closing:
            self._over(why, is_gone)


class HttpTransport:
    """A target with a URL."""

    def __init__(
        self, url: str, headers: Mapping[str, str], *, keepalive_s: float = KEEPALIVE_S
    ) -> None:
        self.url = url
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise CannotCheck(f"{url!r} is not a URL: {error}") from None
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise CannotCheck(f"{url!r} is not an http:// or https:// URL")
        self._client = httpx.AsyncClient(
            headers={"User-Agent": "taskmachine-check", **headers},
            timeout=httpx.Timeout(None, connect=CONNECT_S),
            limits=httpx.Limits(
                max_connections=None, max_keepalive_connections=20, keepalive_expiry=keepalive_s
            ),
        )

    @contextlib.asynccontextmanager
    async def open(
        self, method: str, headers: Mapping[str, str], body: bytes | None
    ) -> AsyncIterator[httpx.Response]:
        """Send a request. Raise httpx.HTTPError if it or the response fails."""
        async with self._client.stream(
            method, self.url, headers=dict(headers), content=body
        ) as response:
            yield response

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()


async def read_body(response: httpx.Response) -> bytes:
    """Read the body up to the limit."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MOST_BYTES:
            raise httpx.ReadError(f"it sent a response of more than {MOST_BYTES} bytes")
    return bytes(body)


async def read_events(response: httpx.Response, reader: EventReader) -> AsyncIterator[Event]:
    """Yield the events of a stream."""
    try:
        async for chunk in response.aiter_bytes():
            for event in reader.feed(chunk):
                yield event
    except EventTooLarge as error:
        raise httpx.ReadError(str(error)) from None
