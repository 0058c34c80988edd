"""What callers, workers and time do to one task: the real code, stopped where others can come in.

Its steps are each load, each commit and each effect.  What it does from one step to the next
depends only on what the store has told it so far, so it is never kept half-way: to go on it is
run again with the same answers, up to its next question to the store.
"""

from collections.abc import Awaitable, Coroutine, Generator, Hashable, Sequence
from functools import cache
from typing import Any, Final

import attrs

from taskmachine.adapters.runtime.claims import Claim, claim, give_back
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.stores import Conflict
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.tools.errors import Gone
from taskmachine.protocol.operations import Answer
from taskmachine.protocol.sealing import Sealer
from taskmachine.statemachine import (
    Call,
    Entry,
    IllegalTransition,
    NotFound,
    Outcome,
    Progress,
    Question,
    Reply,
    Task,
    lifecycle,
)

__all__ = [
    "CONFLICT",
    "FIRST",
    "NOTHING",
    "Commit",
    "Done",
    "Effect",
    "Load",
    "Number",
    "Told",
    "Written",
    "Wrong",
    "next_request",
    "number",
    "value",
]

NOW: Final = 1_000_000
FIRST: Final = lifecycle.submit(
    "task", "ada", Call("tools/call", "tool", answers=frozenset({"elicitation/create"})), NOW,
    ttl_ms=60_000,
).task  # fmt: skip


class Wrong(AssertionError):
    """Something that must never happen, and how it came about."""


# --- between two steps the real code runs ----------------------------------------------------


@attrs.frozen
class Load:
    """Somebody is about to read."""


@attrs.frozen
class Commit:
    """Somebody is about to write."""

    task: Task
    entries: tuple[Entry, ...]
    expected: int


@attrs.frozen
class Effect:
    """It is written, and whoever wrote is about to carry out what follows."""


@attrs.frozen
class Done:
    """The answer, and the claim that is held from here on."""

    answer: Any
    held: Task | None


Request = Load | Commit | Effect | Done

# Tasks, requests and answers are compared a million times: by numbers, equal ones by the same.

Number = int
Told = tuple[Number, ...]

_numbers: Final[dict[Hashable, Number]] = {}
_values: Final[list[Any]] = []


def number(value: Hashable) -> Number:
    known = _numbers.setdefault(value, len(_values))
    if known == len(_values):
        _values.append(value)
    return known


def value(known: Number) -> Any:
    return _values[known]


NOTHING: Final = number(None)


class _Waiting(Awaitable[Any]):
    def __init__(self, request: Request) -> None:
        self._request = request

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield self._request)


class _Asking(MemoryStore):
    """Answers by what was told before, and then hands out what it is asked."""

    def __init__(self, told: Told) -> None:
        super().__init__(bytes(32))
        self._told = [value(known) for known in told]

    async def _ask(self, request: Request) -> Any:
        answer = self._told.pop(0) if self._told else await _Waiting(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def load(self, task_id: str) -> Task | None:
        task: Task | None = await self._ask(Load())
        return task

    async def commit(self, task: Task, entries: Sequence[Entry], expected: int) -> None:
        await self._ask(Commit(task, tuple(entries), expected))
        await self._ask(Effect())


CONFLICT: Final = Conflict("somebody was faster")


@cache
def next_request(actor: str, event: str, held: Number, told: Told) -> Number:
    """Where the code comes to, if the store has told it that: the number of a `Request`."""
    store = _Asking(told)
    service = TaskService(store, _SEALER, clock=lambda: NOW, new_id=lambda: "unused")
    dispatched: list[int] = []
    service.on_dispatch(lambda task: dispatched.append(task.version))
    work: Coroutine[Any, Any, Done] = _perform(actor, event, service, value(held))
    try:
        request: Request = work.send(None)
    except StopIteration as done:
        request = done.value
        _check_dispatch(told, dispatched)
    work.close()
    return number(request)


_SEALER: Final = Sealer(bytes(32))


def _check_dispatch(told: Told, dispatched: list[int]) -> None:
    """Whoever has put the task into the queue has said so."""
    written = [answer for answer in map(value, told) if isinstance(answer, Written)]
    expected = [w.version for w in written if w.is_queued]
    if dispatched != expected:
        raise Wrong(f"dispatched {dispatched} after {expected} were queued")


@attrs.frozen
class Written:
    """The store says: done."""

    version: int
    is_queued: bool


async def _perform(actor: str, event: str, service: TaskService, held: Task | None) -> Done:
    """One event of a script.  An error is an answer, too."""
    try:
        return await _EVENTS[event](actor, service, held)
    except (Gone, NotFound, IllegalTransition) as error:
        return Done(type(error).__name__, held)


async def _get(actor: str, service: TaskService, held: Task | None) -> Done:
    return Done(await service.get("ada", FIRST.id), held)


async def _cancel(actor: str, service: TaskService, held: Task | None) -> Done:
    return Done(await service.cancel("ada", FIRST.id), held)


async def _answer(actor: str, service: TaskService, held: Task | None) -> Done:
    reply = {"q": Reply(actor.encode())}
    return Done((await service.perform("ada", Answer(FIRST.id, reply)))[0], held)


async def _claim(actor: str, service: TaskService, held: Task | None) -> Done:
    taken = await claim(service, FIRST.id, actor)
    return Done(None, held) if taken is None else Done("taken", taken.task)


async def _report(actor: str, service: TaskService, held: Task | None) -> Done:
    if held is not None:
        await Claim(service, held).report(progress=Progress(1))
    return Done(None, held)


async def _ask(actor: str, service: TaskService, held: Task | None) -> Done:
    if held is not None:
        await Claim(service, held).ask([Question("q", "elicitation/create", b"{}")])
    return Done(None, held)


async def _park(actor: str, service: TaskService, held: Task | None) -> Done:
    if held is not None:
        await Claim(service, held).park()
    return Done(None, None)


async def _settle(actor: str, service: TaskService, held: Task | None) -> Done:
    if held is None:
        return Done(None, None)
    await Claim(service, held).settle(Outcome.of_result(actor.encode()))
    return Done("settled", None)


async def _fail(actor: str, service: TaskService, held: Task | None) -> Done:
    if held is None:
        return Done(None, None)
    await Claim(service, held).settle(Outcome.of_error(-1, actor))
    return Done("settled", None)


async def _recover(actor: str, service: TaskService, held: Task | None) -> Done:
    """Whoever else has the task is believed to be lost."""
    seen = await service.store.load(FIRST.id)
    if seen is not None and seen.worker not in (None, actor):
        await give_back(service, seen, lost=True, why="lost")
    return Done(None, held)


async def _expire(actor: str, service: TaskService, held: Task | None) -> Done:
    await service.move(FIRST.id, lambda task, now: (lifecycle.expire(task, now),))
    return Done("expired", held)


async def _purge(actor: str, service: TaskService, held: Task | None) -> Done:
    await service.move(FIRST.id, lambda task, now: (lifecycle.purge(task, now),))
    return Done("purged", held)


_EVENTS: Final = {
    "get": _get, "cancel": _cancel, "answer": _answer, "claim": _claim, "report": _report,
    "ask": _ask, "park": _park, "settle": _settle, "fail": _fail, "recover": _recover,
    "expire": _expire, "purge": _purge,
}  # fmt: skip
