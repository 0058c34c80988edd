"""A server on two file descriptors: one JSON-RPC message for each line.

Both revisions may be used on the same pipe, even at the same time: each message goes to the
conversation of its revision, and the conversations share the tasks.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Any, Final, Literal

from taskmachine.adapters.runtime.observer import Carrier
from taskmachine.adapters.runtime.runtime import Runtime, new_id
from taskmachine.adapters.transports.auth.owners import STDIO
from taskmachine.adapters.transports.connection.conversation import Conversation
from taskmachine.adapters.transports.connection.server_info import describe_server
from taskmachine.adapters.transports.stdio.descriptors import Input, Output, take_input, take_output
from taskmachine.protocol import receivers
from taskmachine.protocol.dialects.receiver import choose
from taskmachine.protocol.errors import MalformedMessage
from taskmachine.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    PARSE_ERROR,
    Error,
    ErrorResponse,
    Id,
    Message,
    Notification,
    Request,
    decode_message,
    encode_message,
)
from taskmachine.protocol.jsonvalue import MAX_BYTES, decode_json
from taskmachine.protocol.outputs import Send

__all__ = ["LineSplitter", "serve_stdio"]

log: Final = logging.getLogger("taskmachine")

DRAIN_S: Final = 1.0
"""How long pending requests may take after the end of the input."""

FLUSH_S: Final = 1.0

LINES_PER_TURN: Final = 4
"""Lines handled in one turn of the event loop; one turn for each line takes a third longer."""


async def serve_stdio(
    runtime: Runtime,
    *,
    dialect: Literal["erlmcp"] | None = None,
    input_fd: int = 0,
    output_fd: int = 1,
) -> None:
    """Serve one client until the input ends or the client closes the output.

    The standard descriptors are redirected for the rest of the process, so that a tool, or a
    program that it starts, cannot read or write protocol messages.
    """
    output = Output(take_output(output_fd))
    pipe = _Pipe(runtime, dialect, output)
    serving = asyncio.create_task(_serve(Input(take_input(input_fd)), pipe, output))
    try:
        await asyncio.wait({serving, output.ended}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await pipe.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_S):
                await output.written()
    for finished in (serving, output.ended):
        if finished.done() and not finished.cancelled():
            finished.result()


async def _serve(source: Input, pipe: "_Pipe", output: Output) -> None:
    lines = LineSplitter()
    async for chunk in source.chunks():
        for number, line in enumerate(lines.feed(chunk), start=1):
            await output.room()
            pipe.take(line)
            if number % LINES_PER_TURN == 0:  # so that many lines do not delay responses
                await asyncio.sleep(0)
    for line in lines.end():
        pipe.take(line)
    await pipe.finish()


class LineSplitter:
    """Splits chunks of bytes into lines; a line that is too long becomes None.

    Empty lines are left out.
    """

    def __init__(self) -> None:
        self._begun = bytearray()
        self._is_skipping = False

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        """Yield the lines that this chunk completes."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield from self._append(end)
            yield from self.end()
        yield from self._append(rest)

    def end(self) -> Iterator[bytes]:
        """Yield the line that has begun, at its end or at the end of the input."""
        line = bytes(self._begun).strip()  # some peers also send a carriage return
        self._begun.clear()
        self._is_skipping = False
        if line:
            yield line

    def _append(self, part: bytes) -> Iterator[None]:
        if self._is_skipping:
            return
        self._begun += part
        if len(self._begun) > MAX_BYTES + 1:  # with a carriage return
            self._begun.clear()
            self._is_skipping = True
            yield None


class _Pipe:
    """Passes each line to its conversation, and the conversations' messages to the output."""

    def __init__(self, runtime: Runtime, dialect: str | None, output: Output) -> None:
        offer = describe_server(runtime.tools, listing=True)  # one caller, who sees only its own
        self._output = output
        self._sent = asyncio.Event()
        self._conversations = {
            spoken: Conversation(
                runtime,
                spoken,
                offer,
                owner=STDIO,
                new_id=new_id,
                send=self._send,
                carrier=Carrier("pipe"),
            )
            for spoken in receivers(dialect)
        }

    def take(self, line: bytes | None) -> None:
        """Handle a line of the input; None if it was too long."""
        if line is None:
            self._send_error(Error(PARSE_ERROR, f"Parse error: more than {MAX_BYTES} bytes"))
            return
        try:
            message = decode_message(line)
        except MalformedMessage as error:
            if _needs_response(line, error):
                self._send_error(Error(error.code, error.reason), error.id)
            else:
                log.warning("dropped a malformed message: %s", error.reason)
            return
        try:
            self._belongs_to(message).receive(message)
        except Exception:  # one message must not end the connection
            log.exception("failed to handle a message")
            if isinstance(message, Request):
                self._send_error(Error(INTERNAL_ERROR, "Internal error"), message.id)

    async def finish(self) -> None:
        """End the watches and wait for pending responses, after the end of the input."""
        for conversation in self._conversations.values():
            conversation.end_watches()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                while any(c.receiver.pending for c in self._conversations.values()):
                    self._sent.clear()
                    await self._sent.wait()

    async def close(self) -> None:
        """Stop everything that the conversations run, except for tasks."""
        for conversation in self._conversations.values():
            conversation.end_watches()
            await conversation.close()

    def _belongs_to(self, message: Message) -> Conversation:
        awaiting = None
        if isinstance(message, Request):
            # The conversation that has a pending request with this id refuses it.
            awaiting = self._awaiting(message.id)
        elif isinstance(message, Notification) and message.method == "notifications/cancelled":
            awaiting = self._awaiting(message.params.get("requestId"))
        return awaiting or self._conversations[choose([*self._conversations], message)]

    def _awaiting(self, id: Any) -> Conversation | None:
        if not isinstance(id, str | int):
            return None
        return next((c for c in self._conversations.values() if c.receiver.is_pending(id)), None)

    def _send(self, said: Send) -> None:
        self._output.put(encode_message(said.message))
        self._sent.set()

    def _send_error(self, error: Error, id: Id | None = None) -> None:
        self._output.put(encode_message(ErrorResponse(id, error)))


def _needs_response(line: bytes, error: MalformedMessage) -> bool:
    """Return whether it may be a request, and not a notification or a response."""
    if error.code == INVALID_PARAMS:
        return error.id is not None
    if error.code == PARSE_ERROR:
        return True
    value = decode_json(line)
    return not isinstance(value, dict) or "method" in value or not value.keys() & _ANSWERS


_ANSWERS: Final = frozenset({"result", "error"})
