"""One conversation between a requestor and the runtime, on whatever transport.

The receiver knows the protocol, the runtime knows the tasks; this carries out what the one wants
by the other.  A transport hands in messages, and is handed what is to be sent.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import attrs

from taskmachine.adapters.context import Refused
from taskmachine.adapters.following import Following
from taskmachine.adapters.observer import Carrier
from taskmachine.adapters.runtime import Runtime
from taskmachine.adapters.served_requests import ServedRequests
from taskmachine.adapters.stores import StoreError
from taskmachine.adapters.waiting import persevere
from taskmachine.protocol.errors import InvalidParams
from taskmachine.protocol.jsonrpc import (
    INTERNAL_ERROR,
    ErrorResponse,
    Id,
    Message,
    Request,
    ResultResponse,
)
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.protocol.operations import (
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
from taskmachine.protocol.receiver import Receiver
from taskmachine.protocol.rules import Offer, Rules
from taskmachine.protocol.sealing import RequestState, request_digest
from taskmachine.statemachine import (
    LimitExceeded,
    NotFound,
    Outcome,
    Progress,
    Question,
    Reply,
    State,
    Task,
    TaskmachineError,
)
from taskmachine.statemachine.lifecycle import Step

__all__ = ["Conversation", "Lookups"]

log: Final = logging.getLogger("taskmachine")

PAUSED_MS: Final = 3_600_000
"""How long the state of a paused call holds, and how long a plain call waits for answers."""

UNKNOWN: Final = Carrier()


@attrs.frozen
class Lookups:
    """What is told of each look at a task: before it, and if there was none."""

    begin: Callable[[], None]
    """May raise `LimitExceeded`."""
    missed: Callable[[], None]


class Conversation:
    """Answers the requests of one requestor.  `send` is called for everything that goes out.

    `capabilities` are those of a requestor that introduced itself in an earlier conversation.
    `mark` is the metadata of tasks that are made here and bring none: for `hear_of` elsewhere.
    `carrier` is for whoever observes requests.
    """

    def __init__(
        self,
        runtime: Runtime,
        rules: Rules,
        offer: Offer,
        *,
        owner: str,
        new_id: Callable[[], Id],
        send: Callable[[Send], None],
        capabilities: JSONObject | None = None,
        lookups: Lookups | None = None,
        mark: bytes = b"{}",
        carrier: Carrier = UNKNOWN,
    ) -> None:
        self._runtime = runtime
        self._service = runtime.service
        self._rules = rules
        self._owner = owner
        self._send = send
        self._lookups = lookups
        self._mark = mark
        self._served = ServedRequests(runtime.service.observer, rules.dialect, carrier)
        self.receiver = Receiver(
            rules,
            offer,
            owner=owner,
            new_id=new_id,
            capabilities=capabilities,
            sealer=runtime.service.sealer,
        )
        self._running: dict[asyncio.Task[None], Id | None] = {}
        self._following = Following(runtime.service, owner, self._moved)
        self._making = 0
        self._blocked: set[Id] = set()
        self._asks: dict[tuple[Id, str], asyncio.Future[Reply]] = {}

    # --- what a transport does ---------------------------------------------------------------

    def receive(self, message: Message) -> None:
        """A message came in.  Answers are sent when they are there, in whatever order."""
        outputs = self.receiver.receive(message)
        with self._served.begin(message, outputs):
            self.handle(outputs)

    async def at_once(self, request: Request) -> ResultResponse | ErrorResponse | None:
        """The answer, if it takes no time and is all there is to say; else None, and `answer`.

        Most requests are such, and this is the short way.
        """
        return await self._served.at_once(request, self._at_once)

    async def _at_once(self, request: Request) -> ResultResponse | ErrorResponse | None:
        wanted = self.receiver.read(request)
        if isinstance(wanted, ResultResponse | ErrorResponse):
            return wanted
        steps: Sequence[Step] = ()
        try:
            match wanted:
                case Get() | Collect() | Cancel() | Answer():
                    self._look()
                    task, steps = await self._service.perform(self._owner, wanted)
                    if self._waits(wanted, task):
                        return None
                case Create(first=()) if not self._tells_of_created:
                    task = await self._make(wanted)
                case _:
                    return None
        except Exception as error:  # noqa: BLE001  it is noted
            return self.receiver.refusal(request.id, self._noted(error))
        if isinstance(wanted, Get):
            self.handle(self.receiver.looked(task))
        return self.receiver.reply(request.id, wanted, task, steps, now=self._service.clock())

    async def answer(self, message: Message) -> None:
        """Like `receive`, but back when all is done that takes no time of its own.

        Of plain calls, watches and calls that wait for the end the rest is sent later.
        """
        outputs = self.receiver.receive(message)
        with self._served.begin(message, outputs):
            for output in outputs:
                if isinstance(output, Perform) and not isinstance(output.operation, Run):
                    if self._has_room(output):
                        await self._answer(output)
                else:
                    self.handle([output])

    def handle(self, outputs: Sequence[Send | Perform | Abandoned | Replied]) -> None:
        """Do what the receiver wants: of a message, or of a stream that was opened or closed."""
        for output in outputs:
            match output:
                case Send(message=message):
                    if isinstance(message, ResultResponse | ErrorResponse):
                        self._unblock(message.id)
                        self._served.answered(message)
                    self._send(output)
                case Abandoned(id=id):
                    self._abandon(id)
                    self._served.abandoned(id)
                case Replied(call=call, key=key, reply=reply):
                    asked = self._asks.get((call, key))
                    if asked is not None and not asked.done():
                        asked.set_result(reply)
                case Perform():
                    if self._has_room(output):
                        self._begin(output)

    @property
    def is_making(self) -> bool:
        """Whether there may be a task of this conversation that it does not know yet."""
        return self._making > 0

    def knows(self, task_id: str) -> bool:
        """Whether it made this task, or has heard of it."""
        return self._following.knows(task_id)

    async def hear_of(self, task: Task, since: int | None) -> None:
        """Another process made this task for the same requestor: tell the general stream of it.

        Of what was committed after `since` it was not told yet; None if there is no such thing.
        """
        is_news = since is not None and task.updated_at > since
        self._remember(task)
        if task.is_terminal and not is_news:
            return
        self.handle(self.receiver.follow(_as_made(task) if is_news else task))
        with suppress(NotFound):
            await self._following.follow(task.id)

    def _remember(self, task: Task) -> None:
        if self._rules.follows_created:
            self._following.remember(task)

    @property
    def _tells_of_created(self) -> bool:
        is_followed = self._rules.follows_created and self.receiver.is_listening
        return is_followed or self._rules.announces_created

    def _waits(self, wanted: Operation, task: Task) -> bool:
        is_blocking = isinstance(wanted, Collect) and self._rules.collect_blocks
        return is_blocking and not task.is_terminal

    async def listen(self) -> None:
        """The general stream is there (again): tell it of the tasks that were made here."""
        self.handle(self.receiver.opened())
        for task_id in list(self._following.made):
            for task in await self._follow([task_id]):
                self.handle(self.receiver.follow(task))

    def farewell(self) -> None:
        """End every watch from this side."""
        for id in self.receiver.watches:
            self.handle(self.receiver.ended(id))

    async def close(self) -> None:
        """The requestor is gone.  Its tasks live on; its plain calls are stopped."""
        self._following.close()
        for id in list(self._blocked):
            self._unblock(id)
        for running in self._running:
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._served.close()

    # --- what the receiver wants -------------------------------------------------------------

    def _has_room(self, wanted: Perform) -> bool:
        limit = self._service.limits.calls
        if wanted.id is None or self.receiver.pending <= limit:
            return True
        self._refuse(wanted.id, LimitExceeded(f"{limit} requests at the same time", 1_000))
        return False

    def _begin(self, wanted: Perform) -> None:
        running = asyncio.create_task(self._answer(wanted))
        self._running[running] = wanted.id
        running.add_done_callback(self._running.pop)

    def _abandon(self, id: Id) -> None:
        self._unblock(id)
        for running, of in self._running.items():
            if of == id:
                running.cancel()

    def _unblock(self, id: Id | None) -> None:
        if id in self._blocked:
            self._blocked.remove(id)
            self._service.end_wait(self._owner)

    async def _answer(self, wanted: Perform) -> None:
        try:
            await self._perform(wanted)
        except Exception as error:  # noqa: BLE001  it is noted
            self._refuse(wanted.id, self._noted(error))

    def _noted(self, error: Exception) -> Exception:
        if self._lookups is not None and isinstance(error, NotFound):
            self._lookups.missed()
        if isinstance(error, StoreError):  # nothing that the caller could do about
            log.error("a request could not be answered: %s", error)
            self._service.observer.raised(error)
        elif not isinstance(error, TaskmachineError):
            log.error("a request could not be answered", exc_info=error)
            self._service.observer.raised(error)
        return error

    def _refuse(self, id: Id | None, error: Exception) -> None:
        if id is not None:
            self.handle(self.receiver.refused(id, error))

    async def _perform(self, wanted: Perform) -> None:
        id, operation = wanted.id, wanted.operation
        now = self._service.clock
        if id is None:  # nobody waits for it: the answer to a question
            assert not isinstance(operation, Create | Run | Browse | Watch), "these are requests"
            # It will not come again, so a store that fails for a while must not lose it.
            await persevere(lambda: self._service.perform(self._owner, operation))
            return
        match operation:
            case Create():
                await self._create(id, operation)
            case Run():
                await self._run(id, operation)
            case Browse(cursor=cursor, limit=limit):
                page = await self._service.page(self._owner, cursor, limit)
                self.handle(self.receiver.paged(id, page.tasks, page.cursor, now=now()))
            case Watch(task_ids=task_ids):
                if len(task_ids) > self._service.limits.watched:
                    raise LimitExceeded(f"{self._service.limits.watched} tasks of one watch", 0)
                known = await self._follow(task_ids)
                self.handle(self.receiver.watched(id, known, now=now()))
            case _:
                self._look()
                task, steps = await self._service.perform(self._owner, operation)
                waits = self._waits(operation, task)
                if waits:
                    self._service.begin_wait(self._owner)
                    self._blocked.add(id)
                    self._remember(task)  # the receiver tells the general stream of it, too
                self.handle(self.receiver.answered(id, task, steps, now=now()))
                if not self.receiver.is_pending(id):
                    self._unblock(id)
                elif waits:
                    await self._following.follow(task.id)

    def _look(self) -> None:
        if self._lookups is not None:
            self._lookups.begin()

    async def _create(self, id: Id, wanted: Create) -> None:
        questions: tuple[Question, ...] = ()
        if wanted.first:
            answers = self._answers(wanted)
            if not answers.keys() >= {question.key for question in wanted.first}:
                self._pause(id, wanted, wanted.first, answers)
                return
            questions = tuple(attrs.evolve(q, answer=answers[q.key]) for q in wanted.first)
        task = await self._make(wanted, questions)
        self.handle(self.receiver.answered(id, task, now=self._service.clock()))
        if self._rules.follows_created and self.receiver.is_listening:
            await self._follow([task.id])

    async def _make(self, wanted: Create, questions: tuple[Question, ...] = ()) -> Task:
        if self._mark != b"{}" == wanted.metadata:
            wanted = attrs.evolve(wanted, metadata=self._mark)
        self._making += 1
        try:
            task = await self._runtime.create(self._owner, wanted, questions)
        finally:
            self._making -= 1
        self._remember(task)
        return task

    # --- plain calls -------------------------------------------------------------------------

    async def _run(self, id: Id, wanted: Run) -> None:
        tool = self._runtime.tools.get(wanted.call.name or "")
        if tool is None:
            raise InvalidParams(f"there is no tool {wanted.call.name!r:.80}")
        answers = self._answers(wanted)
        outcome = await self._runtime.plain_calls.run(
            self._owner,
            tool,
            wanted.call,
            answers,
            report=partial(self._report, id),
            ask=None if self._rules.call_question is None else partial(self._ask, id),
        )
        if isinstance(outcome, Outcome):
            self.handle(self.receiver.ran(id, outcome))
        else:
            self._pause(id, wanted, outcome, answers)

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
            raise Refused(INTERNAL_ERROR, "nobody answered in time") from None
        finally:
            for place in places:
                del self._asks[place]

    def _answers(self, wanted: Run | Create) -> dict[str, Reply]:
        """What was answered so far: in this round, and in those before."""
        if wanted.state is None:
            return dict(wanted.answers)
        service = self._service
        opened = service.sealer.open_state(
            self._owner, wanted.state, service.clock(), _digest(wanted)
        )
        return {key: Reply(body) for key, body in opened.answers.items()} | dict(wanted.answers)

    def _pause(
        self,
        id: Id,
        wanted: Run | Create,
        questions: Sequence[Question],
        answers: Mapping[str, Reply],
    ) -> None:
        kept = {key: reply.body for key, reply in answers.items()}
        state = RequestState(kept, self._service.clock() + PAUSED_MS, _digest(wanted))
        missing = [question for question in questions if question.key not in answers]
        sealed = self._service.sealer.seal_state(self._owner, state)
        self.handle(self.receiver.paused(id, missing, sealed))

    # --- following tasks ---------------------------------------------------------------------

    async def _follow(self, task_ids: Sequence[str]) -> list[Task]:
        """Hear of these tasks from now on; those that exist for this owner, as they are."""
        with self._following.current() as known:
            for task_id in task_ids:
                try:
                    self._look()
                    await self._service.get(self._owner, task_id)
                    known[task_id] = await self._following.follow(task_id)
                except NotFound:
                    if self._lookups is not None:
                        self._lookups.missed()
        return [task for task in known.values() if task.state is not State.REMOVED]

    def _moved(self, task: Task) -> None:
        self.handle(self.receiver.moved(task, now=self._service.clock()))


def _as_made(task: Task) -> Task:
    """About as it was before anything happened to it."""
    return attrs.evolve(
        task,
        version=0,
        state=State.SUBMITTED,
        message=None,
        progress=None,
        questions=(),
        outcome=None,
    )


def _digest(wanted: Run | Create) -> bytes:
    call = wanted.call
    return request_digest(call.method, call.name or "", call.arguments)
