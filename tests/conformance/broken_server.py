"""Our correct server with one bug in front of it.

python -m tests.conformance.broken_server --stdio --bug NAME
python -m tests.conformance.broken_server --http 127.0.0.1:8000 --bug NAME

Without `--bug` nothing is wrong with it.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from unittest import mock

from taskmachine.adapters.engines import worker as worker_module
from taskmachine.adapters.runtime.runtime import Runtime, RuntimeConfig, start_runtime
from taskmachine.adapters.stores import open_store
from taskmachine.adapters.stores.memory import MemoryStore
from tests.conformance.planted import made
from tests.conformance.planting import Bug
from tests.conformance.proxy.between import Between, ErrorLog, recording_errors
from tests.conformance.proxy.pipes import serve_broken
from tests.conformance.tools import tools

__all__ = ["CORRECT", "TOKENS", "serve_stdio", "serving"]

SECRET: Final = b"s" * 32
CORRECT: Final = "Unchanged"
TOKENS: Final = tuple(f"the-token-of-caller-{name}-0123456789abcdef" for name in "AB")
"""Tokens of the two callers of an HTTP server, unless it requires none."""


@asynccontextmanager
async def serving(
    bug: Bug, errors: ErrorLog, address: str = "127.0.0.1:0", store: str | None = None
) -> AsyncIterator[str]:
    """Serve over HTTP in the running event loop; yield the URL.

    Its tasks are in the `store` of that URL; without one they are in memory.
    """
    # Imported here: it takes as long to load as everything else, and stdio does not need it.
    from tests.conformance.broken_http import serve_http

    tokens = () if bug.is_open else TOKENS
    async with (
        _runtime(bug, errors, store) as runtime,
        serve_http(runtime, bug, errors, tokens, address) as url,
    ):
        yield url


@asynccontextmanager
async def _runtime(bug: Bug, errors: ErrorLog, url: str | None = None) -> AsyncIterator[Runtime]:
    store = MemoryStore(SECRET) if url is None else await open_store(url)
    runtime = await start_runtime(
        store, tools(errors.record), RuntimeConfig(limits=bug.limits(), world=bug.surroundings())
    )
    try:
        yield runtime
    finally:
        with mock.patch.object(worker_module, "GRACE_S", 0.05):  # do not wait for running tools
            await runtime.stop()
        await store.close()


def serve_stdio(name: str, errors: str) -> None:
    """Serve on the standard descriptors until the input ends."""
    bug, told = made(name), ErrorLog(Path(errors))

    async def serve() -> None:
        async with _runtime(bug, told) as runtime:
            await serve_broken(runtime, Between(bug, told))

    with recording_errors(told):
        asyncio.run(serve())


async def _serve_http(bug: Bug, errors: ErrorLog, address: str) -> None:
    async with serving(bug, errors, address) as url:
        print(url, *(() if bug.is_open else TOKENS), file=sys.stderr)
        await asyncio.Event().wait()


def main() -> None:
    """Serve until the input ends, or for ever."""
    parser = argparse.ArgumentParser(description=__doc__)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--stdio", action="store_true")
    where.add_argument("--http", metavar="HOST:PORT")
    parser.add_argument("--bug", metavar="NAME", default=CORRECT, help="or a variation")
    parser.add_argument("--errors", metavar="FILE", help="log of errors")
    given = parser.parse_args()
    errors = given.errors or tempfile.mkstemp("-errors")[1]
    if given.stdio:
        serve_stdio(given.bug, errors)
    else:
        asyncio.run(_serve_http(made(given.bug), ErrorLog(Path(errors)), given.http))


if __name__ == "__main__":
    main()
