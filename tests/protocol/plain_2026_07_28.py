"""A client of 2026-07-28 that knows only JSON, in front of a driver; and what workers do meanwhile.

Every message that comes out is judged by the hand-written schema of its envelope.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, Final

from taskmachine.protocol.dialects.mcp_2026_07_28 import receiver as receiver_2026_07_28
from taskmachine.protocol.dialects.receiver import ReceiverDialect
from taskmachine.protocol.jsonrpc import Id, decode_message
from taskmachine.protocol.offer import Offer
from taskmachine.protocol.receiver import Receiver
from taskmachine.statemachine import Outcome, Question, Task, lifecycle
from taskmachine.statemachine.lifecycle import Step
from tests.oracle import judge
from tests.protocol import peers_2025_11_25 as peers_2025
from tests.protocol.memory_driver import OFFER, MemoryDriver

REVISION: Final = "2026-07-28"
EXTENSION: Final = "io.modelcontextprotocol/tasks"
VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"

TASKS: Final[dict[str, Any]] = {"extensions": {EXTENSION: {}}}
ABLE: Final[dict[str, Any]] = {**TASKS, "elicitation": {}, "sampling": {}}

FORM: Final[dict[str, Any]] = {"mode": "form", **peers_2025.FORM}
SAMPLING: Final[dict[str, Any]] = peers_2025.SAMPLING
ACCEPTED: Final[dict[str, Any]] = peers_2025.ACCEPT
RESULT: Final[dict[str, Any]] = {"content": [{"type": "text", "text": "Hello, Ada"}]}
returned = peers_2025.returned
on_the_wire = partial(peers_2025.on_the_wire, revision=REVISION)


def form(key: str = "name", **changes: Any) -> Question:
    return Question(key, "elicitation/create", json.dumps({**FORM, **changes}).encode())


def sampling(key: str = "idea", **changes: Any) -> Question:
    return Question(key, "sampling/createMessage", json.dumps({**SAMPLING, **changes}).encode())


def still(shown: Any) -> Any:
    """Return the task as shown, without the poll interval, which grows with its age."""
    return {**shown, "pollIntervalMs": None}


class Peer:
    """One conversation with a server."""

    def __init__(
        self,
        driver: MemoryDriver | None = None,
        *,
        owner: str = "alice",
        offer: Offer = OFFER,
        rules: ReceiverDialect = receiver_2026_07_28.RECEIVER,
    ) -> None:
        self.driver = MemoryDriver() if driver is None else driver
        self.connection = self.driver.connect(rules, offer, owner)
        self._ids = count(1)
        self._read = 0

    @property
    def transcript(self) -> list[Any]:
        return [on_the_wire(send.message) for send in self.connection.sent]

    def news(self) -> list[Any]:
        before, self._read = self._read, len(self.connection.sent)
        return self.transcript[before:]

    def send(
        self,
        method: str,
        able: Any = ABLE,
        *,
        id: Id | None = None,
        says: dict[str, Any] | None = None,
        **params: Any,
    ) -> list[Any]:
        """Send a request; return the messages received.  `says` is added to `_meta`."""
        meta = {VERSION_KEY: REVISION, CAPABILITIES_KEY: able, **(says or {})}
        body = {"_meta": meta, **params}
        return self.post(
            {"id": next(self._ids) if id is None else id, "method": method, "params": body}
        )

    def post(self, message: dict[str, Any]) -> list[Any]:
        self.news()
        self.connection.receive(decode_message(json.dumps({"jsonrpc": "2.0", **message}).encode()))
        return self.news()

    def do(self, outputs: Sequence[Any]) -> list[Any]:
        """Carry out outputs of the receiver; return the messages received."""
        self.driver.handle(self.connection, outputs)
        return self.news()

    @property
    def receiver(self) -> Receiver:
        return self.connection.receiver

    def result(self, method: str, able: Any = ABLE, **rest: Any) -> Any:
        (answer,) = (seen for seen in self.send(method, able, **rest) if "id" in seen)
        return answer["result"]

    def error(self, method: str, able: Any = ABLE, **rest: Any) -> Any:
        (answer,) = self.send(method, able, **rest)
        return answer["error"]

    def create(self, tool: str = "greet", **rest: Any) -> str:
        created = self.result("tools/call", name=tool, **rest)
        judge(REVISION, "CreateTaskResult").validate(created)
        task_id: str = created["taskId"]
        self.work(task_id, lambda task, now: lifecycle.start(task, now, worker="w"))
        return task_id

    def get(self, task_id: str, able: Any = ABLE) -> Any:
        shown = self.result("tasks/get", able, taskId=task_id)
        judge(REVISION, "GetTaskResult").validate(shown)
        return shown

    def update(self, task_id: str, **answers: Any) -> Any:
        ack = self.result("tasks/update", taskId=task_id, inputResponses=answers)
        judge(REVISION, "UpdateTaskResult").validate(ack)
        return ack

    def cancel(self, task_id: str) -> Any:
        ack = self.result("tasks/cancel", taskId=task_id)
        judge(REVISION, "CancelTaskResult").validate(ack)
        return ack

    def listen(self, *task_ids: str, id: Id | None = None) -> list[Any]:
        """Open a subscription; return its first message."""
        return self.send("subscriptions/listen", id=id, notifications={"taskIds": list(task_ids)})

    # --- workers ---

    def work(self, task_id: str, act: Callable[[Task, int], Step | None]) -> None:
        self.driver.now += 1_000
        self.driver.move(task_id, lambda task: act(task, self.driver.now))

    def ask(self, task_id: str, *questions: Question) -> None:
        self.work(task_id, lambda task, now: lifecycle.ask(task, now, questions))

    def complete(self, task_id: str, result: dict[str, Any] = RESULT) -> None:
        self.work(task_id, lambda task, now: lifecycle.complete(task, now, returned(result)))

    def fail(self, task_id: str, outcome: Outcome) -> None:
        self.work(task_id, lambda task, now: lifecycle.fail(task, now, outcome))
