"""The server that tests the tester: each hook of a bug counts, and nothing else is changed."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.adapters.transports.wire import Caller, callers
from tests.conformance.broken_server import TOKENS, serving
from tests.conformance.planting import BUGS, HANG_UP, STAY, Bug, Head, Instead, Later, Message
from tests.conformance.proxy.between import ErrorLog
from tests.conformance.tools import DESTRUCTIVE
from tests.conformance.variations import VARIATIONS
from tests.oracle import REPOSITORY

PATIENCE_S = 20.0
REVISIONS = ["2025-11-25", "2026-07-28"]


@asynccontextmanager
async def calling(bug: Bug, folder: Path, revision: str) -> AsyncIterator[Caller]:
    """Talk to a server with that bug, which must not raise itself."""
    errors = ErrorLog(folder / "errors")
    async with serving(bug, errors) as url, callers(url) as [caller]:
        caller.headers["authorization"] = f"Bearer {TOKENS[0]}"
        if revision == "2025-11-25":
            await caller.introduce()
        yield caller
    assert errors.text() == ""


def over_http(
    bug: Bug, folder: Path, revision: str, talk: Callable[[Caller], Coroutine[Any, Any, None]]
) -> None:
    async def scene() -> None:
        async with asyncio.timeout(PATIENCE_S), calling(bug, folder, revision) as caller:
            await talk(caller)

    asyncio.run(scene())


async def finished(caller: Caller, tool: str, arguments: dict[str, Any]) -> Any:
    """The result of a task."""
    task_id = await caller.create(tool, arguments)
    if caller.is_legacy:
        return (await caller.call("tasks/result", {"taskId": task_id}))["result"]
    await caller.wait_for(task_id, "completed")
    return (await caller.call("tasks/get", {"taskId": task_id}))["result"]["result"]


# --- nothing is changed that the bug does not change -----------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
def test_broken_server_without_a_bug_is_correct(tmp_path: Path, revision: str) -> None:
    async def talk(caller: Caller) -> None:
        shown = await finished(caller, "ferment", {})
        assert shown["structuredContent"] == {"bubbles": 7}
        listed = (await caller.call("tools/list"))["result"]["tools"]
        hints = {tool["name"]: tool.get("annotations") for tool in listed}
        assert hints[DESTRUCTIVE]["destructiveHint"]
        response = await caller.client.post(caller.url, content=b"{", headers=caller.headers)
        assert response.status_code == 415
        response = await caller.client.post(
            caller.url, content=b"{", headers={**caller.headers, "content-type": "application/json"}
        )
        assert (response.status_code, response.json()["error"]["code"]) == (400, -32700)

    over_http(Bug(), tmp_path, revision, talk)


def test_events_keep_their_ids_and_come_when_they_are_said(tmp_path: Path) -> None:
    async def talk(caller: Caller) -> None:
        task_id = await caller.create("tailor", {})
        await caller.wait_for(task_id, "input_required")
        async with caller.stream("tasks/result", {"taskId": task_id}) as events:
            question = await events.until("elicitation/create")  # the answer is not there yet
            seen = events.last_id
            assert seen is not None
            assert seen.rpartition(".")[2] != "0"
        answer = {"action": "accept", "content": {"size": 3}}
        await caller.post({"id": question["id"], "result": answer})
        async with caller.listen(last_id=seen) as events:
            result = await events.result()
        assert result["result"]["content"][0]["text"] == "A red coat of size 3."

    over_http(Bug(), tmp_path, "2025-11-25", talk)


# --- every hook counts -----------------------------------------------------------------------


class _Renamed(Bug):
    """Change a request; record what the hook received."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, Any]] = []

    def client_message(self, message: Message, head: Head) -> Message:
        if message.get("method") == "tools/call":
            message["params"]["name"] = "glance"
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None:
            self.seen.append((request["method"], request.get("params", {}).get("name")))
        return [message]


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_changed_request_is_answered_as_the_one_that_was_sent(
    tmp_path: Path, revision: str
) -> None:
    bug = _Renamed()

    async def talk(caller: Caller) -> None:
        answer = await caller.call("tools/call", {"name": "unknown", "arguments": {}})
        assert answer["result"]["content"][0]["text"] == "There is the sky."
        assert bug.seen[-1] == ("tools/call", "unknown")

    over_http(bug, tmp_path, revision, talk)


class _Says(Bug):
    """Says something else instead of a list of tools."""

    def __init__(self, *said: Any) -> None:
        self._said = said

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is None or request.get("method") != "tools/list":
            return [message]
        return [message if one == "it" else one for one in self._said]


def _told(response: httpx.Response) -> list[Any]:
    lines = response.text.splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("said", "kind", "count"),
    [
        (["it"], "application/json", 0),
        ([Later(0.01, "it")], "application/json", 0),
        ([b'{"garbage'], "application/json", 0),
        (["it", "it"], "text/event-stream", 2),
        ([b'id: 7\ndata: {"raw": 1}\n\n', "it", HANG_UP, "it"], "text/event-stream", 2),
        ([HANG_UP], "text/event-stream", 0),
    ],
)
def test_broken_server_sends_the_planted_bytes_instead_of_its_answer(
    tmp_path: Path, revision: str, said: list[Any], kind: str, count: int
) -> None:
    async def talk(caller: Caller) -> None:
        message, headers = caller.request("tools/list", {})
        response = await caller.post(message, **headers)
        assert response.headers["content-type"] == kind
        assert len(_told(response)) == count
        if said[0] == b'{"garbage':
            assert response.content == b'{"garbage'

    over_http(_Says(*said), tmp_path, revision, talk)


@pytest.mark.parametrize("said", [[], ["it", STAY]])
def test_an_answer_that_never_ends(tmp_path: Path, said: list[Any]) -> None:
    async def talk(caller: Caller) -> None:
        message, headers = caller.request("tools/list", {})
        with pytest.raises(httpx.ReadTimeout):
            await caller.client.post(
                caller.url,
                json={"jsonrpc": "2.0", **message},
                headers={**caller.headers, **headers},
                timeout=0.3,
            )

    over_http(_Says(*said), tmp_path, "2026-07-28", talk)


class _Heads(Bug):
    """Change heads and errors, and handle bodies that are not messages."""

    def response_head(self, request: Message | None, head: Head) -> None:
        if request is not None and request.get("method") == "ping":
            head.status = 418
            head.headers["x-seen"] = "ping"
        if head.method == "DELETE":
            head.status = 500

    def client_message(self, message: Message, head: Head) -> Message | Instead | None:
        match message.get("method"):
            case "swallowed":
                return None
            case "instead":
                return Instead(({"jsonrpc": "2.0", "id": message["id"], "result": {}},), 203)
            case "raw":
                return Instead(raw=b"\xff", headers={"content-type": "text/plain"})
            case "exit":
                return Instead(exits=True)
        return message

    def client_bytes(self, body: bytes, head: Head) -> bytes | Instead | None:
        return Instead(status=299) if body == b"[]" else body


def test_heads_and_answers_in_place_of_the_server(tmp_path: Path) -> None:
    async def talk(caller: Caller) -> None:
        post = caller.post
        response = await post({"id": 1, "method": "ping"})
        assert (response.status_code, response.headers["x-seen"]) == (418, "ping")
        assert (await post({"method": "swallowed"})).status_code == 202
        response = await post({"id": 2, "method": "instead"})
        assert (response.status_code, response.json()["id"]) == (203, 2)
        response = await post({"id": 3, "method": "raw"})
        assert (response.content, response.headers["content-type"]) == (b"\xff", "text/plain")
        json_type = {**caller.headers, "content-type": "application/json"}
        response = await caller.client.post(caller.url, content=b"[]", headers=json_type)
        assert response.status_code == 299
        response = await caller.client.delete(caller.url, headers=caller.headers)
        assert response.status_code == 500
        for _ in range(2):
            with pytest.raises(httpx.TransportError):
                await post({"id": 4, "method": "exit"})

    over_http(_Heads(), tmp_path, "2025-11-25", talk)


def test_json_instead_of_a_stream(tmp_path: Path) -> None:
    async def talk(caller: Caller) -> None:
        task_id = await caller.create("linger", {"duration_seconds": 0.7})
        message, headers = caller.request("tasks/result", {"taskId": task_id})
        response = await caller.post(message, **headers)
        assert response.headers["content-type"] == "application/json"
        assert response.json()["result"]["content"][0]["text"] == "Stayed for 0.7 s."

    over_http(
        VARIATIONS["StreamsOnlyForRequestsAndSubscriptions"].make(), tmp_path, "2025-11-25", talk
    )


def test_a_bug_that_fails_is_noticed(tmp_path: Path) -> None:
    class Fails(Bug):
        def server_message(
            self, message: Message, request: Message | None, head: Head
        ) -> list[Any]:
            raise ValueError("not as planned")

    async def talk() -> None:
        errors = ErrorLog(tmp_path / "errors")
        async with serving(Fails(), errors) as url, callers(url) as [caller]:
            caller.headers["authorization"] = f"Bearer {TOKENS[0]}"
            message, headers = caller.request("tools/list", {})
            assert (await caller.post(message, **headers)).status_code == 200
        assert "not as planned" in errors.text()

    asyncio.run(talk())


# --- pipes -----------------------------------------------------------------------------------


class _Piped:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._in, self._out = process.stdin, process.stdout

    def send(self, message: Any) -> None:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        self._in.write(body + b"\n")

    async def next(self) -> Any:
        return json.loads(await self._out.readline())

    async def end(self) -> bytes:
        self._in.close()
        rest = await self._out.read()
        await self.process.wait()
        return rest


def over_pipes(
    name: str, folder: Path, talk: Callable[[_Piped], Coroutine[Any, Any, None]]
) -> None:
    errors = ErrorLog(folder / "errors")

    async def scene() -> None:
        command = [sys.executable, "-m", "tests.conformance.broken_server", "--stdio"]
        process = await asyncio.create_subprocess_exec(
            *command, "--bug", name, "--errors", str(errors.path),
            stdin=-1, stdout=-1, cwd=REPOSITORY,
        )  # fmt: skip
        try:
            async with asyncio.timeout(PATIENCE_S):
                await talk(_Piped(process))
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    asyncio.run(scene())
    assert errors.text() == ""


def ask(id: int, method: str, **params: Any) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {
            "extensions": {"io.modelcontextprotocol/tasks": {}}
        },
    }
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": meta}}


def test_lines_go_both_ways_and_the_end_of_the_input_is_the_end(tmp_path: Path) -> None:
    async def talk(pipe: _Piped) -> None:
        pipe.send(b"{")
        assert (await pipe.next())["error"]["code"] == -32700
        pipe.send(ask(1, "tools/call", name="linger", arguments={"duration_seconds": 0.2}))
        created = await pipe.next()
        assert created["result"]["status"] == "working"
        pipe.send(ask(2, "tools/list"))
        assert (await pipe.next())["id"] == 2
        assert await pipe.end() == b""
        assert pipe.process.returncode == 0

    over_pipes("Unchanged", tmp_path, talk)


def test_broken_server_answers_a_later_request_first(tmp_path: Path) -> None:
    async def talk(pipe: _Piped) -> None:
        pipe.send(ask(1, "tools/call", name="heap", arguments={"pebbles": 1}))
        pipe.send(ask(2, "tools/list"))
        assert (await pipe.next())["id"] == 2
        created = await pipe.next()
        assert (created["id"], created["result"]["status"]) == (1, "completed")

    over_pipes("CreatesCompletedTasks", tmp_path, talk)


def test_no_bug_is_known_by_the_name_of_a_variation() -> None:
    assert not BUGS.keys() & VARIATIONS.keys()
