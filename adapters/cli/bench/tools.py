"""The tools of our server while it is measured.  Those of peers do the same."""

import asyncio
from collections import defaultdict
from typing import Final

from taskmachine.adapters.cli.bench.asking import HOLD, RELEASE, SIZED, TEXT, TOOL
from taskmachine.adapters.tools.registry import Tools

__all__ = ["TOOLS"]

TOOLS: Final = Tools()

_told: Final[defaultdict[str, asyncio.Event]] = defaultdict(asyncio.Event)
"""By key; whoever is first makes it."""


async def _done() -> str:
    return TEXT


async def _hold(key: str) -> str:
    await _told[key].wait()
    del _told[key]
    return TEXT


async def _release(key: str) -> str:
    _told[key].set()
    return TEXT


async def _sized(size: int) -> str:
    return "x" * size


TOOLS.task(name=TOOL)(_done)
TOOLS.task(name=HOLD)(_hold)
TOOLS.task(name=RELEASE, support="forbidden")(_release)
TOOLS.task(name=SIZED)(_sized)
