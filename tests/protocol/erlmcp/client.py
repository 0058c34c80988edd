"""A plain JSON client of a receiver of erlmcp."""

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import attrs

from taskmachine.protocol.jsonrpc import Notification, Request, encode_message
from taskmachine.protocol.operations import FREE_FORM, Create
from taskmachine.protocol.outputs import Perform
from taskmachine.statemachine import Call, LimitExceeded, Outcome, Question, Task, lifecycle
from taskmachine.statemachine.lifecycle import Step
from tests.protocol.memory_driver import Connection, MemoryDriver

DONE = Outcome.of_result(b'{"content":[],"structuredContent":{"final":"done"}}')


class LimitedDriver(MemoryDriver):
    """A driver with room for a limited number of live tasks."""

    room = 1000
    page = 100

    def _perform(self, connection: Connection, wanted: Perform) -> None:
        id, operation = wanted.id, wanted.operation
        assert id is not None
        if isinstance(operation, Create) and self._live() >= self.room:
            error = LimitExceeded(f"{self.room} live tasks", 500)
            self.handle(connection, connection.receiver.refused(id, error))
        else:
            super()._perform(connection, wanted)

    def _live(self) -> int:
        return sum(not task.is_terminal for task in self.tasks.values())


@attrs.define(eq=False)
class Client:
    """Speaks plain JSON with a receiver of this dialect."""

    driver: LimitedDriver
    connection: Connection
    _numbers: "count[int]" = attrs.field(factory=lambda: count(1))

    def ask(self, method: str, **params: Any) -> Any:
        """Send a request; return the result or the error code.  Notifications stay in `sent`."""
        id = next(self._numbers)
        answers = [
            message
            for message in self.connection.receive(Request(id, method, params))
            if not isinstance(message, Notification)
        ]
        [answer] = [json.loads(encode_message(message)) for message in answers]
        assert answer["id"] == id
        return answer["result"] if "result" in answer else answer["error"]["code"]

    def create(self, **params: Any) -> str:
        task = self.ask("tasks/create", action={"name": "greet"}, **params)["task"]
        task_id: str = task["taskId"]
        return task_id

    def get(self, task_id: str) -> Any:
        return self.ask("tasks/get", taskId=task_id)["task"]

    def status(self, task_id: str) -> str:
        status: str = self.get(task_id)["status"]
        return status

    def started(self) -> str:
        task_id = self.create()
        self.work(task_id, lambda task, now: lifecycle.start(task, now, worker="w"))
        return task_id

    def waiting(self, **partial: Any) -> str:
        task_id = self.started()
        self.request_input(task_id, "k1", **partial)
        return task_id

    def request_input(self, task_id: str, key: str, **partial: Any) -> None:
        question = Question(key, "elicitation/create", FREE_FORM)
        shown = json.dumps(partial).encode() if partial else None
        self.work(task_id, lambda task, now: lifecycle.ask(task, now, [question], partial=shown))

    def work(self, task_id: str, act: Callable[[Task, int], Step | None]) -> Task:
        self.driver.now += 10
        return self.driver.move(task_id, lambda task: act(task, self.driver.now))

    def finish(self, task_id: str, outcome: Outcome = DONE) -> Task:
        act = lifecycle.fail if outcome.result is None else lifecycle.complete
        return self.work(task_id, lambda task, now: act(task, now, outcome))

    def pushed(self, method: str) -> list[Any]:
        messages = [send.message for send in self.connection.sent]
        return [
            json.loads(encode_message(message))["params"]
            for message in messages
            if isinstance(message, Notification) and message.method == method
        ]

    def changes(self) -> list[str]:
        told = self.pushed("notifications/tasks/status")
        statuses = [params["task"]["status"] for params in told]
        return [status for status in statuses if status != "pending"]

    def record(self, task_id: str) -> Task:
        return self.driver.tasks[task_id]


def started_task() -> Task:
    submitted = lifecycle.submit("t1", "alice", Call("tools/call", "greet"), 1, ttl_ms=None).task
    return lifecycle.start(submitted, 1, worker="w").task


def over_the_wire(*messages: Any) -> list[Any]:
    return [json.loads(encode_message(message)) for message in messages]
