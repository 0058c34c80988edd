"""Noticing that a client went away while it is kept waiting."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

__all__ = ["disconnected", "ended", "unless_gone"]

_T = TypeVar("_T")


async def disconnected(receive: Receive) -> None:
    """Returns when the client is gone.  What is left of the request's body is dropped."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def ended(*futures: "asyncio.Future[Any]") -> None:
    """Stop what still runs, and leave nothing behind."""
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, _T]) -> _T | None:
    """What `work` returns or raises; None as soon as the client is gone, and `work` is stopped."""
    working = asyncio.create_task(work)
    gone = asyncio.create_task(disconnected(receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        await ended(working, gone)
