"""Calls and tasks with progress tokens."""

from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.probes.registry import probe
from taskmachine.adapters.conformance.profile import Role, ToolCall
from taskmachine.adapters.conformance.wire.caller import Caller

__all__: list[str] = []

PLAIN = (Role.PLAIN, Role.COMPLETES, Role.FAILS)
SHORT_MS = 1_500
"""A task that takes longer is cancelled."""

LONG_MS = 5_500
"""A call that takes longer is not made."""


def _token(harness: Harness) -> dict[str, str]:
    return {"progressToken": f"progress-{harness.random.getrandbits(48):x}"}


@probe()
async def plain_calls_with_tokens(harness: Harness) -> None:
    """Make ordinary calls with tokens; late notifications would precede the next response."""
    caller = await harness.caller()
    reports = harness.profile.get(Role.REPORTS, Role.SLOW)
    reporting = None
    if reports is not None and (reports.takes_ms or 0) < LONG_MS:
        reporting = caller.start_call(reports, as_task=False, meta=_token(harness))
    for role in PLAIN:
        if role in harness.profile.calls:
            await caller.call(harness.profile.calls[role], as_task=False, meta=_token(harness))
            await caller.request("tools/list")
    if reporting is not None:
        await reporting.answer(LONG_MS)
        await caller.request("tools/list")


@probe(revisions=("2025-11-25",))
async def tasks_with_tokens(harness: Harness) -> None:
    """Receive progress while waiting for results, whose requests have other tokens."""
    call = harness.profile.get(Role.REPORTS, Role.SLOW, Role.COMPLETES)
    if call is not None:
        caller = await harness.caller()
        await _watch(harness, caller, call)
        quick = harness.profile.get(Role.COMPLETES)
        if quick is not None and quick is not call:
            await _watch(harness, caller, quick)


async def _watch(harness: Harness, caller: Caller, call: ToolCall) -> None:
    task_id = await caller.create(call, meta=_token(harness))
    if task_id is None:
        return
    params = {"taskId": task_id}
    result = caller.start("tasks/result", params, meta=_token(harness))
    await caller.get(task_id, meta=_token(harness))
    if await caller.until(task_id, within_ms=SHORT_MS) is None:
        await caller.cancel(task_id)
    await result.answer(SHORT_MS)
    await caller.get(task_id)
    await caller.request("tasks/result", params, meta=_token(harness), wait_ms=SHORT_MS)
    await caller.request("tools/list")
