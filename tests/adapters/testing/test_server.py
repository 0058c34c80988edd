"""`taskmachine.testing`: tools in memory, on virtual time, with scripted answers and crashes."""

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from datetime import date
from pathlib import Path
from typing import Any

import attrs
import pytest
from pydantic import BaseModel

from taskmachine import (
    ConfigurationError,
    Context,
    SyncContext,
    TaskmachineError,
    ToolError,
    Tools,
    sampling,
)
from taskmachine.client import CallFailed, Cancelled, ConnectionLost
from taskmachine.protocol.jsonrpc import Message, Notification
from taskmachine.testing import MemoryServer, Stuck, open_server, run
from tests.site.pages import blocks_of

PACKED: list[int] = []
LEFT: list[str] = []


class Delivery(BaseModel):
    to: str
    day: date


@attrs.frozen
class Size:
    height: int


def shop() -> Tools:
    """Tools of each kind."""
    PACKED.clear()
    LEFT.clear()
    tools = Tools()

    @tools.task
    async def hello(name: str) -> str:
        return f"Hello, {name}!"

    @tools.task(timeout=7_200)
    async def pack(items: int, ctx: Context) -> str:
        for done in range(1, items + 1):
            await asyncio.sleep(60)
            PACKED.append(done)
            await ctx.progress(done, items, f"{done} packed")
        return f"{items} packed"

    @tools.task
    async def send(ctx: Context) -> str:
        try:
            answer = await ctx.ask("where", "Where to?", Delivery)
            if answer.value is None:
                return answer.action
            sure = await ctx.confirm("sure", "Sure?")
            size = await ctx.choose("size", "Size?", ["s", "l"])
            card = await ctx.ask("card", sampling("A card", 50))
            return f"{answer.value.to} {answer.value.day:%A} {sure} {size} {card.text}"
        finally:
            LEFT.append("send")

    @tools.task
    def weigh(grams: int, ctx: SyncContext) -> str:
        for done in range(3):
            time.sleep(0.01)
            ctx.progress(done + 1, 3)
        return f"{grams} g, {ctx.confirm('sure', 'Sure?')}"

    @tools.task
    async def in_thread() -> str:
        await asyncio.to_thread(time.sleep, 0.01)
        return "worked"

    @tools.task(support="forbidden")
    async def plain(ctx: Context) -> str:
        await asyncio.sleep(1)
        return "plain"

    @tools.task
    async def fail() -> None:
        raise ToolError("out of stock")

    @tools.task
    async def broken() -> None:
        raise ZeroDivisionError

    @tools.task(timeout=30)
    def stuck(ctx: SyncContext) -> None:
        ctx.confirm("sure", "Sure?")
        while not ctx.is_cancelled:
            time.sleep(0.01)

    return tools


ANSWERS: dict[str, Any] = {
    "where": Delivery(to="Oslo", day=date(2026, 5, 4)),
    "sure": True,
    "size": "l",
    "card": "Enjoy!",
}
SENT = "Oslo Monday True l Enjoy!"


def play(
    scene: Callable[[MemoryServer], Any], tools: Tools | None = None, **options: Any
) -> tuple[Any, float]:
    """Run a scene with a server; return its result and the virtual seconds that it took."""

    async def main() -> tuple[Any, float]:
        async with open_server(tools or shop(), **options) as server:
            return await scene(server), asyncio.get_running_loop().time()

    return run(main())


# --- calls -----------------------------------------------------------------------------------


def test_a_call_has_text_and_structured_content() -> None:
    result, took = play(lambda server: server.call("hello", name="Ada"))
    assert (result.text, result.structured, result.is_error) == (
        "Hello, Ada!",
        {"result": "Hello, Ada!"},
        False,
    )
    assert took < 1


def test_errors_are_those_of_a_client() -> None:
    failed, _ = play(lambda server: server.call("fail"))
    assert (failed.is_error, failed.text) == (True, "out of stock")
    wrong, _ = play(lambda server: server.call("hello"))
    assert (wrong.is_error, "name" in wrong.text) == (True, True)
    with pytest.raises(CallFailed, match=r"-32602"):
        play(lambda server: server.call("nothing"))
    with pytest.raises(CallFailed, match=r"Tool 'broken' failed"):
        play(lambda server: server.call("broken"))


def test_time_is_virtual_and_progress_arrives() -> None:
    async def scene(server: MemoryServer) -> list[Any]:
        task = await server.start("pack", items=30)
        seen = [update.message async for update in task]
        assert (await task.result())["content"][0]["text"] == "30 packed"
        return seen

    began = time.monotonic()
    seen, took = play(scene)
    assert "30 packed" in seen
    assert 1_800 <= took < 1_810
    assert time.monotonic() - began < 30, "half an hour takes no time"


def test_plain_functions_run_in_threads_while_time_stands_still() -> None:
    result, took = play(lambda server: server.call("weigh", grams=5), answers={"sure": False})
    assert result.text == "5 g, False"
    assert took < 5
    result, took = play(lambda server: server.call("in_thread"))
    assert result.text == "worked"
    assert took < 5


def test_a_thread_that_does_not_end_is_left_behind_by_its_timeout() -> None:
    async def scene(server: MemoryServer) -> Any:
        task = await server.start("stuck")
        await asyncio.sleep(1)
        await task.cancel()
        with contextlib.suppress(Exception):
            await task.result()
        return task.id

    task_id, _ = play(scene, answers={"sure": lambda question: asyncio.Event().wait()})
    assert task_id


# --- answers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "where",
    [
        ANSWERS["where"],
        {"to": "Oslo", "day": "2026-05-04"},
        {"action": "accept", "content": {"to": "Oslo", "day": "2026-05-04"}},
        lambda question: question.accept(to="Oslo", day="2026-05-04"),
    ],
    ids=["object", "fields", "result", "function"],
)
def test_answers_are_scripted(where: Any) -> None:
    async def scene(server: MemoryServer) -> Any:
        result = await server.call("send")
        assert [question.key for question in server.questions] == ["where", "sure", "size", "card"]
        return result.text

    assert play(scene, answers={**ANSWERS, "where": where})[0] == SENT


def test_an_answer_may_decline_and_take_its_time() -> None:
    assert play(lambda server: server.call("send"), answers={"where": None})[0].text == "decline"

    async def tomorrow(question: Any) -> Any:
        await asyncio.sleep(1_800)
        return question.decline()

    result, took = play(lambda server: server.call("send"), answers={"where": tomorrow})
    assert (result.text, took >= 1_800) == ("decline", True)


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({}, r"the question 'where' \('Where to\?'\) has no answer: answers={'where': ...}"),
        ({"where": {"to": 5}}, r"has an answer that does not fit: {'to': 5}"),
        ({"where": "Oslo"}, r"has the fields to, day, but the answer is 'Oslo'"),
        ({"where": lambda question: 1 / 0}, r"ZeroDivisionError\('division by zero'\)"),
    ],
)
def test_a_question_without_a_fitting_answer_fails_the_test(answers: Any, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        play(lambda server: server.call("send"), answers=answers)

    async def only_started(server: MemoryServer) -> None:
        task = await server.start("send")
        with contextlib.suppress(Cancelled):
            await task.result()

    with pytest.raises(AssertionError, match=says):
        play(only_started, answers=answers)


# --- crashes ---------------------------------------------------------------------------------


def test_a_crash_after_the_second_report() -> None:
    async def scene(server: MemoryServer) -> None:
        server.crash_after("report", 2)
        assert (await server.call("pack", items=3)).text == "3 packed"
        assert server.crashes == 1

    _, took = play(scene)
    assert PACKED == [1, 2, 1, 2, 3]
    assert took < 5 * 60 + 6, "the lease of a dead process is void at once"


def test_nothing_of_a_crashed_server_continues() -> None:
    """Neither the tool, which could go on until it waits, nor what follows the task."""
    tools = Tools()
    after: list[str] = []
    received: list[tuple[int, type]] = []

    @tools.task
    async def work(ctx: Context) -> None:
        await asyncio.sleep(10)
        await ctx.progress(1, 2, "begun")
        after.append("begun")
        await asyncio.sleep(10)
        await ctx.progress(2, 2, "done")

    async def scene(server: MemoryServer) -> None:
        listener = server.session

        class Listener:
            def received(self, message: Message) -> None:
                received.append((server.crashes, type(message)))
                listener.received(message)

            def __getattr__(self, name: str) -> Any:
                return getattr(listener, name)

        server.session._connection.listener = Listener()
        task = await server.start("work")
        server.crash_after("report")
        await task.result()

    play(scene, tools)
    assert after == ["begun"]
    assert (0, Notification) in received
    assert (1, Notification) not in received, "the client has not subscribed again"


def test_no_question_is_asked_twice_after_a_crash() -> None:
    async def scene(server: MemoryServer) -> None:
        server.crash_after("resume", 2)
        assert (await server.call("send")).text == SENT
        assert len(server.questions) == 4
        assert LEFT == ["send"], "a killed process runs no finally"

    play(scene, answers=ANSWERS)


@pytest.mark.parametrize("event", ["submit", "start", "ask", "resume", "complete"])
def test_a_crash_after_any_event_loses_nothing(event: str) -> None:
    async def scene(server: MemoryServer) -> None:
        server.crash_after(event)
        assert (await server.call("send")).text == SENT
        assert (server.crashes, server.events.count("submit")) == (1, 1)

    play(scene, answers=ANSWERS)


def test_several_crashes_and_one_of_a_thread() -> None:
    async def scene(server: MemoryServer) -> None:
        for _ in range(2):
            server.crash_after("report", 2)
            task = await server.start("weigh", grams=5)
            assert (await task.result())["content"][0]["text"] == "5 g, True"
        assert server.crashes == 2

    play(scene, answers={"sure": True})


def test_a_worker_that_is_lost_too_often_fails_the_task() -> None:
    async def scene(server: MemoryServer) -> None:
        task = await server.start("pack", items=3)
        for _ in range(3):
            await asyncio.sleep(90)
            await server.crash()
        with pytest.raises(CallFailed):
            await task.result()
        assert server.events[-1] == "fail"

    play(scene)


def test_a_tool_can_crash_its_server() -> None:
    tools = Tools()
    servers: list[MemoryServer] = []
    runs: list[str] = []

    @tools.task
    async def charge() -> str:
        runs.append("charge")
        if len(runs) == 1:
            try:
                await servers[0].crash()
            finally:
                runs.append("never")
        return "charged"

    async def scene(server: MemoryServer) -> None:
        servers.append(server)
        assert (await server.call("charge")).text == "charged"
        assert runs == ["charge", "charge"]

    play(scene, tools)


def test_a_plain_call_is_lost_with_its_server() -> None:
    async def scene(server: MemoryServer) -> None:
        call = asyncio.ensure_future(server.call("plain"))
        await asyncio.sleep(0.5)
        await server.crash()
        with pytest.raises(ConnectionLost, match="the server crashed"):
            await call
        assert (await server.call("plain")).text == "plain"

    play(scene)


def test_a_crash_that_does_not_happen_fails_the_test() -> None:
    async def scene(server: MemoryServer) -> None:
        server.crash_after("report", 9)
        await server.call("hello", name="Ada")

    with pytest.raises(AssertionError, match=r"no crash, as 'report' did not happen; events: sub"):
        play(scene)


def test_crash_points_are_checked() -> None:
    async def scene(server: MemoryServer) -> None:
        with pytest.raises(ConfigurationError, match=r"'reprot' is not .*: did you mean 'report'"):
            server.crash_after("reprot")
        with pytest.raises(ConfigurationError, match="use one of submit, "):
            server.crash_after("xyz")
        with pytest.raises(ConfigurationError, match="after 0 times"):
            server.crash_after("report", 0)

    play(scene)


# --- lifespans and loops ---------------------------------------------------------------------


def test_each_server_has_its_lifespan() -> None:
    seen: list[str] = []

    @contextlib.asynccontextmanager
    async def lifespan(tools: Tools) -> AsyncIterator[int]:
        seen.append("enter")
        try:
            yield 7
        finally:
            seen.append("leave")

    tools = Tools(lifespan=lifespan)

    @tools.task
    async def number(ctx: Context) -> int:
        await ctx.progress(1)
        return int(ctx.lifespan)

    async def scene(server: MemoryServer) -> None:
        server.crash_after("report")
        assert (await server.call("number")).structured == {"result": 7}
        assert seen == ["enter", "enter"]

    play(scene, tools)
    assert "leave" in seen


def test_a_lifespan_that_fails_is_an_error_of_the_test() -> None:
    @contextlib.asynccontextmanager
    async def lifespan(tools: Tools) -> AsyncIterator[None]:
        raise OSError("no database")
        yield

    tools = Tools(lifespan=lifespan)
    tools.add(asyncio.sleep, "wait")
    with pytest.raises(TaskmachineError, match="no database"):
        play(lambda server: server.call("wait"), tools)


def test_it_works_on_any_loop_but_crashes_need_virtual_time() -> None:
    async def main() -> None:
        async with open_server(shop(), answers=ANSWERS) as server:
            assert (await server.call("send")).text == SENT
            assert (await server.call("weigh", grams=5)).text == "5 g, True"
            with pytest.raises(ConfigurationError, match="a crash needs virtual time"):
                await server.crash()
            with pytest.raises(ConfigurationError, match="a crash needs virtual time"):
                server.crash_after("ask")

    asyncio.run(main())


def test_a_test_that_waits_for_ever_ends() -> None:
    with pytest.raises(Stuck, match="more than 100 s of virtual time"):
        run(asyncio.Event().wait(), timeout=100)


def test_exceptions_pass_through() -> None:
    async def scene(server: MemoryServer) -> None:
        server.crash_after("report")
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        play(scene)


# --- pytest ----------------------------------------------------------------------------------

ASYNC = """
from shop import tools

async def test_an_order_survives_a_crash(open_server, tmp_path):
    async with open_server(tools, answers={"sure": True}) as shop:
        shop.crash_after("ask")
        assert (await shop.call("order", item="tea")).text == "Ordered: tea"
        assert tmp_path.exists()

async def test_a_crash_that_is_not_there(open_server):
    async with open_server(tools) as shop:
        shop.crash_after("ask")

def test_the_fixture_is_the_function(open_server):
    from taskmachine import testing
    assert open_server is testing.open_server
"""
SHOP = """
from taskmachine import Context, Tools

tools = Tools()

@tools.task
async def order(item: str, ctx: Context) -> str:
    return f"Ordered: {item}" if await ctx.confirm("sure", f"Order {item}?") else "Nothing"
"""


def test_the_fixture_makes_async_tests_run(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "test_shop.py").write_text(ASYNC)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "AssertionError: no crash, as 'ask' did not happen; events: none" in done.stdout


def test_the_test_of_the_page_passes(tmp_path: Path) -> None:
    [test] = blocks_of("docs/howto/testing.md", "python")
    tool = next(blocks_of("docs/howto/tools.md", "python"))
    assert len([line for line in test.text.splitlines() if line]) <= 10
    for block in (tool, test):
        (tmp_path / block.title).write_text(block.text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_kits_for_stores_say_what_they_need(tmp_path: Path) -> None:
    code = (
        "import importlib.metadata as metadata\n"
        "def version(name): raise metadata.PackageNotFoundError(name)\n"
        "metadata.version = version\n"
        "import taskmachine.testing\n"
        "try: taskmachine.testing.StoreContract\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == (
        "this module needs pytest 9.0 or later, which is not installed: "
        "pip install 'taskmachine[testing]'\n"
    ), done.stderr


def test_it_needs_no_hypothesis(tmp_path: Path) -> None:
    code = "import sys, taskmachine.testing; print({'hypothesis', 'pytest'} & {*sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "set()\n", done.stderr
