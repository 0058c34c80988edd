"""Errors, lists, ttls and isolation of tasks in 2025-11-25."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.probes.registry import probe
from taskmachine.adapters.conformance.profile import Role
from taskmachine.adapters.conformance.wire.caller import Caller

__all__: list[str] = []

OLD: Final = ("2025-11-25",)
UNKNOWN: Final = ("00000000-0000-4000-8000-000000000000", "no-such-task")
INVALID: Final[tuple[Any, ...]] = ("", 7, None)
MOST_PAGES: Final = 30
BATCH: Final = 20
BATCHES: Final = 6
LOOKED_AT: Final = 8
CENTURY_MS: Final = 100 * 365 * 24 * 3_600_000
SHORT_MS: Final = 400
LONGEST_WAIT_MS: Final = 1_500.0
LOOKUPS: Final = 110
MANY_TASKS: Final = 40
AT_A_TIME: Final = 10
PATIENT_MS: Final = 6_500.0


# --- unknown tasks -------------------------------------------------------------------------------


@probe(revisions=OLD)
async def unknown_tasks(harness: Harness) -> None:
    """Use unknown task ids, and values that are not ids."""
    caller = await harness.caller()
    asked = [
        caller.start(method, {"taskId": id})
        for method in ("tasks/get", "tasks/result", "tasks/cancel")
        for id in (*UNKNOWN, *INVALID)
    ]
    asked += [caller.start(method, {}) for method in ("tasks/get", "tasks/cancel")]
    await asyncio.gather(*(one.answer(PATIENT_MS) for one in asked))


@probe(revisions=OLD)
async def other_types_as_tasks(harness: Harness) -> None:
    """Send requests of types without tasks, with and without `params.task`."""
    caller = await harness.caller()
    wish: dict[str, Any] = {"task": {"ttl": 60_000}}
    for method in ("ping", "tools/list"):
        await caller.request(method)
        await caller.request(method, dict(wish))


# --- which calls become tasks --------------------------------------------------------------------


@probe(Role.PLAIN, revisions=OLD)
async def plain_tool_as_task(harness: Harness) -> None:
    """Call a tool that cannot run as a task, with and without `params.task`."""
    caller = await harness.caller()
    await caller.call(harness.profile.calls[Role.PLAIN], as_task=False)
    await caller.call(harness.profile.calls[Role.PLAIN])


@probe(Role.COMPLETES, revisions=OLD)
async def requested_id_and_ttl(harness: Harness) -> None:
    """Request a task id and an enormous ttl."""
    caller = await harness.caller()
    params = harness.profile.calls[Role.COMPLETES].params
    wishes: tuple[Mapping[str, Any], ...] = (
        {"taskId": "mine", "ttl": 60_000},
        {"ttl": CENTURY_MS},
        {"ttl": 90_000},
    )
    for wish in wishes:
        made = await caller.request("tools/call", {**params, "task": wish})
        task = made.fields.get("task")
        task_id = task.get("taskId") if isinstance(task, dict) else None
        if isinstance(task_id, str):
            await caller.until(task_id)


@probe(Role.COMPLETES, revisions=OLD)
async def short_ttl(harness: Harness) -> None:
    """Get a task before and, if that is soon, after the end of its ttl."""
    caller = await harness.caller()
    made = await caller.call(harness.profile.calls[Role.COMPLETES], ttl=SHORT_MS)
    task = made.fields.get("task")
    if not isinstance(task, dict) or not isinstance(task.get("taskId"), str):
        return
    granted = task.get("ttl")
    await caller.get(task["taskId"])
    if not isinstance(granted, int | float) or granted > LONGEST_WAIT_MS:
        return
    await caller.pause(granted / 2)
    await caller.get(task["taskId"])
    await caller.pause(granted / 2 + 200)
    await caller.get(task["taskId"])


# --- lists ---------------------------------------------------------------------------------------


@probe(Role.COMPLETES, revisions=OLD, alone=True)
async def all_pages(harness: Harness) -> None:
    """Create tasks until the list has two pages, read all pages, then get tasks again."""
    caller = await harness.caller()
    call = harness.profile.calls[Role.COMPLETES]
    deadline = harness.recorder.now() + LONGEST_WAIT_MS
    ids: list[str] = []
    for _ in range(BATCHES):
        made = await asyncio.gather(*(caller.create(call) for _ in range(BATCH)))
        ids += [task_id for task_id in made if task_id is not None]
        page = await caller.request("tasks/list")
        if "nextCursor" in page.fields or harness.recorder.now() > deadline:
            break
    for task_id in ids[:LOOKED_AT]:
        await caller.until(task_id)
    cursor = await _walk(caller)
    for task_id in ids[:LOOKED_AT]:
        await caller.get(task_id)
    wrong: list[Any] = ["no-such-cursor", "!", 7]
    if isinstance(cursor, str):
        wrong.append(cursor[:-1] + ("A" if cursor[-1:] != "A" else "B"))
    asked = [caller.start("tasks/list", {"cursor": one}) for one in wrong]
    await asyncio.gather(*(one.answer() for one in asked))


async def _walk(caller: Caller) -> Any:
    """Read all pages of a list, and return the last cursor."""
    cursor: Any = None
    last: Any = None
    for _ in range(MOST_PAGES):
        page = await caller.request("tasks/list", {} if cursor is None else {"cursor": cursor})
        cursor = page.fields.get("nextCursor")
        if not isinstance(cursor, str):
            break
        last = cursor
    return last


# --- isolation of callers ------------------------------------------------------------------------


@probe(Role.SLOW, revisions=OLD, transports=("http",))
async def isolation_of_callers(harness: Harness) -> None:
    """Use one caller's tasks as another caller, in every method."""
    if not harness.has_two_principals:
        return
    owner, other = await harness.caller("A"), await harness.caller("B")
    call = harness.profile.calls[Role.SLOW]
    task_id = await owner.create(call)
    await other.create(call)
    if task_id is None:
        return
    await owner.get(task_id)
    for method in ("tasks/get", "tasks/result", "tasks/cancel"):
        await other.request(method, {"taskId": task_id}, wait_ms=PATIENT_MS)
    await owner.get(task_id)
    await owner.request("tasks/list")
    await other.request("tasks/list")
    await owner.cancel(task_id)


@probe(Role.COMPLETES, revisions=OLD, transports=("http",))
async def list_as_new_caller(harness: Harness) -> None:
    """List tasks as a new caller."""
    if harness.has_two_principals:
        return
    caller = await harness.caller()
    await caller.create(harness.profile.calls[Role.COMPLETES])
    stranger = await harness.caller(fresh=True)
    await stranger.request("tasks/list")
    await harness.release(stranger)


# --- limits --------------------------------------------------------------------------------------


@probe(revisions=OLD, alone=True)
async def many_requests(harness: Harness) -> None:
    """Guess many ids and create many slow tasks on a separate connection; then cancel the tasks."""
    caller = await harness.caller(fresh=True)
    for first in range(0, LOOKUPS, AT_A_TIME):
        await asyncio.gather(*(caller.get(f"guess-{first + n}") for n in range(AT_A_TIME)))
    call = harness.profile.calls.get(Role.SLOW)
    ids: list[str] = []
    while call is not None and _can_cancel(caller) and len(ids) < MANY_TASKS:
        made = await asyncio.gather(*(caller.create(call) for _ in range(AT_A_TIME)))
        ids += [task_id for task_id in made if task_id is not None]
        if None in made:
            break
    await asyncio.gather(*(caller.get(task_id) for task_id in ids))
    await asyncio.gather(*(caller.cancel(task_id) for task_id in ids))
    await harness.release(caller)


def _can_cancel(caller: Caller) -> bool:
    capabilities = caller.server.get("capabilities")
    tasks = capabilities.get("tasks") if isinstance(capabilities, dict) else None
    return isinstance(tasks, dict) and "cancel" in tasks
