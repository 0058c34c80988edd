"""Requirements of the revisions for HTTP servers that no other test covers."""

import asyncio
import re
import socket
from contextlib import AsyncExitStack
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import pytest

from taskmachine.adapters.tools.context import Context
from tests.adapters.transports.wire import (
    NAME_FORM,
    NEW,
    OLD,
    Caller,
    Events,
    Gate,
    callers,
    in_both,
    served,
    serving,
    text_of,
)
from tests.requirements import covers

EXTENSION: Final[dict[str, Any]] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


class Tools(Gate):
    """The tools of `Gate`, and one that reports and asks."""

    def __init__(self) -> None:
        super().__init__()

        @self.tools.task()
        async def talk(ctx: Context) -> str:
            await self.open.wait()
            await ctx.progress(1, 2)
            await ctx.ask("name", NAME_FORM)
            await ctx.progress(2, 2)
            return "talked"


async def raw(
    caller: Caller, method: str, params: dict[str, Any], **changed: str
) -> httpx.Response:
    message, headers = caller.request(method, params)
    return await caller.post(message, **{**headers, **changed})


# --- access ----------------------------------------------------------------------------------


@covers(
    "2025-11-25:http-origin-validated",
    "2025-11-25:http-origin-403",
    "2025-11-25:http-origin-403-body",
    "2026-07-28:http-origin-validated",
    "2026-07-28:http-origin-403",
    "2026-07-28:http-origin-403-body",
)
@pytest.mark.parametrize(
    ("revision", "method"), [(OLD, "POST"), (OLD, "GET"), (OLD, "DELETE"), (NEW, "POST")]
)
async def test_every_request_of_a_foreign_origin_is_refused(revision: str, method: str) -> None:
    async with served(revision, Tools) as (caller, _):
        message, headers = caller.request("tools/list", {})
        sent = {**caller.headers, **headers, "origin": "https://evil.example"}
        body: dict[str, Any] = {"json": {"jsonrpc": "2.0", **message}} if method == "POST" else {}
        refused = await caller.client.request(method, caller.url, headers=sent, **body)
        assert refused.status_code == 403
        assert refused.json().keys() == {"jsonrpc", "error"}
        assert "result" in await caller.call("tools/list"), "the session is still there"


@covers("2025-11-25:http-bind-localhost", "2026-07-28:http-bind-localhost")
async def test_a_local_server_listens_at_one_address_only() -> None:
    async with served(NEW, Tools) as (caller, _):
        port = urlsplit(caller.url).port
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port or 0), timeout=5)


@covers("2025-11-25:tool-access-controlled")
@pytest.mark.parametrize("token", [None, "c" * 40])
async def test_an_unauthenticated_call_creates_no_task(
    token: str | None, tokens: dict[str, Any]
) -> None:
    gate = Tools()
    async with serving(gate.tools, auth=tokens) as address, httpx.AsyncClient() as client:
        alice, nobody = Caller(client, address, "a" * 40), Caller(client, address, token)
        await alice.introduce()
        nobody.headers["mcp-session-id"] = alice.headers["mcp-session-id"]
        nobody.is_legacy = True
        call = {"name": "add", "arguments": {"a": 1, "b": 2}, "task": {}}
        assert (await raw(nobody, "tools/call", call)).status_code == 401
        assert (await alice.call("tasks/list"))["result"]["tasks"] == []


@covers("2025-11-25:elicitation-state-per-user", "2025-11-25:elicitation-state-not-session-only")
async def test_only_the_principal_of_a_session_can_answer_its_questions(
    tokens: dict[str, Any],
) -> None:
    gate = Tools()
    async with serving(gate.tools, auth=tokens) as address, httpx.AsyncClient() as client:
        alice, bob = Caller(client, address, "a" * 40), Caller(client, address, "b" * 40)
        await alice.introduce()
        await bob.introduce()
        task_id = await alice.create("greet", {})
        async with alice.stream("tasks/result", {"taskId": task_id}) as events:
            question = await events.next()
            stolen = {"mcp-session-id": alice.headers["mcp-session-id"]}
            asked = await raw(bob, "tasks/result", {"taskId": task_id}, **stolen)
            assert asked.status_code == 404
            forged = {"action": "accept", "content": {"name": "Bob"}}
            reply = {"id": question["id"], "result": forged}
            assert (await bob.post(reply, **stolen)).status_code == 404
            await bob.post(reply)  # in his own session, which has no question
            await alice.answer(question)
            assert text_of(await events.result()) == "Hello, Ada!"


# --- messages and answers --------------------------------------------------------------------


@covers(
    "2025-11-25:http-202-for-notification",
    "2025-11-25:http-error-for-refused-notification",
    "2025-11-25:http-refused-notification-body",
    "2026-07-28:http-202-for-notification",
    "2026-07-28:http-error-for-refused-notification",
    "2026-07-28:http-refused-notification-body",
)
@in_both
async def test_a_notification_is_accepted_or_refused_by_its_status(revision: str) -> None:
    async with served(revision, Tools) as (caller, _):
        version = {"mcp-protocol-version": revision}
        cancelled = {"method": "notifications/cancelled", "params": {"requestId": "nothing"}}
        accepted = await caller.post(cancelled, **version)
        assert (accepted.status_code, accepted.content) == (202, b"")
        for malformed in ({"method": 5}, {"method": "notifications/x", "params": 7}):
            refused = await caller.post(malformed, **version)
            assert refused.status_code == 400
            assert refused.json().keys() == {"jsonrpc", "error"}


@covers(
    "2025-11-25:http-json-or-sse",
    "2025-11-25:get-not-upgraded-to-sse",
    "2025-11-25:get-stream-sse-or-405",
    "2026-07-28:http-json-or-sse",
)
@in_both
async def test_a_response_is_json_or_an_event_stream(revision: str) -> None:
    async with served(revision, Tools) as (caller, _):
        task_id = await caller.create("wait", {})
        for method, params in (
            ("tools/list", {}),
            ("tasks/get", {"taskId": task_id}),
            ("tasks/get", {"taskId": "x"}),
            ("tasks/undo", {}),
            ("tools/call", {"name": "nothing", "arguments": {}}),
        ):
            response = await raw(caller, method, params)
            assert response.headers["content-type"] == "application/json", method
        waiting: tuple[str, dict[str, Any]] = ("tasks/result", {"taskId": task_id})
        if revision == NEW:
            waiting = "subscriptions/listen", {"notifications": {"taskIds": [task_id]}}
        async with caller.stream(*waiting) as events:  # checks the media type
            assert events.response.status_code == 200
        if revision == OLD:
            async with caller.listen() as general:
                assert general.response.headers["content-type"] == "text/event-stream"


@covers("2025-11-25:streamable-http-still-applies")
@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel", "tasks/list"])
async def test_task_requests_follow_the_rules_of_the_transport(method: str) -> None:
    async with served(OLD, Tools) as (caller, _):
        params = {"taskId": "x"}
        for headers, status in (
            ({"accept": "text/html"}, 406),
            ({"content-type": "text/plain"}, 415),
            ({"mcp-session-id": "nobody"}, 404),
            ({"mcp-protocol-version": "1900-01-01"}, 400),
            ({"origin": "https://evil.example"}, 403),
        ):
            assert (await raw(caller, method, params, **headers)).status_code == status, headers
        del caller.headers["mcp-session-id"]
        assert (await raw(caller, method, params)).status_code == 400


# --- sessions and streams of 2025-11-25 ------------------------------------------------------


@covers(
    "2025-11-25:session-id-assigned",
    "2025-11-25:session-id-secure",
    "2025-11-25:session-id-visible-ascii",
)
async def test_session_ids_are_visible_ascii_and_unpredictable() -> None:
    async with serving(Tools().tools) as address, callers(address, 20) as many:
        for caller in many:
            await caller.introduce()
        ids = {caller.headers["mcp-session-id"] for caller in many}
        assert len(ids) == 20
        assert all(re.fullmatch(r"[\x21-\x7e]{32,}", id) for id in ids)
        assert all(len(set(column)) > 5 for column in zip(*ids, strict=True)), "no pattern"


@covers("2025-11-25:protocol-version-assumed")
async def test_the_session_implies_the_protocol_version() -> None:
    async with served(OLD, Tools) as (caller, _):
        del caller.headers["mcp-protocol-version"]
        task_id = await caller.create("add", {"a": 1, "b": 2})
        assert "result" in await caller.call("tasks/result", {"taskId": task_id})


@covers(
    "2025-11-25:sse-priming-event",
    "2025-11-25:sse-retry-before-close",
    "2025-11-25:get-stream-retry-before-close",
)
async def test_a_stream_begins_with_an_id_and_a_retry_time() -> None:
    async def first_event(events: Events) -> set[str]:
        lines: set[str] = set()
        async for line in events._lines:
            if not line:
                return lines
            lines.add(re.sub(r"\S+\.0$|\d+$", "...", line))
        raise EOFError

    async with served(OLD, Tools) as (caller, _):
        primed = {"id: ...", "retry: ...", "data: "}
        async with caller.stream("tools/call", {"name": "wait", "arguments": {}}) as events:
            assert await first_event(events) == primed
        async with caller.listen() as general:
            assert await first_event(general) == primed
            async with caller.listen():
                assert await general.rest() == [], "closed early, after the retry time"


@covers(
    "2025-11-25:many-streams",
    "2025-11-25:message-on-one-stream",
    "2025-11-25:no-broadcast",
    "2025-11-25:sse-messages-related",
    "2025-11-25:get-stream-unrelated",
    "2025-11-25:get-stream-no-responses",
)
async def test_each_message_is_sent_on_one_stream_only() -> None:
    async with served(OLD, Tools) as (caller, gate):

        async def follow(events: Events) -> list[dict[str, Any]]:
            received: list[dict[str, Any]] = []
            while not received or "result" not in received[-1]:
                received.append(await events.next())
                if received[-1].get("method") == "elicitation/create":
                    await caller.answer(received[-1])
            return received

        async with caller.listen() as general, AsyncExitStack() as stack:
            one, other = [
                await caller.create("talk", {}, _meta={"progressToken": token}) for token in "ab"
            ]
            streams = [
                await stack.enter_async_context(
                    caller.stream("tasks/result", {"taskId": task_id}, id=id)
                )
                for id, task_id in (("one", one), ("again", one), ("other", other))
            ]
            gate.open.set()
            received = await asyncio.gather(*map(follow, streams))
            await caller.client.delete(caller.url, headers=caller.headers)
            on_general = await general.rest()
        for messages, of in zip(received, (one, one, other), strict=True):
            assert f"'taskId': '{one if of == other else other}'" not in str(messages)
        assert [messages[-1]["id"] for messages in received] == ["one", "again", "other"]
        assert {m["method"] for m in on_general} == {"notifications/tasks/status"}
        everything = [*on_general, *(message for messages in received for message in messages[:-1])]
        assert len(everything) == len({str(message) for message in everything}), "no message twice"
        progress = [m["params"] for m in everything if m["method"] == "notifications/progress"]
        assert sorted((p["progressToken"], p["progress"]) for p in progress) == [
            ("a", 1), ("a", 2), ("b", 1), ("b", 2),
        ]  # fmt: skip
        assert len([m for m in everything if m["method"] == "elicitation/create"]) == 2


@covers(
    "2025-11-25:sse-event-ids-unique",
    "2025-11-25:sse-event-ids-name-stream",
    "2025-11-25:resume-no-other-stream",
)
async def test_an_event_id_resumes_its_own_stream_only() -> None:
    async with served(OLD, Tools) as (caller, gate):
        seen: dict[str, str] = {}
        async with AsyncExitStack() as stack:
            for token in "ab":
                meta = {"_meta": {"progressToken": token}}
                task_id = await caller.create("step", {"count": 2}, **meta)
                reading = caller.stream("tasks/result", {"taskId": task_id}, id=token)
                events = await stack.enter_async_context(reading)
                gate.steps.release()
                await events.next()
                seen[token] = str(events.last_id)
                await events.response.aclose()
                gate.steps.release()
        ids = [*seen.values()]
        for token in "ba":
            async with caller.listen(seen[token]) as events:
                progress, answer = await events.next(), await events.next()
                assert progress["params"]["progressToken"] == token
                assert answer["id"] == token
                ids.append(str(events.last_id))
                assert await events.rest() == []
        assert len(set(ids)) == 4


# --- streams of 2026-07-28 -------------------------------------------------------------------


@covers(
    "2026-07-28:http-session-id-ignored",
    "2026-07-28:http-last-event-id-ignored",
    "2026-07-28:http-get-delete-405",
)
async def test_session_features_are_ignored_or_refused_in_2026() -> None:
    async with served(NEW, Tools) as (caller, _):
        task_id = await caller.create("wait", {})
        old = {"mcp-session-id": "nobody", "last-event-id": "g.7"}
        response = await raw(caller, "tasks/get", {"taskId": task_id}, **old)
        assert response.json()["result"]["status"] == "working"
        assert "mcp-session-id" not in response.headers
        caller.headers |= old
        wanted = {"notifications": {"taskIds": [task_id]}}
        async with caller.stream("subscriptions/listen", wanted) as events:
            begun = await events.next()
            assert begun["method"] == "notifications/subscriptions/acknowledged"
        for method in ("GET", "DELETE"):
            headers = {"mcp-protocol-version": NEW, "accept": "text/event-stream"}
            refused = await caller.client.request(method, caller.url, headers=headers)
            assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


@covers("2026-07-28:http-unknown-method-404")
@pytest.mark.parametrize("method", ["tasks/list", "tasks/result", "tasks/undo"])
async def test_an_unknown_method_gets_404(method: str) -> None:
    async with served(NEW, Tools) as (caller, _):
        response = await raw(caller, method, {"taskId": "x"})
        assert (response.status_code, response.json()["error"]["code"]) == (404, -32601)


@covers("2026-07-28:sse-notifications-related", "2026-07-28:http-silence-after-cancel")
async def test_a_stream_carries_its_own_request_only() -> None:
    async with served(NEW, Tools) as (caller, gate):
        kept, left = [await caller.create("wait", {}) for _ in range(2)]
        async with caller.stream(
            "subscriptions/listen", {"notifications": {"taskIds": [kept]}}, id="kept"
        ) as events:
            async with caller.stream(
                "subscriptions/listen", {"notifications": {"taskIds": [left]}}, id="left"
            ) as leaving:
                await leaving.until("notifications/tasks")
            meta = {"progressToken": "p"}
            call = {"name": "step", "arguments": {"count": 1}, "_meta": meta}
            gate.steps.release()
            caller.capabilities = {}
            async with caller.stream("tools/call", call, id="call") as calling:
                gate.open.set()
                notice, answer = await calling.rest()
            assert notice["params"]["progressToken"] == "p"
            assert answer["id"] == "call"
            caller.capabilities = EXTENSION
            await caller.wait_for(left, "completed")
            status = ""
            while status != "completed":
                message = await events.next()
                assert str(message).count("'kept'") == 1
                assert left not in str(message)
                status = message["params"].get("status", "")


@covers("2025-11-25:protocol-version-bad-400")
@pytest.mark.parametrize("version", ["1900-01-01", "2025-06-18", "soon"])
async def test_an_unsupported_version_is_refused(version: str) -> None:
    async with served(OLD, Tools) as (caller, _):
        bad = {"mcp-protocol-version": version}
        for message in (
            {"id": 7, "method": "ping"},
            {"method": "notifications/cancelled", "params": {"requestId": 7}},
            {"id": 7, "result": {}},
        ):
            refused = await caller.post(message, **bad)
            assert refused.status_code == 400, message
        for method in ("GET", "DELETE"):
            headers = {**caller.headers, "accept": "text/event-stream", **bad}
            async with caller.client.stream(method, caller.url, headers=headers) as answer:
                assert answer.status_code == 400, method
        assert (await raw(caller, "ping", {})).status_code == 200, "the session is still there"
