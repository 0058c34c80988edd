"""Loops in the background that have to go on."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

from taskmachine.adapters.stores import StoreError

__all__ = ["keep_doing", "stop_all"]

log: Final = logging.getLogger("taskmachine")

MAX_RESTARTS: Final = 5
WITHIN_S: Final = 60.0
BACKOFF_S: Final = (1, 2, 4, 8, 16)
RETRY_S: Final = 1.0


async def keep_doing(name: str, act: Callable[[], Awaitable[float]]) -> None:
    """Call `act` for ever, each time after as many seconds as it said the last time.

    If it fails it is begun again, at most 5 times in 60 s; after that the process leaves with an
    error (SystemExit).  What was acknowledged is in the store, and whoever starts next goes on
    with it: better than to live on without this loop.  A store that fails is waited for instead:
    others would not fare better.
    """
    clock = asyncio.get_running_loop().time
    failures: deque[float] = deque()
    while True:
        try:
            await asyncio.sleep(await act())
        except StoreError as error:  # a disk that is full for a while is nobody's mistake
            log.warning("%s: trying again, as the store failed: %s", name, error)
            await asyncio.sleep(RETRY_S)
        except Exception as error:
            failures.append(clock())
            while failures[0] <= clock() - WITHIN_S:
                failures.popleft()
            if len(failures) > MAX_RESTARTS:
                log.critical("%s failed too often, last with: %s", name, error)
                raise SystemExit(f"taskmachine: {name} failed too often: {error}") from error
            log.exception("%s failed, and is begun again", name)
            await asyncio.sleep(BACKOFF_S[len(failures) - 1])


async def stop_all(tasks: Collection["asyncio.Task[Any]"]) -> None:
    """Cancel them until they have ended.

    More than once: before Python 3.12 `asyncio.wait_for`, on which psycopg stands, may lose it.
    """
    pending = {*tasks}
    while pending:
        for task in pending:
            task.cancel()
        pending = (await asyncio.wait(pending, timeout=0.1))[1]
