"""Clients that create tasks and follow them, each in its own way, despite all faults."""

import asyncio
import contextlib
import random
from collections.abc import Coroutine
from itertools import count
from typing import Any, Final

import httpx

from tests.chaos.fleet import OWNERS, Fleet
from tests.chaos.record import Evidence, Made
from tests.chaos.tools import LASTING, NAMES, SILENT
from tests.chaos.wire import UNKNOWN_TASK, Answer, Caller
from tests.lifecycle.wire.observations import is_terminal
from tests.lifecycle.wire.record import JSON, NEW, OLD, Wire

__all__ = ["Client", "Pace"]

KEY: Final = "taskmachine/idempotency-key"
SILENT_TTL_MS: Final = 8_000
LONG_TTL_MS: Final = 86_400_000
LONG_CALLERS: Final = 2
"""Clients per owner that only call the long tool."""
UNKNOWN: Final = "there-is-no-such-task"


class Pace:
    """Rate limiter: permits this many creates, at even intervals."""

    def __init__(self, tasks: int, seconds: float) -> None:
        self._left = tasks
        self._interval_s = seconds / tasks
        self._next: float | None = None
        self.is_over = False

    async def turn(self) -> bool:
        """Wait for the next permit; return False if there is none left."""
        if self.is_over or not self._left:
            return False
        self._left -= 1
        clock = asyncio.get_running_loop().time
        # The schedule is fixed: a late client does not delay the next permit.
        self._next = clock() if self._next is None else self._next + self._interval_s
        await asyncio.sleep(max(0.0, self._next - clock()))
        return not self.is_over


class Client:
    """One of several concurrent clients of an owner."""

    def __init__(
        self, owner: str, number: int, fleet: Fleet, evidence: Evidence, http: httpx.AsyncClient,
        seed: int, known: dict[str, list[str]],
    ) -> None:  # fmt: skip
        self.owner = owner
        self.evidence = evidence
        self._chance = random.Random(f"{seed} {owner} {number}")
        self._name = f"{owner}{number}"
        # Some clients only call the long tool, so that one always runs.
        self._tools = {LASTING: 1} if number < LONG_CALLERS else NAMES
        self._numbers = count(1)
        self._said = count(1)
        self.caller = Caller(owner, fleet, evidence, http, self._chance)
        stranger = self._chance.choice([name for name in OWNERS if name != owner])
        self._stranger = Caller(stranger, fleet, evidence, http, self._chance)
        self._known = known
        """Task ids by owner, shared by all clients."""
        self._background: set[asyncio.Task[None]] = set()

    async def run(self, pace: Pace) -> None:
        """Create and follow one task after the other."""
        try:
            while await pace.turn():
                if self._chance.random() < 0.02:
                    await self.caller.new_session()
                tool = self._chance.choices(list(self._tools), list(self._tools.values()))[0]
                # Only 2025-11-25 has a requested ttl.
                task_id = await self.create(tool, OLD if tool == SILENT else self._wire())
                if task_id is not None:
                    await self._follow(task_id, tool)
        finally:
            for task in self._background:
                task.cancel()
            await asyncio.gather(*self._background, return_exceptions=True)

    def _wire(self) -> Wire:
        return self._chance.choice((OLD, NEW))

    # --- creating ------------------------------------------------------------------------------

    async def create(self, tool: str, wire: Wire) -> str | None:
        """Create a task and return its id; None if the outcome is unknown."""
        name = f"{self._name}-{next(self._numbers)}-{tool}"
        params: JSON = {"name": tool, "arguments": {"name": name}, "_meta": {}}
        if self._chance.random() < 0.5:
            params["_meta"][KEY] = f"key of {name}"
        if wire == OLD:
            params["task"] = {"ttl": SILENT_TTL_MS if tool == SILENT else LONG_TTL_MS}
        self.evidence.attempts[name] = self.owner
        answer = await self._call(wire, params)
        while answer.message is None and KEY in params["_meta"]:
            self.evidence.counts["creates repeated by key"] += 1
            await asyncio.sleep(self._chance.uniform(0.05, 0.5))
            answer = await self._call(wire, params)
        if KEY in params["_meta"] and self._chance.random() < 0.2:
            await self._call(wire, params)
        task_id = _id_in(answer)
        if answer.message is None:
            self.evidence.counts["creates with an unknown outcome"] += 1
        elif task_id is None:
            self.evidence.complaints.append(f"a create was refused: {answer.message}")
        else:
            self._known.setdefault(self.owner, []).append(task_id)
        return task_id

    async def _call(self, wire: Wire, params: JSON) -> Answer:
        answer = await self.caller.ask(wire, "tools/call", params)
        task_id = _id_in(answer)
        if task_id is not None:
            name = params["arguments"]["name"]
            self.evidence.made.append(Made(answer.until, self.owner, task_id, name))
        return answer

    # --- following -----------------------------------------------------------------------------

    async def _follow(self, task_id: str, tool: str) -> None:
        """Follow the task to its end or give up; start other requests now and then."""
        chance = self._chance
        if chance.random() < 0.08:
            self._begin(self._watch(task_id))
        elif chance.random() < 0.08:
            self._begin(self._listen(tool))
        if chance.random() < 0.08:
            self._begin(self._cancel_soon(task_id))
        if chance.random() < 0.1:
            await self._use_foreign_ids()
        if chance.random() < 0.1:
            await self._list()
        style = chance.choice(("poll", "poll", "wait", "mixed"))
        patience = chance.choice((3, 200)) if tool != SILENT else 2
        for _ in range(patience):
            if style == "wait" or (style == "mixed" and chance.random() < 0.5):
                await self._wait(task_id, tool)
            shown = await self.get(task_id)
            if shown is None:
                await asyncio.sleep(chance.uniform(0.05, 0.3))
            elif is_terminal(shown["status"], NEW):
                break
            elif tool != SILENT and shown.get("inputRequests"):
                await self.answer(task_id, list(shown["inputRequests"]))
            else:
                await asyncio.sleep(chance.uniform(0.05, 0.5))
        if chance.random() < 0.3:
            await self.get(chance.choice(self._known[self.owner]))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def get(self, task_id: str) -> JSON | None:
        """Return the task as a random revision shows it; None if the call failed."""
        answer = await self.caller.ask(self._wire(), "tasks/get", {"taskId": task_id})
        return answer.result

    async def answer(self, task_id: str, keys: list[str]) -> None:
        """Answer a random part of the questions by `tasks/update`."""
        some = self._chance.sample(keys, self._chance.randint(1, len(keys)))
        responses = {key: self._words(task_id, key) for key in some}
        params = {"taskId": task_id, "inputResponses": responses}
        await self.caller.ask(NEW, "tasks/update", params)

    def _words(self, task_id: str, key: str) -> JSON:
        said = f"{key}-{self._name}-{next(self._said)}"
        self.evidence.answers[task_id, key].add(said)
        self.evidence.counts["answers"] += 1
        return {"action": "accept", "content": {"said": said}}

    async def _wait(self, task_id: str, tool: str) -> None:
        """Call `tasks/result` and answer questions on its stream; sometimes disconnect early."""

        async def on_message(message: JSON) -> None:
            await self._reply_to(message, tool)

        stays_s = None if self._chance.random() < 0.7 and tool != SILENT else 2.0
        try:
            async with asyncio.timeout(stays_s):
                await self.caller.ask(OLD, "tasks/result", {"taskId": task_id}, on_message)
        except TimeoutError:
            self.evidence.counts["waits abandoned by the client"] += 1

    async def _reply_to(self, message: JSON, tool: str) -> None:
        question = self.caller.question_in(message)
        if question is not None and not (tool == SILENT or self._chance.random() < 0.1):
            await self.caller.reply(message["id"], self._words(*question))

    # --- in the background ---------------------------------------------------------------------

    async def _watch(self, task_id: str) -> None:
        with contextlib.suppress(TimeoutError):
            ids = [task_id, *self._some(self.owner), *self._some(self._stranger.owner)]
            async with asyncio.timeout(self._chance.uniform(1, 60)):
                await self.caller.watch(list(dict.fromkeys(ids)))

    async def _listen(self, tool: str) -> None:
        async def on_message(message: JSON) -> None:
            await self._reply_to(message, tool)

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._chance.uniform(1, 60)):
                await self.caller.listen(on_message)

    async def _cancel_soon(self, task_id: str) -> None:
        await asyncio.sleep(self._chance.uniform(0, 1))
        self.evidence.cancels.add(task_id)
        self.evidence.counts["cancels"] += 1
        await self.caller.ask(self._wire(), "tasks/cancel", {"taskId": task_id})

    async def _list(self) -> None:
        cursor: JSON = {}
        for _ in range(2):
            page = (await self.caller.ask(OLD, "tasks/list", cursor)).result
            if page is None or "nextCursor" not in page:
                return
            cursor = {"cursor": page["nextCursor"]}

    async def _use_foreign_ids(self) -> None:
        """As another owner, use the id of this owner's task and an unknown id: both must fail."""
        calls: list[tuple[Wire, str, JSON]] = [
            (OLD, "tasks/get", {}), (NEW, "tasks/get", {}), (OLD, "tasks/result", {}),
            (OLD, "tasks/cancel", {}), (NEW, "tasks/cancel", {}),
            (NEW, "tasks/update", {"inputResponses": {"a": {"action": "cancel"}}}),
        ]  # fmt: skip
        wire, method, params = self._chance.choice(calls)
        for task_id in (*self._some(self.owner), UNKNOWN):
            self.evidence.counts["requests for tasks of another owner"] += 1
            answer = await self._stranger.ask(wire, method, {**params, "taskId": task_id})
            if answer.message is not None and answer.code != UNKNOWN_TASK:
                target = "an unknown task" if task_id == UNKNOWN else f"a task of {self.owner}"
                self.evidence.complaints.append(
                    f"on {wire}, {self._stranger.owner} had an answer to {method} of {target}:"
                    f" {answer.message}"
                )

    def _some(self, owner: str) -> list[str]:
        ids = self._known.get(owner)
        return [self._chance.choice(ids[-50:])] if ids else []

    async def read_again(self, task_ids: list[str]) -> None:
        """Get these tasks in both revisions, through any replica."""
        for task_id in task_ids:
            for wire in (OLD, NEW):
                await self.caller.ask(wire, "tasks/get", {"taskId": task_id})


def _id_in(answer: Answer) -> str | None:
    result = answer.result or {}
    task = result.get("task", result)
    task_id: str | None = task.get("taskId")
    return task_id
