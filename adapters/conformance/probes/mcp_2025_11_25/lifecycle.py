"""Initialization in 2025-11-25: early requests, invalid versions, no capabilities."""

from typing import Final

from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.history import Exchange
from taskmachine.adapters.conformance.probes.registry import probe
from taskmachine.adapters.conformance.profile import Role
from taskmachine.adapters.conformance.wire.caller import Caller
from taskmachine.adapters.conformance.wire.metadata import CLIENT

__all__: list[str] = []

ONLY: Final = ("2025-11-25",)
OLDER: Final = "2025-06-18"
NO_VERSION: Final = "1900-01-01"
TELLING_MS: Final = 300
"""Time for a target to send an early message."""


async def _say_hello(caller: Caller, version: str) -> Exchange:
    """Send `initialize` with that version, without `notifications/initialized`."""
    params = {
        "protocolVersion": version,
        "capabilities": caller.capabilities,
        "clientInfo": CLIENT,
    }
    hello = await caller.request("initialize", params)
    agreed, session = hello.fields.get("protocolVersion"), hello.headers.get("mcp-session-id")
    caller.session = {"mcp-protocol-version": agreed} if isinstance(agreed, str) else {}
    if session is not None:
        caller.session["mcp-session-id"] = session
    return hello


@probe(revisions=ONLY)
async def before_initialize(harness: Harness) -> None:
    """Send a request before `initialize`, then propose an unknown version."""
    caller = await harness.new_caller()
    # Some targets answer nothing before they are initialized.
    await caller.request("tools/list", wait_ms=2 * TELLING_MS)
    await _say_hello(caller, NO_VERSION)
    await harness.release(caller)


@probe(revisions=ONLY)
async def malformed_version(harness: Harness) -> None:
    """Propose a malformed version."""
    caller = await harness.new_caller()
    await _say_hello(caller, "the-latest")
    await harness.release(caller)


@probe(revisions=ONLY)
async def older_version(harness: Harness) -> None:
    """Propose a version without tasks; if the target agrees, make ordinary requests."""
    caller = await harness.new_caller()
    hello = await _say_hello(caller, OLDER)
    if hello.fields.get("protocolVersion") == OLDER:
        await caller.notify("notifications/initialized")
        await caller.request("tools/list")
        call = harness.profile.get(Role.PLAIN, Role.COMPLETES)
        if call is not None:
            await caller.call(call, as_task=False)
    await harness.release(caller)


@probe(revisions=ONLY)
async def initialized_withheld(harness: Harness) -> None:
    """Create a task that sends a request, before `notifications/initialized`."""
    caller = await harness.new_caller()
    hello = await _say_hello(caller, ONLY[0])
    if "protocolVersion" in hello.fields:
        await caller.request("ping")
        call = harness.profile.get(Role.ASKS, Role.SAMPLES)
        task_id = None if call is None else await caller.create(call)
        if task_id is not None:
            waiting = caller.start("tasks/result", {"taskId": task_id})
            await caller.pause(TELLING_MS)
            await caller.notify("notifications/initialized")
            await waiting.abandon()
            await caller.cancel(task_id)
    await harness.release(caller)


@probe(Role.ASKS, revisions=ONLY)
async def no_capabilities(harness: Harness) -> None:
    """Create a task that sends a request, as a client without capabilities."""
    caller = await harness.caller(fresh=True, capabilities={})
    await caller.request("ping")
    task_id = await caller.create(harness.profile.calls[Role.ASKS])
    if task_id is not None:
        waiting = caller.start("tasks/result", {"taskId": task_id})
        await caller.pause(TELLING_MS)
        await waiting.abandon()
        await caller.get(task_id)
        await caller.cancel(task_id)
    await harness.release(caller)
