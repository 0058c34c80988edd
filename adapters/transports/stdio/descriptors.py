"""Reading and writing any kind of file descriptor without blocking the event loop.

Daemon threads read and write the raw descriptors.  asyncio's pipes do not support regular files,
and make descriptors non-blocking for every process that shares them; buffered files have locks
that a blocked thread still holds when the interpreter exits.
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

PAUSE_READING: Final = MAX_BYTES
"""Pending output in bytes above which nothing more is read from the peer."""

MAX_PENDING: Final = 16 * MAX_BYTES
"""Pending output in bytes above which the connection is ended."""


def take_input(fd: int) -> int:
    """Return the input; standard input is moved to a new descriptor, and 0 reads nothing."""
    if fd != 0:
        return fd
    taken, nothing = os.dup(fd), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, fd)
    os.close(nothing)
    return taken


def take_output(fd: int) -> int:
    """Return the output; standard output is moved to a new descriptor, and 1 goes to stderr.

    2025-11-25:stdio-stdout-only-mcp, also if a tool, or a program that it starts, prints.
    """
    if fd != 1:
        return fd
    taken = os.dup(fd)
    os.dup2(2, fd)
    sys.stdout.flush()  # to stderr: a program that serves its own tools may have printed before
    return taken


class Input:
    """Reads a chunk only when one is requested, so that unread data stays in the pipe."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._wanted = threading.Semaphore(0)
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        threading.Thread(target=self._read, name=f"read {fd}", daemon=True).start()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield chunks until the end of the input."""
        while True:
            self._wanted.release()
            chunk = await self._chunks.get()
            if not chunk:
                return
            yield chunk

    def _read(self) -> None:
        chunk = b"."
        with contextlib.suppress(RuntimeError):  # the loop may be closed
            while chunk:
                self._wanted.acquire()
                chunk = self._next()
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)

    def _next(self) -> bytes:
        while True:
            try:
                return os.read(self._fd, CHUNK)
            except BlockingIOError:  # another process may have made it non-blocking
                _wait(self._fd, select.POLLIN)
            except OSError as error:  # such as a connection reset
                log.info("cannot read the input, treating this as its end: %s", error.strerror)
                return b""


class Output:
    """Writes in the background, in order.

    `ended` is done when no more can be written.  It has an error unless the peer closed the pipe.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._is_writing = False
        self._progressed = asyncio.Event()
        self._queue: SimpleQueue[bytes] = SimpleQueue()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        threading.Thread(target=self._write, name=f"write {fd}", daemon=True).start()

    def put(self, line: bytes) -> None:
        """Write a line and a newline later; after the end it is dropped."""
        if self.ended.done():
            return
        self._lines.append(line)
        self._size += len(line) + 1
        if self._size > MAX_PENDING:
            self._end(TaskmachineError(f"the client does not read: {self._size} bytes pending"))
        elif not self._is_writing:
            self._enqueue()

    async def room(self) -> None:
        """Wait until the pending output is small enough to read more input."""
        await self._until(PAUSE_READING)

    async def written(self) -> None:
        """Wait until all output is written."""
        await self._until(0)

    async def _until(self, size: int) -> None:
        while self._size > size and not self.ended.done():
            self._progressed.clear()
            await self._progressed.wait()

    def _enqueue(self) -> None:
        self._is_writing = True
        lines: list[bytes] = []
        size = 0
        while self._lines and size < CHUNK:
            lines.append(self._lines.popleft())
            size += len(lines[-1])
        self._queue.put(b"\n".join(lines) + b"\n")

    def _wrote(self, size: int) -> None:
        self._size -= size
        self._is_writing = False
        if self._lines:
            self._enqueue()
        self._progressed.set()

    def _end(self, error: TaskmachineError | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None) if error is None else self.ended.set_exception(error)
        self._lines.clear()
        self._progressed.set()

    def _write(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop may be closed
            while True:
                data = self._queue.get()
                try:
                    self._write_all(data)
                except OSError as error:
                    self._loop.call_soon_threadsafe(self._end, _output_error(error))
                    return
                self._loop.call_soon_threadsafe(self._wrote, len(data))

    def _write_all(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._fd, left) :]
            except BlockingIOError:
                _wait(self._fd, select.POLLOUT)


def _output_error(error: OSError) -> TaskmachineError | None:
    if isinstance(error, BrokenPipeError | ConnectionResetError):
        return None  # the peer may disconnect at any time
    return TaskmachineError(f"cannot write the output: {error.strerror}")


def _wait(fd: int, event: int) -> None:
    poll = select.poll()
    poll.register(fd, event)
    poll.poll()
