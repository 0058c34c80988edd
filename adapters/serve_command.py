"""`taskmachine serve`: the reference server on HTTP, or on standard input and output."""

import argparse
import asyncio
import gc
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from taskmachine.adapters.runtime import Runtime, open_runtime
from taskmachine.adapters.server.descriptors import take_input, take_output
from taskmachine.adapters.server.settings import Settings, load_settings
from taskmachine.adapters.server.stdio import serve_stdio
from taskmachine.adapters.server.tool_loading import load_tools
from taskmachine.adapters.task_views import printable
from taskmachine.statemachine import ConfigurationError

__all__ = ["add_to"]

log: Final = logging.getLogger("taskmachine")

LEVELS: Final = ("debug", "info", "warning", "error")
FLAGS: Final = ("http", "store", "tools", "dialect", "insecure")

COLLECT: Final = (20_000, 20, 20)
"""Thresholds of the garbage collector: it took a tenth of the time with its own."""

LAST_S: Final = 3.0
"""How long a tool that ignores everything can keep a process that has nothing more to do."""


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    does = "serve tools as tasks, over HTTP or standard input and output"
    serve = commands.add_parser("serve", help=does, description=f"S{does[1:]}.")
    where = serve.add_mutually_exclusive_group()
    where.add_argument("--http", metavar="HOST:PORT", help="as in 127.0.0.1:8000")
    where.add_argument("--stdio", action="store_true", help="for whoever starts this process")
    serve.add_argument("--store", metavar="URL", help="default: sqlite:taskmachine.db")
    serve.add_argument("--tools", metavar="NAME", help="demo (default), conformance, MODULE:OBJECT")
    serve.add_argument("--config", metavar="FILE", help="settings in TOML")
    serve.add_argument("--dialect", metavar="NAME", help="erlmcp, instead of both generations")
    serve.add_argument(
        "--insecure",
        action="store_const",
        const=True,
        help="without authentication on an address that others can reach",
    )
    serve.add_argument("--log-level", choices=LEVELS, default="info", help="default: %(default)s")
    serve.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.stdio and (sys.stdin is None or sys.stdout is None):
        raise ConfigurationError("--stdio needs standard input and output, and one is closed")
    if sys.stderr is None:  # or a file of ours would get its number, and then what tools print
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    given = {name: getattr(options, name) for name in FLAGS}
    flags = {name: value for name, value in given.items() if value is not None}
    settings = load_settings(options.config, os.environ, flags)
    _log_to_stderr(options.log_level)
    serve = _on_pipes(settings) if options.stdio else _on_http(settings)
    # What is there now stays; and a server makes much that is gone soon, so look less often.
    gc.freeze()
    gc.set_threshold(*COLLECT)
    forced = threading.Timer(LAST_S, _leave)
    forced.daemon = True
    try:
        with asyncio.Runner(loop_factory=_loop_factory(options.stdio)) as runner:
            runner.run(_until_told(_serve(settings, serve), forced.start))
    finally:
        forced.cancel()
    return 0


# --- where ------------------------------------------------------------------------------------

_Serve = Callable[[Runtime], Awaitable[None]]


def _on_pipes(settings: Settings) -> _Serve:
    # Now: the module of the tools may print already.
    source, sink = take_input(0), take_output(1)

    async def serve(runtime: Runtime) -> None:
        _announce(runtime, settings, "standard input and output")
        await serve_stdio(runtime, dialect=settings.dialect, input_fd=source, output_fd=sink)

    return serve


def _on_http(settings: Settings) -> _Serve:
    if settings.http is None:
        raise ConfigurationError("where to serve? Say --http HOST:PORT or --stdio")
    if not (settings.is_local or settings.auth or settings.insecure):
        raise ConfigurationError(
            f"everybody who reaches {settings.http} could call the tools: "
            "set up [auth], or allow it with --insecure"
        )
    try:
        from taskmachine.adapters.server.http import serve_http
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("taskmachine"):
            raise
        raise ConfigurationError(
            f"HTTP needs the package {error.name}: pip install 'taskmachine[server]'"
        ) from None

    async def serve(runtime: Runtime) -> None:
        await serve_http(runtime, settings, ready=lambda url: _announce(runtime, settings, url))

    return serve


def _loop_factory(is_stdio: bool) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if is_stdio:
        return None
    try:
        import uvloop
    except ModuleNotFoundError:  # it is only faster
        return None
    return uvloop.new_event_loop


def _announce(runtime: Runtime, settings: Settings, where: str) -> None:
    count = len(runtime.tools)
    tools = "1 tool" if count == 1 else f"{count} tools"
    store = re.sub(r"//[^/@]*@", "//", settings.store)  # without a password
    print(printable(f"taskmachine: serving {tools} on {where}, tasks in {store}"), file=sys.stderr)


# --- how long ---------------------------------------------------------------------------------


async def _serve(settings: Settings, serve: _Serve) -> None:
    tools = load_tools(settings.tools)
    async with open_runtime(
        settings.store, tools, times=settings.times, limits=settings.limits
    ) as runtime:
        await serve(runtime)


async def _until_told(work: Coroutine[Any, Any, None], over: Callable[[], None]) -> None:
    """To its end, or until a signal: neither is an error.  Then `over` is called."""
    serving = asyncio.create_task(work)
    told: list[int] = []

    def stop(number: int) -> None:
        if not told:  # once: the second one must not disturb how the first is followed
            serving.cancel()
        told.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        await serving
    except asyncio.CancelledError:
        if not told:
            raise
    finally:
        over()


def _leave() -> None:
    log.warning("something ignores that it was stopped; leaving without it")
    os._exit(0)


# --- what is said -----------------------------------------------------------------------------


class _Line(logging.Formatter):
    """One line for each message, whatever is in it; a traceback is indented below."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        lines = super().formatException(ei).split("\n")
        return "\n".join(f"  {printable(line)}" for line in lines)


def _log_to_stderr(level: str) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_Line("%(asctime)s %(levelname)s %(message)s"))
    # Of others only what is wrong: the library of the table has something to say of each move.
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[handler])
    log.setLevel(number)
