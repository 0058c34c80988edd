"""HTTP in 2025-11-25: origins, headers, sessions, concurrent and broken streams."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.probes.registry import probe
from taskmachine.adapters.conformance.profile import Role, ToolCall
from taskmachine.adapters.conformance.wire.caller import Caller, Pending

__all__: list[str] = []

ONLY: Final = ("2025-11-25",)
WEB: Final = ("http",)
FOREIGN: Final = {"origin": "https://evil.example"}
EVENTS: Final[dict[str, str | None]] = {"accept": "text/event-stream", "content-type": None}
OPENING_MS: Final = 1_000
TELLING_MS: Final = 300
HOLDING_MS: Final = 600
"""Long enough for all earlier messages to arrive."""

STEP_MS: Final = 20


async def _opened(caller: Caller, *streams: Pending) -> None:
    """Wait briefly until each response has started or ended."""
    await _until(caller, lambda: all(s.head is not None or s.is_done for s in streams))


async def _until(caller: Caller, is_so: Callable[[], bool]) -> None:
    for _ in range(OPENING_MS // STEP_MS):
        if is_so():
            return
        await caller.pause(STEP_MS)


async def _glance(caller: Caller, headers: dict[str, str | None]) -> None:
    """Open the GET stream, and close it as soon as the target responds."""
    stream = caller.begin(b"", method="GET", headers={**EVENTS, **headers})
    await _opened(caller, stream)
    await stream.abandon()


def _last_event_id(harness: Harness, stream: Pending) -> str | None:
    """Return the last event id on a stream so far."""
    ids = [
        entry.http.event_id
        for entry in harness.history(stream.request.number).entries
        if entry.post == stream.request.post and entry.http is not None and entry.http.event_id
    ]
    return ids[-1] if ids else None


# --- headers and sessions ------------------------------------------------------------------------


@probe(revisions=ONLY, transports=WEB)
async def foreign_origins(harness: Harness) -> None:
    """Send requests of every HTTP method with a foreign `Origin`."""
    caller = await harness.caller(fresh=True)
    await caller.request("ping", headers=FOREIGN)
    await caller.notify("notifications/no-such-notification", headers=FOREIGN)
    await _glance(caller, dict(FOREIGN))
    await caller.send(b"", method="DELETE", headers=FOREIGN)
    await harness.release(caller)


@probe(revisions=ONLY, transports=WEB)
async def versions_in_headers(harness: Harness) -> None:
    """Send requests without a version header, and with unknown versions."""
    caller = await harness.caller()
    for version in (None, "1900-01-01", "the-latest"):
        await caller.request("ping", headers={"mcp-protocol-version": version})
    await caller.request("tools/list", headers={"mcp-session-id": None})


@probe(revisions=ONLY, transports=WEB)
async def no_credentials(harness: Harness) -> None:
    """Send a request without credentials, if the target has any."""
    caller = await harness.caller()
    await caller.request("tools/list", headers={"authorization": None})


@probe(revisions=ONLY, transports=WEB)
async def ended_sessions(harness: Harness) -> None:
    """Terminate sessions, one of them with an open stream, then use them."""
    callers = [await harness.caller(fresh=True) for _ in range(3)]
    async with harness.listen(callers[0]) as stream:
        await _opened(callers[0], stream)
        for caller in callers:
            await caller.send(b"", method="DELETE")
            await caller.request("ping")
            await caller.notify("notifications/no-such-notification")
            await _glance(caller, {})
    for caller in callers:
        await harness.release(caller)


# --- streams -------------------------------------------------------------------------------------


@probe(revisions=ONLY, transports=WEB)
async def streams_side_by_side(harness: Harness) -> None:
    """Run two tasks of each kind, each with a result stream, beside the GET stream."""
    roles = (Role.ASKS, Role.REPORTS, Role.COMPLETES)
    calls = [harness.profile.calls[role] for role in roles if role in harness.profile.calls]
    caller = await harness.caller(fresh=True)
    async with harness.listen(caller) as listening:
        await _opened(caller, listening)
        await asyncio.gather(
            *(_follow(caller, call, f"{call.name}-{turn}") for call in calls for turn in (1, 2))
        )
    await harness.release(caller)


async def _follow(caller: Caller, call: ToolCall, token: str) -> None:
    task_id = await caller.create(call, meta={"progressToken": f"side-by-side-{token}"})
    if task_id is not None:
        result = caller.start("tasks/result", {"taskId": task_id})
        task = await caller.until(task_id, within_ms=3_000)
        if task is None or "status" not in task:
            await result.abandon()
        else:
            await result.answer()


@probe(Role.ASKS, revisions=ONLY, transports=WEB)
async def unanswered_request(harness: Harness) -> None:
    """Leave a task's request unanswered for a while, with three open streams."""
    caller = await harness.caller(fresh=True)
    answer, caller.answering = caller.answering, lambda question: None
    async with harness.listen(caller) as listening:
        await _opened(caller, listening)
        task_id = await caller.create(harness.profile.calls[Role.ASKS])
        if task_id is not None:
            first = caller.start("tasks/result", {"taskId": task_id})
            await _until(caller, lambda: any(entry.is_request for entry in first.heard()))
            second = caller.start("tasks/result", {"taskId": task_id})
            await caller.pause(HOLDING_MS)
            for question in [entry for entry in first.heard() if entry.is_request]:
                reply = answer(question)
                if reply is not None:
                    await caller.reply(question, reply)
            await asyncio.gather(*(one.answer(wait_ms=OPENING_MS) for one in (first, second)))
            await caller.cancel(task_id)
    await harness.release(caller)


@probe(Role.SLOW, revisions=ONLY, transports=WEB)
async def resume_streams(harness: Harness) -> None:
    """Close two `tasks/result` streams, and resume them while the tasks continue."""
    caller = await harness.caller(fresh=True)
    call = harness.profile.calls[Role.SLOW]
    tasks = [id for _ in range(2) if (id := await caller.create(call)) is not None]
    broken = [caller.start("tasks/result", {"taskId": task_id}) for task_id in tasks]
    await _opened(caller, *broken)
    if broken:
        await caller.pause(STEP_MS)  # wait for the first event
    for stream in broken:
        await stream.abandon()
    for task_id in tasks:
        await caller.get(task_id)
    resumed = [_resume(harness, caller, stream) for stream in broken]
    streams = [stream for stream in resumed if stream is not None]
    await _opened(caller, *streams)
    await caller.pause(TELLING_MS)
    for task_id in tasks:
        await caller.get(task_id)
    for task_id in tasks:
        await caller.cancel(task_id)
    await _until(caller, lambda: all(stream.is_done or stream.heard() for stream in streams))
    for stream in streams:
        await stream.abandon()
    await harness.release(caller)


def _resume(harness: Harness, caller: Caller, stream: Pending) -> Pending | None:
    last: Any = _last_event_id(harness, stream)
    if last is None:
        return None
    return caller.begin(b"", method="GET", headers={**EVENTS, "last-event-id": last})
