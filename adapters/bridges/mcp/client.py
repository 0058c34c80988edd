"""Tasks for clients of the official SDK: `Client(..., extensions=[Tasks()])`.

The SDK transports the messages; `Session` implements the protocol.  For asyncio only.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextvars import ContextVar
from typing import Any, Final, Literal

import anyio
import attrs
import mcp_types as types
from mcp.client import (
    ClaimContext,
    Client,
    ClientExtension,
    ClientSession,
    NotificationBinding,
    ResultClaim,
)
from mcp.shared.exceptions import MCPError

from taskmachine.adapters.bridges.mcp.client_carrier import (
    NEWS,
    Anything,
    Carrier,
    Handlers,
    TaskGone,
    ask,
)
from taskmachine.adapters.bridges.mcp.steady_http import steady_http
from taskmachine.adapters.client.connection import Connection
from taskmachine.adapters.client.errors import CallFailed, Cancelled, ConnectionLost
from taskmachine.adapters.client.generations import Generation, Server, modern
from taskmachine.adapters.client.remote_task import RemoteTask, Update
from taskmachine.adapters.client.session import Session
from taskmachine.protocol.dialects.mcp_2026_07_28.messages import EXTENSION, REVISION
from taskmachine.protocol.dialects.mcp_2026_07_28.requestor import Requestor2026
from taskmachine.protocol.dialects.requestor import Paused, Seen
from taskmachine.protocol.jsonvalue import JSONObject, encode_json
from taskmachine.statemachine import ConfigurationError, Outcome, TaskmachineError

__all__ = [
    "Cancelled",
    "ConnectionLost",
    "CreatedTask",
    "Task",
    "TaskGone",
    "Tasks",
    "Update",
    "steady_http",
]

REQUEST_S: Final = 60.0  # if the caller sets no request timeout
LAST_WORDS_S: Final = 5.0  # for the last messages after a cancellation
MOST_STREAMS: Final = 8  # each occupies a pooled connection that polls need, too

_SERVER: Final = Server(REVISION, {}, {})  # the SDK has the real one


class CreatedTask(types.Result):
    """The answer to a call that became a task."""

    result_type: Literal["task"]
    task_id: str
    status: str
    created_at: str
    last_updated_at: str
    ttl_ms: int | None = None
    status_message: str | None = None
    poll_interval_ms: int | None = None


class Tasks(ClientExtension):
    """Makes `call_tool` return the result even if the call becomes a task.

    `longest_poll_s` limits the interval between polls.  One instance may serve several clients, but
    notifications take effect only if it serves one: the SDK does not identify their servers.
    """

    identifier = EXTENSION

    def __init__(self, *, longest_poll_s: float = 60.0) -> None:
        if not longest_poll_s > 0:
            raise ConfigurationError("longest_poll_s must be more than 0")
        self._generation = _with_bounded_polls(longest_poll_s)
        self._carriers: set[Carrier] = set()
        self._clients = 0

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """Claim the answers that create tasks."""
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self._resolve)]

    def notifications(self) -> Sequence[NotificationBinding[Any]]:
        """Subscribe to task notifications, once per client."""
        self._clients += 1
        return [NotificationBinding(method=NEWS, params_type=Anything, handler=self._hear)]

    @contextlib.asynccontextmanager
    async def start(
        self,
        client: Client,
        name: str,
        arguments: JSONObject | None = None,
        *,
        read_timeout_seconds: float | None = None,
    ) -> "AsyncIterator[Task]":
        """Call a tool and return the task.

        After the block the task is no longer polled, but continues on the server.
        """
        session, timeout = client.session, read_timeout_seconds
        wanted = _WANTED.set((session, name))
        try:
            created, result = None, await client.call_tool(name, arguments, timeout)
        except _HandedOut as handed_out:
            created = handed_out.args[0]
        finally:
            _WANTED.reset(wanted)
        if created is None:
            yield Task(_ended(result), session, name, None)
            return
        async with self._following(session, created, timeout, name) as task:
            yield task

    @contextlib.asynccontextmanager
    async def follow(
        self, client: Client, task_id: str, *, read_timeout_seconds: float | None = None
    ) -> "AsyncIterator[Task]":
        """Follow an existing task, perhaps created by an earlier process."""
        # Only the id matters: the first poll follows immediately.
        seed = {"taskId": task_id, "status": "working", "createdAt": "", "lastUpdatedAt": ""}
        created = {"resultType": "task", "ttlMs": None, "pollIntervalMs": 1, **seed}
        async with self._following(client.session, created, read_timeout_seconds) as task:
            yield task

    async def _resolve(self, created: CreatedTask, context: ClaimContext) -> types.CallToolResult:
        session, timeout = context.session, context.read_timeout_seconds
        shown = created.model_dump(by_alias=True, mode="json", exclude_unset=True)
        if _WANTED.get() == (session, context.tool_name):
            raise _HandedOut(shown)
        try:
            async with self._following(session, shown, timeout) as task:
                return await task.result()
        except asyncio.CancelledError:
            # Shielded, because the cancelled caller waits for this to finish.
            with anyio.move_on_after(LAST_WORDS_S, shield=True), contextlib.suppress(Exception):
                await ask(session, "tasks/cancel", {"taskId": created.task_id}, None)
            raise

    @contextlib.asynccontextmanager
    async def _following(
        self,
        session: ClientSession,
        created: JSONObject,
        timeout: float | None,
        tool: str | None = None,
    ) -> "AsyncIterator[Task]":
        if session.protocol_version != REVISION:
            raise ConfigurationError(
                f"tasks require MCP {REVISION}, not {session.protocol_version}"
            )
        limit_s = timeout or REQUEST_S
        connection = Connection(2 * limit_s)  # requests time out in the SDK first
        streams = sum(carrier.may_listen for carrier in self._carriers)
        may_listen = self._clients == 1 and streams < MOST_STREAMS
        connection.transport = carrier = Carrier(
            session, connection, created, timeout, limit_s, may_listen
        )
        ours = Session(connection, self._generation, _SERVER, Handlers(session, carrier))
        self._carriers.add(carrier)
        try:
            yield Task(await ours.call(tool or "task"), session, tool, carrier)
        finally:
            self._carriers.discard(carrier)
            with anyio.move_on_after(LAST_WORDS_S, shield=True):
                await ours.close()
                await carrier.close()

    async def _hear(self, news: "Anything") -> None:
        for carrier in self._carriers if self._clients == 1 else ():
            carrier.deliver(news.root)


@attrs.frozen(eq=False)
class Task:
    """A call in progress.  `async for update in task` yields its changes until the end."""

    _remote: RemoteTask
    _session: ClientSession
    _tool: str | None
    _carrier: "Carrier | None"

    @property
    def id(self) -> str | None:
        """The id for `Tasks.follow`; None if the call was answered without a task."""
        return self._remote.id

    def __aiter__(self) -> AsyncIterator[Update]:
        return aiter(self._remote)

    async def result(self) -> types.CallToolResult:
        """Return what `call_tool` would have returned.

        Raises MCPError if the task failed or a question could not be answered, TaskGone if the
        server no longer has it, Cancelled or ConnectionLost.
        """
        try:
            body = await self._remote.result()
        except TaskmachineError as error:
            refusal = None if self._carrier is None else self._carrier.refusal
            if refusal is not None:
                raise refusal from None
            if isinstance(error, CallFailed):
                raise MCPError(error.code, error.message, error.data) from None
            raise
        result = types.CallToolResult.model_validate(body, by_name=False)
        if self._tool is not None and not result.is_error:
            await self._session.validate_tool_result(self._tool, result)
        return result

    async def cancel(self) -> None:
        """Ask the server to cancel and wait for the acknowledgement; `result` has the outcome."""
        await self._remote.cancel()
        if self._carrier is not None:
            await self._carrier.until_cancels_are_answered()


class _HandedOut(Exception):
    """Carries a task from inside `call_tool` to `Tasks.start`."""


_WANTED: Final[ContextVar[tuple[ClientSession, str] | None]] = ContextVar("wanted", default=None)


def _ended(result: types.CallToolResult) -> RemoteTask:
    task = RemoteTask(lambda: None)
    body = result.model_dump(by_alias=True, mode="json", exclude_unset=True)
    task.end(Outcome.of_result(encode_json(body), is_error=result.is_error is True))
    return task


def _with_bounded_polls(longest_s: float) -> Generation:
    bounded = _BoundedPolls(longest_ms=max(1, int(longest_s * 1_000)))
    return attrs.evolve(modern({}, {}), requestor=lambda _, __: bounded)


@attrs.frozen
class _BoundedPolls(Requestor2026):
    """Polls at least this often, whatever interval the server suggests."""

    longest_ms: int = attrs.field(kw_only=True)

    def read_created(self, result: Any) -> Seen | Outcome | Paused:
        made = super().read_created(result)
        return self._bounded(made) if isinstance(made, Seen) else made

    def read(self, shown: Any) -> Seen | None:
        seen = super().read(shown)
        return None if seen is None else self._bounded(seen)

    def _bounded(self, seen: Seen) -> Seen:
        if seen.poll_ms is None:
            return seen
        return attrs.evolve(seen, poll_ms=min(seen.poll_ms, self.longest_ms))
