"""Complete task lifecycles of 2025-11-25, with every way to end."""

import asyncio
from contextlib import nullcontext
from typing import Any, Final

from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.history import RELATED, Entry
from taskmachine.adapters.conformance.probes.registry import probe
from taskmachine.adapters.conformance.profile import Role, ToolCall
from taskmachine.adapters.conformance.wire.answering import Reply, answer
from taskmachine.adapters.conformance.wire.caller import Caller, Pending

__all__: list[str] = []

OLD: Final = ("2025-11-25",)
A_WHILE_MS: Final = 60.0
"""Time for a non-blocking response to arrive."""

PATIENT_MS: Final = 6_500.0
"""Time limit for an expected message."""

LONGEST_PLAIN_MS: Final = 1_500
MOST_RESULTS: Final = 40


# --- every way to end ----------------------------------------------------------------------------


@probe(Role.COMPLETES, revisions=OLD)
async def completes(harness: Harness) -> None:
    """Let a task complete, retrieve it in every way, then call the tool without a task."""
    await _to_the_end(harness, harness.profile.calls[Role.COMPLETES])


@probe(Role.FAILS, revisions=OLD)
async def fails(harness: Harness) -> None:
    """Run a task whose tool reports an error."""
    await _to_the_end(harness, harness.profile.calls[Role.FAILS])


@probe(Role.BREAKS, revisions=OLD)
async def breaks(harness: Harness) -> None:
    """Run a task that ends with a JSON-RPC error."""
    await _to_the_end(harness, harness.profile.calls[Role.BREAKS])


@probe(Role.REQUIRED, revisions=OLD)
async def required(harness: Harness) -> None:
    """Call a task-only tool with and without a task."""
    await _to_the_end(harness, harness.profile.calls[Role.REQUIRED])


async def _to_the_end(harness: Harness, call: ToolCall) -> None:
    caller = await harness.caller()
    task_id = await caller.create(call, ttl=600_000)
    if task_id is None:
        return
    await caller.get(task_id)
    if await caller.until(task_id) is None:
        return
    task = {"taskId": task_id}
    await caller.request("tasks/result", task)
    await caller.cancel(task_id)
    await caller.request("tasks/result", task)
    await caller.get(task_id)
    if (call.takes_ms or 0) <= LONGEST_PLAIN_MS:
        for _ in range(2):
            await caller.call(call, as_task=False)


@probe(revisions=OLD, alone=True)
async def results_of_all(harness: Harness) -> None:
    """Get the results of all ended tasks of the run whose result was not requested yet."""
    caller = await harness.caller()
    history = harness.history()
    ended = [
        task_id
        for task_id, sightings in history.by_task.items()
        if sightings[0].entry.line == caller.line and sightings[-1].is_terminal
    ]
    asked = [task_id for task_id in ended if task_id not in history.results][:MOST_RESULTS]
    waiting = [caller.start("tasks/result", {"taskId": task_id}) for task_id in asked]
    await asyncio.gather(*(one.answer(PATIENT_MS) for one in waiting))


@probe(Role.SLOW, revisions=OLD)
async def cancel_while_working(harness: Harness) -> None:
    """Block several `tasks/result`, abandon one, cancel the task, then send every request again."""
    caller = await harness.caller()
    async with harness.listen(caller) if harness.transport == "http" else nullcontext():
        task_id = await caller.create(harness.profile.calls[Role.SLOW])
        if task_id is None:
            return
        waiting, unwilling = (caller.start("tasks/result", {"taskId": task_id}) for _ in range(2))
        await caller.pause(A_WHILE_MS)
        await caller.get(task_id)
        await caller.notify("notifications/cancelled", {"requestId": unwilling.id})
        await caller.pause(A_WHILE_MS)
        await caller.get(task_id)
        await unwilling.abandon()
        if waiting.is_done:  # the target answered too early
            await caller.get(task_id)
        await caller.cancel(task_id)
        await caller.get(task_id)
        await waiting.answer(PATIENT_MS)
        await caller.cancel(task_id)
        await caller.request("tasks/result", {"taskId": task_id}, wait_ms=PATIENT_MS)
        await caller.get(task_id)


@probe(Role.SLOW, revisions=OLD)
async def disconnect_while_working(harness: Harness) -> None:
    """Abandon a `tasks/result` without cancelling the task: it must continue."""
    caller = await harness.caller()
    call = harness.profile.calls[Role.SLOW]
    task_id = await caller.create(call)
    if task_id is None:
        return
    waiting = caller.start("tasks/result", {"taskId": task_id})
    await caller.pause(A_WHILE_MS)
    await caller.notify("notifications/cancelled", {"requestId": waiting.id})
    await waiting.abandon()
    for _ in range(4):
        await caller.pause(2 * A_WHILE_MS)
        await caller.get(task_id)


@probe(Role.COMPLETES, revisions=OLD)
async def wait_for_result(harness: Harness) -> None:
    """Send `tasks/result` immediately, and poll the task before and after its response."""
    caller = await harness.caller()
    task_id = await caller.create(harness.profile.calls[Role.COMPLETES])
    if task_id is None:
        return
    waiting = caller.start("tasks/result", {"taskId": task_id})
    await caller.get(task_id)
    await waiting.answer()
    await caller.get(task_id)


@probe(revisions=OLD)
async def cancel_while_reporting(harness: Harness) -> None:
    """Cancel a task that reports progress: the notifications must stop."""
    call = harness.profile.get(Role.REPORTS, Role.SLOW)
    if call is None:
        return
    caller = await harness.caller()
    async with harness.listen(caller) if harness.transport == "http" else nullcontext():
        token = f"cancelled-{harness.recorder.now():g}"
        task_id = await caller.create(call, meta={"progressToken": token})
        if task_id is None:
            return
        waiting = caller.start("tasks/result", {"taskId": task_id})
        for _ in range(8):
            if _reports(harness, token) > 1 or waiting.is_done:
                break
            await caller.pause(A_WHILE_MS)
        await caller.cancel(task_id)
        await caller.pause(A_WHILE_MS)
        heard = _reports(harness, token)
        await caller.pause(3 * A_WHILE_MS)
        if _reports(harness, token) > heard:  # notifications continue: measure for how long
            await caller.pause(PATIENT_MS)
        await caller.get(task_id)


def _reports(harness: Harness, token: str) -> int:
    progress = harness.history().notifications("notifications/progress")
    return sum(entry.params.get("progressToken") == token for entry in progress)


# --- tasks that request input --------------------------------------------------------------------


class _Held:
    """Received requests that are not answered yet."""

    def __init__(self, caller: Caller) -> None:
        self.questions: list[Entry] = []
        self._caller = caller
        caller.answering = self._hold

    def _hold(self, entry: Entry) -> Reply | None:
        if entry.method == "ping":
            return answer(entry.method, entry.params)
        self.questions.append(entry)
        return None

    async def wait_for(self, count: int) -> None:
        """Wait until that many were received, or for a short time."""
        for _ in range(40):
            if len(self.questions) >= count:
                return
            await self._caller.pause(A_WHILE_MS)

    async def reply(self, question: Entry) -> None:
        """Answer one request."""
        await self._caller.reply(question, answer(question.method, question.params))

    async def reply_to_all(self) -> None:
        """Answer all received requests, and later ones immediately."""
        self._caller.answering = lambda entry: answer(entry.method, entry.params)
        for question in self.questions:
            await self.reply(question)


@probe(revisions=OLD)
async def two_tasks_wait_for_input(harness: Harness) -> None:
    """Let two tasks wait for input, and answer only one of them."""
    calls = [harness.profile.calls.get(role) for role in (Role.ASKS, Role.SAMPLES)]
    known = [call for call in calls if call is not None]
    if not known:
        return
    caller = await harness.caller(fresh=True)
    for call in known:
        await _two_ask(caller, call)
    await harness.release(caller)


async def _two_ask(caller: Caller, call: ToolCall) -> None:
    held = _Held(caller)
    made = [await caller.create(call) for _ in range(2)]
    ids = [task_id for task_id in made if task_id is not None]
    if len(ids) < 2:
        return
    for task_id in ids:
        await caller.until(task_id, "input_required", within_ms=2_000)
    waiting = [caller.start("tasks/result", {"taskId": task_id}) for task_id in ids]
    await held.wait_for(2)
    await _look(caller, ids)
    if held.questions:
        first = held.questions.pop(0)
        await held.reply(first)
        if isinstance(first.related_task, str):
            await caller.until(first.related_task, "working", within_ms=PATIENT_MS)
    await _look(caller, ids)
    await held.reply_to_all()
    for task_id in ids:
        await caller.until(task_id, within_ms=PATIENT_MS)
    await asyncio.gather(*(one.answer(PATIENT_MS) for one in waiting))


async def _look(caller: Caller, ids: list[str]) -> None:
    for task_id in ids:
        await caller.get(task_id)


# --- several tasks -------------------------------------------------------------------------------


@probe(Role.COMPLETES, revisions=OLD)
async def metadata_names_another_task(harness: Harness) -> None:
    """Send each method with one task id as parameter and another one in the metadata."""
    caller = await harness.caller()
    made = [await caller.create(harness.profile.calls[Role.COMPLETES]) for _ in range(2)]
    ids = [task_id for task_id in made if task_id is not None]
    if len(ids) < 2:
        return
    meta = {RELATED: {"taskId": ids[1]}}
    own = {RELATED: {"taskId": ids[0]}}
    for task_id in ids:
        await caller.until(task_id)
    asked: list[Pending] = []
    for method in ("tasks/get", "tasks/result"):
        for named in (meta, own):
            asked.append(caller.start(method, {"taskId": ids[0]}, meta=named))
    await asyncio.gather(*(one.answer(PATIENT_MS) for one in asked))
    await caller.get(ids[0])
    await caller.request("tasks/result", {"taskId": ids[0]})


@probe(Role.SLOW, revisions=OLD)
async def cancel_names_another_task(harness: Harness) -> None:
    """Cancel a slow task, with another task's id in the metadata."""
    caller = await harness.caller()
    call = harness.profile.calls[Role.SLOW]
    made = [await caller.create(call) for _ in range(2)]
    ids = [task_id for task_id in made if task_id is not None]
    if len(ids) < 2:
        return
    meta: dict[str, Any] = {RELATED: {"taskId": ids[1]}}
    await caller.request("tasks/get", {"taskId": ids[0]}, meta=meta, wait_ms=PATIENT_MS)
    await caller.request("tasks/cancel", {"taskId": ids[0]}, meta=meta, wait_ms=PATIENT_MS)
    await _look(caller, ids)
    await caller.cancel(ids[1])
