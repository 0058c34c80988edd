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

LOST_S: Final = 1.0
"""A notification that is later is lost: stores deliver within half a second."""


def _ignore() -> None:
    pass


async def wait_for(
    store: Store,
    task_id: str,
    is_awaited: Callable[[Task], bool],
    timeout_s: float | None = None,
    on_lost: Callable[[], None] = _ignore,
) -> Task:
    """Return the first version that is awaited, or the latest one after `timeout_s`.

    `NotFound` if the task does not exist or is removed.  `on_lost` is called later if only reading
    the task again, and no notification, ended the wait.
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

    def check() -> None:
        unfollow()
        if not found:
            on_lost()

    is_reread = is_unexpected = False
    try:
        while True:
            task = found[0] if found else await store.load(task_id)
            if task is None or is_awaited(task):
                is_unexpected = is_reread and not found
                break
            left = REREAD_S if deadline is None else min(REREAD_S, deadline - loop.time())
            if left <= 0:
                break
            try:
                async with asyncio.timeout(left):
                    await changed.wait()
            except TimeoutError:
                is_reread = True
    finally:
        if is_unexpected:  # the notification may be on its way
            loop.call_later(LOST_S, check)
        else:
            unfollow()
    if task is None:
        raise NotFound(task_id)
    return task


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
