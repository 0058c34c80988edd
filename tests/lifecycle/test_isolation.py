"""Hypothesis lets several owners in every dialect access foreign tasks.

Each response about a foreign task equals, byte for byte, the response about an unknown id.
"""

import asyncio
import json
import secrets
from typing import Any, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, rule, run_state_machine_as_test

from taskmachine.adapters.runtime.runtime import start_runtime
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.protocol.jsonrpc import encode_message
from taskmachine.protocol.receiver import Receiver
from tests.adapters.connections import DIALECTS, Connection, greeting_tools, quiet
from tests.lifecycle.planted_bugs import PLANTED, STORES, a_list_shows_tasks_of_all_owners

OWNERS: Final = ("alice", "bob", "carol")

ANSWER: Final = {"name": {"action": "accept", "content": {"name": "Eve"}}}
REQUESTS: Final[dict[str, list[tuple[str, dict[str, Any]]]]] = {
    "2025-11-25": [
        ("tasks/get", {}),
        ("tasks/result", {}),
        ("tasks/cancel", {}),
    ],
    "2026-07-28": [
        ("tasks/get", {}),
        ("tasks/cancel", {}),
        ("tasks/update", {"inputResponses": ANSWER}),
    ],
    "erlmcp": [
        ("tasks/get", {}),
        ("tasks/result", {}),
        ("tasks/cancel", {"reason": "mine"}),
        ("tasks/update", {"metadata": {"a": 1}}),
        ("tasks/update", {"status": "input_required"}),
        ("tasks/update", {"input": "Eve"}),
        ("tasks/update", {"inputResponses": ANSWER}),
    ],
}

owners = st.sampled_from(OWNERS)
dialects = st.sampled_from(sorted(DIALECTS))


class IsolationMachine(RuleBasedStateMachine):
    """Three owners, each in every dialect, on one runtime."""

    tasks = Bundle("tasks")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.runtime = self.runner.run(start_runtime(MemoryStore(b"s" * 32), greeting_tools()))
        self.lines = {
            (owner, dialect): Connection(self.runtime, dialect, owner)
            for owner in OWNERS
            for dialect in DIALECTS
        }
        for line in self.lines.values():
            self.runner.run(line.introduce())
        self.owners: dict[str, str] = {}

    def teardown(self) -> None:
        async def stop() -> None:
            for task_id, owner in self.owners.items():
                await self.runtime.service.cancel(owner, task_id)
            for line in self.lines.values():
                await line.conversation.close()
            await self.runtime.stop()

        self.runner.run(stop())
        self.runner.close()

    @rule(target=tasks, owner=owners, dialect=dialects, tool=st.sampled_from(["greet", "add"]))
    def create(self, owner: str, dialect: str, tool: str) -> str:
        arguments = {"a": 1, "b": 2} if tool == "add" else {}
        task_id = self.runner.run(self.lines[owner, dialect].create(tool, arguments))
        self.owners[task_id] = owner
        return task_id

    @rule(task_id=tasks, dialect=dialects)
    def cancel(self, task_id: str, dialect: str) -> None:
        """Cancel a task as its owner, in any dialect."""
        line = self.lines[self.owners[task_id], dialect]
        self.runner.run(line.ask("tasks/cancel", {"taskId": task_id}))

    @rule(task_id=tasks, intruder=owners, dialect=dialects, data=st.data())
    def intrude(self, task_id: str, intruder: str, dialect: str, data: st.DataObject) -> None:
        owner = self.owners[task_id]
        if owner == intruder:
            return
        line = self.lines[intruder, dialect]
        method, params = data.draw(st.sampled_from(REQUESTS[dialect]))
        before = self.runner.run(self.runtime.service.get(owner, task_id))
        unknown = secrets.token_urlsafe(24)
        foreign = self.runner.run(line.ask(method, {**params, "taskId": task_id}))
        missing = self.runner.run(line.ask(method, {**params, "taskId": unknown}))
        assert foreign == missing
        assert foreign, "no response was sent"
        assert self.runner.run(self.runtime.service.get(owner, task_id)) == before

    @rule(task_id=tasks, intruder=owners)
    def watch(self, task_id: str, intruder: str) -> None:
        if self.owners[task_id] == intruder:
            return
        line = self.lines[intruder, "2026-07-28"]
        responses = []
        for wanted in (task_id, secrets.token_urlsafe(24)):
            params = {"notifications": {"taskIds": [wanted]}}
            responses.append(self.runner.run(line.ask("subscriptions/listen", params, id="w")))
            line.conversation.handle(line.conversation.receiver.closed("w"))
            self.runner.run(quiet())
        assert responses[0] == responses[1]

    @rule(owner=owners, dialect=st.sampled_from(["2025-11-25", "erlmcp"]))
    def list_tasks(self, owner: str, dialect: str) -> None:
        result = self.runner.run(self.lines[owner, dialect].call("tasks/list", {}))["result"]
        shown = {task["taskId"] for task in result["tasks"]}
        assert shown <= {task_id for task_id, of in self.owners.items() if of == owner}

    @rule()
    def no_task_id_was_sent_to_another_owner(self) -> None:
        for (owner, _), line in self.lines.items():
            for send in line.sent:
                text = encode_message(send.message).decode()
                for task_id, of in self.owners.items():
                    assert of == owner or task_id not in text, json.loads(text)


TestIsolation = IsolationMachine.TestCase


def test_foreign_tasks_in_a_list_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    for store in STORES:
        monkeypatch.setattr(store, "page", store.page)  # restored afterwards
    monkeypatch.setattr(Receiver, "paged", Receiver.paged)
    a_list_shows_tasks_of_all_owners()
    with pytest.raises(AssertionError):
        run_state_machine_as_test(IsolationMachine, settings=PLANTED)
