"""Who owns tasks, without I/O: messages in; replies, and operations to perform, out.

One `Receiver` for each conversation: an HTTP session, a stdio pipe, a single stateless request.
It knows what its peer waits for and what was shown to it; it does not know the tasks.  Whoever
drives it performs each operation (load, `decide`, commit), hands the result to `answered`,
`paged`, `ran`, `watched` or `refused`, and tells it of every later version by `moved`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from taskmachine.protocol.dialect import capabilities_for, kind_of
from taskmachine.protocol.errors import MissingCapability
from taskmachine.protocol.jsonrpc import (
    INVALID_REQUEST,
    Error,
    ErrorResponse,
    Id,
    Message,
    Notification,
    Request,
    ResultResponse,
)
from taskmachine.protocol.jsonvalue import JSONObject, encode_json
from taskmachine.protocol.operations import Answer, Collect, Create, Get, Operation, Run
from taskmachine.protocol.outputs import Abandoned, Perform, Replied, Send
from taskmachine.protocol.rules import Immediate, Offer, Rules, Session
from taskmachine.protocol.sealing import Sealer
from taskmachine.protocol.side_channel import SideChannel
from taskmachine.statemachine import (
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

__all__ = ["Receiver"]

Output = Send | Perform | Abandoned | Replied
Response = ResultResponse | ErrorResponse


@attrs.frozen
class _Shown:
    """What a stream has seen of a task."""

    task: Task
    snapshot: Any


class Receiver:
    """One conversation of a receiver with a requestor.  `owner` is who the requestor is.

    `capabilities` are those of a peer that introduced itself before, perhaps to another process.
    With a `sealer` an answer finds its question even if another process sent it.
    """

    def __init__(
        self,
        rules: Rules,
        offer: Offer,
        *,
        owner: str,
        new_id: Callable[[], Id],
        capabilities: JSONObject | None = None,
        sealer: Sealer | None = None,
    ) -> None:
        self._rules = rules
        # A client's own handshake came before any request to it.
        is_known = offer.side == "client" or capabilities is not None
        self._session = Session(offer, capabilities or {}, is_known, is_known)
        self._owner = owner
        self._new_id = new_id
        self._calls: dict[Id, Operation] = {}
        self._waiting: dict[Id, Task] = {}
        self._streams: dict[Id | None, dict[str, _Shown]] = {None: {}}
        self._away: set[Id | None] = set()
        self._call_questions: dict[Id, tuple[Id, str]] = {}
        if sealer is None:
            self._questions = SideChannel(lambda task_id, key: new_id())
        else:
            self._questions = SideChannel(
                lambda task_id, key: sealer.seal_question(owner, task_id, key, new_id()),
                lambda id: sealer.open_question(owner, id),
            )

    @property
    def pending(self) -> int:
        """Requests that have no answer yet; whoever drives this bounds them."""
        return len(self._calls)

    def is_pending(self, id: Id) -> bool:
        """Whether somebody waits for the answer to that request."""
        return id in self._calls

    @property
    def capabilities(self) -> JSONObject | None:
        """What the peer declared, once it introduced itself."""
        return self._session.capabilities if self._session.is_introduced else None

    @property
    def watches(self) -> list[Id]:
        """Requests whose streams tell of changes until further notice."""
        return [stream for stream in self._streams if stream is not None]

    @property
    def is_listening(self) -> bool:
        """Whether the general stream is there."""
        return None not in self._away

    # --- what comes in -----------------------------------------------------------------------

    def receive(self, message: Message) -> list[Output]:
        """What follows from a message of the requestor."""
        match message:
            case Request():
                return self._request(message)
            case Notification():
                return self._notification(message)
            case ResultResponse():
                return self._answer(message.id, Reply(encode_json(message.result)))
            case _:
                return self._answer(message.id, Reply(encode_json(_body(message.error)), True))

    def read(self, request: Request) -> Operation | Response:
        """What a request asks for, or its answer if that needs nobody else.

        Nothing is remembered of it: for whoever answers it on the spot, by `reply` or `refusal`.
        """
        if request.id in self._calls:  # an answer with this id would be taken for the first one's
            error = Error(INVALID_REQUEST, "Invalid request: the id is in use")
            return ErrorResponse(None, error)
        try:
            operation = self._rules.read(request, self._session)
        except TaskmachineError as error:
            return self.refusal(request.id, error)
        if isinstance(operation, Immediate):
            return self._response(request.id, operation.result)
        return operation

    def reply(
        self, id: Id, operation: Operation, task: Task, steps: Sequence[Step], *, now: int
    ) -> Response:
        """The answer to an operation that was performed on this task of the requestor."""
        return self._response(id, self._rules.reply(operation, task, steps, now))

    def refusal(self, id: Id, error: Exception) -> ErrorResponse:
        """The answer to an operation that was not performed."""
        return self._rules.dialect.encode_error(id, error)

    def _request(self, request: Request) -> list[Output]:
        wanted = self.read(request)
        if isinstance(wanted, ResultResponse | ErrorResponse):
            return [Send(wanted, request.id)]
        self._calls[request.id] = wanted
        return [Perform(request.id, wanted)]

    def _notification(self, notification: Notification) -> list[Output]:
        try:
            params = self._rules.dialect.decode_notification(notification)
        except TaskmachineError:
            return []  # nobody could be told
        if self._rules.readiness is not None and isinstance(params, self._rules.readiness):
            self._session.is_ready = True
            return self._redeliver()
        id = getattr(params, "requestId", None)
        return [] if id is None else self.closed(id)

    def _answer(self, id: Id | None, reply: Reply) -> list[Output]:
        if id in self._call_questions:
            call, key = self._call_questions.pop(id)
            return [Replied(call, key, reply)]
        delivery = None if id is None else self._questions.take(id)
        if delivery is None:
            return []  # a response to nothing that we asked
        return [Perform(None, Answer(delivery.task_id, {delivery.key: reply}))]

    # --- how an operation went ---------------------------------------------------------------

    def answered(self, id: Id, task: Task, steps: Sequence[Step] = (), *, now: int) -> list[Output]:
        """The operation was performed on this task; `steps` were committed for it."""
        operation = self._calls.get(id)
        if operation is None:
            return []
        if task.owner != self._owner:
            return self.refused(id, NotFound(getattr(operation, "task_id", task.id)))
        if isinstance(operation, Collect) and self._rules.collect_blocks and not task.is_terminal:
            self._waiting[id] = task  # 2025-11-25:result-blocks
            self._streams[None].setdefault(task.id, self._shown(task))
            return self._deliver(task)
        if isinstance(operation, Create) and self._rules.follows_created and self.is_listening:
            self._streams[None][task.id] = self._shown(task)
        answer = self._finish(id, self._rules.reply(operation, task, steps, now))
        if isinstance(operation, Create) and self._rules.announces_created:
            answer.append(self._notice(task, None, now))
        return answer + self.looked(task) if isinstance(operation, Get) else answer

    def looked(self, task: Task) -> list[Output]:
        """The requestor was shown this task: also who never waits for results can be asked now.

        For whoever answers by `reply`; what is `answered` has it already.
        """
        return self._deliver(task, is_known=True)

    def paged(
        self, id: Id, tasks: Sequence[Task], cursor: str | None = None, *, now: int
    ) -> list[Output]:
        """The page was read."""
        assert self._rules.page is not None, "only what can be listed is listed"
        mine = [task for task in tasks if task.owner == self._owner]
        return self._finish(id, self._rules.page(mine, cursor, now))

    def ran(self, id: Id, outcome: Outcome) -> list[Output]:
        """The plain call has ended."""
        assert self._rules.ran is not None, "only what can be called is run"
        return self._finish(id, self._rules.ran(outcome))

    def reported(self, id: Id, progress: Progress) -> list[Output]:
        """The plain call made progress: told to whoever gave it a token."""
        operation = self._calls.get(id)
        if self._rules.call_progress is None or not isinstance(operation, Run):
            return []
        token = operation.call.progress_token
        if token is None:
            return []
        return [self._push(self._rules.call_progress(token, progress), id)]

    def asked(self, id: Id, questions: Iterable[Question]) -> list[Output]:
        """The plain call goes on when these are answered: see `Replied`."""
        assert self._rules.call_question is not None, "only where a call can ask meanwhile"
        out: list[Output] = []
        for question in questions if id in self._calls else ():
            question_id = self._new_id()
            self._call_questions[question_id] = id, question.key
            out.append(Send(self._rules.call_question(question_id, question), id))
        return out

    def paused(self, id: Id, questions: Sequence[Question], state: str | None) -> list[Output]:
        """The call needs answers, and will be made again with them."""
        assert self._rules.paused is not None, "only where a call can come again"
        operation = self._calls.get(id)
        if isinstance(operation, Run | Create):
            undeclared = set(map(kind_of, questions)) - operation.call.answers
            if undeclared:
                return self.refused(id, MissingCapability(capabilities_for(undeclared)))
        return self._finish(id, self._rules.paused(questions, state))

    def watched(self, id: Id, tasks: Iterable[Task], *, now: int) -> list[Output]:
        """These of the tasks exist for this caller: acknowledge, then show where they are."""
        if id not in self._calls:
            return []
        mine = [task for task in tasks if task.owner == self._owner]
        assert self._rules.acknowledgement is not None, "only what can be watched is watched"
        begun = self._rules.acknowledgement(id, [task.id for task in mine])
        self._streams[id] = {task.id: self._shown(task) for task in mine if not task.is_terminal}
        return [self._push(begun, id), *(self._notice(task, id, now) for task in mine)]

    def refused(self, id: Id, error: Exception) -> list[Output]:
        """The operation was not performed, or what it waits for cannot be had."""
        self._waiting.pop(id, None)
        self._away.discard(id)
        if self._calls.pop(id, None) is None:
            return []
        return [*self._withdraw(id), Send(self.refusal(id, error), id)]

    def _finish(self, id: Id, answer: Any) -> list[Output]:
        self._waiting.pop(id, None)
        self._away.discard(id)
        if self._calls.pop(id, None) is None:
            return []
        return [*self._withdraw(id), Send(self._response(id, answer), id)]

    def _withdraw(self, call: Id) -> list[Output]:
        """Take back what a plain call that has ended still asks."""
        stale = [id for id, (of, _) in self._call_questions.items() if of == call]
        out: list[Output] = []
        for id in stale:
            del self._call_questions[id]
            assert self._rules.withdrawal is not None, "what was delivered can be taken back"
            out.append(self._push(self._rules.withdrawal(id), call))
        return out

    def _response(self, id: Id, answer: Any) -> Response:
        if isinstance(answer, Error):
            return ErrorResponse(id, answer)
        response = self._rules.dialect.encode_result(id, answer)
        if self._rules.signature is not None:
            result, meta = response.result, self._rules.signature(self._session.offer)
            result["_meta"] = {**meta, **result["_meta"]} if "_meta" in result else meta
        return response

    # --- what happens meanwhile --------------------------------------------------------------

    def moved(self, task: Task, *, now: int) -> list[Output]:
        """A new version of a task was committed, by whomever."""
        if task.owner != self._owner:
            return []
        if task.state is State.REMOVED:
            return self._forget(task)
        if self._is_no_news(task):
            return []
        out: list[Output] = []
        for stream, seen in self._streams.items():
            last = seen.get(task.id)
            if last is not None and last.task.version < task.version:
                out += self._show(task, stream, last, now)
        out += self._take_back(task)
        waiting = [id for id, awaited in self._waiting.items() if awaited.id == task.id]
        for id in waiting:
            self._waiting[id] = task
        if not task.is_terminal:
            return out + self._deliver(task)
        for id in waiting:
            out += self._finish(id, self._rules.reply(self._calls[id], task, (), now))
        return out

    def _forget(self, task: Task) -> list[Output]:
        """It was forgotten before we heard how it ended, as on another machine: there is none."""
        for seen in self._streams.values():
            seen.pop(task.id, None)
        out = self._take_back(attrs.evolve(task, questions=()))
        for id in [id for id, awaited in self._waiting.items() if awaited.id == task.id]:
            out += self.refused(id, NotFound(task.id))
        return out

    def _take_back(self, task: Task) -> list[Output]:
        """Questions that were sent, and are not open any more."""
        out: list[Output] = []
        for delivery in self._questions.withdraw(task):
            assert self._rules.withdrawal is not None, "what was delivered can be taken back"
            out.append(self._push(self._rules.withdrawal(delivery.id), delivery.stream))
        return out

    def _is_no_news(self, task: Task) -> bool:
        """Whether there is nothing to tell, and nobody to tell it to: so it is while most run."""
        has_nothing = not task.is_terminal and not task.questions and task.progress is None
        return has_nothing and not self.is_listening and len(self._streams) == 1

    def follow(self, task: Task) -> list[Output]:
        """Tell the general stream of this task from now on."""
        if task.owner != self._owner or task.is_terminal:
            return []
        self._streams[None].setdefault(task.id, self._shown(task))
        return self._deliver(task)

    def opened(self, stream: Id | None = None) -> list[Output]:
        """That stream, or the general one, can be read (again)."""
        self._away.discard(stream)
        return self._redeliver()

    def lost(self, stream: Id | None) -> list[Output]:
        """Nobody reads that stream for now; what waits for an answer there goes on waiting."""
        self._away.add(stream)
        self._questions.close(stream)
        return self._redeliver()  # what was in flight there goes to another stream

    def closed(self, stream: Id | None) -> list[Output]:
        """That stream is gone for good, or its request was cancelled; the tasks live on."""
        out: list[Output] = []
        if stream is not None:
            self._waiting.pop(stream, None)
            self._streams.pop(stream, None)
            if self._calls.pop(stream, None) is not None:
                out += [*self._withdraw(stream), Abandoned(stream)]
        out += self.lost(stream)
        if stream is not None:
            self._away.discard(stream)
        return out

    def ended(self, stream: Id) -> list[Output]:
        """End a watch from this side."""
        if self._streams.pop(stream, None) is None:
            return []
        assert self._rules.farewell is not None, "what can be begun can be ended"
        notification, result = self._rules.farewell(stream)
        return [self._push(notification, stream), *self._finish(stream, result)]

    # --- the streams -------------------------------------------------------------------------

    def _show(self, task: Task, stream: Id | None, last: _Shown, now: int) -> list[Output]:
        """Only what is new: each stream drops what it has seen, and everything after the end."""
        out: list[Output] = []
        shown = self._shown(task)
        if self._rules.progress is not None and task.progress != last.task.progress:
            progress, where = self._rules.progress(task), self._stream_of(task)
            if progress is not None and where not in self._away:
                out.append(self._push(progress, where))
        if shown.snapshot != last.snapshot and stream not in self._away:
            out.append(self._notice(task, stream, now))
            if task.state is State.CANCELLED and self._rules.cancelled is not None:
                out.append(self._push(self._rules.cancelled(task), stream))
        if task.is_terminal:
            del self._streams[stream][task.id]
        else:
            self._streams[stream][task.id] = shown
        return out

    def _shown(self, task: Task) -> _Shown:
        # The time and the interval are no news of their own.
        questions = tuple(question.key for question in task.open_questions)
        return _Shown(
            task, (self._rules.dialect.status(task), task.message, task.ttl_ms, questions)
        )

    def _notice(self, task: Task, stream: Id | None, now: int) -> Send:
        operation = None if stream is None else self._calls.get(stream)
        told = self._push(self._rules.notice(task, stream, operation, now), stream)
        return attrs.evolve(told, ends=task.id) if task.is_terminal else told

    def _push(self, notification: Any, stream: Id | None) -> Send:
        return Send(self._rules.dialect.encode_notification(notification), stream)

    def _stream_of(self, task: Task) -> Id | None:
        """Where a call waits for the task, what belongs to it goes there; else the general one."""
        waiting = (id for id, awaited in self._waiting.items() if awaited.id == task.id)
        return next((id for id in waiting if id not in self._away), None)

    def _redeliver(self) -> list[Output]:
        known = [seen.task for seen in self._streams[None].values()]
        tasks = {task.id: task for task in [*known, *self._waiting.values()]}
        return [out for task in tasks.values() for out in self._deliver(task)]

    def _deliver(self, task: Task, *, is_known: bool = False) -> list[Output]:
        is_ready = self._rules.readiness is None or self._session.is_ready
        if self._rules.question is None or not is_ready:
            return []
        streams: list[Id | None] = [id for id, t in self._waiting.items() if t.id == task.id]
        if (streams or is_known) and task.id in self._streams[None]:
            # Who has neither asked for the result (2025-11-25:result-called-on-input-required)
            # nor looked at the task has perhaps not read yet that there is one.
            streams.append(None)
        streams = [stream for stream in streams if stream not in self._away]
        return [
            Send(self._rules.question(delivery.id, task, question), delivery.stream)
            for delivery, question in self._questions.offer(task, streams)
        ]


def _body(error: Error) -> JSONObject:
    return {"code": error.code, "message": error.message, "data": error.data}
