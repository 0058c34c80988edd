# mypy: ignore-errors
"""A client session of `mcp` 1.x receives requests as tasks: its messages on the wire."""

import asyncio
import contextlib
import json
from itertools import count

import anyio
import pytest
from mcp import ClientSession, types
from mcp.server.lowlevel import Server
from mcp.shared.memory import create_client_server_memory_streams
from mcp.shared.message import SessionMessage

from taskmachine.adapters.bridges.mcp1.client import receive_tasks
from taskmachine.adapters.client.receiving import Receiver
from taskmachine.statemachine import ConfigurationError
from tests.adapters.bridges.mcp1.served import alive

pytestmark = pytest.mark.filterwarnings("ignore:The experimental tasks API:DeprecationWarning")

RELATED = "io.modelcontextprotocol/related-task"
PATIENCE_S = 10
FORM = {
    "message": "Your name?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
}
SAMPLING = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "2+2?"}}],
    "maxTokens": 10,
}
FOUR = types.CreateMessageResult(
    role="assistant", content=types.TextContent(type="text", text="4"), model="none"
)
ADA = types.ElicitResult(action="accept", content={"name": "Ada"})


class Person:
    """The callbacks of a client; the test triggers the answers."""

    def __init__(self):
        self.asked = asyncio.Queue()
        self.taken_away = asyncio.Event()

    async def elicit(self, context, params):
        return await self._answer(context, params)

    async def sample(self, context, params):
        return await self._answer(context, params)

    async def _answer(self, context, params):
        said = asyncio.get_running_loop().create_future()
        self.asked.put_nowait((context, params, said))
        try:
            return await said
        except asyncio.CancelledError:
            self.taken_away.set()
            raise


class RawServer:
    def __init__(self, read, write):
        self._read, self._write = read, write
        self._ids = count(1)
        self._waiting = {}
        self.capabilities = None
        self.told = []
        self.news = asyncio.Event()

    async def serve(self):
        async for item in self._read:
            said = item.message.root.model_dump(by_alias=True, mode="json", exclude_none=True)
            if said.get("method") == "initialize":
                self.capabilities = said["params"]["capabilities"]
                hello = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {},
                    "serverInfo": {"name": "raw", "version": "1"},
                }
                await self.say(id=said["id"], result=hello)
            elif said.get("method") == "ping":
                await self.say(id=said["id"], result={})
            elif said.get("method") == "notifications/tasks/status":
                self.told.append(said["params"])
                self.news.set()
            elif "method" not in said:
                self._waiting.pop(said["id"]).set_result(said)

    async def say(self, **message):
        text = json.dumps({"jsonrpc": "2.0", **message})
        await self._write.send(SessionMessage(types.JSONRPCMessage.model_validate_json(text)))

    async def begin(self, method, **params):
        id = next(self._ids)
        waiting = self._waiting[id] = asyncio.get_running_loop().create_future()
        await self.say(id=id, method=method, params=params)
        return id, waiting

    async def ask(self, method, **params):
        async with asyncio.timeout(PATIENCE_S):
            return await (await self.begin(method, **params))[1]

    async def until(self, status):
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for told in self.told:
                    if told["status"] == status:
                        return told
                self.news.clear()
                await self.news.wait()


@contextlib.asynccontextmanager
async def connected(handlers, person):
    """Connect a session of the SDK to a raw server."""
    async with create_client_server_memory_streams() as (client, server):
        raw = RawServer(*server)
        serving = asyncio.create_task(raw.serve())
        try:
            async with ClientSession(
                *client,
                sampling_callback=person.sample,
                elicitation_callback=person.elicit,
                experimental_task_handlers=handlers,
            ) as session:
                await session.initialize()
                yield session, raw
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


@contextlib.asynccontextmanager
async def received(person, **terms):
    callbacks = {"sampling": person.sample, "elicitation": person.elicit}
    async with (
        receive_tasks(**callbacks, **terms) as handlers,
        connected(handlers, person) as connection,
    ):
        yield connection


@alive
async def test_session_serves_other_requests_while_a_question_task_waits():
    person = Person()
    async with received(person) as (session, server):
        assert server.capabilities["tasks"] == {
            "list": {},
            "cancel": {},
            "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
        }
        task = (await server.ask("elicitation/create", **FORM, task={}))["result"]["task"]
        assert (task["status"], task["ttl"], task["pollInterval"]) == ("working", 60_000, 2_000)
        context, params, said = await person.asked.get()
        assert params.message == "Your name?"
        assert context.session is session
        _, result = await server.begin("tasks/result", taskId=task["taskId"])
        # Both sides can send requests while the result is pending.
        shown = (await server.ask("tasks/get", taskId=task["taskId"]))["result"]
        assert (shown["status"], "user" in shown["statusMessage"]) == ("working", True)
        async with asyncio.timeout(PATIENCE_S):
            await session.send_ping()
        listed = (await server.ask("tasks/list"))["result"]["tasks"]
        assert [each["taskId"] for each in listed] == [task["taskId"]]
        assert not result.done()
        said.set_result(ADA)
        async with asyncio.timeout(PATIENCE_S):
            assert (await result)["result"] == {
                "action": "accept",
                "content": {"name": "Ada"},
                "_meta": {RELATED: {"taskId": task["taskId"]}},
            }
        assert (await server.until("completed"))["taskId"] == task["taskId"]


@alive
async def test_sampling_is_a_task_and_a_refusal_fails():
    person = Person()
    async with received(person) as (_, server):
        task = (await server.ask("sampling/createMessage", **SAMPLING, task={}))["result"]
        _, params, said = await person.asked.get()
        assert params.messages[0].content.text == "2+2?"
        said.set_result(FOUR)
        result = (await server.ask("tasks/result", taskId=task["task"]["taskId"]))["result"]
        assert (result["model"], result["content"]["text"]) == ("none", "4")
        task = (await server.ask("sampling/createMessage", **SAMPLING, task={}))["result"]
        _, _, said = await person.asked.get()
        said.set_result(types.ErrorData(code=-1, message="User declined sampling request"))
        refused = await server.ask("tasks/result", taskId=task["task"]["taskId"])
        assert refused["error"] == {"code": -1, "message": "User declined sampling request"}
        assert (await server.until("failed"))["statusMessage"] == refused["error"]["message"]


@alive
async def test_a_cancel_takes_the_prompt_away():
    person = Person()
    async with received(person) as (_, server):
        task = (await server.ask("elicitation/create", **FORM, task={}))["result"]["task"]
        await person.asked.get()
        _, result = await server.begin("tasks/result", taskId=task["taskId"])
        cancelled = (await server.ask("tasks/cancel", taskId=task["taskId"]))["result"]
        assert cancelled["status"] == "cancelled"
        async with asyncio.timeout(PATIENCE_S):
            await person.taken_away.wait()
            assert (await result)["error"]["message"] == "Task cancelled"
        again = await server.ask("tasks/cancel", taskId=task["taskId"])
        assert again["error"]["code"] == -32602
        unknown = await server.ask("tasks/get", taskId="none")
        assert unknown["error"]["code"] == -32602


@alive
async def test_server_can_repeat_a_cancelled_tasks_result_request():
    person = Person()
    async with received(person) as (_, server):
        task = (await server.ask("elicitation/create", **FORM, task={}))["result"]["task"]
        _, _, said = await person.asked.get()
        id, result = await server.begin("tasks/result", taskId=task["taskId"])
        await server.ask("tasks/get", taskId=task["taskId"])
        params = {"requestId": id}
        await server.say(method="notifications/cancelled", params=params)
        async with asyncio.timeout(PATIENCE_S):
            assert "error" in await result  # the SDK's answer to a cancelled request
        said.set_result(ADA)
        again = await server.ask("tasks/result", taskId=task["taskId"])
        assert again["result"]["action"] == "accept"


@alive
async def test_request_without_task_goes_directly_to_the_callback():
    person = Person()
    async with received(person) as (_, server):
        _, plain = await server.begin("elicitation/create", **FORM)
        _, _, said = await person.asked.get()
        said.set_result(ADA)
        async with asyncio.timeout(PATIENCE_S):
            result = (await plain)["result"]
        assert result == {"action": "accept", "content": {"name": "Ada"}}


@alive
async def test_another_session_sees_nothing():
    person = Person()
    callbacks = {"sampling": person.sample, "elicitation": person.elicit}
    async with receive_tasks(**callbacks) as handlers, connected(handlers, person) as (_, ours):
        made = await ours.ask("elicitation/create", **FORM, task={})
        task_id = made["result"]["task"]["taskId"]
        async with connected(handlers, person) as (_, theirs):
            for method in ("tasks/get", "tasks/result", "tasks/cancel"):
                assert "error" in await theirs.ask(method, taskId=task_id)
            assert "error" in await theirs.ask("tasks/list")
            assert "error" in await theirs.ask("elicitation/create", **FORM, task={})
        assert (await ours.ask("tasks/get", taskId=task_id))["result"]["status"] == "working"


@alive
async def test_client_declares_only_requests_that_have_a_callback():
    person = Person()
    async with receive_tasks(elicitation=person.elicit) as handlers:
        requests = handlers.build_capability().requests
        assert (requests.elicitation is not None, requests.sampling) == (True, None)
    with pytest.raises(ConfigurationError):
        async with receive_tasks():
            raise AssertionError("opened")


@alive
async def test_an_open_prompt_does_not_keep_anybody_from_leaving():
    person = Person()
    async with asyncio.timeout(PATIENCE_S):
        async with received(person) as (_, server):
            made = await server.ask("elicitation/create", **FORM, task={})
            await person.asked.get()
            await server.begin("tasks/result", taskId=made["result"]["task"]["taskId"])
            await server.ask("tasks/list")
        assert person.taken_away.is_set()


@alive
async def test_a_server_of_the_sdk_asks_by_tasks():
    """The SDK's own helpers create, poll and collect."""
    person = Person()
    server = Server("asker")

    @server.list_tools()
    async def list_tools():
        return [types.Tool(name="ask", inputSchema={"type": "object"})]

    @server.call_tool()
    async def call_tool(name, arguments):
        session = server.request_context.session
        form = await session.experimental.elicit_as_task(**FORM)
        messages = [types.SamplingMessage.model_validate(m) for m in SAMPLING["messages"]]
        said = await session.experimental.create_message_as_task(messages, max_tokens=10)
        text = f"{form.content['name']} says {said.content.text}"
        return [types.TextContent(type="text", text=text)]

    async def answer():
        for said in (ADA, FOUR):
            (await person.asked.get())[2].set_result(said)

    callbacks = {"sampling": person.sample, "elicitation": person.elicit}
    terms = Receiver(poll_interval=0.01)
    async with (
        create_client_server_memory_streams() as (client, theirs),
        anyio.create_task_group() as group,
        receive_tasks(**callbacks, receiver=terms) as handlers,
    ):
        options = server.create_initialization_options()
        group.start_soon(lambda: server.run(*theirs, options))
        async with ClientSession(
            *client,
            sampling_callback=person.sample,
            elicitation_callback=person.elicit,
            experimental_task_handlers=handlers,
        ) as session:
            await session.initialize()
            group.start_soon(answer)
            async with asyncio.timeout(PATIENCE_S):
                result = await session.call_tool("ask", {})
            assert result.content[0].text == "Ada says 4"
        group.cancel_scope.cancel()
