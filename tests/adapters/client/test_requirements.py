"""Requirements of the revisions for clients that no other test covers."""

import asyncio
import contextlib
import json
import sys
from pathlib import Path

import pytest

from taskmachine.adapters.client import stdio
from taskmachine.adapters.client.connect import connect
from taskmachine.adapters.client.errors import CallFailed, ConnectionLost
from tests.adapters.client.scripted import (
    DISCOVERED,
    DONE,
    INITIALIZED,
    TOOL,
    Exchange,
    calling,
    legacy,
    modern,
    serving,
    shown_2026,
)
from tests.requirements import covers

CREATED = {**shown_2026(), "resultType": "task"}


@covers("2025-11-25:initialize-not-cancelled", "2025-11-25:client-waits-for-initialize")
async def test_until_the_handshake_is_answered_nothing_else_is_said() -> None:
    async def silent(exchange: Exchange) -> None:
        await exchange.closed.wait()

    async with serving(silent) as server:
        with pytest.raises(ConnectionLost, match="no answer to initialize"):
            async with connect(server.url, generation="2025-11-25", timeout=0.3):
                raise AssertionError("connected")
        assert [exchange.what for exchange in server.seen] == ["initialize"]


@covers("2025-11-25:get-stream-optional", "2025-11-25:get-stream-accept")
async def test_the_stream_for_unasked_news_is_asked_for_as_events() -> None:
    async with serving(legacy(lambda _: asyncio.sleep(0))) as server:
        async with connect(server.url, generation="2025-11-25"):
            opened = await server.until("GET")
        assert opened.headers["accept"] == "text/event-stream"


@covers("2026-07-28:client-checks-ack", "2026-07-28:reconnect-after-drop")
async def test_client_polls_a_task_that_the_subscription_does_not_include() -> None:
    async def script(exchange: Exchange) -> None:
        match exchange.what:
            case "tools/call":
                await exchange.result(CREATED)
            case "subscriptions/listen":
                meta = {"io.modelcontextprotocol/subscriptionId": exchange.message["id"]}
                params = {"notifications": {"taskIds": []}, "_meta": meta}
                method = "notifications/subscriptions/acknowledged"
                await exchange.stream()
                await exchange.event({"jsonrpc": "2.0", "method": method, "params": params})
            case "tasks/get":
                await exchange.result(shown_2026("completed", result=DONE))
            case _:
                await modern(script)(exchange)

    async with serving(script) as server, connect(server.url) as session:
        assert await (await session.call("work")).result() == DONE
        assert len(server.of("subscriptions/listen")) == 1
        assert len(server.of("tasks/get")) == 1


@covers("2026-07-28:progress-token-unique")
async def test_calls_under_way_have_progress_tokens_of_their_own() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.server.until("tools/call", 3)
        await exchange.result({"resultType": "complete", **DONE})

    async with serving(modern(script)) as server, connect(server.url) as session:
        await session.tools()
        await asyncio.gather(*(session.call("work") for _ in range(3)))
        tokens = {call.params["_meta"]["progressToken"] for call in server.of("tools/call")}
        assert len(tokens) == 3


@covers("2025-11-25:timeout-maximum", "2026-07-28:timeout-maximum")
@pytest.mark.parametrize("generation", ["2025-11-25", "2026-07-28"])
async def test_progress_does_not_keep_a_call_alive_for_ever(generation: str) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.stream()
        token = exchange.params["_meta"]["progressToken"]
        value = 0
        while not exchange.closed.is_set():
            value += 1
            params = {"progressToken": token, "progress": value}
            told = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
            await exchange.event(told)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(exchange.closed.wait(), 0.05)

    speak = legacy if generation == "2025-11-25" else modern
    async with calling(speak(script, TOOL), generation=generation, timeout=1) as (_, task):
        with pytest.raises(CallFailed, match="the request timed out"):
            await task.result()
        assert [update.status async for update in task][-1] == "failed"


SERVER = """
import json, signal, sys, time

def note(word):
    with open(sys.argv[1], "a") as file:
        file.write(word + "\\n")

signal.signal(signal.SIGTERM, lambda *_: (note("SIGTERM"), sys.exit()))
answers = json.loads(sys.argv[2])
for line in sys.stdin:
    print("said by the server to nobody", file=sys.stderr, flush=True)
    message = json.loads(line)
    note(message["method"])
    if message["method"] in answers:
        said = {"jsonrpc": "2.0", "id": message["id"], "result": answers[message["method"]]}
        print(json.dumps(said), flush=True)
note("end of input")
time.sleep(600)
"""


@covers(
    "2025-11-25:stdio-stderr-not-error",
    "2025-11-25:stdio-stdin-only-mcp",
    "2025-11-25:shutdown-close-stdin",
    "2026-07-28:stdio-stderr-not-error",
    "2026-07-28:stdio-stdin-only-mcp",
    "2026-07-28:stdio-shutdown-close-stdin",
    "2026-07-28:stdio-probe-with-discover",
    "2026-07-28:stdio-probe-recommended",
)
@pytest.mark.parametrize("generation", [None, "2025-11-25", "2026-07-28"])
async def test_stdio_server_sees_handshake_request_end_of_input_and_sigterm(
    generation: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(stdio, "PATIENCE_S", 0.5)
    notes = tmp_path / "notes"
    tools = {"tools": [], "ttlMs": 0, "cacheScope": "public"}
    answers = {"server/discover": DISCOVERED, "initialize": INITIALIZED, "tools/list": tools}

    command = [sys.executable, "-c", SERVER, str(notes), json.dumps(answers)]
    async with connect(command, generation=generation) as session:
        assert await session.tools() == []
    hello = ["server/discover"]
    if generation == "2025-11-25":
        hello = ["initialize", "notifications/initialized"]
    assert notes.read_text().splitlines() == [*hello, "tools/list", "end of input", "SIGTERM"]
    assert "said by the server" in capfd.readouterr().err
