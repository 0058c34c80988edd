"""Exploration finds a fault that only a sequence of moves shows, and shrinks it."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from taskmachine.adapters.conformance.catalogue import load_checks
from taskmachine.adapters.conformance.discovery import discover
from taskmachine.adapters.conformance.exploration.exploring import Fault, explore
from taskmachine.adapters.conformance.exploration.replaying import Replay, replay
from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.judging import Verdict
from taskmachine.adapters.conformance.profile import Profile
from taskmachine.adapters.conformance.recorder import Recorder
from taskmachine.adapters.conformance.run import Options
from taskmachine.adapters.conformance.target import Target
from tests.conformance.broken_server import TOKENS, serving
from tests.conformance.planting import Bug, Head, Message
from tests.conformance.proxy.between import ErrorLog

OPTIONS = Options(examples=15, seed=3, only=frozenset({"2025-11-25:terminal-final", "alive"}))


class ConfusedByStrangers(Bug):
    """After a refusal it takes cancelled tasks for live ones, until it makes another."""

    is_confused = False

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        method = request and request["method"]
        self.is_confused |= "error" in message
        result = message.get("result", {})
        self.is_confused &= "task" not in result
        if self.is_confused and method == "tasks/get" and result.get("status") == "cancelled":
            return [{**message, "result": {**result, "status": "working"}}]
        return [message]


async def found(bug: Bug, errors: ErrorLog) -> tuple[Mapping[str, Fault], Verdict]:
    """What exploration alone finds, and what becomes of that when it is done again."""
    load_checks()
    async with serving(bug, errors) as url:
        target = Target(url, tokens=TOKENS)
        now = asyncio.get_running_loop().time
        harness = Harness(target, "2025-11-25", Recorder(lambda: now() * 1_000), seed=OPTIONS.seed)
        try:
            harness.profile = await discover(harness, Profile())
            faults = await explore(harness, OPTIONS, 60_000, lambda _: None)
        finally:
            await harness.close()
        verdict = Verdict.INCONCLUSIVE
        for id, fault in faults.items():
            again = Replay("2025-11-25", id, fault.moves, harness.profile.calls)
            verdict = (await replay(target, again, OPTIONS)).verdict
        return faults, verdict


@pytest.mark.slow
@pytest.mark.bugs
def test_a_fault_is_shrunk_and_can_be_replayed(tmp_path: Path) -> None:
    faults, verdict = asyncio.run(found(ConfusedByStrangers(), ErrorLog(tmp_path / "errors")))
    fault = next(iter(faults.values()))
    first, second = fault.moves
    assert first["do"] == "create"
    assert second["do"] in ("unknown", "cancel")
    assert verdict is Verdict.FAIL


def test_a_correct_server_gives_nothing_to_find(tmp_path: Path) -> None:
    faults, _ = asyncio.run(found(Bug(), ErrorLog(tmp_path / "errors")))
    assert faults == {}
