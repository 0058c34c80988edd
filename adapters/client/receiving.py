"""Receive requests of a server as tasks (2025-11-25), while the user takes time to answer.

    async with connect(server, answer=answer, sampling=True, receive=Receiver()) as session:
        ...

It uses the runtime of the server, with elicitation and sampling in the place of tools: `answer`
runs in the background until the task ends.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs

from taskmachine.adapters.client.answering import Answering
from taskmachine.adapters.client.remote_task import Question
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import (
    Runtime,
    RuntimeConfig,
    Surroundings,
    new_id,
    start_runtime,
)
from taskmachine.adapters.stores import Caps, open_store
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.registry import Threads, Tool, Tools
from taskmachine.adapters.tools.signatures import Signature
from taskmachine.adapters.transports.connection.conversation import Conversation
from taskmachine.protocol.dialects.mcp_2025_11_25.receiver import (
    RECEIVER,
    Receiver2025,
    capabilities_of,
)
from taskmachine.protocol.dialects.receiver import Immediate, Session
from taskmachine.protocol.jsonrpc import Message, Request
from taskmachine.protocol.jsonvalue import JSONObject, decode_json
from taskmachine.protocol.offer import Offer
from taskmachine.protocol.operations import Create, Operation
from taskmachine.statemachine import (
    ConfigurationError,
    Outcome,
    State,
    Task,
    TaskmachineError,
    Times,
)

__all__ = ["MAX_TTL_S", "Receiver", "Receiving", "open_receiving"]

MEMORY: Final = "memory:"

MAX_TTL_S: Final = 24 * 3_600
"""Maximum TTL of a request, whatever the server asks for."""

KEPT: Final = 10
"""How many tasks to keep for each one that may be open."""

WAITING: Final = {
    "elicitation/create": "Waiting for the user to answer.",
    "sampling/createMessage": "Waiting for the user to approve the request, and for the model.",
}
"""The requests that can become tasks, with their status messages.

The status is `working`, because `input_required` would mean that the server must provide input.
"""

Say = Callable[[Message], None]


def _check_positive(_: object, attribute: "attrs.Attribute[float]", value: float) -> None:
    if not 0.001 <= value <= MAX_TTL_S:
        raise ConfigurationError(f"{attribute.name} must be from 1 ms to 24 h, got {value} s")


@attrs.frozen
class Receiver:
    """The settings for requests received as tasks."""

    store: str = MEMORY
    """URL of the store.  One that outlives the connection needs an `owner`."""
    owner: str | None = None
    """Identifies the server: connections with the same owner share their tasks."""
    ttl: float = attrs.field(default=60.0, validator=_check_positive)
    """Default TTL in seconds, for the answer of the user and again for keeping the result."""
    poll_interval: float = attrs.field(default=2.0, validator=_check_positive)
    """The poll interval that the server should use, in seconds."""
    tasks: int = attrs.field(default=100)
    """Maximum number of open tasks; further requests are rejected."""

    @tasks.validator
    def _check_tasks(self, _: object, value: int) -> None:
        if value < 1:
            raise ConfigurationError(f"tasks must be at least 1, got {value}")

    def __attrs_post_init__(self) -> None:
        if self.store != MEMORY and self.owner is None:
            raise ConfigurationError("a store that outlives the connection needs an owner")


@attrs.frozen
class _Times(Times):
    """A TTL limits how long the server waits, so the start of the work does not extend it."""

    def to_work(self, task: Task, now: int) -> int:
        return task.created_at


@attrs.frozen
class _QuestionTool(Tool):
    """A tool that passes a question to the `answer` function."""

    method: str = attrs.field(kw_only=True)

    async def run(
        self,
        arguments: bytes,
        context: Context,
        threads: Threads,
        raised: Callable[[BaseException], None],
    ) -> Outcome:
        await context.status(WAITING[self.method])
        question = Question(self.method, decode_json(arguments), str(context.task_id))
        reply = await self.function(question)
        if not reply.is_error:
            return Outcome.of_result(reply.body)
        error = decode_json(reply.body)
        return Outcome.of_error(error["code"], error["message"])


def _name(method: str, owner: str) -> str:
    """Return a tool name that only the same owner uses in a shared store."""
    return f"{method} of {owner}"


class _OwnReceiver(Receiver2025):
    """Reads questions as calls to the tools of their owner."""

    def __init__(self, owner: str) -> None:
        self._owner = owner

    def read(self, request: Request, session: Session) -> Operation | Immediate:
        wanted = super().read(request, session)
        if not isinstance(wanted, Create):
            return wanted
        named = attrs.evolve(wanted.call, name=_name(wanted.call.method, self._owner))
        return attrs.evolve(wanted, call=named)


class Receiving:
    """The tasks of one connection.  `say` sends a message to the server."""

    def __init__(self, runtime: Runtime, answering: Answering, owner: str, say: Say) -> None:
        self._runtime = runtime
        self._answering = answering
        self._owner = owner
        self._say = say
        self._offer = Offer({}, side="client", methods=answering.methods & WAITING.keys())
        self._conversation = self._begin()
        self._ending: set[asyncio.Task[None]] = set()
        self._is_gone = False

    @property
    def capabilities(self) -> JSONObject:
        """The capabilities for receiving these requests as tasks."""
        return capabilities_of(self._offer)

    @property
    def methods(self) -> frozenset[str]:
        """The requests that can become tasks."""
        return self._offer.methods

    def takes(self, request: Request) -> bool:
        """Return whether a request is about tasks."""
        if request.method in self.methods:
            return request.params.get("task") is not None
        return request.method.startswith("tasks/")

    def receive(self, message: Message) -> None:
        """Handle a request that `takes` accepts, or a notification."""
        if isinstance(message, Request) and message.method in self.methods:
            try:  # reject unsupported questions before creating a task
                self._answering.check(Question(message.method, message.params, ""))
            except TaskmachineError as error:
                self._say(RECEIVER.messages.encode_error(message.id, error))
                return
        self._conversation.receive(message)

    def forget_requests(self) -> None:
        """Forget the ids of requests after a lost session, but keep the tasks."""
        self._end(self._conversation.close())
        self._conversation = self._begin()

    def gone(self) -> None:
        """Stop all prompts, as the connection is lost.

        Tasks in a persistent store restart with the next connection.
        """
        if not self._is_gone:
            self._is_gone = True
            self._end(self._stop())

    async def close(self) -> None:
        """Stop all prompts and wait for their ends."""
        self.gone()
        await asyncio.gather(*self._ending)

    def _begin(self) -> Conversation:
        return Conversation(
            self._runtime,
            _OwnReceiver(self._owner),
            self._offer,
            owner=self._owner,
            new_id=new_id,
            send=lambda send: self._say(send.message),
        )

    def _end(self, work: Coroutine[Any, Any, None]) -> None:
        ending = asyncio.create_task(work)
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _stop(self) -> None:
        await self._conversation.close()
        await self._runtime.stop(grace_s=0)  # prompts have no time limit


@asynccontextmanager
async def open_receiving(
    receiver: Receiver, answering: Answering, say: Say, world: Surroundings | None = None
) -> AsyncIterator[Receiving]:
    """Receive the declared questions as tasks.

    Raises ConfigurationError if no questions are declared or the store is unknown.
    """
    tools = Tools()
    owner = receiver.owner or new_id()
    for method in sorted(answering.methods & WAITING.keys()):
        tools.add(_question_tool(method, owner, answering, receiver))
    if not tools:
        raise ConfigurationError("`receive` has no effect without `answer`: pass both")
    ttl_ms = round(receiver.ttl * 1_000)
    times = _Times(
        default_ttl_ms=ttl_ms,
        max_ttl_ms=MAX_TTL_S * 1_000,
        retention_ms=dict.fromkeys((State.COMPLETED, State.FAILED, State.CANCELLED), ttl_ms),
    )
    open_tasks, kept = receiver.tasks, KEPT * receiver.tasks
    limits = Limits(
        caps=Caps(open_tasks, open_tasks, kept, kept),
        concurrency=2 * open_tasks,  # the server is the only owner, and its share is three quarters
    )
    store = await open_store(receiver.store)
    try:
        runtime = await start_runtime(
            store, tools, RuntimeConfig(times, limits, world=world or Surroundings())
        )
        receiving = Receiving(runtime, answering, owner, say)
        try:
            yield receiving
        finally:
            await receiving.close()
    finally:
        await store.close()


def _question_tool(
    method: str, owner: str, answering: Answering, receiver: Receiver
) -> _QuestionTool:
    return _QuestionTool(
        _name(method, owner),
        answering.reply,
        Signature({"type": "object"}),  # the dialect has already validated the parameters
        timeout_ms=MAX_TTL_S * 1_000,  # the TTL applies first
        poll_interval_ms=round(receiver.poll_interval * 1_000),
        method=method,
    )
