"""The FastMCP example as a process, and the code of its page."""

import asyncio
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from taskmachine.adapters.client.connect import connect
from taskmachine.adapters.client.remote_task import Question
from tests.adapters.transports.wire import Caller, callers
from tests.oracle import REPOSITORY
from tests.ports import free_port

EXAMPLE: Final = REPOSITORY / "docs" / "examples" / "fastmcp_server.py"

BUSY_S: Final = 120.0
"""Importing FastMCP takes seconds, more on a busy machine."""


def run_processes(act: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(BUSY_S):
            await act()

    asyncio.run(main())


@asynccontextmanager
async def example(folder: Path, port: int) -> AsyncIterator[Process]:
    """Run the example over HTTP, and wait until it answers."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, str(EXAMPLE), "--http", str(port)),
        cwd=folder,
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=DEVNULL,
    )
    try:
        async with callers(f"http://127.0.0.1:{port}/mcp") as [caller]:
            await up(caller, program)
        yield program
    finally:
        if program.returncode is None:
            program.kill()
        await program.wait()


async def up(caller: Caller, program: Process) -> None:
    async with asyncio.timeout(BUSY_S):
        while True:
            assert program.returncode is None, "it ended"
            try:
                await caller.call("server/discover")
                return
            except httpx.TransportError:
                await asyncio.sleep(0.05)  # nothing signals that the port is open


def test_a_server_that_is_killed_and_restarted_completes_its_tasks(tmp_path: Path) -> None:
    """Our client survives the restart, and no question is asked twice."""
    port = free_port()
    asked: list[str] = []
    reached, resumed = asyncio.Event(), asyncio.Event()

    async def answer(question: Question) -> dict[str, Any]:
        asked.append(question.message)
        reached.set()
        await resumed.wait()
        return question.accept(sure=True)

    async def act() -> None:
        url = f"http://127.0.0.1:{port}/mcp"
        async with (
            example(tmp_path, port) as program,
            connect(url, answer=answer, generation="2026-07-28") as client,
        ):
            counting = await client.call("count", {"to": 15})
            deploying = await client.call("deploy", {"version": "1.2"})
            await reached.wait()
            program.send_signal(signal.SIGKILL)
            await program.wait()
            async with example(tmp_path, port) as successor:
                resumed.set()
                said = await deploying.result()
                assert said["structuredContent"] == {"result": "1.2 is live."}
                said = await counting.result()
                assert said["structuredContent"] == {"result": "counted to 15"}
                successor.send_signal(signal.SIGINT)
                assert await successor.wait() == 0, "SIGINT stops it"
        assert asked == ["Deploy 1.2?"]

    run_processes(act)


def test_the_example_serves_stdio(tmp_path: Path) -> None:
    async def answer(question: Question) -> dict[str, Any]:
        return question.decline()

    async def act() -> None:
        command = ["env", "-C", str(tmp_path), sys.executable, str(EXAMPLE)]
        async with connect(command, answer=answer, generation="2025-11-25") as session:
            plain = await session.call("greet", {"name": "Ada"})
            assert (await plain.result())["structuredContent"] == {"result": "Hello, Ada!"}
            assert plain.id is None
            task = await session.call("deploy", {"version": "2"})
            said = await task.result()
            assert task.id is not None
            assert said["structuredContent"] == {"result": "Nothing was deployed."}

    run_processes(act)


def test_the_page_is_executed(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "howto" / "fastmcp.md").read_text()
    example_text = page.split("```python\n")[1].split("```")[0]
    shown = page.split("```text\n")[1].split("```")[0]

    async def act() -> None:
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "ignore", "-c", example_text),
            cwd=tmp_path,
            stdout=PIPE,
            stderr=PIPE,
        )
        out, err = await program.communicate()
        assert out.decode() == shown, err.decode()

    run_processes(act)
