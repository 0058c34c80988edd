"""A raw HTTP/1.1 client: one keep-alive connection that plays scripts.

A script is a generator that yields requests as bytes and is sent the answers.  The thin client
keeps its own cost out of the measurement.
"""

import asyncio
from collections.abc import Generator
from typing import Final, NamedTuple, TypeVar

__all__ = ["Answer", "Connection", "Script", "WrongAnswer", "read_answer"]

MAX_BYTES: Final = 8_000_000
"""Maximum size of an answer, far above the largest that is measured."""

_T = TypeVar("_T")


class WrongAnswer(Exception):
    """An answer that does not match the request; it does not count as a fast answer."""


class Answer(NamedTuple):
    status: int
    head: bytes
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        """Return the value of a header, given its name in lower case."""
        return header_of(self.head, self.head.lower(), name)

    def messages(self) -> list[bytes]:
        """Return the JSON texts: the body itself, or the data of each event of a stream."""
        if not (self.header(b"content-type") or b"").startswith(b"text/event-stream"):
            return [self.body]
        found: list[bytes] = []
        data: list[bytes] = []
        for line in self.body.splitlines():
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif not line:
                found.append(b"\n".join(data))
                data = []
        return [text for text in found if text]


Script = Generator[bytes, Answer, _T]


def header_of(head: bytes, lowered: bytes, name: bytes) -> bytes | None:
    at = lowered.find(b"\r\n%b:" % name)
    if at < 0:
        return None
    start = at + len(name) + 3
    end = head.find(b"\r\n", start)
    return head[start : len(head) if end < 0 else end].strip()


def read_answer(data: bytes) -> tuple[Answer, int] | None:
    """Return the first complete answer in the data and its end, or None if it is incomplete."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    if not data.startswith(b"HTTP/1.1 "):
        raise WrongAnswer(f"not an HTTP/1.1 answer: {data[:60]!r}")
    head = data[:end]
    lowered = head.lower()
    status = int(head[9:12])
    length = header_of(head, lowered, b"content-length")
    if length is not None:
        stop = end + 4 + int(length)
        if len(data) < stop:
            return None
        return Answer(status, head, data[end + 4 : stop]), stop
    if header_of(head, lowered, b"transfer-encoding") != b"chunked":
        raise WrongAnswer(f"an answer without a length: {head!r}")
    read = _read_chunks(data, end + 4)
    return None if read is None else (Answer(status, head, read[0]), read[1])


def _read_chunks(data: bytes, at: int) -> tuple[bytes, int] | None:
    parts: list[bytes] = []
    while True:
        line = data.find(b"\r\n", at)
        if line < 0:
            return None
        size = int(data[at:line].partition(b";")[0], 16)
        stop = line + 2 + size
        if len(data) < stop + 2:
            return None
        if data[stop : stop + 2] != b"\r\n":
            raise WrongAnswer("a chunk that does not end where it says")
        if size == 0:
            return b"".join(parts), stop + 2
        parts.append(data[line + 2 : stop])
        at = stop + 2


class Connection(asyncio.Protocol):
    """Play one script at a time and count the requests sent."""

    def __init__(self) -> None:
        self.sent = 0
        self._received = b""
        self._transport: asyncio.Transport | None = None
        self._script: Script[object] | None = None
        self._done: asyncio.Future[object] | None = None

    async def play(self, script: Script[_T]) -> _T:
        assert self._script is None
        self._script = script
        done = self._done = asyncio.get_running_loop().create_future()
        self._advance(None)
        returned: _T = await done
        return returned

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's class is unrelated

    def connection_lost(self, exc: Exception | None) -> None:
        if self._script is not None:
            self._end(None, WrongAnswer(f"the server hung up: {exc}"))

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data if self._received else data
        if self._script is None:  # after an error, or unrequested
            return
        try:
            read = read_answer(received)
            if read is None:
                if len(received) > MAX_BYTES:
                    raise WrongAnswer("an answer without an end")
                return
            answer, end = read
            if end != len(received):
                raise WrongAnswer(f"more than the answer: {received[end : end + 60]!r}")
        except (WrongAnswer, ValueError) as error:
            self._end(None, error)
            return
        self._received = b""
        self._advance(answer)

    def _advance(self, answer: Answer | None) -> None:
        assert self._script is not None
        assert self._transport is not None
        try:
            request = next(self._script) if answer is None else self._script.send(answer)
        except StopIteration as stop:
            self._end(stop.value, None)
        except Exception as error:  # noqa: BLE001  # passed to the caller of play()
            self._end(None, error)
        else:
            if self._transport.is_closing():
                self._end(None, WrongAnswer("the server has hung up"))
                return
            self.sent += 1
            self._transport.write(request)

    def _end(self, value: object, error: Exception | None) -> None:
        done, self._done, self._script = self._done, None, None
        if done is None or done.done():  # the caller was cancelled
            return
        if error is None:
            done.set_result(value)
        else:
            done.set_exception(error)
