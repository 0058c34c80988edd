"""No owner keeps others waiting: shares, turns and caps, in counts of tools on every engine."""

import asyncio
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmachine.adapters.engines.local import LocalEngine
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import RuntimeConfig, Surroundings, open_runtime
from taskmachine.adapters.runtime.testing.contract import RuntimePlace
from taskmachine.adapters.runtime.testing.virtual_loop import VirtualLoop
from taskmachine.statemachine import LimitExceeded
from tests.adapters.engines.cluster import until
from tests.adapters.engines.crowd import Crowd
from tests.adapters.engines.places import alone, on_sqlite, with_worker
from tests.adapters.memory_service import Clock
from tests.adapters.stores.postgres_server import Server

PLACES = 64
SHARE = 48


@pytest.fixture(params=["local on SQLite", "local on PostgreSQL", "procrastinate"])
def place(request: pytest.FixtureRequest, tmp_path: Path, server: Server) -> RuntimePlace:
    if request.param == "local on SQLite":
        return on_sqlite(tmp_path, LocalEngine)()
    if request.param == "local on PostgreSQL":
        return alone(server.new_url(), LocalEngine)
    return with_worker(server)


@pytest.mark.parametrize("number", [70, 200])
async def test_a_call_starts_while_another_owner_floods(place: RuntimePlace, number: int) -> None:
    crowd = Crowd(PLACES)
    async with place(crowd.tools, Limits()) as runtime:
        await crowd.flood(runtime, "alice", number)
        await until(crowd.is_settled)
        await crowd.create(runtime, "bob")
        await until(lambda: "bob" in crowd.starts)
        assert crowd.held == {"alice": SHARE, "bob": 1}
        crowd.end_all()
        await until(lambda: len(crowd.starts) == number + 1)
    assert crowd.unfair == []


async def test_an_owner_at_its_cap_leaves_room_for_the_tasks_of_others(place: RuntimePlace) -> None:
    crowd = Crowd(PLACES)
    async with place(crowd.tools, Limits()) as runtime:
        await crowd.flood(runtime, "alice", 250)
        with pytest.raises(LimitExceeded, match="250 unfinished tasks of this caller"):
            await crowd.create(runtime, "alice")
        await crowd.create(runtime, "bob")
        await until(lambda: "bob" in crowd.starts)
        crowd.end_all()


async def test_owners_that_flood_share_the_places(place: RuntimePlace) -> None:
    crowd = Crowd(places=16)
    async with place(crowd.tools, Limits(concurrency=16)) as runtime:
        for who in ("alice", "bob", "carol"):  # the first has its whole share when others come
            await crowd.flood(runtime, who, 40)
            await until(crowd.is_settled)
        assert crowd.held == {"alice": 12, "bob": 3, "carol": 1}
        async with asyncio.timeout(20):  # polling alone would take a second for each
            for _ in range(32):
                crowd.end()
                await until(crowd.is_settled)
        assert min(crowd.held[who] for who in ("alice", "bob", "carol")) >= 4
        crowd.end_all()
        await until(lambda: len(crowd.starts) == 120)
    assert crowd.unfair == []


async def test_a_call_waits_for_one_tool_of_each_owner_that_floods(place: RuntimePlace) -> None:
    """With one place and one flood: for two tools, the running one and one of the next turn."""
    crowd = Crowd(places=1)
    floods = ("alice", "carol", "dan")
    async with place(crowd.tools, Limits(concurrency=1)) as runtime:
        for who in floods:
            await crowd.flood(runtime, who, 10)
        for _ in range(3):
            await until(crowd.is_settled)
            before = len(crowd.starts)
            await crowd.create(runtime, "bob")
            while "bob" not in crowd.starts[before:]:
                crowd.end()
                await until(crowd.is_settled)
            between = Counter(crowd.starts[before:-1])
            assert all(between[who] <= 1 for who in floods), between
        crowd.end_all()


# --- every order of calls and ends ---------------------------------------------------------------


@given(
    places=st.integers(1, 12),
    moves=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 12))  # an owner makes so many calls
        | st.tuples(st.none(), st.integers(0, 11)),  # one of the running tools ends
        max_size=40,
    ),
)
def test_shares_are_kept_no_place_is_wasted_and_every_tool_starts(
    places: int, moves: list[tuple[str | None, int]]
) -> None:
    crowd = Crowd(places)
    config = RuntimeConfig(limits=Limits(concurrency=places), world=Surroundings(clock=Clock()))

    async def main() -> None:
        async with open_runtime("memory:", crowd.tools, config) as runtime:
            for who, number in moves:
                if who is not None:
                    await crowd.flood(runtime, who, number)
                elif crowd.running:
                    crowd.end(number % len(crowd.running))
                await asyncio.sleep(0.1)
                assert len(crowd.running) <= places
                assert crowd.is_settled(), (crowd.held, crowd.waiting)
            crowd.end_all()
            await asyncio.sleep(0.1)
            assert not +crowd.waiting

    loop = VirtualLoop(Random(0))
    try:
        loop.run(main())
    finally:
        loop.close()
    assert crowd.unfair == []
