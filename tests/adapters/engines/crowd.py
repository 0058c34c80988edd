"""Callers whose tools block, and what fairness demands of the engine that runs them.

The oracle: an owner may start a tool while it holds less than three times as many places as are
free; a place stays free only if no owner that waits may take it.
"""

import asyncio
from collections import Counter
from typing import Any

import attrs

from taskmachine.adapters.runtime.runtime import Runtime
from taskmachine.adapters.tools.registry import Tools
from taskmachine.protocol.operations import Create
from taskmachine.statemachine import LimitExceeded, Task
from tests.adapters.memory_service import call

__all__ = ["Crowd"]


@attrs.define
class Crowd:
    """A tool that runs until the test ends it, and who runs and waits for this many places."""

    places: int
    tools: Tools = attrs.field(factory=Tools)
    starts: list[str] = attrs.field(factory=list)
    """The owner of each tool that was started."""
    running: list[tuple[str, asyncio.Event]] = attrs.field(factory=list)
    """The oldest comes first."""
    waiting: Counter[str] = attrs.field(factory=Counter)
    unfair: list[tuple[str, int]] = attrs.field(factory=list)
    """The owner of each tool that should not have been started, and its places."""
    is_open: bool = False
    """If true, tools end at once."""

    def __attrs_post_init__(self) -> None:
        @self.tools.task()
        async def hold(who: str) -> None:
            if not self.may_start(who):
                self.unfair.append((who, self.held[who]))
            self.starts.append(who)
            self.waiting[who] -= 1
            ended = asyncio.Event()
            self.running.append((who, ended))
            if self.is_open:
                self.end(-1)
            await ended.wait()

    @property
    def held(self) -> Counter[str]:
        return Counter(who for who, _ in self.running)

    def may_start(self, who: str) -> bool:
        return self.held[who] < 3 * (self.places - len(self.running))

    def is_settled(self) -> bool:
        return not any(self.may_start(who) for who in +self.waiting)

    async def create(self, runtime: Runtime, who: str, **more: Any) -> Task:
        self.waiting[who] += 1
        wish = Create(call("hold", b'{"who":"%s"}' % who.encode()), **more)
        try:
            return await runtime.create(who, wish)
        except LimitExceeded:
            self.waiting[who] -= 1
            raise

    async def flood(self, runtime: Runtime, who: str, number: int) -> None:
        await asyncio.gather(*(self.create(runtime, who) for _ in range(number)))

    def end(self, number: int = 0) -> None:
        """End one of the running tools, by default the oldest."""
        self.running.pop(number)[1].set()

    def end_all(self) -> None:
        """End all tools, also those that have not started."""
        self.is_open = True
        while self.running:
            self.end()
