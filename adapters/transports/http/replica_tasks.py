"""Report tasks on a session's general stream that other replicas created.

One process has the stream, and any process may create tasks.  The process with the stream polls
the store for them, so replicas need not know of each other and nothing is written.
"""

from collections.abc import Callable, Sequence
from typing import Final

from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.transports.connection.conversation import Conversation
from taskmachine.adapters.transports.connection.following import REMEMBERED
from taskmachine.protocol.sealing import Position
from taskmachine.statemachine import Task

__all__ = ["ReplicaTasks"]

PAGE: Final = 100

SKEW_MS: Final = 5_000
"""Allowed clock difference of two machines: a new task may be listed behind known ones."""

LATE_MS: Final = 1_000
"""Maximum delay of a notification: a client may have received one, and missed an older one."""


class ReplicaTasks:
    """The tasks of one session: those with `mark`, or all of the owner if that is None."""

    def __init__(
        self, service: TaskService, conversation: Conversation, owner: str, mark: bytes | None
    ) -> None:
        self._service = service
        self._conversation = conversation
        self._owner = owner
        self._mark = mark
        self._newest: Task | None = None

    async def catch_up(self, since: int | None, has_delivered: Callable[[str], bool]) -> None:
        """Follow the live tasks and report what happened `since` then, once the stream is opened.

        The interval is extended by `LATE_MS`; ends that were certainly delivered are left out.
        """
        if since is not None:
            since -= LATE_MS
        tasks = await self._service.store.page(self._owner, None, PAGE)
        for task in filter(self._is_of_session, tasks):
            is_new = since is not None or not self._conversation.knows(task.id)
            if is_new and not has_delivered(task.id):
                await self._conversation.follow_replica_task(task, since)
        self._newest = tasks[0] if tasks else None

    async def poll(self) -> None:
        """Follow new tasks and report their changes so far."""
        newest = await self._service.store.page(self._owner, None, 1)
        if not newest or (self._newest is not None and newest[0].id == self._newest.id):
            return
        tasks = await self._since_last()
        if self._conversation.is_creating:  # some may be created by this process: poll again later
            return
        for task in filter(self._is_of_session, reversed(tasks)):
            if not self._conversation.knows(task.id):
                await self._conversation.follow_replica_task(task, 0)
        self._newest = tasks[0] if tasks else None

    async def _since_last(self) -> Sequence[Task]:
        """Return the newest tasks of the owner, as far back as there can be new ones."""
        oldest = 0 if self._newest is None else self._newest.created_at - SKEW_MS
        found: list[Task] = []
        after: Position | None = None
        while len(found) < REMEMBERED:
            page = await self._service.store.page(self._owner, after, PAGE)
            found += (task for task in page if task.created_at >= oldest)
            if len(page) < PAGE or page[-1].created_at < oldest:
                break
            after = Position(page[-1].created_at, page[-1].id)
        return found

    def _is_of_session(self, task: Task) -> bool:
        return self._mark is None or task.metadata == self._mark
