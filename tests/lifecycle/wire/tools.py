"""Tools that do what a test tells them: `taskmachine serve --tools tests.wire.tools:TOOLS`.

Each run connects to the address in WIRE_STRINGS and obeys one order after the other.  So a test
knows what a tool has done, and a task ends when the test says so, in whichever process it runs.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import Callable
from typing import Any, Final

from taskmachine.adapters.tools.context import Answer, Context, Request, form
from taskmachine.adapters.tools.errors import Gone
from taskmachine.adapters.tools.registry import CallError, ToolError, Tools

__all__ = ["TOOLS"]

TOOLS: Final = Tools()

_ANSWER: Final = {"type": "object", "properties": {"said": {"type": "string"}}}


def question(name: str, key: str) -> Request[Answer]:
    """What is asked under a key; its words tell which question of which task it is."""
    return form(f"{name}/{key}", _ANSWER)


@TOOLS.task()
async def steered(name: str, ctx: Context) -> str:
    """Obeys."""
    return await _obey(name, ctx)


@TOOLS.task(support="forbidden")
async def steered_plain(name: str, ctx: Context) -> str:
    """Obeys, and is never a task."""
    return await _obey(name, ctx)


@TOOLS.task(timeout=0.3)
async def hasty(name: str, asks: bool, ctx: Context) -> str:
    """Never ends by itself, and has little time."""
    if asks:
        await ctx.ask("q0", question(name, "q0"))
    await asyncio.Event().wait()
    return name


@TOOLS.task(support="forbidden")
async def inquire(name: str, ctx: Context) -> str:
    """Asks one thing and repeats the answer."""
    answer = await ctx.ask("only", question(name, "only"))
    return f"{name}: {answer.content['said']}"


async def _obey(name: str, ctx: Context) -> str:
    host, _, port = os.environ["WIRE_STRINGS"].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    puppet = _Puppet(name, ctx, writer)
    try:
        puppet.say(event="began", name=name, task_id=ctx.task_id)
        while True:
            try:
                line = await reader.readline()
            except asyncio.CancelledError:
                puppet.say(event="stopped")
                if not puppet.is_stubborn:
                    raise
                continue
            if not line:
                raise ToolError("the strings were cut")
            end = await puppet.obey(json.loads(line))
            if end is not None:
                return end()
    finally:
        puppet.close()


class _Puppet:
    """One run of a tool."""

    def __init__(self, name: str, ctx: Context, writer: asyncio.StreamWriter) -> None:
        self.is_stubborn = False
        self._name = name
        self._ctx = ctx
        self._writer = writer
        self._asking: set[asyncio.Task[None]] = set()

    def say(self, **words: Any) -> None:
        self._writer.write(json.dumps(words).encode() + b"\n")

    def close(self) -> None:
        for asking in self._asking:
            asking.cancel()
        self._writer.close()

    async def obey(self, order: dict[str, Any]) -> Callable[[], str] | None:
        """How the tool ends, if it was told to."""
        match order:
            case {"do": "progress", "value": value, "message": message}:
                await self._told(self._ctx.progress(value, 100, message))
            case {"do": "ask", "keys": keys, "park": True}:
                self.say(event="answered", answers=await self._ask(keys, park=True))
            case {"do": "ask", "keys": keys}:
                asking = asyncio.create_task(self._wait_for_answers(keys))
                self._asking.add(asking)
                self.say(event="done")
            case {"do": "ignore cancellation"}:
                self.is_stubborn = True
                self.say(event="done")
            case {"do": "end", "how": how, "text": text}:
                return lambda: _end(how, text)
        return None

    async def _told(self, reporting: Any) -> None:
        try:
            await reporting
        except Gone:
            self.say(event="gone")
        else:
            self.say(event="done")

    async def _wait_for_answers(self, keys: list[str]) -> None:
        with contextlib.suppress(Gone):
            self.say(event="answered", answers=await self._ask(keys, park=False))

    async def _ask(self, keys: list[str], *, park: bool) -> dict[str, Any]:
        asked = {key: question(self._name, key) for key in keys}
        answers = await self._ctx.ask_all(asked, park=park)
        return {key: answer.content.get("said", answer.action) for key, answer in answers.items()}


def _end(how: str, text: str) -> str:
    match how:
        case "result":
            return text
        case "tool error":
            raise ToolError(text)
        case "call error":
            raise CallError(-31_999, text)
        case _:
            raise RuntimeError(text)
