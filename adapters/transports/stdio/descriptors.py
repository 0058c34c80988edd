"""Bytes from and to a file descriptor, of whatever kind, without blocking the event loop.

Reading and writing are done by daemon threads on the raw descriptors.  asyncio's own pipes take
no regular files, and switch descriptors to non-blocking for everybody who shares them; buffered
files have locks that a blocked thread still holds when the interpreter ends.
"""

import asyncio
import contextlib
import logging
import os
import select
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator
from queue import SimpleQueue
from typing import Final

from taskmachine.protocol.jsonvalue import MAX_BYTES
from taskmachine.statemachine import TaskmachineError

__all__ = ["Input", "Output", "take_input", "take_output"]

log: Final = logging.getLogger("taskmachine")

CHUNK: Final = 64 * 1024

ENOUGH: Final = MAX_BYTES
"""Bytes that wait to be read by the peer: with more than these nothing more is read from it."""

TOO_MUCH: Final = 16 * MAX_BYTES
"""What was under way can still be answered up to here; then the peer is given up."""


def take_input(fd: int) -> int:
    """The same input, for us alone if it is the standard one: others read nothing there."""
    if fd != 0:
        return fd
    taken, nothing = os.dup(fd), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, fd)
    os.close(nothing)
    return taken


def take_output(fd: int) -> int:
    """The same output, for us alone if it is the standard one: what others print is logged.

    2025-11-25:stdio-stdout-only-mcp, whatever a tool does, or a program that it starts.
    """
    if fd != 1:
        return fd
    sys.stdout.flush()
    taken = os.dup(fd)
    os.dup2(2, fd)
    return taken


class Input:
    """Reads only when it is asked to: what nobody takes stays in the pipe."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._wanted = threading.Semaphore(0)
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        threading.Thread(target=self._read, name=f"read {fd}", daemon=True).start()

    async def chunks(self) -> AsyncIterator[bytes]:
        """What comes in, until the end."""
        while True:
            self._wanted.release()
            chunk = await self._chunks.get()
            if not chunk:
                return
            yield chunk

    def _read(self) -> None:
        chunk = b"."
        with contextlib.suppress(RuntimeError):  # the loop may be closed: nobody listens
            while chunk:
                self._wanted.acquire()
                chunk = self._next()
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)

    def _next(self) -> bytes:
        while True:
            try:
                return os.read(self._fd, CHUNK)
            except BlockingIOError:  # somebody who shares it made it so
                _wait(self._fd, select.POLLIN)
            except OSError as error:  # as of a connection that was reset
                log.info("the input ended: %s", error.strerror)
                return b""


class Output:
    """Writes in the background, in order.

    `ended` is done when no more can be written: the peer is gone, or has an error if it is
    there and does not read, or there was another reason.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._is_writing = False
        self._moved = asyncio.Event()
        self._orders: SimpleQueue[bytes] = SimpleQueue()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        threading.Thread(target=self._write, name=f"write {fd}", daemon=True).start()

    def put(self, line: bytes) -> None:
        """To be written, with a newline.  Dropped after the end."""
        if self.ended.done():
            return
        self._lines.append(line)
        self._size += len(line) + 1
        if self._size > TOO_MUCH:
            self._end(TaskmachineError(f"the client does not read: {self._size} bytes wait for it"))
        elif not self._is_writing:
            self._order()

    async def room(self) -> None:
        """Back when not too much waits to be read by the peer."""
        await self._until(ENOUGH)

    async def written(self) -> None:
        """Back when nothing waits any more."""
        await self._until(0)

    async def _until(self, size: int) -> None:
        while self._size > size and not self.ended.done():
            self._moved.clear()
            await self._moved.wait()

    def _order(self) -> None:
        self._is_writing = True
        lines: list[bytes] = []
        size = 0
        while self._lines and size < CHUNK:
            lines.append(self._lines.popleft())
            size += len(lines[-1])
        self._orders.put(b"\n".join(lines) + b"\n")

    def _did(self, size: int) -> None:
        self._size -= size
        self._is_writing = False
        if self._lines:
            self._order()
        self._moved.set()

    def _end(self, error: TaskmachineError | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None) if error is None else self.ended.set_exception(error)
        self._lines.clear()
        self._moved.set()

    def _write(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop may be closed: nobody waits
            while True:
                data = self._orders.get()
                try:
                    self._write_all(data)
                except OSError as error:
                    self._loop.call_soon_threadsafe(self._end, _blamed(error))
                    return
                self._loop.call_soon_threadsafe(self._did, len(data))

    def _write_all(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._fd, left) :]
            except BlockingIOError:
                _wait(self._fd, select.POLLOUT)


def _blamed(error: OSError) -> TaskmachineError | None:
    if isinstance(error, BrokenPipeError | ConnectionResetError):
        return None  # a peer may go whenever it wants
    return TaskmachineError(f"the output cannot be written: {error.strerror}")


def _wait(fd: int, event: int) -> None:
    poll = select.poll()
    poll.register(fd, event)
    poll.poll()
