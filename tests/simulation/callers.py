"""Clients that create, read, wait for, answer and cancel tasks, and record the responses.

A session makes one call after the other, so its observations must form a path; several sessions
of one owner run concurrently.
"""

import asyncio
import json
from collections.abc import Awaitable
from functools import partial
from itertools import count
from random import Random
from typing import Any, Final

from taskmachine.adapters.runtime.runtime import Runtime
from taskmachine.adapters.runtime.service import Page
from taskmachine.protocol.operations import Answer, Create
from taskmachine.statemachine import Call, Reply, State, Task
from taskmachine.statemachine.invariants import Created
from tests.simulation.connection import Connection, SessionWorld
from tests.simulation.toolbox import LONGEST_SLEEP_S, TIMEOUT_S

__all__ = ["Session"]

_FORM: Final = frozenset({"elicitation/create"})
_LOST_HINT_S: Final = 9.0
"""Bound for the notification of an end after a lost hint and a slow read."""


class Session:
    """One client: `run` it while there are faults, then `finish`."""

    def __init__(self, world: SessionWorld, owner: str, number: int, random: Random) -> None:
        self._world = world
        self._disk = world.disk
        self._owner = owner
        self._wire = f"session {number}"
        self._random = random
        self._connection = Connection(world, owner, self._wire, random)
        self._known = self._connection.known
        self._keys = count()
        self._watches = count()
        self.wires = {self._wire}

    async def run(self) -> None:
        acts = (
            (6, self._create), (3, self._get), (3, self._wait), (2, self._collect),
            (7, self._answer), (1, self._cancel), (1, self._page), (1, self._use_foreign_id),
            (1, self._watch), (1, self._answer_promptly),
        )  # fmt: skip
        weights = [weight for weight, _ in acts]
        while not self._world.faults.are_off:
            await asyncio.sleep(self._random.expovariate(1 / 1.5))
            [(_, act)] = self._random.choices(acts, weights)
            await act()

    async def finish(self, until: float) -> None:
        """Answer all open questions, so that every task ends."""
        now = asyncio.get_running_loop().time
        while not await self._page() and now() < until:
            pass  # no server is up yet; the list also shows what was never acknowledged
        while self._live() and now() < until:
            for task_id in self._live():
                task = await self._get(task_id)
                if task is not None and self._sleeps_too_long(task):
                    await self._cancel(task_id)
                await self._answer(task_id)
            await asyncio.sleep(1)
        for task_id in list(self._known):
            await self._collect(task_id, 10)
        await self._page()

    def _sleeps_too_long(self, task: Task) -> bool:
        """Return whether the clock was set back while the task slept."""
        return (task.due_at or 0) - self._world.clock() > LONGEST_SLEEP_S * 1_000

    def _live(self) -> list[str]:
        return [task.id for task in self._known.values() if not task.is_terminal]

    async def check_health(self) -> None:
        """Check that, without faults, a new task completes and its creator is notified at once."""
        task = await self._create("quick")
        ended = None if task is None else await self._collect(task.id, 8)
        if ended is None or ended.state is not State.COMPLETED:
            self._disk.wrong.append(f"{task} did not complete without faults, but is {ended}")

    # --- calls -------------------------------------------------------------------------------

    async def _create(self, name: str | None = None) -> Task | None:
        random = self._random
        name = name or random.choice(
            ("quick", "slow", "stepwise", "asking", "asking", "asking_twice", "parking", "parking",
             "durable", "durable", "durable", "impatient", "stubborn", "broken", "once", "once")
            if random.random() < 0.97
            else ("deadly",)
        )  # fmt: skip
        arguments: dict[str, Any] = {"n": random.randrange(10**6)}
        if name in ("slow", "stubborn", "once"):
            longest = 2.5 * TIMEOUT_S if name == "stubborn" else 1.3 * TIMEOUT_S
            arguments["seconds"] = round(random.uniform(0, longest), 3)
        key = f"{self._wire}/{next(self._keys)}" if random.random() < 0.5 else None
        ttl_ms = random.choice((None, None, 600_000, 15_000))
        call = Call("tools/call", name, json.dumps(arguments).encode(), answers=_FORM, key=key)
        request = Create(call, ttl_ms)
        task = None
        for _ in range(5 if key is not None or self._world.faults.are_off else 1):
            task = await self._connection.ask(
                lambda runtime: runtime.create(self._owner, request), 0
            )
            if task is not None:
                self._acknowledge(task)
                if (
                    key is None or random.random() < 0.8
                ):  # otherwise repeat the call under the same key
                    break
            await asyncio.sleep(random.random())
        return task

    def _acknowledge(self, task: Task) -> None:
        key = task.call.key
        if key is not None:
            first = self._world.keys.setdefault((self._owner, key), task.id)
            if first != task.id and first not in self._disk.removed:
                self._disk.wrong.append(f"key {key} created two tasks, {first} and {task.id}")
            self._world.keys[self._owner, key] = task.id
        self._world.acknowledged.setdefault(task.id, task)
        if task.id not in self._known:
            self._disk.history.append(Created(self._disk.now_ms(), self._owner, task.id))
        self._connection.record(task)

    async def _get(self, task_id: str | None = None) -> Task | None:
        if (task_id := task_id or self._any()) is None:
            return None
        wanted = task_id
        return await self._connection.observe(
            wanted, lambda r: r.service.get(self._owner, wanted), 0
        )

    async def _wait(self, task_id: str | None = None) -> None:
        if (task_id := task_id or self._any()) is not None:
            wanted, seconds = task_id, self._random.choice((0.5, 5, 12))
            after = self._known[wanted].version

            def wait(runtime: Runtime) -> Awaitable[Task]:
                return runtime.service.wait(self._owner, wanted, after=after, timeout_s=seconds)

            await self._connection.observe(wanted, wait, seconds)

    async def _collect(
        self, task_id: str | None = None, seconds: float | None = None
    ) -> Task | None:
        if (task_id := task_id or self._any()) is None:
            return None
        wanted, longest = task_id, seconds or self._random.choice((1, 10, 30))

        def collect(runtime: Runtime) -> Awaitable[Task]:
            return runtime.service.collect(self._owner, wanted, longest)

        task = await self._connection.observe(wanted, collect, longest)
        if task is not None:
            self._check_promptness(task)
        return task

    def _check_promptness(self, task: Task) -> None:
        """Check that a waiting client gets the end soon, not only at its timeout."""
        if task.id not in self._disk.ended_at or self._connection.was_paused:
            return
        ended_at = max(self._disk.ended_at[task.id], self._connection.called_at)
        late_s = self._disk.now_ms() / 1_000 - ended_at
        if late_s > (1 if self._connection.was_fault_free else _LOST_HINT_S):
            result = "was answered only" if task.is_terminal else "still had no answer"
            self._disk.wrong.append(f"task {task.id} ended; a waiter {result} {late_s} s later")

    async def _answer(self, task_id: str | None = None) -> None:
        asking = [t.id for t in self._known.values() if t.open_questions]
        task_id = task_id or (self._random.choice(asking) if asking else None)
        if task_id not in self._known or not self._known[task_id].open_questions:
            return
        random, wanted = self._random, task_id
        questions = self._known[task_id].open_questions
        replies = {}
        for question in questions if random.random() < 0.7 else questions[:1]:
            if random.random() < 0.05:
                replies[question.key] = Reply(b'{"code": -1, "message": "no"}', is_error=True)
                continue
            said = {"action": "accept", "content": {"it": f"it{random.randrange(10**6)}"}}
            replies[question.key] = Reply(json.dumps(said).encode())

        async def answer(runtime: Runtime) -> Task:
            return (await runtime.service.perform(self._owner, Answer(wanted, replies)))[0]

        await self._connection.observe(wanted, answer, 0)

    async def _answer_promptly(self) -> None:
        """Create a task and answer its questions as soon as they are visible."""
        task = await self._create(self._random.choice(("asking", "asking_twice", "parking")))
        for _ in range(5):
            if task is None or task.id not in self._known:
                return
            await self._wait(task.id)
            await self._answer(task.id)

    async def _cancel(self, task_id: str | None = None) -> None:
        if (task_id := task_id or self._any()) is not None:
            self._disk.wishes.add(task_id)
            task = await self._connection.observe(
                task_id, lambda r: r.service.cancel(self._owner, task_id), 0
            )
            if task is not None and not task.is_terminal:
                self._disk.wrong.append(f"task {task_id} is {task.state} after a cancel")

    async def _page(self) -> bool:
        """List all tasks: each task created before the call is listed, and none twice."""
        before = {
            task.id for task in self._world.acknowledged.values() if task.owner == self._owner
        }
        listed: list[str] = []
        cursor: str | None = None
        while True:
            page = await self._connection.ask(partial(_page, self._owner, cursor), 0)
            if page is None:
                return False
            listed += [task.id for task in page.tasks]
            for task in page.tasks:
                self._connection.record(task)
            if (cursor := page.cursor) is None:
                break
        if missing := before - set(listed) - self._disk.removed:
            self._disk.wrong.append(f"the list of {self._owner} lacks {sorted(missing)}")
        if len(listed) != len(set(listed)):
            self._disk.wrong.append(f"the list of {self._owner} has a task twice")
        return True

    async def _use_foreign_id(self) -> None:
        others = [t.id for t in self._world.acknowledged.values() if t.owner != self._owner]
        if others:
            foreign = self._random.choice(others)
            act = self._random.choice(
                (
                    lambda r: r.service.get(self._owner, foreign),
                    lambda r: r.service.cancel(self._owner, foreign),
                    lambda r: r.service.collect(self._owner, foreign, 1),
                )
            )
            await self._connection.observe(foreign, act, 1)

    async def _watch(self) -> None:
        """Subscribe to some tasks for a while; the notifications form a separate path."""
        task_ids = self._random.sample(sorted(self._known), min(3, len(self._known)))
        wire = f"{self._wire} watch {next(self._watches)}"
        self.wires.add(wire)

        async def watch(runtime: Runtime) -> None:
            subscription = await runtime.subscriptions.subscribe(self._owner, task_ids)
            try:
                async for task in subscription:
                    self._connection.record(task, wire, pushed=True)
                    if task.is_terminal:
                        self._connection.record(
                            await runtime.service.get(self._owner, task.id), wire
                        )
            finally:
                subscription.close()

        await self._connection.ask(watch, 10, give_up_s=10)

    def _any(self) -> str | None:
        return self._random.choice(list(self._known)) if self._known else None


async def _page(owner: str, cursor: str | None, runtime: Runtime) -> Page:
    return await runtime.service.page(owner, cursor)
