"""One conversation between a requestor and the runtime, on whatever transport.

The receiver knows the protocol, the runtime knows the tasks; this carries out what the one wants
by the other.  A transport hands in messages, and is handed what is to be sent.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from taskmachine.adapters.runtime import Runtime
from taskmachine.adapters.waiting import persevere
from taskmachine.protocol.errors import InvalidParams
from taskmachine.protocol.jsonrpc import Id, Message
from taskmachine.protocol.operations import Browse, Collect, Create, Run, Watch
from taskmachine.protocol.outputs import Abandoned, Perform, Send
from taskmachine.protocol.receiver import Offer, Receiver, Rules
from taskmachine.protocol.sealing import RequestState, request_digest
from taskmachine.statemachine import (
    LimitExceeded,
    NotFound,
    Outcome,
    Reply,
    Task,
    TaskmachineError,
)

__all__ = ["Conversation"]

log: Final = logging.getLogger("taskmachine")

PAUSED_MS: Final = 3_600_000
"""How long the state of a paused plain call can be presented again."""


class Conversation:
    """Answers the requests of one requestor.  `send` is called for everything that goes out."""

    def __init__(
        self,
        runtime: Runtime,
        rules: Rules,
        offer: Offer,
        *,
        owner: str,
        new_id: Callable[[], Id],
        send: Callable[[Send], None],
    ) -> None:
        self._runtime = runtime
        self._service = runtime.service
        self._owner = owner
        self._send = send
        self.receiver = Receiver(rules, offer, owner=owner, new_id=new_id)
        self._running: dict[asyncio.Task[None], Id | None] = {}
        self._followed: dict[str, Callable[[], None]] = {}

    def receive(self, message: Message) -> None:
        """A message came in.  Answers are sent when they are there, in whatever order."""
        self.handle(self.receiver.receive(message))

    def handle(self, outputs: Sequence[Send | Perform | Abandoned]) -> None:
        """Do what the receiver wants: of a message, or of a stream that was opened or closed."""
        for output in outputs:
            match output:
                case Send():
                    self._send(output)
                case Abandoned(id=id):
                    self._abandon(id)
                case Perform():
                    self._begin(output)

    async def close(self) -> None:
        """The requestor is gone.  Its tasks live on; its plain calls are stopped."""
        for leave in self._followed.values():
            leave()
        self._followed.clear()
        for running in self._running:
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _begin(self, wanted: Perform) -> None:
        limit = self._service.limits.calls
        if self.receiver.pending > limit and wanted.id is not None:
            error = LimitExceeded(f"{limit} requests at the same time", 1_000)
            self.handle(self.receiver.refused(wanted.id, error))
            return
        running = asyncio.create_task(self._answer(wanted))
        self._running[running] = wanted.id
        running.add_done_callback(self._running.pop)

    def _abandon(self, id: Id) -> None:
        for running, of in self._running.items():
            if of == id:
                running.cancel()

    async def _answer(self, wanted: Perform) -> None:
        try:
            await self._perform(wanted)
        except TaskmachineError as error:
            self._refuse(wanted.id, error)
        except Exception as error:
            log.exception("a request could not be answered")
            self._refuse(wanted.id, error)

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
                task = await self._runtime.create(self._owner, operation)
                self.handle(self.receiver.answered(id, task, now=now()))
                await self._follow([task.id])
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
                task, steps = await self._service.perform(self._owner, operation)
                self.handle(self.receiver.answered(id, task, steps, now=now()))
                if isinstance(operation, Collect) and not task.is_terminal:
                    await self._follow([task.id])

    async def _run(self, id: Id, wanted: Run) -> None:
        call, service = wanted.call, self._service
        tool = self._runtime.tools.get(call.name or "")
        if tool is None:
            raise InvalidParams(f"there is no tool {call.name!r:.80}")
        digest = request_digest(call.method, tool.name, call.arguments)
        answers = dict(wanted.answers)
        if wanted.state is not None:
            state = service.sealer.open_state(self._owner, wanted.state, service.clock(), digest)
            answers = {key: Reply(body) for key, body in state.answers.items()} | answers
        outcome = await self._runtime.plain_calls.run(self._owner, tool, call, answers)
        if isinstance(outcome, Outcome):
            self.handle(self.receiver.ran(id, outcome))
            return
        kept = {key: reply.body for key, reply in answers.items()}
        state = RequestState(kept, service.clock() + PAUSED_MS, digest)
        missing = [question for question in outcome if question.key not in answers]
        sealed = service.sealer.seal_state(self._owner, state)
        self.handle(self.receiver.paused(id, missing, sealed))

    async def _follow(self, task_ids: Sequence[str]) -> list[Task]:
        """Hear of these tasks from now on; those that exist for this owner, as they are."""
        known = []
        for task_id in task_ids:
            try:
                await self._service.get(self._owner, task_id)
                if task_id not in self._followed:
                    self._followed[task_id] = self._service.store.follow(task_id, self._hear)
                # Read after following: what happened in between is not missed.
                task = await self._service.get(self._owner, task_id)
            except NotFound:
                continue
            self._hear(task)
            known.append(task)
        return known

    def _hear(self, task: Task) -> None:
        self.handle(self.receiver.moved(task, now=self._service.clock()))
        if task.is_terminal and task.id in self._followed:
            self._followed.pop(task.id)()
