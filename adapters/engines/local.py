"""An engine that runs tools in this process.

The queue in memory only orders the tasks for this process.  The jobs are the `submitted` tasks in
the store, so another process finds them there if this one is lost.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from taskmachine.adapters.engines.fair_queue import FairQueue, priority_of
from taskmachine.adapters.engines.worker import MOST_QUEUED, POLL_S, WAKE_S, TaskWorker
from taskmachine.adapters.runtime.claims import Claim
from taskmachine.adapters.runtime.engine import PeriodicJob
from taskmachine.adapters.runtime.service import Reservation, TaskService
from taskmachine.adapters.runtime.tool_runs import ToolRunner
from taskmachine.adapters.stores import StoreError, Worker
from taskmachine.adapters.tools.registry import Tools
from taskmachine.statemachine import Task

__all__ = ["LocalEngine"]

log: Final = logging.getLogger("taskmachine")


class LocalEngine:
    """Claims tasks of a service and runs their tools, up to a number at a time."""

    def __init__(
        self,
        service: TaskService,
        tools: Tools,
        runner: ToolRunner,
        new_worker: Callable[[], Worker],
    ) -> None:
        self._service = service
        self._tools = tools
        self._worker = TaskWorker(service, tools, runner, new_worker, self._run_queued)
        self._queue = FairQueue()

    async def start(self) -> None:
        """Register the worker and accept tasks."""
        await self._worker.register()
        self._service.on_dispatch(self.dispatch)
        self._service.on_submit(self.reserve)

    @property
    def periodic_jobs(self) -> Mapping[str, PeriodicJob]:
        return {
            "worker heartbeat": self._worker.beat,
            "queue poll": self.poll,
            "waking of tasks": self.wake,
        }

    def reserve(self, task: Task) -> Reservation | None:
        """Let the worker claim a new task immediately if it has room for its owner.

        Then every queued task is of an owner without room: the others have been started.
        """
        is_ours = task.call.name in self._tools and task.due_at is None
        if is_ours and self._worker.has_room_for(task.owner):
            return self._worker.reserve(task)
        return None

    def dispatch(self, task: Task) -> None:
        """Queue a task, unless its tool belongs to another server on the same store.

        `wake` queues a task that is due later.
        """
        tool = self._tools.get(task.call.name or "")
        if tool is None or (task.due_at or 0) > self._service.clock():
            return
        self._queue.push(task.id, task.owner, priority_of(task, tool))
        self._run_queued()

    async def poll(self) -> float:
        """Find queued tasks without a notification, and claims that this worker lost track of."""
        await self._worker.give_back_lost()
        self._dispatch_all(await self._service.store.queued(self._service.clock(), MOST_QUEUED))
        return POLL_S

    async def wake(self) -> float:
        """Find tasks that have become due: the one read costs the same for any number asleep."""
        if len(self._queue.waiting) < MOST_QUEUED:
            self._dispatch_all(await self._service.store.due(self._service.clock(), MOST_QUEUED))
        return WAKE_S

    async def shutdown(self, grace_s: float | None = None) -> None:
        await self._worker.shutdown(grace_s)

    def _dispatch_all(self, tasks: Sequence[Task]) -> None:
        for task in tasks:
            if not self._worker.has(task.id):
                self.dispatch(task)

    def _run_queued(self) -> None:
        while self._queue.waiting and self._worker.has_room:
            found = self._queue.pop(self._worker.has_room_for)
            if found is None:
                return
            task_id, owner = found
            self._worker.begin(task_id, owner, partial(self._claim, task_id))

    async def _claim(self, task_id: str) -> Claim | None:
        try:
            return await self._worker.claim(task_id)
        except StoreError as error:  # `poll` finds the task, whether it was claimed or not
            log.warning("task %s could not be claimed: %s", task_id, error)
            return None
