"""Concurrent requests whose outcome depends on timing, and a later look at the result."""

import asyncio
from typing import Final

from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.probes.registry import probe
from taskmachine.adapters.conformance.profile import Role
from taskmachine.adapters.conformance.wire.caller import Caller, Pending

__all__: list[str] = []

SWEPT_MS: Final = (0, 1, 2, 4, 8, 16, 32)
"""Delays between the creation of a task and its cancellation."""

WAITERS: Final = 8
LONGEST_REST_MS: Final = 4_000.0
MOST_LOOKED_AT: Final = 60


async def _collect(harness: Harness, caller: Caller, task_id: str) -> None:
    """Get the task and its result."""
    await caller.get(task_id)
    if harness.revision == "2025-11-25":
        await caller.request("tasks/result", {"taskId": task_id})


@probe(Role.COMPLETES)
async def cancel_against_completion(harness: Harness) -> None:
    """Cancel a task that is about to complete, with increasing delays."""
    caller = await harness.caller()
    for delay_ms in SWEPT_MS:
        task_id = await caller.create(harness.profile.calls[Role.COMPLETES])
        if task_id is None:
            return
        await caller.pause(delay_ms)
        await caller.cancel(task_id)
        await caller.until(task_id)
        await _collect(harness, caller, task_id)


@probe(Role.SLOW)
async def cancel_twice_at_once(harness: Harness) -> None:
    """Send two cancellations concurrently, with a poll between them."""
    caller = await harness.caller()
    task_id = await caller.create(harness.profile.calls[Role.SLOW])
    if task_id is None:
        return
    task = {"taskId": task_id}
    await _all(
        [caller.start(method, task) for method in ("tasks/cancel", "tasks/get", "tasks/cancel")]
    )
    await caller.get(task_id)


@probe(Role.COMPLETES, revisions=("2025-11-25",))
async def many_wait_for_one_result(harness: Harness) -> None:
    """Send several `tasks/result` requests for one task, and abandon one of them."""
    caller = await harness.caller()
    task_id = await caller.create(harness.profile.calls[Role.COMPLETES])
    if task_id is None:
        return
    waiting = [caller.start("tasks/result", {"taskId": task_id}) for _ in range(WAITERS)]
    if harness.transport == "http":
        await waiting.pop().abandon()
    await _all(waiting)
    await _collect(harness, caller, task_id)


@probe(Role.COMPLETES)
async def many_tasks_at_once(harness: Harness) -> None:
    """Run several tasks of one tool concurrently."""
    caller = await harness.caller()
    call = harness.profile.calls[Role.COMPLETES]
    made = await asyncio.gather(*(caller.create(call) for _ in range(WAITERS)))
    await asyncio.gather(*(caller.until(task_id) for task_id in made if task_id is not None))


@probe(Role.SLOW, alone=True)
async def poll_after_the_work(harness: Harness) -> None:
    """Cancel a slow task, wait until its work would have ended, then poll all tasks of the run."""
    caller = await harness.caller()
    call = harness.profile.calls[Role.SLOW]
    task_id = await caller.create(call)
    if task_id is not None:
        await caller.cancel(task_id)
    await caller.pause(min(2 * (call.takes_ms or 0) + 500, LONGEST_REST_MS))
    seen = [id for id, s in harness.history().by_task.items() if s[0].entry.line == caller.line]
    await _all([caller.start("tasks/get", {"taskId": id}) for id in seen[-MOST_LOOKED_AT:]])


@probe(Role.SLOW, revisions=("2025-11-25",), alone=True)
async def ttl_shorter_than_the_work(harness: Harness) -> None:
    """Create a task whose ttl ends before its work."""
    caller = await harness.caller()
    call = harness.profile.calls[Role.SLOW]
    task_id = await caller.create(call, ttl=100)
    if task_id is None:
        return
    await caller.pause(min((call.takes_ms or 0) + 500, LONGEST_REST_MS))
    await caller.get(task_id)
    await caller.cancel(task_id)


async def _all(pending: list[Pending]) -> None:
    await asyncio.gather(*(one.answer() for one in pending))
