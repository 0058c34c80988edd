"""The lifespan of the tools: around all their runs, in every kind of runtime."""

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from taskmachine.adapters.engines.local import LocalEngine
from taskmachine.adapters.engines.procrastinate.opening import for_replicas, for_workers
from taskmachine.adapters.runtime.runtime import RuntimeConfig, open_runtime, start_runtime
from taskmachine.adapters.runtime.testing.virtual_loop import VirtualLoop
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.errors import LifespanFailed
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.tools.sync_context import SyncContext
from taskmachine.protocol.caller import Caller
from taskmachine.protocol.operations import Create
from taskmachine.statemachine import ConfigurationError, Outcome, Task
from tests.adapters.memory_service import call
from tests.adapters.stores.postgres_server import Server
from tests.site.pages import example_of

COMMAND: Final = str(Path(sys.executable).with_name("taskmachine"))
PATIENCE_S: Final = 20.0


class Pool:
    """Records what happens to it and to the tools that use it."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.tools = Tools(lifespan=self.lifespan)
        self.began = asyncio.Event()
        self.gate = asyncio.Event()

        @self.tools.task()
        async def query(ctx: Context) -> str:
            assert ctx.lifespan is self
            self.events.append("query")
            return "rows"

        @self.tools.task()
        def query_in_a_thread(ctx: SyncContext) -> str:
            assert ctx.lifespan is self
            self.events.append("query")
            return "rows"

        @self.tools.task()
        async def long(ctx: Context) -> None:
            try:
                self.began.set()
                await self.gate.wait()
            finally:
                await asyncio.sleep(0.01)
                self.events.append("cleaned up")

    @asynccontextmanager
    async def lifespan(self, tools: Tools) -> AsyncIterator["Pool"]:
        assert tools is self.tools
        await asyncio.sleep(0)
        self.events.append("opened")
        async with asyncio.TaskGroup():  # must be left by the asyncio task that entered it
            yield self
            await asyncio.sleep(0)
        self.events.append("closed")


def text(task: Task) -> str:
    assert task.outcome is not None
    return f"{task.outcome.message} {task.outcome.result!r}"


@pytest.mark.parametrize("tool", ["query", "query_in_a_thread"])
async def test_it_is_entered_once_before_and_left_once_after_the_tools(tool: str) -> None:
    pool = Pool()
    async with open_runtime("memory:", pool.tools) as runtime:
        assert pool.events == ["opened"]
        for _ in range(2):
            task = await runtime.create("alice", Create(call(tool)))
            assert "rows" in text(await runtime.service.collect("alice", task.id, PATIENCE_S))
        outcome = await runtime.plain_calls.run(Caller("a"), pool.tools[tool], call(tool), {})
        assert isinstance(outcome, Outcome)
        assert b"rows" in (outcome.result or b"")
    assert pool.events == ["opened", "query", "query", "query", "closed"]


@pytest.mark.parametrize("is_task", [True, False])
async def test_it_is_left_after_stopped_tools_have_cleaned_up(is_task: bool) -> None:
    pool = Pool()
    runtime = await start_runtime(MemoryStore(b"s" * 32), pool.tools)
    if is_task:
        await runtime.create("alice", Create(call("long")))
        await pool.began.wait()
        stop = asyncio.create_task(runtime.stop(grace_s=0))
    else:
        running = asyncio.create_task(
            runtime.plain_calls.run(Caller("a"), pool.tools["long"], call("long"), {})
        )
        await pool.began.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        stop = asyncio.create_task(runtime.stop(grace_s=0))
    await stop  # another asyncio task than the one that entered it
    assert pool.events == ["opened", "cleaned up", "closed"]


async def test_replica_and_worker_have_one_each(server: Server) -> None:
    here, there, url = Pool(), Pool(), server.new_url()
    async with open_runtime(url, here.tools, RuntimeConfig(engine=for_replicas)) as replica:
        async with open_runtime(url, there.tools, RuntimeConfig(engine=for_workers)):
            task = await replica.create("alice", Create(call("query")))
            assert "rows" in text(await replica.service.collect("alice", task.id, PATIENCE_S))
            outcome = await replica.plain_calls.run(
                Caller("alice"), here.tools["query"], call("query"), {}
            )
            assert isinstance(outcome, Outcome)
        assert there.events == ["opened", "query", "closed"]
    assert here.events == ["opened", "query", "closed"]


async def test_without_a_lifespan_the_context_has_none() -> None:
    tools = Tools()

    @tools.task()
    async def query(ctx: Context) -> Any:
        return ctx.lifespan

    async with open_runtime("memory:", tools) as runtime:
        task = await runtime.create("alice", Create(call("query")))
        task = await runtime.service.collect("alice", task.id, PATIENCE_S)
        assert "ctx.lifespan has no value: use Tools(lifespan=...)" in text(task)


# --- functions that do not fit, raise or hang ------------------------------------------------


async def generator(tools: Tools) -> AsyncIterator[None]:
    yield


async def coroutine(tools: Tools) -> None: ...


@asynccontextmanager
async def without_parameter() -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (
            generator,
            r"test_lifespan.py:\d+: lifespan 'generator' is not a context manager: write @",
        ),
        (coroutine, r"lifespan 'coroutine' is not a context manager: write @asynccontextmanager"),
        (without_parameter, r"lifespan 'without_parameter' must take one argument: write @async"),
        ("pool", "lifespan must be a function, not str: "),
    ],
)
def test_a_function_that_cannot_be_a_lifespan_is_refused(function: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        Tools(lifespan=function)


@asynccontextmanager
async def refusing(tools: Tools) -> AsyncIterator[None]:
    raise ConnectionError("no database\nhere")
    yield


@asynccontextmanager
async def exiting(tools: Tools) -> AsyncIterator[None]:
    sys.exit("no database")
    yield


@asynccontextmanager
async def silent(tools: Tools) -> AsyncIterator[None]:
    if tools:
        yield


def not_a_manager(tools: Tools) -> Any:
    return "pool"


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (refusing, "lifespan 'refusing' failed: ConnectionError: no database here"),
        (exiting, "lifespan 'exiting' failed: SystemExit: no database"),
        (silent, "lifespan 'silent' failed: RuntimeError: generator didn't yield"),
        (
            not_a_manager,
            "lifespan 'not_a_manager' failed: TypeError: 'str' object does not",
        ),
    ],
)
async def test_an_error_at_the_start_says_where(function: Any, why: str, tmp_path: Path) -> None:
    with pytest.raises(LifespanFailed) as failed:
        async with open_runtime(f"sqlite:{tmp_path / 'tasks.db'}", Tools(lifespan=function)):
            pytest.fail("the runtime started")
    place, _, rest = str(failed.value).partition(": ")
    assert rest.startswith(why)
    name, _, line = place.rpartition(":")
    shown = Path(name).read_text().splitlines()[int(line) - 1] if function is refusing else None
    assert shown in (None, '    raise ConnectionError("no database\\nhere")')


async def test_the_lifespan_is_left_if_the_engine_does_not_start() -> None:
    class Broken(LocalEngine):
        async def start(self) -> None:
            raise ConfigurationError("no room")

    pool = Pool()
    with pytest.raises(ConfigurationError, match="no room"):
        async with open_runtime("memory:", pool.tools, RuntimeConfig(engine=Broken)):
            pytest.fail("the runtime started")
    assert pool.events == ["opened", "closed"]


async def test_a_cancelled_start_leaves_nothing_behind() -> None:
    begun, left = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def slow(tools: Tools) -> AsyncIterator[None]:
        try:
            begun.set()
            await asyncio.Event().wait()
            yield
        finally:
            left.set()

    starting = asyncio.create_task(start_runtime(MemoryStore(b"s" * 32), Tools(lifespan=slow)))
    await begun.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert left.is_set()


async def test_an_error_at_the_end_is_logged_and_the_store_is_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @asynccontextmanager
    async def failing(tools: Tools) -> AsyncIterator[None]:
        yield
        raise ConnectionError("gone")

    async with open_runtime("memory:", Tools(lifespan=failing)):
        pass
    assert re.search(r"test_lifespan.py:\d+: lifespan '.*failing' failed: Connection", caplog.text)


def test_a_lifespan_that_does_not_end_is_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    @asynccontextmanager
    async def stuck(tools: Tools) -> AsyncIterator[None]:
        yield
        await asyncio.Event().wait()

    async def main() -> None:
        runtime = await start_runtime(MemoryStore(b"s" * 32), Tools(lifespan=stuck))
        loop = asyncio.get_running_loop()
        began = loop.time()
        await runtime.stop()
        assert loop.time() - began == 5.0
        assert asyncio.all_tasks() == {asyncio.current_task()}

    loop = VirtualLoop(Random(0))
    try:
        loop.run(main())
    finally:
        loop.close()
    assert "took more than 5 s to end" in caplog.text


# --- the page and the command ----------------------------------------------------------------


def test_the_program_of_the_page_prints_its_output(capsys: pytest.CaptureFixture[str]) -> None:
    program, output = example_of("docs/howto/tools.md", "lifespan")
    exec(compile(program, "tools.md", "exec"), {})
    assert capsys.readouterr().out == output


SHOP: Final = """
from contextlib import asynccontextmanager

from taskmachine import Tools


@asynccontextmanager
async def lifespan(tools):
    {first}
    print("opened", flush=True)
    yield
    print("closed", flush=True)


TOOLS = Tools(lifespan=lifespan)


@TOOLS.task()
async def nothing() -> None: ...
"""


def serve(folder: Path, first: str) -> "subprocess.Popen[str]":
    (folder / "shop.py").write_text(SHOP.format(first=first))
    command = [COMMAND, "serve", "--http", "127.0.0.1:0", "--store", "memory:"]
    return subprocess.Popen(
        [*command, "--tools", "shop:TOOLS"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_server_that_is_terminated_leaves_the_lifespan(tmp_path: Path) -> None:
    with serve(tmp_path, "pass") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "opened\n"
        while "serving 1 tool" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "closed\n"
        assert process.wait(PATIENCE_S) == 0


def test_a_server_whose_lifespan_fails_says_so_in_one_line(tmp_path: Path) -> None:
    with serve(tmp_path, "raise ConnectionError('no database')") as process:
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert said == (
        "taskmachine: error: shop.py:9: lifespan 'lifespan' failed: ConnectionError: no database\n"
    )
