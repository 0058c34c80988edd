"""A server on two file descriptors: one JSON-RPC message for each line.

Both generations are spoken on the same pipe, at the same time if need be: each message goes to
the conversation of its generation, and they share the tasks.
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
from taskmachine.adapters.transports.connection.offer import offer_of
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

__all__ = ["Lines", "serve_stdio"]

log: Final = logging.getLogger("taskmachine")

DUE_S: Final = 1.0
"""How long after the end of the input answers may take that are due at once."""

FLUSH_S: Final = 1.0

TOGETHER: Final = 4
"""Lines that are taken in one round of the event loop: a round for each costs a third more."""


async def serve_stdio(
    runtime: Runtime,
    *,
    dialect: Literal["erlmcp"] | None = None,
    input_fd: int = 0,
    output_fd: int = 1,
) -> None:
    """Serve whoever holds the other ends, until the input ends or nobody reads the output.

    The standard descriptors are taken away from everybody else, for the rest of the process: a
    tool that prints, or starts a program that reads, must not meddle with the messages.
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
    for over in (serving, output.ended):
        if over.done() and not over.cancelled():
            over.result()


async def _serve(source: Input, pipe: "_Pipe", output: Output) -> None:
    lines = Lines()
    async for chunk in source.chunks():
        for number, line in enumerate(lines.feed(chunk), start=1):
            await output.room()
            pipe.take(line)
            if number % TOGETHER == 0:  # many lines at once must not keep the answers waiting
                await asyncio.sleep(0)
    for line in lines.end():
        pipe.take(line)
    await pipe.finish()


class Lines:
    """Chunks of bytes in, lines out; None for a line that is too long, of which nothing is kept.

    Empty lines are left out.
    """

    def __init__(self) -> None:
        self._begun = bytearray()
        self._is_skipping = False

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        """The lines that are complete now."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield from self._append(end)
            yield from self.end()
        yield from self._append(rest)

    def end(self) -> Iterator[bytes]:
        """The line that has begun, as it is complete or the last one."""
        line = bytes(self._begun).strip()  # some peers end lines with a carriage return, too
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
    """Hands each line to the conversation that it belongs to, and what they say to the output."""

    def __init__(self, runtime: Runtime, dialect: str | None, output: Output) -> None:
        offer = offer_of(runtime.tools, listing=True)  # one caller, who sees only its own
        self._output = output
        self._said = asyncio.Event()
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
        """A line came in; None if it was too long to be kept."""
        if line is None:
            self._complain(Error(PARSE_ERROR, f"Parse error: more than {MAX_BYTES} bytes"))
            return
        try:
            message = decode_message(line)
        except MalformedMessage as error:
            if _wants_answer(line, error):
                self._complain(Error(error.code, error.reason), error.id)
            else:
                log.warning("a message was dropped: %s", error.reason)
            return
        try:
            self._belongs_to(message).receive(message)
        except Exception:  # one message must not cost all the others their answers
            log.exception("a message could not be taken")
            if isinstance(message, Request):
                self._complain(Error(INTERNAL_ERROR, "Internal error"), message.id)

    async def finish(self) -> None:
        """No more will come in: answer what is due at once."""
        for conversation in self._conversations.values():
            conversation.farewell()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DUE_S):
                while any(c.receiver.pending for c in self._conversations.values()):
                    self._said.clear()
                    await self._said.wait()

    async def close(self) -> None:
        """Tasks live on; everything else that the conversations have under way is stopped."""
        for conversation in self._conversations.values():
            conversation.farewell()
            await conversation.close()

    def _belongs_to(self, message: Message) -> Conversation:
        awaiting = None
        if isinstance(message, Request):
            # An id that is in use is refused by the conversation that has it.
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
        self._said.set()

    def _complain(self, error: Error, id: Id | None = None) -> None:
        self._output.put(encode_message(ErrorResponse(id, error)))


def _wants_answer(line: bytes, error: MalformedMessage) -> bool:
    """Not if it is a notification, or a response, as far as that can be told."""
    if error.code == INVALID_PARAMS:
        return error.id is not None
    if error.code == PARSE_ERROR:
        return True
    value = decode_json(line)
    return not isinstance(value, dict) or "method" in value or not value.keys() & _ANSWERS


_ANSWERS: Final = frozenset({"result", "error"})
