"""2026-07-28: requests that the tasks extension must reject or ignore, and isolation of callers."""

import asyncio
import uuid
from typing import Any, Final

from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.probes.registry import probe
from taskmachine.adapters.conformance.profile import Role, ToolCall
from taskmachine.adapters.conformance.wire.caller import EXTENSION, Caller
from taskmachine.adapters.conformance.wire.metadata import META

__all__: list[str] = []

_ONLY: Final = ("2026-07-28",)
_OLD_TASKS: Final[dict[str, Any]] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
_NO_ROUTING: Final = {"mcp-protocol-version": None, "mcp-method": None, "mcp-name": None}
_MOST_TOOLS: Final = 8
_AGREED: Final = "2025-11-25"


def _without_tasks(caller: Caller, **more: Any) -> dict[str, Any]:
    """Return metadata that does not declare the extension."""
    rest = {name: value for name, value in caller.capabilities.items() if name != "extensions"}
    return {f"{META}clientCapabilities": {**rest, **more}}


async def _ask_everything(caller: Caller, id: Any, **options: Any) -> None:
    await asyncio.gather(
        caller.get(id, **options),
        caller.cancel(id, **options),
        caller.request("tasks/update", {"taskId": id, "inputResponses": {}}, **options),
    )


@probe(revisions=_ONLY)
async def unknown_tasks(harness: Harness) -> None:
    """Use unknown task ids and values that are not ids, with and without the extension."""
    caller = await harness.caller()
    unknown = str(uuid.UUID(int=harness.random.getrandbits(128), version=4))
    for id in (unknown, "", "no-such-task", 7, None):
        await _ask_everything(caller, id)
    for meta in (_without_tasks(caller), _without_tasks(caller, tasks=_OLD_TASKS)):
        await _ask_everything(caller, unknown, meta=meta)
    for method in ("tasks/list", "tasks/result"):
        await caller.request(method, {"taskId": unknown} if method == "tasks/result" else {})


@probe(revisions=_ONLY)
async def known_tasks_without_the_extension(harness: Harness) -> None:
    """Use an existing task without declaring the extension."""
    caller = await harness.caller()
    call = harness.profile.get(Role.SLOW, Role.COMPLETES)
    id = None if call is None else await caller.create(call)
    if id is None:
        return
    await _ask_everything(caller, id, meta=_without_tasks(caller))
    await caller.get(id, meta=_without_tasks(caller, tasks=_OLD_TASKS))
    await caller.request("tasks/result", {"taskId": id})
    await caller.get(id)
    await caller.cancel(id)


@probe(revisions=_ONLY)
async def calls_with_and_without_tasks(harness: Harness) -> None:
    """Make the same calls with and without the extension, and with older parameters."""
    caller = await harness.caller()
    roles = (Role.COMPLETES, Role.FAILS, Role.BREAKS)
    calls = [harness.profile.calls[role] for role in roles if role in harness.profile.calls]
    await asyncio.gather(*(_both_ways(caller, call) for call in calls if _is_quick(call)))
    served = _served(harness)
    await asyncio.gather(*(_without_waiting(harness, caller, params) for params in served))
    if not harness.history().created:
        await asyncio.gather(*(_with_task_parameter(caller, params) for params in served))


def _served(harness: Harness) -> list[dict[str, Any]]:
    """Return the parameters of one successful call per tool."""
    found = {
        call.params.get("name"): {
            k: v for k, v in call.params.items() if k in ("name", "arguments")
        }
        for call in harness.history().calls("tools/call")
        if isinstance(call.params.get("name"), str) and call.fields
    }
    return list(found.values())[:_MOST_TOOLS]


async def _with_task_parameter(caller: Caller, params: dict[str, Any]) -> None:
    """Call twice without and twice with `params.task`, to see if it makes a difference."""
    for asking in (False, False, True, True):
        await caller.request("tools/call", {**params, "task": {}} if asking else params)


async def _without_waiting(harness: Harness, caller: Caller, params: dict[str, Any]) -> None:
    """Call without the extension, and wait only for an immediate rejection."""
    pending = caller.start("tools/call", params, meta=_without_tasks(caller))
    for _ in range(10):
        if pending.is_done:
            return
        await caller.pause(30)
    if harness.transport == "stdio":
        await caller.notify("notifications/cancelled", {"requestId": pending.id})
    await pending.abandon()


def _is_quick(call: ToolCall) -> bool:
    return call.takes_ms is None or call.takes_ms < 1_000


async def _both_ways(caller: Caller, call: ToolCall) -> None:
    await caller.call(call, as_task=False)
    await caller.call(call, as_task=False)
    for _ in range(2):
        id = await caller.create(call)
        if id is not None:
            await caller.until(id)
    asking = {**call.params, "task": {"ttl": 60_000}}
    for meta in (None, None, _without_tasks(caller), _without_tasks(caller, tasks=_OLD_TASKS)):
        await caller.request("tools/call", asking, meta=meta)


@probe(revisions=_ONLY, transports=("http",))
async def isolation_of_callers(harness: Harness) -> None:
    """Use one caller's task as the other caller and without credentials."""
    call = harness.profile.get(Role.SLOW, Role.COMPLETES)
    caller, other = await harness.caller("A"), await harness.caller("B", fresh=True)
    id = None if call is None else await caller.create(call)
    if id is None:
        return
    await _ask_everything(other, id)
    await _listen_briefly(other, id)
    if harness.has_two_principals:
        await _ask_everything(caller, id, headers={"authorization": None})
    await caller.get(id)
    await caller.cancel(id)


async def _listen_briefly(caller: Caller, id: str) -> None:
    stream = caller.start("subscriptions/listen", {"notifications": {"taskIds": [id]}})
    for _ in range(20):
        if stream.is_done or stream.heard():
            break
        await caller.pause(20)
    await stream.abandon()


# --- 2025-11-25 ----------------------------------------------------------------------------------


@probe(revisions=_ONLY)
async def extension_in_older_sessions(harness: Harness) -> None:
    """Declare the extension in a 2025-11-25 session; request old tasks in another."""
    call = harness.profile.get(Role.COMPLETES, Role.SLOW)
    if call is None:
        return
    caller = await harness.new_caller()
    session = await _initialize(caller)
    if session is not None:
        await _old_request(caller, session, "tools/call", call.params)
        made = await _old_request(caller, session, "tools/call", {**call.params, "task": {}})
        task = made.fields.get("task")
        id = task.get("taskId") if isinstance(task, dict) else None
        if id is not None:
            await _old_request(caller, session, "tasks/get", {"taskId": id})
            await _old_request(caller, session, "tasks/cancel", {"taskId": id})
    if session and harness.transport == "http":
        await caller.send(b"", method="DELETE", headers={**_NO_ROUTING, **session}, wait_ms=2_000)
    await harness.release(caller)


async def _initialize(caller: Caller) -> dict[str, str] | None:
    """Return the headers of a session, or None if the target does not support that revision."""
    params = {
        "protocolVersion": _AGREED,
        "capabilities": {"extensions": {EXTENSION: {}}},
        "clientInfo": {"name": "taskmachine-check", "version": "1"},
    }
    hello = await _old_request(caller, {}, "initialize", params)
    if hello.fields.get("protocolVersion") != _AGREED:
        return None
    session = {"mcp-protocol-version": _AGREED}
    if "mcp-session-id" in hello.headers:
        session["mcp-session-id"] = hello.headers["mcp-session-id"]
    await caller.send(
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        headers={**_NO_ROUTING, **session},
    )
    return session


async def _old_request(caller: Caller, session: dict[str, str], method: str, params: Any) -> Any:
    message = {"jsonrpc": "2.0", "id": f"old {method}", "method": method, "params": params}
    if "task" in params:
        message["id"] = f"old {method} as a task"
    return await caller.send(message, headers={**_NO_ROUTING, **session})
