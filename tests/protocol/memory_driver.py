"""A driver of receivers with tasks in memory, without a store, a clock or a socket."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeVar

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
from taskmachine.protocol.sealing import Position, Sealer
from taskmachine.statemachine import NotFound, Outcome, Task, TaskmachineError, lifecycle
from taskmachine.statemachine.lifecycle import Step

PAGE = 2
SEALER = Sealer(b"s" * 32)
Kind = TypeVar("Kind")

GREET = {"name": "greet", "description": "Says hello", "inputSchema": {"type": "object"}}
OFFER = Offer(
    info={"name": "test", "version": "1"},
    tools={
        "greet": Tool(GREET, "optional"),
        "slow": Tool({**GREET, "name": "slow"}, "required"),
        "quick": Tool({**GREET, "name": "quick"}, "forbidden"),
    },
)


def only(outputs: Sequence[object], kind: type[Kind]) -> Kind:
    """Return the one output, which is of this kind."""
    [output] = outputs
    assert isinstance(output, kind)
    return output


@attrs.define(eq=False)
class Connection:
    driver: "MemoryDriver"
    receiver: Receiver
    owner: str
    sent: list[Send] = attrs.field(factory=list)
    abandoned: list[Id] = attrs.field(factory=list)
    replies: list[Replied] = attrs.field(factory=list)
    runs: dict[Id, Run] = attrs.field(factory=dict)

    def receive(self, message: Message) -> list[Message]:
        before = len(self.sent)
        self.driver.handle(self, self.receiver.receive(decode_message(encode_message(message))))
        return [send.message for send in self.sent[before:]]

    def finish_run(self, id: Id, outcome: Outcome) -> list[Message]:
        del self.runs[id]
        before = len(self.sent)
        self.driver.handle(self, self.receiver.ran(id, outcome))
        return [send.message for send in self.sent[before:]]


class MemoryDriver:
    """Owns tasks, performs operations, and passes every new version to all receivers."""

    page = PAGE

    def __init__(self) -> None:
        self.now = 1_700_000_000_000
        self.tasks: dict[str, Task] = {}
        self.connections: list[Connection] = []
        self.steps: list[Step] = []
        self._numbers = count(1)

    def connect(
        self, dialect: ReceiverDialect, offer: Offer = OFFER, owner: str = "alice"
    ) -> Connection:
        prefix = f"q{len(self.connections)}"
        receiver = Receiver(
            dialect, offer, owner=owner, new_id=lambda: f"{prefix}-{next(self._numbers)}"
        )
        connection = Connection(self, receiver, owner)
        self.connections.append(connection)
        return connection

    def handle(
        self, connection: Connection, outputs: Sequence[Send | Perform | Abandoned | Replied]
    ) -> None:
        for output in outputs:
            match output:
                case Send(message=message, stream=stream):
                    if isinstance(message, ResultResponse | ErrorResponse):
                        assert message.id in (None, stream), (
                            "a response goes to the stream of its request"
                        )
                    connection.sent.append(output)
                case Abandoned(id=id):
                    connection.abandoned.append(id)
                    connection.runs.pop(id, None)
                case Replied():
                    connection.replies.append(output)
                case Perform():
                    self._perform(connection, output)

    def _perform(self, connection: Connection, wanted: Perform) -> None:
        id, operation = wanted.id, wanted.operation
        receiver = connection.receiver
        match operation:
            case Create():
                assert id is not None
                task_id = f"task-{next(self._numbers)}"
                step = lifecycle.submit(
                    task_id, connection.owner, operation.call, self.now,
                    ttl_ms=operation.ttl_ms, metadata=operation.metadata,
                )  # fmt: skip
                self._store(step)
                self.handle(connection, receiver.answered(id, step.task, [step], now=self.now))
            case Run():
                assert id is not None
                connection.runs[id] = operation
            case Browse(cursor=cursor, limit=limit):
                assert id is not None
                mine = [t for t in reversed(self.tasks.values()) if t.owner == connection.owner]
                try:
                    start = self._start(connection.owner, cursor, mine)
                except TaskmachineError as error:
                    self.handle(connection, receiver.refused(id, error))
                    return
                end = start + (limit or self.page)
                last = mine[end - 1].id if mine[end:] else None
                following = last and SEALER.seal_cursor(connection.owner, Position(0, last))
                page = mine[start:end]
                self.handle(connection, receiver.paged(id, page, following, now=self.now))
            case Watch(task_ids=task_ids):
                assert id is not None
                found = [self.tasks[task_id] for task_id in task_ids if task_id in self.tasks]
                self.handle(connection, receiver.watched(id, found, now=self.now))
            case _:
                try:
                    task = self.load(operation.task_id, connection.owner)
                    steps = decide(operation, task, self.now)
                except TaskmachineError as error:
                    if id is not None:
                        self.handle(connection, receiver.refused(id, error))
                    return
                for step in steps:
                    self.commit(step)
                if id is not None:
                    task = self.tasks[operation.task_id]
                    self.handle(connection, receiver.answered(id, task, steps, now=self.now))

    def load(self, task_id: str, owner: str) -> Task:
        task = self.tasks.get(task_id)
        if task is None or task.owner != owner:
            raise NotFound(task_id)
        return task

    def commit(self, step: Step) -> Task:
        self._store(step)
        for connection in self.connections:
            self.handle(connection, connection.receiver.moved(step.task, now=self.now))
        return step.task

    def move(self, task_id: str, act: Callable[[Task], Step | None]) -> Task:
        step = act(self.tasks[task_id])
        return self.tasks[task_id] if step is None else self.commit(step)

    def _start(self, owner: str, cursor: str | None, mine: list[Task]) -> int:
        if cursor is None:
            return 0
        return [t.id for t in mine].index(SEALER.open_cursor(owner, cursor).task_id) + 1

    def _store(self, step: Step) -> None:
        self.tasks[step.task.id] = step.task
        self.steps.append(step)


class CarelessDriver(MemoryDriver):
    """Does not compare owners when it loads a task."""

    def load(self, task_id: str, owner: str) -> Task:
        if task_id not in self.tasks:
            raise NotFound(task_id)
        return self.tasks[task_id]
