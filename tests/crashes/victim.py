"""A server process that will be killed: `python -m tests.crashes.victim ORDER`.

It works until then, or until the end of its input, which stops it gracefully.  After each response
to a caller it writes the content to the pipe, one line per message.
"""

import asyncio
import os
import random
import secrets
import sys
import time
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, Literal

import attrs
import msgspec

from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import Runtime, RuntimeConfig, open_runtime
from taskmachine.adapters.runtime.waiting import wait_for
from taskmachine.adapters.stores import Caps
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.questions import Request, form
from taskmachine.adapters.tools.registry import CallError, Tools
from taskmachine.adapters.tools.retries import Retry
from taskmachine.adapters.tools.sync_context import SyncContext
from taskmachine.protocol.jsonvalue import encode_json
from taskmachine.protocol.operations import Answer, Cancel, Create
from taskmachine.statemachine import Call, Reply, Task
from tests.crashes.evidence import (
    Answered,
    Began,
    Kept,
    Line,
    Made,
    Ran,
    Settled,
    Stepped,
    observation_of,
)

OWNERS: Final = ("alice", "bob", "carol")
CALLERS: Final = 2  # concurrent callers per owner
MANY: Final = 1_000_000
LIMITS: Final = Limits(caps=Caps(MANY, MANY, MANY, MANY), concurrency=16)
SILENT: Final = "silent"  # the tool whose question no caller answers

Mode = Literal["work", "settle", "create"]

tools: Final = Tools()


class Order(msgspec.Struct, frozen=True):
    """The work of one process."""

    url: str
    seed: int
    name: str
    mode: Mode
    steps: str = os.devnull
    """The file to which the functions of steps append."""


def send(line: Line) -> None:
    """Send a message; a short write to a pipe is atomic, also when the process is killed."""
    os.write(sys.stdout.fileno(), msgspec.json.encode(line) + b"\n")


# --- tools: results depend only on the arguments and the answers -------------------------------


@tools.task()
async def quick(n: int) -> str:
    return f"quick {n}"


@tools.task()
async def steps(n: int, ctx: Context) -> str:
    for step in range(2 + n % 5):
        await ctx.progress(step + 1, 7, f"step {step + 1}")
    return f"steps {n}"


@tools.task()
def slow(n: int, ctx: SyncContext) -> str:
    for step in range(60):
        ctx.progress(step + 1)
    return f"slow {n}"


@tools.task()
async def asking(n: int, ctx: Context) -> str:
    first = await ctx.ask("a", question(n))
    await ctx.progress(1)
    more = await ctx.ask_all({"b": question(n), "c": question(n)})
    return " ".join(["asking", str(n), *map(words, (first, more["b"], more["c"]))])


@tools.task()
async def parking(n: int, ctx: Context) -> str:
    first = await ctx.ask("a", question(n), park=True)
    await ctx.status("half of it")
    second = await ctx.ask("b", question(n), park=True)
    return " ".join(["parking", str(n), *map(words, (first, second))])


@tools.task(SILENT)
async def silent(n: int, ctx: Context) -> str:
    return words(await ctx.ask("a", question(n), park=n % 2 == 0))


@tools.task(repeatable=False)
async def once(n: int, ctx: Context) -> str:
    assert ctx.task_id is not None
    send(Ran(ctx.task_id))
    for step in range(4):
        await ctx.progress(step + 1, 4)
    return f"once {n}"


@tools.task(retries=1)
async def recording(n: int, ctx: Context) -> str:
    """Record steps around a sleep; now and then the first attempt fails half way."""
    run = secrets.token_hex(4)
    results = [await recorded(ctx, run, str(number)) for number in range(2)]
    if ctx.attempt == 1 and n % 3 == 0:
        raise Retry(after=n % 10 / 100)
    await ctx.sleep("nap", n % 30 / 100)
    results += await ctx.gather(*(recorded(ctx, run, f"after {number}") for number in range(2)))
    return " ".join(["recording", str(n), *results])


async def recorded(ctx: Context, run: str, key: str) -> str:
    assert ctx.task_id is not None
    result = await ctx.step(key, partial(append, ctx.task_id, key, run))
    send(Kept(time.monotonic_ns(), ctx.task_id, key, run, result))
    return result


async def append(task_id: str, key: str, run: str) -> str:
    """Append a line to the file of steps, and leave time for a kill before it is recorded."""
    result = secrets.token_hex(4)
    line = msgspec.json.encode(Stepped(time.monotonic_ns(), task_id, key, run, result))
    file = os.open(os.environ["STEPS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line + b"\n")
        os.fsync(file)
    finally:
        os.close(file)
    await asyncio.sleep(random.random() / 100)
    return result


@tools.task()
async def broken(n: int, ctx: Context) -> str:
    await ctx.progress(1)
    raise CallError(-32050, f"broken {n}")


@attrs.frozen
class Said:
    said: str


def question(n: int) -> Request[Any]:
    return form(f"What of {n}?", Said)


def words(answer: Any) -> str:
    return str(answer.value.said)


# --- callers ---------------------------------------------------------------------------------


class Caller:
    """A client that creates tasks, follows them, and abandons some."""

    def __init__(self, runtime: Runtime, owner: str, name: str, seed: int) -> None:
        self.runtime = runtime
        self.service = runtime.service
        self.owner = owner
        self.name = name
        self.random = random.Random(f"{seed} {name}")
        self.said = 0

    async def run(self) -> None:
        while True:
            if self.random.random() < 0.2:
                await self.list_tasks()
            else:
                await self.follow(await self.create())

    async def create(self) -> Task:
        n = self.random.randrange(1_000)
        tool, key = self.random.choice(list(tools)), None
        if self.random.random() < 0.2:  # the same call again, perhaps of an earlier process
            tool, n = "quick", n % 20
            key = f"key {n}"
        call = Call("tools/call", tool, encode_json({"n": n}), answers=KINDS, key=key)
        since = time.monotonic_ns()
        task = await self.runtime.create(self.owner, Create(call))
        send(Made(task.id, self.owner, key))
        send(observation_of(task, since))
        return task

    async def list_tasks(self) -> None:
        """List the newest tasks and follow one of them."""
        since = time.monotonic_ns()
        page = await self.service.page(self.owner, limit=20)
        for task in page.tasks:
            send(observation_of(task, since))
        if page.tasks:
            await self.follow(self.random.choice(page.tasks))

    async def follow(self, task: Task) -> None:
        """Answer the questions and wait for the end, or give up at random."""
        while not task.is_terminal and self.random.random() > 0.02:
            since = time.monotonic_ns()
            if task.open_questions:
                if task.call.name == SILENT:
                    return
                task = await self.answer(task)
            elif self.random.random() < 0.03:
                wish = Cancel(task.id, f"cancelled by {self.name}")
                task, _ = await self.service.perform(self.owner, wish)
            else:
                task = await self.service.wait(self.owner, task.id, after=task.version, timeout_s=1)
            send(observation_of(task, since))

    async def answer(self, task: Task) -> Task:
        """Answer some of the questions; report those whose first answer this was."""
        keys = [question.key for question in task.open_questions]
        answers: dict[str, Reply] = {}
        for key in self.random.sample(keys, self.random.randint(1, len(keys))):
            self.said += 1
            content = {"said": f"{key}-{self.name}-{self.said}"}
            answers[key] = Reply(encode_json({"action": "accept", "content": content}))
        task, made = await self.service.perform(self.owner, Answer(task.id, answers))
        kept = {question.key: question.answer for question in task.questions}
        for key, reply in answers.items():
            if made and kept[key] == reply:
                send(Answered(task.id, key, reply.body))
        return task


KINDS: Final = frozenset({"elicitation/create"})


def is_at_rest(task: Task) -> bool:
    return task.is_terminal or bool(task.open_questions)


async def settle(runtime: Runtime) -> None:
    """Wait until every task has ended or has open questions."""
    store = runtime.service.store
    async for exported, _ in store.export():
        await wait_for(store, exported.id, is_at_rest)
    send(Settled())


async def create_some(runtime: Runtime) -> None:
    """Create tasks one after the other, so that each has its own commit."""
    for n in range(20):
        call = Call("tools/call", "unknown tool", encode_json({"n": n}))
        task = await runtime.service.create("alice", call)
        send(Made(task.id, task.owner, None))


async def work(order: Order) -> None:
    """Work until the end of the input."""
    async with open_runtime(order.url, tools, RuntimeConfig(limits=LIMITS)) as runtime:
        send(Began())
        if order.mode == "create":
            await create_some(runtime)
            return
        jobs: list[Coroutine[Any, Any, None]] = [settle(runtime)]
        if order.mode == "work":
            jobs = [
                Caller(runtime, owner, f"{order.name}{owner[0]}{number}", order.seed).run()
                for owner in OWNERS
                for number in range(CALLERS)
            ]
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), stopped.set)
        async with asyncio.TaskGroup() as group:  # a failed caller ends the process
            running = [group.create_task(job) for job in jobs]
            await stopped.wait()
            for one in running:
                one.cancel()


def run(order: Order) -> None:
    os.environ["STEPS"] = order.steps
    asyncio.run(work(order))


if __name__ == "__main__":
    run(msgspec.json.decode(sys.argv[1], type=Order))
