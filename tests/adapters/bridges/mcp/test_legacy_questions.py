"""Questions and notifications of tasks of 2025-11-25 over HTTP: on which stream, and until when."""

import asyncio
from typing import Any

from tests.adapters.bridges.mcp.legacy_client import (
    RELATED,
    LegacyClient,
    LegacyServer,
    accept,
    with_client,
)

JSON = dict[str, Any]


async def asked(client: LegacyClient) -> str:
    """Create a task that waits for an answer."""
    task_id = await client.create("deploy", {"version": "1"})
    await client.until_status(task_id, "input_required")
    return task_id


def test_a_question_comes_where_the_result_is_waited_for_and_names_its_task() -> None:
    async def act(_: LegacyServer, client: LegacyClient) -> None:
        task_id = await asked(client)  # the client may have no other stream
        async with client.asking("tasks/result", {"taskId": task_id}) as stream:
            question = await stream.message("elicitation/create")
            assert question["params"]["_meta"][RELATED] == {"taskId": task_id}
            assert question["params"]["message"] == "Deploy 1?"
            await client.send(accept(question))
            done = (await stream.answer())["result"]
            assert done["content"][0]["text"] == "1 is deployed to test."
            assert done["_meta"][RELATED] == {"taskId": task_id}

    with_client(act)


def test_server_asks_a_polling_client_on_the_general_stream_if_it_is_read() -> None:
    async def act(_: LegacyServer, client: LegacyClient) -> None:
        async with client.listening() as general:
            task_id = await asked(client)
            ping = await general.message("ping")
            assert "elicitation/create" not in str(general.received)
            await client.send({"id": ping["id"], "result": {}})
            looking = asyncio.create_task(client.until_status(task_id, "completed"))
            question = await general.message("elicitation/create")
            assert question["params"]["_meta"][RELATED] == {"taskId": task_id}
            await client.send(accept(question))
            await looking

    with_client(act)


def test_server_asks_no_question_on_a_stream_with_an_unanswered_ping() -> None:
    async def act(_: LegacyServer, client: LegacyClient) -> None:
        async with client.listening() as general:
            task_id = await asked(client)
            await general.message("ping")
            async with client.asking("tasks/result", {"taskId": task_id}) as stream:
                await client.send(accept(await stream.message("elicitation/create")))
                await stream.answer()
            last = await general.until(lambda m: m["params"].get("status") == "completed")
            assert last["params"]["taskId"] == task_id
            assert "elicitation/create" not in str(general.received)

    with_client(act)


def test_a_question_on_a_general_stream_that_broke_comes_where_the_result_is_waited_for() -> None:
    async def act(_: LegacyServer, client: LegacyClient) -> None:
        async with client.listening() as general:
            task_id = await asked(client)
            looking = asyncio.create_task(client.until_status(task_id, "completed"))
            while (first := await general.next()).get("method") != "elicitation/create":
                if first["method"] == "ping":
                    await client.send({"id": first["id"], "result": {}})
        async with client.asking("tasks/result", {"taskId": task_id}) as stream:
            second = await stream.message("elicitation/create")
            assert second["id"] != first["id"]
            await client.send(accept(second))
            assert "result" in await stream.answer()
        await looking

    with_client(act)


def test_a_question_whose_stream_broke_is_asked_again_on_the_next_one() -> None:
    async def act(_: LegacyServer, client: LegacyClient) -> None:
        task_id = await asked(client)
        async with client.asking("tasks/result", {"taskId": task_id}) as broken:
            first = await broken.message("elicitation/create")
        async with client.asking("tasks/result", {"taskId": task_id}) as stream:
            second = await stream.message("elicitation/create")
            assert second["id"] != first["id"]
            assert second["params"] == first["params"]
            await client.send(accept(second))
            assert "result" in await stream.answer()

    with_client(act)


def test_server_sends_each_question_once_to_concurrent_result_requests() -> None:
    async def act(_: LegacyServer, client: LegacyClient) -> None:
        task_id = await asked(client)
        async with (
            client.asking("tasks/result", {"taskId": task_id}) as first,
            client.asking("tasks/result", {"taskId": task_id}) as second,
        ):
            await client.send(accept(await first.message("elicitation/create")))
            assert (await first.answer())["result"] == (await second.answer())["result"]
            assert len(second.received) == 1

    with_client(act)


def test_server_withdraws_the_question_of_a_cancelled_task_before_the_result() -> None:
    async def act(_: LegacyServer, client: LegacyClient) -> None:
        task_id = await asked(client)
        async with client.asking("tasks/result", {"taskId": task_id}) as stream:
            question = await stream.message("elicitation/create")
            cancelled = (await client.ask("tasks/cancel", {"taskId": task_id}))["result"]
            assert cancelled["status"] == "cancelled"
            answer = await stream.answer()
            [withdrawal] = [
                message
                for message in stream.received
                if message.get("method") == "notifications/cancelled"
            ]
            assert withdrawal["params"]["requestId"] == question["id"]
            assert isinstance(answer["error"]["code"], int)
            again = await client.error("tasks/cancel", {"taskId": task_id})
            assert again["code"] == -32602

    with_client(act)


def test_client_can_repeat_a_cancelled_tasks_result_request() -> None:
    async def act(_: LegacyServer, client: LegacyClient) -> None:
        task_id = await asked(client)
        async with client.asking("tasks/result", {"taskId": task_id}, id="tired") as stream:
            question = await stream.message("elicitation/create")
            cancel = {"method": "notifications/cancelled", "params": {"requestId": "tired"}}
            await client.send(cancel)
            withdrawal = await stream.message("notifications/cancelled")
            assert withdrawal["params"]["requestId"] == question["id"]
        async with client.asking("tasks/result", {"taskId": task_id}) as stream:
            await client.send(accept(await stream.message("elicitation/create")))
            assert "result" in await stream.answer()

    with_client(act)


def test_error_answer_to_a_question_reaches_the_tool_as_an_error() -> None:
    async def act(_: LegacyServer, client: LegacyClient) -> None:
        task_id = await asked(client)
        async with client.asking("tasks/result", {"taskId": task_id}) as stream:
            question = await stream.message("elicitation/create")
            refusal = {"code": -1, "message": "User rejected the form"}
            await client.send({"id": question["id"], "error": refusal})
            assert "User rejected the form" in str(await stream.answer())
        await client.until_status(task_id, "failed")

    with_client(act)


def test_an_answer_that_is_none_is_an_error_of_the_question() -> None:
    async def act(_: LegacyServer, client: LegacyClient) -> None:
        task_id = await asked(client)
        async with client.asking("tasks/result", {"taskId": task_id}) as stream:
            question = await stream.message("elicitation/create")
            await client.send({"id": question["id"], "result": {"action": "perhaps"}})
            assert "not a valid result of elicitation/create" in str(await stream.answer())
        await client.until_status(task_id, "failed")

    with_client(act)


def test_question_without_declared_capability_fails_the_task_at_once() -> None:
    async def act(server: LegacyServer, _: LegacyClient) -> None:
        client = await server.connect(roots={})
        task_id = await client.create("deploy", {"version": "1"})
        await client.until_status(task_id, "failed")
        error = await client.error("tasks/result", {"taskId": task_id})
        assert "elicitation/create" in error["message"]

    with_client(act)


def test_progress_goes_to_the_result_stream_or_else_the_general_stream() -> None:
    async def act(_: LegacyServer, client: LegacyClient) -> None:
        async with client.listening() as general:
            arguments: JSON = {"to": 2, "pause_ms": 0}
            task_id = await client.create("count", arguments, _meta={"progressToken": "mine"})
            heard = [await general.message("notifications/progress") for _ in range(2)]
            assert [message["params"]["progress"] for message in heard] == [1, 2]
            for message in heard:
                assert message["params"]["progressToken"] == "mine"
                assert message["params"]["_meta"][RELATED] == {"taskId": task_id}

            arguments = {"to": 2, "pause_ms": 200}
            task_id = await client.create("count", arguments, _meta={"progressToken": 7})
            async with client.asking("tasks/result", {"taskId": task_id}) as stream:
                await stream.answer()
                heard = stream.received[:-1]
                assert [message["params"]["progress"] for message in heard] == [1, 2]
                assert all(message["params"]["progressToken"] == 7 for message in heard)

    with_client(act)


def test_server_sends_each_status_once_and_none_after_a_terminal_status() -> None:
    async def act(_: LegacyServer, client: LegacyClient) -> None:
        async with client.listening() as general:
            task_id = await client.create("deploy", {"version": "1"})
            asks = await general.until(lambda m: m["params"].get("status") == "input_required")
            assert asks["params"].keys() >= {"taskId", "status", "createdAt", "ttl"}
            await client.ask("tasks/cancel", {"taskId": task_id})
            await general.until(lambda m: m["params"].get("status") == "cancelled")
            other = await client.create("count", {"to": 1, "pause_ms": 0})
            await general.until(lambda m: m["params"].get("status") == "completed")
            told = [message["params"] for message in general.received]
            mine = [task["status"] for task in told if task["taskId"] == task_id]
            assert mine[-1] == "cancelled"
            assert mine.count("input_required") == mine.count("cancelled") == 1
            assert {task["taskId"] for task in told} == {task_id, other}

    with_client(act)
