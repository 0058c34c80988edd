# mypy: ignore-errors
"""Which tasks a client sees over HTTP: by access token, by session, or by id alone."""

from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import anyio
import httpx
import pytest
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel.server import request_ctx
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.context import RequestContext
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request

from taskmachine.adapters.bridges.mcp1 import enable_tasks
from taskmachine.adapters.bridges.mcp1.requestors import requestor
from taskmachine.adapters.transports.auth.owners import Owners
from tests.adapters.bridges.mcp1.served import PATIENCE_S, Served, alive

pytestmark = pytest.mark.filterwarnings("ignore:The experimental tasks API:DeprecationWarning")

METHODS = ("tasks/get", "tasks/result", "tasks/cancel")
HAS_SUBJECTS = "subject" in AccessToken.model_fields  # since 1.27


class Tokens:
    """A token is `client|issuer|subject`; the last two are optional."""

    async def verify_token(self, token):
        client, *rest = token.split("|")
        known = {"claims": {"iss": rest[0]}, "subject": rest[1]} if rest else {}
        return AccessToken(token=token, client_id=client, scopes=[], **known)


class Client:
    """Sends plain JSON-RPC over HTTP, so that each message can be inspected."""

    def __init__(self, http, headers):
        self._http = http
        self._headers = {"accept": "application/json, text/event-stream", **headers}
        self._ids = iter(range(1, 1_000))

    async def begin(self):
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        answer = await self._post({"id": 0, "method": "initialize", "params": hello})
        if "mcp-session-id" in answer.headers:
            self._headers["mcp-session-id"] = answer.headers["mcp-session-id"]
        await self._post({"method": "notifications/initialized"})
        return self

    async def call(self, method, **params):
        body = {"id": next(self._ids), "method": method, "params": params}
        answer = (await self._post(body)).json()
        return answer.get("result") or answer["error"]

    async def create(self, tool="say", **arguments):
        made = await self.call("tools/call", name=tool, arguments=arguments, task={"ttl": 60_000})
        return made["task"]["taskId"]

    async def listed(self):
        return [task["taskId"] for task in (await self.call("tasks/list"))["tasks"]]

    async def answers(self, task_id):
        """Return the answers about a task without its id."""
        said = [await self.call(method, taskId=task_id) for method in METHODS]
        return str(said).replace(task_id, "ID")

    async def _post(self, body):
        with anyio.fail_after(PATIENCE_S):
            body = {"jsonrpc": "2.0", **body}
            return await self._http.post("/", json=body, headers=self._headers)


@asynccontextmanager
async def serving(*, stateless=False, **options):
    served = Served(partial(enable_tasks, url="memory:", **options))
    manager = StreamableHTTPSessionManager(served.server, json_response=True, stateless=stateless)

    app = AuthenticationMiddleware(
        AuthContextMiddleware(manager.handle_request), backend=BearerAuthBackend(Tokens())
    )
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(manager.run())
        transport = httpx.ASGITransport(app)
        http = await stack.enter_async_context(
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")
        )

        async def client(token=None, **headers):
            if token is not None:
                headers["authorization"] = f"Bearer {token}"
            return await Client(http, headers).begin()

        yield client


async def is_shared(client, one, other):
    """Return whether two clients share their tasks, checking that all methods agree."""
    first = await client(*one) if isinstance(one, tuple) else one
    second = await client(*other) if isinstance(other, tuple) else other
    task_id = await first.create()
    await first.call("tasks/result", taskId=task_id)
    assert (await first.call("tasks/get", taskId=task_id))["status"] == "completed"
    assert task_id in await first.listed()
    seen = await second.answers(task_id)
    is_there = seen != await second.answers("no-such-task")
    assert is_there == (task_id in await second.listed())
    return is_there


@pytest.mark.skipif(not HAS_SUBJECTS, reason="this release of mcp knows no subjects")
@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("app|https://a.example|ada", "app|https://a.example|ada", True),
        ("app|https://a.example|ada", "other|https://a.example|ada", True),
        ("app|https://a.example|ada", "app|https://a.example|bob", False),
        ("app|https://a.example|ada", "app|https://b.example|ada", False),
        ("app||ada", "ada", False),
    ],
)
@alive
async def test_tasks_are_of_the_subject_of_a_token(one, other, expected):
    async with serving() as client:
        assert await is_shared(client, (one,), (other,)) is expected


@pytest.mark.parametrize(
    ("one", "other", "expected"), [("app", "app", True), ("app", "tool", False)]
)
@alive
async def test_tasks_are_of_the_client_where_no_subject_is_known(one, other, expected):
    async with serving() as client:
        assert await is_shared(client, (one,), (other,)) is expected


@alive
async def test_tasks_belong_to_the_session_without_authentication():
    async with serving() as client:
        ours = await client()
        assert await is_shared(client, ours, ours)
        assert not await is_shared(client, (), ())
        assert not await is_shared(client, (), ("app",))
        assert not await is_shared(client, ("app",), ())


@alive
async def test_without_sessions_the_id_is_the_secret_and_nothing_is_listed():
    async with serving(stateless=True) as client:
        one, other = await client(), await client()
        task_id = None
        with anyio.fail_after(PATIENCE_S):
            while task_id is None:  # the end of an earlier request may interfere
                made = await one.call("tools/call", name="say", arguments={}, task={})
                task_id = made.get("task", {}).get("taskId")
                await anyio.sleep(0.01)
        result = await other.call("tasks/result", taskId=task_id)
        assert result["content"] == [{"type": "text", "text": "done"}]
        assert await one.answers(task_id) == await other.answers(task_id)
        assert await one.listed() == await other.listed() == []


@alive
async def test_identify_function_decides_which_sessions_share_tasks():
    def identify(context):
        return context.request.headers["x-api-key"]

    async with serving(identify=identify) as client:
        ada, also_ada = [await client(**{"x-api-key": "a"}) for _ in range(2)]
        bob = await client(**{"x-api-key": "b"})
        assert await is_shared(client, ada, also_ada)
        assert not await is_shared(client, ada, bob)


@alive
async def test_tool_sees_and_changes_only_tasks_of_its_caller():
    async with serving() as client:
        ada, bob = await client("ada"), await client("bob")
        task_id = await ada.create("wait")
        for caller, said in ((bob, "there is none"), (ada, "it is completed")):
            meddling = await caller.create("meddle", other=task_id)
            result = await caller.call("tasks/result", taskId=meddling)
            assert result["content"][0]["text"] == said
            shown = await ada.call("tasks/get", taskId=task_id)
            assert (shown.get("statusMessage") == "mine") == (caller is ada)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (b"session_id=1", b"session_id=1", True),
        (b"session_id=1", b"session_id=2", False),
        (b"session_id=1", b"", False),
    ],
)
def test_the_older_http_has_its_sessions_in_the_address(one, other, expected):
    owners = []
    for query in (one, other):
        request = Request({"type": "http", "query_string": query, "headers": []})
        token = request_ctx.set(RequestContext(1, None, None, None, request=request))
        owners.append(requestor(Owners(b"s" * 32), None))
        request_ctx.reset(token)
    assert (owners[0] == owners[1]) is expected
