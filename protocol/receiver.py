"""The receiver of tasks, without I/O: messages in; responses and operations to perform out.

There is one `Receiver` for each connection: an HTTP session, a stdio pipe, or a single stateless
request.  It tracks the requests that its peer waits for and the versions that were shown to it; it
does not store tasks.

`receive` reads a request and returns either its response (`Send`) or an operation (`Perform`).  The
driver performs the operation (load, `decide`, commit) and reports its result by exactly one of

- `answered`: an operation on a task; the response to a blocking collect follows from `moved`;
- `paged`: a page of tasks was read;
- `ran` or `paused`: a plain call has ended, or needs answers first;
- `watched`: a watch begins; its request stays open until `ended` or `closed`;
- `refused`: the operation failed with this error.

Meanwhile the driver passes every later version of a task to `moved`, progress and questions of a
plain call to `reported` and `asked`, and the state of streams to `opened`, `lost`, `closed` and
`ended`.  The dialect determines the messages on the wire.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import attrs

from taskmachine.protocol.dialects.dialect import capabilities_for, kind_of
from taskmachine.protocol.dialects.receiver import Immediate, ReceiverDialect, Session
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
from taskmachine.protocol.offer import Offer
from taskmachine.protocol.operations import Answer, Collect, Create, Get, Operation, Run
from taskmachine.protocol.outputs import Abandoned, Perform, Replied, Send
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

__all__ = ["Output", "Receiver"]

Output = Send | Perform | Abandoned | Replied
Response = ResultResponse | ErrorResponse


@attrs.frozen
class _Shown:
    """The last state of a task sent on a stream; `version` 0 if none since its creation."""

    task: Task
    snapshot: Any
    version: int
    progress: Progress | None


class Receiver:
    """The connection of a receiver with one requestor, identified by `owner`.

    `capabilities` are those of a peer that has already completed the handshake, perhaps with
    another process.  With a `sealer`, answers are matched to questions that another process sent.
    """

    def __init__(
        self,
        dialect: ReceiverDialect,
        offer: Offer,
        *,
        owner: str,
        new_id: Callable[[], Id],
        capabilities: JSONObject | None = None,
        sealer: Sealer | None = None,
    ) -> None:
        self._dialect = dialect
        self._messages = dialect.messages
        self._signature = dialect.signature(offer)
        # A client has completed its own handshake before it receives requests.
        is_known = offer.side == "client" or capabilities is not None
        self._session = Session(offer, capabilities or {}, is_known, is_known)
        self._owner = owner
        self._new_id = new_id
        self._calls: dict[Id, Operation] = {}
        self._waiting: dict[Id, Task] = {}
        self._streams: dict[Id | None, dict[str, _Shown]] = {None: {}}
        self._away: set[Id | None] = set()
        self._call_questions: dict[Id, tuple[Id, str]] = {}
        self._sealer = sealer

    @cached_property
    def _questions(self) -> SideChannel:
        sealer = self._sealer
        if sealer is None:
            return SideChannel(lambda task_id, key: self._new_id())
        return SideChannel(
            lambda task_id, key: sealer.seal_question(self._owner, task_id, key, self._new_id()),
            lambda id: sealer.open_question(self._owner, id),
        )

    @property
    def pending(self) -> int:
        """Number of requests without a response; the driver must limit it."""
        return len(self._calls)

    def is_pending(self, id: Id) -> bool:
        """Return True if the peer waits for the response to that request."""
        return id in self._calls

    @property
    def capabilities(self) -> JSONObject | None:
        """The capabilities that the peer declared, or None before the handshake."""
        return self._session.capabilities if self._session.is_introduced else None

    @property
    def watches(self) -> list[Id]:
        """Ids of the requests whose streams carry notifications until they are closed."""
        return [stream for stream in self._streams if stream is not None]

    @property
    def is_listening(self) -> bool:
        """True if the general stream is open."""
        return None not in self._away

    # --- incoming messages -------------------------------------------------------------------

    def receive(self, message: Message) -> list[Output]:
        """Process a message of the requestor."""
        if isinstance(message, Request):
            id = message.id
            if id in self._calls:  # the two responses would be indistinguishable
                error = Error(INVALID_REQUEST, "Invalid request: the id is in use")
                return [Send(ErrorResponse(None, error), id)]
            try:
                wanted = self._dialect.read(message, self._session)
            except TaskmachineError as refusal:
                return [Send(self._messages.encode_error(id, refusal), id)]
            if isinstance(wanted, Immediate):
                return [
                    Send(self._messages.encode_response(id, wanted.result, self._signature), id)
                ]
            self._calls[id] = wanted
            return [Perform(id, wanted)]
        if isinstance(message, Notification):
            return self._notification(message)
        if isinstance(message, ResultResponse):
            return self._answer(message.id, Reply(encode_json(message.result)))
        return self._answer(message.id, Reply(encode_json(_body(message.error)), True))

    def _notification(self, notification: Notification) -> list[Output]:
        try:
            params = self._messages.decode_notification(notification)
        except TaskmachineError:
            return []  # a notification has no response
        if self._dialect.is_readiness(params):
            return self.ready()
        id = getattr(params, "requestId", None)
        return [] if id is None else self.closed(id)

    def ready(self) -> list[Output]:
        """Mark the peer as ready for requests, as it declared, perhaps to another process."""
        self._session.is_ready = True
        return self._redeliver()

    def _answer(self, id: Id | None, reply: Reply) -> list[Output]:
        if id in self._call_questions:
            call, key = self._call_questions.pop(id)
            return [Replied(call, key, reply)]
        delivery = None if id is None else self._questions.take(id)
        if delivery is None:
            return []  # not a response to any of our requests
        return [Perform(None, Answer(delivery.task_id, {delivery.key: reply}))]

    # --- results of operations ---------------------------------------------------------------

    def answered(self, id: Id, task: Task, steps: Sequence[Step] = (), *, now: int) -> list[Output]:
        """Report that the operation was performed on this task, with the committed `steps`."""
        operation = self._calls.get(id)
        if operation is None:
            return []
        if task.owner != self._owner:
            return self.refused(id, NotFound(getattr(operation, "task_id", task.id)))
        dialect = self._dialect
        if isinstance(operation, Collect) and dialect.collect_blocks and task.is_live:
            self._waiting[id] = task  # 2025-11-25:result-blocks
            self._streams[None].setdefault(task.id, self._shown(task))
            return self._deliver(task)
        if isinstance(operation, Create) and dialect.follows_created and None not in self._away:
            self._streams[None][task.id] = self._shown(task)
        out = self._finish(id, dialect.reply(operation, task, steps, now))
        if isinstance(operation, Create) and dialect.announces_created:
            out += self._notices(task, None, now)
        if isinstance(operation, Get) and task.questions:
            # A requestor that never waits for results is asked after it has read the task.
            out += self._deliver(task, is_known=True)
        return out

    def paged(
        self, id: Id, tasks: Sequence[Task], cursor: str | None = None, *, now: int
    ) -> list[Output]:
        """Report the page that was read."""
        mine = [task for task in tasks if task.owner == self._owner]
        return self._finish(id, self._dialect.page(mine, cursor, now))

    def ran(self, id: Id, outcome: Outcome) -> list[Output]:
        """Report that the plain call has ended."""
        return self._finish(id, self._dialect.ran(outcome))

    def reported(self, id: Id, progress: Progress) -> list[Output]:
        """Report progress of the plain call, which is sent if the call has a progress token."""
        operation = self._calls.get(id)
        token = operation.call.progress_token if isinstance(operation, Run) else None
        if token is None:
            return []
        return [self._push(self._dialect.call_progress(token, progress), id)]

    def asked(self, id: Id, questions: Iterable[Question]) -> list[Output]:
        """Report questions of the plain call; `Replied` returns their answers."""
        out: list[Output] = []
        for question in questions if id in self._calls else ():
            question_id = self._new_id()
            self._call_questions[question_id] = id, question.key
            out.append(Send(self._dialect.question(question_id, question), id))
        return out

    def paused(self, id: Id, questions: Sequence[Question], state: str | None) -> list[Output]:
        """Report that the call needs answers; the requestor repeats it with them."""
        operation = self._calls.get(id)
        if isinstance(operation, Run | Create):
            undeclared = set(map(kind_of, questions)) - operation.call.answers
            if undeclared:
                return self.refused(id, MissingCapability(capabilities_for(undeclared)))
        return self._finish(id, self._dialect.paused(questions, state))

    def watched(self, id: Id, tasks: Iterable[Task], *, now: int) -> list[Output]:
        """Report the tasks of a watch: acknowledge them, then send their present state."""
        if id not in self._calls:
            return []
        mine = [task for task in tasks if task.owner == self._owner]
        begun = self._dialect.acknowledgement(id, [task.id for task in mine])
        self._streams[id] = {task.id: self._shown(task) for task in mine if task.is_live}
        notices = [notice for task in mine for notice in self._notices(task, id, now)]
        return [self._push(begun, id), *notices]

    def refused(self, id: Id, error: Exception) -> list[Output]:
        """Report that the operation failed, now or while its request waited."""
        return self._finish(id, self._messages.encode_error(id, error).error)

    def _finish(self, id: Id, answer: Any) -> list[Output]:
        self._waiting.pop(id, None)
        self._away.discard(id)
        if self._calls.pop(id, None) is None:
            return []
        answered = Send(self._messages.encode_response(id, answer, self._signature), id)
        return [*self._withdraw(id), answered] if self._call_questions else [answered]

    def _withdraw(self, call: Id) -> list[Output]:
        """Withdraw open questions of a plain call that has ended."""
        stale = [id for id, (of, _) in self._call_questions.items() if of == call]
        for id in stale:
            del self._call_questions[id]
        return [self._push(self._dialect.withdrawal(id), call) for id in stale]

    # --- changes of tasks and streams --------------------------------------------------------

    def moved(self, task: Task, *, now: int) -> list[Output]:
        """Report that a new version of a task was committed."""
        if task.owner != self._owner or self._needs_no_message(task):
            return []
        out: list[Output] = []
        for stream, seen in self._streams.items():
            last = seen.get(task.id)
            if last is not None and last.version < task.version:
                out += self._show(task, stream, last, now)
        if task.questions:
            out += self._take_back(task.id, task)
        waiting = [id for id, awaited in self._waiting.items() if awaited.id == task.id]
        for id in waiting:
            self._waiting[id] = task
        if task.is_live:
            return out + self._deliver(task)
        for id in waiting:
            out += self._finish(id, self._dialect.reply(self._calls[id], task, (), now))
        return out

    def removed(self, task_id: str) -> list[Output]:
        """Report that the task was removed, perhaps before its end was reported here."""
        for seen in self._streams.values():
            seen.pop(task_id, None)
        out = self._take_back(task_id, None)
        for id in [id for id, awaited in self._waiting.items() if awaited.id == task_id]:
            out += self.refused(id, NotFound(task_id))
        return out

    def _take_back(self, task_id: str, task: Task | None) -> list[Output]:
        """Withdraw questions that were sent and are no longer open."""
        return [
            self._push(self._dialect.withdrawal(delivery.id), delivery.stream)
            for delivery in self._questions.withdraw(task_id, task)
        ]

    def _needs_no_message(self, task: Task) -> bool:
        """Return True if this version cannot cause a message (fast path for most versions)."""
        has_nothing = task.is_live and not task.questions and task.progress is None
        return has_nothing and not self.is_listening and len(self._streams) == 1

    def follow(self, task: Task, *, is_news: bool = False) -> list[Output]:
        """Send changes of this task on the general stream from now on.

        With `is_news` the stream has carried nothing of the task since its creation: the next
        call of `moved` sends the complete state, even a terminal one.
        """
        if task.owner != self._owner:
            return []
        if is_news:
            # A creation is not notified: it shows this status, no message and no questions.
            created = self._messages.statuses[State.SUBMITTED], None, task.ttl_ms, ()
            self._streams[None].setdefault(task.id, _Shown(task, created, 0, None))
        elif task.is_live:
            self._streams[None].setdefault(task.id, self._shown(task))
            return self._deliver(task)
        return []

    def opened(self, stream: Id | None = None) -> list[Output]:
        """Report that a stream, or the general one if None, is connected (again)."""
        self._away.discard(stream)
        return self._redeliver()

    def lost(self, stream: Id | None) -> list[Output]:
        """Report that a stream is disconnected; its request continues to wait."""
        self._away.add(stream)
        self._questions.close(stream)
        return self._redeliver()  # questions in flight there move to another stream

    def closed(self, stream: Id | None) -> list[Output]:
        """Report that a stream has closed or its request was cancelled; its tasks continue."""
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
        notification, result = self._dialect.end_watch(stream)
        return [self._push(notification, stream), *self._finish(stream, result)]

    # --- the streams -------------------------------------------------------------------------

    def _show(self, task: Task, stream: Id | None, last: _Shown, now: int) -> list[Output]:
        """Send the difference between the last version on this stream and this one."""
        out: list[Output] = []
        shown = self._shown(task)
        if task.progress != last.progress:
            progress, where = self._dialect.progress(task), self._stream_of(task)
            if progress is not None and where not in self._away:
                out.append(self._push(progress, where))
        if shown.snapshot != last.snapshot and stream not in self._away:
            out += self._notices(task, stream, now)
        if task.is_live:
            self._streams[stream][task.id] = shown
        else:
            del self._streams[stream][task.id]
        return out

    def _shown(self, task: Task) -> _Shown:
        # lastUpdatedAt and pollInterval alone cause no notification.
        questions = tuple(question.key for question in task.open_questions)
        snapshot = self._messages.status(task), task.message, task.ttl_ms, questions
        return _Shown(task, snapshot, task.version, task.progress)

    def _notices(self, task: Task, stream: Id | None, now: int) -> list[Output]:
        operation = None if stream is None else self._calls.get(stream)
        ends = None if task.is_live else task.id
        return [
            Send(self._messages.encode_notification(notice), stream, ends)
            for notice in self._dialect.notices(task, stream, operation, now)
        ]

    def _push(self, notification: Any, stream: Id | None) -> Send:
        return Send(self._messages.encode_notification(notification), stream)

    def _stream_of(self, task: Task) -> Id | None:
        """Return the stream of a request that waits for the task, or else the general one."""
        waiting = (id for id, awaited in self._waiting.items() if awaited.id == task.id)
        return next((id for id in waiting if id not in self._away), None)

    def _redeliver(self) -> list[Output]:
        known = [seen.task for seen in self._streams[None].values()]
        tasks = {task.id: task for task in [*known, *self._waiting.values()]}
        return [out for task in tasks.values() for out in self._deliver(task)]

    def _deliver(self, task: Task, *, is_known: bool = False) -> list[Output]:
        if not (self._dialect.sends_questions and self._session.is_ready and task.questions):
            return []
        streams: list[Id | None] = [id for id, t in self._waiting.items() if t.id == task.id]
        if (streams or is_known) and task.id in self._streams[None]:
            # A client that has requested neither the result nor the task may not have read the
            # response that created it (2025-11-25:result-called-on-input-required).
            streams.append(None)
        streams = [stream for stream in streams if stream not in self._away]
        return [
            Send(self._dialect.question(delivery.id, question, task), delivery.stream)
            for delivery, question in self._questions.offer(task, streams)
        ]


def _body(error: Error) -> JSONObject:
    return {"code": error.code, "message": error.message, "data": error.data}
