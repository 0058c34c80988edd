"""Receive requests as tasks on a client session of `mcp` 1.x, with its existing callbacks.

async with receive_tasks(sampling=sample, elicitation=elicit) as handlers:
    async with ClientSession(
        read,
        write,
        sampling_callback=sample,
        elicitation_callback=elicit,
        experimental_task_handlers=handlers,
    ) as session:
        ...

Each request of the SDK is passed to the same `Receiving` as on our own connections.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, TypeVar

import anyio
from mcp import types
from mcp.client.experimental.task_handlers import ExperimentalTaskHandlers
from mcp.client.session import ClientSession, ElicitationFnT, SamplingFnT
from mcp.shared.context import RequestContext
from mcp.shared.session import RequestResponder
from pydantic import BaseModel, TypeAdapter

from taskmachine.adapters.client.answering import Answering
from taskmachine.adapters.client.receiving import Receiver, Receiving, open_receiving
from taskmachine.adapters.client.remote_task import Question
from taskmachine.adapters.tools.registry import CallError
from taskmachine.protocol.jsonrpc import (
    INVALID_REQUEST,
    ErrorResponse,
    Id,
    Message,
    Notification,
    Request,
    ResultResponse,
)
from taskmachine.protocol.jsonvalue import JSONObject

__all__ = ["receive_tasks"]

Context = RequestContext[ClientSession, Any]
_Result = TypeVar("_Result", bound=BaseModel)

_ELICITATION: Final[TypeAdapter[types.ElicitRequestParams]] = TypeAdapter(types.ElicitRequestParams)
_GONE: Final = (anyio.ClosedResourceError, anyio.BrokenResourceError)


@asynccontextmanager
async def receive_tasks(
    *,
    sampling: SamplingFnT | None = None,
    elicitation: ElicitationFnT | None = None,
    sampling_capabilities: types.SamplingCapability | None = None,
    receiver: Receiver | None = None,
) -> AsyncIterator[ExperimentalTaskHandlers]:
    """Create the handlers for one session, which must have the same callbacks.

    A callback runs in the background, and is cancelled when its task is cancelled or expires.  If
    it returns an `ErrorData`, the task fails with it.  Raises ConfigurationError without any.
    """
    capabilities: JSONObject = {}
    if elicitation is not None:  # as the SDK declares it
        capabilities["elicitation"] = {"form": {}, "url": {}}
    if sampling is not None:
        declared = sampling_capabilities or types.SamplingCapability()
        capabilities["sampling"] = _plain(declared)
    bridge = _Bridge(sampling, elicitation)
    answering = Answering(bridge.answer, capabilities)
    try:
        async with open_receiving(receiver or Receiver(), answering, bridge.deliver) as receiving:
            bridge.receiving = receiving
            yield _handlers(bridge)
    finally:
        await bridge.close()


class _Bridge:
    """Connects a session of the SDK, known from its first request on, with our tasks."""

    def __init__(self, sampling: SamplingFnT | None, elicitation: ElicitationFnT | None) -> None:
        self.receiving: Receiving
        self._sampling = sampling
        self._elicitation = elicitation
        self._session: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._ids = count(1)
        self._waiting: dict[Id | None, asyncio.Future[ResultResponse | ErrorResponse]] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def ask(
        self, context: Context, method: str, params: BaseModel | None, shape: type[_Result]
    ) -> _Result | types.ErrorData:
        """Answer a request with a model of the SDK."""
        if not self._session.done():
            self._session.set_result(context.session)
        if self._session.result() is not context.session:
            return types.ErrorData(code=INVALID_REQUEST, message="Tasks are for another session")
        id = next(self._ids)
        waiting = self._waiting[id] = asyncio.get_running_loop().create_future()
        self.receiving.receive(Request(id, method, {} if params is None else _plain(params)))
        try:
            answer = await waiting
        except asyncio.CancelledError:
            self.receiving.receive(Notification("notifications/cancelled", {"requestId": id}))
            raise
        finally:
            del self._waiting[id]
        if isinstance(answer, ErrorResponse):
            error = answer.error
            return types.ErrorData(code=error.code, message=error.message, data=error.data)
        return shape.model_validate(answer.result)

    def deliver(self, message: Message) -> None:
        """Send a message of the tasks to the server."""
        if isinstance(message, Notification):
            self.start(self._notify(message))
        elif isinstance(message, ResultResponse | ErrorResponse):
            waiting = self._waiting.get(message.id)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)

    async def answer(self, question: Question) -> JSONObject:
        """Answer a question with the callback."""
        session = await self._session
        context = Context(question.key, None, session, None)
        said: BaseModel
        if question.method == "sampling/createMessage":
            assert self._sampling is not None, "else it is not declared"
            asked = types.CreateMessageRequestParams.model_validate(question.params)
            said = await self._sampling(context, asked)
        else:
            assert self._elicitation is not None, "else it is not declared"
            said = await self._elicitation(context, _ELICITATION.validate_python(question.params))
        if isinstance(said, types.ErrorData):
            raise CallError(said.code, said.message, said.data)
        return _plain(said)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run in the background, until the end of the session at most."""
        running = asyncio.create_task(work)
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    async def close(self) -> None:
        self._session.cancel()
        for running in self._running:
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _notify(self, said: Notification) -> None:
        status = types.TaskStatusNotification.model_validate(
            {"method": said.method, "params": said.params}
        )
        with suppress(*_GONE):
            await self._session.result().send_notification(types.ClientNotification(status))


@dataclass(kw_only=True)
class _Handlers(ExperimentalTaskHandlers):
    """Answers `tasks/result` in the background; the SDK would otherwise block on it."""

    bridge: _Bridge

    async def handle_request(
        self,
        ctx: Context,
        responder: RequestResponder[types.ServerRequest, types.ClientResult],
    ) -> None:
        if isinstance(responder.request.root, types.GetTaskPayloadRequest):
            self.bridge.start(self._later(ctx, responder))
        else:
            await super().handle_request(ctx, responder)

    async def _later(
        self,
        ctx: Context,
        responder: RequestResponder[types.ServerRequest, types.ClientResult],
    ) -> None:
        with suppress(*_GONE), responder:
            await super().handle_request(ctx, responder)


def _handlers(bridge: _Bridge) -> ExperimentalTaskHandlers:
    def asks(method: str, shape: type[_Result]) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def handle(
            context: Context, params: BaseModel | None, task_metadata: object = None
        ) -> _Result | types.ErrorData:
            return await bridge.ask(context, method, params, shape)

        return handle

    methods = bridge.receiving.methods
    more = {
        name: asks(method, types.CreateTaskResult)
        for name, method in _AUGMENTED.items()
        if method in methods
    }
    return _Handlers(
        bridge=bridge,
        get_task=asks("tasks/get", types.GetTaskResult),
        get_task_result=asks("tasks/result", types.GetTaskPayloadResult),
        list_tasks=asks("tasks/list", types.ListTasksResult),
        cancel_task=asks("tasks/cancel", types.CancelTaskResult),
        **more,
    )


_AUGMENTED: Final = {
    "augmented_sampling": "sampling/createMessage",
    "augmented_elicitation": "elicitation/create",
}


def _plain(model: BaseModel) -> JSONObject:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)
