"""Wait for versions of a task, and for a store that fails temporarily."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from taskmachine.adapters.stores import Store, StoreError
from taskmachine.statemachine import NotFound, Task

__all__ = ["retry_store_errors", "wait_for"]

log: Final = logging.getLogger("taskmachine")

_T = TypeVar("_T")

REREAD_S: Final = 5.0
"""How often waiters reread the task, so a lost notification delays them but never blocks them."""


async def wait_for(
    store: Store, task_id: str, is_awaited: Callable[[Task], bool], timeout_s: float | None = None
) -> Task:
    """Return the first version that is awaited, or the latest one after `timeout_s`.

    `NotFound` if the task does not exist or is removed.
    """
    loop = asyncio.get_running_loop()
    deadline = None if timeout_s is None else loop.time() + timeout_s
    changed = asyncio.Event()
    found: list[Task | None] = []

    def on_version(task: Task | None) -> None:
        if task is None or is_awaited(task):
            found.append(task)
            changed.set()

    # Follow before reading, to miss no version that is committed in between.
    unfollow = store.follow(task_id, on_version)
    try:
        while True:
            task = found[0] if found else await store.load(task_id)
            if task is None:
                raise NotFound(task_id)
            left = REREAD_S if deadline is None else min(REREAD_S, deadline - loop.time())
            if is_awaited(task) or left <= 0:
                return task
            try:
                async with asyncio.timeout(left):
                    await changed.wait()
            except TimeoutError:
                continue
    finally:
        unfollow()


async def retry_store_errors(act: Callable[[], Awaitable[_T]]) -> _T:
    """Call `act` until it raises no `StoreError`, so a temporary failure loses no task."""
    pause_s = 0.05
    while True:
        try:
            return await act()
        except StoreError as error:
            log.warning("the store failed; retrying: %s", error)
            await asyncio.sleep(pause_s)
            pause_s = min(5.0, 2 * pause_s)
