"""Requests received as tasks on real connections: capabilities, messages and the checker."""

import asyncio
import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from taskmachine.adapters.client.connect import connect
from taskmachine.adapters.client.receiving import Receiver
from taskmachine.adapters.client.remote_task import Question
from taskmachine.adapters.conformance.clients.report import ClientRun
from taskmachine.adapters.conformance.clients.run import SCENARIOS, Transport
from taskmachine.adapters.conformance.clients.script import Scenario
from taskmachine.statemachine import ConfigurationError
from tests.adapters.client.scripted import (
    DONE,
    FORM,
    INITIALIZED,
    TOOL,
    Exchange,
    Json,
    legacy,
    modern,
    serving,
)
from tests.conformance.clients import our_client
from tests.conformance.clients.playing import broken, findings, played, words_of
from tests.oracle import judge
from tests.requirements import covers

ELICITATION: Json = {"elicitation": {"create": {}}}
SAMPLING: Json = {"sampling": {"createMessage": {}}}
ADA: Json = {"action": "accept", "content": {"name": "Ada"}}


async def answer(question: Question) -> Json:
    return ADA


@covers("2025-11-25:capability-requests-exhaustive")
@pytest.mark.parametrize(
    ("sampling", "requests"), [(False, ELICITATION), (True, {**ELICITATION, **SAMPLING})]
)
async def test_client_declares_tasks_only_for_requests_it_answers(
    sampling: bool, requests: Json
) -> None:
    async with serving(legacy(lambda _: asyncio.sleep(0))) as server:
        async with connect(server.url, answer=answer, sampling=sampling, receive=Receiver()):
            pass
        capabilities = server.of("initialize")[0].params["capabilities"]
        judge("2025-11-25", "ClientCapabilities").validate(capabilities)
        # A client has no tools
        assert capabilities["tasks"] == {"list": {}, "cancel": {}, "requests": requests}


@covers("2025-11-25:undeclared-type-processed-normally")
async def test_without_a_receiver_nothing_is_declared_and_nothing_is_a_task() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.stream()
        for id, method in enumerate(("elicitation/create", "tasks/list")):
            params = {**FORM, "task": {}} if id == 0 else {}
            await exchange.event({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        await exchange.server.until("answer", 2)
        await exchange.event(exchange.answer(DONE))

    async with serving(legacy(script, TOOL)) as server:
        async with connect(server.url, generation="2025-11-25", answer=answer) as session:
            await (await session.call("work")).result()
        assert "tasks" not in server.of("initialize")[0].params["capabilities"]
        said = {e.message["id"]: e.message for e in server.of("answer")}
        assert said[0]["result"] == ADA
        assert said[1]["error"]["code"] == -32601


async def test_client_declares_no_tasks_to_a_2026_07_28_server() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.result({"resultType": "complete", **DONE})

    async with serving(modern(script)) as server:
        async with connect(server.url, answer=answer, receive=Receiver()) as session:
            assert await (await session.call("work")).result()
        for exchange in server.seen:
            capabilities = exchange.params["_meta"]["io.modelcontextprotocol/clientCapabilities"]
            assert "tasks" not in capabilities


async def test_over_http_tasks_and_plain_questions_go_side_by_side() -> None:
    """A request without a task is answered directly."""
    may_answer = asyncio.Event()

    async def slow(question: Question) -> Json:
        if question.message == "later":
            await may_answer.wait()
        return ADA

    async def script(exchange: Exchange) -> None:
        async def ask(id: int, method: str, **params: Any) -> Json:
            await exchange.event({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
            while True:
                for seen in exchange.server.of("answer"):
                    if seen.message["id"] == id:
                        said: Json = seen.message
                        return said
                await exchange.server.until("answer", len(exchange.server.of("answer")) + 1)

        await exchange.stream()
        created = await ask(1, "elicitation/create", **{**FORM, "message": "later"}, task={})
        task_id = created["result"]["task"]["taskId"]
        assert (await ask(2, "elicitation/create", **FORM))["result"] == ADA
        assert (await ask(3, "ping"))["result"] == {}
        assert (await ask(4, "tasks/get", taskId=task_id))["result"]["status"] == "working"
        may_answer.set()
        assert (await ask(5, "tasks/result", taskId=task_id))["result"]["action"] == "accept"
        await exchange.event(exchange.answer(DONE))

    async def noted(exchange: Exchange) -> None:
        if exchange.what == "notifications/tasks/status":
            judge("2025-11-25", "TaskStatusNotification").validate(exchange.message)
            await exchange.reply(202)
        else:
            await script(exchange)

    async with serving(legacy(noted, TOOL)) as server:
        async with connect(
            server.url, generation="2025-11-25", answer=slow, receive=Receiver()
        ) as session:
            assert await (await session.call("work")).result() == DONE
            told = await server.until("notifications/tasks/status", 2)
        assert told.params["status"] == "completed"


async def test_renewed_session_keeps_tasks_but_not_pending_requests() -> None:
    asked: list[Json] = []

    async def never(_: Question) -> Json:
        said: Json = await asyncio.get_running_loop().create_future()
        return said

    async def script(exchange: Exchange) -> None:
        async def ask(id: int, method: str, **params: Any) -> Json:
            before = len(exchange.server.of("answer"))
            await exchange.event({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
            said: Json = (await exchange.server.until("answer", before + 1)).message
            assert said["id"] == id
            return said

        if exchange.what != "tools/call":
            await exchange.reply(202)
        elif len(exchange.server.of("initialize")) == 1 and asked:
            await exchange.reply(404)
        elif not asked:
            await exchange.stream()
            asked.append(await ask(1, "elicitation/create", **FORM, task={}))
            task_id = asked[0]["result"]["task"]["taskId"]
            blocking = {"id": 2, "method": "tasks/result", "params": {"taskId": task_id}}
            await exchange.event({"jsonrpc": "2.0", **blocking})
            await ask(3, "ping")
            await exchange.event(exchange.answer(DONE))
        else:
            await exchange.stream()
            task_id = asked[0]["result"]["task"]["taskId"]
            asked.append(await ask(2, "tasks/get", taskId=task_id))
            await exchange.event(exchange.answer(DONE))

    async with serving(legacy(script, TOOL)) as server:
        async with connect(
            server.url, generation="2025-11-25", answer=never, receive=Receiver()
        ) as session:
            assert await (await session.call("work")).result() == DONE
            assert await (await session.call("work")).result() == DONE
        assert len(server.of("initialize")) == 2
        assert asked[1]["result"]["status"] == "working"


LEAVING = """
import json, sys

answers = json.loads(sys.argv[1])
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") in answers:
        said = {"jsonrpc": "2.0", "id": message["id"], "result": answers[message["method"]]}
        print(json.dumps(said), flush=True)
    if message.get("method") == "notifications/initialized":
        params = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create"}
        print(json.dumps({**asked, "params": {**params, "task": {}}}), flush=True)
    if message.get("params", {}).get("statusMessage"):
        sys.exit()
"""


async def test_a_server_that_dies_leaves_no_prompt_behind() -> None:
    is_asked, is_taken_away = asyncio.Event(), asyncio.Event()

    async def answer(_: Question) -> Json:
        is_asked.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            is_taken_away.set()
        raise AssertionError

    answers = json.dumps({"initialize": INITIALIZED})
    command = [sys.executable, "-c", LEAVING, answers]
    async with (
        connect(command, generation="2025-11-25", answer=answer, receive=Receiver()),
        asyncio.timeout(10),
    ):
        await is_asked.wait()
        await is_taken_away.wait()


async def test_receiver_without_an_answer_callback_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="answer"):
        async with connect("http://127.0.0.1:1/mcp", receive=Receiver()):
            raise AssertionError("connected")


# --- the tester ------------------------------------------------------------------------------

MOMENT_S = 0.6
CASES: list[tuple[str, Transport]] = list(
    itertools.product(("2025-11-25", "2026-07-28"), ("http", "stdio"))
)
CANCELLING = {
    "2025-11-25:cancel-answers-with-task",
    "2025-11-25:cancelled-sticks",
    "2025-11-25:result-of-cancelled-task",
    "2025-11-25:cancelled-request-not-answered",
}
RECEIVING = {
    "2025-11-25:create-result-returned",
    "2025-11-25:result-matches-request-type",
    "2025-11-25:result-blocks",
    "2025-11-25:related-task-on-result",
    "2025-11-25:get-unknown-32602",
    "2025-11-25:result-unknown-32602",
    "2025-11-25:cancel-unknown-32602",
    "2025-11-25:list-bad-cursor-32602",
    "2025-11-25:cancel-terminal-refused",
    *CANCELLING,
}


async def _takes_a_moment(question: Question) -> Json:
    await asyncio.sleep(MOMENT_S)  # long enough for a server to cancel
    return await our_client.answer(question)


async def _client(revision: str, address: str) -> None:
    """Call every tool, and receive requests as tasks."""
    async with connect(
        address if address.startswith("http") else words_of(address),
        generation=revision,
        answer=_takes_a_moment,
        sampling=True,
        receive=Receiver(),
        timeout=20,
    ) as session:
        for tool in await session.tools():
            await our_client.call(session, tool)


@pytest.fixture(scope="module")
def runs() -> Mapping[tuple[str, Transport], Sequence[ClientRun]]:
    """Run all scenarios with questions concurrently, as they mostly wait."""

    async def one(scenario: Scenario, transport: Transport) -> ClientRun:
        return await played(lambda to: _client(scenario.revision, to), scenario, transport)

    async def case(revision: str, transport: Transport) -> list[ClientRun]:
        fitting = [s for s in SCENARIOS[revision] if transport in s.transports]
        asking = [s for s in fitting if s.name in ("receiver", "asking")]
        return await asyncio.gather(*(one(scenario, transport) for scenario in asking))

    async def all_of_them() -> list[list[ClientRun]]:
        return await asyncio.gather(*itertools.starmap(case, CASES))

    return dict(zip(CASES, asyncio.run(all_of_them()), strict=True))


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_the_tester_finds_nothing(
    case: tuple[str, Transport], runs: Mapping[tuple[str, Transport], Sequence[ClientRun]]
) -> None:
    assert not broken(runs[case])
    exercised = {finding.id for finding in findings(runs[case]) if finding.times}
    assert exercised >= (RECEIVING if case[0] == "2025-11-25" else set())
