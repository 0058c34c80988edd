"""Whole calls on our own server, in both revisions and over both transports."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from taskmachine.adapters.client.connect import connect
from taskmachine.adapters.client.errors import CallFailed, Cancelled
from taskmachine.adapters.client.remote_task import Question
from tests.adapters.client.scripted import Json
from tests.ports import free_port
from tests.requirements import covers

COMMAND = str(Path(sys.executable).with_name("taskmachine"))
GENERATIONS = ["2025-11-25", "2026-07-28"]
TRANSPORTS = ["http", "stdio"]


@contextlib.asynccontextmanager
async def served(port: int, store: str) -> AsyncIterator[str]:
    """Run the reference server for the duration of the block."""
    arguments = ["serve", "--http", f"127.0.0.1:{port}", "--store", store, "--log-level", "warning"]
    process = await asyncio.create_subprocess_exec(
        COMMAND, *arguments, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(30):
            while b"serving" not in (line := await process.stderr.readline()):
                assert line, "the server did not start"
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        await process.communicate()


@contextlib.asynccontextmanager
async def a_server(transport: str, folder: Path) -> AsyncIterator[Any]:
    store = f"sqlite:{folder / 'tasks.db'}"
    if transport == "http":
        async with served(free_port(), store) as url:
            yield url
    else:
        yield [COMMAND, "serve", "--stdio", "--store", store, "--log-level", "error"]


async def confirm(question: Question) -> Json:
    if question.method == "sampling/createMessage":
        text = {"type": "text", "text": "The sea is wide."}
        return {"role": "assistant", "content": text, "model": "test"}
    assert question.message == "Deploy 1.4?"
    return question.accept(confirmed=True, stage="live")


def text_of(result: Json) -> str:
    return str(result["content"][0]["text"])


@covers(
    "2026-07-28:binding-delivers",
    "2026-07-28:fixed-shape-clients",
    "2026-07-28:stdio-process-outlives-task",
)
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("generation", GENERATIONS)
async def test_client_runs_whole_calls_against_our_server(
    transport: str, generation: str, tmp_path: Path
) -> None:
    async with (
        asyncio.timeout(60),
        a_server(transport, tmp_path) as target,
        connect(target, generation=generation, answer=confirm, sampling=True) as session,
    ):
        assert session.server.generation == generation
        assert {"greet", "count", "deploy"} <= {tool["name"] for tool in await session.tools()}

        plain = await session.call("greet", {"name": "Ada"})
        assert (plain.id, text_of(await plain.result())) == (None, "Hello, Ada!")

        counting = await session.call("count", {"to": 3, "pause_ms": 100})
        assert counting.id is not None
        updates = [update async for update in counting]
        assert updates[0].status == "working"
        assert updates[-1].status == "completed"
        assert "2 of 3" in [update.message for update in updates]
        if generation == "2025-11-25":
            assert (updates[-1].progress, updates[-1].total) == (3, 3)
        assert (await counting.result())["structuredContent"] == {"counted": 3}

        # Concurrently, to check that questions reach the right call.
        asking = [await session.call("deploy", {"version": "1.4"}) for _ in range(3)]
        for task in asking:
            assert text_of(await task.result()) == "1.4 is deployed to live."
        writing = await session.call("sample", {"topic": "the sea"})
        assert text_of(await writing.result()) == "The sea is wide."

        failing = await session.call("fail")
        assert (await failing.result())["isError"] is True
        crashing = await session.call("crash")
        with pytest.raises(CallFailed, match="Tool 'crash' failed") as caught:
            await crashing.result()
        assert caught.value.code == -32603

        first = await session.call("count", {"to": 9999}, key="k-1")
        second = await session.call("count", {"to": 9999}, key="k-1")
        assert first.id == second.id is not None
        await second.cancel()
        for task in (first, second):
            with pytest.raises(Cancelled):
                await task.result()


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_a_task_is_followed_across_a_crash_of_its_server(
    generation: str, tmp_path: Path
) -> None:
    port, store = free_port(), f"sqlite:{tmp_path / 'tasks.db'}"

    async with asyncio.timeout(60), contextlib.AsyncExitStack() as stack:
        async with served(port, store) as url:
            options: Any = {"generation": generation, "answer": confirm}
            session = await stack.enter_async_context(connect(url, **options))
            task = await session.call("count", {"to": 4, "pause_ms": 400})
            async for update in task:
                if update.message == "1 of 4":
                    break
        async with served(port, store):
            assert (await task.result())["structuredContent"] == {"counted": 4}
            again = await session.call("greet", {"name": "Ada"})
            assert text_of(await again.result()) == "Hello, Ada!"
            await stack.aclose()
