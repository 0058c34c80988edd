"""The tools of the simulated servers, one for each kind of behaviour."""

import asyncio
import contextvars
import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import attrs

from taskmachine.adapters.tools.context import Context, Refused
from taskmachine.adapters.tools.questions import form
from taskmachine.adapters.tools.registry import CallError, ToolError, Tools
from taskmachine.adapters.tools.retries import Retry, exponential
from taskmachine.statemachine import Cause, Task
from taskmachine.statemachine.invariants import Event as Happened
from taskmachine.statemachine.invariants import Recorded, StepRan

__all__ = ["LONGEST_SLEEP_S", "TOOLS", "TOOL_LOG", "Boom", "ToolLog", "is_explained"]


class Boom(Exception):
    """An unexpected error of a tool."""


@attrs.frozen
class ToolLog:
    """Records of the tools of one world."""

    die: Callable[[], None]
    """Kills the process that calls it."""
    pause: Callable[[], None]
    """Pauses it for longer than a lease, while there are faults."""
    history: list[Happened]
    begun: Counter[str] = attrs.field(factory=Counter)
    """How often a tool has started, by task."""
    cleaned: Counter[str] = attrs.field(factory=Counter)


TOOL_LOG: contextvars.ContextVar[ToolLog] = contextvars.ContextVar("TOOL_LOG")

TOOLS: Final = Tools()

TIMEOUT_S: Final = 6.0

LONGEST_SLEEP_S: Final = 20


def _begin(ctx: Context) -> None:
    TOOL_LOG.get().begun[str(ctx.task_id)] += 1


def _question(n: int, key: str) -> Any:
    return form(f"{key} of {n}?", {"type": "object", "properties": {"it": {"type": "string"}}})


@TOOLS.task(timeout=TIMEOUT_S)
async def quick(n: int) -> str:
    return f"quick {n}"


@TOOLS.task(timeout=TIMEOUT_S)
async def slow(n: int, seconds: float, ctx: Context) -> str:
    _begin(ctx)
    ctx.on_cancel(lambda: TOOL_LOG.get().cleaned.update([str(ctx.task_id)]))
    await asyncio.sleep(seconds)
    return f"slow {n}"


@TOOLS.task(timeout=TIMEOUT_S)
async def stepwise(n: int, ctx: Context) -> str:
    for done in range(4):
        await ctx.progress(done, 4, f"step {done}")
        await asyncio.sleep(0.5)
    await ctx.status("nearly")
    return f"stepwise {n}"


@TOOLS.task(timeout=TIMEOUT_S)
async def asking(n: int, ctx: Context) -> str:
    answer = await ctx.ask("go", _question(n, "go"))
    await asyncio.sleep(0.2)
    return f"asking {n}: {answer.content.get('it')}"


@TOOLS.task(timeout=TIMEOUT_S)
async def asking_twice(n: int, ctx: Context) -> str:
    first = await ctx.ask_all({key: _question(n, key) for key in ("a", "b")})
    last = await ctx.ask("c", _question(n, "c"), partial={"so": "far"})
    said = [answer.content.get("it") for answer in (*first.values(), last)]
    return f"asking_twice {n}: {' '.join(map(str, said))}"


@TOOLS.task(timeout=TIMEOUT_S)
async def parking(n: int, ctx: Context) -> str:
    first = await ctx.ask("one", _question(n, "one"), park=True)
    await asyncio.sleep(0.1)
    last = await ctx.ask("two", _question(n, "two"), park=True)
    return f"parking {n}: {first.content.get('it')} {last.content.get('it')}"


@TOOLS.task(timeout=TIMEOUT_S)
async def impatient(n: int, ctx: Context) -> str:
    """Return while the question is open."""
    try:
        async with asyncio.timeout(2):
            await ctx.ask("go", _question(n, "go"))
    except (TimeoutError, Refused):
        pass
    return f"impatient {n}"


@TOOLS.task(timeout=TIMEOUT_S)
async def stubborn(n: int, seconds: float) -> str:
    """Ignore cancellation."""
    end = asyncio.get_running_loop().time() + seconds
    while (left := end - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue
    return f"stubborn {n}"


@TOOLS.task(timeout=TIMEOUT_S)
async def broken(n: int) -> str:
    if n % 3 == 0:
        raise ToolError(f"broken {n}")
    if n % 3 == 1:
        raise CallError(-32001, f"broken {n}")
    raise Boom


@TOOLS.task(timeout=TIMEOUT_S, repeatable=False)
async def once(n: int, seconds: float, ctx: Context) -> str:
    """Must not be repeated, like a payment."""
    _begin(ctx)
    await asyncio.sleep(seconds)
    return f"once {n}"


@TOOLS.task(timeout=TIMEOUT_S, retries=2, backoff=exponential(1, 3, 4))
async def durable(n: int, ctx: Context) -> str:
    """Record steps, sleep, and let some attempts fail."""
    run = DurableRun(ctx)
    results = [await run.step("first", n)]
    await ctx.sleep("nap", n % 7 * LONGEST_SLEEP_S / 6)
    if ctx.attempt <= n % 3:
        raise Retry(reason="not yet") if n % 2 else Boom
    results += await ctx.gather(run.step("left", n), run.step("right", n))
    await ctx.sleep("second nap", 0.5)
    return f"durable {n}: {' '.join([*results, await run.step('last', n)])}"


class DurableRun:
    """One run of a tool that records steps; it logs which functions it called."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._task_id = str(ctx.task_id)
        self._log = TOOL_LOG.get()
        self._number = self._log.begun[self._task_id] = self._log.begun[self._task_id] + 1
        self._results: dict[str, str] = {}

    async def step(self, key: str, n: int) -> str:
        result: str = await self._ctx.step(key, partial(self._call, key), n)
        if key in self._results:
            place = (0, self._task_id, key, self._number)
            self._log.history.append(Recorded(*place, self._results[key]))
        return result

    async def _call(self, key: str, n: int) -> str:
        self._log.history.append(StepRan(0, self._task_id, key, self._number))
        if n % 20 == 0 and self._number == 1:
            self._log.pause()
        await asyncio.sleep(n % 5)
        self._results[key] = f"{key} {n} of run {self._number}"
        return self._results[key]


@TOOLS.task(timeout=TIMEOUT_S)
async def deadly(n: int, ctx: Context) -> str:
    """Kill the process, each time."""
    _begin(ctx)
    await asyncio.sleep(0.3)
    TOOL_LOG.get().die()
    await asyncio.get_running_loop().create_future()
    return "never"


def is_explained(task: Task, first_answers: dict[str, str], first_results: dict[str, str]) -> bool:
    """Return whether the outcome follows from the call, the first answers and the first results."""
    outcome, name = task.outcome, task.call.name
    assert outcome is not None, "only terminal tasks are checked"
    n = json.loads(task.call.arguments)["n"]
    if outcome.cause is Cause.ERROR:
        refused = any(said == "no" for said in first_answers.values())
        return name == "broken" or refused
    if outcome.cause is not Cause.RESULT:
        return True
    text = json.loads(outcome.result or b"{}")["content"][0]["text"]
    keys = {"asking": ["go"], "asking_twice": ["a", "b", "c"], "parking": ["one", "two"]}
    expected = f"{name} {n}"
    if name in keys:
        expected += ": " + " ".join(first_answers.get(key, "?") for key in keys[name])
    if name == "durable":
        steps = ("first", "left", "right", "last")
        expected += ": " + " ".join(first_results.get(key, "?") for key in steps)
    return bool(text == expected and outcome.is_error == (name == "broken"))
