"""Callers of running servers, at random; the invariants hold on what they saw."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import seed, settings
from hypothesis.stateful import run_state_machine_as_test

from taskmachine.adapters.stores import open_store
from taskmachine.statemachine.invariants import Event, violations
from tests.adapters.stores.postgres_server import running
from tests.oracle import LIFECYCLES
from tests.seed import SEED
from tests.wire.machine import machine_on
from tests.wire.servers import serving

STEPS: Final = 30
"""Of one run, at most: longer ones find no more, but take longer to shrink."""

OUR_FAULT: Final = (
    "a follower of task",
    "a request failed",
    "failed to handle a message",
    "its tool run failed",
    "the store failed",
)
"""What a server says aside when something went wrong that no caller can do."""


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:{tmp_path / 'tasks.db'}"
        return
    with running() as database:
        yield database.new_url()


def test_the_servers_keep_their_promises(store: str, tmp_path: Path) -> None:
    profile = settings()
    # Each of them talks to real processes; and what differs between stores is known elsewhere.
    share = 5 if store.startswith("sqlite") else 10
    bounds = settings(
        profile,
        max_examples=profile.max_examples * 2 // share,
        stateful_step_count=min(profile.stateful_step_count, STEPS),
        database=None,
    )
    print(f"TASKMACHINE_SEED={SEED}")  # shown if it fails
    with serving(tmp_path, store) as servers:
        run_state_machine_as_test(seed(SEED)(machine_on(servers)), settings=bounds)
    assert asyncio.run(_judged(store)) == []
    for log in servers.logs:
        assert not [words for words in OUR_FAULT if words in log.text], log.text


async def _judged(url: str) -> list[str]:
    """What the store itself has written down: the invariants hold, and everything has ended."""
    store = await open_store(url)
    history: list[Event] = []
    live: list[str] = []
    try:
        async for task, entries in store.export():
            history += entries
            live += [] if task.is_terminal else [f"{task.id} is {task.state}"]
    finally:
        await store.close()
    assert history, "nothing was stored"
    found = violations(history, LIFECYCLES)
    return [*live, *(f"{v.invariant}: {v.subject} {v.why}" for v in found)]
