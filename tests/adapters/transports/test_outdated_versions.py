"""Versions that reach a conversation out of order, as from a database that other processes use.

A read returns after a later version was notified, or a notification after a later version was read.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from taskmachine.adapters.runtime.runtime import Runtime, RuntimeConfig, start_runtime
from taskmachine.adapters.stores import Caps
from taskmachine.adapters.stores.followers import Followers
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.questions import form
from taskmachine.adapters.tools.registry import Tools
from taskmachine.protocol.jsonrpc import encode_message
from taskmachine.protocol.operations import Answer
from taskmachine.statemachine import Entry, Reply, Task
from tests.adapters.connections import NAME_FORM, Connection, greeting_tools, quiet


class LateFollowers(Followers):
    """Followers that get their notifications late while `late` is a list of them."""

    def __init__(self) -> None:
        super().__init__()
        self.late: list[tuple[str, Task | None]] | None = None

    def notify(self, task_id: str, task: Task | None) -> None:
        if self.late is None:
            super().notify(task_id, task)
        else:
            self.late.append((task_id, task))


class LateStore(MemoryStore):
    """A memory store that can delay the result of a read, or notifications."""

    def __init__(self) -> None:
        super().__init__(b"s" * 32)
        self._followers = self._late_followers = LateFollowers()
        self._reads_until_delay: int | None = None
        self._released = asyncio.Event()

    def delay_read(self, *, after: int = 0) -> None:
        """Delay the result of one read, after so many others."""
        self._reads_until_delay = after

    async def release_read(self) -> None:
        assert self._reads_until_delay is None, "no read was delayed"
        self._released.set()
        await quiet()

    def delay_notifications(self) -> None:
        self._late_followers.late = []

    def notify_delayed(self) -> None:
        late, self._late_followers.late = self._late_followers.late, None
        assert late, "no notification was delayed"
        for task_id, task in late:
            self._followers.notify(task_id, task)

    async def _delay(self) -> None:
        if self._reads_until_delay == 0:
            self._reads_until_delay = None
            await self._released.wait()
        elif self._reads_until_delay is not None:
            self._reads_until_delay -= 1

    async def load(self, task_id: str) -> Task | None:
        task = await super().load(task_id)
        await self._delay()
        return task

    async def create(self, task: Task, entries: Sequence[Entry], caps: Caps) -> Task:
        stored = await super().create(task, entries, caps)
        await self._delay()
        return stored


NAME = form("Who are you?", NAME_FORM)


def asking_tools(go: asyncio.Event) -> Tools:
    """`ask_both` asks two questions together; `ask_more` reports and asks the second at `go`."""
    tools = greeting_tools()

    @tools.task()
    async def ask_both(ctx: Context) -> None:
        await ctx.ask_all({"name": NAME, "other": NAME})

    @tools.task()
    async def ask_more(ctx: Context) -> None:
        async def ask_later() -> None:
            await go.wait()
            await ctx.status("one more")
            await ctx.ask("other", NAME)

        await asyncio.gather(ctx.ask("name", NAME), ask_later())

    return tools


class Served:
    """A connection to a runtime on such a store."""

    def __init__(self, runtime: Runtime, store: LateStore, dialect: str, go: asyncio.Event) -> None:
        self.runtime = runtime
        self.store = store
        self.go = go
        self.line = Connection(runtime, dialect, "alice")
        """Closed with the runtime; a test may replace it."""

    def messages(self, method: str) -> list[dict[str, Any]]:
        sent = (json.loads(encode_message(send.message)) for send in self.line.sent)
        return [message for message in sent if message.get("method") == method]

    def notified_ends(self) -> list[str]:
        notices = self.messages("notifications/tasks/status")
        notices += self.messages("notifications/tasks")
        statuses = [notice["params"]["status"] for notice in notices]
        return [status for status in statuses if status == "cancelled"]

    async def answer(self, task_id: str) -> None:
        """Answer one question on another connection."""
        reply = Reply(b'{"action": "accept", "content": {"name": "Ada"}}')
        await self.runtime.service.perform("alice", Answer(task_id, {"name": reply}))

    async def cancel(self, task_id: str) -> None:
        """Cancel a task on another connection."""
        await self.runtime.service.cancel("alice", task_id)


@asynccontextmanager
async def served(dialect: str) -> AsyncIterator[Served]:
    store, go = LateStore(), asyncio.Event()
    runtime = await start_runtime(store, asking_tools(go), RuntimeConfig())
    served = Served(runtime, store, dialect, go)
    await served.line.introduce()
    try:
        yield served
    finally:
        for task in (await runtime.service.page("alice", None, 200)).tasks:
            await runtime.service.cancel("alice", task.id)
        await served.line.conversation.close()
        await runtime.stop()


# The first read of `tasks/result` is that of the request, the second that of its follower.
@pytest.mark.parametrize("undelayed", [0, 1])
async def test_a_question_is_not_repeated_if_its_answer_overtakes_a_read(undelayed: int) -> None:
    async with served("2025-11-25") as at:
        task_id = await at.line.create("ask_both", {})
        at.store.delay_read(after=undelayed)
        await at.line.ask("tasks/result", {"taskId": task_id})
        await at.answer(task_id)
        await at.store.release_read()
        asked = [question["id"] for question in at.messages("elicitation/create")]
        withdrawn = [gone["params"]["requestId"] for gone in at.messages("notifications/cancelled")]
        # Before the read: only the open one; after it: both, and the answered one is withdrawn.
        assert len(asked) == 1 + undelayed
        assert withdrawn == asked[:undelayed]


@pytest.mark.parametrize("is_followed", [True, False])
async def test_a_question_is_not_repeated_if_it_overtakes_a_notification(is_followed: bool) -> None:
    async with served("2025-11-25") as at:
        task_id = await at.line.create("ask_more", {})
        if not is_followed:
            at.line = Connection(at.runtime, "2025-11-25", "alice")
            await at.line.introduce()
        at.store.delay_notifications()
        at.go.set()
        await quiet()
        at.store.delay_read(after=1)
        await at.line.ask("tasks/result", {"taskId": task_id})
        at.store.notify_delayed()
        await at.store.release_read()
        assert len(at.messages("elicitation/create")) == 2
        assert at.messages("notifications/cancelled") == []


async def test_an_end_is_notified_once_if_it_overtakes_a_read_of_tasks_result() -> None:
    async with served("2025-11-25") as at:
        task_id = await at.line.create("hang", {})
        at.store.delay_read()
        await at.line.ask("tasks/result", {"taskId": task_id}, id="result")
        await at.cancel(task_id)
        await at.store.release_read()
        assert at.notified_ends() == ["cancelled"]
        assert [send for send in at.line.sent if getattr(send.message, "id", None) == "result"]


async def test_an_end_is_notified_once_if_it_overtakes_a_repeated_create() -> None:
    async with served("2025-11-25") as at:
        call = {"name": "hang", "task": {}, "_meta": {"taskmachine/idempotency-key": "k"}}
        created = (await at.line.call("tools/call", call))["result"]["task"]
        at.store.delay_read()
        await at.line.ask("tools/call", call, id="again")
        await at.cancel(created["taskId"])
        await at.store.release_read()
        assert at.notified_ends() == ["cancelled"]


async def test_a_watch_reports_an_end_that_overtakes_its_read() -> None:
    async with served("2026-07-28") as at:
        task_id = await at.line.create("hang", {})
        at.store.delay_read(after=1)  # of its two reads the first checks the owner
        await at.line.ask("subscriptions/listen", {"notifications": {"taskIds": [task_id]}})
        await at.cancel(task_id)
        await at.store.release_read()
        assert at.notified_ends() == ["cancelled"]
