"""The page of a task, live: the pieces that look different, until it has ended."""

import asyncio

from taskmachine.adapters.console.task_page import TaskPage
from taskmachine.adapters.server.sse import event
from taskmachine.protocol.jsonvalue import encode_json
from taskmachine.statemachine import State, Task

__all__ = ["LiveTask"]


class LiveTask:
    """Of a task that the visitor may see: that never changes.  See `streams.Live`."""

    look_s = None

    def __init__(self, page: TaskPage, task: Task, seen: str) -> None:
        self.changed = asyncio.Event()
        self._page = page
        self._task = task
        self._seen = seen
        self._told: dict[str, str] = {}
        self._newest = task
        self._leave = page.sight.service.store.follow(task.id, self._hear)

    @property
    def is_over(self) -> bool:
        return self._task.is_terminal or self._task.state is State.REMOVED

    async def begin(self) -> bytes:
        # It may have changed before it was followed.
        newest = await self._page.sight.service.store.load(self._task.id)
        if newest is None:
            self._task = self._task.with_changes(state=State.REMOVED)
        else:
            self._task = self._newest = max(newest, self._newest, key=lambda task: task.version)
        if self._seen == str(self._task.version) and not self.is_over:
            self._told = await self._page.pieces(self._task)
            return b""
        return await self._blocks()

    async def news(self) -> bytes:
        if self._newest.version <= self._task.version:
            return b""
        self._task = self._newest
        return await self._blocks()

    def close(self) -> None:
        self._leave()

    def _hear(self, task: Task) -> None:
        if task.version > self._newest.version:
            self._newest = task
            self.changed.set()

    async def _blocks(self) -> bytes:
        if self._task.state is State.REMOVED:
            return event(b"", event="forgotten")
        pieces = await self._page.pieces(self._task)
        different = {name: html for name, html in pieces.items() if self._told.get(name) != html}
        self._told = pieces
        facts = {"pieces": different, "state": self._task.state, "isOver": self.is_over}
        return event(encode_json(facts), id=str(self._task.version), event="pieces")
