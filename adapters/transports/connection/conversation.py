"""One requestor's conversation with the runtime, independent of the transport.

The receiver implements the protocol, and the runtime runs the tasks; `Conversation` performs the
operations that the receiver asks for.  A transport passes messages in and sends the outputs.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import cached_property, partial
from typing import Any, Final

import attrs

from taskmachine.adapters.runtime.observer import Carrier, Observer, Served
from taskmachine.adapters.runtime.runtime import Runtime
from taskmachine.adapters.runtime.waiting import retry_store_errors
from taskmachine.adapters.stores import StoreError
from taskmachine.adapters.tools.context import Refused
from taskmachine.adapters.transports.connection.following import Following
from taskmachine.adapters.transports.connection.lookups import Lookups
from taskmachine.adapters.transports.connection.request_state import (
    PAUSED_MS,
    answers_so_far,
    sealed_state,
)
from taskmachine.protocol.caller import Caller
from taskmachine.protocol.dialects.receiver import ReceiverDialect
from taskmachine.protocol.errors import InvalidParams
from taskmachine.protocol.jsonrpc import (
    INTERNAL_ERROR,
    ErrorResponse,
    Id,
    Message,
    Notification,
    Request,
    ResultResponse,
)
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.protocol.offer import Offer
from taskmachine.protocol.operations import (
    Advance,
    Amend,
    Answer,
    Browse,
    Cancel,
    Collect,
    Create,
    Get,
    Operation,
    Run,
    Watch,
)
from taskmachine.protocol.outputs import Abandoned, Perform, Replied, Send
from taskmachine.protocol.receiver import Output, Receiver
from taskmachine.statemachine import (
    LimitExceeded,
    NotFound,
    Outcome,
    Progress,
    Question,
    Reply,
    Task,
    TaskmachineError,
)

__all__ = ["Conversation"]

log: Final = logging.getLogger("taskmachine")

UNKNOWN: Final = Carrier()
_UNOBSERVED: Final = nullcontext()

Response = ResultResponse | ErrorResponse


class Conversation:
    """Answers the requests of one requestor, and calls `send` for every outgoing message.

    `capabilities` were declared by the requestor in an earlier conversation.  `mark` is the
    metadata of tasks that are created without any; other replicas find the tasks of the session
    by it.  `carrier` describes the transport to the observer.  Without `runs_calls` plain calls
    are left to the caller of `answer`.
    """

    def __init__(
        self,
        runtime: Runtime,
        dialect: ReceiverDialect,
        offer: Offer,
        *,
        owner: str,
        new_id: Callable[[], Id],
        send: Callable[[Send], None],
        capabilities: JSONObject | None = None,
        lookups: Lookups | None = None,
        mark: bytes = b"{}",
        carrier: Carrier = UNKNOWN,
        runs_calls: bool = True,
    ) -> None:
        self._runtime = runtime
        self._service = runtime.service
        self._dialect = dialect
        self._owner = owner
        self._send = send
        self._lookups = lookups
        self._mark = mark
        self._carrier = carrier
        self._blocks = dialect.collect_blocks
        self._runs_calls = runs_calls
        self.receiver = Receiver(
            dialect,
            offer,
            owner=owner,
            new_id=new_id,
            capabilities=capabilities,
            sealer=runtime.service.sealer,
        )
        self._running: dict[asyncio.Task[None], Id | None] = {}
        self._served: dict[Id, Served] = {}
        self._creating = 0
        self._blocked: set[Id] = set()
        self._asks: dict[tuple[Id, str], asyncio.Future[Reply]] = {}

    @cached_property
    def _following(self) -> Following:
        return Following(self._service, self._owner, self._moved, self._lookups)

    # --- called by transports ----------------------------------------------------------------

    async def answer(
        self,
        request: Request,
        wait: Callable[[], None] = lambda: None,
        caller: Caller | None = None,
    ) -> Response | None:
        """Perform a request and return its response, or None if `send` will be called with it.

        `wait` is called first if anything else may be sent for the request, so that a transport
        with one stream for each request can open it.  `caller` was authenticated for it.
        """
        observer = self._service.observer
        served = None if observer is None else self._requested(observer, request)
        try:
            with _UNOBSERVED if served is None else served.current():
                [output] = self.receiver.receive(request)
                if isinstance(output, Perform):
                    response = await self._perform(request.id, output.operation, wait, caller)
                else:
                    response = _response(output)
        except BaseException:
            self._abandoned(request.id)
            raise
        if served is not None and response is not None:
            self._answered(served, request.id, response)
        return response

    def receive(self, message: Message, *, caller: Caller | None = None) -> None:
        """Take a message and return at once; responses are sent in the order of completion."""
        if not isinstance(message, Request):
            for output in self.receiver.receive(message):
                if isinstance(output, Perform):
                    self._begin(None, self._accept(output.operation))
                else:
                    self.handle([output])
            return
        observer = self._service.observer
        served = None if observer is None else self._requested(observer, message)
        with _UNOBSERVED if served is None else served.current():
            [output] = self.receiver.receive(message)
            if isinstance(output, Perform):
                self._begin(message.id, self._respond(message.id, output.operation, caller))
                return
        response = _response(output)
        if served is not None:
            self._answered(served, message.id, response)
        self._send(Send(response, message.id))

    async def accept(self, message: Notification | ResultResponse | ErrorResponse) -> None:
        """Perform a message that has no response."""
        for output in self.receiver.receive(message):
            if isinstance(output, Perform):
                await self._accept(output.operation)
            else:
                self.handle([output])

    def handle(self, outputs: Sequence[Output]) -> None:
        """Carry out outputs of the receiver."""
        for output in outputs:
            match output:
                case Send(message=message):
                    if isinstance(message, ResultResponse | ErrorResponse):
                        self._unblock(message.id)
                        if message.id in self._served:
                            self._served.pop(message.id).answered(message)
                    self._send(output)
                case Abandoned(id=id):
                    self._unblock(id)
                    for running, of in self._running.items():
                        if of == id:
                            running.cancel()
                    self._abandoned(id)
                case Replied(call=call, key=key, reply=reply):
                    asked = self._asks.get((call, key))
                    if asked is not None and not asked.done():
                        asked.set_result(reply)

    @property
    def is_creating(self) -> bool:
        """Whether the store may have a task of this conversation that it does not follow yet."""
        return self._creating > 0

    def knows(self, task_id: str) -> bool:
        """Return whether the conversation created or followed this task."""
        return self._following.is_remembered(task_id)

    async def follow_replica_task(self, task: Task, since: int | None) -> None:
        """Follow a task that another process created for this requestor on the general stream.

        Changes committed after `since` have not been sent yet; None if all have.
        """
        is_news = since is not None and task.updated_at > since
        self._remember(task)
        if not task.is_live and not is_news:
            return
        self.handle(self.receiver.follow(task, is_news=is_news))
        await self._catch_up(task.id)

    def _remember(self, task: Task) -> None:
        if self._dialect.follows_created:
            self._following.remember(task)

    async def listen(self) -> None:
        """Report the remembered tasks on the general stream, which the client has opened."""
        self.handle(self.receiver.opened())
        for task_id in list(self._following.live):
            for task in await self._following.follow_all([task_id]):
                self.handle(self.receiver.follow(task))

    def end_watches(self) -> None:
        """End every watch of the requestor."""
        for id in self.receiver.watches:
            self.handle(self.receiver.ended(id))

    async def close(self) -> None:
        """End the conversation: stop its plain calls; its tasks continue."""
        self._following.close()
        for id in list(self._blocked):
            self._unblock(id)
        for running in self._running:
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for id in list(self._served):
            self._abandoned(id)

    # --- the observer ------------------------------------------------------------------------

    def _requested(self, observer: Observer, request: Request) -> Served:
        dialect = self._dialect.messages
        served = observer.requested(
            request,
            revision=dialect.revision,
            is_known=request.method in dialect.methods,
            by=self._carrier,
        )
        if not self.receiver.is_pending(request.id):  # else this request will be refused
            self._served[request.id] = served
        return served

    def _answered(self, served: Served, id: Id, response: Response) -> None:
        if self._served.get(id) is served:  # not the entry of another request with this id
            del self._served[id]
        served.answered(response)

    def _abandoned(self, id: Id) -> None:
        if id in self._served:
            self._served.pop(id).abandoned()

    # --- requests ----------------------------------------------------------------------------

    async def _respond(self, id: Id, operation: Operation, caller: Caller | None) -> None:
        if (response := await self._perform(id, operation, lambda: None, caller)) is not None:
            self.handle([Send(response, id)])

    def _begin(self, id: Id | None, work: Coroutine[Any, Any, None]) -> None:
        running = asyncio.create_task(work)
        self._running[running] = id
        running.add_done_callback(self._running.pop)

    async def _accept(self, operation: Operation) -> None:
        """Perform an operation without a response, such as the answer to a question."""
        assert not isinstance(operation, Create | Run | Browse | Watch), "these are requests"
        try:
            # The requestor will not repeat it, so a temporary store failure must not lose it.
            await retry_store_errors(lambda: self._service.perform(self._owner, operation))
        except Exception as error:  # noqa: BLE001  it is logged
            self._log_error(error)

    async def _perform(
        self, id: Id, operation: Operation, wait: Callable[[], None], caller: Caller | None
    ) -> Response | None:
        """Perform an operation once, and return the response unless it comes later."""
        receiver, service = self.receiver, self._service
        try:
            if receiver.pending > service.limits.calls:
                raise LimitExceeded(f"{service.limits.calls} requests at the same time", 1_000)
            match operation:
                case Get(task_id=task_id) | Collect(task_id=task_id):
                    if self._lookups is not None:
                        self._lookups.begin()
                    task = await self._newest(service.get(self._owner, task_id))
                    is_collect = isinstance(operation, Collect)
                    if is_collect and self._dialect.collect_blocks and task.is_live:
                        await self._block(id, task, wait)
                        return None
                    outputs = receiver.answered(id, task, now=service.clock())
                case Cancel() | Answer() | Amend() | Advance():
                    if self._lookups is not None:
                        self._lookups.begin()
                    task, steps = await service.perform(self._owner, operation)
                    outputs = receiver.answered(id, task, steps, now=service.clock())
                case Create():
                    outputs = await self._create(id, operation, caller)
                case Run():
                    if not self._runs_calls:
                        receiver.closed(id)
                        return None
                    wait()
                    self._begin(id, self._run(id, operation, caller))
                    return None
                case Browse(cursor=cursor, limit=limit):
                    page = await service.page(self._owner, cursor, limit)
                    outputs = receiver.paged(id, page.tasks, page.cursor, now=service.clock())
                case Watch(task_ids=task_ids):
                    if len(task_ids) > service.limits.watched:
                        raise LimitExceeded(f"{service.limits.watched} tasks of one watch", 0)
                    wait()
                    known = await self._following.follow_all(task_ids)
                    outputs = receiver.watched(id, known, now=service.clock())
        except Exception as error:  # noqa: BLE001  it is logged
            outputs = receiver.refused(id, self._log_error(error))
        return self._handle_all_but_response(id, outputs)

    def _handle_all_but_response(self, id: Id, outputs: Sequence[Output]) -> Response | None:
        """Handle the outputs, except for the response to this request, which is returned."""
        response: Response | None = None
        for output in outputs:
            if isinstance(output, Send) and isinstance(output.message, Response):
                response = output.message
                if id in self._blocked:
                    self._unblock(id)
            elif response is None:
                self.handle([output])
            else:  # after the response, which the caller sends
                asyncio.get_running_loop().call_soon(self.handle, [output])
        return response

    async def _newest(self, reading: Awaitable[Task]) -> Task:
        """Return the task that is being read, or a newer version that streams show meanwhile."""
        return await (self._following.newest(reading) if self._dialect.follows_created else reading)

    async def _block(self, id: Id, task: Task, wait: Callable[[], None]) -> None:
        """Keep a request pending until the task ends."""
        self._service.begin_wait(self._owner)
        self._blocked.add(id)
        self._remember(task)  # the receiver also notifies the general stream
        self._following.begin(task.id, task.version)
        wait()
        self.handle(self.receiver.answered(id, task, now=self._service.clock()))
        await self._following.follow(task.id)

    def _unblock(self, id: Id | None) -> None:
        if id in self._blocked:
            self._blocked.remove(id)
            self._service.end_wait(self._owner)

    def _log_error(self, error: Exception) -> Exception:
        if self._lookups is not None and isinstance(error, NotFound):
            self._lookups.missed()
        is_expected = isinstance(error, TaskmachineError)
        if not is_expected or isinstance(error, StoreError):  # not the caller's fault
            trace = None if is_expected else error
            log.error("a request failed: %s", error, exc_info=trace)
            self._service.raised(error)
        return error

    async def _create(self, id: Id, wanted: Create, caller: Caller | None) -> list[Output]:
        questions: tuple[Question, ...] = ()
        if wanted.first:
            answers = answers_so_far(self._service, self._owner, wanted)
            if not answers.keys() >= {question.key for question in wanted.first}:
                return self._paused(id, wanted, wanted.first, answers)
            questions = tuple(attrs.evolve(q, answer=answers[q.key]) for q in wanted.first)
        if self._mark != b"{}" == wanted.metadata:
            wanted = attrs.evolve(wanted, metadata=self._mark)
        self._creating += 1
        try:
            creating = self._runtime.create(self._owner, wanted, questions, caller=caller)
            task = await self._newest(creating)  # it may be an earlier task of the same key
        finally:
            self._creating -= 1
        if self._dialect.follows_created:
            self._following.remember(task)
            if self.receiver.is_listening:
                # Before the tool begins; notifications are sent after the response.
                self._following.begin(task.id)
                self._begin(None, self._catch_up(task.id))
        return self.receiver.answered(id, task, now=self._service.clock())

    async def _catch_up(self, task_id: str) -> None:
        with suppress(NotFound):
            await retry_store_errors(lambda: self._following.follow(task_id))

    # --- plain calls -------------------------------------------------------------------------

    async def _run(self, id: Id, wanted: Run, caller: Caller | None) -> None:
        try:
            tool = self._runtime.tools.get(wanted.call.name or "")
            if tool is None:
                raise InvalidParams(f"there is no tool {wanted.call.name!r:.80}")
            answers = answers_so_far(self._service, self._owner, wanted)
            report = partial(self._report, id)
            ask = partial(self._ask, id) if self._dialect.sends_questions else None
            outcome = await self._runtime.plain_calls.run(
                caller or Caller(self._owner), tool, wanted.call, answers, report=report, ask=ask
            )
            if isinstance(outcome, Outcome):
                self.handle(self.receiver.ran(id, outcome))
            else:
                self.handle(self._paused(id, wanted, outcome, answers))
        except Exception as error:  # noqa: BLE001  it is logged
            self.handle(self.receiver.refused(id, self._log_error(error)))

    def _report(self, id: Id, progress: Progress | None, message: str | None) -> None:
        if progress is not None:
            self.handle(self.receiver.reported(id, progress))

    async def _ask(self, id: Id, questions: Sequence[Question]) -> Mapping[str, Reply]:
        loop = asyncio.get_running_loop()
        asked = {question.key: loop.create_future() for question in questions}
        places = [(id, key) for key in asked]
        self._asks.update(zip(places, asked.values(), strict=True))
        try:
            self.handle(self.receiver.asked(id, questions))
            async with asyncio.timeout(PAUSED_MS / 1_000):
                return {key: await reply for key, reply in asked.items()}
        except TimeoutError:
            raise Refused(INTERNAL_ERROR, "no answer arrived in time") from None
        finally:
            for place in places:
                del self._asks[place]

    def _paused(
        self,
        id: Id,
        wanted: Run | Create,
        questions: Sequence[Question],
        answers: Mapping[str, Reply],
    ) -> list[Output]:
        missing = [question for question in questions if question.key not in answers]
        state = sealed_state(self._service, self._owner, wanted, answers)
        return self.receiver.paused(id, missing, state)

    # --- following tasks ---------------------------------------------------------------------

    def _moved(self, task_id: str, task: Task | None) -> None:
        if task is None:
            self.handle(self.receiver.removed(task_id))
        else:
            self.handle(self.receiver.moved(task, now=self._service.clock()))


def _response(output: Output) -> Response:
    assert isinstance(output, Send), "a request is answered or performed"
    assert isinstance(output.message, Response), "a request is answered by a response"
    return output.message
