"""A bug in front of a server on pipes: lines are relayed between two pairs of descriptors."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

from taskmachine.adapters.runtime.runtime import Runtime
from taskmachine.adapters.transports.stdio.descriptors import Input, Output, take_input, take_output
from taskmachine.adapters.transports.stdio.server import serve_stdio
from tests.conformance.planting import HANG_UP, STAY, Head, Instead, Later, Message
from tests.conformance.proxy.between import Between, as_bytes, as_object

__all__ = ["serve_broken"]


async def serve_broken(runtime: Runtime, between: Between) -> None:
    """The correct server in this process, the tester at the standard descriptors."""
    to_server, from_server = os.pipe(), os.pipe()
    relay = _Relay(between, Output(take_output(1)), Output(to_server[1]))
    serving = asyncio.create_task(
        serve_stdio(runtime, input_fd=to_server[0], output_fd=from_server[1])
    )
    answering = asyncio.create_task(relay.answer(Input(from_server[0])))
    await relay.ask(Input(take_input(0)))
    os.close(to_server[1])
    await serving
    os.close(from_server[1])
    await answering
    await relay.finish()


class _Relay:
    def __init__(self, between: Between, tester: Output, server: Output) -> None:
        self._between = between
        self._tester = tester
        self._server = server
        self._later: set[asyncio.Task[None]] = set()

    async def ask(self, source: Input) -> None:
        """Everything that the tester says, until it has said everything."""
        async for line in _lines(source):
            asked = as_object(line)
            bug, between = self._between.bug, self._between
            passed: Message | bytes | Instead | None
            if asked is None:
                passed = between.watched(bug.client_bytes, line, line, Head())
            else:
                passed = between.watched(bug.client_message, asked, as_object(line), Head())
            if isinstance(passed, Instead):
                await self._answer_instead(passed)
            elif isinstance(passed, dict):
                if asked is not None and {"method", "id"} <= passed.keys():
                    between.remember("", passed["id"], asked)
                self._server.put(line if passed == asked else as_bytes(passed))
            elif passed is not None:
                self._server.put(passed)
        await self._server.written()

    async def answer(self, source: Input) -> None:
        """Everything that the server says."""
        async for line in _lines(source):
            message = as_object(line)
            said = [line] if message is None else self._between.server_message("", message, Head())
            for one in said:
                await self._put(one)

    async def finish(self) -> None:
        """Back when everything is said."""
        await asyncio.gather(*self._later)
        await self._tester.written()

    async def _answer_instead(self, instead: Instead) -> None:
        for message in instead.messages if instead.raw is None else [instead.raw]:
            await self._put(message)
        if instead.exits:
            await self._exit()

    async def _put(self, message: Any) -> None:
        if isinstance(message, Later):
            later = asyncio.create_task(self._put_later(message))
            self._later.add(later)
            later.add_done_callback(self._later.discard)
        elif message is HANG_UP:
            await self._exit()
        elif message is not STAY:
            # The newline comes by itself.
            self._tester.put(as_bytes(message).removesuffix(b"\n"))

    async def _put_later(self, later: Later) -> None:
        await asyncio.sleep(later.seconds)
        await self._put(later.message)

    async def _exit(self) -> None:
        await self._tester.written()
        os._exit(1)


async def _lines(source: Input) -> AsyncIterator[bytes]:
    """Without the newline; the last one may lack it anyway."""
    begun = b""
    async for chunk in source.chunks():
        *lines, begun = (begun + chunk).split(b"\n")
        for line in lines:
            yield line
            await asyncio.sleep(0)  # answers are under way as well
    if begun:
        yield begun
