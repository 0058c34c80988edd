"""Run a client as a process group, and terminate it completely."""

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from taskmachine.adapters.conformance.errors import CannotCheck
from taskmachine.adapters.conformance.target import split_command

__all__ = ["ProcessResult", "command_line", "relay_command", "run_program"]

_MOST_WORDS: Final = 20_000
_START_S: Final = 30.0  # until the first message
_STEP_S: Final = 1.0  # between SIGTERM and SIGKILL
_SCENARIO: Final = "MCP_CONFORMANCE_SCENARIO"


@attrs.frozen
class ProcessResult:
    """The outcome of a client's run."""

    returncode: int | None
    """None if the client had to be stopped."""
    words: str
    """The end of its standard error output."""


def command_line(command: str, *, url: str, server: str) -> list[str]:
    """Return the client's command with `{url}` and `{server}` filled in.

    Without either, the URL becomes the last argument. `{server}` stands for one argument or, as an
    argument of its own, for the whole command of a server.
    """
    words = split_command(command)
    if not any("{url}" in word or "{server}" in word for word in words):
        words = [*words, "{url}"]
    filled: list[str] = []
    for word in words:
        if word == "{server}":
            filled += shlex.split(server)
        else:
            filled.append(word.replace("{url}", url).replace("{server}", server))
    return filled


def relay_command(port: int) -> str:
    """Return the command that a client starts as its server."""
    module = "taskmachine.adapters.conformance.clients.relay"
    return shlex.join([sys.executable, "-m", module, "--port", str(port)])


async def run_program(
    command: Sequence[str],
    scenario: str,
    within_s: float,
    *,
    begun: asyncio.Event,
    over: Callable[[ProcessResult], None],
) -> ProcessResult:
    """Run a client until it exits, or stop it; afterwards its process group is empty.

    Its time starts when `begun` is set by its first message. `over` is called when it has exited,
    or before it is stopped: later messages are caused by the tester.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, _SCENARIO: scenario},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise CannotCheck(f"cannot start {command[0]!r}: {reason}") from None
    assert process.stderr is not None
    kept = bytearray()
    reading = asyncio.get_running_loop().create_task(_keep(process.stderr, kept))
    try:
        returncode = await _wait(process, begun, within_s)
        over(ProcessResult(returncode, ""))
    finally:
        await _end(process)
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading
    return ProcessResult(returncode, kept.decode(errors="replace"))


async def _wait(
    process: asyncio.subprocess.Process, begun: asyncio.Event, within_s: float
) -> int | None:
    exiting = asyncio.get_running_loop().create_task(process.wait())
    talking = asyncio.get_running_loop().create_task(begun.wait())
    try:
        await asyncio.wait(
            [exiting, talking], timeout=_START_S, return_when=asyncio.FIRST_COMPLETED
        )
        await asyncio.wait([exiting], timeout=within_s if talking.done() else 0)
        return exiting.result() if exiting.done() else None
    finally:
        exiting.cancel()
        talking.cancel()


async def _keep(stderr: asyncio.StreamReader, kept: bytearray) -> None:
    while chunk := await stderr.read(4_096):
        kept += chunk
        del kept[:-_MOST_WORDS]


async def _end(process: asyncio.subprocess.Process) -> None:
    """Terminate the process group, including processes that the client left behind."""
    if process.returncode is None:
        _signal(process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STEP_S):
                await process.wait()
    _signal(process.pid, signal.SIGKILL)
    await process.wait()


def _signal(group: int, signum: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signum)
