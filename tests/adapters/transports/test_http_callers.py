"""Tokens, origins, mounting in another application, and the erlmcp dialect."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from taskmachine.adapters.runtime.runtime import system_clock
from taskmachine.adapters.stores import open_store
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.transports.http.application import Application
from taskmachine.adapters.transports.http.origins import Origins
from taskmachine.adapters.transports.settings import Settings
from tests.adapters.transports.issuer import AUDIENCE, ISSUER, claims, document, jwk, token
from tests.adapters.transports.wire import ACCEPT, OLD, Caller, Gate, callers, in_both, serving
from tests.site.pages import blocks_of

ALICE, BOB = "a" * 40, "b" * 40


async def test_principal_sees_only_its_own_tasks_in_both_revisions(tokens: dict[str, Any]) -> None:
    gate = Gate()
    async with serving(gate.tools, auth=tokens) as url, httpx.AsyncClient() as client:
        old, new = Caller(client, url, ALICE), Caller(client, url, ALICE)
        other_old, other_new = Caller(client, url, BOB), Caller(client, url, BOB)
        await old.introduce()
        await other_old.introduce()
        made_old = await old.create("wait", {})
        made_new = await new.create("wait", {})
        assert await new.status(made_old) == "working"
        assert await old.status(made_new) == "working"
        listed = (await old.call("tasks/list"))["result"]["tasks"]
        assert {task["taskId"] for task in listed} == {made_old, made_new}
        assert (await other_old.call("tasks/list"))["result"]["tasks"] == []
        for stranger in (other_old, other_new):
            for task_id in (made_old, made_new):
                foreign = await stranger.call("tasks/get", {"taskId": task_id})
                unknown = await stranger.call("tasks/get", {"taskId": "x" * 32})
                assert foreign["error"] == unknown["error"]
        page = await client.get(
            url.replace("/mcp", f"/tasks/{made_old}"), headers={"authorization": f"Bearer {ALICE}"}
        )
        assert page.json()["taskId"] == made_old
        gate.open.set()


async def test_a_session_belongs_to_its_principal(tokens: dict[str, Any]) -> None:
    gate = Gate()
    async with serving(gate.tools, auth=tokens) as url, httpx.AsyncClient() as client:
        alice = Caller(client, url, ALICE)
        await alice.introduce()
        stolen = {**alice.headers, "authorization": f"Bearer {BOB}"}
        thief = Caller(client, url)
        thief.headers = stolen
        refused = await thief.post({"id": 1, "method": "ping"})
        made_up = await thief.post({"id": 1, "method": "ping"}, **{"mcp-session-id": "x"})
        assert refused.status_code == made_up.status_code == 404
        assert refused.content == made_up.content


async def test_a_request_without_a_token_gets_a_challenge(tokens: dict[str, Any]) -> None:
    gate = Gate()
    async with serving(gate.tools, auth=tokens) as url, httpx.AsyncClient() as client:
        for path in ("", "/../tasks/x"):
            response = await client.post(url, json={}, headers=ACCEPT)
            assert response.status_code == 401, path
            assert response.headers["www-authenticate"].startswith("Bearer")
        wrong = {**ACCEPT, "authorization": "Bearer nonsense"}
        response = await client.post(url, json={}, headers=wrong)
        assert 'error="invalid_token"' in response.headers["www-authenticate"]
        page = await client.get(url.replace("/mcp", "/tasks/x"))
        assert page.status_code == 401
        assert (await client.get(url.replace("/mcp", "/healthz"))).status_code == 200


async def test_the_resource_metadata_is_public(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_bytes(document(jwk("ed25519")))
    auth = {
        "kind": "jwt",
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "jwks": str(keys),
        "scopes": ["tasks"],
    }
    gate = Gate()
    async with serving(gate.tools, auth=auth) as url, httpx.AsyncClient() as client:
        response = await client.post(url, json={}, headers=ACCEPT)
        assert response.status_code == 401
        challenge = response.headers["www-authenticate"]
        where = challenge.split('resource_metadata="')[1].split('"')[0]
        assert where == url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
        assert 'scope="tasks"' in challenge
        found = (await client.get(where)).json()
        assert found["resource"] == url
        assert found["authorization_servers"] == [ISSUER]
        assert found["scopes_supported"] == ["tasks"]
        soon = system_clock() // 1_000 + 600
        caller = Caller(client, url, token(exp=soon, scope="tasks"))
        await caller.create("add", {"a": 1, "b": 2})
        weak = Caller(client, url, token(exp=soon))
        refused = await weak.post({"id": 1, "method": "ping"})
        assert refused.status_code == 403
        assert 'error="insufficient_scope"' in refused.headers["www-authenticate"]


# --- the caller in a tool --------------------------------------------------------------------


def claiming_tools() -> Tools:
    tools = Tools()

    @tools.task()
    async def who(ctx: Context) -> dict[str, Any]:
        return {
            "owner": ctx.owner,
            "subject": ctx.caller.subject,
            "claims": dict(ctx.claims),
            "scopes": sorted(ctx.scopes),
        }

    return tools


async def who(caller: Caller, *, is_task: bool) -> Any:
    if not is_task:
        caller.capabilities = {}
        return (await caller.call("tools/call", {"name": "who", "arguments": {}}))["result"][
            "structuredContent"
        ]
    task_id = await caller.create("who", {})
    await caller.wait_for(task_id, "completed")
    if caller.is_legacy:
        return (await caller.call("tasks/result", {"taskId": task_id}))["result"][
            "structuredContent"
        ]
    shown = await caller.call("tasks/get", {"taskId": task_id})
    return shown["result"]["result"]["structuredContent"]


@in_both
@pytest.mark.parametrize("is_task", [True, False])
async def test_a_tool_sees_the_claims_of_the_token_of_its_request(
    revision: str, is_task: bool, tmp_path: Path
) -> None:
    keys, file = tmp_path / "keys.json", tmp_path / "tasks.db"
    keys.write_bytes(document(jwk("ed25519")))
    auth = {"kind": "jwt", "issuer": ISSUER, "audience": AUDIENCE, "jwks": str(keys)}
    store = await open_store(f"sqlite:{file}")
    async with serving(claiming_tools(), store, auth=auth) as url, httpx.AsyncClient() as client:
        seen = []
        both: list[dict[str, Any]] = [{"team": "red"}, {"sub": "bob", "scope": "read write"}]
        for changes in both:
            bearer = token(**changes)
            caller = Caller(client, url, bearer)
            if revision == OLD:
                await caller.introduce()
            told = await who(caller, is_task=is_task)
            verified = claims(**changes)
            assert told["claims"] | {"exp": verified["exp"]} == verified
            assert (told["subject"], told["scopes"]) == (
                verified["sub"],
                verified.get("scope", "").split(),
            )
            seen.append(told["owner"])
            # The next request of a session has a new token of the same subject.
            caller.headers["authorization"] = f"Bearer {token(**changes, jti='renewed')}"
            assert (await who(caller, is_task=is_task))["claims"]["jti"] == "renewed"
            written = b"".join(path.read_bytes() for path in tmp_path.glob("tasks.db*"))
            assert bearer.encode() not in written
        assert len(set(seen)) == 2
    await store.close()


@in_both
@pytest.mark.parametrize("is_task", [True, False])
async def test_a_fixed_token_has_a_name_and_scopes(
    revision: str, is_task: bool, tmp_path: Path
) -> None:
    file = tmp_path / "tokens.toml"
    file.touch(0o600)
    file.write_text(f'alice = {{ token = "{ALICE}", scopes = ["deploy"] }}\nbob = "{BOB}"\n')
    auth = {"kind": "tokens", "tokens": str(file)}
    async with serving(claiming_tools(), auth=auth) as url, httpx.AsyncClient() as client:
        for bearer, name, scopes in ((ALICE, "alice", ["deploy"]), (BOB, "bob", [])):
            caller = Caller(client, url, bearer)
            if revision == OLD:
                await caller.introduce()
            assert await who(caller, is_task=is_task) == {
                "owner": f"token:{name}",
                "subject": name,
                "claims": {},
                "scopes": scopes,
            }


async def test_the_tool_of_the_page_checks_a_scope(tmp_path: Path) -> None:
    [shown] = blocks_of("docs/howto/authentication.md", "python")
    names: dict[str, Any] = {}
    exec(shown.text, names)
    file = tmp_path / "tokens.toml"
    file.touch(0o600)
    file.write_text(f'alice = {{ token = "{ALICE}", scopes = ["deploy"] }}\nbob = "{BOB}"\n')
    auth = {"kind": "tokens", "tokens": str(file)}
    async with serving(names["tools"], auth=auth) as url, httpx.AsyncClient() as client:
        for bearer, answer in ((ALICE, "1.2 is live, by order of alice"), (BOB, "needs the scope")):
            caller = Caller(client, url, bearer)
            caller.capabilities = {}
            call = {"name": "deploy", "arguments": {"version": "1.2"}}
            assert answer in str(await caller.call("tools/call", call))


@in_both
@pytest.mark.parametrize("is_task", [True, False])
@pytest.mark.parametrize("kind", ["header", None])
async def test_an_unverified_caller_is_only_an_owner(
    revision: str, is_task: bool, kind: str | None
) -> None:
    auth = {} if kind is None else {"kind": kind}
    async with serving(claiming_tools(), auth=auth) as url, httpx.AsyncClient() as client:
        caller = Caller(client, url, token(scope="forged"))
        if revision == OLD:
            await caller.introduce()
        told = await who(caller, is_task=is_task)
        expected = kind or ("session" if revision == OLD else "anonymous")
        assert told.pop("owner").partition(":")[0] == expected
        assert told == {"subject": None, "claims": {}, "scopes": []}


# --- origins ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "is_allowed"),
    [
        ({}, True),
        ({"host": "127.0.0.1:8000"}, True),
        ({"host": "localhost"}, True),
        ({"host": "[::1]:8000"}, True),
        ({"host": "evil.example"}, False),
        ({"host": "localhost.evil.example"}, False),
        ({"host": "[::1"}, False),
        ({"host": "tools.example"}, True),
        ({"origin": "http://localhost:3000"}, True),
        ({"origin": "http://127.0.0.1:1"}, True),
        ({"origin": "https://tools.example"}, True),
        ({"origin": "https://TOOLS.example"}, True),
        ({"origin": "http://tools.example"}, False),
        ({"origin": "https://tools.example.evil"}, False),
        ({"origin": "https://app.example:444"}, True),
        ({"origin": "https://app.example"}, False),
        ({"origin": "null"}, False),
        ({"origin": "http://[evil"}, False),
    ],
)
def test_requests_of_foreign_origins_and_hosts_are_refused(
    headers: dict[str, str], is_allowed: bool
) -> None:
    origins = Origins(
        ["https://app.example:444"], is_local=True, public_url="https://tools.example/mcp"
    )
    for _ in range(2):
        refusal = origins.refusal(headers.get("host"), headers.get("origin"))
        assert (refusal is None) == is_allowed


def test_a_public_server_accepts_any_host() -> None:
    origins = Origins([], is_local=False, public_url=None)
    assert origins.refusal("anything.example", None) is None


# --- in another application ------------------------------------------------------------------


async def test_application_can_be_mounted_in_another_application() -> None:
    gate = Gate()
    inner = Application(Settings(store="memory:"), gate.tools)
    outer = Starlette(routes=[Mount("/tools", inner)], lifespan=inner.lifespan)
    transport = httpx.ASGITransport(outer)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        caller = Caller(client, "http://test/tools/mcp")
        early = await caller.post({"id": 1, "method": "ping"})
        assert early.status_code == 503
        async with outer.router.lifespan_context(outer):
            task_id = await caller.create("add", {"a": 1, "b": 2})
            await caller.wait_for(task_id, "completed")
            page = await client.get(f"/tools/tasks/{task_id}")
            assert page.json()["result"]["structuredContent"] == {"sum": 3}


# --- erlmcp ----------------------------------------------------------------------------------


async def test_the_erlmcp_dialect_has_the_endpoint_to_itself() -> None:
    gate = Gate()
    async with serving(gate.tools, dialect="erlmcp") as url, callers(url, 2) as [one, other]:
        create = {"action": {"name": "greet", "arguments": {}}}
        first = await one.post({"id": 1, "method": "tasks/create", "params": create})
        task = first.json()["result"]["task"]
        one.headers["mcp-session-id"] = first.headers["mcp-session-id"]
        one.is_legacy = True
        async with one.listen() as events:
            while True:
                shown = await one.call("tasks/get", {"taskId": task["taskId"]})
                if shown["result"]["task"]["status"] == "input_required":
                    break
            update = {"taskId": task["taskId"], "input": {"name": "Ada"}}
            await one.call("tasks/update", update)
            status = ""
            while status != "completed":
                notice = await events.until("notifications/tasks/status")
                status = notice["params"]["task"]["status"]
        result = await one.call("tasks/result", {"taskId": task["taskId"]})
        assert "Hello, Ada!" in str(result["result"])
        foreign = await other.post(
            {"id": 1, "method": "tasks/get", "params": {"taskId": task["taskId"]}}
        )
        assert foreign.json()["error"]["code"] == -32081
