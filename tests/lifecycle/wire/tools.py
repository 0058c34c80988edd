"""Tools that a test steers; the servers load them with `--tools tests.lifecycle.wire.tools:TOOLS`.

Each run connects to the address in WIRE_TOOL_CONTROL and obeys one order after another.  So the
test decides when a tool reports, asks and ends, in whichever process it runs.
"""

import asyncio
import contextlib
import json
import os
import secrets
import time
from collections.abc import Callable
from typing import Any, Final

from taskmachine.adapters.runtime import waiting
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.errors import Gone
from taskmachine.adapters.tools.questions import Answer, Request, form
from taskmachine.adapters.tools.registry import CallError, ToolError, Tools
from taskmachine.adapters.tools.retries import Retry
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.statemachine import KeyReused
from tests.lifecycle.planted_bugs import PROCESS_BUGS
from tests.lifecycle.wire.late_database import delay_answers
from tests.lifecycle.wire.tool_control import REST_S

__all__ = ["TOOLS"]

if bug := os.environ.get("LIFECYCLE_BUG"):
    PROCESS_BUGS[bug]()

delay_answers()
waiting.REREAD_S = 3_600.0  # type: ignore[misc]  # a waiter must not need to read its task again

TOOLS: Final = Tools()

_ANSWER: Final = {"type": "object", "properties": {"said": {"type": "string"}}}


def question(name: str, key: str) -> Request[Answer[JSONObject]]:
    """Return a request whose message names the task and the key."""
    return form(f"{name}/{key}", _ANSWER)


@TOOLS.task(retries=1_000, retry_on=Retry)
async def controlled(name: str, ctx: Context) -> str:
    """Obey the orders of the test."""
    return await _obey(name, ctx)


@TOOLS.task(support="forbidden")
async def controlled_plain(name: str, ctx: Context) -> str:
    """Obey the orders of the test, in a plain call only."""
    return await _obey(name, ctx)


@TOOLS.task(timeout=0.3)
async def expiring(name: str, asks: bool, ctx: Context) -> str:
    """Exceed the timeout."""
    if asks:
        await ctx.ask("q0", question(name, "q0"))
    await asyncio.Event().wait()
    return name


@TOOLS.task(support="forbidden")
async def ask_once(name: str, ctx: Context) -> str:
    """Ask one question and return the answer."""
    answer = await ctx.ask("only", question(name, "only"))
    return f"{name}: {answer.content['said']}"


async def _obey(name: str, ctx: Context) -> str:
    host, _, port = os.environ["WIRE_TOOL_CONTROL"].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    tool_run = _Run(name, ctx, writer)
    try:
        tool_run.send(event="started", name=name, task_id=ctx.task_id, at=time.time())
        while True:
            try:
                line = await reader.readline()
            except asyncio.CancelledError:
                tool_run.send(event="stopped")
                if not tool_run.is_stubborn:
                    raise
                continue
            if not line:
                raise ToolError("the test closed the connection")
            end = await tool_run.obey(json.loads(line))
            if end is not None:
                return end()
    finally:
        tool_run.close()


class _Run:
    """One run of a tool."""

    def __init__(self, name: str, ctx: Context, writer: asyncio.StreamWriter) -> None:
        self.is_stubborn = False
        self._name = name
        self._ctx = ctx
        self._writer = writer
        self._asking: set[asyncio.Task[None]] = set()

    def send(self, **event: Any) -> None:
        self._writer.write(json.dumps(event).encode() + b"\n")

    def close(self) -> None:
        for asking in self._asking:
            asking.cancel()
        self._writer.close()

    async def obey(self, order: dict[str, Any]) -> Callable[[], str] | None:
        """Obey one order; return how the tool ends, if that was the order."""
        match order:
            case {"do": "progress", "value": value, "message": message}:
                await self._reported(self._ctx.progress(value, 100, message))
            case {"do": "ask", "keys": keys, "park": True}:
                self.send(event="answered", answers=await self._ask(keys, park=True))
            case {"do": "ask", "keys": keys}:
                asking = asyncio.create_task(self._wait_for_answers(keys))
                self._asking.add(asking)
                self.send(event="done")
            case {"do": "ask something else", "key": key}:
                asking = asyncio.create_task(self._ask_something_else(key))
                self._asking.add(asking)
            case {"do": "step", "key": key}:
                result = await self._ctx.step(key, self._called, key)
                self.send(event="stepped", key=key, result=result)
            case {"do": "sleep", "key": key}:
                self.send(event="resting", at=time.time())
                await self._ctx.sleep(f"after {key}", REST_S)
                self.send(event="woke")
            case {"do": "retry"}:
                self.send(event="resting", at=time.time())
                raise Retry(after=REST_S, reason=f"{self._name} is tried again")
            case {"do": "ignore cancellation"}:
                self.is_stubborn = True
                self.send(event="done")
            case {"do": "end", "how": how, "text": text}:
                return lambda: _end(how, text)
        return None

    async def _called(self, key: str) -> str:
        self.send(event="called", key=key)
        return secrets.token_hex(4)

    async def _reported(self, reporting: Any) -> None:
        try:
            await reporting
        except Gone:
            self.send(event="gone")
        else:
            self.send(event="done")

    async def _wait_for_answers(self, keys: list[str]) -> None:
        with contextlib.suppress(Gone):
            self.send(event="answered", answers=await self._ask(keys, park=False))

    async def _ask_something_else(self, key: str) -> None:
        try:
            await self._ctx.ask(key, question(self._name, f"{key} again"))
        except KeyReused:
            self.send(event="refused")

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
