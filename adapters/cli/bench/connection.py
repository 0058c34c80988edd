"""A raw HTTP/1.1 client: one kept-alive connection that plays scripts.

A script is a generator: it yields a request as bytes and is sent the answer.  Nothing stands
between it and the socket, so that the server is what is measured and not the client.
"""

import asyncio
from collections.abc import Generator
from typing import Final, NamedTuple, TypeVar

__all__ = ["Answer", "Connection", "Script", "WrongAnswer", "read_answer"]

MAX_BYTES: Final = 8_000_000
"""Of an answer: the largest that is measured is far below."""

_T = TypeVar("_T")


class WrongAnswer(Exception):
    """What came back is not what was asked for.  It does not count as a fast answer."""


class Answer(NamedTuple):
    status: int
    head: bytes
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        """By its name in lower case."""
        return header_of(self.head, self.head.lower(), name)

    def messages(self) -> list[bytes]:
        """The JSON texts: the body itself, or the data of each event of a stream."""
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
    """The first answer of what was received, and where it ends; None if more must come."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    if not data.startswith(b"HTTP/1.1 "):
        raise WrongAnswer(f"no answer of HTTP/1.1: {data[:60]!r}")
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
    """Plays one script at a time, and counts the requests as they are sent."""

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
        self._transport = transport  # type: ignore[assignment]  # uvloop's is of no such class

    def connection_lost(self, exc: Exception | None) -> None:
        if self._script is not None:
            self._end(None, WrongAnswer(f"the server hung up: {exc}"))

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data if self._received else data
        if self._script is None:  # its end was an error, or nobody asked
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
        except Exception as error:  # noqa: BLE001  # whoever plays the script gets it
            self._end(None, error)
        else:
            if self._transport.is_closing():
                self._end(None, WrongAnswer("the server has hung up"))
                return
            self.sent += 1
            self._transport.write(request)

    def _end(self, value: object, error: Exception | None) -> None:
        done, self._done, self._script = self._done, None, None
        if done is None or done.done():  # whoever waited was cancelled
            return
        if error is None:
            done.set_result(value)
        else:
            done.set_exception(error)
