"""Servers as child processes on a core of their own, and how they are ended."""

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

__all__ = [
    "Address",
    "NotStarted",
    "core_of_client",
    "core_of_servers",
    "cores",
    "end",
    "environment_of_servers",
    "on_core",
    "processor_seconds",
    "resident_bytes",
    "serving",
    "started",
]

START_S: Final = 60
STOP_S: Final = 15

_URL: Final = re.compile(rb"http://127\.0\.0\.1:(\d+)")


class NotStarted(Exception):
    """The server did not come up; says what it wrote."""


class Address(NamedTuple):
    port: int
    pid: int


def cores() -> list[int]:
    """Those that this process may use.  Only Linux tells."""
    return sorted(os.sched_getaffinity(0))


_CORES: Final = cores() if hasattr(os, "sched_getaffinity") else [0]
"""As it was when we were started: a client narrows its own."""


def core_of_servers() -> int:
    return _CORES[0]


def core_of_client() -> int:
    """Not the one of the servers, where there is more than one."""
    return _CORES[-1]


def on_core(core: int) -> None:
    """From now on, in this process and its children."""
    os.sched_setaffinity(0, {core})


@contextlib.contextmanager
def serving(
    command: Sequence[str],
    output: Path,
    environment: Mapping[str, str] | None = None,
    patience_s: float = START_S,
) -> Iterator[Address]:
    """Run a server that writes its address, and end it.  All that it writes goes to a file."""
    with started(command, output, environment) as process:
        yield Address(_port(process, output, patience_s), process.pid)


@contextlib.contextmanager
def started(
    command: Sequence[str], output: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program on the core of the servers, in the folder of its output, and end it."""
    with output.open("wb") as written:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
            cwd=output.parent,
            env={**environment_of_servers(), **(environment or {})},
            preexec_fn=lambda: on_core(core_of_servers()),
        )
    try:
        yield process
    finally:
        end(process)


def environment_of_servers() -> dict[str, str]:
    """Ours, without what is meant for other servers of ours."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith("TASKMACHINE_")
    }


def end(process: subprocess.Popen[bytes]) -> None:
    """By a signal; by another one if it does not care."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _port(process: subprocess.Popen[bytes], output: Path, patience_s: float) -> int:
    until = time.monotonic() + patience_s
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


def resident_bytes(pid: int) -> int:
    """What a process has in memory now."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    if found is None:
        raise NotStarted(f"process {pid} has no memory: it ended")
    return int(found[1]) * 1024
