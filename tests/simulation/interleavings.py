"""All interleavings of two callers, two workers and timers on one task.

A state is a value: the stored task, its first outcome, and for each actor its position in the
script, its claim and the store's answers.  The search is depth first; interleavings that lead to
the same state are followed once and counted separately.  A state does not include the history:
each commit is checked against `specs/`.
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
    Answers,
    Commit,
    Done,
    Effect,
    Load,
    Number,
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
"""The sequence of events of each actor."""

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
    """Yield every combination of the actors' sequences with that many events.

    Shorter scripts are prefixes of these, and every state on the way is checked.
    """
    for parts in product(_CALLERS, _CALLERS, _WORKERS, _OTHERS):
        script = tuple(tuple(part.split()) for part in parts)
        if sum(map(len, script)) == events and parts[0] <= parts[1]:  # callers are interchangeable
            yield script


class Actor(NamedTuple):
    """The position of an actor: its remaining events, and the store's answers in the first."""

    to_do: tuple[str, ...]
    held: Number = NOTHING
    answers: Answers = ()


class State(NamedTuple):
    """A state of the search, as numbers: the stored task, the ended task, the actors."""

    stored: Number
    ended: Number
    """The task when it first ended, also after its deletion."""
    actors: tuple[Number, ...]


@attrs.frozen
class Exploration:
    """The size of an exploration."""

    states: int
    interleavings: int
    """The number of different complete interleavings."""
    ends: int


def explore(script: Script) -> Exploration:
    """Explore all interleavings of a script; raise `Wrong` at the first violation."""
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
        if not orders:  # every actor is done
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
    """Return the stored task, the ended task and the actor after one step; None if it is done."""
    to_do, held, answers = value(actor)
    if not to_do:
        return None
    request = next_request(name, to_do[0], held, answers)
    if isinstance(write := value(request), Commit):
        _check_writer(to_do[0], value(held), value(answers[0]), value(stored), write)
    stored, answers, ended_now = _answered(request, stored, answers)
    if ended_now != NOTHING and ended != NOTHING:
        raise Wrong(f"ended as {value(ended)}, and then as {value(ended_now)}")
    ended = max(ended, ended_now)
    # After a conflict the actor retries; if its next request is the same, the attempt is dropped.
    if answers[-1] == _CONFLICT:
        again = next_request(name, to_do[0], held, answers[:-2])
        answers = answers[:-2] if again == next_request(name, to_do[0], held, answers) else answers
    # No other actor can run between the last answer of the store and the end of an event.
    while to_do:
        last = value(next_request(name, to_do[0], held, answers))
        if not isinstance(last, Done):
            break
        if not _is_explained(to_do[0], last.answer, name, value(ended), stored == NOTHING):
            raise Wrong(f"{name} did {to_do[0]}, got {last.answer}, and {value(ended)}")
        to_do, held, answers = to_do[1:], number(last.held), ()
    return stored, ended, number(Actor(to_do, held, answers))


_CONFLICT: Final = number(CONFLICT)


def _answered(request: Number, stored: Number, answers: Answers) -> tuple[Number, Answers, Number]:
    """Return the stored task after a request, the actor's answers, and the task if it ended."""
    asked = value(request)
    if isinstance(asked, Load):
        return stored, (*answers, stored), NOTHING
    if isinstance(asked, Effect):
        return stored, (*answers, NOTHING), NOTHING
    assert isinstance(asked, Commit), "a finished event makes no request"
    after = committed(value(stored), asked)
    if isinstance(after, Conflict):
        return stored, (*answers, _CONFLICT), NOTHING
    is_queued = bool(asked.entries) and asked.entries[-1].dest == "submitted"
    written = number(Written(asked.task.version, is_queued))
    ended = number(asked.task) if asked.task.state in ENDED else NOTHING
    return number(after), (*answers, written), ended


def committed(stored: Task | None, write: Commit) -> Task | Conflict | None:
    """Apply a write to the real store, check it, and return the stored task."""
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
    """Check that an accepted write is by the worker that holds the task, or based on a read."""
    if stored is None or stored.version != write.expected:
        return
    if event in ("report", "ask", "park", "settle", "fail"):
        allowed = held
    elif event == "recover":
        allowed = seen
    else:
        return
    if allowed is None or (allowed.worker, allowed.fence) != (stored.worker, stored.fence):
        raise Wrong(f"{event} by the holder of {allowed}, but {stored} is stored")


def _check_moves(before: Task, after: Task, entries: tuple[Entry, ...]) -> None:
    """Check that the moves are legal by the specification and without a gap."""
    state, version = str(before.state), before.version
    for entry in entries:
        if entry.source != state or MOVES[state][entry.event] != entry.dest:
            raise Wrong(f"{entry} is not a move of {state}")
        version += 1
        if entry.seq != version:
            raise Wrong(f"{entry} follows version {version - 1}")
        state = str(entry.dest)
    if not entries:  # released while questions are open: a version without an entry
        version += 1
    if (after.state, after.version) != (state, version):
        raise Wrong(f"{after} does not follow from {before} by {entries}")
    if not before.losses <= after.losses <= min(3, before.losses + 1):
        raise Wrong(f"has {after.losses} lost workers after {before.losses}")
    if after.fence != before.fence + sum(entry.event == "start" for entry in entries):
        raise Wrong(f"has the fence {after.fence} after {before.fence} by {entries}")
    for old, new in zip(before.questions, after.questions, strict=False):
        if new != old and not old.is_open:
            raise Wrong(f"had the answer {old.answer} and then {new.answer}")


def _check_record(task: Task) -> None:
    """Check the invariants of a stored task."""
    if bool(task.open_questions) != (task.state == "input_required"):
        raise Wrong(f"is {task.state} with {task.open_questions}")
    if task.state == "working" and task.worker is None:
        raise Wrong("is working without a worker")
    if task.worker is not None and task.state not in ("working", "input_required"):
        raise Wrong(f"is {task.state} and held by {task.worker}")
    if (task.outcome is not None) != (task.state in (*ENDED, "removed")):
        raise Wrong(f"is {task.state} with the outcome {task.outcome}")


def _is_explained(event: str, answer: Any, name: str, ended: Task | None, is_gone: bool) -> bool:
    """Return whether this answer to an event is correct at that moment."""
    outcome = None if ended is None else ended.outcome
    match event:
        case "get" | "answer":
            return isinstance(answer, Task) or (answer == "NotFound" and is_gone)
        case "cancel":  # it has ended, with its final outcome
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
    """Check that recovery, an answer and another worker bring the task to its end."""
    task: Task = value(stored)
    finder = "worker 1" if task.worker == "worker 2" else "worker 2"
    for name, event in (
        (finder, "recover"), ("caller 1", "answer"), ("worker 1", "claim"), ("worker 1", "settle"),
    ):  # fmt: skip
        stored = _alone(name, event, stored if event == "settle" else NOTHING, stored)
    end: Task | None = value(stored)
    if end is None or end.state not in ENDED:
        raise Wrong(f"{task} cannot reach a terminal state, only {end}")


def _alone(name: str, event: str, held: Number, stored: Number) -> Number:
    """Return the stored task after an event without interleaving."""
    answers: Answers = ()
    while not isinstance(value(request := next_request(name, event, held, answers)), Done):
        stored, answers, _ = _answered(request, stored, answers)
    return stored


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never suspends."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("a memory store does not wait")
