"""A `TaskStore` for `mcp` 1.x on a store of the runtime.

The SDK runs the tools and reports their status to the store, where every change goes through the
transition table.  Ended tasks stay as they are: the SDK's own `complete` and `fail` raise for
them where no caller catches it, which ends the process; here they return the task.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import attrs
from mcp.shared.experimental.tasks.store import TaskStore
from mcp.types import Result, Task, TaskMetadata, TaskStatus

from taskmachine.adapters.bridges.mcp1.loop_store import LoopStore, Opened
from taskmachine.adapters.bridges.mcp1.models import (
    dialect_errors,
    encode_result,
    result_of,
    task_of,
)
from taskmachine.adapters.bridges.mcp1.requestors import Identify, requestor
from taskmachine.adapters.runtime.claims import Claim, claim
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.runtime.waiting import retry_store_errors
from taskmachine.adapters.stores import Conflict
from taskmachine.adapters.tools.errors import Gone
from taskmachine.adapters.transports.auth.owners import ANONYMOUS, STDIO
from taskmachine.protocol.dialects.mcp_2025_11_25.messages import DIALECT
from taskmachine.protocol.jsonrpc import INTERNAL_ERROR
from taskmachine.protocol.operations import Amend, decide
from taskmachine.statemachine import (
    Call,
    Cause,
    IllegalTransition,
    LimitExceeded,
    NotFound,
    Outcome,
    Reply,
    Times,
    lifecycle,
)
from taskmachine.statemachine import Task as Record
from taskmachine.statemachine.lifecycle import Step

__all__ = ["TaskmachineStore"]

log: Final = logging.getLogger("taskmachine")

_MOST_TOOLS: Final = 10_000
"""Maximum number of running tools whose deleted tasks are remembered; the oldest are dropped."""

_NO_RESULT: Final = Outcome.of_result(b"{}")


class TaskmachineStore(TaskStore):
    """The tasks of all clients in one store, where each client sees its own.

    Within a request, methods such as `get_task` see the tasks of its owner; code of the server
    outside of any request sees all tasks.
    """

    def __init__(
        self,
        url: str,
        *,
        times: Times | None = None,
        limits: Limits | None = None,
        identify: Identify | None = None,
    ) -> None:
        self._loop_store = LoopStore(url, times, limits)
        self._identify = identify
        self._on_end: list[Callable[[str], None]] = []
        # Results of tools whose end is reported next: the SDK does it in two calls.
        self._results: dict[str, Outcome] = {}
        # The tasks of tools that have not ended: such a tool may report after its task was
        # deleted, and an unknown task would end the process.
        self._tools: dict[str, Record] = {}

    def on_end(self, listener: Callable[[str], None]) -> None:
        """Call a listener for every task of this process that ends."""
        self._on_end.append(listener)

    async def opened(self) -> tuple[TaskService, str]:
        """Return the service, and the owner of the current request."""
        service, owner = await self._serving()
        return service, owner or STDIO

    async def close(self) -> None:
        """Close the store before the event loop ends, which does it otherwise."""
        await self._loop_store.close()

    # --- called by the SDK -------------------------------------------------------------------

    async def create_task(self, metadata: TaskMetadata, task_id: str | None = None) -> Task:
        """Create a task; `ValueError` for a known id, `McpError` for a limit or invalid ttl."""
        opened = await self._loop_store.opened()
        service = opened.service
        with dialect_errors():
            try:
                record = await service.create(
                    requestor(opened.owners, self._identify) or STDIO,
                    Call("tools/call"),  # the SDK does not pass the tool
                    ttl_ms=metadata.ttl,
                    is_repeatable=False,  # its work is a closure, and ends with the process
                    task_id=task_id,
                )
            except Conflict:
                raise ValueError(f"task {task_id} already exists") from None
        return task_of(await self._begin(opened, record), service.clock())

    async def get_task(self, task_id: str) -> Task | None:
        service, record = await self._find(task_id)
        return None if record is None else task_of(record, service.clock())

    async def update_task(
        self, task_id: str, status: TaskStatus | None = None, status_message: str | None = None
    ) -> Task:
        """Change a task and return it; an ended task stays unchanged.

        A tool that reports or asks on an ended task gets `Gone`, and so notices a cancellation.
        Failures of the store are retried.
        """
        record, now = await retry_store_errors(
            lambda: self._update(task_id, status, status_message)
        )
        if status in ("completed", "failed"):
            self._results.pop(task_id, None)
            self._tools.pop(task_id, None)
        return task_of(record, now)

    async def store_result(self, task_id: str, result: Result) -> None:
        """Keep a result for the end of the task, which the SDK reports next."""
        outcome = encode_result(result)
        _, record = await retry_store_errors(lambda: self._find_for_tool(task_id))
        if record.is_terminal:
            log.info("a late result of task %s was dropped", task_id)
        else:
            self._results[task_id] = outcome

    async def get_result(self, task_id: str) -> Result | None:
        """Return the result; raise `McpError`, the answer to `tasks/result`, if the task failed."""
        service, record = await self._find(task_id)
        if record is None or not record.is_terminal:
            return None
        return result_of(record, service.clock())

    async def list_tasks(self, cursor: str | None = None) -> tuple[list[Task], str | None]:
        """List the owner's tasks, newest first; raise `McpError` for an invalid cursor."""
        service, owner = await self.opened()
        if owner == ANONYMOUS:  # 2025-11-25:list-not-declared-without-identity
            return [], None
        with dialect_errors():
            page = await service.page(owner, cursor)
        now = service.clock()
        return [task_of(record, now) for record in page.tasks], page.cursor

    async def delete_task(self, task_id: str) -> bool:
        """Delete a task, cancelling it first if it is live."""
        service, record = await self._find(task_id)
        if record is None:
            return False
        try:
            await service.cancel(record.owner, task_id)
            await service.move(task_id, lambda task, now: (lifecycle.purge(task, now),))
        except NotFound:
            return False
        return True

    async def wait_for_update(self, task_id: str) -> None:
        """Wait until the status changes; return immediately for an ended task."""
        service, record = await self._find(task_id)
        if record is None:
            raise ValueError(f"unknown task {task_id}")
        seen = DIALECT.status(record)

        def is_awaited(task: Record) -> bool:
            return not task.is_live or DIALECT.status(task) != seen

        with suppress(NotFound):  # the next lookup reports it
            await service.until(task_id, is_awaited)

    async def notify_update(self, task_id: str) -> None:
        """Do nothing: waiters follow the task in the store."""

    # --- internals ---------------------------------------------------------------------------

    async def _begin(self, opened: Opened, record: Record) -> Record:
        """Start the task: the SDK runs the tool as soon as it has the task."""
        service = opened.service

        def hear(task: Record | None) -> None:
            if task is None or not task.is_live:
                leave()
                self._end(record.id, task)

        self._tools[record.id] = record
        if len(self._tools) > _MOST_TOOLS:
            del self._tools[next(iter(self._tools))]
        leave = service.store.follow(record.id, hear)
        await retry_store_errors(partial(claim, service, record.id, opened.worker.id))
        return await service.get(record.owner, record.id)

    def _end(self, task_id: str, task: Record | None) -> None:
        self._results.pop(task_id, None)
        if task is not None and task_id in self._tools:
            self._tools[task_id] = task
        for tell in self._on_end:
            tell(task_id)

    async def _find(self, task_id: str) -> tuple[TaskService, Record | None]:
        service, owner = await self._serving()
        if owner is None:
            return service, await service.store.load(task_id)
        try:
            return service, await service.get(owner, task_id)
        except NotFound:
            return service, None

    async def _find_for_tool(self, task_id: str) -> tuple[TaskService, Record]:
        service, record = await self._find(task_id)
        if record is None and (known := self._tools.get(task_id)) is not None:
            _, owner = await self._serving()
            record = known if owner in (None, known.owner) else None
        if record is None:
            raise ValueError(f"unknown task {task_id}")
        return service, record

    async def _serving(self) -> tuple[TaskService, str | None]:
        opened = await self._loop_store.opened()
        return opened.service, requestor(opened.owners, self._identify)

    async def _update(
        self, task_id: str, status: TaskStatus | None, message: str | None
    ) -> tuple[Record, int]:
        service, record = await self._find_for_tool(task_id)
        if message is not None:
            message = message[: service.limits.message_chars]
        match status:
            case "completed":
                outcome = self._results.get(task_id, _NO_RESULT)
                await _settle(service, record, attrs.evolve(outcome, message=message))
            case "failed":
                outcome = Outcome(Cause.ERROR, code=INTERNAL_ERROR, message=message)
                await _settle(service, record, outcome)
            case "cancelled":
                await _cancel(service, record, message)
            case _:
                await _report(service, record, status, message)
        record = await service.store.load(task_id) or self._tools.get(task_id, record)
        if status == "input_required" and record.is_terminal:  # no answer can arrive any more
            raise Gone(f"task {task_id} has ended")
        return record, service.clock()


async def _settle(service: TaskService, record: Record, outcome: Outcome) -> None:
    # No other worker claims it, so its current fence is that of its tool.
    try:
        await Claim(service, record).settle(outcome)
    except Gone as gone:  # quietly, as the task has its outcome
        log.info("a late outcome was dropped: %s", gone)


async def _cancel(service: TaskService, record: Record, reason: str | None) -> None:
    with suppress(NotFound):
        await service.cancel(record.owner, record.id, reason)


async def _report(
    service: TaskService, record: Record, status: TaskStatus | None, message: str | None
) -> None:
    def act(task: Record, now: int) -> Sequence[Step]:
        steps: list[Step] = []
        if message is not None:
            steps.append(lifecycle.report(task, now, message=message))
            task = steps[-1].task
        # The store sees neither question nor answer, only that one is open.
        if status == "input_required" and not task.open_questions:
            if len(task.questions) >= most:
                raise LimitExceeded(f"{most} questions of one task", 0)
            steps.extend(decide(Amend(task.id, asks=True), task, now, service.times))
        elif status == "working" and task.open_questions:
            answered = Amend(task.id, input=Reply(b"{}"))
            steps.extend(decide(answered, task, now, service.times))
        return steps

    most = service.limits.questions
    try:
        await service.move(record.id, act)
    except (IllegalTransition, NotFound) as error:
        raise Gone(str(error)) from None
