"""Discover which tools of a target can play which role, by calling them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from taskmachine.adapters.conformance.arguments import candidates
from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.history import Exchange, History
from taskmachine.adapters.conformance.profile import Profile, Role, ToolCall
from taskmachine.adapters.conformance.wire.caller import Caller

__all__ = ["discover", "list_tools"]

MOST_TOOLS: Final = 40
MOST_TRIES: Final = 6
CONCURRENCY: Final = 6
TRY_MS: Final = 6_000.0
"""Maximum time that a task is watched."""

PLAIN_MS: Final = 2_000.0
"""Maximum time that a useful plain call may take."""

SLOW_MS: Final = 250.0
"""A task that still works after this time can be cancelled in time."""

LONGEST_MS: Final = 4_000
"""Maximum time that probes wait for a slow task to end."""

ENOUGH_MS: Final = 12_000.0
"""Upper limit of discovery; the remaining budget is for the probes."""

_WANTED: Final = (Role.COMPLETES, Role.SLOW, Role.FAILS, Role.ASKS)


async def list_tools(caller: Caller) -> list[Mapping[str, Any]]:
    """Return all well-formed tools from all pages, up to `MOST_TOOLS`."""
    tools: list[Mapping[str, Any]] = []
    cursor: Any = None
    for _ in range(MOST_TOOLS):
        listed = await caller.request("tools/list", {} if cursor is None else {"cursor": cursor})
        page = listed.fields.get("tools")
        caller.learn_tools(page)
        tools += [
            tool
            for tool in (page if isinstance(page, list) else ())
            if isinstance(tool, dict) and isinstance(tool.get("name"), str)
        ]
        cursor = listed.fields.get("nextCursor")
        if cursor is None or len(tools) >= MOST_TOOLS:
            break
    return tools[:MOST_TOOLS]


async def discover(
    harness: Harness,
    given: Profile,
    wanted: Sequence[ToolCall] = (),
    allow_destructive: bool = False,
    within_ms: float = ENOUGH_MS,
) -> Profile:
    """Return the given calls, with discovered calls for the roles that are missing.

    If `wanted` is not empty, only those calls are tried. A tool with `destructiveHint` is called
    only with `allow_destructive`. Tools that cannot run as tasks are called only until one
    succeeds, since every call may have side effects.
    """
    caller = await harness.caller()
    tools = [tool for tool in await list_tools(caller) if allow_destructive or not _destroys(tool)]
    trials = {tool["name"]: _trials(tool, wanted) for tool in tools}
    search = _Search(harness, caller, min(within_ms, ENOUGH_MS))
    plain = [] if harness.revision == "2026-07-28" else [t for t in tools if not _can_be_task(t)]
    others = [tool for tool in tools if tool not in plain]
    await asyncio.gather(
        search.for_plain([one for t in sorted(plain, key=_harm) for one in trials[t["name"]][:1]]),
        search.for_tasks([one for t in others for one in trials[t["name"]][:1]]),
    )
    again = [trials[name][1:] for name in search.promising]
    await search.for_tasks([one for turn in _by_turn(again) for one in turn])
    asking = search.found.get(Role.ASKS) or search.found.get(Role.SAMPLES)
    if asking is not None:  # Better than no call: the tester answers its questions.
        search.found.setdefault(Role.COMPLETES, asking)
    return Profile({**search.found, **given.calls})


@attrs.frozen
class _Trial:
    """One call to try."""

    call: ToolCall
    support: Any
    """`execution.taskSupport` of the tool."""


def _trials(tool: Mapping[str, Any], wanted: Sequence[ToolCall]) -> list[_Trial]:
    if wanted:
        calls = [call for call in wanted if call.name == tool["name"]]
    else:
        calls = [ToolCall(tool["name"], one) for one in candidates(_schema(tool))[:MOST_TRIES]]
    return [_Trial(call, _support(tool)) for call in calls]


def _by_turn(trials: Sequence[Sequence[_Trial]]) -> list[list[_Trial]]:
    """Interleave: the first trial of each tool, then the second."""
    longest = max(map(len, trials), default=0)
    return [[some[turn] for some in trials if turn < len(some)] for turn in range(longest)]


def _destroys(tool: Mapping[str, Any]) -> bool:
    return _annotation(tool, "destructiveHint") is True


def _harm(tool: Mapping[str, Any]) -> int:
    """Sort key: read-only tools come first."""
    return 0 if _annotation(tool, "readOnlyHint") is True else 1


def _annotation(tool: Mapping[str, Any], name: str) -> Any:
    annotations = tool.get("annotations")
    return annotations.get(name) if isinstance(annotations, dict) else None


def _schema(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = tool.get("inputSchema")
    return schema if isinstance(schema, dict) else {"type": "object"}


def _support(tool: Mapping[str, Any]) -> Any:
    execution = tool.get("execution")
    return execution.get("taskSupport") if isinstance(execution, dict) else None


def _can_be_task(tool: Mapping[str, Any]) -> bool:
    return _support(tool) in ("optional", "required")


class _Search:
    """State of a discovery."""

    def __init__(self, harness: Harness, caller: Caller, within_ms: float) -> None:
        self.found: dict[Role, ToolCall] = {}
        self.promising: list[str] = []
        """Tools that may take another role with other arguments."""
        self._harness = harness
        self._caller = caller
        self._room = asyncio.Semaphore(CONCURRENCY)
        self._watch_ms = min(TRY_MS, within_ms / 2)
        self._end = harness.recorder.now() + within_ms

    async def for_plain(self, trials: Sequence[_Trial]) -> None:
        """Call the tools one by one until one succeeds quickly."""
        for trial in trials:
            if Role.PLAIN in self.found or self._harness.recorder.now() > self._end:
                break
            pending = self._caller.start_call(trial.call, as_task=False)
            if _is_fine(await pending.answer(PLAIN_MS)):
                self.found[Role.PLAIN] = trial.call

    async def for_tasks(self, trials: Sequence[_Trial]) -> None:
        """Run trials concurrently while roles are missing and time is left."""
        found = await asyncio.gather(*(self._one(trial) for trial in trials))
        for roles in found:
            for role, call in roles:
                self.found[role] = _better(role, self.found.get(role), call)

    async def _one(self, trial: _Trial) -> list[tuple[Role, ToolCall]]:
        async with self._room:
            has_all = all(role in self.found for role in _WANTED)
            if has_all or self._harness.recorder.now() > self._end:
                return []
            return await self._try(trial)

    async def _try(self, trial: _Trial) -> list[tuple[Role, ToolCall]]:
        """Call the tool, watch its task, and return the roles that the call can play."""
        harness, caller, name = self._harness, self._caller, trial.call.name
        began = harness.recorder.now()
        token = f"discovery-{name}-{began:g}"
        created = await caller.call(trial.call, meta={"progressToken": token})
        task_id = _task_id(created, harness.revision)
        if task_id is None and _is_fine(created):
            return [(Role.PLAIN, trial.call)]
        if name not in self.promising:
            self.promising.append(name)
        if task_id is None:
            return []
        since = len(harness.recorder)
        task = await caller.until(task_id, within_ms=self._watch_ms)
        seen = harness.history(since)
        kinds = _asked(seen, task_id)
        worked_ms = max(0.0, _worked_until(seen, task_id) - began)
        call = attrs.evolve(trial.call, takes_ms=round(worked_ms))
        roles = {Role.SAMPLES if kind == "sampling/createMessage" else Role.ASKS for kind in kinds}
        if trial.support == "required":
            roles.add(Role.REQUIRED)
        if any(
            entry.params.get("progressToken") == token
            for entry in harness.history().notifications("notifications/progress")
        ):
            roles.add(Role.REPORTS)
        status = None if task is None else task.get("status")
        if status == "completed":
            # 2026-07-28: a tool error is a result, not a failed task.
            roles.add(Role.FAILS if _is_error(task) else Role.COMPLETES)
        elif status == "failed":
            roles.add(await _how_it_failed(caller, task_id, harness.revision))
        if worked_ms >= SLOW_MS and not kinds:
            roles.add(Role.SLOW)
        if task is None:
            await caller.cancel(task_id)
        if kinds:  # Prefer simpler calls for these roles; `discover` falls back to this one.
            roles -= {Role.COMPLETES, Role.REPORTS, Role.FAILS}
        return [(role, call) for role in Role if role in roles]


def _better(role: Role, old: ToolCall | None, new: ToolCall) -> ToolCall:
    """Choose the clearly quicker call, or for the role `SLOW` the slower one.

    A call that never ends is not preferred: probes need a task that would end after it was
    cancelled.
    """
    if old is None or old.takes_ms is None or new.takes_ms is None:
        return old or new
    if role is Role.SLOW and max(old.takes_ms, new.takes_ms) > LONGEST_MS:
        return min(old, new, key=lambda call: call.takes_ms or 0)
    quick, slow = (old, new) if role is Role.SLOW else (new, old)
    is_clear = (quick.takes_ms or 0) + SLOW_MS < (slow.takes_ms or 0)
    return new if is_clear else old


def _task_id(created: Exchange, revision: str) -> str | None:
    holder = created.fields.get("task") if revision == "2025-11-25" else created.fields
    id = holder.get("taskId") if isinstance(holder, dict) else None
    return id if isinstance(id, str) else None


def _is_fine(plain: Exchange) -> bool:
    return "content" in plain.fields and plain.fields.get("isError") is not True


def _is_error(task: Mapping[str, Any] | None) -> bool:
    result = None if task is None else task.get("result")
    return isinstance(result, dict) and result.get("isError") is True


def _asked(seen: History, task_id: str) -> set[Any]:
    """Return the methods of the requests that a task sent."""
    kinds = {q.method for q, _ in seen.questions if q.related_task == task_id}
    if not kinds and any(s.status == "input_required" for s in seen.by_task.get(task_id, ())):
        # Some servers omit the related-task metadata, though it is required.
        kinds = {q.method for q, _ in seen.questions if q.related_task is None} - {"ping"}
    for sighting in seen.by_task.get(task_id, ()):
        requests = sighting.task.get("inputRequests")
        for asked in requests.values() if isinstance(requests, dict) else ():
            kinds.add(asked.get("method") if isinstance(asked, dict) else None)
    return kinds


def _worked_until(seen: History, task_id: str) -> float:
    """Return the last time at which the task was observed as working."""
    working = [s.since for s in seen.by_task.get(task_id, ()) if s.status == "working"]
    return max(working, default=0.0)


async def _how_it_failed(caller: Caller, task_id: str, revision: str) -> Role:
    if revision == "2026-07-28":
        return Role.BREAKS
    result = await caller.request("tasks/result", {"taskId": task_id})
    return Role.BREAKS if result.error is not None else Role.FAILS
