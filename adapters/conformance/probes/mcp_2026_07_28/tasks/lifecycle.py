"""2026-07-28: complete task lifecycles, and requests in every status."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.probes.registry import probe
from taskmachine.adapters.conformance.profile import Role, ToolCall
from taskmachine.adapters.conformance.wire.answering import answer
from taskmachine.adapters.conformance.wire.caller import Caller

__all__: list[str] = []

_ONLY: Final = ("2026-07-28",)
_ENDING: Final = (Role.COMPLETES, Role.FAILS, Role.BREAKS, Role.REQUIRED)
_SHORT_TTL_MS: Final = 1_500
_LAST_PATIENCE_MS: Final = 5_500.0
"""Time for a response that must have no effect."""


@probe(revisions=_ONLY)
async def complete_lifecycles(harness: Harness) -> None:
    """Run tasks of every kind that end by themselves, then use them."""
    caller = await harness.caller()
    other = await harness.caller(fresh=True) if harness.transport == "http" else None
    calls = [harness.profile.calls[role] for role in _ENDING if role in harness.profile.calls]
    await asyncio.gather(*(_live(harness, caller, other, call) for call in calls))


async def _live(harness: Harness, caller: Caller, other: Caller | None, call: ToolCall) -> None:
    meta = {"progressToken": f"progress of {call.name} {harness.random.random()}"}
    made = await caller.call(call, meta=meta)
    id = made.fields.get("taskId")
    if not isinstance(id, str):
        return
    # Also on another connection, as soon as it is created.
    reads = [] if other is None else [other.get(id)]
    await asyncio.gather(caller.get(id), caller.get(id), *reads)
    if await caller.until(id) is None:
        return
    await _use_ended_task(caller, id)
    ttl = made.fields.get("ttlMs")
    if isinstance(ttl, int) and 0 <= ttl <= _SHORT_TTL_MS:
        await caller.pause(ttl + 200)
        await caller.get(id)


async def _use_ended_task(caller: Caller, id: str) -> None:
    """Send every request to an ended task: none may change it."""
    await caller.get(id)
    await caller.pause(20)
    await caller.get(id)
    await caller.cancel(id)
    unasked = {"no-such-question": {"action": "accept", "content": {}}}
    await caller.request("tasks/update", {"taskId": id, "inputResponses": unasked})
    await caller.get(id)


@probe(Role.SLOW, revisions=_ONLY)
async def cancel_working_tasks(harness: Harness) -> None:
    """Poll a working task, also on another connection, and cancel it twice."""
    caller = await harness.caller()
    other = await harness.caller(fresh=True) if harness.transport == "http" else caller
    id = await caller.create(harness.profile.calls[Role.SLOW])
    if id is None:
        return
    await other.get(id)
    for _ in range(3):
        await caller.get(id)
    await caller.cancel(id)
    await caller.get(id)
    if await caller.until(id, within_ms=3_000) is not None:
        await caller.get(id)
        await caller.pause(20)
        await caller.get(id)
        await caller.cancel(id)
        await caller.get(id)


@probe(Role.COMPLETES, revisions=_ONLY)
async def many_tasks(harness: Harness) -> None:
    """Create many tasks, some of which request an id."""
    caller = await harness.caller()
    call = harness.profile.calls[Role.COMPLETES]
    wishes = ["wished-for-by-the-caller", "00000000-0000-4000-8000-000000000000"]
    wishing = [
        caller.request("tools/call", {**call.params, "taskId": wishes[0]}),
        caller.request("tools/call", {**call.params, "task": {"taskId": wishes[1]}}),
    ]
    await asyncio.gather(*wishing, *(caller.create(call) for _ in range(4)))


# --- input requests ------------------------------------------------------------------------------


def _replies(task: Mapping[str, Any], words: str | None = None) -> dict[str, Any]:
    """Return a response to each outstanding request, with the given text where possible."""
    asked = task.get("inputRequests")
    replies: dict[str, Any] = {}
    for key, question in asked.items() if isinstance(asked, dict) else ():
        question = question if isinstance(question, dict) else {}
        params = question.get("params")
        reply = answer(question.get("method"), params if isinstance(params, dict) else {})
        replies[key] = dict(reply.get("result", {}))
        if words is not None and isinstance(replies[key].get("content"), dict):
            replies[key]["content"] = _reworded(replies[key]["content"], words)
    return replies


def _reworded(content: Mapping[str, Any], words: str) -> dict[str, Any]:
    free = [name for name, value in content.items() if value in ("yes", "Yes.")]
    return {**content, **dict.fromkeys(free, words)}


async def _update(caller: Caller, id: str, replies: Mapping[str, Any]) -> None:
    await caller.request("tasks/update", {"taskId": id, "inputResponses": dict(replies)})


async def _asking(caller: Caller, call: ToolCall) -> tuple[str, Mapping[str, Any]] | None:
    """Yield a task that waits for input."""
    id = await caller.create(call)
    task = None if id is None else await caller.until(id, "input_required")
    if id is None or task is None or task.get("status") != "input_required":
        return None
    return id, task


@probe(revisions=_ONLY)
async def answer_input_requests(harness: Harness) -> None:
    """Answer tasks that request input: under a wrong key, partially, twice, and too late."""
    caller = await harness.caller()
    calls = [harness.profile.calls.get(role) for role in (Role.ASKS, Role.SAMPLES)]
    await asyncio.gather(*(_answer(caller, call) for call in calls if call is not None))


async def _answer(caller: Caller, call: ToolCall) -> None:
    waiting = await _asking(caller, call)
    if waiting is None:
        return
    id, task = waiting
    await caller.get(id)
    everything = {**caller.capabilities, "roots": {}}
    await caller.get(id, meta={"io.modelcontextprotocol/clientCapabilities": everything})
    await _update(caller, id, {"no-such-question": {"action": "accept", "content": {}}})
    await caller.get(id)
    replies = _replies(task, "the first answer")
    if len(replies) > 1:
        key = next(iter(replies))
        await _update(caller, id, {key: replies.pop(key)})
        await caller.get(id)
    await _update(caller, id, replies)
    await _update(caller, id, _replies(task, "the second answer"))
    await caller.get(id)
    if await caller.until(id, within_ms=_LAST_PATIENCE_MS) is None:
        await caller.get(id)
        return
    await _update(caller, id, _replies(task, "the third answer"))
    await caller.get(id)


@probe(revisions=_ONLY)
async def cancel_while_waiting_for_input(harness: Harness) -> None:
    """Cancel a task that waits for input."""
    caller = await harness.caller()
    call = harness.profile.get(Role.ASKS, Role.SAMPLES)
    waiting = None if call is None else await _asking(caller, call)
    if waiting is not None:
        await caller.cancel(waiting[0])
        await caller.until(waiting[0], within_ms=2_000)
