"""Send `notifications/cancelled` in time, too late, and for unknown requests."""

from typing import Any, Final

from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.history import Entry
from taskmachine.adapters.conformance.probes.registry import probe
from taskmachine.adapters.conformance.profile import Role
from taskmachine.adapters.conformance.wire.caller import Caller, Pending

__all__: list[str] = []

CANCELLED: Final = "notifications/cancelled"
STEP_MS: Final = 20.0
LONG_MS: Final = 5_500.0
"""Calls that take longer are not waited for."""

MALFORMED: Final[tuple[Any, ...]] = (
    {"requestId": []},
    {"requestId": None},
    {"requestId": {"id": 1}, "reason": 7},
    {},
    None,
    [],
)


def _can_cancel(harness: Harness) -> bool:
    """Return False for 2026-07-28 over HTTP, where a client cancels by closing the stream."""
    return harness.revision == "2025-11-25" or harness.transport == "stdio"


async def _cancel(caller: Caller, id: Any) -> None:
    await caller.notify(CANCELLED, {"requestId": id, "reason": "no longer needed"})


async def _first_notification(
    caller: Caller, pending: Pending, method: str, ms: float
) -> Entry | None:
    """Wait for the first notification with this method; None if it does not arrive in time."""
    for _ in range(int(ms / STEP_MS)):
        found = [entry for entry in pending.heard() if entry.method == method]
        if found or pending.is_done:
            return found[0] if found else None
        await caller.pause(STEP_MS)
    return None


@probe()
async def cancel_working_call(harness: Harness) -> None:
    """Cancel an ordinary call after its first progress notification."""
    call = harness.profile.get(Role.REPORTS, Role.SLOW)
    if call is None or not _can_cancel(harness):
        return
    caller = await harness.caller(fresh=True)
    token = {"progressToken": f"cancelled-{harness.random.getrandbits(48):x}"}
    pending = caller.start_call(call, as_task=False, meta=token)
    await _first_notification(caller, pending, "notifications/progress", 1_000)
    if pending.is_done:
        return
    await _cancel(caller, pending.id)
    await caller.request("tools/list")
    heard = len(pending.heard())
    await caller.pause(10 * STEP_MS)
    if len(pending.heard()) > heard and not pending.is_done:  # for how long does it continue?
        await pending.answer(LONG_MS)
    await caller.request("tools/list")
    await pending.abandon()
    await harness.release(caller)


@probe(Role.SLOW, revisions=("2025-11-25",))
async def cancel_a_blocked_result(harness: Harness) -> None:
    """Cancel a blocked `tasks/result`; then let the task complete without waiting for it."""
    caller = await harness.caller()
    task_id = await caller.create(harness.profile.calls[Role.SLOW])
    if task_id is None:
        return
    result = caller.start("tasks/result", {"taskId": task_id})
    await caller.get(task_id)
    if result.is_done:
        return
    await _cancel(caller, result.id)
    await caller.get(task_id)
    await caller.cancel(task_id)
    await caller.get(task_id)
    await caller.pause(5 * STEP_MS)
    await result.abandon()


@probe(Role.COMPLETES)
async def cancel_after_task_creation(harness: Harness) -> None:
    """Cancel the request that created a task, after its response: the task must continue."""
    if not _can_cancel(harness):
        return
    caller = await harness.caller()
    call = harness.profile.get(Role.SLOW, Role.COMPLETES)
    for one in (call, harness.profile.calls[Role.COMPLETES]):
        if one is None:
            continue
        pending = caller.start_call(one)
        made = (await pending.answer()).fields
        task = made.get("task", made)
        task_id = task.get("taskId") if isinstance(task, dict) else None
        if isinstance(task_id, str):
            await _cancel(caller, pending.id)
            await caller.get(task_id)
            await caller.until(task_id, within_ms=300 if one is call else 3_000)
            if one is call:
                await caller.cancel(task_id)


@probe()
async def cancel_unknown_requests(harness: Harness) -> None:
    """Send cancellations that are too early, too late, unknown or malformed, each followed by a
    request.
    """
    if not _can_cancel(harness):
        return
    caller = await harness.caller(fresh=True)
    call = harness.profile.get(Role.PLAIN, Role.COMPLETES, Role.FAILS)
    if call is not None:
        racing = caller.start_call(call, as_task=False)
        await _cancel(caller, racing.id)
        await caller.request("tools/list")
        await racing.abandon()
    finished = caller.start("tools/list")
    await finished.answer()
    for id in (finished.id, 987_654, "no-such-request"):
        await _cancel(caller, id)
        await caller.request("tools/list")
    for params in MALFORMED:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": CANCELLED}
        await caller.send(message if params is None else {**message, "params": params})
        await caller.request("tools/list")
    await harness.release(caller)


@probe(Role.ASKS, revisions=("2025-11-25",))
async def answer_too_late(harness: Harness) -> None:
    """Cancel a task that awaits input, then answer its request."""
    caller = await harness.caller(fresh=True)
    caller.answering = lambda _: None
    task_id = await caller.create(harness.profile.calls[Role.ASKS])
    if task_id is None:
        return
    result = caller.start("tasks/result", {"taskId": task_id})
    question = await _first_notification(caller, result, "elicitation/create", 2_000)
    await caller.cancel(task_id)
    if question is not None:
        await _first_notification(caller, result, CANCELLED, 300)
        await caller.reply(question, {"result": {"action": "cancel"}})
    await caller.request("tools/list")
    await result.answer(1_000)
    await harness.release(caller)


@probe(Role.ASKS, revisions=("2025-11-25",))
async def answer_in_time(harness: Harness) -> None:
    """Answer a task's requests, and poll it until shortly after its end."""
    caller = await harness.caller()
    task_id = await caller.create(harness.profile.calls[Role.ASKS])
    if task_id is None:
        return
    await caller.request("tasks/result", {"taskId": task_id}, wait_ms=3_000)
    await caller.get(task_id)
    await caller.request("tools/list")
