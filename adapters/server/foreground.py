"""Run a command until a signal stops it, with its log on standard error."""

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

__all__ = ["add_log_options", "add_tools_option", "announce", "configure", "run_until_signalled"]

log: Final = logging.getLogger("taskmachine")

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")

COLLECT: Final = (20_000, 20, 20)
"""Thresholds of the garbage collector, which used a tenth of the time with its defaults."""

FORCE_EXIT_S: Final = 3.0
"""How long a tool that ignores cancellation can delay the exit of the process."""


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Add `--log-level` and `--log-format` to the parser of a command."""
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="default: %(default)s")
    parser.add_argument(
        "--log-format",
        choices=FORMATS,
        default="text",
        help="json: one object for each line; default: %(default)s",
    )


def add_tools_option(parser: argparse.ArgumentParser) -> None:
    """Add the tools to the parser of a command, as an argument or an option."""
    either = parser.add_mutually_exclusive_group()
    help = "demo (default), conformance, PATH.py or MODULE; add :OBJECT if it has several Tools"
    either.add_argument("tools", metavar="TOOLS", nargs="?", default=argparse.SUPPRESS, help=help)
    either.add_argument("--tools", metavar="TOOLS", help="TOOLS as an option")


def configure(options: argparse.Namespace, flags: dict[str, Any]) -> Settings:
    """Load the settings, with the flags of the command line, and configure the log."""
    if sys.stderr is None:  # or the next opened file would get descriptor 2, and tools' prints
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    given = {name: value for name, value in flags.items() if value is not None}
    settings = load_settings(options.config, os.environ, given)
    _log_to_stderr(options.log_level, options.log_format)
    return settings


def announce(sentence: str) -> None:
    """Print that the command has started, in the format of the log but at every level."""
    if any(isinstance(handler.formatter, JsonLines) for handler in logging.root.handlers):
        print(ready_line(sentence), file=sys.stderr)
    else:
        print(printable(f"taskmachine: {sentence}"), file=sys.stderr)


def run_until_signalled(work: Coroutine[Any, Any, None], *, uses_pipes: bool = False) -> None:
    """Run to the end, or until SIGINT or SIGTERM, which is not an error."""
    # Existing objects stay, and most new ones are short-lived: collect less often.
    gc.freeze()
    gc.set_threshold(*COLLECT)
    forced = threading.Timer(FORCE_EXIT_S, _force_exit)
    forced.daemon = True
    try:
        with asyncio.Runner(loop_factory=_loop_factory(uses_pipes)) as runner:
            runner.run(_until_signalled(work, forced.start))
    finally:
        forced.cancel()


def _loop_factory(uses_pipes: bool) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if uses_pipes:
        return None
    try:
        import uvloop
    except ModuleNotFoundError:  # optional
        return None
    return uvloop.new_event_loop


async def _until_signalled(work: Coroutine[Any, Any, None], done: Callable[[], None]) -> None:
    """Run until a signal, and call `done` at the end."""
    working = asyncio.create_task(work)
    signals: list[int] = []

    def stop(number: int) -> None:
        if not signals:  # a second signal must not cancel the cleanup
            working.cancel()
        signals.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        await working
    except asyncio.CancelledError:
        if not signals:
            raise
    finally:
        done()


def _force_exit() -> None:
    log.warning("shutdown took more than %g s; forcing exit", FORCE_EXIT_S)
    os._exit(0)


class _Line(logging.Formatter):
    """Formats each message as one line, with a traceback indented below."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        lines = super().formatException(ei).split("\n")
        return "\n".join(f"  {printable(line)}" for line in lines)


def _log_to_stderr(level: str, format: str) -> None:
    handler = logging.StreamHandler()
    is_json = format == "json"
    handler.setFormatter(JsonLines() if is_json else _Line("%(asctime)s %(levelname)s %(message)s"))
    # Only warnings of libraries: python-statemachine logs every transition.
    number = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[handler])
    log.setLevel(number)
