"""What each tool is good for is found out by calling it, and never more than that needs."""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from taskmachine.adapters.conformance.discovery import discover, list_tools
from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.profile import Profile, Role, ToolCall
from taskmachine.adapters.conformance.recorder import Recorder
from taskmachine.adapters.conformance.target import Target

SMALL_TARGET = Path(__file__).with_name("small_target.py")


def found(log: Path, given: Profile | None = None, **options: Any) -> Profile:
    """What discovery finds on the small target; `log` gets the calls."""

    async def look() -> Profile:
        target = Target(command=[sys.executable, "-I", "-S", str(SMALL_TARGET), str(log)])
        harness = Harness(target, "2025-11-25", Recorder(lambda: time.monotonic() * 1_000))
        try:
            return await discover(harness, given or Profile(), **options)
        finally:
            await harness.close()

    return asyncio.run(asyncio.wait_for(look(), 60))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "calls"


def calls(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def names(log: Path) -> set[str]:
    return {call["name"] for call in calls(log)}


def test_each_role_is_found(log: Path) -> None:
    profile = found(log)
    what = {role: (call.name, dict(call.arguments)) for role, call in profile.calls.items()}
    assert what[Role.COMPLETES] == ("wait", {"delay_ms": 1})
    assert what[Role.SLOW] == ("wait", {"delay_ms": 3_000})
    assert what[Role.FAILS] == ("light", {"on": False})
    assert what[Role.ASKS] == ("light", {"on": True}), "though it does not say which task asks"
    assert what[Role.REQUIRED][0] == "wait"
    assert what[Role.PLAIN] == ("read", {})
    assert (profile.calls[Role.SLOW].takes_ms or 0) > 2_000


def test_discovery_never_calls_destructive_tools_by_default(log: Path) -> None:
    found(log)
    assert "drop" not in names(log)


def test_discovery_calls_destructive_tools_if_allowed(log: Path) -> None:
    found(log, allow_destructive=True)
    assert "drop" in names(log)


def test_plain_tools_are_called_until_one_answers_and_readers_first(log: Path) -> None:
    found(log)
    plain = [call["name"] for call in calls(log) if "task" not in call]
    assert plain == ["read"]


def test_discovery_tries_only_the_wanted_call(log: Path) -> None:
    wanted = ToolCall("wait", {"delay_ms": 40})
    profile = found(log, wanted=[wanted])
    assert profile.calls[Role.COMPLETES].arguments == wanted.arguments
    assert [call["arguments"] for call in calls(log)] == [wanted.arguments]


def test_discovery_keeps_a_given_tool_call(log: Path) -> None:
    own = ToolCall("wait", {"delay_ms": 7})
    profile = found(log, Profile({Role.COMPLETES: own}))
    assert profile.calls[Role.COMPLETES] == own


def test_all_pages_are_read(log: Path) -> None:
    async def look() -> list[str]:
        target = Target(command=[sys.executable, "-I", "-S", str(SMALL_TARGET), str(log)])
        harness = Harness(target, "2025-11-25", Recorder(lambda: time.monotonic() * 1_000))
        try:
            return [tool["name"] for tool in await list_tools(await harness.caller())]
        finally:
            await harness.close()

    names = asyncio.run(asyncio.wait_for(look(), 60))
    assert names == [
        "drop", "write", "write more", "read", "read wrongly", "light", "wait",
    ]  # fmt: skip
