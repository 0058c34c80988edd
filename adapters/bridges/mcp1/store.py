"""The store of the runtime behind the `TaskStore` of `mcp` 1.x.

The SDK runs the tools, and says in the store what becomes of them.  Every word of it goes through
the table.  What has ended has ended: the SDK's own `complete` and `fail` raise for such a task in
a place where nobody catches it, which ends the process; here they get the task as it is.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import attrs
from mcp.shared.experimental.tasks.store import TaskStore
from mcp.types import Result, Task, TaskMetadata, TaskStatus

from taskmachine.adapters.bridges.mcp1.life import Life, Opened
from taskmachine.adapters.bridges.mcp1.requestors import Identify, requestor
from taskmachine.adapters.bridges.mcp1.shown import encode_result, in_words, result_of, task_of
from taskmachine.adapters.runtime.claims import Claim, claim
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.runtime.waiting import retry_store_errors, wait_for
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
"""Tools that may outlive the memory of their tasks; of more than these the oldest are unknown."""

_NO_RESULT: Final = Outcome.of_result(b"{}")


class TaskmachineStore(TaskStore):
    """Tasks of all callers, in the store that a URL names; each caller sees their own.

    `get_task` and its like see what the current request may see.  Outside of any request it is
    the server's own code that asks, which may see every task.
    """

    def __init__(
        self,
        url: str,
        *,
        times: Times | None = None,
        limits: Limits | None = None,
        identify: Identify | None = None,
    ) -> None:
        self._life = Life(url, times, limits)
        self._identify = identify
        self._on_end: list[Callable[[str], None]] = []
        # What tools returned whose end is about to be said: the SDK does it in two calls.
        self._results: dict[str, Outcome] = {}
        # The tasks of tools that have not said how they ended: such a tool may come back long
        # after its task was forgotten, and must find something, or the process ends.
        self._tools: dict[str, Record] = {}

    def on_end(self, listener: Callable[[str], None]) -> None:
        """Tell of every task of this process that ends, in whatever way."""
        self._on_end.append(listener)

    async def opened(self) -> tuple[TaskService, str]:
        """The service, and the owner in whose name the current request speaks."""
        service, owner = await self._serving()
        return service, owner or STDIO

    async def close(self) -> None:
        """Close the store before the event loop ends, which does it otherwise."""
        await self._life.close()

    # --- what the SDK asks for ---------------------------------------------------------------

    async def create_task(self, metadata: TaskMetadata, task_id: str | None = None) -> Task:
        """`ValueError` for an id that is known, `McpError` beyond a limit or for a bad ttl."""
        opened = await self._life.opened()
        service = opened.service
        with in_words():
            try:
                record = await service.create(
                    requestor(opened.owners, self._identify) or STDIO,
                    Call("tools/call"),  # the SDK does not say of which tool
                    ttl_ms=metadata.ttl,
                    is_repeatable=False,  # its work is a closure, and ends with the process
                    task_id=task_id,
                )
            except Conflict:
                raise ValueError(f"there is a task {task_id} already") from None
        return task_of(await self._begin(opened, record), service.clock())

    async def get_task(self, task_id: str) -> Task | None:
        service, record = await self._find(task_id)
        return None if record is None else task_of(record, service.clock())

    async def update_task(
        self, task_id: str, status: TaskStatus | None = None, status_message: str | None = None
    ) -> Task:
        """The task as it is then: one that has ended stays as it ended.

        A tool that reports, or asks, on a task that has ended gets `Gone`: that is how it learns
        of a cancellation.  A store that fails is waited for.
        """
        record, now = await retry_store_errors(
            lambda: self._update(task_id, status, status_message)
        )
        if status in ("completed", "failed"):
            self._results.pop(task_id, None)
            self._tools.pop(task_id, None)
        return task_of(record, now)

    async def store_result(self, task_id: str, result: Result) -> None:
        """Kept with the end of the task, which the SDK says next."""
        outcome = encode_result(result)
        _, record = await retry_store_errors(lambda: self._find_for_tool(task_id))
        if record.is_terminal:
            log.info("a late result of task %s was dropped", task_id)
        else:
            self._results[task_id] = outcome

    async def get_result(self, task_id: str) -> Result | None:
        """`McpError` for a task that ended without one: `tasks/result` answers with that."""
        service, record = await self._find(task_id)
        if record is None or not record.is_terminal:
            return None
        return result_of(record, service.clock())

    async def list_tasks(self, cursor: str | None = None) -> tuple[list[Task], str | None]:
        """Tasks of whoever asks, newest first; `McpError` for a cursor that is not theirs."""
        service, owner = await self.opened()
        if owner == ANONYMOUS:  # 2025-11-25:list-not-declared-without-identity
            return [], None
        with in_words():
            page = await service.page(owner, cursor)
        now = service.clock()
        return [task_of(record, now) for record in page.tasks], page.cursor

    async def delete_task(self, task_id: str) -> bool:
        """A task that has not ended is cancelled first."""
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
        """Until the status is another one; at once if it has ended, so that no end is missed."""
        service, record = await self._find(task_id)
        if record is None:
            raise ValueError(f"there is no task {task_id}")
        seen = DIALECT.status(record)

        def is_awaited(task: Record) -> bool:
            return not task.is_live or DIALECT.status(task) != seen

        with suppress(NotFound):  # whoever looks next will see
            await wait_for(service.store, task_id, is_awaited)

    async def notify_update(self, task_id: str) -> None:
        """Nothing to do: whoever waits follows the task in the store, and hears of each version."""

    # --- how it is done ----------------------------------------------------------------------

    async def _begin(self, opened: Opened, record: Record) -> Record:
        """The tool begins at once: the SDK starts it when it has the task."""
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
            raise ValueError(f"there is no task {task_id}")
        return service, record

    async def _serving(self) -> tuple[TaskService, str | None]:
        opened = await self._life.opened()
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
        if status == "input_required" and record.is_terminal:  # nobody will answer any more
            raise Gone(f"task {task_id} has ended")
        return record, service.clock()


async def _settle(service: TaskService, record: Record, outcome: Outcome) -> None:
    # Nobody else ever claims it, so the fence that it has now is the fence of its tool.
    try:
        await Claim(service, record).settle(outcome)
    except Gone as gone:  # Quietly, the task has its outcome
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
        # What is asked, and what is answered, passes by the store: only that it is shows here.
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
