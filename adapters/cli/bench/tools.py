"""The tools of our server in the benchmark; the peers have the same ones."""

import asyncio
from collections import defaultdict
from typing import Final

from taskmachine.adapters.cli.bench.requester import HOLD, RELEASE, SIZED, TEXT, TOOL
from taskmachine.adapters.tools.registry import Tools

__all__ = ["TOOLS"]

TOOLS: Final = Tools()

_released: Final[defaultdict[str, asyncio.Event]] = defaultdict(asyncio.Event)
"""Keyed by task key; created by whichever call comes first."""


async def _done() -> str:
    return TEXT


async def _hold(key: str) -> str:
    await _released[key].wait()
    del _released[key]
    return TEXT


async def _release(key: str) -> str:
    _released[key].set()
    return TEXT


async def _sized(size: int) -> str:
    return "x" * size


TOOLS.task(name=TOOL)(_done)
TOOLS.task(name=HOLD)(_hold)
TOOLS.task(name=RELEASE, support="forbidden")(_release)
TOOLS.task(name=SIZED)(_sized)
