"""Server processes, pinned to a core of their own."""

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
    """The server did not start; the message is its output."""


class Address(NamedTuple):
    port: int
    pid: int


def cores() -> list[int]:
    """Return the cores available to this process (Linux only)."""
    return sorted(os.sched_getaffinity(0))


_CORES: Final = cores() if hasattr(os, "sched_getaffinity") else [0]
"""The cores available at start, before a client pins itself."""


def core_of_servers() -> int:
    return _CORES[0]


def core_of_client() -> int:
    """Return a core other than the one of the servers, if there is one."""
    return _CORES[-1]


def on_core(core: int) -> None:
    """Pin this process and its future children to a core."""
    os.sched_setaffinity(0, {core})


@contextlib.contextmanager
def serving(
    command: Sequence[str],
    output: Path,
    environment: Mapping[str, str] | None = None,
    patience_s: float = START_S,
) -> Iterator[Address]:
    """Run a server that prints its address, with its output in a file, and stop it afterwards."""
    with started(command, output, environment) as process:
        yield Address(_port(process, output, patience_s), process.pid)


@contextlib.contextmanager
def started(
    command: Sequence[str], output: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program on the core of the servers, with its output in a file, and then stop it."""
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
    """Return our environment without the settings for other taskmachine servers."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith("TASKMACHINE_")
    }


def end(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process, and kill it if it does not stop in time."""
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
    raise NotStarted(" / ".join(lines[-3:]) or "no output")


def processor_seconds(pid: int) -> float:
    """Return the processor time used by all threads of a process."""
    return time.clock_gettime(~pid << 3 | 2)  # the clock id of clock_getcpuclockid(3) on Linux


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    if found is None:
        raise NotStarted(f"process {pid} has no memory: it ended")
    return int(found[1]) * 1024
