"""Who owns tasks, without I/O: messages in; replies, and operations to perform, out.

One `Receiver` for each conversation: an HTTP session, a stdio pipe, a single stateless request.
It knows what its peer waits for and what was shown to it; it does not know the tasks.  Whoever
drives it performs each operation (load, `decide`, commit), hands the result to `answered`,
`paged`, `ran`, `watched` or `refused`, and tells it of every later version by `moved`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from taskmachine.protocol.dialect import Dialect, Side, TaskSupport, capabilities_for, kind_of
from taskmachine.protocol.errors import InvalidParams, MissingCapability
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
from taskmachine.protocol.operations import Answer, Collect, Create, Operation, Run
from taskmachine.protocol.outputs import Abandoned, Perform, Send
from taskmachine.protocol.side_channel import SideChannel
from taskmachine.statemachine import (
    NotFound,
    Outcome,
    Question,
    Reply,
    State,
    Task,
    TaskmachineError,
)
from taskmachine.statemachine.lifecycle import Step

__all__ = [
    "IDEMPOTENCY_KEY",
    "Immediate",
    "Offer",
    "Receiver",
    "Rules",
    "Session",
    "Tool",
    "idempotency_key",
    "poll_interval_ms",
]

Output = Send | Perform | Abandoned


def poll_interval_ms(task: Task, now: int) -> int:
    """How long a requestor should wait before it looks again: longer, the older the task is."""
    if task.poll_interval_ms is not None:
        return task.poll_interval_ms
    return min(5_000, max(250, (now - task.created_at) // 10))


IDEMPOTENCY_KEY: Final = "taskmachine/idempotency-key"
"""In the `_meta` of a request: sent again under the same key, it makes no second task."""


def idempotency_key(request: Request) -> str | None:
    """The key that a request carries (USER-10)."""
    key = (request.params.get("_meta") or {}).get(IDEMPOTENCY_KEY)
    if key is not None and (not isinstance(key, str) or not 0 < len(key) <= 256):
        raise InvalidParams(f"params._meta['{IDEMPOTENCY_KEY}'] must be 1 to 256 characters")
    return key


@attrs.frozen
class Tool:
    """A tool, as a list of tools shows it."""

    definition: JSONObject
    task_support: TaskSupport = "forbidden"
    immediate: str | None = None
    """What the model is told at once when a call becomes a task, where the wire can say it."""


@attrs.frozen
class Offer:
    """What a receiver says of itself."""

    info: JSONObject
    tools: Mapping[str, Tool] = attrs.field(factory=dict)
    side: Side = "server"
    methods: frozenset[str] = frozenset()
    """On the client's side: the requests that it accepts as tasks."""
    listing: bool = True
    """Whether it can tell its callers apart, so that a list shows each one only its own."""
    instructions: str | None = None

    @property
    def augmentable(self) -> frozenset[str]:
        """The requests that can become tasks."""
        if self.side == "client":
            return self.methods
        takes_tasks = any(tool.task_support != "forbidden" for tool in self.tools.values())
        return frozenset({"tools/call"}) if takes_tasks else frozenset()

    def tool(self, name: str) -> Tool:
        """The tool of that name, or `InvalidParams`."""
        if name not in self.tools:
            raise InvalidParams(f"params.name is no tool of this server: {name[:80]!r}")
        return self.tools[name]


@attrs.define
class Session:
    """What a conversation has established."""

    offer: Offer
    capabilities: JSONObject = attrs.field(factory=dict)
    """What the peer declared when it introduced itself."""
    is_introduced: bool = False
    is_ready: bool = False
    """Whether it can be asked something."""


@attrs.frozen
class Immediate:
    """A result that needs no task."""

    result: Any


@attrs.frozen(eq=False)
class Rules:
    """How one dialect reads requests and shows tasks; None for what its wire does not have."""

    dialect: Dialect
    read: Callable[[Request, Session], Operation | Immediate]
    """What a request asks for; raises what the error table knows."""
    reply: Callable[[Operation, Task, Sequence[Step], int], Any]
    """The result message, or an `Error`, for an operation that was performed."""
    notice: Callable[[Task, Id | None, Operation | None, int], Any]
    """The notification of a change, on a stream that such an operation opened."""
    ran: Callable[[Outcome], Any] | None = None
    """The result message, or an `Error`, of a plain call."""
    paused: Callable[[Sequence[Question], str | None], Any] | None = None
    """The result message of a plain call that needs answers first."""
    page: Callable[[Sequence[Task], str | None, int], Any] | None = None
    """The result message of a list."""
    progress: Callable[[Task], Any] | None = None
    """The notification of progress, or None if there is nothing to tell."""
    question: Callable[[Id, Task, Question], Request] | None = None
    """The request that brings a question."""
    readiness: type | None = None
    """The notification that has to come before any question."""
    withdrawal: Callable[[Id], Any] | None = None
    """The notification that takes a question back."""
    acknowledgement: Callable[[Id, Sequence[str]], Any] | None = None
    """The notification that a watch has begun."""
    farewell: Callable[[Id], tuple[Any, Any]] | None = None
    """The notification and the result by which a watch ends."""
    signature: Callable[[Offer], JSONObject] | None = None
    """What every result says in its `_meta`."""
    collect_blocks: bool = False
    """Whether collecting waits for the end."""
    follows_created: bool = False
    """Whether changes of a task are told to the conversation that created it."""
    announces_created: bool = False
    """Whether the creation of a task is told as well (ERL-65)."""
    cancelled: Callable[[Task], Any] | None = None
    """A second notification, of a task that was cancelled (ERL-67)."""


@attrs.frozen
class _Shown:
    """What a stream has seen of a task."""

    task: Task
    snapshot: Any


class Receiver:
    """One conversation of a receiver with a requestor.  `owner` is who the requestor is."""

    def __init__(self, rules: Rules, offer: Offer, *, owner: str, new_id: Callable[[], Id]) -> None:
        self._rules = rules
        is_client = offer.side == "client"  # whose own handshake came before any request to it
        self._session = Session(offer, is_introduced=is_client, is_ready=is_client)
        self._owner = owner
        self._calls: dict[Id, Operation] = {}
        self._waiting: dict[Id, Task] = {}
        self._streams: dict[Id | None, dict[str, _Shown]] = {None: {}}
        self._questions = SideChannel(new_id)
        self._is_open = True

    @property
    def pending(self) -> int:
        """Requests that have no answer yet; whoever drives this bounds them."""
        return len(self._calls)

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

    def _request(self, request: Request) -> list[Output]:
        if request.id in self._calls:  # an answer with this id would be taken for the first one's
            error = Error(INVALID_REQUEST, "Invalid request: the id is in use")
            return [Send(ErrorResponse(None, error), request.id)]
        try:
            operation = self._rules.read(request, self._session)
        except TaskmachineError as error:
            return [Send(self._rules.dialect.encode_error(request.id, error), request.id)]
        if isinstance(operation, Immediate):
            return [self._result(request.id, operation.result)]
        self._calls[request.id] = operation
        return [Perform(request.id, operation)]

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
            return self._deliver(task)
        if isinstance(operation, Create) and self._rules.follows_created:
            self._streams[None][task.id] = self._shown(task)
        answer = self._finish(id, self._rules.reply(operation, task, steps, now))
        if isinstance(operation, Create) and self._rules.announces_created:
            answer.append(self._notice(task, None, now))
        return answer

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

    def paused(self, id: Id, questions: Sequence[Question], state: str | None) -> list[Output]:
        """The plain call needs answers, and will be run again with them."""
        assert self._rules.paused is not None, "only where a call can come again"
        operation = self._calls.get(id)
        if isinstance(operation, Run):
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
        """The operation was not performed."""
        if self._calls.pop(id, None) is None:
            return []
        return [Send(self._rules.dialect.encode_error(id, error), id)]

    def _finish(self, id: Id, answer: Any) -> list[Output]:
        self._waiting.pop(id, None)
        if self._calls.pop(id, None) is None:
            return []
        if isinstance(answer, Error):
            return [Send(ErrorResponse(id, answer), id)]
        return [self._result(id, answer)]

    def _result(self, id: Id, message: Any) -> Send:
        response = self._rules.dialect.encode_result(id, message)
        if self._rules.signature is None:
            return Send(response, id)
        meta = {**self._rules.signature(self._session.offer), **response.result.get("_meta", {})}
        return Send(ResultResponse(id, {**response.result, "_meta": meta}), id)

    # --- what happens meanwhile --------------------------------------------------------------

    def moved(self, task: Task, *, now: int) -> list[Output]:
        """A new version of a task was committed, by whomever."""
        if task.owner != self._owner:
            return []
        out: list[Output] = []
        for stream, seen in self._streams.items():
            last = seen.get(task.id)
            if last is not None and last.task.version < task.version:
                out += self._show(task, stream, last, now)
        for delivery in self._questions.withdraw(task):
            assert self._rules.withdrawal is not None, "what was delivered can be taken back"
            out.append(self._push(self._rules.withdrawal(delivery.id), delivery.stream))
        waiting = [id for id, awaited in self._waiting.items() if awaited.id == task.id]
        for id in waiting:
            self._waiting[id] = task
        if not task.is_terminal:
            return out + self._deliver(task)
        for id in waiting:
            out += self._finish(id, self._rules.reply(self._calls[id], task, (), now))
        return out

    def opened(self) -> list[Output]:
        """The general stream is there (again)."""
        self._is_open = True
        return self._redeliver()

    def closed(self, stream: Id | None) -> list[Output]:
        """That stream is gone, or its request was cancelled; the tasks live on."""
        self._questions.close(stream)
        out: list[Output] = []
        if stream is None:
            self._is_open = False
        else:
            self._waiting.pop(stream, None)
            self._streams.pop(stream, None)
            if self._calls.pop(stream, None) is not None:
                out.append(Abandoned(stream))
        return out + self._redeliver()  # what was in flight there goes to another stream

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
            progress = self._rules.progress(task)
            if progress is not None:
                out.append(self._push(progress, self._stream_of(task)))
        if shown.snapshot != last.snapshot:
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
        return self._push(self._rules.notice(task, stream, operation, now), stream)

    def _push(self, notification: Any, stream: Id | None) -> Send:
        return Send(self._rules.dialect.encode_notification(notification), stream)

    def _stream_of(self, task: Task) -> Id | None:
        """Where a call waits for the task, what belongs to it goes there; else the general one."""
        return next((id for id, awaited in self._waiting.items() if awaited.id == task.id), None)

    def _redeliver(self) -> list[Output]:
        known = [seen.task for seen in self._streams[None].values()]
        tasks = {task.id: task for task in [*known, *self._waiting.values()]}
        return [out for task in tasks.values() for out in self._deliver(task)]

    def _deliver(self, task: Task) -> list[Output]:
        is_ready = self._rules.readiness is None or self._session.is_ready
        if self._rules.question is None or not is_ready:
            return []
        streams: list[Id | None] = [id for id, t in self._waiting.items() if t.id == task.id]
        if self._is_open and task.id in self._streams[None]:
            streams.append(None)
        return [
            Send(self._rules.question(delivery.id, task, question), delivery.stream)
            for delivery, question in self._questions.offer(task, streams)
        ]


def _body(error: Error) -> JSONObject:
    return {"code": error.code, "message": error.message, "data": error.data}
