"""Callers of running servers, at random; the ten invariants hold on what they saw."""

import asyncio
import re
from pathlib import Path
from typing import Final

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from taskmachine.adapters.stores import open_store
from taskmachine.statemachine.invariants import Event, violations
from tests.oracle import LIFECYCLES
from tests.wire.machine import machine_on
from tests.wire.servers import serving

QUICK: Final = 30
"""Runs where the profile wants a hundred; each talks to real processes."""


def test_the_servers_keep_their_promises(tmp_path: Path) -> None:
    profile = settings()
    runs = min(profile.max_examples, QUICK) if profile.max_examples <= 100 else 1_000
    steps = min(profile.stateful_step_count, 30)
    with serving(tmp_path) as servers:
        run_state_machine_as_test(
            machine_on(servers),
            settings=settings(profile, max_examples=runs, stateful_step_count=steps),
        )
    wrong = asyncio.run(_judged(servers.url))
    assert wrong == []
    for log in servers.logs:
        assert not re.search("could not be|failed|request failed", _unexpected(log.text)), log.text


async def _judged(url: str) -> list[str]:
    """What the store itself has written down."""
    store = await open_store(url)
    history: list[Event] = []
    try:
        async for _, entries in store.export():
            history += entries
    finally:
        await store.close()
    assert history, "nothing was stored"
    return [f"{v.invariant}: {v.subject} {v.why}" for v in violations(history, LIFECYCLES)]


def _unexpected(log: str) -> str:
    """Without what the tools do on purpose."""
    return log
