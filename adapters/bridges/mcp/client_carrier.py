"""The client session of the SDK as a transport for one task."""

import asyncio
import contextlib
from typing import Any, Final

import attrs
import mcp_types as types
from mcp.client import ClientRequestContext, ClientSession
from mcp.shared.exceptions import MCPError
from pydantic import RootModel, TypeAdapter, ValidationError

from taskmachine.adapters.bridges.mcp.steady_http import UNREACHABLE
from taskmachine.adapters.client.answering import Answering
from taskmachine.adapters.client.connection import Connection
from taskmachine.adapters.client.errors import ConnectionLost, NoAnswer
from taskmachine.adapters.client.remote_task import Question
from taskmachine.protocol.jsonrpc import (
    INVALID_PARAMS,
    Error,
    ErrorResponse,
    Id,
    Message,
    Notification,
    Request,
    ResultResponse,
)
from taskmachine.protocol.jsonvalue import JSONObject, encode_json
from taskmachine.statemachine import Reply, TaskmachineError

__all__ = ["NEWS", "Anything", "Carrier", "Handlers", "TaskGone", "ask"]

NEWS: Final = "notifications/tasks"
LISTENING_S: Final = 86_400.0
MOST_CLOSED: Final = 3  # immediate failures in a row that mean a lost connection, not a lost stream

_NO_TOOLS: Final[JSONObject] = {"tools": [], "ttlMs": 0, "cacheScope": "private"}
_INPUT_REQUEST: Final[TypeAdapter[types.InputRequest]] = TypeAdapter(types.InputRequest)


class TaskGone(MCPError):
    """The server does not have the task: it has expired, or belongs to another client."""

    def __init__(self, task_id: str, error: MCPError) -> None:
        super().__init__(error.code, error.message, error.data)
        self.task_id = task_id


@attrs.define(eq=False)
class Carrier:
    """A transport for one task over the session of the SDK.

    The call was made before, so this answers the requests of `Session` that precede the task id.
    """

    _session: ClientSession
    _connection: Connection
    _created: JSONObject
    _timeout: float | None
    _limit_s: float
    """The same, or the default if the caller sets none."""
    may_listen: bool
    refusal: Exception | None = None
    """The exception that ended the task, from a question without an answer or a lost task."""
    _running: dict[Id, asyncio.Task[None]] = attrs.field(factory=dict)
    _cancels: set[asyncio.Task[None]] = attrs.field(factory=set)

    def send(self, message: Message) -> None:
        """Start a request; the SDK itself sends cancellations."""
        match message:
            case Request(id=id, method="tools/list" | "tools/call" as method):
                known = _NO_TOOLS if method == "tools/list" else self._created
                answer = ResultResponse(id, known)
                asyncio.get_running_loop().call_soon(self._connection.received, answer)
            case Request(method="subscriptions/listen"):
                if self.may_listen:
                    self._start(message, self._listen(message))
            case Request():
                self._start(message, self._exchange(message))
            case Notification(params={"requestId": id}) if id in self._running:
                _stop(self._running[id])

    async def begin(self, first: Notification) -> None:
        """Do nothing: the SDK has done this."""

    def admit(self, tools: list[JSONObject]) -> list[JSONObject]:
        """Accept all tools: the SDK has checked them."""
        return tools

    async def close(self) -> None:
        """Stop everything."""
        running = list(self._running.values())
        for task in running:
            _stop(task)
        await asyncio.gather(*running, return_exceptions=True)

    def deliver(self, news: JSONObject) -> None:
        """Deliver a notification; `Session` checks whether it is about this task."""
        self._connection.received(Notification(NEWS, news))

    async def until_cancels_are_answered(self) -> None:
        """Wait until every cancellation is answered or has failed."""
        if self._cancels:
            await asyncio.wait(self._cancels)

    def _start(self, request: Request, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._running[request.id] = task
        task.add_done_callback(lambda _: self._running.pop(request.id, None))
        if request.method == "tasks/cancel":
            self._cancels.add(task)

    async def _listen(self, request: Request) -> None:
        """Listen beside the polls (2026-07-28:poll-beside-notifications)."""
        with contextlib.suppress(MCPError, ValidationError, TimeoutError):
            await ask(self._session, request.method, request.params, LISTENING_S)

    async def _exchange(self, request: Request) -> None:
        try:
            for _ in range(MOST_CLOSED):
                answer = await self._answer_to(request)
                if answer is not None:
                    self._connection.received(answer)
                    break
            else:
                words = "the connection to the server is closed; the task may go on there"
                self._connection.gone(ConnectionLost(words))
        except TaskmachineError as error:
            self._connection.lost(request.id, error)
        if self.refusal is not None and request.method == "tasks/cancel":
            # 2026-07-28:client-may-forget-after-cancel
            self._connection.gone(ConnectionLost("a question could not be answered"))

    async def _answer_to(self, request: Request) -> Message | None:
        """Return None if the SDK reports a closed connection, which may mean only one stream."""
        try:
            async with asyncio.timeout(self._limit_s):
                result = await ask(self._session, request.method, request.params, self._timeout)
        except (MCPError, TimeoutError) as failure:
            if isinstance(failure, TimeoutError) or failure.code == types.REQUEST_TIMEOUT:
                raise NoAnswer(f"no answer to {request.method} in time") from None
            if failure.data == UNREACHABLE:
                raise ConnectionLost(failure.message) from None
            if failure.code == types.CONNECTION_CLOSED:
                return None
            if request.method == "tasks/get" and failure.code == INVALID_PARAMS:
                self.refusal = TaskGone(request.params["taskId"], failure)
            told = Error(failure.code, failure.message, failure.data)
            return ErrorResponse(request.id, told)
        return ResultResponse(request.id, result)


class Handlers(Answering):
    """Answers questions with the callbacks of the SDK's client."""

    def __init__(self, session: ClientSession, carrier: Carrier) -> None:
        super().__init__(None, {})
        self._session = session
        self._carrier = carrier

    async def reply(self, question: Question) -> Reply:
        """Answer a question; an error ends the task, like a plain call."""
        asked = {"method": question.method, "params": question.params}
        try:
            request = _INPUT_REQUEST.validate_python(asked, by_name=False)
            meta = None if request.params is None else request.params.meta
            context = ClientRequestContext(
                session=self._session, request_id=question.key, meta=meta
            )
            said = await self._session.dispatch_input_request(context, request)
            if isinstance(said, types.ErrorData):
                raise MCPError.from_error_data(said)
            body = said.model_dump(by_alias=True, mode="json", exclude_none=True)
            return Reply(encode_json(body))
        except Exception as error:  # noqa: BLE001 - passed to the caller
            self._carrier.refusal = error
            return Reply(b"{}", is_error=True)


class _TaskRequest(types.Request[dict[str, Any], str]):
    name_param = "taskId"  # 2026-07-28:mcp-name-is-task-id


class Anything(RootModel[dict[str, Any]]):
    """A result that our own codecs parse."""


def _stop(task: asyncio.Task[None]) -> None:
    if not task.cancelling():  # a second cancellation would interrupt the shutdown of the SDK
        task.cancel()


async def ask(
    session: ClientSession, method: str, params: JSONObject, timeout: float | None
) -> JSONObject:
    named = {key: value for key, value in params.items() if key != "_meta"}  # the SDK adds its own
    kind = _TaskRequest if "taskId" in params else types.Request[dict[str, Any], str]
    answer = await session.send_request(
        kind(method=method, params=named), Anything, request_read_timeout_seconds=timeout
    )
    return answer.root
