"""Benchmark clients: each measurement has a process and a core of its own."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import cattrs
import msgspec
import uvloop

from taskmachine.adapters.cli.bench.connection import Connection, WrongAnswer
from taskmachine.adapters.cli.bench.figures import Failed
from taskmachine.adapters.cli.bench.processes import core_of_client, on_core

__all__ = ["connect", "connected", "run_as_client", "run_client"]

_J = TypeVar("_J")
_R = TypeVar("_R")


async def connect(port: int) -> Connection:
    loop = asyncio.get_running_loop()
    return (await loop.create_connection(Connection, "127.0.0.1", port))[1]


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Connection]:
    """Open a connection for the duration of the context."""
    connection = await connect(port)
    try:
        yield connection
    finally:
        connection.close()


def run_client(module: str, job: Any, result: type[_R], patience_s: float) -> _R:
    """Run a module of this package as a client and return its result."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", f"taskmachine.adapters.cli.bench.{module}"],
            input=msgspec.json.encode(cattrs.unstructure(job)),
            capture_output=True,
            timeout=patience_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"the client did not end within {patience_s:.0f} s") from None
    if done.returncode:
        raise Failed((done.stderr.decode(errors="replace").strip().splitlines() or ["?"])[-1][:300])
    return cattrs.structure(msgspec.json.decode(done.stdout), result)


def run_as_client(job: type[_J], play: Callable[[_J], Coroutine[Any, Any, Any]]) -> int:
    """Read a job from standard input and write its result: the main program of client modules."""
    on_core(core_of_client())
    given = cattrs.structure(msgspec.json.decode(sys.stdin.buffer.read()), job)
    gc.disable()  # the client makes no reference cycles, and pauses would distort the times
    try:
        found = uvloop.run(play(given))
    except (WrongAnswer, OSError, TimeoutError) as error:
        print(f"{type(error).__name__}: {error}".removeprefix("WrongAnswer: "), file=sys.stderr)
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(cattrs.unstructure(found)))
    return 0
