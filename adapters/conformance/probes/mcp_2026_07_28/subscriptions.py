"""2026-07-28: `subscriptions/listen` for tasks and other notifications."""

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.history import Entry
from taskmachine.adapters.conformance.probes.registry import probe
from taskmachine.adapters.conformance.profile import Role, ToolCall
from taskmachine.adapters.conformance.wire.caller import Caller, Pending
from taskmachine.adapters.conformance.wire.metadata import META

__all__: list[str] = []

_ONLY: Final = ("2026-07-28",)
_WAIT_MS: Final = 1_500.0
_STEP_MS: Final = 20.0
_ENDS: Final = ("completed", "failed", "cancelled")


@contextlib.asynccontextmanager
async def _listening(
    harness: Harness, caller: Caller, wanted: dict[str, Any], **options: Any
) -> AsyncIterator[Pending]:
    """Open a subscription, wait for its response, and cancel it at the end."""
    stream = caller.start("subscriptions/listen", {"notifications": wanted}, **options)
    try:
        await _until(caller, stream, _is_acknowledged)
        yield stream
    finally:
        if harness.transport == "stdio" and not stream.is_done:
            await caller.notify("notifications/cancelled", {"requestId": stream.id})
        await stream.abandon()


async def _until(
    caller: Caller, stream: Pending, is_enough: Callable[[Sequence[Entry]], bool]
) -> None:
    """Wait until a condition holds, up to a time limit."""
    waited = 0.0
    while not stream.is_done and not is_enough(stream.heard()) and waited < _WAIT_MS:
        await caller.pause(_STEP_MS)
        waited += _STEP_MS


def _is_acknowledged(heard: Sequence[Entry]) -> bool:
    return any(entry.method == "notifications/subscriptions/acknowledged" for entry in heard)


def _is_terminal_notification(id: str) -> Callable[[Sequence[Entry]], bool]:
    def matches(heard: Sequence[Entry]) -> bool:
        return any(
            entry.method == "notifications/tasks"
            and entry.params.get("taskId") == id
            and entry.params.get("status") in _ENDS
            for entry in heard
        )

    return matches


def _noisy(harness: Harness) -> dict[str, Any]:
    """Return metadata that requests progress and log messages."""
    return {"progressToken": f"noise {harness.random.random()}", f"{META}logLevel": "debug"}


@probe(revisions=_ONLY)
async def subscribe_to_working_tasks(harness: Harness) -> None:
    """Run two tasks with progress, subscribe to one of them, and cancel it."""
    call = harness.profile.get(Role.SLOW, Role.REPORTS)
    caller = await harness.caller(fresh=True)
    if call is None:
        return
    id = await caller.create(call, meta=_noisy(harness))
    other = await caller.create(call, meta=_noisy(harness))
    if id is None or other is None:
        return
    async with _listening(harness, caller, {"taskIds": [id, "no-such-task"]}) as stream:
        await caller.pause(100)
        await caller.cancel(other)
        await caller.cancel(id)
        await _until(caller, stream, _is_terminal_notification(id))
        await caller.get(id)
        await caller.get(other)
    await harness.release(caller)


@probe(revisions=_ONLY)
async def subscribe_to_ending_tasks(harness: Harness) -> None:
    """Subscribe, under string ids, to tasks that end in every way."""
    caller = await harness.caller()
    for role in (Role.REPORTS, Role.COMPLETES, Role.FAILS, Role.BREAKS, Role.ASKS):
        call = harness.profile.calls.get(role)
        if call is not None and (call.takes_ms is None or call.takes_ms < _WAIT_MS):
            await _listen_to_the_end(harness, caller, call, f"subscription of {role}")


async def _listen_to_the_end(harness: Harness, caller: Caller, call: ToolCall, name: str) -> None:
    id = await caller.create(call, meta=_noisy(harness))
    if id is None:
        return
    async with _listening(harness, caller, {"taskIds": [id]}, id=name) as stream:
        if await caller.until(id, within_ms=_WAIT_MS) is not None and not stream.is_done:
            await _until(caller, stream, _is_terminal_notification(id))
            await caller.get(id)


@probe(revisions=_ONLY)
async def two_subscriptions_at_once(harness: Harness) -> None:
    """Subscribe to everything but tasks and to tasks, while a task runs."""
    call = harness.profile.get(Role.COMPLETES, Role.SLOW)
    caller = await harness.caller(fresh=True)
    everything = {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourcesListChanged": True,
        "resourceSubscriptions": ["file:///nowhere"],
    }
    id = None if call is None else await caller.create(call)
    async with _listening(harness, caller, everything):
        async with _listening(harness, caller, {"taskIds": [] if id is None else [id]}):
            if id is not None:
                await caller.cancel(id)
                await caller.get(id)
        await caller.pause(50)
    await harness.release(caller)


@probe(revisions=_ONLY)
async def subscribe_without_the_extension(harness: Harness) -> None:
    """Subscribe with task ids as a client that did not declare the extension."""
    caller = await harness.caller()
    call = harness.profile.get(Role.SLOW, Role.COMPLETES)
    id = None if call is None else await caller.create(call)
    rest = {name: value for name, value in caller.capabilities.items() if name != "extensions"}
    meta = {f"{META}clientCapabilities": rest}
    for wanted in ("no-such-task", id):
        if wanted is not None:
            async with _listening(harness, caller, {"taskIds": [wanted]}, meta=meta):
                pass
    if id is not None:
        await caller.cancel(id)
