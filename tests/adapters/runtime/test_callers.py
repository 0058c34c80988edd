"""The caller in a tool, on every store: in tasks and plain calls, and nowhere else."""

import asyncio
import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest

from taskmachine.adapters.cli import operator_actions
from taskmachine.adapters.rendering.documents import task_document
from taskmachine.adapters.runtime.runtime import Runtime, open_runtime
from taskmachine.adapters.stores import open_store
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.tools.sync_context import SyncContext
from taskmachine.protocol.caller import Caller
from taskmachine.protocol.operations import Create
from taskmachine.statemachine import Outcome, State, Task, lifecycle
from tests.adapters.memory_service import call
from tests.adapters.stores.postgres_server import Server

SECRET = "not-for-the-database"
ALICE = Caller("alice", f"subject {SECRET}", {"team": SECRET}, frozenset({f"scope:{SECRET}"}))
BOB = Caller("bob", "b", {"team": "blue"}, frozenset({"read"}))


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        server: Server = request.getfixturevalue("server")
        return server.new_url()
    return "memory:" if request.param == "memory" else f"sqlite:{tmp_path / 'tasks.db'}"


class Seen:
    """Tools that record their callers."""

    def __init__(self) -> None:
        self.tools = Tools()
        self.callers: list[Caller] = []
        self.gate = asyncio.Event()
        self.began = asyncio.Event()

        @self.tools.task()
        async def greet(ctx: Context) -> str:
            assert ctx.caller == Caller(ctx.owner, ctx.caller.subject, ctx.claims, ctx.scopes)
            self.callers.append(ctx.caller)
            return "seen"

        @self.tools.task()
        def greet_in_a_thread(ctx: SyncContext) -> str:
            assert ctx.caller == Caller(ctx.owner, ctx.caller.subject, ctx.claims, ctx.scopes)
            self.callers.append(ctx.caller)
            return "seen"

        @self.tools.task()
        async def gated(ctx: Context) -> str:
            self.callers.append(ctx.caller)
            self.began.set()
            await self.gate.wait()
            return "through"


async def ended(runtime: Runtime, task: Task) -> Task:
    return await runtime.service.collect(task.owner, task.id, 20)


async def created(
    runtime: Runtime, caller: Caller, tool: str = "greet", key: str | None = None
) -> Task:
    return await runtime.create(caller.owner, Create(call(tool, key=key)), caller=caller)


@pytest.mark.parametrize("tool", ["greet", "greet_in_a_thread"])
async def test_a_task_and_a_plain_call_have_the_caller(url: str, tool: str) -> None:
    seen = Seen()
    async with open_runtime(url, seen.tools) as runtime:
        for caller in (ALICE, BOB, Caller("eve")):
            assert (await ended(runtime, await created(runtime, caller, tool))).outcome is not None
            outcome = await runtime.plain_calls.run(caller, seen.tools[tool], call(tool), {})
            assert isinstance(outcome, Outcome)
        without = await runtime.create("alice", Create(call(tool)))
        await ended(runtime, without)
    expected = [caller for caller in (ALICE, BOB, Caller("eve")) for _ in range(2)]
    assert seen.callers == [*expected, Caller("alice")]


async def test_the_next_run_has_the_caller_as_well(url: str) -> None:
    seen = Seen()
    async with open_runtime(url, seen.tools) as runtime:
        task = await created(runtime, ALICE, "gated")
        await seen.began.wait()

        def lose(task: Task, now: int) -> Any:
            return (lifecycle.requeue(task, now, lost=True, note="lost"),)

        await runtime.service.move(task.id, lose)
        seen.gate.set()
        assert (await ended(runtime, task)).state is State.COMPLETED
    assert seen.callers == [ALICE, ALICE]


async def test_a_new_token_under_the_same_key_is_the_same_task(url: str) -> None:
    seen = Seen()
    async with open_runtime(url, seen.tools) as runtime:
        first = await created(runtime, ALICE, key="k")
        renewed = attrs.evolve(ALICE, claims={"exp": 2}, scopes=frozenset({"more"}))
        assert (await created(runtime, renewed, key="k")).id == first.id
        await ended(runtime, first)
    assert seen.callers == [ALICE]


@pytest.mark.parametrize("change", ["another task's", "another owner's", "damaged"])
async def test_a_caller_that_cannot_be_decrypted_fails_the_task(
    url: str, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Seen()
    async with open_runtime(url, seen.tools) as runtime:
        other = await created(runtime, BOB if change == "another owner's" else ALICE)
        assert other.call.caller is not None
        sealed = b"x" * 40 if change == "damaged" else other.call.caller
        await ended(runtime, other)
        seen.callers.clear()
        task = await runtime.create("alice", Create(attrs.evolve(call(), caller=sealed)))
        task = await ended(runtime, task)
        assert task.outcome is not None
        assert (task.state, task.outcome.message) == (
            State.FAILED,
            "Tool 'greet' cannot run: the claims of its caller cannot be decrypted: they belong to"
            " another task or store",
        )
    assert seen.callers == []
    assert f"task {task.id} cannot run" in caplog.text


async def test_no_view_shows_more_than_the_owner(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    seen = Seen()
    async with open_runtime(url, seen.tools) as runtime:
        task = await ended(runtime, await created(runtime, ALICE))
        history = await runtime.service.history("alice", task.id)
        assert task.call.caller is not None
        for shown in (str(task_document(task)), repr(task), repr(history), caplog.text):
            assert SECRET not in shown
            assert task.call.caller.hex() not in shown
            assert repr(task.call.caller) not in shown


def test_a_file_does_not_contain_a_claim(tmp_path: Path) -> None:
    path, seen = tmp_path / "tasks.db", Seen()

    async def main() -> None:
        async with open_runtime(f"sqlite:{path}", seen.tools) as runtime:
            await ended(runtime, await created(runtime, ALICE))

    asyncio.run(main())
    with closing(sqlite3.connect(path)) as connection:
        dump = "\n".join(connection.iterdump())
    assert SECRET not in dump
    assert SECRET.encode().hex() not in dump.lower()
    assert all(SECRET.encode() not in file.read_bytes() for file in tmp_path.iterdir())


async def test_a_migrated_task_keeps_its_caller(url: str, tmp_path: Path) -> None:
    if url == "memory:":
        pytest.skip("a store in memory cannot be migrated")
    seen, stopped = Seen(), Seen()
    async with open_runtime(url, stopped.tools) as runtime:
        task = await created(runtime, ALICE, "gated")
        await stopped.began.wait()
        await runtime.stop(grace_s=0)
    source = await open_store(url)
    target = f"sqlite:{tmp_path / 'other.db'}"
    try:
        assert await operator_actions.migrate(source, target) == 1
    finally:
        await source.close()
    seen.gate.set()
    async with open_runtime(target, seen.tools) as runtime:
        assert (await ended(runtime, task)).state is State.COMPLETED
    assert seen.callers == [ALICE]
