"""Runs tools in this process.

The queue in memory is only the order in which this process takes tasks; the jobs themselves are
the `submitted` tasks of the store.  So nothing is lost when the process is: whoever looks next
finds them there.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from taskmachine.adapters.engines.fair_queue import FairQueue
from taskmachine.adapters.engines.worker import LOOK_S, MOST_QUEUED, Workshop
from taskmachine.adapters.runtime.claims import Claim
from taskmachine.adapters.runtime.engine import Duty
from taskmachine.adapters.runtime.service import Place, TaskService
from taskmachine.adapters.stores import StoreError, Worker
from taskmachine.adapters.tools.registry import Threads, Tool
from taskmachine.protocol.jsonvalue import decode_json
from taskmachine.statemachine import Task

__all__ = ["LocalEngine"]

log: Final = logging.getLogger("taskmachine")


class LocalEngine:
    """Takes tasks of a service and runs the tools that they call, so many at a time."""

    def __init__(
        self,
        service: TaskService,
        tools: Mapping[str, Tool],
        threads: Threads,
        new_worker: Callable[[], Worker],
    ) -> None:
        self._service = service
        self._tools = tools
        self._workshop = Workshop(service, tools, threads, new_worker, self._fill)
        self._queue = FairQueue()

    async def start(self) -> None:
        """Be known to the others, and take what there is to do."""
        await self._workshop.enlist()
        self._service.on_dispatch(self.dispatch)
        self._service.on_submit(self.reserve)

    @property
    def duties(self) -> Mapping[str, Duty]:
        return {"the beat of the worker": self._workshop.beat, "the search for jobs": self.look}

    def reserve(self, task: Task) -> Place | None:
        """If nobody waits, its tool may begin at once."""
        is_ours = task.call.name in self._tools
        if is_ours and not self._queue.waiting and self._workshop.has_room:
            return self._workshop.reserve(task.id)
        return None

    def dispatch(self, task: Task) -> None:
        """There is a new job."""
        tool = self._tools.get(task.call.name or "")
        if tool is None:
            return  # somebody else's: another server on the same store has other tools
        self._queue.push(task.id, task.owner, _priority(task, tool))
        self._fill()

    async def look(self) -> float:
        """Find what nobody told us: jobs in the queue, and tasks that we hold unknowingly."""
        await self._workshop.give_back_lost()
        for task in await self._service.store.queued(MOST_QUEUED):
            if not self._workshop.has(task.id):
                self.dispatch(task)
        return LOOK_S

    async def shutdown(self, grace_s: float | None = None) -> None:
        await self._workshop.shutdown(grace_s)

    def _fill(self) -> None:
        while self._queue.waiting and self._workshop.has_room:
            task_id = self._queue.pop()
            self._workshop.begin(task_id, partial(self._take, task_id))

    async def _take(self, task_id: str) -> Claim | None:
        try:
            return await self._workshop.claim(task_id)
        except StoreError as error:  # whether it was claimed or not: `look` will find it
            log.warning("task %s could not be claimed: %s", task_id, error)
            return None


def _priority(task: Task, tool: Tool) -> str:
    """What the creator said of it, else what its tool says."""
    if task.metadata == b"{}":  # as most
        return tool.priority
    said = decode_json(task.metadata).get("priority")
    return said if said in ("low", "normal", "high") else tool.priority
