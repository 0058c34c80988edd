"""Rules about tasks that both revisions share.

Each function takes a history and yields observations. Nothing is registered here: the modules of
each revision register them under their own ids.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from itertools import accumulate, islice, pairwise
from typing import Any, Final

import attrs

from taskmachine.adapters.conformance.history import Entry, Exchange, History, Sighting
from taskmachine.adapters.conformance.judging import Observation, bad, good, note, warning
from taskmachine.specs import load_lifecycle

__all__ = [
    "TaskRecord",
    "Timestamp",
    "created_at_constant",
    "distinct_sightings",
    "fields_present",
    "ids_are_strings",
    "ids_unguessable",
    "ids_unique",
    "last_updated_at_in_order",
    "optional_string",
    "reachable_statuses",
    "statuses_known",
    "task_record",
    "task_records",
    "terminal_final",
    "timestamps",
    "transitions_from",
]

ENOUGH_BITS: Final = 64
"""Minimum entropy of a task id in bits: shorter ids can be guessed, however random."""

_SLACK_MS: Final = 100.0
_FRACTION: Final = re.compile(r":\d\d[.,](\d+)")
_LEAP: Final = re.compile(r"(:\d\d):60")
_CLOCK_UUID: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[126][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE
)


# --- moments -------------------------------------------------------------------------------------


@attrs.frozen
class Timestamp:
    """A timestamp of the target: milliseconds and its precision."""

    ms: float
    step_ms: float

    @classmethod
    def parse(cls, value: Any) -> "Timestamp | None":
        """Parse ISO 8601, as UTC without a zone; return None for anything else."""
        if not isinstance(value, str):
            return None
        try:
            moment = datetime.fromisoformat(_LEAP.sub(r"\1:59", value.strip().upper()))
        except ValueError:
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        fraction = _FRACTION.search(value)
        return cls(moment.timestamp() * 1000, 1000.0 * 10 ** -len(fraction[1]) if fraction else 1e3)

    def is_before(self, other: "Timestamp") -> bool:
        """Return whether it is certainly earlier, given the coarser of the two precisions."""
        # Half a microsecond for rounding errors of floating point.
        return other.ms - self.ms >= max(self.step_ms, other.step_ms, 0.001) - 0.0005


# --- records of tasks -----------------------------------------------------------------------------


@attrs.frozen(eq=False)
class TaskRecord:
    """All observed states of one task, in the order received."""

    id: str
    sightings: Sequence[Sighting]

    @property
    def created(self) -> Sighting | None:
        """Return the state in the response that created the task."""
        return next((s for s in self.sightings if s.where == "create"), None)

    def ended_before(self, entry: Entry) -> Sighting | None:
        """Return the first terminal state if it was received before the entry."""
        return next(
            (s for s in self.sightings if s.is_terminal and s.entry.number < entry.number), None
        )

    def transitions(self) -> Sequence[tuple[Sighting, Sighting]]:
        """Return pairs in a certain order with nothing certainly between; states may be equal."""
        return self._transitions

    @cached_property
    def _transitions(self) -> list[tuple[Sighting, Sighting]]:
        received = [s.entry.number for s in self.sightings]
        asked = [-1 if s.exchange is None else s.exchange.request.number for s in self.sightings]
        latest = [-1, *accumulate(asked, max)]
        pairs = []
        for index, later in enumerate(self.sightings):
            if later.exchange is None:
                notices = (s for s in reversed(self.sightings[:index]) if s.precedes(later))
                before = list(islice(notices, 1))
            else:
                known = bisect_left(received, later.exchange.request.number)
                # A state received before another one of these was requested precedes that one.
                before = list(self.sightings[bisect_left(received, latest[known]) : known])
            pairs += [(earlier, later) for earlier in before]
        return pairs


def task_records(history: History) -> Iterable[TaskRecord]:
    """Return the tasks that can be distinguished.

    Over stdio each process has its own ids. An id given to two tasks is left out, since it is
    unknown which of them is shown (`ids_unique` reports it).
    """
    return _task_records(history).values()


def task_record(history: History, task_id: Any, seen_by: Entry) -> TaskRecord | None:
    """Return the task with that id on the connection of the entry."""
    if not isinstance(task_id, str):
        return None
    return _task_records(history).get((_receiver(history, seen_by), task_id))


@lru_cache(maxsize=8)
def _task_records(history: History) -> dict[tuple[int | None, str], TaskRecord]:
    found: dict[tuple[int | None, str], list[Sighting]] = {}
    for sighting in history.sightings:
        if isinstance(sighting.id, str):
            found.setdefault((_receiver(history, sighting.entry), sighting.id), []).append(sighting)
    return {
        key: TaskRecord(key[1], seen)
        for key, seen in found.items()
        if sum(s.where == "create" for s in seen) < 2
    }


def distinct_sightings(history: History) -> Iterator[Sighting]:
    """Yield each observed task state that differs from the previous one at the same place.

    Rules about single fields need no more than that.
    """
    last: dict[Any, str] = {}
    for sighting in history.sightings:
        key = (sighting.where, _receiver(history, sighting.entry), repr(sighting.id))
        said = repr(sighting.task)
        if last.get(key) != said:
            last[key] = said
            yield sighting


def _receiver(history: History, entry: Entry) -> int | None:
    return entry.line if history.transport == "stdio" else None


# --- status --------------------------------------------------------------------------------------


@lru_cache
def reachable_statuses(revision: str) -> dict[str, frozenset[str]]:
    """Return the statuses a polling client may see after each status, skipped ones included."""
    generation = load_lifecycle()["generation"][revision]
    reached = {status: {status} for status in generation["statuses"]}
    for _ in reached:
        for source, destination in generation["edges"]:
            for status in reached:
                if source in reached[status]:
                    reached[status].add(destination)
    return {status: frozenset(others) for status, others in reached.items()}


def statuses_known(history: History) -> Iterator[Observation]:
    """Check that the target shows only the five statuses."""
    known = reachable_statuses(history.revision)
    for sighting in distinct_sightings(history):
        if "status" not in sighting.task:
            continue
        if isinstance(sighting.status, str) and sighting.status in known:
            yield good(sighting)
        else:
            words = f"the status is {sighting.status!r}, which is not one of the five task statuses"
            yield bad(words, sighting)


def transitions_from(history: History, source: str) -> Iterator[Observation]:
    """Check that every status seen after `source` is reachable from it."""
    allowed = reachable_statuses(history.revision)[source]
    for record in task_records(history):
        for earlier, later in record.transitions():
            if earlier.status != source or later.status == source or "status" not in later.task:
                continue
            if isinstance(later.status, str) and later.status in allowed:
                yield good(earlier, later)
            else:
                words = f"{source!r} was followed by {later.status!r}, which is not allowed"
                yield bad(words, earlier, later)


def terminal_final(history: History, statuses: tuple[str, ...] = ()) -> Iterator[Observation]:
    """Check that a terminal status does not change; with `statuses`, only for those.

    Two different terminal statuses contradict each other in whatever order they were seen.
    """
    for record in task_records(history):
        ends = [sighting for sighting in record.sightings if sighting.is_terminal]
        for later in record.sightings if ends else ():
            earlier = next((end for end in ends if _is_end_before(end, later)), None)
            if earlier is None or (statuses and earlier.status not in statuses):
                continue
            if statuses and not earlier.precedes(later):
                continue  # they contradict each other, but which of them changed is unknown
            if earlier.status == later.status:
                yield good(earlier, later)
            elif "status" in later.task:
                words = f"the terminal status {earlier.status!r} was followed by {later.status!r}"
                yield bad(words, earlier, later)


def _is_end_before(end: Sighting, other: Sighting) -> bool:
    if end is other:
        return False
    contradicts = other.is_terminal and end.status != other.status
    return end.precedes(other) or (contradicts and end.entry.number < other.entry.number)


# --- times ---------------------------------------------------------------------------------------


def timestamps(history: History, field: str) -> Iterator[Observation]:
    """Check that the field is present and ISO 8601 wherever a task is shown."""
    for sighting in distinct_sightings(history):
        value = sighting.task.get(field)
        if field not in sighting.task:
            yield bad(f"the task in a {sighting.where!r} message has no {field!r}", sighting)
        elif Timestamp.parse(value) is None:
            yield bad(f"{field!r} is {value!r}, which is not an ISO 8601 timestamp", sighting)
        else:
            yield good(sighting)


def created_at_constant(history: History) -> Iterator[Observation]:
    """Check that the creation time of a task stays the same, at whatever precision."""
    for record in task_records(history):
        seen = [(s, Timestamp.parse(s.task.get("createdAt"))) for s in record.sightings]
        parse = [(sighting, moment) for sighting, moment in seen if moment is not None]
        if len(parse) < 2:
            continue
        first, began = parse[0]
        other = next((s for s, m in parse[1:] if m.is_before(began) or began.is_before(m)), None)
        if other is None:
            yield good(first, parse[-1][0])
        else:
            values = f"{first.task['createdAt']!r}, then {other.task['createdAt']!r}"
            yield bad(f"'createdAt' changed from {values}", first, other)


def last_updated_at_in_order(history: History) -> Iterator[Observation]:
    """Check that `lastUpdatedAt` is not before `createdAt`, never decreases and follows the status.

    A change of `lastUpdatedAt` alone is a warning for a terminal task, whose status cannot have
    been updated, and otherwise a note.
    """
    for sighting in distinct_sightings(history):
        created, updated = (
            Timestamp.parse(sighting.task.get(f)) for f in ("createdAt", "lastUpdatedAt")
        )
        if created is not None and updated is not None and updated.is_before(created):
            yield bad("'lastUpdatedAt' is earlier than 'createdAt'", sighting)
    for record in task_records(history):
        for earlier, later in record.transitions():
            yield from _updates(record, earlier, later)


def _updates(record: TaskRecord, earlier: Sighting, later: Sighting) -> Iterator[Observation]:
    before, after = (Timestamp.parse(s.task.get("lastUpdatedAt")) for s in (earlier, later))
    if before is None or after is None:
        return
    if after.is_before(before):
        values = f"{earlier.task['lastUpdatedAt']!r} to {later.task['lastUpdatedAt']!r}"
        yield bad(f"'lastUpdatedAt' decreased from {values}", earlier, later)
    elif before.is_before(after) and _is_same(earlier, later):
        finding = warning if later.is_terminal else note
        yield finding("'lastUpdatedAt' changed although nothing else did", earlier, later)
    elif earlier.status != later.status and _was_updated_long_before(record, earlier, later):
        words = f"'lastUpdatedAt' did not change when {earlier.status!r} became {later.status!r}"
        yield bad(words, earlier, later)
    else:
        yield good(earlier, later)


def _is_same(earlier: Sighting, later: Sighting) -> bool:
    if "notification" in (earlier.where, later.where) or "list" in (earlier.where, later.where):
        return False  # They may contain less.
    one, other = ({k: v for k, v in s.task.items() if k not in _BESIDE} for s in (earlier, later))
    return one == other


_BESIDE: Final = frozenset({"lastUpdatedAt", "resultType", "_meta"})
"""Fields that are not part of the task's state."""


def _was_updated_long_before(record: TaskRecord, earlier: Sighting, later: Sighting) -> bool:
    """Return whether the same `lastUpdatedAt` was shown well before the status can have changed."""
    value = later.task["lastUpdatedAt"]
    moment = Timestamp.parse(value)
    first = next((s for s in record.sightings if s.task.get("lastUpdatedAt") == value), None)
    if moment is None or first is None or earlier.exchange is None:
        return False
    return first.until + moment.step_ms + _SLACK_MS < earlier.since


# --- ids -----------------------------------------------------------------------------------------


def ids_are_strings(history: History) -> Iterator[Observation]:
    """Check that every task id is a non-empty string."""
    for sighting in distinct_sightings(history):
        if "taskId" not in sighting.task:
            continue
        if isinstance(sighting.id, str) and sighting.id:
            yield good(sighting)
        else:
            yield bad(f"the task id is {sighting.id!r}, not a non-empty string", sighting)


def ids_unique(history: History) -> Iterator[Observation]:
    """Check that no two creating responses of one receiver name the same task."""
    first: dict[tuple[Any, Any], Exchange] = {}
    for sighting in history.sightings:
        if sighting.where != "create" or sighting.exchange is None:
            continue
        key = _receiver(history, sighting.entry), repr(sighting.id)
        earlier = first.setdefault(key, sighting.exchange)
        if earlier is not sighting.exchange:
            yield bad(f"two tasks have the same id {sighting.id!r}", earlier, sighting)
        elif len(first) > 1:
            yield good(sighting)


def ids_unguessable(history: History) -> Iterator[Observation]:
    """Check that ids have enough entropy and are not sequential.

    Only a warning where the creating caller has credentials: then the task can be bound to them.
    """
    made = [s for s in history.sightings if s.where == "create" and _is_chosen_by_target(s)]
    if not made:
        return
    words = _weakness(sorted({s.id for s in made}, key=[s.id for s in made].index))
    is_bound = all(history.principals.get(s.entry.caller) is not None for s in made)
    if words is None:
        yield good(made[0])
    else:
        finding: Callable[..., Observation] = warning if is_bound else bad
        yield finding(words, *made[:3])


def _is_chosen_by_target(sighting: Sighting) -> bool:
    asked = {} if sighting.exchange is None else sighting.exchange.params.get("task")
    proposed = asked.get("taskId") if isinstance(asked, dict) else None
    return isinstance(sighting.id, str) and sighting.id != proposed


def _weakness(ids: Sequence[str]) -> str | None:
    """Return what makes these ids guessable, given in order of creation; None if nothing does."""
    example = ", ".join(repr(id) for id in ids[:3])
    if any(_CLOCK_UUID.fullmatch(id) for id in ids):
        return f"task ids are derived from the time: {example}"
    numbers = [_number(id, ids) for id in ids]
    steps = [b - a for a, b in pairwise(numbers) if a is not None and b is not None]
    if len(steps) >= 2 and len(steps) == len(ids) - 1 and all(0 < s <= 1000 for s in steps):
        return f"task ids are sequential: {example}"
    bits = _bits(ids)
    if bits < ENOUGH_BITS:
        return f"task ids differ in no more than {bits:.0f} bits: {example}"
    return None


def _varying(ids: Sequence[str]) -> list[str]:
    """Return the ids without their common prefix."""
    if len(ids) < 2:
        return list(ids)
    shared = 0
    while all(shared < len(id) and id[shared] == ids[0][shared] for id in ids):
        shared += 1
    return [id[shared:] for id in ids]


def _number(id: str, ids: Sequence[str]) -> int | None:
    """Return the number at the end of an id, if the ids differ only there."""
    ending = re.search(r"\d+$", id)
    if ending is None or len({re.sub(r"\d+$", "", other) for other in ids}) > 1:
        return None
    return int(ending[0]) if len(ending[0]) < 100 else None


def _bits(ids: Sequence[str]) -> float:
    """Return the maximum number of bits the ids could carry."""
    endings = _varying(ids)
    longest = max(len(ending) for ending in endings)
    varying = longest
    if len(ids) > 3 and len({len(ending) for ending in endings}) == 1:
        varying = sum(len(set(letters)) > 1 for letters in zip(*endings, strict=True))
    letters = set("".join(endings))
    alphabet = next(
        (
            size
            for size, known in (
                (10, "0123456789-_"),
                (16, "0123456789abcdefABCDEF-_"),
                (36, "0123456789abcdefghijklmnopqrstuvwxyz-_"),
                (36, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-_"),
            )
            if letters <= set(known)
        ),
        64,
    )
    return varying * math.log2(alphabet)


# --- fields --------------------------------------------------------------------------------------


def fields_present(history: History, names: Sequence[str]) -> Iterator[Observation]:
    """Check that a task has all of these fields wherever it is shown."""
    for sighting in distinct_sightings(history):
        missing = [name for name in names if name not in sighting.task]
        if missing:
            words = ", ".join(repr(name) for name in missing)
            yield bad(f"the task in a {sighting.where!r} message has no {words}", sighting)
        else:
            yield good(sighting)


def optional_string(history: History, name: str) -> Iterator[Observation]:
    """Check that the field is a string or absent."""
    for sighting in distinct_sightings(history):
        if name not in sighting.task:
            continue
        if isinstance(sighting.task[name], str):
            yield good(sighting)
        else:
            yield bad(f"{name!r} is {sighting.task[name]!r}, not a string", sighting)
