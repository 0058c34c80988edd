"""Servers as child processes: start, crash and shutdown."""

import asyncio
import sys
import time
from pathlib import Path

import pytest

from taskmachine.adapters.client import stdio
from taskmachine.adapters.client.connect import connect
from taskmachine.adapters.client.errors import CallFailed, ConnectionLost, NoAnswer
from taskmachine.statemachine import ConfigurationError
from tests.adapters.client.scripted import DONE
from tests.adapters.memory_service import run
from tests.oracle import REPOSITORY
from tests.processes import assert_gone
from tests.requirements import covers


def server(what: str) -> list[str]:
    folder = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); "
    code = (
        "import runpy; runpy.run_module('tests.adapters.client.stdio_servers', run_name='__main__')"
    )
    return [sys.executable, "-c", folder + code, what]


@covers("2025-11-25:stdio-supported", "2026-07-28:stdio-fallback-any-error")
@pytest.mark.parametrize("what", ["done", "noisy"])
async def test_a_task_over_pipes(what: str) -> None:
    async with connect(server(what)) as session:
        assert session.server.generation == "2025-11-25"
        task = await session.call("work")
        assert task.id == "t-1"
        assert await task.result() == DONE


async def test_a_server_that_does_not_answer_a_probe_gets_the_handshake(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("taskmachine.adapters.client.handshake.PROBE_S", 0.3)

    async with connect(server("silent-probe")) as session:
        assert session.server.generation == "2025-11-25"
        assert await (await session.call("work")).result() == DONE


async def test_a_server_that_was_only_slow_to_start_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("taskmachine.adapters.client.handshake.PROBE_S", 0.5)

    async with connect(server("slow-to-start")) as session:
        assert session.server.generation == "2026-07-28"


async def test_a_server_that_never_answers_is_given_up() -> None:
    with pytest.raises(NoAnswer, match="no answer to initialize"):
        async with connect(server("deaf"), timeout=0.3):
            raise AssertionError("connected")


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("dying", "the server ended with status 7"),
        ("closing", "the server closed its output"),
        ("endless", "a line of more than 4194304 bytes"),
    ],
)
async def test_requests_to_a_dead_child_raise_connection_lost(
    what: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "PATIENCE_S", 0.3)

    async with connect(server(what), generation="2025-11-25") as session:
        task = await session.call("work")
        with pytest.raises(ConnectionLost, match=words):
            await task.result()
        with pytest.raises(ConnectionLost, match=words):
            await session.call("work")
        with pytest.raises(ConnectionLost, match=words):
            await session.tools()


async def test_an_answer_that_is_none_fails_its_call_only() -> None:
    async with connect(server("broken"), generation="2025-11-25") as session:
        for _ in range(2):
            task = await session.call("work")
            with pytest.raises(CallFailed, match="result must be an object"):
                await task.result()


@covers("2025-11-25:request-timeouts", "2025-11-25:tool-timeouts")
async def test_client_times_out_on_an_unanswered_request() -> None:
    async with connect(server("nothing"), generation="2025-11-25", timeout=3) as session:
        task = await session.call("work")
        with pytest.raises(CallFailed, match="the request timed out"):
            await task.result()


def test_client_kills_a_child_that_ignores_end_of_input_and_sigterm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stdio, "PATIENCE_S", 0.3)

    async def main() -> int:
        async with connect(server("immortal"), generation="2025-11-25") as session:
            result = await (await session.call("work")).result()
            began.append(time.monotonic())
        return int(result["content"][0]["text"])

    began: list[float] = []
    pid = run(main())
    assert time.monotonic() - began[0] < 5
    assert_gone(pid)


def test_nothing_that_a_server_started_is_left_behind() -> None:
    async def main() -> int:
        async with connect(server("orphaning"), generation="2025-11-25") as session:
            result = await (await session.call("work")).result()
        return int(result["content"][0]["text"])

    child = run(main())
    assert_gone(child)


@pytest.mark.parametrize("command", [["/does/not/exist"], ["\0"], []])
async def test_command_that_cannot_start_is_a_configuration_error(command: list[str]) -> None:
    with pytest.raises(ConfigurationError):
        async with connect(command):
            raise AssertionError("connected")


async def test_leaving_early_takes_the_server_along() -> None:
    async with asyncio.timeout(10):
        async with connect(server("done"), generation="2025-11-25") as session:
            task = await session.call("work")
        with pytest.raises(ConnectionLost, match="was closed"):
            await task.result()


async def test_a_command_that_cannot_start_says_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "shop.py").touch()
    for command, words in (
        ([f"{tmp_path}/shop.py", "--x"], f"did you mean 'python {tmp_path}/shop.py --x'?"),
        (["no-such-program"], "cannot start 'no-such-program': there is no such program"),
    ):
        with pytest.raises(ConfigurationError) as caught:
            async with connect(command):
                raise AssertionError("connected")
        assert words in str(caught.value)
