"""Finished tasks that are run again, on virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import attrs
import pytest

from taskmachine.adapters.runtime.reruns import rerun
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.questions import form
from taskmachine.adapters.tools.registry import Tools
from taskmachine.protocol.caller import Caller
from taskmachine.protocol.errors import InvalidParams
from taskmachine.protocol.operations import Answer, Create
from taskmachine.statemachine import Reply, State
from tests.adapters.engines.test_local import run_virtually, started
from tests.adapters.memory_service import call

QUESTION = form("Name?", {"type": "object", "properties": {"name": {"type": "string"}}})
ADA = {"name": Reply(b'{"action":"accept","content":{"name":"Ada"}}')}
ALICE = Caller("alice", claims={"sub": "a"})


@pytest.fixture(autouse=True)
def runner() -> Callable[[Coroutine[Any, Any, None]], None]:
    return run_virtually


class Shop:
    """A tool that fails in its first task, after a step and an answer."""

    def __init__(self, version: str = "1") -> None:
        self.tools = Tools()
        self.steps: list[str] = []
        self.is_broken = True

        @self.tools.task(version=version)
        async def order(ctx: Context) -> str:
            number = await ctx.step("number", self.number)
            answer = await ctx.ask("name", QUESTION)
            if self.is_broken:
                raise OSError("no stock")
            return f"{number} for {answer.content['name']} of {ctx.claims}"

    async def number(self) -> str:
        self.steps.append("number")
        return f"order {len(self.steps)}"


@pytest.mark.parametrize("keep_steps", [False, True])
async def test_a_failed_task_runs_again_as_a_new_one(keep_steps: bool) -> None:
    shop = Shop()
    async with started(shop.tools) as (_, runtime):
        service = runtime.service
        wish = Create(attrs.evolve(call("order"), key="k"))
        old = await runtime.create("alice", wish, caller=ALICE)
        await asyncio.sleep(1)
        await service.perform("alice", Answer(old.id, ADA))
        old = await service.collect("alice", old.id)
        assert old.state is State.FAILED
        shop.is_broken = False
        shop.tools.add(attrs.evolve(shop.tools["order"], version="2"))

        new = await rerun(service, old, keep_steps=keep_steps)
        assert (new.rerun_of, new.owner, new.call.key) == (old.id, "alice", None)
        assert new.id != old.id
        await asyncio.sleep(1)
        asked = await service.get("alice", new.id)
        assert asked.is_waiting is not keep_steps
        if not keep_steps:
            await service.perform("alice", Answer(new.id, ADA))
        new = await service.collect("alice", new.id)
        number = "order 1" if keep_steps else "order 2"
        assert new.outcome is not None
        assert f"{number} for Ada of {{'sub': 'a'}}".encode() in (new.outcome.result or b"")
        assert await service.get("alice", old.id) == old, "the old one stays as it was"
        assert (await runtime.create("alice", wish)).id == old.id, "and keeps its key"


async def test_a_live_task_is_not_run_again() -> None:
    shop = Shop()
    async with started(shop.tools) as (world, runtime):
        task = await world.create(runtime, "order")
        with pytest.raises(InvalidParams, match="has not ended: cancel it"):
            await rerun(runtime.service, task)
        await runtime.service.cancel("alice", task.id)
        assert await rerun(runtime.service, await runtime.service.get("alice", task.id))
