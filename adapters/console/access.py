"""Access to the tasks of a visitor, or to those of all owners for an admin.

For other visitors the tasks of another owner do not exist.
"""

from collections.abc import Sequence

import attrs

from taskmachine.adapters.runtime.reruns import rerun
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.transports.connection.lookups import Lookups
from taskmachine.protocol.operations import Answer, Cancel
from taskmachine.protocol.sealing import BrowserSession, Position
from taskmachine.statemachine import Entry, NotFound, Reply, Task

__all__ = ["TaskAccess"]


@attrs.frozen
class TaskAccess:
    """Task operations on behalf of one visitor."""

    service: TaskService
    session: BrowserSession
    lookups: Lookups

    async def find(self, task_id: str) -> Task:
        """Return a task; `NotFound` without access, `LimitExceeded` for too many lookups."""
        self.lookups.begin()
        try:
            if not self.session.is_admin:
                return await self.service.get(self.session.owner, task_id)
            if len(task_id) > self.service.limits.id_chars:
                raise NotFound(task_id)
            task = await self.service.store.load(task_id)
            if task is None:
                raise NotFound(task_id)
        except NotFound:
            self.lookups.missed()
            raise
        return task

    async def page(self, after: Position | None, limit: int) -> Sequence[Task]:
        """Return tasks, newest first."""
        store = self.service.store
        if self.session.is_admin:
            return await store.browse(after, limit)
        return await store.page(self.session.owner, after, limit)

    async def history(self, task: Task) -> Sequence[Entry]:
        """Return the history of a task that `find` returned."""
        return await self.service.store.history(task.id)

    async def cancel(self, task_id: str) -> bool:
        """Cancel a task; return False if it has ended already."""
        task = await self.find(task_id)
        _, steps = await self.service.perform(
            task.owner, Cancel(task.id, "The task was cancelled in the console.")
        )
        return bool(steps)

    async def rerun(self, task_id: str, *, keep_steps: bool) -> Task:
        """Run the call of an ended task again, as a new task of the same owner."""
        return await rerun(self.service, await self.find(task_id), keep_steps=keep_steps)

    async def answer(self, task_id: str, key: str, reply: Reply) -> bool:
        """Answer a question; return False if it is not open any more."""
        task = await self.find(task_id)
        _, steps = await self.service.perform(task.owner, Answer(task.id, {key: reply}))
        return bool(steps)
