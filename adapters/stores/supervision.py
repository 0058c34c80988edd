"""Periodic background jobs."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

from taskmachine.adapters.stores import StoreError

__all__ = ["run_periodically", "stop_all"]

log: Final = logging.getLogger("taskmachine")

MAX_RESTARTS: Final = 5
WITHIN_S: Final = 60.0
BACKOFF_S: Final = (1, 2, 4, 8, 16)
RETRY_S: Final = 1.0


async def run_periodically(name: str, act: Callable[[], Awaitable[float]]) -> None:
    """Call `act` forever, each time after the number of seconds that it last returned.

    A failed job restarts, at most 5 times in 60 s; after that the process exits with an error
    (SystemExit), as it must not run without the job, and acknowledged tasks are safe in the store.
    A `StoreError` is retried without limit, as a new process would fail likewise.
    """
    clock = asyncio.get_running_loop().time
    failures: deque[float] = deque()
    while True:
        try:
            await asyncio.sleep(await act())
        except StoreError as error:  # temporary, for example a full disk
            log.warning("%s: the store failed; retrying: %s", name, error)
            await asyncio.sleep(RETRY_S)
        except Exception as error:
            failures.append(clock())
            while failures[0] <= clock() - WITHIN_S:
                failures.popleft()
            if len(failures) > MAX_RESTARTS:
                log.critical("%s failed too often; last error: %s", name, error)
                raise SystemExit(f"taskmachine: {name} failed too often: {error}") from error
            log.exception("%s failed; restarting it", name)
            await asyncio.sleep(BACKOFF_S[len(failures) - 1])


async def stop_all(tasks: Collection["asyncio.Task[Any]"]) -> None:
    """Cancel tasks and wait until they have ended.

    Cancels repeatedly: before Python 3.12 `asyncio.wait_for`, which psycopg uses, may lose one.
    """
    pending = {*tasks}
    while pending:
        for task in pending:
            task.cancel()
        pending = (await asyncio.wait(pending, timeout=0.1))[1]
