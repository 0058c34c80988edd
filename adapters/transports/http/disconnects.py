"""Detect that a client disconnects while its request is pending."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

__all__ = ["disconnected", "ended", "unless_gone"]

_T = TypeVar("_T")


async def disconnected(receive: Receive) -> None:
    """Wait until the client disconnects.  The rest of the request's body is dropped."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def ended(*futures: "asyncio.Future[Any]") -> None:
    """Cancel the futures and wait until they are done."""
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, _T]) -> _T | None:
    """Return the result of `work`; cancel it and return None if the client disconnects."""
    working = asyncio.create_task(work)
    gone = asyncio.create_task(disconnected(receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        await ended(working, gone)
