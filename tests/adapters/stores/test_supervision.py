"""Background loops are begun again, and not for ever."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from taskmachine.adapters.runtime.testing.virtual_loop import VirtualLoop
from taskmachine.adapters.stores.supervision import run_periodically


def play(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = VirtualLoop(Random(0))
    try:
        loop.run(main())
    finally:
        loop.close()


def test_periodic_loop_waits_for_the_time_its_action_returns() -> None:
    times: list[float] = []

    async def act() -> float:
        times.append(asyncio.get_running_loop().time())
        return 10 * len(times)

    async def main() -> None:
        doing = asyncio.create_task(run_periodically("counting", act))
        await asyncio.sleep(65)
        doing.cancel()

    play(main)
    assert times == [0, 10, 30, 60]


def test_five_failures_in_a_minute_are_forgiven_and_the_sixth_ends_the_process() -> None:
    times: list[float] = []

    async def act() -> float:
        times.append(asyncio.get_running_loop().time())
        raise OSError("no disk")

    async def main() -> None:
        with pytest.raises(SystemExit, match="counting failed too often: no disk"):
            await run_periodically("counting", act)

    play(main)
    assert times == [0, 1, 3, 7, 15, 31]


def test_failures_that_are_long_ago_are_forgotten() -> None:
    calls = 0

    async def act() -> float:
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            raise OSError("no disk")
        return 10

    async def main() -> None:
        doing = asyncio.create_task(run_periodically("counting", act))
        await asyncio.sleep(1_000)
        assert not doing.done()
        doing.cancel()

    play(main)
    assert calls > 100
