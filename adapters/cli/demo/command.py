"""`taskmachine demo`: demonstrate tasks in a few seconds, without leaving anything behind."""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from taskmachine.adapters.cli.demo.screen import Screen
from taskmachine.statemachine import ConfigurationError, TaskmachineError

__all__ = ["add_to"]

LIMIT_S: Final = 18.0
"""Time limit, so that the demo ends within 20 s including the cleanup."""


def add_to(commands: Any, console: Callable[[], Console]) -> None:
    """Add the command to a parser."""
    does = "demonstrate tasks on a server that is killed and restarted"
    demo = commands.add_parser("demo", help=does, description=f"{does.capitalize()}.")
    demo.set_defaults(run=lambda options: _run(options, console()))


def _run(_: argparse.Namespace, console: Console) -> int:
    try:
        from taskmachine.adapters.cli.demo.scenes import play
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("taskmachine"):
            raise
        raise ConfigurationError(
            f"the demo needs the package {error.name}: pip install 'taskmachine[server]'"
        ) from None
    # Connection errors of the clients are expected here.
    logging.getLogger("taskmachine").addHandler(logging.NullHandler())
    os.environ["no_proxy"] = "*"  # it connects only to its own server
    can_ask = console.is_terminal and sys.stdin is not None and sys.stdin.isatty()
    screen = Screen(console, can_ask=can_ask)
    began = time.monotonic()

    async def perform() -> None:
        with tempfile.TemporaryDirectory(prefix="taskmachine-demo-") as folder:
            async with asyncio.timeout(LIMIT_S):
                await play(screen, Path(folder))

    with _discarding_input(can_ask):
        try:
            number = asyncio.run(_until_signal(perform))
        except TimeoutError:
            raise TaskmachineError(f"the demo did not end within {LIMIT_S:g} s") from None
    if number is not None:
        return 128 + number
    screen.farewell(time.monotonic() - began)
    return 0


async def _until_signal(work: Callable[[], Coroutine[Any, Any, None]]) -> int | None:
    """Run the work; cancel it on a signal, and return that signal after the cleanup."""
    working = asyncio.create_task(work())
    received: list[int] = []

    def stop(number: int) -> None:
        if not received:  # a second signal must not interrupt the cleanup
            working.cancel()
        received.append(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        await working
    except asyncio.CancelledError:
        if not received:
            raise
    return received[0] if received else None


@contextlib.contextmanager
def _discarding_input(is_terminal: bool) -> Iterator[None]:
    """Discard unread input afterwards, so that a late answer does not reach the shell."""
    import termios  # not on Windows, where this module is still importable

    try:
        yield
    finally:
        if is_terminal:
            with contextlib.suppress(termios.error):  # the terminal may be gone
                termios.tcflush(sys.stdin, termios.TCIFLUSH)
