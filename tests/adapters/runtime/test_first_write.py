"""A task whose tool can begin at once is claimed by the write that creates it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import Runtime, RuntimeConfig, open_runtime, start_runtime
from taskmachine.adapters.stores import Caps, StoreError
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.stores.sqlite.writer import Writer
from taskmachine.adapters.tools.registry import Tools
from taskmachine.protocol.operations import Create
from taskmachine.statemachine import Call, Entry, Event, LimitExceeded, State, Task


class Greeting:
    """A tool, and how many of it run."""

    def __init__(self) -> None:
        self.tools = Tools()
        self.running = self.most = self.begun = 0
        self.open = asyncio.Event()

        @self.tools.task()
        async def greet() -> str:
            self.begun += 1
            self.running += 1
            self.most = max(self.most, self.running)
            await self.open.wait()
            self.running -= 1
            return "hello"


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The names of the operations in each transaction that write tasks."""
    seen: list[list[str]] = []
    transact = Writer._transact

    def noted(self: Writer, batch: Any) -> Any:
        names = [operation.run.func.__name__ for operation in batch]
        seen.append([name for name in names if name in ("create", "commit")])
        return transact(self, batch)

    monkeypatch.setattr(Writer, "_transact", noted)
    return seen


Act = Callable[[Runtime, Greeting], Awaitable[None]]


def run(folder: Path, act: Act, limits: Limits | None = None) -> None:
    async def on(url: str) -> None:
        greeting = Greeting()
        async with open_runtime(
            url, greeting.tools, RuntimeConfig(limits=limits or Limits())
        ) as runtime:
            async with asyncio.timeout(30):
                await act(runtime, greeting)

    for url in ("memory:", f"sqlite:{folder / 'tasks.db'}"):
        asyncio.run(on(url))


def wish(key: str | None = None) -> Create:
    return Create(Call("tools/call", "greet", key=key))


def test_two_writes_are_enough_for_a_task(tmp_path: Path, batches: list[list[str]]) -> None:
    async def act(runtime: Runtime, greeting: Greeting) -> None:
        greeting.open.set()
        task = await runtime.create("alice", wish())
        assert (task.state, task.version) == (State.WORKING, 2)
        task = await runtime.service.collect("alice", task.id)
        assert task.state is State.COMPLETED
        events = [entry.event for entry in await runtime.service.history("alice", task.id)]
        assert events == [Event.SUBMIT, Event.START, Event.COMPLETE]

    run(tmp_path, act)
    assert [names for names in batches if names] == [["create"], ["commit"]]


def test_a_task_that_was_refused_is_not_run(tmp_path: Path) -> None:
    async def act(runtime: Runtime, greeting: Greeting) -> None:
        with pytest.raises(LimitExceeded):
            await runtime.create("alice", wish())
        assert await runtime.service.store.browse(None, 10) == []
        assert greeting.begun == 0

    run(tmp_path, act, Limits(caps=Caps(retained=0)))


def test_the_same_call_under_the_same_key_is_run_once(tmp_path: Path) -> None:
    async def act(runtime: Runtime, greeting: Greeting) -> None:
        greeting.open.set()
        both = await asyncio.gather(*(runtime.create("alice", wish("k")) for _ in range(2)))
        assert both[0].id == both[1].id
        await runtime.service.collect("alice", both[0].id)
        history = await runtime.service.history("alice", both[0].id)
        assert [entry.event for entry in history].count(Event.START) == 1
        assert greeting.most == 1

    run(tmp_path, act)


def test_those_that_are_being_stored_have_their_places(tmp_path: Path) -> None:
    async def act(runtime: Runtime, greeting: Greeting) -> None:
        tasks = await asyncio.gather(*(runtime.create("alice", wish()) for _ in range(5)))
        assert [task.state for task in tasks].count(State.WORKING) == 2
        greeting.open.set()
        for task in tasks:
            await runtime.service.collect("alice", task.id)
        assert greeting.most == 2

    run(tmp_path, act, Limits(concurrency=2))


def test_a_write_that_fails_runs_nothing_and_leaves_its_place_to_the_next() -> None:
    class Failing(MemoryStore):
        is_broken = True

        async def load(self, task_id: str) -> Task | None:
            if self.is_broken:
                raise StoreError("broken")
            return await super().load(task_id)

        async def create(self, task: Task, entries: Sequence[Entry], caps: Caps) -> Task:
            if self.is_broken:
                raise StoreError("broken")
            return await super().create(task, entries, caps)

    async def main() -> None:
        greeting, store = Greeting(), Failing(bytes(32))
        greeting.open.set()
        runtime = await start_runtime(
            store, greeting.tools, RuntimeConfig(limits=Limits(concurrency=1))
        )
        try:
            with pytest.raises(StoreError):
                await runtime.create("alice", wish())
            await asyncio.sleep(0)  # the tool run had its turn meanwhile
            store.is_broken = False
            task = await runtime.create("alice", wish())
            assert (await runtime.service.collect("alice", task.id)).state is State.COMPLETED
            assert greeting.begun == 1
        finally:
            await runtime.stop()

    asyncio.run(main())
