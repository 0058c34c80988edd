"""All orders in which two callers, two workers and time itself can meet over one task.

A state is a value: what is stored, how the task ended first, and of each actor how far it is in
its script, what it holds and what the store has told it.  Depth first; two orders that lead to
the same state are followed once, and counted both.  What happened before is no part of a state:
what has to be true of a history is checked at each commit, by `specs/`.
"""

from collections.abc import Coroutine, Iterator
from functools import cache
from itertools import product
from typing import Any, Final, NamedTuple

import attrs

from taskmachine.adapters.stores import Conflict
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.statemachine import Entry, Task
from tests.oracle import MOVES
from tests.simulation.actors import (
    CONFLICT,
    FIRST,
    NOTHING,
    Commit,
    Done,
    Effect,
    Load,
    Number,
    Told,
    Written,
    Wrong,
    next_request,
    number,
    value,
)

__all__ = ["ACTORS", "Exploration", "Script", "explore", "scripts"]

ACTORS: Final = ("caller 1", "caller 2", "worker 1", "worker 2")
ENDED: Final = ("completed", "failed", "cancelled")

Script = tuple[tuple[str, ...], ...]
"""What each of the actors does, one thing after the other."""

_CALLERS: Final = ("", "answer", "cancel", "get", "answer cancel", "cancel answer", "get cancel")
_WORKERS: Final = (
    "claim settle", "claim ask", "claim fail", "claim report settle", "claim ask settle",
    "claim ask park", "claim ask report", "claim ask park claim", "claim ask park claim settle",
)  # fmt: skip
_OTHERS: Final = (
    "", "recover", "recover claim", "recover claim settle", "recover claim ask", "claim settle",
    "expire", "expire purge", "recover expire", "recover claim expire",
)  # fmt: skip


def scripts(events: int) -> Iterator[Script]:
    """Every assignment of so many events, each actor by one of its ways.

    Shorter ones are their beginnings, and every state on the way is checked.
    """
    for parts in product(_CALLERS, _CALLERS, _WORKERS, _OTHERS):
        script = tuple(tuple(part.split()) for part in parts)
        if sum(map(len, script)) == events and parts[0] <= parts[1]:  # callers are alike
            yield script


class Actor(NamedTuple):
    """How far somebody is: what is still to be done, and what is known of the first of it."""

    to_do: tuple[str, ...]
    held: Number = NOTHING
    told: Told = ()


class State(NamedTuple):
    """Where everybody is, by numbers: two tasks, and the actors."""

    stored: Number
    ended: Number
    """The task when it had ended first, also after it is forgotten."""
    actors: tuple[Number, ...]


@attrs.frozen
class Exploration:
    """What was gone through."""

    states: int
    interleavings: int
    """Orders from the beginning to the end, all different."""
    ends: int


def explore(script: Script) -> Exploration:
    """Go through all orders of a script; `Wrong` at the first thing that must not be."""
    ways: dict[State, int] = {}
    ends = 0

    def visit(state: State) -> int:
        nonlocal ends
        if (known := ways.get(state)) is not None:
            return known
        stored, ended, actors = state
        orders = 0
        for i, actor in enumerate(actors):
            if (moved := _advanced(ACTORS[i], actor, stored, ended)) is not None:
                after = (*actors[:i], moved[2], *actors[i + 1 :])
                orders += visit(State(moved[0], moved[1], after))
        if not orders:  # everybody is done
            if ended == NOTHING:
                _check_not_stuck(stored)
            ends += 1
            orders = 1
        ways[state] = orders
        return orders

    actors = tuple(number(Actor(to_do)) for to_do in script)
    try:
        orders = visit(State(number(FIRST), NOTHING, actors))
    except Wrong as wrong:
        raise Wrong(f"{wrong}, by {dict(zip(ACTORS, script, strict=True))}") from None
    return Exploration(len(ways), orders, ends)


@cache
def _advanced(
    name: str, actor: Number, stored: Number, ended: Number
) -> tuple[Number, Number, Number] | None:
    """What is stored, how it ended and where the actor is, one step further; None at its end."""
    to_do, held, told = value(actor)
    if not to_do:
        return None
    request = next_request(name, to_do[0], held, told)
    if isinstance(write := value(request), Commit):
        _check_writer(to_do[0], value(held), value(told[0]), value(stored), write)
    stored, told, ended_now = _answered(request, stored, told)
    if ended_now != NOTHING and ended != NOTHING:
        raise Wrong(f"ended as {value(ended)}, and then as {value(ended_now)}")
    ended = max(ended, ended_now)
    # Whoever was too late begins again: as if it had not tried, if it asks the same as then.
    if told[-1] == _CONFLICT:
        again = next_request(name, to_do[0], held, told[:-2])
        told = told[:-2] if again == next_request(name, to_do[0], held, told) else told
    # Nobody can come between the last answer of the store and the end of an event.
    while to_do:
        last = value(next_request(name, to_do[0], held, told))
        if not isinstance(last, Done):
            break
        if not _is_explained(to_do[0], last.answer, name, value(ended), stored == NOTHING):
            raise Wrong(f"{name} did {to_do[0]}, got {last.answer}, and {value(ended)}")
        to_do, held, told = to_do[1:], number(last.held), ()
    return stored, ended, number(Actor(to_do, held, told))


_CONFLICT: Final = number(CONFLICT)


def _answered(request: Number, stored: Number, told: Told) -> tuple[Number, Told, Number]:
    """What is stored after a request, what the actor knows then, and the task if that ended it."""
    asked = value(request)
    if isinstance(asked, Load):
        return stored, (*told, stored), NOTHING
    if isinstance(asked, Effect):
        return stored, (*told, NOTHING), NOTHING
    assert isinstance(asked, Commit), "what is done asks for nothing"
    after = committed(value(stored), asked)
    if isinstance(after, Conflict):
        return stored, (*told, _CONFLICT), NOTHING
    is_queued = bool(asked.entries) and asked.entries[-1].dest == "submitted"
    written = number(Written(asked.task.version, is_queued))
    ended = number(asked.task) if asked.task.state in ENDED else NOTHING
    return number(after), (*told, written), ended


def committed(stored: Task | None, write: Commit) -> Task | Conflict | None:
    """What is stored after a write, by the real store; every write is judged here."""
    store = MemoryStore(bytes(32))
    if stored is not None:
        _run(store.adopt(stored, ()))
    try:
        _run(store.commit(write.task, write.entries, write.expected))
    except Conflict:
        if stored is not None and stored.version == write.expected:
            raise Wrong(f"refused {write} on {stored}") from None
        return CONFLICT
    if stored is None or stored.version != write.expected:
        raise Wrong(f"{write} was stored over {stored}")
    _check_moves(stored, write.task, write.entries)
    _check_record(write.task)
    after: Task | None = _run(store.load(FIRST.id))
    return after


def _check_writer(
    event: str, held: Task | None, seen: Task, stored: Task | None, write: Commit
) -> None:
    """A write that will be accepted is by the worker that has the task, or takes what was seen."""
    if stored is None or stored.version != write.expected:
        return
    if event in ("report", "ask", "park", "settle", "fail"):
        allowed = held
    elif event == "recover":
        allowed = seen
    else:
        return
    if allowed is None or (allowed.worker, allowed.fence) != (stored.worker, stored.fence):
        raise Wrong(f"{event} by whoever has {allowed}, while there is {stored}")


def _check_moves(before: Task, after: Task, entries: tuple[Entry, ...]) -> None:
    """Legal by the specification, and without a gap."""
    state, version = str(before.state), before.version
    for entry in entries:
        if entry.source != state or MOVES[state][entry.event] != entry.dest:
            raise Wrong(f"{entry} is not a move of {state}")
        version += 1
        if entry.seq != version:
            raise Wrong(f"{entry} follows version {version - 1}")
        state = str(entry.dest)
    if not entries:  # let go of while questions are open: a version without a line
        version += 1
    if (after.state, after.version) != (state, version):
        raise Wrong(f"{after} does not follow from {before} by {entries}")
    if not before.losses <= after.losses <= min(3, before.losses + 1):
        raise Wrong(f"has cost {after.losses} workers after {before.losses}")
    if after.fence != before.fence + sum(entry.event == "start" for entry in entries):
        raise Wrong(f"has the fence {after.fence} after {before.fence} by {entries}")
    for old, new in zip(before.questions, after.questions, strict=False):
        if new != old and not old.is_open:
            raise Wrong(f"was told {old.answer} and then {new.answer}")


def _check_record(task: Task) -> None:
    """What must be true of every stored task."""
    if bool(task.open_questions) != (task.state == "input_required"):
        raise Wrong(f"is {task.state} with {task.open_questions}")
    if task.state == "working" and task.worker is None:
        raise Wrong("is working, and nobody works")
    if task.worker is not None and task.state not in ("working", "input_required"):
        raise Wrong(f"is {task.state}, and {task.worker} has it")
    if (task.outcome is not None) != (task.state in (*ENDED, "removed")):
        raise Wrong(f"is {task.state} with the outcome {task.outcome}")


def _is_explained(event: str, answer: Any, name: str, ended: Task | None, is_gone: bool) -> bool:
    """Whether somebody may be told that, as things are at that moment."""
    outcome = None if ended is None else ended.outcome
    match event:
        case "get" | "answer":
            return isinstance(answer, Task) or (answer == "NotFound" and is_gone)
        case "cancel":  # it has ended, and as it stays
            return answer == ended is not None or (answer == "NotFound" and is_gone)
        case "settle" | "fail" if answer == "settled":
            return outcome is not None and name in (
                outcome.message,
                (outcome.result or b"").decode(),
            )
        case "expire" if answer == "expired":
            return outcome is not None and outcome.cause == "expired"
        case "claim":
            return answer in ("taken", None)
        case "recover":
            return answer is None
        case _:
            return answer in (None, "Gone", "NotFound", "IllegalTransition", "purged")


@cache
def _check_not_stuck(stored: Number) -> None:
    """Whoever is lost is found, whatever is asked is answered, and the next worker ends it."""
    task: Task = value(stored)
    finder = "worker 1" if task.worker == "worker 2" else "worker 2"
    for name, event in (
        (finder, "recover"), ("caller 1", "answer"), ("worker 1", "claim"), ("worker 1", "settle"),
    ):  # fmt: skip
        stored = _alone(name, event, stored if event == "settle" else NOTHING, stored)
    end: Task | None = value(stored)
    if end is None or end.state not in ENDED:
        raise Wrong(f"{task} cannot come to its end any more, only to {end}")


def _alone(name: str, event: str, held: Number, stored: Number) -> Number:
    """What is stored after an event that nobody disturbs."""
    told: Told = ()
    while not isinstance(value(request := next_request(name, event, held, told)), Done):
        stored, told, _ = _answered(request, stored, told)
    return stored


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    """A coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("a memory store does not wait")
