"""The moves of an exploration: small actions of callers, legal or not.

A move is plain data, so that it can be written to a file and repeated.
"""

import contextlib
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import attrs

from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.history import RELATED, Entry
from taskmachine.adapters.conformance.profile import Role
from taskmachine.adapters.conformance.wire.answering import answer
from taskmachine.adapters.conformance.wire.caller import LONGEST_POLL_MS, Caller, Pending

__all__ = ["MOST_TASKS", "ROLES", "Example", "Move"]

Move = Mapping[str, Any]

MOST_TASKS: Final = 4
ROLES: Final = (Role.COMPLETES, Role.SLOW, Role.FAILS, Role.BREAKS, Role.ASKS, Role.SAMPLES)
NEVER_ISSUED: Final = "00000000-0000-4000-8000-00000000dead"
ENOUGH_MS: Final = 3_000.0


@attrs.define
class Example:
    """One example: the tasks it created and their state."""

    harness: Harness
    tasks: list[str] = attrs.field(factory=list)
    waiting: dict[str, Pending] = attrs.field(factory=dict)
    asked: list[tuple[Caller, Entry]] = attrs.field(factory=list)
    cursor: Any = None
    last_seen: dict[str, Mapping[str, Any]] = attrs.field(factory=dict)
    polled_at: dict[str, float] = attrs.field(factory=dict)

    async def make(self, move: Move) -> None:
        """Make a move; skip it if it is impossible in the current state."""
        caller = await self.harness.caller()
        caller.answering = lambda question: self.asked.append((caller, question))
        do: Callable[[Caller, Move], Coroutine[Any, Any, None]] = getattr(self, f"_{move['do']}")
        await do(caller, move)

    async def end(self) -> None:
        """Answer open questions, end running tasks, and poll each task once more."""
        caller = await self.harness.caller()
        caller.answering = lambda question: answer(question.method, question.params)
        for asker, question in self.asked:
            await asker.reply(question, answer(question.method, question.params))
        for task_id in self.tasks:
            if self.last_seen.get(task_id, {}).get("status") in (None, "working", "input_required"):
                await caller.cancel(task_id)
            await caller.get(task_id)
        for waiting in self.waiting.values():
            await waiting.answer()

    def _task(self, move: Move) -> str | None:
        return self.tasks[move["task"] % len(self.tasks)] if self.tasks else None

    # --- one method for each kind of move --------------------------------------------------------

    async def _create(self, caller: Caller, move: Move) -> None:
        call = self.harness.profile.get(Role(move["role"]))
        if call is None or len(self.tasks) >= MOST_TASKS:
            return
        options = {"ttl": move["ttl"]} if "ttl" in move else {}
        if move.get("reports"):
            options["meta"] = {"progressToken": f"run_moves-{len(self.harness.recorder)}"}
        task_id = await caller.create(call, **options)
        if task_id is not None:
            self.tasks.append(task_id)

    async def _poll(self, caller: Caller, move: Move) -> None:
        task_id = self._task(move)
        if task_id is None:
            return
        await self._wait_for_interval(caller, task_id)
        other = move.get("related")
        meta = None if other is None else {RELATED: {"taskId": other}}
        seen = await caller.get(task_id, meta=meta)
        self.last_seen[task_id] = seen.fields
        self.polled_at[task_id] = self.harness.recorder.now()

    async def _wait_for_interval(self, caller: Caller, task_id: str) -> None:
        """Wait for the task's poll interval, up to `LONGEST_POLL_MS`."""
        task = self.last_seen.get(task_id, {})
        interval = task.get("pollInterval", task.get("pollIntervalMs"))
        if isinstance(interval, int | float) and task_id in self.polled_at:
            left = self.polled_at[task_id] + interval - self.harness.recorder.now()
            await caller.pause(max(0.0, min(left, LONGEST_POLL_MS)))

    async def _pause(self, caller: Caller, move: Move) -> None:
        await caller.pause(move["ms"])

    async def _result(self, caller: Caller, move: Move) -> None:
        task_id = self._task(move)
        if task_id is None or self.harness.revision != "2025-11-25":
            return
        if task_id not in self.waiting or self.waiting[task_id].is_done:
            self.waiting[task_id] = caller.start("tasks/result", {"taskId": task_id})
            await caller.pause(5)

    async def _leave(self, caller: Caller, move: Move) -> None:
        """Abandon a waiting `tasks/result`."""
        task_id = self._task(move)
        if task_id in self.waiting and self.harness.transport == "http":
            await self.waiting.pop(task_id).abandon()

    async def _list(self, caller: Caller, move: Move) -> None:
        if self.harness.revision != "2025-11-25" or "list" not in _tasks_of(caller):
            return
        has_cursor = move.get("next") and self.cursor is not None
        listed = await caller.request("tasks/list", {"cursor": self.cursor} if has_cursor else {})
        self.cursor = listed.fields.get("nextCursor")

    async def _answer(self, caller: Caller, move: Move) -> None:
        """Answer all or the first of the open questions, correctly or not."""
        if self.harness.revision == "2026-07-28":
            await self._update(caller, move)
            return
        count = len(self.asked) if move["which"] == "all" else 1
        for asker, question in self.asked[:count]:
            with contextlib.suppress(ValueError):
                await asker.reply(question, _reply(question.method, question.params, move["how"]))
        del self.asked[:count]

    async def _update(self, caller: Caller, move: Move) -> None:
        task_id = self._task(move)
        task = {} if task_id is None else self.last_seen.get(task_id, {})
        requests = task.get("inputRequests")
        if task_id is None or not isinstance(requests, dict):
            return
        keys = list(requests) if move["which"] == "all" else list(requests)[:1]
        replies = {}
        for key in keys:
            asked = requests[key] if isinstance(requests[key], dict) else {}
            params = asked.get("params")
            params = params if isinstance(params, dict) else {}
            replies[key] = _reply(asked.get("method"), params, move["how"]).get("result", {})
        if move["how"] == "unknown":
            replies = {"unheard-of": {"action": "accept", "content": {}}}
        await caller.request("tasks/update", {"taskId": task_id, "inputResponses": replies})

    async def _cancel(self, caller: Caller, move: Move) -> None:
        task_id = self._task(move)
        if task_id is not None:
            await caller.cancel(task_id)

    async def _unknown(self, caller: Caller, move: Move) -> None:
        """Use a task id that was never issued."""
        await caller.request(move["method"], {"taskId": NEVER_ISSUED, **move.get("more", {})})

    async def _foreign(self, caller: Caller, move: Move) -> None:
        """Use another caller's task."""
        task_id = self._task(move)
        if task_id is not None and self.harness.has_two_principals:
            other = await self.harness.caller("B")
            await other.request(move["method"], {"taskId": task_id}, wait_ms=ENOUGH_MS)


def _tasks_of(caller: Caller) -> Mapping[str, Any]:
    capabilities = caller.server.get("capabilities")
    tasks = capabilities.get("tasks") if isinstance(capabilities, dict) else None
    return tasks if isinstance(tasks, dict) else {}


def _reply(method: Any, params: Mapping[str, Any], how: str) -> Mapping[str, Any]:
    well = answer(method, params)
    if how in ("decline", "cancel") and method == "elicitation/create":
        meta = {k: v for k, v in well.get("result", {}).items() if k == "_meta"}
        return {"result": {"action": how, **meta}}
    if how == "wrong" and method == "elicitation/create":
        return {"result": {**well["result"], "content": {"unheard-of": "1"}}}
    return well
