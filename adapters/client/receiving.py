"""A client that takes questions as tasks (2025-11-25): it answers at once, and its user later.

    async with connect(server, answer=answer, sampling=True, receive=Receiver()) as session:
        ...

The same runtime as a server's, with the two questions in the place of tools: `answer` runs in the
background, for as long as the task lives.
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
from taskmachine.adapters.tools.signatures import signature_of
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
"""Nobody is asked for longer, whatever the server wants."""

KEPT: Final = 10
"""So many times more tasks are kept than may be open."""

WAITING: Final = {
    "elicitation/create": "Waiting for the user to answer.",
    "sampling/createMessage": "Waiting for the user to approve the request, and for the model.",
}
"""What can become a task, with its message meanwhile.

The user is on this side, so it is `working`: `input_required` would mean that the server has to
say something.
"""

Say = Callable[[Message], None]


def _check_positive(_: object, attribute: "attrs.Attribute[float]", value: float) -> None:
    if not 0.001 <= value <= MAX_TTL_S:
        raise ConfigurationError(f"{attribute.name} must be from 1 ms to 24 h, got {value} s")


@attrs.frozen
class Receiver:
    """On what terms questions become tasks."""

    store: str = MEMORY
    """Where they are kept.  What outlives the connection needs an `owner`."""
    owner: str | None = None
    """Who the server is: connections with the same one share their tasks, others share none."""
    ttl: float = attrs.field(default=60.0, validator=_check_positive)
    """Seconds for the user, and then for the server to fetch the result, if it names no time."""
    poll_interval: float = attrs.field(default=2.0, validator=_check_positive)
    """Seconds between two looks that the server is told to keep."""
    tasks: int = attrs.field(default=100)
    """Open at the same time; beyond that a request is refused."""

    @tasks.validator
    def _check_tasks(self, _: object, value: int) -> None:
        if value < 1:
            raise ConfigurationError(f"tasks must be at least 1, got {value}")

    def __attrs_post_init__(self) -> None:
        if self.store != MEMORY and self.owner is None:
            raise ConfigurationError("a store that outlives the connection needs an owner")


@attrs.frozen
class _Times(Times):
    """A ttl is how long the server wants to wait: unlike for work, it does not grow."""

    def to_work(self, task: Task, now: int) -> int:
        return task.created_at


@attrs.frozen
class _Asking(Tool):
    """A question in the place of a tool: its function is what answers, be it a task or not."""

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


def _whatever(**params: Any) -> None:
    """The shape of all questions: the dialect has checked them before."""


def _name(method: str, owner: str) -> str:
    """Whom a question is for, so that nobody else on the same store answers it."""
    return f"{method} of {owner}"


class _OwnReceiver(Receiver2025):
    """Reads questions as calls that carry the name of their owner."""

    def __init__(self, owner: str) -> None:
        self._owner = owner

    def read(self, request: Request, session: Session) -> Operation | Immediate:
        wanted = super().read(request, session)
        if not isinstance(wanted, Create):
            return wanted
        named = attrs.evolve(wanted.call, name=_name(wanted.call.method, self._owner))
        return attrs.evolve(wanted, call=named)


class Receiving:
    """The tasks of one connection.  `say` is called for everything that goes to the server."""

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
        """What a client that takes these as tasks declares, besides that it answers them."""
        return capabilities_of(self._offer)

    @property
    def methods(self) -> frozenset[str]:
        """The requests that can become tasks."""
        return self._offer.methods

    def takes(self, request: Request) -> bool:
        """Whether a request is about tasks; all others are answered as ever."""
        if request.method in self.methods:
            return request.params.get("task") is not None
        return request.method.startswith("tasks/")

    def receive(self, message: Message) -> None:
        """A request that this takes, or a notification."""
        if isinstance(message, Request) and message.method in self.methods:
            try:  # what can never be answered does not become a task
                self._answering.check(Question(message.method, message.params, ""))
            except TaskmachineError as error:
                self._say(RECEIVER.messages.encode_error(message.id, error))
                return
        self._conversation.receive(message)

    def begin_anew(self) -> None:
        """The server has forgotten the session, and may use the same ids again.  Tasks stay."""
        self._end(self._conversation.close())
        self._conversation = self._begin()

    def gone(self) -> None:
        """There is nobody who could be told: take every prompt away.

        Tasks of a store that outlives the connection are begun again by the next one.
        """
        if not self._is_gone:
            self._is_gone = True
            self._end(self._stop())

    async def close(self) -> None:
        """Like `gone`, and wait until all has ended."""
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
        await self._runtime.stop(grace_s=0)  # a prompt would be open for ever


@asynccontextmanager
async def open_receiving(
    receiver: Receiver, answering: Answering, say: Say, world: Surroundings | None = None
) -> AsyncIterator[Receiving]:
    """The questions that are declared, as tasks on these terms.

    ConfigurationError if there is none, or no such store.
    """
    tools = Tools()
    owner = receiver.owner or new_id()
    for method in sorted(answering.methods & WAITING.keys()):
        tools.add(_asking(method, owner, answering, receiver))
    if not tools:
        raise ConfigurationError("only what is answered can become a task: there is no `answer`")
    ttl_ms = round(receiver.ttl * 1_000)
    times = _Times(
        default_ttl_ms=ttl_ms,
        max_ttl_ms=MAX_TTL_S * 1_000,
        retention_ms=dict.fromkeys((State.COMPLETED, State.FAILED, State.CANCELLED), ttl_ms),
    )
    open_tasks, kept = receiver.tasks, KEPT * receiver.tasks
    limits = Limits(caps=Caps(open_tasks, open_tasks, kept, kept), concurrency=open_tasks)
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


def _asking(method: str, owner: str, answering: Answering, receiver: Receiver) -> _Asking:
    return _Asking(
        _name(method, owner),
        answering.reply,
        signature_of(_whatever, ()),
        timeout_ms=MAX_TTL_S * 1_000,  # the ttl comes first
        poll_interval_ms=round(receiver.poll_interval * 1_000),
        method=method,
    )
