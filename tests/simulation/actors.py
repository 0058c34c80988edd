"""Actions of callers, workers and timers on one task: the real code, suspended at each step.

The steps are each load, each commit and each effect.  The code between two steps depends only on
the store's previous answers, so no suspended coroutine is kept: to continue, the code runs again
with the same answers up to its next request to the store.
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
    "Answers",
    "Commit",
    "Done",
    "Effect",
    "Load",
    "Number",
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
    """A violation, with the interleaving that led to it."""


# --- between two steps the real code runs ----------------------------------------------------


@attrs.frozen
class Load:
    """The actor is about to read."""


@attrs.frozen
class Commit:
    """The actor is about to write."""

    task: Task
    entries: tuple[Entry, ...]
    expected: int


@attrs.frozen
class Effect:
    """The write is committed, and the actor is about to perform its effects."""


@attrs.frozen
class Done:
    """The result of the event, and the claim that the actor then holds."""

    answer: Any
    held: Task | None


Request = Load | Commit | Effect | Done

# Tasks, requests and answers are interned as numbers, since they are compared a million times.

Number = int
Answers = tuple[Number, ...]

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


class _ReplayingStore(MemoryStore):
    """Replays the previous answers, then suspends at the next request."""

    def __init__(self, answers: Answers) -> None:
        super().__init__(bytes(32))
        self._answers = [value(known) for known in answers]

    async def _ask(self, request: Request) -> Any:
        answer = self._answers.pop(0) if self._answers else await _Waiting(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def load(self, task_id: str) -> Task | None:
        task: Task | None = await self._ask(Load())
        return task

    async def commit(self, task: Task, entries: Sequence[Entry], expected: int) -> None:
        await self._ask(Commit(task, tuple(entries), expected))
        await self._ask(Effect())


CONFLICT: Final = Conflict("another actor committed first")


@cache
def next_request(actor: str, event: str, held: Number, answers: Answers) -> Number:
    """Return the number of the next `Request` after these answers of the store."""
    store = _ReplayingStore(answers)
    service = TaskService(store, _SEALER, clock=lambda: NOW, new_id=lambda: "unused")
    dispatched: list[int] = []
    service.on_dispatch(lambda task: dispatched.append(task.version))
    work: Coroutine[Any, Any, Done] = _perform(actor, event, service, value(held))
    try:
        request: Request = work.send(None)
    except StopIteration as done:
        request = done.value
        _check_dispatch(answers, dispatched)
    work.close()
    return number(request)


_SEALER: Final = Sealer(bytes(32))


def _check_dispatch(answers: Answers, dispatched: list[int]) -> None:
    """Check that each write that queued the task was followed by a dispatch."""
    written = [answer for answer in map(value, answers) if isinstance(answer, Written)]
    expected = [w.version for w in written if w.is_queued]
    if dispatched != expected:
        raise Wrong(f"dispatched {dispatched} after {expected} were queued")


@attrs.frozen
class Written:
    """The store's answer to a commit."""

    version: int
    is_queued: bool


async def _perform(actor: str, event: str, service: TaskService, held: Task | None) -> Done:
    """Perform one event of a script; an expected error counts as its result."""
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
    """Recover the task from another worker, which is considered lost."""
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
