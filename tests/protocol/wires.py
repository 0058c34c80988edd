"""Receivers and requestors back to back, on wires that lose, repeat and reorder.

Notifications may be lost or come twice, independent responses may overtake each other, and a
connection may break at any time.  Whatever happens: the invariants hold and every call ends.
"""

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, ClassVar

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from taskmachine.protocol.dialects.mcp_2025_11_25 import messages as g1
from taskmachine.protocol.dialects.mcp_2026_07_28 import messages as g2
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
from taskmachine.protocol.requestor import Output, Requestor
from taskmachine.statemachine import (
    Call,
    Cause,
    IllegalTransition,
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
from tests.oracle import LIFECYCLES, SPEC
from tests.protocol.memory_driver import Connection, MemoryDriver

BOUND_MS = 10**9
META = {
    g2.PROTOCOL_VERSION: g2.REVISION,
    g2.CLIENT_CAPABILITIES: {**g2.TASKS_REQUIRED, "elicitation": {}, "sampling": {}},
}
Act = Callable[[Task], lifecycle.Step | None]
ACCEPT = Reply(b'{"action":"accept","content":{"input":"yes"}}')


@attrs.define(eq=False, repr=False)
class Talk:
    """One conversation: both ends, and what is on the wire between them."""

    name: str
    dialect: str
    connection: Connection
    requestor: Requestor
    owner: str
    up: list[bytes] = attrs.field(factory=list)
    down: list[bytes] = attrs.field(factory=list)
    read: int = 0
    questions: list[Asked] = attrs.field(factory=list)
    progress: dict[str, float] = attrs.field(factory=dict)
    requests: dict[Id, str] = attrs.field(factory=dict)
    """What was asked under an id that is not answered yet."""
    responses: Counter[Id] = attrs.field(factory=Counter)

    def __repr__(self) -> str:
        return self.name


def canonical(outcome: Outcome | None) -> str:
    """An outcome in a form in which all wires must agree."""
    assert outcome is not None
    if outcome.result is not None:
        body = json.loads(outcome.result)
        body.pop("resultType", None)
        if not body.get("_meta", True):
            del body["_meta"]
        return json.dumps(body, sort_keys=True)
    if outcome.cause is Cause.CANCELLED:
        return "cancelled"
    return "failed"  # each dialect has its own codes; see the tests of each


def shown_status(shown: Any) -> str:
    """What a get says."""
    status: str = shown["result"].get("task", shown["result"])["status"]
    return status


class Wires(RuleBasedStateMachine):
    """Rules act, invariants assert; `spoken` says who takes part."""

    spoken: ClassVar[Mapping[str, tuple[ReceiverDialect, RequestorDialect]]]

    def __init__(self) -> None:
        super().__init__()
        self.driver = MemoryDriver()
        self.history: list[Happened] = []
        self.asked: Counter[tuple[str, str, str]] = Counter()
        self.started: set[str] = set()
        self.finished: dict[str, Outcome] = {}
        self.creates: dict[tuple[str, Id | None], str] = {}
        self.tasks_of: dict[str, str] = {}
        self.talks: list[Talk] = []
        self._names = count(1)
        for owner in ("alice", "bob"):
            for dialect, (receiver, speaker) in self.spoken.items():
                if owner == "bob" and self.talks[-1].owner == "bob":
                    break  # one stranger is enough
                ids = count(1)
                requestor = Requestor(speaker, new_id=lambda ids=ids: next(ids))  # type: ignore[misc]
                connection = self.driver.connect(receiver, owner=owner)
                self.talks.append(Talk(f"{owner} {dialect}", dialect, connection, requestor, owner))
        for talk in self.talks:
            if talk.dialect == g1.REVISION:
                hello = g1.Initialize("2025-11-25", {"elicitation": {}, "sampling": {}}, {})
                talk.connection.receive(g1.DIALECT.encode_request("hello", hello))
                talk.connection.receive(g1.DIALECT.encode_notification(g1.Initialized()))
                talk.read = len(talk.connection.sent)

    # --- the wire ----------------------------------------------------------------------------

    def say(self, talk: Talk, outputs: list[Output]) -> None:
        """What a requestor wants."""
        for output in outputs:
            match output:
                case Send(message=message):
                    talk.up.append(encode_message(message))
                    if isinstance(message, Request):
                        talk.requests[message.id] = message.method
                        self.history.append(
                            Called(self.driver.now, (talk.name, message.id), BOUND_MS)
                        )
                case Asked():
                    self.asked[talk.name, output.call, output.key] += 1
                    talk.questions.append(output)
                case Moved(call=call, progress=progress):
                    assert progress.value > talk.progress.get(call, float("-inf"))
                    talk.progress[call] = progress.value
                case Finished(call=call, outcome=outcome):
                    assert call not in self.finished
                    self.finished[call] = outcome
                case Changed(status=status):
                    assert status in {"submitted", *SPEC["generation"]["2025-11-25"]["statuses"]}

    def collect(self) -> None:
        """Put on the wire what receivers have sent, and write down what can be seen of it."""
        for talk in self.talks:
            for send in talk.connection.sent[talk.read :]:
                self.witness(talk, json.loads(encode_message(send.message)), send.message)
                talk.down.append(encode_message(send.message))
            talk.read = len(talk.connection.sent)

    def witness(self, talk: Talk, seen: Any, message: Message) -> None:
        """Plain JSON, read without any of our decoders."""
        now, task = self.driver.now, None
        if isinstance(message, ResultResponse | ErrorResponse) and message.id is not None:
            self.history.append(Answered(now, (talk.name, message.id)))
            talk.responses[message.id] += 1
        body = seen.get("result", seen.get("params", {}))
        if "taskId" in body and "status" in body:
            task = body
        elif isinstance(body.get("task"), dict) and "status" in body["task"]:
            task = body["task"]
            if isinstance(message, ResultResponse) and "createdAt" in task:
                known = any(
                    isinstance(h, Created) and h.task_id == task["taskId"] for h in self.history
                )
                if not known:
                    self.history.append(Created(now, talk.owner, task["taskId"]))
        if body.get("resultType") == "task":
            self.history.append(Created(now, talk.owner, body["taskId"]))
        if task is not None and "createdAt" in task:
            pushed = isinstance(message, Notification)
            status, wire = task["status"], talk.dialect
            self.history.append(Saw(now, talk.owner, task["taskId"], status, wire, pushed))
            for key, request in task.get("inputRequests", {}).items():
                self.history.append(Posed(now, task["taskId"], key, json.dumps(request)))
        if seen.get("method") == "notifications/progress":
            related = body.get("_meta", {}).get(g1.RELATED_TASK, {})
            task_id = related.get("taskId", body["progressToken"])
            self.history.append(Progressed(now, talk.owner, task_id, talk.dialect))
        if "error" in seen and "not found" in seen["error"]["message"].lower():
            self.history.append(Missed(now, talk.owner, "?"))

    def pick(self, data: st.DataObject, talks: list[Talk]) -> Talk:
        return data.draw(st.sampled_from(sorted(talks, key=lambda talk: talk.name)))

    # --- rules: callers ----------------------------------------------------------------------

    @rule(data=st.data(), tool=st.sampled_from(["greet", "slow"]), token=st.booleans())
    def call(self, data: st.DataObject, tool: str, token: bool) -> None:
        talk, name = self.pick(data, self.talks), f"call-{next(self._names)}"
        call = Call("tools/call", tool, b"{}", name if token else None)
        self.started.add(name)
        outputs = talk.requestor.start(name, call, now=self.driver.now, ttl_ms=60_000)
        [create] = outputs
        assert isinstance(create, Send)
        self.creates[talk.name, create.stream] = name
        self.say(talk, outputs)
        if data.draw(st.booleans()):
            self.deliver_everything()

    @precondition(lambda self: any(talk.questions for talk in self.talks))
    @rule(data=st.data(), refuse=st.integers(0, 5))
    def answer(self, data: st.DataObject, refuse: int) -> None:
        talk = self.pick(data, [talk for talk in self.talks if talk.questions])
        question = talk.questions.pop(0)
        no = Reply(b'{"code":-1,"message":"User rejected"}', is_error=True)
        reply = no if refuse == 0 else ACCEPT
        self.say(
            talk, talk.requestor.answer(question.call, question.key, reply, now=self.driver.now)
        )

    @precondition(lambda self: self.started - self.finished.keys())
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.started - self.finished.keys())))
        if data.draw(st.integers(0, 4)):
            return  # most callers are patient
        for talk in self.talks:
            self.say(talk, talk.requestor.cancel(name, now=self.driver.now))

    @rule(ms=st.sampled_from([100, 1_000, 6_000]))
    def pass_time(self, ms: int) -> None:
        self.driver.now += ms
        for talk in self.talks:
            self.say(talk, talk.requestor.tick(self.driver.now))

    # --- rules: workers ----------------------------------------------------------------------

    @precondition(lambda self: self.live())
    @rule(
        data=st.data(),
        act=st.sampled_from(["ask", "ask", "ask", "report", "end", "stop", "requeue"]),
    )
    def work(self, data: st.DataObject, act: str) -> None:
        task = self.driver.tasks[data.draw(st.sampled_from(self.live()))]
        if task.state == "submitted":
            now = self.driver.now
            task = self.driver.move(task.id, lambda t: lifecycle.start(t, now, worker="w"))
        with contextlib.suppress(IllegalTransition):
            self.driver.move(task.id, getattr(self, f"_{act}")(data, task))
        self.collect()

    def live(self) -> list[str]:
        return sorted(task.id for task in self.driver.tasks.values() if not task.is_terminal)

    def _report(self, data: st.DataObject, task: Task) -> Act:
        progress, message = data.draw(strategies.progress), data.draw(st.none() | st.just("busy"))
        return lambda task: lifecycle.report(
            task, self.driver.now, progress=progress, message=message
        )

    def _ask(self, data: st.DataObject, task: Task) -> Act:
        keys = data.draw(st.sets(st.sampled_from("abcd"), min_size=1, max_size=2))
        params = [(key, b'{"message":"' + key.encode() + b'?"}') for key in sorted(keys)]
        questions = [Question(key, "elicitation/create", asks) for key, asks in params]
        return lambda task: lifecycle.ask(task, self.driver.now, questions)

    def _end(self, data: st.DataObject, task: Task) -> Act:
        outcome = data.draw(strategies.results() | strategies.errors)
        if outcome.result is None:
            return lambda task: lifecycle.fail(task, self.driver.now, outcome)
        return lambda task: lifecycle.complete(task, self.driver.now, outcome)

    def _stop(self, data: st.DataObject, task: Task) -> Act:
        return lambda task: lifecycle.withdraw(task, self.driver.now)

    def _requeue(self, data: st.DataObject, task: Task) -> Act:
        return lambda task: lifecycle.requeue(task, self.driver.now)

    # --- rules: onlookers --------------------------------------------------------------------

    @precondition(lambda self: self.driver.tasks)
    @rule(data=st.data())
    def look_through_every_wire(self, data: st.DataObject) -> None:
        """The same task, in every dialect that its owner speaks."""
        task_id = data.draw(st.sampled_from(sorted(self.driver.tasks)))
        for talk in self.talks:
            if talk.owner == self.driver.tasks[task_id].owner:
                self.look(talk, task_id)
        self.collect()

    def look(self, talk: Talk, task_id: str) -> None:
        shown = self.ask(talk, "tasks/get", task_id)
        task = shown["result"].get("task", shown["result"])
        outcome = None
        if task["status"] == "cancelled":
            outcome = "cancelled"
        elif task["status"] in ("completed", "failed"):
            if talk.dialect == g1.REVISION:
                task = self.ask(talk, "tasks/result", task_id)
                task.get("result", {}).get("_meta", {}).pop(g1.RELATED_TASK, None)
            body = json.dumps(task.get("result")).encode()
            has_failed = task.get("result") is None
            outcome = "failed" if has_failed else canonical(Outcome.of_result(body))
        look = Saw(self.driver.now, talk.owner, task_id, shown_status(shown), talk.dialect)
        self.history.append(attrs.evolve(look, outcome=outcome))

    def ask(self, talk: Talk, method: str, task_id: str) -> Any:
        """A request of somebody who only looks, in plain JSON."""
        id = f"look-{next(self._names)}"
        params = {"taskId": task_id, "_meta": META}
        answers = talk.connection.receive(Request(id, method, params))
        messages = [json.loads(encode_message(answer)) for answer in answers]
        return next(message for message in messages if message.get("id") == id)

    # --- rules: the wire ---------------------------------------------------------------------

    def hand_up(self, talk: Talk, index: int) -> None:
        talk.connection.receive(decode_message(talk.up.pop(index)))
        self.collect()

    @precondition(lambda self: any(talk.up or talk.down for talk in self.talks))
    @rule(data=st.data(), most=st.integers(1, 8))
    def deliver_some(self, data: st.DataObject, most: int) -> None:
        for _ in range(most):
            talks = [talk for talk in self.talks if talk.up or talk.down]
            if not talks:
                return
            talk = self.pick(data, talks)
            if talk.up:
                self.hand_up(talk, data.draw(st.integers(0, len(talk.up) - 1)))
            if talk.down:
                self.deliver_down(data, talk)

    def deliver_down(self, data: st.DataObject, talk: Talk) -> None:
        index = data.draw(st.integers(0, len(talk.down) - 1))
        message = decode_message(talk.down[index])
        fate = "arrives"
        if isinstance(message, Notification):
            fate = data.draw(st.sampled_from(["arrives", "is lost", "comes twice"]))
        if fate != "comes twice":
            del talk.down[index]
        if fate != "is lost":
            self.hear(talk, message)

    def hear(self, talk: Talk, message: Message) -> None:
        name = self.creates.get((talk.name, getattr(message, "id", None)), "")
        is_news = name in self.started - self.finished.keys()
        if is_news and isinstance(message, ResultResponse):
            task = message.result.get("task", message.result)
            self.tasks_of[name] = task["taskId"]
        self.say(talk, talk.requestor.receive(message, now=self.driver.now))

    @rule()
    def deliver_everything(self) -> None:
        while any(talk.up or talk.down for talk in self.talks):
            for talk in self.talks:
                while talk.up:
                    self.hand_up(talk, 0)
                while talk.down:
                    self.hear(talk, decode_message(talk.down.pop(0)))

    @rule(data=st.data())
    def disconnect(self, data: st.DataObject) -> None:
        talk = self.pick(data, self.talks)
        if data.draw(st.booleans()):
            return
        talk.up.clear()
        talk.down.clear()
        for id in [*talk.requests, None]:
            self.driver.handle(talk.connection, talk.connection.receiver.closed(id))
        talk.read = len(talk.connection.sent)  # whatever was sent went nowhere
        self.history = [
            event
            for event in self.history
            if not isinstance(event, Called) or event.call_id[0] != talk.name  # type: ignore[index]
        ]
        talk.requests.clear()
        self.driver.handle(talk.connection, talk.connection.receiver.opened())
        self.say(talk, talk.requestor.disconnected(now=self.driver.now))
        self.collect()

    # --- what must always hold ---------------------------------------------------------------

    @invariant()
    def nobody_is_asked_twice(self) -> None:
        assert all(times == 1 for times in self.asked.values()), self.asked

    @invariant()
    def every_request_is_answered_at_most_once(self) -> None:
        for talk in self.talks:
            assert all(times == 1 for times in talk.responses.values())

    def teardown(self) -> None:
        """Let it run out: no more faults, workers finish, callers answer, time passes."""
        for _ in range(300):
            self.collect()
            self.deliver_everything()
            if self.started == self.finished.keys():
                break
            for talk in self.talks:
                for question in talk.questions:
                    self.say(
                        talk,
                        talk.requestor.answer(
                            question.call, question.key, ACCEPT, now=self.driver.now
                        ),
                    )
                talk.questions.clear()
            for task in list(self.driver.tasks.values()):
                if not task.is_terminal and task.state != "input_required":
                    self.driver.move(task.id, self._done)
            self.driver.now += 1_000
            for talk in self.talks:
                self.say(talk, talk.requestor.tick(self.driver.now))
        assert self.started == self.finished.keys(), "every call ends"
        self.history.extend(step.entry for step in self.driver.steps)
        assert violations(self.history, self.lifecycles()) == []
        self.check_outcomes()

    def _done(self, task: Task) -> lifecycle.Step:
        return lifecycle.complete(task, self.driver.now, Outcome.of_result(b'{"content":[]}'))

    def lifecycles(self) -> Any:
        return LIFECYCLES

    def check_outcomes(self) -> None:
        """Each call that became a task was told the end of that task, on whatever wire."""
        for name, task_id in self.tasks_of.items():
            task = self.driver.tasks[task_id]
            assert canonical(self.finished[name]) == canonical(task.outcome), (name, task)
        for name in self.started - self.tasks_of.keys():  # the answer to its create was lost
            assert canonical(self.finished[name]) in ("failed", "cancelled")
