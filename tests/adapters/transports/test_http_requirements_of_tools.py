"""Requirements of the revisions for tools and tasks, checked by an HTTP client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import islice
from typing import Any, Final

import httpx
import pytest

from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.maintenance import sweep
from taskmachine.adapters.runtime.runtime import Surroundings
from taskmachine.adapters.stores import Caps
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.errors import Gone
from taskmachine.adapters.tools.questions import url
from taskmachine.adapters.transports.http.application import Application
from taskmachine.adapters.transports.settings import Settings
from taskmachine.protocol.timestamps import decode_timestamp
from tests.adapters.memory_service import MemoryService
from tests.adapters.transports.wire import (
    NAME_FORM,
    NEW,
    OLD,
    Caller,
    Gate,
    callers,
    in_both,
    served,
    serving,
    text_of,
)
from tests.requirements import covers

MUCH: Final = 10**15


class Tools(Gate):
    """The tools of `Gate`, and those of single tests."""

    def __init__(self) -> None:
        super().__init__()
        self.reached: list[int] = []
        self.late: list[asyncio.Task[None]] = []

        @self.tools.task()
        async def echo(text: str) -> str:
            return text

        @self.tools.task()
        async def report(ctx: Context) -> str:
            for value in (1, 1, 0.5, 1.5):
                await ctx.progress(value)
            await ctx.progress(2, 4, "half of it")
            self.late.append(asyncio.create_task(self._straggle(ctx)))
            return "reported"

        @self.tools.task()
        async def lie(count: int) -> dict[str, int]:
            self.reached.append(count)
            return {"sum": "much"}  # type: ignore[dict-item]

        @self.tools.task()
        async def introduce(ctx: Context) -> str:
            answers = await ctx.ask_all({"first": NAME_FORM, "last": NAME_FORM})
            return " ".join(answers[key].content["name"] for key in ("first", "last"))

        @self.tools.task()
        async def visit(ctx: Context) -> str:
            answer = await ctx.ask("page", url("Sign", "https://sign.example/7", "e-7"))
            return answer.action

    async def _straggle(self, ctx: Context) -> None:
        await self.open.wait()
        with pytest.raises(Gone):
            await ctx.progress(3, 4)


@asynccontextmanager
async def limited(tools: Tools, limits: Limits) -> AsyncIterator[Caller]:
    """Run a server with these limits and yield a caller."""
    application = Application(Settings(store="memory:", limits=limits), tools.tools)
    transport = httpx.ASGITransport(application)
    async with application.lifespan(), httpx.AsyncClient(transport=transport) as client:
        yield Caller(client, "http://localhost/mcp")


def named(name: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"name": name}}


# --- progress of plain calls -----------------------------------------------------------------


@covers(
    "2025-11-25:progress-stops-after-completion",
    "2026-07-28:progress-allowed",
    "2026-07-28:progress-content",
    "2026-07-28:progress-increases",
    "2026-07-28:progress-may-be-float",
    "2026-07-28:progress-message-readable",
    "2026-07-28:progress-token-known",
    "2026-07-28:progress-any-frequency",
    "2026-07-28:progress-total-optional",
    "2026-07-28:sse-notifications-before-response",
    "2026-07-28:sse-ends-after-response",
)
@in_both
async def test_progress_only_grows_and_ends_with_the_answer(revision: str) -> None:
    async with served(revision, Tools) as (caller, tools):
        caller.capabilities = {}
        call = {"name": "report", "arguments": {}}
        async with AsyncExitStack() as stack:
            listening = caller.listen() if revision == OLD else None
            general = await stack.enter_async_context(listening) if listening else None
            with_token = {**call, "_meta": {"progressToken": "p"}}
            async with caller.stream("tools/call", with_token) as events:
                *notices, answer = await events.rest()
            assert text_of(answer) == "reported"
            assert [message["params"] for message in notices] == [
                {"progressToken": "p", "progress": 1},
                {"progressToken": "p", "progress": 1.5},
                {"progressToken": "p", "progress": 2, "total": 4, "message": "half of it"},
            ]
            message, headers = caller.request("tools/call", call)
            untold = await caller.post(message, **headers)
            assert "notifications/progress" not in untold.text, "there was no token"
            tools.open.set()
            await asyncio.gather(*tools.late)
            if general is not None:
                await caller.client.delete(caller.url, headers=caller.headers)
                assert await general.rest() == []


# --- tools and tasks -------------------------------------------------------------------------


@covers("2026-07-28:messages-utf8")
@in_both
async def test_text_of_any_language_comes_back_as_utf_8(revision: str) -> None:
    async with served(revision, Tools) as (caller, _):
        words = "Gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n, \N{EARTH GLOBE EUROPE-AFRICA}"
        caller.capabilities = {}
        call = {"name": "echo", "arguments": {"text": words}}
        message, headers = caller.request("tools/call", call)
        response = await caller.post(message, **headers)
        assert words in response.content.decode("utf-8")


@covers(
    "2025-11-25:structured-result-conforms",
    "2025-11-25:tool-input-validated",
    "2026-07-28:structured-result-conforms",
    "2026-07-28:tool-input-validated",
)
@in_both
@pytest.mark.parametrize("is_task", [False, True])
async def test_schema_violations_reach_neither_the_tool_nor_the_client(
    revision: str, is_task: bool
) -> None:
    async with served(revision, Tools) as (caller, tools):

        async def called(count: Any) -> str:
            call: dict[str, Any] = {"name": "lie", "arguments": {"count": count}}
            if not is_task:
                caller.capabilities = {}
                return str(await caller.call("tools/call", call))
            task_id = await caller.create("lie", call["arguments"])
            if revision == OLD:
                return str(await caller.call("tasks/result", {"taskId": task_id}))
            await caller.wait_for(task_id, "failed" if count == 1 else "completed")
            return str(await caller.call("tasks/get", {"taskId": task_id}))

        refused = await called("many")
        assert "'isError': True" in refused
        assert "count must be a valid integer" in refused
        assert tools.reached == []
        lied = await called(1)
        assert "'code': -32603" in lied
        assert "structuredContent" not in lied
        assert tools.reached == [1]


@covers("2025-11-25:create-answer-prompt", "2025-11-25:cancel-stops-work")
async def test_new_task_is_readable_at_once_and_cancel_stops_its_tool() -> None:
    async with served(OLD, Tools) as (caller, tools):
        task_id = await caller.create("wait", {})  # which does not end by itself
        assert await caller.status(task_id) == "working"
        await caller.call("tasks/cancel", {"taskId": task_id})
        async with asyncio.timeout(10):
            await tools.stopped.wait()


@covers("2025-11-25:task-id-unique", "2025-11-25:ids-unguessable", "2026-07-28:ids-unguessable")
@in_both
async def test_ids_of_tasks_differ_and_have_no_pattern(revision: str) -> None:
    async with served(revision, Tools) as (caller, _):
        many = await asyncio.gather(*(caller.create("add", {"a": 1, "b": 2}) for _ in range(50)))
        assert len(set(many)) == 50
        # 22 characters of base64 are 128 bits; 50 random ones differ at every place.
        assert min(map(len, many)) >= 22
        assert all(len(set(column)) > 10 for column in zip(*many, strict=True))


@covers("2025-11-25:kept-until-ttl", "2025-11-25:expired-cleaned-up", "2026-07-28:kept-until-ttl")
@in_both
async def test_a_task_is_kept_until_its_ttl_is_over_and_not_much_longer(revision: str) -> None:
    memory = MemoryService()

    async with served(revision, Tools, memory.store, world=Surroundings(clock=memory.clock)) as (
        caller,
        _,
    ):
        task_id = await caller.create("add", {"a": 1, "b": 2})
        await caller.wait_for(task_id, "completed")
        shown = (await caller.call("tasks/get", {"taskId": task_id}))["result"]
        ttl = shown["ttl"] if revision == OLD else shown["ttlMs"]
        over = decode_timestamp(shown["createdAt"]) + ttl
        for now, is_there in ((over - 1, True), (over + 1, False)):
            memory.clock.now = now
            await sweep(memory.service)
            found = await caller.call("tasks/get", {"taskId": task_id})
            assert ("result" in found) == is_there
        assert found["error"]["code"] == -32602


@covers("2025-11-25:concurrency-limit", "2025-11-25:ttl-maximum")
async def test_tasks_of_one_caller_are_bounded_in_number_and_time() -> None:
    tools = Tools()
    async with limited(tools, Limits(caps=Caps(live_of_owner=2))) as caller:
        await caller.introduce()
        call = {"name": "wait", "arguments": {}, "task": {"ttl": MUCH}}
        for _ in range(2):
            task = (await caller.call("tools/call", call))["result"]["task"]
            assert 0 < task["ttl"] < MUCH
        refused = (await caller.call("tools/call", call))["error"]
        assert refused["data"]["retryAfterMs"] > 0
        tools.open.set()


@covers("2025-11-25:tool-calls-rate-limited", "2026-07-28:tool-calls-rate-limited")
@in_both
async def test_a_burst_of_calls_is_refused_at_some_point(revision: str) -> None:
    tools = Tools()
    async with limited(tools, Limits(blocked_calls=2)) as caller:
        if revision == OLD:
            await caller.introduce()
        caller.capabilities = {}
        call = {"name": "wait", "arguments": {}}
        calling = asyncio.as_completed(
            [caller.call("tools/call", call) for _ in range(5)], timeout=10
        )
        for refused in islice(calling, 3):
            assert (await refused)["error"]["data"]["retryAfterMs"] > 0
        tools.open.set()
        assert [text_of(await last) for last in calling] == ["open"] * 2


@covers("2025-11-25:get-implies-list", "2025-11-25:list-no-duplicates")
async def test_every_task_is_on_one_page_of_the_list() -> None:
    async with limited(Tools(), Limits(page=2)) as caller:
        await caller.introduce()
        made = [await caller.create("add", {"a": 1, "b": 2}) for _ in range(5)]
        listed: list[str] = []
        cursor: dict[str, Any] = {}
        for size in (2, 2, 1):
            page = (await caller.call("tasks/list", cursor))["result"]
            assert len(page["tasks"]) == size
            listed += [task["taskId"] for task in page["tasks"]]
            cursor = {"cursor": page.get("nextCursor")}
        assert cursor == {"cursor": None}
        assert sorted(listed) == sorted(made)


@covers("2025-11-25:elicitation-url-params")
async def test_a_question_with_a_link_has_all_its_parts() -> None:
    async with served(NEW, Tools) as (caller, _):
        params = {
            "protocolVersion": OLD,
            "capabilities": {"elicitation": {"url": {}}},
            "clientInfo": {"name": "test", "version": "1"},
        }
        begun = await caller.post({"id": 0, "method": "initialize", "params": params})
        caller.headers["mcp-session-id"] = begun.headers["mcp-session-id"]
        caller.is_legacy = True
        await caller.post({"method": "notifications/initialized"})
        task_id = await caller.create("visit", {})
        async with caller.stream("tasks/result", {"taskId": task_id}) as events:
            question = await events.next()
            del question["params"]["_meta"]
            link = {"url": "https://sign.example/7", "elicitationId": "e-7"}
            assert question["params"] == {"mode": "url", "message": "Sign", **link}
            await caller.post({"id": question["id"], "result": {"action": "accept"}})
            assert text_of(await events.result()) == "accept"


@covers("2026-07-28:missing-answers-asked-again")
async def test_server_asks_again_only_for_the_missing_answers() -> None:
    async with served(NEW, Tools) as (caller, _):
        caller.capabilities = {"elicitation": {}}
        call: dict[str, Any] = {"name": "introduce", "arguments": {}}
        paused = (await caller.call("tools/call", call))["result"]
        assert paused["inputRequests"].keys() == {"first", "last"}
        call |= {"requestState": paused["requestState"], "inputResponses": {"last": named("L.")}}
        paused = (await caller.call("tools/call", call))["result"]
        assert paused["resultType"] == "input_required"
        assert paused["inputRequests"].keys() == {"first"}
        call |= {"requestState": paused["requestState"], "inputResponses": {"first": named("Ada")}}
        assert text_of(await caller.call("tools/call", call)) == "Ada L."


@covers("2026-07-28:wait-for-consistency", "2026-07-28:ids-as-bearer-tokens")
async def test_new_task_is_visible_to_every_replica_at_once() -> None:
    tools, store = Tools(), MemoryStore(b"s" * 32)
    async with (
        serving(tools.tools, store) as here,
        serving(tools.tools, store) as there,
        callers(here) as [one],
        callers(there) as [other],
    ):
        for _ in range(10):
            task_id = await one.create("wait", {})
            assert await other.status(task_id) == "working"
        tools.open.set()


@covers("2026-07-28:many-conversations")
async def test_tasks_on_one_connection_do_not_disturb_each_other() -> None:
    async with served(NEW, Tools) as (caller, _):
        limits = httpx.Limits(max_connections=1)
        async with httpx.AsyncClient(limits=limits, timeout=20) as client:
            caller.client = client
            names = {await caller.create("greet", {}): name for name in ("Ada", "Ben", "Cy")}
            for task_id in names:
                await caller.wait_for(task_id, "input_required")
            for task_id, name in reversed(names.items()):
                answers = {"taskId": task_id, "inputResponses": {"name": named(name)}}
                await caller.call("tasks/update", answers)
            for task_id, name in names.items():
                await caller.wait_for(task_id, "completed")
                shown = (await caller.call("tasks/get", {"taskId": task_id}))["result"]
                assert text_of(shown) == f"Hello, {name}!"
