"""Live updates of the list: changed, new and removed rows."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from taskmachine.adapters.console.access import TaskAccess
from taskmachine.adapters.console.listing import Query, Window, read_window
from taskmachine.adapters.console.pages import Pages, digest
from taskmachine.adapters.transports.http.sse import event
from taskmachine.protocol.jsonvalue import encode_json
from taskmachine.statemachine import Task

__all__ = ["LiveList", "seen_of"]

POLL_S: Final = 0.5
"""How often to poll for new tasks while a list is open."""

REREAD_S: Final = 1.0
"""Minimum time between two reads of a whole page."""


def seen_of(tasks: Iterable[Task]) -> str:
    """Return the digest by which a reconnecting page says which versions it has."""
    return digest(" ".join(f"{task.id}:{task.version}" for task in tasks))


class LiveList:
    """One page of a list; see `streams.Live`."""

    is_over = False

    def __init__(
        self, pages: Pages, access: TaskAccess, query: Query, base: str, seen: str
    ) -> None:
        self.changed = asyncio.Event()
        # New tasks come first, so only the first page looks for them.
        self.poll_s = None if query.after else POLL_S
        self._pages = pages
        self._access = access
        self._query = query
        self._base = base
        self._seen = seen
        self._shown: dict[str, Task] = {}
        self._newest: str | None = None
        self._news: dict[str, Task | None] = {}
        self._leave: dict[str, Callable[[], None]] = {}
        self._is_stale = False
        self._read_at = 0.0

    async def begin(self) -> bytes:
        window = await self._read()
        self._shown = {task.id: task for task in window.tasks}
        now = seen_of(self._shown.values())
        if now == self._seen:
            return b""
        return event(self._rows(self._shown.values()), id=now, event="all")

    async def news(self) -> bytes:
        news, self._news = self._news, {}
        rows: dict[str, Task] = {}
        gone: set[str] = set()
        for task_id, task in news.items():
            shown = self._shown.get(task_id)
            if task is not None and shown is not None and task.version <= shown.version:
                continue
            if task is None or not self._query.wants(task):
                if self._shown.pop(task_id, None):
                    gone.add(task_id)
                    self._is_stale = True  # the next task takes its place
            elif shown is not None:
                self._shown[task_id] = rows[task_id] = task
            else:
                self._is_stale = True
        if not self._query.after and not self._is_stale:
            newest = await self._access.page(None, 1)
            self._is_stale = (newest[0].id if newest else None) != self._newest
        if self._is_stale and self._now() - self._read_at >= REREAD_S:
            window = await self._read()
            before, self._shown = self._shown, {task.id: task for task in window.tasks}
            gone |= before.keys() - self._shown.keys()
            gone -= self._shown.keys()
            rows = {
                task.id: task
                for task in window.tasks
                if task.id in rows or before.get(task.id) != task
            }
        return self._blocks(list(rows.values()), gone)

    def close(self) -> None:
        for leave in self._leave.values():
            leave()
        self._leave.clear()

    # --- reading -----------------------------------------------------------------------------

    async def _read(self) -> Window:
        """Read the page and follow its tasks."""
        window = await read_window(self._access, self._query)
        if self._follow(window):  # some may have changed before they were followed
            window = await read_window(self._access, self._query)
            self._follow(window)
        self._is_stale = False
        self._read_at = self._now()
        if not self._query.after:
            newest = await self._access.page(None, 1) if self._query.is_filtered else window.tasks
            self._newest = newest[0].id if newest else None
        return window

    def _follow(self, window: Window) -> bool:
        """Follow the tasks of the window; return whether any was not followed before."""
        wanted = {task.id for task in (*window.tasks, *window.others)}
        for task_id in self._leave.keys() - wanted:
            self._leave.pop(task_id)()
        missing = wanted - self._leave.keys()
        for task_id in missing:
            self._leave[task_id] = self._access.service.store.follow(
                task_id, partial(self._on_version, task_id)
            )
        return bool(missing)

    def _on_version(self, task_id: str, task: Task | None) -> None:
        self._news[task_id] = task  # bounded by the number of followed tasks
        self.changed.set()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    # --- events ------------------------------------------------------------------------------

    def _blocks(self, rows: Sequence[Task], gone: Iterable[str]) -> bytes:
        seen = seen_of(self._shown.values())
        block = b""
        if gone := sorted(gone):
            block += event(encode_json(gone), id=seen, event="gone")
        if rows:
            block += event(self._rows(rows), id=seen, event="rows")
        return block

    def _rows(self, tasks: Iterable[Task]) -> bytes:
        html = self._pages.render(
            "rows.html", tasks=list(tasks), base=self._base, session=self._access.session
        )
        return html.encode("utf-8", "replace")
