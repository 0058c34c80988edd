"""The measured work of a service, and its amount."""

from typing import Final, NamedTuple

from taskmachine.adapters.runtime.claims import claim
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import new_id, system_clock
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.stores import Caps, Store
from taskmachine.protocol.sealing import Sealer
from taskmachine.statemachine import Call, Outcome, Task

__all__ = ["DONE", "FULL", "OWNER", "QUICK", "Scale", "a_call", "begun", "cycle", "service_on"]

OWNER: Final = "alice"
DONE: Final = Outcome.of_result(b'{"content":[{"type":"text","text":"done"}]}')


class Scale(NamedTuple):
    """The amount of work."""

    rounds: int
    cycles: int
    """Cycles per round: few, so that some rounds run undisturbed even on a busy machine."""
    retained: int
    listed: int
    file_rounds: int
    steps: int
    """Steps per caller and round; below `MAX_REPORTS`, so that each has a history entry."""
    calls: int
    """Calls of the single caller per round."""


FULL: Final = Scale(
    500, 20, retained=100_000, listed=1_000_000, file_rounds=21, steps=60, calls=100
)
QUICK: Final = Scale(2, 3, retained=20, listed=60, file_rounds=1, steps=3, calls=3)


def service_on(store: Store) -> TaskService:
    limits = Limits(caps=Caps(10**9, 10**9, 10**9, 10**9))
    return TaskService(store, Sealer(bytes(32)), clock=system_clock, new_id=new_id, limits=limits)


def a_call() -> Call:
    answers = frozenset({"elicitation/create"})
    return Call("tools/call", "greet", b'{"name":"Ada"}', answers=answers)


async def begun(service: TaskService) -> Task:
    task = await service.create(OWNER, a_call())
    held = await claim(service, task.id, "worker")
    assert held is not None
    return held.task


async def cycle(service: TaskService) -> None:
    """Create, start, complete, get."""
    task = await service.create(OWNER, a_call())
    held = await claim(service, task.id, "worker")
    assert held is not None
    await held.settle(Outcome.of_result(b'{"content":[{"type":"text","text":"done"}]}'))
    await service.get(OWNER, task.id)
