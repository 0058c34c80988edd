"""On SQLite a task is claimed in the commit that creates it, and nothing is lost by that."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from taskmachine.adapters.limits import Limits
from taskmachine.adapters.runtime import Runtime, open_runtime
from taskmachine.adapters.stores import Caps
from taskmachine.adapters.stores.sqlite_writer import Writer
from taskmachine.adapters.tools import Tools
from taskmachine.protocol.operations import Create
from taskmachine.statemachine import Call, Event, LimitExceeded, State


def greeting() -> Tools:
    tools = Tools()

    @tools.task()
    async def greet() -> str:
        return "hello"

    return tools


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The names of the operations in each transaction."""
    seen: list[list[str]] = []
    transact = Writer._transact

    def noted(self: Writer, batch: Any) -> Any:
        seen.append([operation.run.func.__name__ for operation in batch])
        return transact(self, batch)

    monkeypatch.setattr(Writer, "_transact", noted)
    return seen


def run(folder: Path, act: Callable[[Runtime], Awaitable[None]], limits: Limits) -> None:
    async def within() -> None:
        url = f"sqlite:{folder / 'tasks.db'}"
        async with open_runtime(url, greeting(), limits=limits) as runtime, asyncio.timeout(30):
            await act(runtime)

    asyncio.run(within())


def test_two_commits_are_enough_for_a_task(tmp_path: Path, batches: list[list[str]]) -> None:
    async def act(runtime: Runtime) -> None:
        task = await runtime.create("alice", Create(Call("tools/call", "greet")))
        assert task.state is State.SUBMITTED, "as it was created"
        task = await runtime.service.collect("alice", task.id)
        assert task.state is State.COMPLETED
        events = [entry.event for entry in await runtime.service.history("alice", task.id)]
        assert events == [Event.SUBMIT, Event.START, Event.COMPLETE]

    run(tmp_path, act, Limits())
    ours = [[name for name in batch if name in ("create", "commit")] for batch in batches]
    assert [names for names in ours if names] == [["create", "commit"], ["commit"]]


def test_a_task_that_was_refused_is_not_run(tmp_path: Path) -> None:
    async def act(runtime: Runtime) -> None:
        with pytest.raises(LimitExceeded):
            await runtime.create("alice", Create(Call("tools/call", "greet")))
        assert await runtime.service.store.browse(None, 10) == []

    run(tmp_path, act, Limits(caps=Caps(retained=0)))


def test_the_same_call_under_the_same_key_is_run_once(
    tmp_path: Path, batches: list[list[str]]
) -> None:
    async def act(runtime: Runtime) -> None:
        wish = Create(Call("tools/call", "greet", key="k"))
        both = await asyncio.gather(runtime.create("alice", wish), runtime.create("alice", wish))
        assert both[0].id == both[1].id
        await runtime.service.collect("alice", both[0].id)
        history = await runtime.service.history("alice", both[0].id)
        assert [entry.event for entry in history].count(Event.START) == 1

    run(tmp_path, act, Limits())
    assert sum(batch.count("create") for batch in batches) == 2
