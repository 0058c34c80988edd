"""HTTP of 2025-11-25: origins, headers, sessions, and streams that run side by side or break."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from taskmachine.adapters.conformance.caller import Caller, Pending
from taskmachine.adapters.conformance.lab import Lab
from taskmachine.adapters.conformance.probes.registry import probe
from taskmachine.adapters.conformance.profile import Role, ToolCall

__all__: list[str] = []

ONLY: Final = ("2025-11-25",)
WEB: Final = ("http",)
FOREIGN: Final = {"origin": "https://evil.example"}
EVENTS: Final[dict[str, str | None]] = {"accept": "text/event-stream", "content-type": None}
OPENING_MS: Final = 1_000
TELLING_MS: Final = 300
HOLDING_MS: Final = 600
"""Longer than anything that was sent before can still be under way."""

STEP_MS: Final = 20


async def _opened(caller: Caller, *streams: Pending) -> None:
    """Wait until each is answered, or begins to be, but not for long."""
    await _until(caller, lambda: all(s.head is not None or s.is_over for s in streams))


async def _until(caller: Caller, is_so: Callable[[], bool]) -> None:
    for _ in range(OPENING_MS // STEP_MS):
        if is_so():
            return
        await caller.pause(STEP_MS)


async def _glance(caller: Caller, headers: dict[str, str | None]) -> None:
    """A GET that is left as soon as it is answered."""
    stream = caller.begin(b"", method="GET", headers={**EVENTS, **headers})
    await _opened(caller, stream)
    await stream.leave()


def _last_event_id(lab: Lab, stream: Pending) -> str | None:
    """Of what came on a stream so far."""
    ids = [
        entry.http.event_id
        for entry in lab.history(stream.request.number).entries
        if entry.post == stream.request.post and entry.http is not None and entry.http.event_id
    ]
    return ids[-1] if ids else None


# --- heads ---------------------------------------------------------------------------------------


@probe(revisions=ONLY, transports=WEB)
async def foreign_origins(lab: Lab) -> None:
    """Requests by every method, sent by a page of nobody."""
    caller = await lab.caller(fresh=True)
    await caller.request("ping", headers=FOREIGN)
    await caller.notify("notifications/nobody-knows-this", headers=FOREIGN)
    await _glance(caller, dict(FOREIGN))
    await caller.send(b"", method="DELETE", headers=FOREIGN)
    await lab.leave(caller)


@probe(revisions=ONLY, transports=WEB)
async def versions_in_headers(lab: Lab) -> None:
    """No version, and versions that nobody has."""
    caller = await lab.caller()
    for version in (None, "1900-01-01", "the-latest"):
        await caller.request("ping", headers={"mcp-protocol-version": version})
    await caller.request("tools/list", headers={"mcp-session-id": None})


@probe(revisions=ONLY, transports=WEB)
async def no_credentials(lab: Lab) -> None:
    """A request without credentials, if there are any."""
    caller = await lab.caller()
    await caller.request("tools/list", headers={"authorization": None})


@probe(revisions=ONLY, transports=WEB)
async def ended_sessions(lab: Lab) -> None:
    """Sessions that are ended, one of them while it has a stream; and what becomes of them."""
    callers = [await lab.caller(fresh=True) for _ in range(3)]
    async with lab.listen(callers[0]) as stream:
        await _opened(callers[0], stream)
        for caller in callers:
            await caller.send(b"", method="DELETE")
            await caller.request("ping")
            await caller.notify("notifications/nobody-knows-this")
            await _glance(caller, {})
    for caller in callers:
        await lab.leave(caller)


# --- streams -------------------------------------------------------------------------------------


@probe(revisions=ONLY, transports=WEB)
async def streams_side_by_side(lab: Lab) -> None:
    """Two tasks of each kind, each with a stream for its result, beside the stream by GET."""
    roles = (Role.ASKS, Role.REPORTS, Role.COMPLETES)
    calls = [lab.profile.calls[role] for role in roles if role in lab.profile.calls]
    caller = await lab.caller(fresh=True)
    async with lab.listen(caller) as listening:
        await _opened(caller, listening)
        await asyncio.gather(
            *(_follow(caller, call, f"{call.name}-{turn}") for call in calls for turn in (1, 2))
        )
    await lab.leave(caller)


async def _follow(caller: Caller, call: ToolCall, token: str) -> None:
    task_id = await caller.create(call, meta={"progressToken": f"side-by-side-{token}"})
    if task_id is not None:
        result = caller.start("tasks/result", {"taskId": task_id})
        task = await caller.until(task_id, within_ms=3_000)
        if task is None or "status" not in task:
            await result.leave()
        else:
            await result.answer()


@probe(Role.ASKS, revisions=ONLY, transports=WEB)
async def an_open_question(lab: Lab) -> None:
    """A question that nobody answers for a while, though three streams are open."""
    caller = await lab.caller(fresh=True)
    answer, caller.answering = caller.answering, lambda question: None
    async with lab.listen(caller) as listening:
        await _opened(caller, listening)
        task_id = await caller.create(lab.profile.calls[Role.ASKS])
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
    await lab.leave(caller)


@probe(Role.SLOW, revisions=ONLY, transports=WEB)
async def broken_and_resumed(lab: Lab) -> None:
    """Two streams that wait for results break; the tasks go on, and so do the streams."""
    caller = await lab.caller(fresh=True)
    call = lab.profile.calls[Role.SLOW]
    tasks = [id for _ in range(2) if (id := await caller.create(call)) is not None]
    broken = [caller.start("tasks/result", {"taskId": task_id}) for task_id in tasks]
    await _opened(caller, *broken)
    if broken:
        await caller.pause(STEP_MS)  # for the first event
    for stream in broken:
        await stream.leave()
    for task_id in tasks:
        await caller.get(task_id)
    resumed = [_resume(lab, caller, stream) for stream in broken]
    streams = [stream for stream in resumed if stream is not None]
    await _opened(caller, *streams)
    await caller.pause(TELLING_MS)
    for task_id in tasks:
        await caller.get(task_id)
    for task_id in tasks:
        await caller.cancel(task_id)
    await _until(caller, lambda: all(stream.is_over or stream.heard() for stream in streams))
    for stream in streams:
        await stream.leave()
    await lab.leave(caller)


def _resume(lab: Lab, caller: Caller, stream: Pending) -> Pending | None:
    last: Any = _last_event_id(lab, stream)
    if last is None:
        return None
    return caller.begin(b"", method="GET", headers={**EVENTS, "last-event-id": last})
