"""Tasks in memory: what a runtime does for receivers, without a store, a clock or a socket."""

from collections.abc import Callable, Sequence
from itertools import count

import attrs

from taskmachine.protocol.dialects.receiver import ReceiverDialect
from taskmachine.protocol.jsonrpc import (
    ErrorResponse,
    Id,
    Message,
    ResultResponse,
    decode_message,
    encode_message,
)
from taskmachine.protocol.offer import Offer, Tool
from taskmachine.protocol.operations import Browse, Create, Run, Watch, decide
from taskmachine.protocol.outputs import Abandoned, Perform, Replied, Send
from taskmachine.protocol.receiver import Receiver
from taskmachine.statemachine import NotFound, Outcome, Task, TaskmachineError, lifecycle
from taskmachine.statemachine.lifecycle import Step

PAGE = 2

GREET = {"name": "greet", "description": "Says hello", "inputSchema": {"type": "object"}}
OFFER = Offer(
    info={"name": "desk", "version": "1"},
    tools={
        "greet": Tool(GREET, "optional"),
        "slow": Tool({**GREET, "name": "slow"}, "required"),
        "quick": Tool({**GREET, "name": "quick"}, "forbidden"),
    },
)


@attrs.define(eq=False)
class Line:
    """One conversation: the receiver, and what it has sent."""

    desk: "Desk"
    receiver: Receiver
    owner: str
    sent: list[Send] = attrs.field(factory=list)
    abandoned: list[Id] = attrs.field(factory=list)
    replies: list[Replied] = attrs.field(factory=list)
    runs: dict[Id, Run] = attrs.field(factory=dict)

    def receive(self, message: Message) -> list[Message]:
        """Hand a message in, as bytes; what was sent because of it."""
        before = len(self.sent)
        self.desk.handle(self, self.receiver.receive(decode_message(encode_message(message))))
        return [send.message for send in self.sent[before:]]

    def finish_run(self, id: Id, outcome: Outcome) -> list[Message]:
        """A plain call has ended."""
        del self.runs[id]
        before = len(self.sent)
        self.desk.handle(self, self.receiver.ran(id, outcome))
        return [send.message for send in self.sent[before:]]


class Desk:
    """Owns tasks, performs operations, and tells everybody of every new version."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000
        self.tasks: dict[str, Task] = {}
        self.lines: list[Line] = []
        self.steps: list[Step] = []
        self._numbers = count(1)

    def connect(self, dialect: ReceiverDialect, offer: Offer = OFFER, owner: str = "alice") -> Line:
        """A new conversation."""
        prefix = f"q{len(self.lines)}"
        receiver = Receiver(
            dialect, offer, owner=owner, new_id=lambda: f"{prefix}-{next(self._numbers)}"
        )
        line = Line(self, receiver, owner)
        self.lines.append(line)
        return line

    def handle(self, line: Line, outputs: Sequence[Send | Perform | Abandoned | Replied]) -> None:
        """Carry out what a receiver wants."""
        for output in outputs:
            match output:
                case Send(message=message, stream=stream):
                    if isinstance(message, ResultResponse | ErrorResponse):
                        assert message.id in (None, stream), "an answer goes to who asked"
                    line.sent.append(output)
                case Abandoned(id=id):
                    line.abandoned.append(id)
                    line.runs.pop(id, None)
                case Replied():
                    line.replies.append(output)
                case Perform():
                    self._perform(line, output)

    def _perform(self, line: Line, wanted: Perform) -> None:
        id, operation = wanted.id, wanted.operation
        receiver = line.receiver
        match operation:
            case Create():
                assert id is not None
                task_id = f"task-{next(self._numbers)}"
                step = lifecycle.submit(
                    task_id, line.owner, operation.call, self.now,
                    ttl_ms=operation.ttl_ms, metadata=operation.metadata,
                )  # fmt: skip
                self._store(step)
                self.handle(line, receiver.answered(id, step.task, [step], now=self.now))
            case Run():
                assert id is not None
                line.runs[id] = operation
            case Browse(cursor=cursor):
                assert id is not None
                mine = [t for t in reversed(self.tasks.values()) if t.owner == line.owner]
                start = 0 if cursor is None else int(cursor)
                page, rest = mine[start : start + PAGE], mine[start + PAGE :]
                following = str(start + PAGE) if rest else None
                self.handle(line, receiver.paged(id, page, following, now=self.now))
            case Watch(task_ids=task_ids):
                assert id is not None
                found = [self.tasks[task_id] for task_id in task_ids if task_id in self.tasks]
                self.handle(line, receiver.watched(id, found, now=self.now))
            case _:
                try:
                    task = self.load(operation.task_id, line.owner)
                    steps = decide(operation, task, self.now)
                except TaskmachineError as error:
                    if id is not None:
                        self.handle(line, receiver.refused(id, error))
                    return
                for step in steps:
                    self.commit(step)
                if id is not None:
                    task = self.tasks[operation.task_id]
                    self.handle(line, receiver.answered(id, task, steps, now=self.now))

    def load(self, task_id: str, owner: str) -> Task:
        """The task, if it exists for this owner."""
        task = self.tasks.get(task_id)
        if task is None or task.owner != owner:
            raise NotFound(task_id)
        return task

    def commit(self, step: Step) -> Task:
        """Store a step and tell everybody."""
        self._store(step)
        for line in self.lines:
            self.handle(line, line.receiver.moved(step.task, now=self.now))
        return step.task

    def move(self, task_id: str, act: Callable[[Task], Step | None]) -> Task:
        """What a worker does to a task."""
        step = act(self.tasks[task_id])
        return self.tasks[task_id] if step is None else self.commit(step)

    def _store(self, step: Step) -> None:
        self.tasks[step.task.id] = step.task
        self.steps.append(step)
