"""Servers as child processes on a core of their own, and how they are ended."""

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.oracle import REPOSITORY

__all__ = ["Address", "NotStarted", "core_of_client", "on_core", "processor_seconds", "serving"]

START_S: Final = 60
STOP_S: Final = 15

_URL: Final = re.compile(rb"http://127\.0\.0\.1:(\d+)")
_CORES: Final = sorted(os.sched_getaffinity(0))


class NotStarted(Exception):
    """The server did not come up; says what it wrote."""


class Address(NamedTuple):
    port: int
    pid: int


def core_of_client() -> int:
    """Not the one of the servers, where there is more than one."""
    return _CORES[-1]


def on_core(core: int) -> None:
    """From now on, in this process and its children."""
    os.sched_setaffinity(0, {core})


@contextlib.contextmanager
def serving(
    command: Sequence[str], output: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Address]:
    """Run a server that writes its address, and end it.  All that it writes goes to a file."""
    with output.open("wb") as written:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), **(environment or {})},
            preexec_fn=lambda: on_core(_CORES[0]),
        )
    try:
        yield Address(_port(process, output), process.pid)
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _port(process: subprocess.Popen[bytes], output: Path) -> int:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        if found := _URL.search(output.read_bytes()):
            return int(found[1])
        if process.poll() is not None:
            break
        time.sleep(0.02)
    lines = output.read_text(errors="replace").strip().splitlines()
    raise NotStarted(" / ".join(lines[-3:]) or "it wrote nothing")


def processor_seconds(pid: int) -> float:
    """What a process has used so far, with all its threads."""
    return time.clock_gettime(~pid << 3 | 2)  # as clock_getcpuclockid(3) has it on Linux
