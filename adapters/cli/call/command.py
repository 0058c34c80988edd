"""`taskmachine call`: call a tool on an MCP server from the terminal."""

import argparse
import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, TextIO

from taskmachine.adapters.cli.call.arguments import read_arguments, read_whole
from taskmachine.adapters.cli.call.screen import Screen
from taskmachine.adapters.cli.connecting import (
    add_connection_options,
    add_server,
    find_tool,
    opened,
    seconds,
)
from taskmachine.adapters.client.errors import CallFailed, Cancelled
from taskmachine.adapters.client.remote_task import RemoteTask
from taskmachine.adapters.rendering.documents import as_json
from taskmachine.adapters.rendering.wording import printable
from taskmachine.protocol.jsonvalue import JSONObject

__all__ = ["add_to"]

GRACE_S: Final = 5.0
"""How long to wait for the server to cancel after Ctrl-C."""


def add_to(commands: Any, _: Callable[[], Any]) -> None:
    """Add the command to a parser."""
    does = "call a tool on an MCP server and wait for its result"
    call = commands.add_parser("call", help=does, description=f"C{does[1:]}.")
    add_server(call)
    call.add_argument("tool", metavar="TOOL", help="name of the tool")
    call.add_argument(
        "arguments",
        metavar="KEY=VALUE",
        nargs="*",
        default=[],
        help="an argument of the tool; KEY:=JSON sends JSON, KEY=@FILE reads a file",
    )
    call.add_argument(
        "--args",
        metavar="JSON",
        help="arguments as a JSON object, which only the server checks; @FILE reads a file, "
        "- reads standard input; KEY=VALUE overrides it",
    )
    add_connection_options(call)
    call.add_argument(
        "--ttl",
        type=seconds,
        metavar="SECONDS",
        help="requested TTL of the task, where the protocol lets clients choose it",
    )
    call.add_argument("--json", action="store_true", help="print the whole result as JSON")
    call.add_argument("--no-input", action="store_true", help="decline all questions of the tool")
    call.set_defaults(run=lambda options: asyncio.run(_run(options)))


async def _run(options: argparse.Namespace) -> int:
    whole = None if options.args is None else read_whole(options.args)
    can_ask = not options.no_input and options.args != "-" and sys.stdin.isatty()
    call = _Call(Screen(can_ask=can_ask and sys.stderr.isatty()))
    work = asyncio.create_task(call.run(options, whole))
    interrupted, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupted.set)
    try:
        if await _comes_first(interrupted, work):
            interrupted.clear()
            await call.stop(work)
            await _comes_first(interrupted, work, GRACE_S)  # a second Ctrl-C ends the wait
            work.cancel()
        result = await work
    except asyncio.CancelledError:
        call.screen.say("Stopped waiting; the call may still be running on the server.")
        return 1
    except Cancelled as error:
        if not call.is_stopped:
            raise
        call.screen.say(f"The call was cancelled: {error}.")
        return 1
    finally:
        loop.remove_signal_handler(signal.SIGINT)
    return _print(result, whole=options.json)


async def _comes_first(
    event: asyncio.Event, work: asyncio.Task[Any], timeout: float | None = None
) -> bool:
    """Return whether the event is set before the work is done or the time has passed."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait({waiting, work}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    return event.is_set() and not work.done()


class _Call:
    """One call, from the connection to the result."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.is_stopped = False
        self._task: RemoteTask | None = None

    async def run(self, options: argparse.Namespace, whole: JSONObject | None) -> JSONObject:
        """Make the call and return its result."""
        ttl_ms = None if options.ttl is None else int(options.ttl * 1_000)
        with self.screen.showing():
            async with opened(options, self.screen.answer) as session:
                tool = find_tool(await session.tools(), options.tool, options.server)
                arguments = read_arguments(tool, options.arguments, whole)
                self._task = await session.call(options.tool, arguments, ttl_ms=ttl_ms)
                async for update in self._task:
                    self.screen.show(update)
                return await self._task.result()

    async def stop(self, work: asyncio.Task[Any]) -> None:
        """Cancel the call, or the connection attempt before it."""
        self.is_stopped = True
        if self._task is None:
            work.cancel()
            return
        self.screen.say("Cancelling.")
        with contextlib.suppress(CallFailed):
            await self._task.cancel()


def _print(result: JSONObject, *, whole: bool) -> int:
    is_error = result.get("isError") is True
    if whole:
        sys.stdout.write(as_json(result))
    else:
        stream = sys.stderr if is_error else sys.stdout
        for text in _texts(result):
            print(_for(stream, text), file=stream)
    return 1 if is_error else 0


def _texts(result: JSONObject) -> Iterator[str]:
    content = result.get("content")
    items = content if isinstance(content, list) else []
    for item in items:
        match item:
            case {"type": "text", "text": str(text)}:
                yield text
            case {"type": "resource", "resource": {"text": str(text)}}:
                yield text
            case {"type": "resource_link", "uri": str(uri)}:
                yield uri
            case {"type": str(kind), **more}:
                yield f"[{kind} {more.get('mimeType', '')}".rstrip() + "; use --json to see it]"
    if not items and result.get("structuredContent") is not None:
        yield json.dumps(result["structuredContent"], indent=2, ensure_ascii=False)


def _for(stream: TextIO, text: str) -> str:
    """Escape control characters for a terminal; leave the text unchanged for a file or pipe."""
    return "\n".join(map(printable, text.split("\n"))) if stream.isatty() else text
