"""Tasks that other processes made in a session: its general stream is told of them, too.

The stream is read at one process, and tasks are made at any.  That one looks for them in the
store: nobody has to know who reads what, and nothing is written for it.
"""

from collections.abc import Callable, Sequence
from typing import Final

from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.transports.connection.conversation import Conversation
from taskmachine.adapters.transports.connection.following import REMEMBERED
from taskmachine.protocol.sealing import Position
from taskmachine.statemachine import Task

__all__ = ["MadeElsewhere"]

PAGE: Final = 100

SKEW_MS: Final = 5_000
"""The clocks of two machines differ: a new task may be listed behind those that are known."""

LATE_MS: Final = 1_000
"""How long it may take until a change is told: whoever was told of one may miss an older one."""


class MadeElsewhere:
    """For one session.  Its tasks carry the `mark`; None if all tasks of its owner are its own."""

    def __init__(
        self, service: TaskService, conversation: Conversation, owner: str, mark: bytes | None
    ) -> None:
        self._service = service
        self._conversation = conversation
        self._owner = owner
        self._mark = mark
        self._newest: Task | None = None

    async def catch_up(self, since: int | None, has_told: Callable[[str], bool]) -> None:
        """The stream is there (again): follow what lives, and tell what happened `since` then.

        Somewhat more than that, as changes are told later than they are made; but of no task
        whose end it was certainly told.
        """
        if since is not None:
            since -= LATE_MS
        tasks = await self._service.store.page(self._owner, None, PAGE)
        for task in filter(self._is_of_session, tasks):
            is_new = since is not None or not self._conversation.knows(task.id)
            if is_new and not has_told(task.id):
                await self._conversation.hear_of(task, since)
        self._newest = tasks[0] if tasks else None

    async def look(self) -> None:
        """Follow what is new, and tell all that has happened to it."""
        newest = await self._service.store.page(self._owner, None, 1)
        if not newest or (self._newest is not None and newest[0].id == self._newest.id):
            return
        tasks = await self._since_last()
        if self._conversation.is_making:  # some of them may just be ours: look again later
            return
        for task in filter(self._is_of_session, reversed(tasks)):
            if not self._conversation.knows(task.id):
                await self._conversation.hear_of(task, 0)
        self._newest = tasks[0] if tasks else None

    async def _since_last(self) -> Sequence[Task]:
        """The newest tasks of the owner, as far back as there can be new ones."""
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
