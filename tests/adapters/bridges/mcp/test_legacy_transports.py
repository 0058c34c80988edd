"""Tasks of 2025-11-25 on restricted transports: stateless, JSON responses, and with users."""

import asyncio
import gc
from typing import Any, Final

import httpx
import pytest
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl

from taskmachine.adapters.transports.connection.conversation import Conversation
from tests.adapters.bridges.mcp.legacy_client import (
    FORM,
    RELATED,
    LegacyClient,
    LegacyServer,
    accept,
    serving_legacy,
    with_client,
)
from tests.adapters.connections import CLIENT_CAPABILITIES, meta_2026

JSON = dict[str, Any]
STATELESS: Final[JSON] = {"stateless_http": True}
ONE_BODY: Final[JSON] = {"json_response": True}


@pytest.mark.parametrize("transport", [STATELESS, ONE_BODY, STATELESS | ONE_BODY])
def test_a_task_needs_no_way_back_to_the_client(transport: JSON) -> None:
    async def act(_: LegacyServer, client: LegacyClient) -> None:
        task_id = await client.create("count", {"to": 2, "pause_ms": 0})
        done = (await client.ask("tasks/result", {"taskId": task_id}))["result"]
        assert done["structuredContent"] == {"counted": 2}
        assert done["_meta"][RELATED] == {"taskId": task_id}
        shown = (await client.ask("tasks/get", {"taskId": task_id}))["result"]
        assert shown["status"] == "completed"
        assert (await client.error("tasks/cancel", {"taskId": task_id}))["code"] == -32602

    with_client(act, **transport)


@pytest.mark.parametrize("transport", [STATELESS, ONE_BODY, STATELESS | ONE_BODY])
def test_question_fails_at_once_on_a_transport_without_server_requests(transport: JSON) -> None:
    async def act(_: LegacyServer, client: LegacyClient) -> None:
        task_id = await client.create("deploy", {"version": "1"})
        await client.until_status(task_id, "failed")
        error = await client.error("tasks/result", {"taskId": task_id})
        assert "elicitation/create" in error["message"]

    with_client(act, **transport)


@pytest.mark.parametrize("transport", [STATELESS, ONE_BODY, STATELESS | ONE_BODY])
def test_server_declares_no_task_list_where_callers_are_indistinguishable(transport: JSON) -> None:
    async def act(server: LegacyServer, client: LegacyClient) -> None:
        hello = (await server.client().introduce({}))["result"]
        assert hello["capabilities"]["tasks"] == {"cancel": {}, "requests": {"tools": {"call": {}}}}
        await client.create("count", {"to": 1, "pause_ms": 0})
        assert (await client.error("tasks/list"))["code"] == -32601

    with_client(act, **transport)


def test_a_request_whose_answer_is_one_body_has_its_progress_on_the_general_stream() -> None:
    async def act(_: LegacyServer, client: LegacyClient) -> None:
        async with client.listening() as general:
            arguments = {"to": 2, "pause_ms": 100}
            task_id = await client.create("count", arguments, _meta={"progressToken": "p"})
            await client.ask("tasks/result", {"taskId": task_id})
            heard = [await general.message("notifications/progress") for _ in range(2)]
            assert [message["params"]["progress"] for message in heard] == [1, 2]

    with_client(act, **ONE_BODY)


def test_without_a_session_each_request_has_to_say_its_revision() -> None:
    async def act(_: LegacyServer, client: LegacyClient) -> None:
        task_id = await client.create("count", {"to": 1, "pause_ms": 0})
        del client.headers["mcp-protocol-version"]
        assert (await client.error("tasks/get", {"taskId": task_id}))["code"] == -32601

    with_client(act, **STATELESS)


# --- users -----------------------------------------------------------------------------------


class Book:
    """Accepts tokens of the form `user-anything`."""

    async def verify_token(self, token: str) -> AccessToken | None:
        user, _, _ = token.partition("-")
        return AccessToken(
            token=token, client_id="app", scopes=[], subject=user, claims={"iss": "https://id.test"}
        )


AUTH: Final[JSON] = {
    "auth": AuthSettings(
        issuer_url=AnyHttpUrl("https://id.test"),
        resource_server_url=AnyHttpUrl("http://127.0.0.1/mcp"),
        validate_token_resource=False,
    ),
    "token_verifier": Book(),
}


@pytest.mark.parametrize("transport", [{}, STATELESS, ONE_BODY])
def test_user_sees_the_same_tasks_in_every_session_and_only_own_tasks(transport: JSON) -> None:
    async def act() -> None:
        async with serving_legacy(options=AUTH, **transport) as server:
            ada = await server.connect("ada-1")
            task_id = await ada.create("count", {"to": 1, "pause_ms": 0})
            again = server.client("ada-2")
            hello = (await again.introduce(FORM))["result"]
            assert hello["capabilities"]["tasks"]["list"] == {}
            listed = (await again.ask("tasks/list"))["result"]["tasks"]
            assert [task["taskId"] for task in listed] == [task_id]
            done = (await again.ask("tasks/result", {"taskId": task_id}))["result"]
            assert done["structuredContent"] == {"counted": 1}

            bob = await server.connect("bob-1")
            assert (await bob.ask("tasks/list"))["result"]["tasks"] == []
            foreign = await bob.error("tasks/get", {"taskId": task_id})
            assert foreign == await bob.error("tasks/get", {"taskId": "no-such-task"})

    asyncio.run(act())


def test_question_survives_the_session_it_was_asked_in() -> None:
    async def act() -> None:
        async with serving_legacy(options=AUTH) as server:
            ada = await server.connect("ada-1")
            task_id = await ada.create("deploy", {"version": "1"})
            async with ada.asking("tasks/result", {"taskId": task_id}) as stream:
                await stream.message("elicitation/create")
                await ada.leave()
            again = await server.connect("ada-2")
            task = (await again.ask("tasks/get", {"taskId": task_id}))["result"]
            assert task["status"] == "input_required"
            async with again.asking("tasks/result", {"taskId": task_id}) as stream:
                await again.send(accept(await stream.message("elicitation/create")))
                assert "result" in await stream.answer()

    asyncio.run(act())


def test_nothing_is_kept_of_connections_that_have_ended() -> None:
    async def act() -> None:
        before = len(conversations())
        async with serving_legacy(options=AUTH) as server:
            visitors = [await server.connect("ada-1") for _ in range(5)]
            made = [await client.create("deploy", {"version": "1"}) for client in visitors]
            assert len(conversations()) == before + 5
            for client in visitors:
                await client.leave()
            async with asyncio.timeout(10):
                while len(conversations()) > before:
                    await asyncio.sleep(0.01)
            ada = await server.connect("ada-2")
            for task_id in made:  # they are still live
                await ada.ask("tasks/cancel", {"taskId": task_id})

    asyncio.run(act())


def conversations() -> list[Conversation]:
    gc.collect()
    return [thing for thing in gc.get_objects() if isinstance(thing, Conversation)]


def test_a_user_sees_the_same_task_in_both_generations() -> None:
    async def act() -> None:
        async with serving_legacy(options=AUTH) as server, httpx.AsyncClient() as http:
            ada = await server.connect("ada-1")
            task_id = await ada.create("count", {"to": 1, "pause_ms": 0})
            done = (await ada.ask("tasks/result", {"taskId": task_id}))["result"]
            headers = {
                "accept": "application/json, text/event-stream",
                "authorization": "Bearer ada-2",
                "mcp-protocol-version": "2026-07-28",
                "mcp-method": "tasks/get",
                "mcp-name": task_id,
            }
            look = {"taskId": task_id, "_meta": meta_2026(CLIENT_CAPABILITIES)}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": look}
            task = (await http.post(server.url, headers=headers, json=message)).json()["result"]
            assert task["status"] == "completed"
            assert task["result"]["structuredContent"] == done["structuredContent"]

    asyncio.run(act())
