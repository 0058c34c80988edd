"""The client as seen by a tool that runs as a task: questions and progress go to the task.

The SDK's session is based on a channel for requests and notifications; this is one.  It is
created only from the task record, so a tool that runs again in another process finds the same
client.
"""

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Awaitable, Mapping
from typing import Any, Final, TypeVar

import anyio
from mcp.server.connection import Connection
from mcp.server.elicitation import render_elicitation_schema
from mcp.server.session import ServerSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.transport_context import TransportContext
from mcp_types import (
    INTERNAL_ERROR,
    REQUEST_TIMEOUT,
    ClientCapabilities,
    ElicitRequestFormParams,
)
from pydantic import BaseModel

from taskmachine.adapters.tools.context import Context, Refused
from taskmachine.adapters.tools.errors import Gone
from taskmachine.adapters.tools.questions import Request
from taskmachine.protocol.dialects.dialect import capabilities_for
from taskmachine.protocol.jsonvalue import JSONObject, encode_json
from taskmachine.statemachine import TaskmachineError

__all__ = ["Channel", "TaskSession", "elicitation", "key_of"]

log: Final = logging.getLogger("taskmachine")

_ASKABLE: Final = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})

_T = TypeVar("_T")


class Channel:
    """A dispatch context of the SDK for one run of a tool."""

    message_metadata = None
    can_send_request = True

    def __init__(self, context: Context) -> None:
        assert context.task_id is not None, "plain calls are the SDK's own"
        self.request_id = f"task {context.task_id}"
        self.transport = TransportContext(kind="task", can_send_request=True)
        self.cancel_requested = anyio.Event()
        self.gone: Gone | None = None
        """The reason why the task no longer accepts messages, if it does not."""
        self._context = context
        self._asked: Counter[str] = Counter()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Ask, and wait for the answer; raise `MCPError` if there is none."""
        if method == "ping":
            return {}
        if method not in _ASKABLE:
            raise NoBackChannelError(method)
        asking = self.ask({"it": Request(method, dict(params or {}))})
        try:
            async with asyncio.timeout((opts or {}).get("timeout")):
                return (await asking)["it"]
        except TimeoutError:
            raise MCPError(REQUEST_TIMEOUT, "The client did not answer in time") from None

    async def ask(self, requests: Mapping[str, Request[Any]]) -> dict[str, JSONObject]:
        """Ask several questions and return their results under the same names."""
        keys = {name: self._key(request) for name, request in requests.items()}
        asked = {keys[name]: request for name, request in requests.items()}
        answers = await self._or_error(self._context.ask_all(asked))
        return {name: answers[key] for name, key in keys.items()}

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Send progress; without a stream to the client, other notifications are dropped."""
        if method == "notifications/progress" and params is not None:
            await self.progress(params["progress"], params.get("total"), params.get("message"))
        else:
            log.debug(
                "%s: %s was dropped: a task has no stream to the client", self.request_id, method
            )

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Report progress, and its message as the status message."""
        await self._or_error(self._context.progress(progress, total, message))

    def _key(self, request: Request[Any]) -> str:
        """Return a key that is equal on every run, so that no question is asked twice."""
        first = key_of(request, 1)
        self._asked[first] += 1
        return key_of(request, self._asked[first])

    async def _or_error(self, act: Awaitable[_T]) -> _T:
        """Convert exceptions to MCPError, the only ones whose message the SDK preserves."""
        try:
            return await act
        except Refused as error:
            raise MCPError(error.code, error.message) from None
        except Gone as error:
            self.gone = error
            raise MCPError(INTERNAL_ERROR, str(error)) from None
        except TaskmachineError as error:
            raise MCPError(INTERNAL_ERROR, str(error)) from None


def key_of(request: Request[Any], number: int) -> str:
    """Return the key of the n-th occurrence of the same request."""
    words = encode_json({"method": request.method, "params": request.params})
    return f"{hashlib.sha256(words).hexdigest()[:12]}-{number}"


def elicitation(message: str, schema: type[BaseModel]) -> Request[JSONObject]:
    """Return the request of `ctx.elicit(message, schema)`, for the option `first`."""
    params = ElicitRequestFormParams(
        message=message, requested_schema=render_elicitation_schema(schema)
    )
    dumped = params.model_dump(by_alias=True, mode="json", exclude_none=True)
    return Request("elicitation/create", dumped)


class TaskSession(ServerSession):
    """The session of a tool that runs as a task, recognisable by `isinstance`."""

    def __init__(self, channel: Channel, answers: frozenset[str], protocol_version: str) -> None:
        connection = Connection(channel, protocol_version=protocol_version)
        connection.client_capabilities = ClientCapabilities.model_validate(
            capabilities_for(answers)
        )
        connection.initialized.set()
        super().__init__(channel, connection)
