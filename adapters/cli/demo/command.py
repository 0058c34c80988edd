"""`taskmachine demo`: everything at once, in a few seconds, and nothing of it stays."""

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
"""Whatever hangs: with all that has to be cleaned up it leaves within 20 s."""


def add_to(commands: Any, console: Callable[[], Console]) -> None:
    """Add the command to a parser."""
    does = "show all of it: tasks in both generations, on a server that is killed meanwhile"
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
    # What a client has to say while its server is dead is no news here.
    logging.getLogger("taskmachine").addHandler(logging.NullHandler())
    os.environ["no_proxy"] = "*"  # it talks to nobody but itself
    can_ask = console.is_terminal and sys.stdin is not None and sys.stdin.isatty()
    screen = Screen(console, can_ask=can_ask)
    began = time.monotonic()

    async def perform() -> None:
        with tempfile.TemporaryDirectory(prefix="taskmachine-demo-") as folder:
            async with asyncio.timeout(LIMIT_S):
                await play(screen, Path(folder))

    with _forgetting_what_was_typed(can_ask):
        try:
            told = asyncio.run(_until_told(perform))
        except TimeoutError:
            raise TaskmachineError(f"the demo did not end within {LIMIT_S:g} s") from None
    if told is not None:
        return 128 + told
    screen.farewell(time.monotonic() - began)
    return 0


async def _until_told(work: Callable[[], Coroutine[Any, Any, None]]) -> int | None:
    """To its end, or until a signal: that is returned, once everything is cleaned up."""
    working = asyncio.create_task(work())
    told: list[int] = []

    def stop(number: int) -> None:
        if not told:  # once: the second one must not disturb how the first is followed
            working.cancel()
        told.append(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        await working
    except asyncio.CancelledError:
        if not told:
            raise
    return told[0] if told else None


@contextlib.contextmanager
def _forgetting_what_was_typed(is_terminal: bool) -> Iterator[None]:
    """An answer that came too late must not be a command for the shell."""
    import termios  # whoever only imports this module may be on Windows

    try:
        yield
    finally:
        if is_terminal:
            with contextlib.suppress(termios.error):  # the terminal may be gone
                termios.tcflush(sys.stdin, termios.TCIFLUSH)
