"""A service on a memory store, with a manual clock and predictable ids."""

import asyncio
from collections.abc import Coroutine
from itertools import count
from typing import Any, TypeVar

import attrs

from taskmachine.adapters.runtime.claims import Claim, claim
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.stores import Store
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.protocol.sealing import Sealer
from taskmachine.statemachine import Call, Outcome, Question, Task

T = TypeVar("T")

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
DONE = Outcome.of_result(b'{"content":[]}')
FORM = Question(
    "name", "elicitation/create", b'{"mode":"form","message":"Name?","requestedSchema":{}}'
)


def call(name: str = "greet", arguments: bytes = b"{}", key: str | None = None) -> Call:
    return Call("tools/call", name, arguments, answers=frozenset({"elicitation/create"}), key=key)


@attrs.define
class Clock:
    now: int = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


class MemoryService:
    """A task service, its memory store and its manual clock."""

    def __init__(self, limits: Limits | None = None, store: Store | None = None) -> None:
        self.clock = Clock()
        self.store = store or MemoryStore(b"s" * 32)
        numbers = count(1)
        self.service = TaskService(
            self.store,
            Sealer(b"s" * 32),
            clock=self.clock,
            new_id=lambda: f"task-{next(numbers)}",
            limits=limits,
        )

    async def create(self, owner: str = "alice", **more: Any) -> Task:
        return await self.service.create(owner, call(), **more)

    async def claim(self, task_id: str, worker: str = "w1") -> Claim:
        held = await claim(self.service, task_id, worker)
        assert held is not None
        return held

    async def ended(self, owner: str = "alice", **more: Any) -> Task:
        task = await self.create(owner, **more)
        await (await self.claim(task.id)).settle(DONE)
        return await self.service.get(owner, task.id)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and assert that it leaves no asyncio task."""

    async def main() -> T:
        result = await coroutine
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left
        return result

    return asyncio.run(main())
