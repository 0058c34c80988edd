"""Invariants of tasks, as pure functions over a recorded history.

A history lists moves of the runtime (`Entry`) and the actions and observations of callers, in
the order of recording.  The recorder (a test, a simulation, the conformance tester) passes a
`Lifecycle` that states what is legal.  It comes from `specs/`, never from the table: comparing
the table with itself would always succeed.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeVar

import attrs

from taskmachine.statemachine.table import Event as Move
from taskmachine.statemachine.table import State
from taskmachine.statemachine.task import Entry

__all__ = [
    "INVARIANTS",
    "Answered",
    "Asked",
    "Called",
    "Created",
    "Deferred",
    "Lifecycle",
    "Missed",
    "Progressed",
    "Recorded",
    "Saw",
    "StepRan",
    "Violation",
    "violations",
]

# --- events of a history ---------------------------------------------------------------------


@attrs.frozen
class Created:
    """A caller received the answer that its task exists."""

    at: int
    caller: str
    task_id: str


@attrs.frozen
class Saw:
    """A caller saw a task, by a read or by a notification."""

    at: int
    caller: str
    task_id: str
    status: str
    wire: str
    """The dialect whose lifecycle `status` belongs to."""
    pushed: bool = False
    outcome: Hashable = None
    """Result, error or cancellation in a form that can be compared across wires; None if this
    read or notification did not include it."""


@attrs.frozen
class Progressed:
    """A caller was notified of the progress of a task."""

    at: int
    caller: str
    task_id: str
    wire: str


@attrs.frozen
class Missed:
    """A caller received the answer that there is no such task."""

    at: int
    caller: str
    task_id: str


@attrs.frozen
class Asked:
    """A question of a task was delivered."""

    at: int
    task_id: str
    key: str
    request: Hashable


@attrs.frozen
class Deferred:
    """A task was put into the queue with a time before which no worker may claim it."""

    at: int
    task_id: str
    due_at: int


@attrs.frozen
class StepRan:
    """A run of a tool called the function of a step."""

    at: int
    task_id: str
    key: str
    run: Hashable


@attrs.frozen
class Recorded:
    """That run received the acknowledgement that the step is recorded."""

    at: int
    task_id: str
    key: str
    run: Hashable
    request: Hashable = None


@attrs.frozen
class Called:
    """A caller sent a call that must be answered within `bound_ms`."""

    at: int
    call_id: Hashable
    bound_ms: int


@attrs.frozen
class Answered:
    """A caller received the answer to a call, whether result or error."""

    at: int
    call_id: Hashable


Event = (
    Entry
    | Created
    | Saw
    | Progressed
    | Missed
    | Asked
    | Deferred
    | StepRan
    | Recorded
    | Called
    | Answered
)
History = Sequence[Event]


@attrs.frozen
class Lifecycle:
    """The states and edges that one protocol revision, or the runtime, may show."""

    initial: frozenset[str]
    terminal: frozenset[str]
    edges: frozenset[tuple[str, str]]

    def may_follow(self, before: str, after: str) -> bool:
        """Return True if an observer that polls may see `after` some time after `before`."""
        reached, frontier = {before}, [before]
        while frontier:
            here = frontier.pop()
            for source, dest in self.edges:
                if source == here and dest not in reached:
                    reached.add(dest)
                    frontier.append(dest)
        return after in reached


RUNTIME: Final = "runtime"
"""The key of the lifecycle that `Entry` lines must follow."""

Lifecycles = Mapping[str, Lifecycle]


@attrs.frozen
class Violation:
    """An invariant that does not hold, for which task or call, and why."""

    invariant: str
    subject: Hashable
    why: str


Found = Iterator[tuple[Hashable, str]]

# --- the invariants --------------------------------------------------------------------------


def every_task_walks_one_legal_path(history: History, lifecycles: Lifecycles) -> Found:
    """Moves chain without gaps along legal edges, and each read may follow the previous one."""
    for task_id, moves in _by_task(history, Entry):
        legal = lifecycles[RUNTIME]
        if moves[0].source not in legal.initial:
            yield task_id, f"began in {moves[0].source}"
        for move in moves:
            if move.source != move.dest and (move.source, move.dest) not in legal.edges:
                yield task_id, f"went from {move.source} to {move.dest}"
        for before, after in pairwise(moves):
            if after.source != before.dest or after.seq <= before.seq:
                yield task_id, f"move {after.seq} does not continue move {before.seq}"
    for task_id, seen in _by_task(history, Saw):
        for wire in {look.wire for look in seen}:
            reads = [look.status for look in seen if look.wire == wire and not look.pushed]
            for earlier, later in pairwise(reads):
                if not lifecycles[wire].may_follow(earlier, later):
                    yield task_id, f"was {earlier} and then {later} on {wire}"


def a_created_task_can_be_read_at_once(history: History, _: Lifecycles) -> Found:
    """The first read after the create answer finds the task."""
    waiting: set[tuple[str, str]] = set()
    for event in history:
        match event:
            case Created(caller=caller, task_id=task_id):
                waiting.add((caller, task_id))
            case Missed(caller=caller, task_id=task_id) if (caller, task_id) in waiting:
                yield task_id, f"{caller} created it and could not read it"
            case Saw(caller=caller, task_id=task_id, pushed=False):
                waiting.discard((caller, task_id))
            case _:
                pass


def terminal_states_are_sticky(history: History, lifecycles: Lifecycles) -> Found:
    """After the first terminal observation on a wire, status and outcome never change."""
    for task_id, seen in _by_task(history, Saw):
        ended: dict[str, Saw] = {}
        for look in seen:
            final = ended.get(look.wire, look)
            outcomes = {final.outcome, look.outcome} - {None}
            if final.status != look.status or len(outcomes) > 1:
                yield task_id, f"ended as {final.status}, later {look.status} on {look.wire}"
            elif look.status in lifecycles[look.wire].terminal:
                ended[look.wire] = look if final.outcome is None else final


def no_acknowledged_task_is_lost(history: History, _: Lifecycles) -> Found:
    """The creator of a task finds it until the runtime has removed it."""
    removed: set[str] = set()
    creators: dict[str, str] = {}
    for event in history:
        match event:
            case Created(caller=caller, task_id=task_id):
                creators[task_id] = caller
            case Entry(task_id=task_id, dest=State.REMOVED):
                removed.add(task_id)
            case Missed(caller=caller, task_id=task_id):
                if creators.get(task_id) == caller and task_id not in removed:
                    yield task_id, f"{caller} created it and it was not found"
            case _:
                pass


def every_call_is_answered_within_its_bound(history: History, _: Lifecycles) -> Found:
    """Each call is answered in time, whatever ended the task."""
    answered = {event.call_id: event.at for event in _only(history, Answered)}
    for call in _only(history, Called):
        at = answered.get(call.call_id)
        if at is None:
            yield call.call_id, "was never answered"
        elif at - call.at > call.bound_ms:
            yield call.call_id, f"was answered after {at - call.at} of {call.bound_ms} ms"


def no_caller_sees_a_foreign_task(history: History, _: Lifecycles) -> Found:
    """Only the caller that created a task ever sees it."""
    creators = {event.task_id: event.caller for event in _only(history, Created)}
    for look in _only(history, Saw):
        if creators.get(look.task_id, look.caller) != look.caller:
            yield look.task_id, f"belongs to {creators[look.task_id]}, {look.caller} saw it"


def a_key_names_one_request_for_life(history: History, _: Lifecycles) -> Found:
    """Each key of a task belongs to one question only, or to one step."""
    requests: dict[tuple[type, str, str], Hashable] = {}
    for event in history:
        if isinstance(event, Asked | Recorded):
            key = (type(event), event.task_id, event.key)
            if requests.setdefault(key, event.request) != event.request:
                yield event.task_id, f"used the key '{event.key}' for two different requests"


def a_recorded_step_is_run_to_an_acknowledged_end_once(history: History, _: Lifecycles) -> Found:
    """One run records a step; only one that has lost the task calls it again, to no effect."""
    recorded_by: dict[tuple[str, str], Hashable] = {}
    lost: dict[tuple[str, Hashable], str] = {}
    for event in history:
        match event:
            case StepRan(task_id=task_id, key=key, run=run) if (task_id, key) in recorded_by:
                if recorded_by[task_id, key] == run:
                    yield task_id, f"called the function of the step '{key}' twice in one run"
                lost[task_id, run] = key
            case Recorded(task_id=task_id, key=key, run=run):
                if recorded_by.setdefault((task_id, key), run) != run:
                    yield task_id, f"recorded the step '{key}' in two runs"
                elif (task_id, run) in lost:
                    again = lost[task_id, run]
                    yield task_id, f"called the recorded step '{again}' again and recorded '{key}'"
            case _:
                pass


def no_task_starts_before_it_is_due(history: History, _: Lifecycles) -> Found:
    """A worker claims a deferred task at its time or later."""
    due: dict[str, int] = {}
    for event in history:
        match event:
            case Deferred(task_id=task_id, due_at=due_at):
                due[task_id] = due_at
            case Entry(task_id=task_id, event=Move.START, at=at):
                due_at = due.pop(task_id, at)
                if at < due_at:
                    yield task_id, f"started {due_at - at} ms before its time"
            case _:
                pass


def live_work_is_never_deleted(history: History, lifecycles: Lifecycles) -> Found:
    """Only finished tasks are removed: a live task expires first."""
    for move in _only(history, Entry):
        if move.dest is State.REMOVED and move.source not in lifecycles[RUNTIME].terminal:
            yield move.task_id, f"was removed while {move.source}"


def notifications_agree_with_later_reads_and_end_with_the_task(
    history: History, lifecycles: Lifecycles
) -> Found:
    """Each read may follow the last notification; a terminal status is notified last."""
    for task_id, seen in _by_task(history, Saw):
        last_push: dict[tuple[str, str], Saw] = {}
        for look in seen:
            push = last_push.get((look.caller, look.wire))
            legal = lifecycles[look.wire]
            if push is not None and look.pushed and push.status in legal.terminal:
                yield task_id, f"pushed {look.status} after {push.status} on {look.wire}"
            elif push is not None and not legal.may_follow(push.status, look.status):
                yield task_id, f"pushed {push.status}, then shown as {look.status} on {look.wire}"
            if look.pushed:
                last_push[look.caller, look.wire] = look


def progress_halts(history: History, lifecycles: Lifecycles) -> Found:
    """No progress is notified after a task has ended or its terminal status was notified."""
    ended: set[Hashable] = set()
    for event in history:
        match event:
            case Entry(task_id=task_id, dest=dest) if dest in lifecycles[RUNTIME].terminal:
                ended.add(task_id)
            case Saw(_, caller, task_id, status, wire, True) if status in lifecycles[wire].terminal:
                ended.add((caller, task_id, wire))
            case Progressed(caller=caller, task_id=task_id, wire=wire):
                if task_id in ended or (caller, task_id, wire) in ended:
                    yield task_id, f"made progress on {wire} after its end"
            case _:
                pass


def every_wire_reports_the_same_outcome(history: History, _: Lifecycles) -> Found:
    """Every caller sees the same result, error or cancellation in every dialect."""
    for task_id, seen in _by_task(history, Saw):
        outcomes = {look.outcome for look in seen if look.outcome is not None}
        if len(outcomes) > 1:
            yield task_id, f"has {len(outcomes)} different outcomes"


Invariant = Callable[[History, Lifecycles], Found]

INVARIANTS: Final[tuple[Invariant, ...]] = (
    every_task_walks_one_legal_path,
    a_created_task_can_be_read_at_once,
    terminal_states_are_sticky,
    no_acknowledged_task_is_lost,
    every_call_is_answered_within_its_bound,
    no_caller_sees_a_foreign_task,
    a_key_names_one_request_for_life,
    a_recorded_step_is_run_to_an_acknowledged_end_once,
    no_task_starts_before_it_is_due,
    live_work_is_never_deleted,
    notifications_agree_with_later_reads_and_end_with_the_task,
    progress_halts,
    every_wire_reports_the_same_outcome,
)
"""Every invariant."""


def violations(
    history: History, lifecycles: Lifecycles, invariants: Iterable[Invariant] = INVARIANTS
) -> list[Violation]:
    """Return every violation in a history."""
    return [
        Violation(getattr(invariant, "__name__", repr(invariant)), subject, why)
        for invariant in invariants
        for subject, why in invariant(history, lifecycles)
    ]


_E = TypeVar("_E", Created, Saw, Called, Answered, Entry)


def _only(history: History, kind: type[_E]) -> list[_E]:
    return [event for event in history if isinstance(event, kind)]


_T = TypeVar("_T", Entry, Saw)


def _by_task(history: History, kind: type[_T]) -> list[tuple[str, list[_T]]]:
    groups: dict[str, list[_T]] = {}
    for event in history:
        if isinstance(event, kind):
            groups.setdefault(event.task_id, []).append(event)
    return list(groups.items())
