"""A bounded in-memory queue for the questions of running tools.

A queued request contains the live future that its tool waits for, so it is useless to other
processes and need not be persistent.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from mcp.shared.experimental.tasks.message_queue import QueuedMessage, TaskMessageQueue

from taskmachine.statemachine import LimitExceeded

__all__ = ["BoundedQueue"]


class BoundedQueue(TaskMessageQueue):
    """Holds a limited number of messages per task, including unanswered requests.

    Unlike the bundled queue it wakes all waiters, keeps nothing for tasks without messages, and
    tracks which requests were delivered but not answered.
    """

    def __init__(self, most: int = 100) -> None:
        self._most = most
        self._queued: dict[str, deque[QueuedMessage]] = {}
        self._delivered: dict[str, list[QueuedMessage]] = {}
        self._waiters: dict[str, set[asyncio.Future[None]]] = {}

    async def enqueue(self, task_id: str, message: QueuedMessage) -> None:
        """Add a message; raises `LimitExceeded` in a tool with too many."""
        there = len(self._queued.get(task_id, ())) + len(self._unanswered(task_id))
        if there >= self._most:
            raise LimitExceeded(f"{self._most} messages of one task", 0)
        self._queued.setdefault(task_id, deque()).append(message)
        await self.notify_message_available(task_id)

    async def dequeue(self, task_id: str) -> QueuedMessage | None:
        queued = self._queued.get(task_id)
        if not queued:
            return None
        message = queued.popleft()
        if not queued:
            del self._queued[task_id]
        if message.resolver is not None:
            self._delivered[task_id] = [*self._unanswered(task_id), message]
        return message

    async def peek(self, task_id: str) -> QueuedMessage | None:
        queued = self._queued.get(task_id)
        return queued[0] if queued else None

    async def is_empty(self, task_id: str) -> bool:
        return not self._queued.get(task_id)

    async def clear(self, task_id: str) -> list[QueuedMessage]:
        return list(self._queued.pop(task_id, ()))

    async def wait_for_message(self, task_id: str) -> None:
        if self._queued.get(task_id):
            return
        woken = asyncio.get_running_loop().create_future()
        waiters = self._waiters.setdefault(task_id, set())
        waiters.add(woken)
        try:
            await woken
        finally:
            waiters.discard(woken)
            if not waiters:
                del self._waiters[task_id]

    async def notify_message_available(self, task_id: str) -> None:
        for woken in self._waiters.get(task_id, ()):
            if not woken.done():
                woken.set_result(None)

    def withdraw(self, task_id: str) -> Sequence[QueuedMessage]:
        """Forget an ended task and return its unanswered requests."""
        queued = self._queued.pop(task_id, ())
        delivered = self._unanswered(task_id)
        self._delivered.pop(task_id, None)
        return [*delivered, *(message for message in queued if message.resolver is not None)]

    def _unanswered(self, task_id: str) -> list[QueuedMessage]:
        return [
            message
            for message in self._delivered.get(task_id, ())
            if message.resolver is not None and not message.resolver.done()
        ]
