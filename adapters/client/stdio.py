"""A server as a child process that exchanges one message per line."""

import asyncio
import contextlib
import logging
import os
import shlex
import signal
from collections.abc import Sequence
from typing import Final, cast

from taskmachine.adapters.client.connection import Listener
from taskmachine.adapters.client.errors import ConnectionLost
from taskmachine.protocol.errors import MalformedMessage
from taskmachine.protocol.jsonrpc import (
    INTERNAL_ERROR,
    Error,
    ErrorResponse,
    Message,
    Notification,
    decode_message,
    encode_message,
)
from taskmachine.protocol.jsonvalue import MAX_BYTES, JSONObject
from taskmachine.statemachine import ConfigurationError

__all__ = ["StdioTransport", "start"]

log: Final = logging.getLogger("taskmachine")

EXIT_S: Final = 1.0  # between the end of the output and the exit status
PATIENCE_S: Final = 2.0  # for each step of the shutdown: end of input, SIGTERM, SIGKILL


async def start(command: Sequence[str], listener: Listener) -> "StdioTransport":
    """Start a server, which inherits our standard error.

    Its own process group shields it from Ctrl-C and lets its children end with it.
    """
    loop = asyncio.get_running_loop()
    try:
        _, protocol = await loop.subprocess_exec(
            lambda: StdioTransport(listener), *command, stderr=None, start_new_session=True
        )
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"cannot start {command[0]!r}: {_reason(error, command)}"
        ) from None
    return protocol


def _reason(error: Exception, command: Sequence[str]) -> str:
    if command[0].endswith(".py") and os.path.isfile(command[0]):
        return f"did you mean 'python {shlex.join(command)}'?"
    if isinstance(error, FileNotFoundError):
        return "there is no such program"
    return str(error)


class StdioTransport(asyncio.SubprocessProtocol):
    """A child process and its pipes."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._line = bytearray()
        self._exited = asyncio.Event()
        self._is_closing = False
        self._silence: asyncio.TimerHandle | None = None
        """Set when the output has ended; reports that unless the process exits first."""
        self._process: asyncio.SubprocessTransport
        self._stdin: asyncio.WriteTransport

    # --- transport --------------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        """Write a message.  A server that does not read for too long is considered lost."""
        if self._stdin.is_closing():
            return
        self._stdin.write(encode_message(message) + b"\n")
        if self._stdin.get_write_buffer_size() > 2 * MAX_BYTES:
            self._end("the server does not read its input")

    async def begin(self, first: Notification) -> None:
        """Send the notification that completes the handshake."""
        self.send(first)

    def admit(self, tools: list[JSONObject]) -> list[JSONObject]:
        """Accept all tools."""
        return tools

    async def close(self) -> None:
        """Close the server's input, wait, terminate it, wait, kill it."""
        self._is_closing = True
        if self._silence is not None:
            self._silence.cancel()
        self._stdin.abort() if self._stdin.get_write_buffer_size() else self._stdin.close()
        for signum in (None, signal.SIGTERM, signal.SIGKILL):  # 2025-11-25:shutdown-close-stdin
            if signum is not None:
                self._signal(signum)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    await self._exited.wait()
                    break
        self._signal(signal.SIGKILL)  # any children it left behind
        self._process.close()
        await asyncio.sleep(0)  # pipes are closed by callbacks

    def _signal(self, signum: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.get_pid(), signum)

    # --- asyncio protocol -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Record the started process."""
        self._process = cast(asyncio.SubprocessTransport, transport)
        self._stdin = cast(asyncio.WriteTransport, self._process.get_pipe_transport(0))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Split its output into lines."""
        first, *others = data.split(b"\n")
        self._line += first
        for piece in others:
            line, self._line = bytes(self._line), bytearray(piece)
            self._take(line)
        if len(self._line) > MAX_BYTES:
            self._line.clear()
            self._end(f"the server wrote a line of more than {MAX_BYTES} bytes")

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Handle a closed pipe."""
        if fd == 1:  # the server may end like this, but pending requests get no answer
            why = "the server closed its output"
            self._silence = asyncio.get_running_loop().call_later(EXIT_S, self._end, why)
            if self._exited.is_set():
                self._end(why)

    def process_exited(self) -> None:
        """Record the exit; output left in the pipe is read first."""
        self._exited.set()
        if self._silence is not None:
            self._end("")

    # --- internals --------------------------------------------------------------------------------

    def _take(self, line: bytes) -> None:
        if self._is_closing or not line.strip():
            return
        try:
            message = decode_message(line)
        except MalformedMessage as error:
            log.warning("ignoring output of the server that is not a message: %s", error)
            if error.id is None:
                return
            message = ErrorResponse(error.id, Error(INTERNAL_ERROR, f"bad answer: {error}"))
        self._listener.received(message)

    def _end(self, why: str) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        status = self._process.get_returncode()
        if status is not None:
            why = f"the server ended with status {status}"
        self._listener.gone(ConnectionLost(why))
