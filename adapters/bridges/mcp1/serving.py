"""Enable tasks on a server of `mcp` 1.x, in a store of ours and with owners."""

from typing import Any, TypeVar

from mcp.server.lowlevel import Server
from mcp.types import (
    CancelTaskRequest,
    CancelTaskResult,
    ErrorData,
    GetTaskPayloadRequest,
    GetTaskPayloadResult,
    GetTaskRequest,
    GetTaskResult,
    ListTasksRequest,
    ListTasksResult,
)
from pydantic import BaseModel

from taskmachine.adapters.bridges.mcp1.message_queue import BoundedQueue
from taskmachine.adapters.bridges.mcp1.models import answer_of, dialect_errors
from taskmachine.adapters.bridges.mcp1.requestors import Identify
from taskmachine.adapters.bridges.mcp1.store import TaskmachineStore
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.protocol.dialects.mcp_2025_11_25.messages import TASK_CANCELLED
from taskmachine.protocol.dialects.mcp_2025_11_25.receiver import RECEIVER
from taskmachine.protocol.operations import Cancel, Get
from taskmachine.statemachine import Times

__all__ = ["enable_tasks"]

_M = TypeVar("_M", bound=BaseModel)


def enable_tasks(
    server: Server[Any, Any],
    url: str,
    *,
    times: Times | None = None,
    limits: Limits | None = None,
    identify: Identify | None = None,
) -> TaskmachineStore:
    """Enable tasks like `server.experimental.enable_tasks()`, in the store at the URL.

    The handlers of the SDK identify tasks by session, so tasks cannot outlive one; these use the
    owner.  `identify` returns it where it is neither the subject of an access token, nor an HTTP
    session, nor the parent process.
    """
    limits = limits or Limits()
    store = TaskmachineStore(url, times=times, limits=limits, identify=identify)
    queue = BoundedQueue(limits.questions)
    support = server.experimental.enable_tasks(store=store, queue=queue)

    def withdraw(task_id: str) -> None:
        """Fail the pending questions of a tool whose task has ended."""
        for message in queue.withdraw(task_id):
            if message.original_request_id is not None:
                ended = ErrorData(code=TASK_CANCELLED, message="The task has ended")
                support.handler.route_error(message.original_request_id, ended)

    store.on_end(withdraw)

    async def perform(model: type[_M], operation: Get | Cancel) -> _M:
        with dialect_errors():
            service, owner = await store.opened()
            record, steps = await service.perform(owner, operation)
        return answer_of(model, RECEIVER.reply(operation, record, steps, service.clock()))

    @server.experimental.get_task()
    async def get_task(request: GetTaskRequest) -> GetTaskResult:
        return await perform(GetTaskResult, Get(request.params.taskId))

    @server.experimental.cancel_task()
    async def cancel_task(request: CancelTaskRequest) -> CancelTaskResult:
        return await perform(CancelTaskResult, Cancel(request.params.taskId))

    @server.experimental.list_tasks()
    async def list_tasks(request: ListTasksRequest) -> ListTasksResult:
        cursor = request.params.cursor if request.params else None
        with dialect_errors():
            tasks, following = await store.list_tasks(cursor)
        return ListTasksResult(tasks=tasks, nextCursor=following)

    @server.experimental.get_task_result()
    async def get_task_result(request: GetTaskPayloadRequest) -> GetTaskPayloadResult:
        context = server.request_context
        with dialect_errors():
            service, owner = await store.opened()
            await service.get(owner, request.params.taskId)
            service.begin_wait(owner)
            try:
                return await support.handler.handle(request, context.session, context.request_id)
            finally:
                service.end_wait(owner)

    return store
