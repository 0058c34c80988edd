"""The base protocol of 2026-07-28: `_meta`, versions, ids, identities."""

from typing import Any, Final

from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.probes.registry import probe
from taskmachine.adapters.conformance.profile import Role
from taskmachine.adapters.conformance.wire.caller import EXTENSION, Caller

__all__: list[str] = []

META: Final = "io.modelcontextprotocol/"
NEW: Final = ("2026-07-28",)
PIPES: Final = ("stdio",)
OLDER: Final = "2025-11-25"
OLDEST: Final = "2025-03-26"
A_WHILE_MS: Final = 300.0
SOON_MS: Final = 2_000.0

_TASKS: Final = (Role.COMPLETES, Role.SLOW, Role.ASKS)
_OTHER_NAME: Final = {f"{META}clientInfo": {"name": "another-client", "version": "0"}}
_UNKNOWN_KEYS: Final = {
    f"{META}no-such-key": {"anything": [1, None]},
    "org.example/with-hyphens_and.dots": True,
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
}


async def _a_task(harness: Harness, caller: Caller) -> str | None:
    call = harness.profile.get(*_TASKS)
    return None if call is None else await caller.create(call)


@probe(revisions=NEW)
async def all_kinds_of_ids(harness: Harness) -> None:
    """Send concurrent requests with string and integer ids, including unknown methods."""
    caller = await harness.caller()
    ids = ["é-世界-😀", "7", 2**53 - 1, -7, ""]
    pending = [caller.start("tools/list", id=id) for id in ids]
    pending += [caller.start("server/discover", id="a-text")]
    pending += [caller.start("no/such/method", {}, id=f"unknown-{id}") for id in ids]
    for one in pending:
        await one.answer()


@probe(revisions=NEW)
async def unexpected_notifications(harness: Harness) -> None:
    """Send notifications that are unknown, for an ended request, or malformed.

    Then close the connection while a task is working.
    """
    caller = await harness.caller(fresh=True)
    await caller.notify("notifications/no-such-notification")
    await caller.notify("notifications/cancelled", {"requestId": "already ended"})
    await caller.request("tools/list")
    await caller.send({"jsonrpc": "2.0", "method": 7})
    await caller.request("tools/list")
    call = harness.profile.get(Role.SLOW, *_TASKS)
    if call is not None:
        await caller.create(call)
    await harness.release(caller)


@probe(revisions=NEW)
async def unusual_meta(harness: Harness) -> None:
    """Send unknown keys, another client name, and none."""
    caller = await harness.caller()
    task_id = await _a_task(harness, caller)
    for meta in (_UNKNOWN_KEYS, _OTHER_NAME, {f"{META}clientInfo": None}, {}):
        await caller.request("tools/list", meta=meta)
    if task_id is None:
        return
    await caller.until(task_id, "input_required", within_ms=SOON_MS)
    for meta in (_UNKNOWN_KEYS, _OTHER_NAME, {}):
        await caller.get(task_id, meta=meta)
    await caller.cancel(task_id)


@probe(revisions=NEW)
async def missing_meta(harness: Harness) -> None:
    """Omit each required key once, then all of `_meta`."""
    caller = await harness.caller()
    task_id = await _a_task(harness, caller)
    keys = [f"{META}{name}" for name in ("protocolVersion", "clientCapabilities", "clientInfo")]
    for missing in ([keys[0]], [keys[1]], keys):
        meta = dict.fromkeys(missing)
        await caller.request("tools/list", meta=meta)
        if task_id is not None:
            await caller.get(task_id, meta=meta)
    await caller.request("tools/list")
    if task_id is not None:
        await caller.get(task_id)
        await caller.request("tasks/get", {})
        await caller.cancel(task_id)


@probe(revisions=NEW)
async def unknown_version(harness: Harness) -> None:
    """Send an unknown version; on stdio only `_meta` contains it."""
    caller = await harness.caller()
    meta = {f"{META}protocolVersion": "1900-01-01"}
    headers = {"mcp-protocol-version": "1900-01-01"}
    for method in ("server/discover", "tools/list"):
        await caller.request(method, meta=meta, headers=headers)


@probe(revisions=NEW)
async def capabilities_withdrawn(harness: Harness) -> None:
    """Declare capabilities in one request, and none in the next one on the connection."""
    caller = await harness.caller()
    task_id = await _a_task(harness, caller)
    if task_id is None:
        return
    nothing: dict[str, Any] = {f"{META}clientCapabilities": {}}
    await caller.get(task_id)
    await caller.get(task_id, meta=nothing)
    call = harness.profile.get(Role.COMPLETES)
    if call is not None:
        await caller.call(call, meta=nothing)
    await caller.cancel(task_id)


@probe(Role.ASKS, revisions=NEW)
async def no_capabilities(harness: Harness) -> None:
    """Call a tool that requests input, as a client without capabilities."""
    caller = await harness.caller()
    asking = harness.profile.calls[Role.ASKS]
    nothing: dict[str, Any] = {f"{META}clientCapabilities": {}}
    only_tasks: dict[str, Any] = {f"{META}clientCapabilities": {"extensions": {EXTENSION: {}}}}
    await caller.call(asking, meta=nothing)
    task_id = await caller.create(asking, meta=only_tasks)
    if task_id is None:
        return
    for _ in range(5):
        await caller.get(task_id, meta=only_tasks)
        await caller.pause(A_WHILE_MS / 10)
    await caller.cancel(task_id)


@probe(revisions=NEW)
async def several_conversations(harness: Harness) -> None:
    """Use three tasks on one connection in turn, then from another connection and as another
    caller.
    """
    caller = await harness.caller()
    tasks = [id for id in [await _a_task(harness, caller) for _ in range(3)] if id is not None]
    for _ in range(2):
        pending = [caller.start("tasks/get", {"taskId": id}) for id in tasks]
        for one in pending:
            await one.answer()
    if not tasks:
        return
    if harness.transport == "http":
        other = await harness.caller(fresh=True)
        async with harness.listen(other, tasks[:1]):  # forces a second HTTP connection
            for id in tasks:
                await other.get(id)
                await caller.get(id)
        if harness.has_two_principals:
            stranger = await harness.caller("B")
            await stranger.get(tasks[0], meta=_OTHER_NAME)
            await stranger.get(tasks[0])
    for id in tasks:
        await caller.cancel(id)


@probe(revisions=NEW)
async def initialize_of_older_revisions(harness: Harness) -> None:
    """Send `initialize` and, if the target accepts it, `tools/list` as in earlier revisions."""
    caller = await harness.new_caller()
    session = await _initialize(caller, OLDER, 1)
    if session is not None:
        await caller.send(_message("tools/list", 2), headers=session)
        await _end(caller, session)
    await (await harness.caller()).request("tools/list")
    if harness.transport == "http":  # this revision has no version header
        session = await _initialize(caller, OLDEST, 3)
        if session is not None:
            await _end(caller, session)
    await harness.release(caller)


async def _initialize(caller: Caller, version: str, id: int) -> dict[str, str | None] | None:
    """Return the headers of the session, or None without one."""
    bare: dict[str, str | None] = {"mcp-method": None, "mcp-protocol-version": None}
    client = {"name": "taskmachine-check", "version": "0"}
    about = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
    hello = await caller.send(_message("initialize", id, **about), headers=bare)
    if not isinstance(hello.result, dict):
        return None
    bare["mcp-session-id"] = hello.headers.get("mcp-session-id")
    agreed = hello.fields.get("protocolVersion")
    bare["mcp-protocol-version"] = agreed if isinstance(agreed, str) else version
    await caller.send({"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=bare)
    return bare


async def _end(caller: Caller, session: dict[str, str | None]) -> None:
    if session["mcp-session-id"] is not None:
        await caller.send(b"", method="DELETE", headers=session, wait_ms=SOON_MS)


def _message(method: str, id: int, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


# --- stdio ---------------------------------------------------------------------------------------


@probe(Role.SLOW, revisions=NEW, transports=PIPES)
async def cancel_on_stdio(harness: Harness) -> None:
    """Cancel a subscription and an ordinary call; then let the subscribed task change."""
    caller = await harness.caller()
    call = harness.profile.calls[Role.SLOW]
    task_id = await caller.create(call)
    if task_id is None:
        return
    wanted = {"notifications": {"taskIds": [task_id]}}
    caller.start("subscriptions/listen", wanted, id="cancelled-listen")
    caller.start_call(
        call, as_task=False, id="cancelled-call", meta={"progressToken": "cancelled-call"}
    )
    await caller.get(task_id)
    for id in ("cancelled-listen", "cancelled-call"):
        await caller.notify("notifications/cancelled", {"requestId": id})
    await caller.get(task_id)
    await caller.get(task_id)
    await caller.cancel(task_id)
    await caller.until(task_id, within_ms=SOON_MS)
    await caller.pause(A_WHILE_MS)
    await caller.get(task_id)
