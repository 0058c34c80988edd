"""Hypothesis connects the receiver and the requestor of each dialect over unreliable connections.

A connection loses, repeats and reorders notifications, lets responses overtake each other, and may
break at any time.  The invariants hold on everything that is sent, and every call ends.
"""

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, ClassVar

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from taskmachine.protocol import DIALECTS
from taskmachine.protocol.dialects.mcp_2025_11_25 import messages as g1
from taskmachine.protocol.dialects.mcp_2026_07_28 import messages as g2
from taskmachine.protocol.dialects.mcp_2026_07_28.requestor import Requestor2026
from taskmachine.protocol.dialects.receiver import ReceiverDialect
from taskmachine.protocol.dialects.requestor import RequestorDialect
from taskmachine.protocol.jsonrpc import (
    ErrorResponse,
    Id,
    Message,
    Notification,
    Request,
    ResultResponse,
    decode_message,
    encode_message,
)
from taskmachine.protocol.outputs import Asked, Changed, Finished, Moved, Send
from taskmachine.protocol.receiver import Receiver
from taskmachine.protocol.requestor import Output, Requestor
from taskmachine.statemachine import (
    Call,
    Cause,
    IllegalTransition,
    KeyReused,
    NotDue,
    Outcome,
    Question,
    Reply,
    Task,
    lifecycle,
)
from taskmachine.statemachine.invariants import (
    Answered,
    Called,
    Created,
    Missed,
    Progressed,
    Saw,
    violations,
)
from taskmachine.statemachine.invariants import Asked as Posed
from taskmachine.statemachine.invariants import Event as Happened
from tests import strategies
from tests.lifecycle import planted_bugs
from tests.lifecycle.planted_bugs import PLANTED
from tests.oracle import LIFECYCLES, SPEC
from tests.protocol.memory_driver import Connection as ServerConnection
from tests.protocol.memory_driver import MemoryDriver

BOUND_MS = 10**9
META = {
    g2.PROTOCOL_VERSION: g2.REVISION,
    g2.CLIENT_CAPABILITIES: {**g2.TASKS_REQUIRED, "elicitation": {}, "sampling": {}},
}
Act = Callable[[Task], lifecycle.Step | None]
ACCEPT = Reply(b'{"action":"accept","content":{"input":"yes"}}')


@attrs.define(eq=False, repr=False)
class Connection:
    """A receiver, a requestor, and the messages in flight between them."""

    name: str
    dialect: str
    line: ServerConnection
    requestor: Requestor
    owner: str
    up: list[bytes] = attrs.field(factory=list)
    down: list[bytes] = attrs.field(factory=list)
    read: int = 0
    questions: list[Asked] = attrs.field(factory=list)
    progress: dict[str, float] = attrs.field(factory=dict)
    requests: dict[Id, str] = attrs.field(factory=dict)
    """Methods of the requests without a response, by id."""
    responses: Counter[Id] = attrs.field(factory=Counter)

    def __repr__(self) -> str:
        return self.name


def canonical(outcome: Outcome | None) -> str:
    """Return an outcome in a form that is the same in every dialect."""
    assert outcome is not None
    if outcome.result is not None:
        body = json.loads(outcome.result)
        body.pop("resultType", None)
        if not body.get("_meta", True):
            del body["_meta"]
        return json.dumps(body, sort_keys=True)
    if outcome.cause is Cause.CANCELLED:
        return "cancelled"
    return "failed"  # error codes differ between dialects


def status_of(shown: Any) -> str:
    status: str = shown["result"].get("task", shown["result"])["status"]
    return status


class DialectMachine(RuleBasedStateMachine):
    """Two owners and one set of tasks; each connection speaks one of the `dialects`."""

    dialects: ClassVar[Mapping[str, tuple[ReceiverDialect, RequestorDialect]]]

    def __init__(self) -> None:
        super().__init__()
        self.server = MemoryDriver()
        self.history: list[Happened] = []
        self.recorded = 0
        """Number of steps that are in the history."""
        self.asked: Counter[tuple[str, str, str]] = Counter()
        self.started: set[str] = set()
        self.finished: dict[str, Outcome] = {}
        self.creates: dict[tuple[str, Id | None], str] = {}
        self.tasks_of: dict[str, str] = {}
        self.connections: list[Connection] = []
        self._names = count(1)
        for owner in ("alice", "bob"):
            for dialect, (receiver, speaker) in self.dialects.items():
                if owner == "bob" and self.connections[-1].owner == "bob":
                    break  # one connection of another owner is enough
                ids = count(1)
                requestor = Requestor(speaker, new_id=lambda ids=ids: next(ids))  # type: ignore[misc]
                line = self.server.connect(receiver, owner=owner)
                self.connections.append(
                    Connection(f"{owner} {dialect}", dialect, line, requestor, owner)
                )
        for connection in self.connections:
            if connection.dialect == g1.REVISION:
                initialize = g1.Initialize("2025-11-25", {"elicitation": {}, "sampling": {}}, {})
                connection.line.receive(g1.DIALECT.encode_request("initialize", initialize))
                connection.line.receive(g1.DIALECT.encode_notification(g1.Initialized()))
                connection.read = len(connection.line.sent)

    # --- the wire ----------------------------------------------------------------------------

    def transmit(self, connection: Connection, outputs: list[Output]) -> None:
        """Carry out the outputs of a requestor."""
        for output in outputs:
            match output:
                case Send(message=message):
                    connection.up.append(encode_message(message))
                    if isinstance(message, Request):
                        connection.requests[message.id] = message.method
                        self.history.append(
                            Called(self.server.now, (connection.name, message.id), BOUND_MS)
                        )
                case Asked():
                    self.asked[connection.name, output.call, output.key] += 1
                    connection.questions.append(output)
                case Moved(call=call, progress=progress):
                    assert progress.value > connection.progress.get(call, float("-inf"))
                    connection.progress[call] = progress.value
                case Finished(call=call, outcome=outcome):
                    assert call not in self.finished
                    self.finished[call] = outcome
                case Changed(status=status):
                    assert status in {"submitted", *SPEC["generation"]["2025-11-25"]["statuses"]}

    def collect(self) -> None:
        """Move the messages of the receivers onto their connections, and record them."""
        for step in self.server.steps[self.recorded :]:
            self.history.append(step.entry)
            for posed in step.task.questions:
                subject = f"{step.task.id} in the store"
                self.history.append(Posed(step.entry.at, subject, posed.key, posed.params))
        self.recorded = len(self.server.steps)
        for connection in self.connections:
            for send in connection.line.sent[connection.read :]:
                self.record(connection, json.loads(encode_message(send.message)), send.message)
                connection.down.append(encode_message(send.message))
            connection.read = len(connection.line.sent)

    def record(self, connection: Connection, plain: Any, message: Message) -> None:
        """Add a message to the history; read as plain JSON, without the decoders under test."""
        now, task = self.server.now, None
        if isinstance(message, ResultResponse | ErrorResponse) and message.id is not None:
            self.history.append(Answered(now, (connection.name, message.id)))
            connection.responses[message.id] += 1
        body = plain.get("result", plain.get("params", {}))
        if "taskId" in body and "status" in body:
            task = body
        elif isinstance(body.get("task"), dict) and "status" in body["task"]:
            task = body["task"]
            if isinstance(message, ResultResponse) and "createdAt" in task:
                known = any(
                    isinstance(h, Created) and h.task_id == task["taskId"] for h in self.history
                )
                if not known:
                    self.history.append(Created(now, connection.owner, task["taskId"]))
        if body.get("resultType") == "task":
            self.history.append(Created(now, connection.owner, body["taskId"]))
        if task is not None and "createdAt" in task:
            pushed = isinstance(message, Notification)
            status, wire = task["status"], connection.dialect
            self.history.append(Saw(now, connection.owner, task["taskId"], status, wire, pushed))
            for key, request in task.get("inputRequests", {}).items():
                self.history.append(Posed(now, task["taskId"], key, json.dumps(request)))
        if plain.get("method") == "notifications/progress":
            related = body.get("_meta", {}).get(g1.RELATED_TASK, {})
            task_id = related.get("taskId", body["progressToken"])
            self.history.append(Progressed(now, connection.owner, task_id, connection.dialect))
        if "error" in plain and "not found" in plain["error"]["message"].lower():
            self.history.append(Missed(now, connection.owner, "?"))

    def pick(self, data: st.DataObject, connections: list[Connection]) -> Connection:
        return data.draw(
            st.sampled_from(sorted(connections, key=lambda connection: connection.name))
        )

    # --- rules: callers ----------------------------------------------------------------------

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """Every run has a task with progress: Hypothesis leaves out some rules in each run."""
        self.call(data, "slow", True)
        self.deliver_everything()
        if self.live():
            self.work(data, "report")

    @rule(data=st.data(), tool=st.sampled_from(["greet", "slow"]), token=st.booleans())
    def call(self, data: st.DataObject, tool: str, token: bool) -> None:
        connection, name = self.pick(data, self.connections), f"call-{next(self._names)}"
        call = Call("tools/call", tool, b"{}", name if token else None)
        self.started.add(name)
        outputs = connection.requestor.start(name, call, now=self.server.now, ttl_ms=60_000)
        [create] = outputs
        assert isinstance(create, Send)
        self.creates[connection.name, create.stream] = name
        self.transmit(connection, outputs)
        if data.draw(st.booleans()):
            self.deliver_everything()

    @precondition(lambda self: any(connection.questions for connection in self.connections))
    @rule(data=st.data(), refuse=st.integers(0, 5))
    def answer(self, data: st.DataObject, refuse: int) -> None:
        connection = self.pick(
            data, [connection for connection in self.connections if connection.questions]
        )
        question = connection.questions.pop(0)
        no = Reply(b'{"code":-1,"message":"User rejected"}', is_error=True)
        reply = no if refuse == 0 else ACCEPT
        self.transmit(
            connection,
            connection.requestor.answer(question.call, question.key, reply, now=self.server.now),
        )

    @precondition(lambda self: self.started - self.finished.keys())
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.started - self.finished.keys())))
        if data.draw(st.integers(0, 4)):
            return  # cancel only one call in five
        for connection in self.connections:
            self.transmit(connection, connection.requestor.cancel(name, now=self.server.now))

    @rule(ms=st.sampled_from([100, 1_000, 6_000]))
    def pass_time(self, ms: int) -> None:
        self.server.now += ms
        for connection in self.connections:
            self.transmit(connection, connection.requestor.tick(self.server.now))

    # --- rules: workers ----------------------------------------------------------------------

    @precondition(lambda self: self.live())
    @rule(
        data=st.data(),
        act=st.sampled_from(
            ["ask", "ask", "ask", "report", "end", "stop", "requeue", "record", "retry"]
        ),
    )
    def work(self, data: st.DataObject, act: str) -> None:
        task = self.server.tasks[data.draw(st.sampled_from(self.live()))]
        if task.state == "submitted":
            now = self.server.now
            if (task.due_at or 0) > now:
                with pytest.raises(NotDue):
                    lifecycle.start(task, now, worker="w")
                return
            task = self.server.move(task.id, lambda t: lifecycle.start(t, now, worker="w"))
        for _ in range(2 if act == "ask" else 1):
            with contextlib.suppress(IllegalTransition, KeyReused):
                self.server.move(task.id, getattr(self, f"_{act}")(data, task))
        self.collect()

    @precondition(lambda self: len(self.live()) < len(self.server.tasks))
    @rule(
        data=st.data(), act=st.sampled_from(["ask", "report", "end", "requeue", "record", "retry"])
    )
    def work_too_late(self, data: st.DataObject, act: str) -> None:
        """Let a worker move a task that has ended."""
        ended = sorted(self.server.tasks.keys() - self.live())
        task = self.server.tasks[data.draw(st.sampled_from(ended))]
        with contextlib.suppress(IllegalTransition, KeyReused):
            self.server.move(task.id, getattr(self, f"_{act}")(data, task))
        self.collect()

    def live(self) -> list[str]:
        return sorted(task.id for task in self.server.tasks.values() if not task.is_terminal)

    def _report(self, data: st.DataObject, task: Task) -> Act:
        progress, message = data.draw(strategies.progress), data.draw(st.none() | st.just("busy"))
        return lambda task: lifecycle.report(
            task, self.server.now, progress=progress, message=message
        )

    def _ask(self, data: st.DataObject, task: Task) -> Act:
        keys = data.draw(st.sets(st.sampled_from("abc"), min_size=1, max_size=2))
        mark = data.draw(st.sampled_from([b"?", b"?", b"!"]))  # rarely another request
        params = [(key, b'{"message":"' + key.encode() + mark + b'"}') for key in sorted(keys)]
        questions = [Question(key, "elicitation/create", asks) for key, asks in params]
        return lambda task: lifecycle.ask(task, self.server.now, questions)

    def _end(self, data: st.DataObject, task: Task) -> Act:
        outcome = data.draw(strategies.results() | strategies.errors)
        if outcome.result is None:
            return lambda task: lifecycle.fail(task, self.server.now, outcome)
        return lambda task: lifecycle.complete(task, self.server.now, outcome)

    def _stop(self, data: st.DataObject, task: Task) -> Act:
        return lambda task: lifecycle.withdraw(task, self.server.now)

    def _requeue(self, data: st.DataObject, task: Task) -> Act:
        return lambda task: lifecycle.requeue(task, self.server.now)

    def _record(self, data: st.DataObject, task: Task) -> Act:
        return lambda task: lifecycle.record(task, self.server.now, b"{}")

    def _retry(self, data: st.DataObject, task: Task) -> Act:
        due_at = self.server.now + data.draw(st.sampled_from([0, 500, 5_000]))
        message = "Attempt 1 of 2 failed."
        return lambda task: lifecycle.requeue(
            task, self.server.now, error="boom", message=message, due_at=due_at
        )

    # --- rules: reads --------------------------------------------------------------------

    @precondition(lambda self: self.server.tasks)
    @rule(data=st.data())
    def read_in_every_dialect(self, data: st.DataObject) -> None:
        """Get one task on every connection of its owner."""
        task_id = data.draw(st.sampled_from(sorted(self.server.tasks)))
        for connection in self.connections:
            if connection.owner == self.server.tasks[task_id].owner:
                self.read_task(connection, task_id)
        self.collect()

    def read_task(self, connection: Connection, task_id: str) -> None:
        shown = self.ask(connection, "tasks/get", {"taskId": task_id})
        task = shown["result"].get("task", shown["result"])
        outcome = None
        if task["status"] == "cancelled":
            outcome = "cancelled"
        elif task["status"] in ("completed", "failed"):
            if connection.dialect == g1.REVISION:
                task = self.ask(connection, "tasks/result", {"taskId": task_id})
                task.get("result", {}).get("_meta", {}).pop(g1.RELATED_TASK, None)
            body = json.dumps(task.get("result")).encode()
            has_failed = task.get("result") is None
            outcome = "failed" if has_failed else canonical(Outcome.of_result(body))
        saw = Saw(self.server.now, connection.owner, task_id, status_of(shown), connection.dialect)
        self.history.append(attrs.evolve(saw, outcome=outcome))

    def ask(self, connection: Connection, method: str, params: dict[str, Any]) -> Any:
        """Send a request in plain JSON, past the requestor, and return its response."""
        id = f"read-{next(self._names)}"
        params = {**params, "_meta": META}
        answers = connection.line.receive(Request(id, method, params))
        messages = [json.loads(encode_message(answer)) for answer in answers]
        return next(message for message in messages if message.get("id") == id)

    @rule()
    def list_tasks(self) -> None:
        """List the newest tasks on every connection whose dialect has `tasks/list`."""
        for connection in self.connections:
            if connection.dialect != g2.REVISION:
                page = self.ask(connection, "tasks/list", {})["result"]["tasks"]
                self.history += [
                    Saw(self.server.now, connection.owner, task["taskId"], task["status"],
                        connection.dialect)
                    for task in page
                ]  # fmt: skip
        self.collect()

    # --- rules: the wire ---------------------------------------------------------------------

    def deliver_up(self, connection: Connection, index: int) -> None:
        connection.line.receive(decode_message(connection.up.pop(index)))
        self.collect()

    @precondition(
        lambda self: any(connection.up or connection.down for connection in self.connections)
    )
    @rule(data=st.data(), most=st.integers(1, 8))
    def deliver_some(self, data: st.DataObject, most: int) -> None:
        for _ in range(most):
            connections = [
                connection for connection in self.connections if connection.up or connection.down
            ]
            if not connections:
                return
            connection = self.pick(data, connections)
            if connection.up:
                self.deliver_up(connection, data.draw(st.integers(0, len(connection.up) - 1)))
            if connection.down:
                self.deliver_down(data, connection)

    def deliver_down(self, data: st.DataObject, connection: Connection) -> None:
        index = data.draw(st.integers(0, len(connection.down) - 1))
        message = decode_message(connection.down[index])
        fate = "arrives"
        if isinstance(message, Notification):
            fate = data.draw(st.sampled_from(["arrives", "is lost", "comes twice"]))
        if fate != "comes twice":
            del connection.down[index]
        if fate != "is lost":
            self.receive(connection, message)

    def receive(self, connection: Connection, message: Message) -> None:
        name = self.creates.get((connection.name, getattr(message, "id", None)), "")
        is_news = name in self.started - self.finished.keys()
        if is_news and isinstance(message, ResultResponse):
            task = message.result.get("task", message.result)
            self.tasks_of[name] = task["taskId"]
        self.transmit(connection, connection.requestor.receive(message, now=self.server.now))

    @rule()
    def deliver_everything(self) -> None:
        while any(connection.up or connection.down for connection in self.connections):
            for connection in self.connections:
                while connection.up:
                    self.deliver_up(connection, 0)
                while connection.down:
                    self.receive(connection, decode_message(connection.down.pop(0)))

    @rule(data=st.data())
    def disconnect(self, data: st.DataObject) -> None:
        connection = self.pick(data, self.connections)
        if data.draw(st.booleans()):
            return
        connection.up.clear()
        connection.down.clear()
        for id in [*connection.requests, None]:
            self.server.handle(connection.line, connection.line.receiver.closed(id))
        connection.read = len(connection.line.sent)  # messages in flight are lost
        self.history = [
            event
            for event in self.history
            if not isinstance(event, Called) or event.call_id[0] != connection.name  # type: ignore[index]
        ]
        connection.requests.clear()
        self.server.handle(connection.line, connection.line.receiver.opened())
        self.transmit(connection, connection.requestor.disconnected(now=self.server.now))
        self.collect()

    # --- what must always hold ---------------------------------------------------------------

    @invariant()
    def no_question_is_asked_twice(self) -> None:
        assert all(times == 1 for times in self.asked.values()), self.asked

    @invariant()
    def every_request_is_answered_at_most_once(self) -> None:
        for connection in self.connections:
            assert all(times == 1 for times in connection.responses.values())

    def teardown(self) -> None:
        """Let every call end: no more faults, workers finish, clients answer, time passes."""
        for _ in range(300):
            self.collect()
            self.deliver_everything()
            if self.started == self.finished.keys():
                break
            for connection in self.connections:
                for question in connection.questions:
                    self.transmit(
                        connection,
                        connection.requestor.answer(
                            question.call, question.key, ACCEPT, now=self.server.now
                        ),
                    )
                connection.questions.clear()
            for task in list(self.server.tasks.values()):
                if not task.is_terminal and task.state != "input_required":
                    self.server.move(task.id, self._done)
            self.server.now += 1_000
            for connection in self.connections:
                self.transmit(connection, connection.requestor.tick(self.server.now))
        assert self.started == self.finished.keys(), "every call ends"
        for task in list(self.server.tasks.values()):
            with contextlib.suppress(IllegalTransition):
                self.server.move(
                    task.id, lambda t: lifecycle.cancel(t, self.server.now, reason="too late")
                )
        self.collect()
        assert violations(self.history, self.lifecycles()) == []
        self.check_outcomes()

    def _done(self, task: Task) -> lifecycle.Step:
        return lifecycle.complete(task, self.server.now, Outcome.of_result(b'{"content":[]}'))

    def lifecycles(self) -> Any:
        return LIFECYCLES

    def check_outcomes(self) -> None:
        """Compare the outcome of each call with the outcome of its task."""
        for name, task_id in self.tasks_of.items():
            task = self.server.tasks[task_id]
            assert canonical(self.finished[name]) == canonical(task.outcome), (name, task)
        for name in self.started - self.tasks_of.keys():  # the response to its create was lost
            assert canonical(self.finished[name]) in ("failed", "cancelled")


ROLES: dict[str, tuple[ReceiverDialect, RequestorDialect]] = {
    name: (entry.receiver, entry.requestor) for name, entry in DIALECTS.items()
}
ROLES["2026-07-28"] = (
    ROLES["2026-07-28"][0],
    Requestor2026({"elicitation": {}, "sampling": {}}),  # able to answer questions
)


def machine_of(*names: str) -> type[DialectMachine]:
    """Return the machine whose connections speak these dialects."""
    dialects = {name: ROLES[name] for name in names}
    return type("DialectMachine", (DialectMachine,), {"dialects": dialects})


Test2025 = machine_of("2025-11-25").TestCase
Test2026 = machine_of("2026-07-28").TestCase
TestErlmcp = machine_of("erlmcp").TestCase
TestAllDialects = machine_of(*ROLES).TestCase

BUGS = {
    planted_bugs.a_cancellation_moves_an_ended_task: ("2025-11-25", "2026-07-28", "erlmcp"),
    planted_bugs.another_request_is_asked_under_a_used_key: ("2025-11-25", "2026-07-28", "erlmcp"),
    # 2026-07-28 has no progress notifications of tasks; only 2025-11-25 has a call that blocks.
    planted_bugs.progress_is_notified_after_the_end: ("2025-11-25", "erlmcp"),
    planted_bugs.no_call_is_answered_at_the_end: ("2025-11-25",),
    # Foreign tasks in lists: test_isolation.py.  A ttl needs a store: test_stores.py, test_wire.py.
}


@pytest.mark.parametrize(
    ("bug", "dialect"), [(bug, dialect) for bug, names in BUGS.items() for dialect in names]
)
def test_a_planted_bug_is_detected(
    bug: Callable[[], None], dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner, name in ((lifecycle, "ask"), (lifecycle, "fire"), (Receiver, "moved")):
        monkeypatch.setattr(owner, name, getattr(owner, name))  # restored afterwards
    bug()
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine_of(dialect), settings=PLANTED)
