"""Live updates of a task's page: the pieces that changed, until the task ends."""

import asyncio

from taskmachine.adapters.console.task_page import TaskPage
from taskmachine.adapters.rendering.tasks import state_of
from taskmachine.adapters.transports.http.sse import event
from taskmachine.protocol.jsonvalue import encode_json
from taskmachine.statemachine import Task

__all__ = ["LiveTask"]


class LiveTask:
    """One task, to which the caller has checked access; see `streams.Live`."""

    poll_s = None

    def __init__(self, page: TaskPage, task: Task, seen: str) -> None:
        self.changed = asyncio.Event()
        self._page = page
        self._task_id = task.id
        self._task: Task | None = task
        self._seen = seen
        self._sent: dict[str, str] = {}
        self._newest: Task | None = task
        self._leave = page.access.service.store.follow(task.id, self._on_version)

    @property
    def is_over(self) -> bool:
        return self._task is None or not self._task.is_live

    async def begin(self) -> bytes:
        # It may have changed before it was followed.
        self._on_version(await self._page.access.service.store.load(self._task_id))
        task = self._task = self._newest
        if task is not None and task.is_live and self._seen == str(task.version):
            self._sent = await self._page.pieces(task)
            return b""
        return await self._blocks()

    async def news(self) -> bytes:
        if self._newest is self._task:
            return b""
        self._task = self._newest
        return await self._blocks()

    def close(self) -> None:
        self._leave()

    def _on_version(self, task: Task | None) -> None:
        if self._newest is not None and (task is None or task.version > self._newest.version):
            self._newest = task
            self.changed.set()

    async def _blocks(self) -> bytes:
        if self._task is None:
            return event(b"", event="forgotten")
        pieces = await self._page.pieces(self._task)
        different = {name: html for name, html in pieces.items() if self._sent.get(name) != html}
        self._sent = pieces
        facts = {"pieces": different, "state": state_of(self._task), "isOver": self.is_over}
        return event(encode_json(facts), id=str(self._task.version), event="pieces")
