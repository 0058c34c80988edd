"""A command that runs until it is told to stop, and says on standard error what happens."""

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final

from taskmachine.adapters.rendering.wording import printable
from taskmachine.adapters.server.json_log import JsonLines, ready_line
from taskmachine.adapters.transports.settings import Settings, load_settings

__all__ = ["add_log_options", "announce", "prepared", "run_until_told"]

log: Final = logging.getLogger("taskmachine")

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")

COLLECT: Final = (20_000, 20, 20)
"""Thresholds of the garbage collector: it took a tenth of the time with its own."""

LAST_S: Final = 3.0
"""How long a tool that ignores everything can keep a process that has nothing more to do."""


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Add them to the parser of a command."""
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="default: %(default)s")
    parser.add_argument(
        "--log-format",
        choices=FORMATS,
        default="text",
        help="json: one object for each line; default: %(default)s",
    )


def prepared(options: argparse.Namespace, flags: dict[str, Any]) -> Settings:
    """The settings, with what the command line says; from now on there is a log."""
    if sys.stderr is None:  # or a file of ours would get its number, and then what tools print
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    given = {name: value for name, value in flags.items() if value is not None}
    settings = load_settings(options.config, os.environ, given)
    _log_to_stderr(options.log_level, options.log_format)
    return settings


def announce(sentence: str) -> None:
    """Say that it has begun: whatever the level of the log, and in its format."""
    if any(isinstance(handler.formatter, JsonLines) for handler in logging.root.handlers):
        print(ready_line(sentence), file=sys.stderr)
    else:
        print(printable(f"taskmachine: {sentence}"), file=sys.stderr)


def run_until_told(work: Coroutine[Any, Any, None], *, uses_pipes: bool = False) -> None:
    """To its end, or until SIGINT or SIGTERM: neither is an error."""
    # What is there now stays; and a server makes much that is gone soon, so look less often.
    gc.freeze()
    gc.set_threshold(*COLLECT)
    forced = threading.Timer(LAST_S, _leave)
    forced.daemon = True
    try:
        with asyncio.Runner(loop_factory=_loop_factory(uses_pipes)) as runner:
            runner.run(_until_told(work, forced.start))
    finally:
        forced.cancel()


def _loop_factory(uses_pipes: bool) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if uses_pipes:
        return None
    try:
        import uvloop
    except ModuleNotFoundError:  # it is only faster
        return None
    return uvloop.new_event_loop


async def _until_told(work: Coroutine[Any, Any, None], over: Callable[[], None]) -> None:
    """In the end `over` is called."""
    working = asyncio.create_task(work)
    told: list[int] = []

    def stop(number: int) -> None:
        if not told:  # once: the second one must not disturb how the first is followed
            working.cancel()
        told.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        await working
    except asyncio.CancelledError:
        if not told:
            raise
    finally:
        over()


def _leave() -> None:
    log.warning("something ignores that it was stopped; leaving without it")
    os._exit(0)


class _Line(logging.Formatter):
    """One line for each message, whatever is in it; a traceback is indented below."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        lines = super().formatException(ei).split("\n")
        return "\n".join(f"  {printable(line)}" for line in lines)


def _log_to_stderr(level: str, format: str) -> None:
    handler = logging.StreamHandler()
    is_json = format == "json"
    handler.setFormatter(JsonLines() if is_json else _Line("%(asctime)s %(levelname)s %(message)s"))
    # Of others only what is wrong: the library of the table has something to say of each move.
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[handler])
    log.setLevel(number)
