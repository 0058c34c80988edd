"""Tasks that start later, and tasks that began under another version of their tool."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import attrs
import pytest

from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.questions import form
from taskmachine.adapters.tools.registry import Tools
from taskmachine.protocol.errors import InvalidParams
from taskmachine.protocol.operations import Answer, Create
from taskmachine.statemachine import ConfigurationError, Reply, State, Task
from tests.adapters.engines.test_local import run_virtually, started
from tests.adapters.memory_service import HOUR, call

QUESTION = form("Name?", {"type": "object", "properties": {"name": {"type": "string"}}})
ADA = {"name": Reply(b'{"action":"accept","content":{"name":"Ada"}}')}
PARKED = 50


@pytest.fixture(autouse=True)
def runner() -> Callable[[Coroutine[Any, Any, None]], None]:
    return run_virtually


async def test_a_task_starts_within_a_second_of_the_time_that_its_caller_chose() -> None:
    tools = Tools()
    starts: list[float] = []

    @tools.task()
    async def work() -> None:
        starts.append(asyncio.get_running_loop().time())

    async with started(tools) as (world, runtime):
        later = attrs.evolve(call("work"), not_before=world.clock.now + 30_000)
        task = await runtime.create("alice", Create(later))
        at_once = await world.create(runtime, "work")
        await runtime.service.collect("alice", at_once.id)
        assert len(starts) == 1
        assert (await runtime.service.get("alice", task.id)).state is State.SUBMITTED
        world.clock.now += 29_999
        await asyncio.sleep(2)
        assert len(starts) == 1
        due = asyncio.get_running_loop().time()
        world.clock.now += 1
        assert (await runtime.service.collect("alice", task.id)).state is State.COMPLETED
        assert due <= starts[1] < due + 1


async def test_a_task_cannot_start_after_its_ttl() -> None:
    tools = Tools()
    tools.add(lambda: None, "work")
    async with started(tools) as (world, runtime):
        for ttl_ms in (None, 1_000):
            ends = world.clock.now + (ttl_ms or HOUR)
            await runtime.create("alice", Create(attrs.evolve(call("work"), not_before=ends)))
            late = attrs.evolve(call("work"), not_before=ends + 1)
            with pytest.raises(InvalidParams, match="may start after its ttl of"):
                await runtime.create("alice", Create(late, ttl_ms))


# --- versions --------------------------------------------------------------------------------


def shop(*versions: tuple[str, list[str]]) -> Tools:
    """Tools with these versions of one tool, each with the versions that it accepts."""
    tools = Tools()

    def add(version: str, accepts: list[str]) -> None:
        @tools.task("greet", version=version, accepts=accepts, parks=True)
        async def greet(ctx: Context) -> str:
            answer = await ctx.ask("name", QUESTION)
            return f"{answer.content['name']} by {version}"

    for version, accepts in versions:
        add(version, accepts)
    return tools


async def deployed(old: Tools, new: Tools, check: Callable[[Task], None]) -> None:
    """Park tasks under old tools, and answer them under new ones."""
    store = MemoryStore(b"s" * 32)
    async with started(old, store=store) as (world, runtime):
        made = [await world.create(runtime, "greet") for _ in range(PARKED)]
        await asyncio.sleep(5)
    async with started(new, store=store) as (_, runtime):
        for task in made:
            assert (await runtime.service.get("alice", task.id)).worker is None
            await runtime.service.perform("alice", Answer(task.id, ADA))
            check(await runtime.service.collect("alice", task.id))


def says(text: bytes) -> Callable[[Task], None]:
    def check(task: Task) -> None:
        assert task.outcome is not None
        assert text in (task.outcome.result or (task.outcome.message or "").encode())

    return check


async def test_a_task_continues_under_its_own_version() -> None:
    new = shop(("1", []), ("2", []))
    await deployed(shop(("1", [])), new, says(b"Ada by 1"))
    assert new["greet"].version == "2"


async def test_a_version_continues_tasks_of_versions_that_it_accepts() -> None:
    await deployed(shop(("1", [])), shop(("3", ["1", "2"])), says(b"Ada by 3"))


async def test_a_task_of_a_version_that_is_gone_fails_and_says_so() -> None:
    said = (
        b"Tool 'greet' cannot run: the task began under version '1' of the tool, and the worker has"
        b" version '2'"
    )
    await deployed(shop(("1", [])), shop(("2", [])), says(said))


def test_a_version_is_registered_once() -> None:
    with pytest.raises(ConfigurationError, match="'greet' is already registered in version '2'"):
        shop(("2", []), ("2", []))
    for version in ("", "x" * 65, 2):
        with pytest.raises(ConfigurationError, match="must be a text of 1 to 64 characters"):
            Tools().add(lambda: None, "work", version=version)  # type: ignore[arg-type]
