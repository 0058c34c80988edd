"""A runtime with JSON clients and controllable tools, and a second process on the same store."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, Final

from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import (
    Runtime,
    RuntimeConfig,
    Surroundings,
    start_runtime,
)
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.stores import Caps, Store, Worker, open_store
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.questions import form
from taskmachine.adapters.tools.registry import Tools
from taskmachine.protocol.jsonrpc import encode_message
from taskmachine.protocol.sealing import Sealer
from taskmachine.statemachine import IllegalTransition, Task
from taskmachine.statemachine.lifecycle import Step
from tests.adapters.connections import NAME_FORM, Connection, meta_2026

__all__ = ["G1", "G2", "OWN", "Environment", "Message", "Peer", "environment", "within"]

Message = dict[str, Any]

G1, G2, OWN = "2025-11-25", "2026-07-28", "erlmcp"
FORM: Final = form("Who are you?", NAME_FORM)


class Clock:
    """Milliseconds since the epoch: the time of the event loop plus `ahead`."""

    def __init__(self) -> None:
        self.ahead = 1_700_000_000_000

    def __call__(self) -> int:
        return self.ahead + round(asyncio.get_running_loop().time() * 1_000)


class Peer(Connection):
    """One connection that speaks JSON.  Every wait is bounded."""

    def __init__(self, runtime: Runtime, dialect: str, timeout_s: float) -> None:
        super().__init__(runtime, dialect, "alice")
        self._patience_s = timeout_s
        self._ids = count(100)

    @property
    def messages(self) -> list[Message]:
        return [json.loads(encode_message(send.message)) for send in self.sent]

    async def receives(self, method: str, **params: Any) -> Message:
        """Wait for a notification or request, and return the first."""

        def fits(message: Message) -> bool:
            found = message.get("params", {})
            return message.get("method") == method and params.items() <= found.items()

        return await self._first(fits)

    def request(self, method: str, params: Message) -> int:
        """Send a request and return its id."""
        id = next(self._ids)
        if self.dialect == G2:
            params = {**params, "_meta": meta_2026(self.capabilities)}
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return id

    async def answer(self, id: int) -> Message:
        """Wait for the response to a request, and check that there is only one."""

        def fits(message: Message) -> bool:
            return message.get("id") == id and "method" not in message

        answer = await self._first(fits)
        assert [message for message in self.messages if fits(message)] == [answer]
        return answer

    async def result(self, method: str, params: Message) -> Message:
        answer = await self.answer(self.request(method, params))
        assert "result" in answer, answer
        result: Message = answer["result"]
        return result

    async def begin(self, tool: str, ttl: int | None = None) -> str:
        """Create a task with a progress token and return its id."""
        params: Message = {"name": tool, "arguments": {}}
        params["task"] = {} if ttl is None else {"ttl": ttl}
        if self.dialect == G1:
            params["_meta"] = {"progressToken": "p"}
        made = await self.result("tools/call", params)
        task_id: str = made.get("task", made)["taskId"]
        return task_id

    async def get(self, task_id: str) -> Message:
        found = await self.result("tasks/get", {"taskId": task_id})
        task: Message = found.get("task", found)
        return task

    def collect(self, task_id: str) -> int:
        """Send `tasks/result`, which blocks in 2025-11-25, and return its id."""
        return self.request("tasks/result", {"taskId": task_id})

    def has_not_answered(self, id: int) -> None:
        assert [m for m in self.messages if m.get("id") == id and "method" not in m] == []

    def reply(self, question: Message, name: str = "Ada") -> None:
        """Answer a question of 2025-11-25."""
        content = {"action": "accept", "content": {"name": name}}
        self.send({"jsonrpc": "2.0", "id": question["id"], "result": content})

    async def _first(self, fits: Callable[[Message], bool]) -> Message:
        async with asyncio.timeout(self._patience_s):
            while True:
                self.received.clear()
                for message in self.messages:
                    if fits(message):
                        return message
                await self.received.wait()


class Environment:
    """A runtime, its peers and its tools, for one behaviour."""

    def __init__(self, store: Store, secret: bytes, timeout_s: float) -> None:
        self.store = store
        self.timeout_s = timeout_s
        self.clock = Clock()
        self.tools = Tools()
        self.runs: list[str] = []
        """Task ids of the tool runs, in the order in which they started."""
        self.started = asyncio.Event()
        self.may_end = asyncio.Event()
        numbers = count(1)
        self.surroundings = Surroundings(
            clock=self.clock, new_id=lambda: f"t{next(numbers)}", is_dead=lambda _: False
        )
        self.elsewhere = TaskService(
            store,
            Sealer(secret),
            clock=self.clock,
            new_id=lambda: f"e{next(numbers)}",
            limits=Limits(caps=Caps(live=10_000)),
        )
        """The second process on the store, which runs no tools."""
        self.peers: list[Peer] = []
        self._offer()

    def _offer(self) -> None:
        @self.tools.task()
        async def hold(ctx: Context) -> str:
            """Wait for the test, and return the number of this run."""
            self.runs.append(ctx.task_id or "")
            run = self.runs.count(ctx.task_id or "")
            self.started.set()
            await self.may_end.wait()
            return f"run {run}"

        @self.tools.task()
        async def quick() -> str:
            return "done"

        @self.tools.task()
        async def broken() -> None:
            raise RuntimeError("boom")

        @self.tools.task()
        async def report(ctx: Context) -> str:
            await ctx.progress(1, 2)
            await ctx.status("halfway")
            self.started.set()
            await self.may_end.wait()
            return "done"

        @self.tools.task()
        async def greet(ctx: Context) -> str:
            self.runs.append(ctx.task_id or "")
            answer = await ctx.ask("name", FORM)
            self.started.set()
            await self.may_end.wait()
            return f"Hello, {answer.content['name']}! (run {len(self.runs)})"

        @self.tools.task(parks=True)
        async def parked(ctx: Context) -> str:
            self.runs.append(ctx.task_id or "")
            answer = await ctx.ask("name", FORM)
            return f"Hello, {answer.content['name']}! (run {len(self.runs)})"

        @self.tools.task()
        async def two(ctx: Context) -> str:
            """Ask the second question while the first is open."""
            first, second = await asyncio.gather(
                ctx.ask("a", form("First?", NAME_FORM)), ctx.ask("b", form("Second?", NAME_FORM))
            )
            return f"{first.content['name']} and {second.content['name']}"

        @self.tools.task()
        async def shrug(ctx: Context) -> str:
            """End without waiting for the answer."""
            asking = asyncio.create_task(ctx.ask("name", FORM))
            await self.may_end.wait()
            asking.cancel()
            return "never mind"

    async def peer(self, dialect: str) -> Peer:
        peer = Peer(self.runtime, dialect, self.timeout_s)
        self.peers.append(peer)
        await peer.introduce()
        return peer

    async def start(self, concurrency: int = 64) -> None:
        config = RuntimeConfig(limits=Limits(concurrency=concurrency), world=self.surroundings)
        self.runtime = await start_runtime(self.store, self.tools, config)

    async def stop(self) -> None:
        self.may_end.set()
        for peer in self.peers:
            await peer.conversation.close()
        await self.runtime.stop(0)

    async def move(self, task_id: str, *acts: Callable[[Task, int], Step]) -> None:
        """Commit these steps together in the other process, so that followers see the last version.

        A step that the table forbids is dropped: the peers see no change.
        """

        def steps(task: Task, now: int) -> Sequence[Step]:
            decided: list[Step] = []
            for act in acts:
                decided.append(act(decided[-1].task if decided else task, now))
            return decided

        with suppress(IllegalTransition):
            await self.elsewhere.move(task_id, steps)

    async def register_worker(self, worker: str) -> None:
        """Register a live worker of another process."""
        await self.store.register_worker(Worker(worker, "elsewhere", 1))


@asynccontextmanager
async def environment(url: str, timeout_s: float) -> AsyncIterator[Environment]:
    """Open a new store, and close it afterwards."""
    store = await open_store(url)
    env = Environment(store, await store.secret(), timeout_s)
    try:
        yield env
    finally:
        if hasattr(env, "runtime"):
            await env.stop()
        await store.close()


async def within(env: Environment, event: asyncio.Event) -> None:
    """Wait for an event that a tool sets."""
    async with asyncio.timeout(env.timeout_s):
        await event.wait()
