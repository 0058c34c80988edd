"""Waiting for a task without missing anything, and for a store that fails."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from taskmachine.adapters.stores import Store, StoreError
from taskmachine.statemachine import NotFound, Task

__all__ = ["persevere", "wait_for"]

log: Final = logging.getLogger("taskmachine")

_T = TypeVar("_T")

REREAD_S: Final = 5.0
"""Being told is a hint, reading decides: a hint that got lost costs this long, and no hang."""


async def wait_for(
    store: Store, task_id: str, is_awaited: Callable[[Task], bool], timeout_s: float | None = None
) -> Task:
    """The first version that is awaited, or the last one known when the time is over.

    `NotFound` if there is no such task, or none any more.
    """
    loop = asyncio.get_running_loop()
    deadline = None if timeout_s is None else loop.time() + timeout_s
    changed = asyncio.Event()
    news: list[Task | None] = []

    def hear(task: Task | None) -> None:
        if task is None or is_awaited(task):
            news.append(task)
            changed.set()

    # First follow, then read: what is committed in between is heard.
    leave = store.follow(task_id, hear)
    try:
        while True:
            task = news[0] if news else await store.load(task_id)
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
        leave()


async def persevere(write: Callable[[], Awaitable[_T]]) -> _T:
    """A store that fails for a while must not cost a task."""
    pause_s = 0.05
    while True:
        try:
            return await write()
        except StoreError as error:
            log.warning("trying again, as the store failed: %s", error)
            await asyncio.sleep(pause_s)
            pause_s = min(5.0, 2 * pause_s)
