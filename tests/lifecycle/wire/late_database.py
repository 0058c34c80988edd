"""Delay answers of PostgreSQL in a server, as a busy machine or a network does.

So a version is read, but shown only after later ones were committed and notified.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final, TypeVar

from taskmachine.adapters.stores.postgresql.connections import Connections, Session

__all__ = ["delay_answers"]

SHARE: Final = 0.3
LATE_S: Final = 0.05

_T = TypeVar("_T")


def delay_answers() -> None:
    random, run = Random(0), Connections.run

    async def run_late(
        self: Connections, act: Callable[[Session], Awaitable[_T]], **more: Any
    ) -> _T:
        answer = await run(self, act, **more)
        if random.random() < SHARE:
            await asyncio.sleep(random.uniform(0, LATE_S))
        return answer

    Connections.run = run_late  # type: ignore[method-assign]
