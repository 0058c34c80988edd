"""The other side of 2025-11-25, in plain JSON: all that arrives is judged by the schema at once."""

import json
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from taskmachine.protocol.dialects.mcp_2025_11_25.receiver import RECEIVER
from taskmachine.protocol.dialects.mcp_2025_11_25.requestor import REQUESTOR
from taskmachine.protocol.dialects.requestor import RequestorDialect
from taskmachine.protocol.jsonrpc import Message, decode_message, encode_message
from taskmachine.protocol.offer import Offer, Tool
from taskmachine.protocol.outputs import Send
from taskmachine.protocol.requestor import Output, Requestor
from taskmachine.statemachine import Call, Outcome, Progress, Question, Reply, Task, lifecycle
from taskmachine.statemachine.lifecycle import Step
from tests.oracle import judge
from tests.protocol.memory_driver import GREET, OFFER, MemoryDriver

REVISION: Final = "2025-11-25"
RELATED: Final = "io.modelcontextprotocol/related-task"
ENDED: Final = {"completed", "failed", "cancelled"}

PLAIN_SERVER: Final = Offer({"name": "plain", "version": "1"}, {"greet": Tool(GREET)})
CLIENT: Final = Offer(
    {"name": "client", "version": "1"}, side="client", methods=frozenset({"sampling/createMessage"})
)

FORM: Final = {
    "message": "Your name?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
}
SAMPLING: Final = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "2+2?"}}],
    "maxTokens": 10,
}
NAME: Final = Question("name", "elicitation/create", json.dumps(FORM).encode())
SUM: Final = Question("sum", "sampling/createMessage", json.dumps(SAMPLING).encode())
ACCEPT: Final = {"action": "accept", "content": {"name": "Ada"}}
HELLO: Final = {"content": [{"type": "text", "text": "hello"}]}

BROKEN: Final = {"content": [{"type": "text", "text": "no such city"}], "isError": True}
RAISED: Final = Outcome.of_error(-32042, "rate limit exceeded", b'{"a":1}')


def returned(body: dict[str, Any] = HELLO) -> Outcome:
    return Outcome.of_result(json.dumps(body).encode(), is_error=body.get("isError") is True)


WAYS: Final[dict[str, list[str]]] = {
    "queued": [],
    "working": ["start"],
    "input_required": ["start", "ask"],
    "completed": ["start", "complete"],
    "failed": ["start", "fail"],
    "broken": ["start", "break"],
    "cancelled": ["start", "cancel"],
}
VERBS: Final[dict[str, Any]] = {
    "start": lambda task, now: lifecycle.start(task, now, worker="w"),
    "report": lambda task, now: lifecycle.report(task, now, message="busy"),
    "ask": lambda task, now: lifecycle.ask(task, now, [NAME]),
    "answer": lambda task, now: lifecycle.answer(task, now, {"name": Reply(b"{}")}),
    "withdraw": lambda task, now: lifecycle.withdraw(task, now),
    "requeue": lambda task, now: lifecycle.requeue(task, now),
    "complete": lambda task, now: lifecycle.complete(task, now, returned(HELLO)),
    "break": lambda task, now: lifecycle.complete(task, now, returned(BROKEN)),
    "fail": lambda task, now: lifecycle.fail(task, now, RAISED),
    "cancel": lambda task, now: lifecycle.cancel(task, now, reason="enough"),
    "expire": lambda task, now: lifecycle.expire(task, now),
}
ENDS: Final = ["complete", "break", "fail", "cancel", "expire"]

RESULTS: Final = {
    "initialize": "InitializeResult",
    "ping": "Result",
    "tools/list": "ListToolsResult",
    "tasks/get": "GetTaskResult",
    "tasks/list": "ListTasksResult",
    "tasks/cancel": "CancelTaskResult",
    "tasks/result": "GetTaskPayloadResult",
}
NOTIFICATIONS: Final = {
    "notifications/tasks/status": "TaskStatusNotification",
    "notifications/progress": "TaskProgressNotification",
    "notifications/cancelled": "CancelledNotification",
}
REQUESTS: Final = {
    "tools/call": "CallToolRequest",
    "tasks/get": "GetTaskRequest",
    "tasks/result": "GetTaskPayloadRequest",
    "tasks/cancel": "CancelTaskRequest",
}
QUESTIONS: Final = {
    "elicitation/create": "TaskElicitRequest",
    "sampling/createMessage": "TaskCreateMessageRequest",
}


def on_the_wire(message: Message, revision: str = REVISION) -> Any:
    """Return the message as JSON, after checking that it is one of the four envelopes."""
    seen = json.loads(encode_message(message))
    if "method" in seen:
        envelope = "JSONRPCRequest" if "id" in seen else "JSONRPCNotification"
    else:
        envelope = "JSONRPCResultResponse" if "result" in seen else "JSONRPCErrorResponse"
    judge(revision, envelope).validate(seen)
    return seen


class Peer:
    """A plain JSON requestor that keeps all received messages."""

    def __init__(
        self,
        driver: MemoryDriver,
        *,
        offer: Offer = OFFER,
        owner: str = "alice",
        declares: dict[str, Any] | None = None,
        greets: bool = True,
    ) -> None:
        self.driver = driver
        self.connection = driver.connect(RECEIVER, offer, owner)
        self._ids = count(1)
        self._heard: list[Any] = []
        if greets and offer.side == "server":
            capabilities = {"elicitation": {}, "sampling": {}} if declares is None else declares
            self.initialize(capabilities=capabilities)
            self.notify("notifications/initialized")

    @property
    def heard(self) -> list[Any]:
        for send in self.connection.sent[len(self._heard) :]:
            message = on_the_wire(send.message)
            schema = {**NOTIFICATIONS, **QUESTIONS}.get(message.get("method"))
            if schema is not None:
                judge(REVISION, schema).validate(message)
            self._heard.append(message)
        return self._heard

    def say(self, message: dict[str, Any]) -> list[Any]:
        """Send an object; return the messages received in response."""
        before = len(self.heard)
        self.connection.receive(decode_message(json.dumps({"jsonrpc": "2.0", **message}).encode()))
        return self.heard[before:]

    def initialize(self, version: str = REVISION, **params: Any) -> Any:
        info = {"name": "peer", "version": "1"}
        hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": info, **params}
        return self.result("initialize", **hello)

    def ask(self, method: str, **params: Any) -> int:
        id = next(self._ids)
        self.say({"id": id, "method": method, "params": params})
        return id

    def notify(self, method: str, **params: Any) -> list[Any]:
        return self.say({"method": method, "params": params})

    def responses(self, id: str | int) -> list[Any]:
        return [m for m in self.heard if m.get("id") == id and "method" not in m]

    def call(self, method: str, **params: Any) -> Any:
        [response] = self.responses(self.ask(method, **params))
        return response

    def result(self, method: str, **params: Any) -> Any:
        result = self.call(method, **params)["result"]
        if method in RESULTS:
            judge(REVISION, RESULTS[method]).validate(result)
        return result

    def error(self, method: str, **params: Any) -> Any:
        return self.call(method, **params)["error"]

    def create(self, name: str = "greet", **params: Any) -> str:
        created = self.result("tools/call", **{"name": name, "task": {}, **params})
        judge(REVISION, "CreateTaskResult").validate(created)
        task_id: str = created["task"]["taskId"]
        return task_id

    def status(self, task_id: str) -> str:
        status: str = self.result("tasks/get", taskId=task_id)["status"]
        return status

    def notifications(self, method: str) -> list[Any]:
        return [m["params"] for m in self.heard if m.get("method") == method and "id" not in m]

    def questions(self) -> list[Any]:
        return [m for m in self.heard if "method" in m and "id" in m]

    def answer(self, question: Any, result: dict[str, Any]) -> list[Any]:
        self.driver.now += 10
        return self.say({"id": question["id"], "result": result})

    # --- what a worker does meanwhile --------------------------------------------------------

    def move(self, task_id: str, act: Callable[[Task, int], Step | None]) -> None:
        self.driver.now += 10
        self.driver.move(task_id, lambda task: act(task, self.driver.now))

    def walk(self, task_id: str, way: str) -> None:
        for verb in WAYS[way]:
            self.move(task_id, VERBS[verb])

    def asked(self, task_id: str, *questions: Question) -> list[Any]:
        """Wait for the result; return the questions that the task then asks."""
        self.ask("tasks/result", taskId=task_id)
        self.ask_from(task_id, *questions)
        return self.questions()

    def start(self, task_id: str) -> None:
        self.move(task_id, lambda task, now: lifecycle.start(task, now, worker="w"))

    def ask_from(self, task_id: str, *questions: Question) -> None:
        self.start(task_id)
        self.move(task_id, lambda task, now: lifecycle.ask(task, now, questions or (NAME,)))

    def report(self, task_id: str, *progress: float | str | None) -> None:
        report = Progress(*progress)  # type: ignore[arg-type]
        self.move(task_id, lambda task, now: lifecycle.report(task, now, progress=report))

    def end(self, task_id: str, how: Outcome | None = None) -> None:
        ended = how or returned(HELLO)
        verb = lifecycle.fail if ended.result is None else lifecycle.complete
        self.move(task_id, lambda task, now: verb(task, now, ended))


class Caller:
    """A requestor whose receiver is played by the test."""

    def __init__(self, dialect: RequestorDialect = REQUESTOR) -> None:
        self.now = 1_000
        self.requestor = Requestor(dialect, new_id=count(1).__next__)
        self.sent: list[Any] = []
        self.said: list[Output] = []

    def do(self, outputs: list[Output]) -> list[Output]:
        """Record and check messages to the wire; return the outputs for the caller."""
        for output in outputs:
            if isinstance(output, Send):
                message = on_the_wire(output.message)
                schema = REQUESTS.get(message.get("method"))
                if schema is not None:
                    judge(REVISION, schema).validate(message)
                self.sent.append(message)
        told: list[Output] = [output for output in outputs if not isinstance(output, Send)]
        self.said += told
        return told

    def start(self, name: str = "job", call: Call | None = None, ttl_ms: int | None = None) -> Any:
        call = call or Call("tools/call", "greet")
        self.do(self.requestor.start(name, call, now=self.now, ttl_ms=ttl_ms))
        return self.sent[-1]

    def hear(self, **message: Any) -> list[Output]:
        """Receive a message; return the outputs for the caller."""
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        return self.do(self.requestor.receive(decode_message(data), now=self.now))

    def reply(self, result: dict[str, Any], to: Any = None) -> list[Output]:
        return self.hear(id=(to or self.sent[-1])["id"], result=result)

    def refuse(self, code: int, message: str, to: Any = None) -> list[Output]:
        error = {"code": code, "message": message}
        return self.hear(id=(to or self.sent[-1])["id"], error=error)

    def wait(self, ms: int) -> list[Any]:
        """Advance the clock; return the messages sent meanwhile."""
        before, end = len(self.sent), self.now + ms
        while (due := self.requestor.next_tick()) is not None and due <= end:
            self.now = max(due, self.now)
            self.do(self.requestor.tick(self.now))
        self.now = end
        return self.sent[before:]

    def create(self, name: str = "job", task_id: str = "t1", **fields: Any) -> None:
        self.start(name)
        self.reply({"task": shown(task_id, **fields)})


def shown(task_id: str = "t1", status: str = "working", **fields: Any) -> dict[str, Any]:
    stamp = "2025-11-25T10:30:00Z"
    task = {"taskId": task_id, "status": status, "createdAt": stamp, "lastUpdatedAt": stamp}
    return {**task, "ttl": 60_000, "pollInterval": 1_000, **fields}
