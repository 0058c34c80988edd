"""Stores keep tasks: their interface, and how one is found by its URL.

A store never moves a task by itself.  The runtime loads a task, lets the table decide, and commits
the next version on condition that the stored version is still the loaded one.  `testing.contract`
is the test kit for authors of stores.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import Final, Protocol

import attrs

from taskmachine.protocol.sealing import Position
from taskmachine.statemachine import (
    ConfigurationError,
    Entry,
    Event,
    LimitExceeded,
    Task,
    TaskmachineError,
)

__all__ = [
    "MAX_REPORTS",
    "Caps",
    "Conflict",
    "Follower",
    "KeptSession",
    "Schema",
    "Store",
    "StoreError",
    "Totals",
    "Worker",
    "check_caps",
    "check_sessions",
    "check_url",
    "find_schema",
    "is_kept",
    "open_store",
    "without_password",
]

MAX_REPORTS: Final = 1_000
"""Highest version whose `report` has a line in the history; other events always have one."""


class StoreError(TaskmachineError):
    """The store failed: a damaged file, a full disk, an unreachable database.

    A write that fails may have been committed or not.
    """


class Conflict(TaskmachineError):
    """The stored task is not the expected version: another writer moved it first."""


@attrs.frozen
class Caps:
    """Maximum numbers of live (unfinished) and retained (stored) tasks."""

    live_of_owner: int = 250
    live: int = 1_000
    retained_of_owner: int = 10_000
    retained: int = 100_000


@attrs.frozen
class Totals:
    """Numbers of tasks of all owners and processes."""

    live: int
    waiting: int
    """Live tasks that wait for an answer (`input_required`)."""
    retained: int


@attrs.frozen
class Worker:
    """A registered worker, which sends heartbeats while it is alive."""

    id: str
    host: str
    """The machine or container in which `pid` is valid."""
    pid: int
    beat: int = 0


@attrs.frozen
class KeptSession:
    """A session of a transport, as stored."""

    key: str
    """A digest of the session id, so that a copy of the store reveals no session."""
    body: bytes
    until: int
    """When it may be removed, in milliseconds since the epoch."""


@attrs.frozen
class Schema:
    """The schema version of a store, and the version that this program migrates it to."""

    found: int
    """0 if the store is empty."""
    known: int


Follower = Callable[[Task | None], None]
"""Called with each new version of a task, and with None when the task is removed."""


class Store(Protocol):
    """The store interface that runtime and transports use.

    Every method may raise `StoreError`.
    """

    @property
    def kind(self) -> str:
        """The kind of the store, which is the scheme of its URL."""

    async def create(self, task: Task, entries: Sequence[Entry], caps: Caps) -> Task:
        """Store a new task, or return the one of the same owner, method, name and key.

        `LimitExceeded` if a cap is reached, `Conflict` if the id exists.  Checking and storing are
        one atomic step.
        """

    async def load(self, task_id: str) -> Task | None:
        """Return the task as last committed by any process, or None."""

    async def commit(self, task: Task, entries: Sequence[Entry], expected: int) -> None:
        """Replace version `expected` by `task` and append to its history, durably.

        `Conflict` if another version is stored, or none.  A task in state `removed` is deleted
        together with its history and messages.
        """

    def follow(self, task_id: str, follower: Follower) -> Callable[[], None]:
        """Call `follower` with each new version of a task, and with None when it is deleted.

        Calling the returned function ends this.  Creation is a version.  Commits through this
        store are passed on in order before `commit` returns; those of other processes within half
        a second, perhaps only the last of several.  No follower gets an older version after a newer
        one.  An exception of a follower is logged and does not affect other followers.
        """

    async def page(self, owner: str, after: Position | None, limit: int) -> Sequence[Task]:
        """Return the tasks of an owner, newest first by (created_at, id), after a position."""

    async def browse(self, after: Position | None, limit: int) -> Sequence[Task]:
        """Return the tasks of all owners like `page`, for operators."""

    async def queued(self, now: int, limit: int) -> Sequence[Task]:
        """Return tasks that a worker may claim at `now` (`is_queued`, and due).

        Tasks without `due_at` come first, the oldest first by (created_at, id), then the others by
        (due_at, id).
        """

    async def due(self, now: int, limit: int) -> Sequence[Task]:
        """Return the tasks of `queued` that have a `due_at`, in the same order."""

    async def held(self, worker: str, limit: int) -> Sequence[Task]:
        """Return live tasks that this worker holds, in any order."""

    async def orphans(self, limit: int) -> Sequence[Task]:
        """Return live tasks held by workers that are not registered, in any order."""

    async def overdue(self, now: int, limit: int) -> Sequence[Task]:
        """Return live tasks whose deadline is not after `now`, the most overdue first."""

    async def forgettable(self, now: int, limit: int) -> Sequence[Task]:
        """Return finished tasks whose deadline is not after `now`, the most overdue first."""

    async def totals(self) -> Totals:
        """Return the numbers of tasks, which are maintained incrementally and cheap to read."""

    async def history(self, task_id: str) -> Sequence[Entry]:
        """Return the history of a task, oldest entry first; empty if there is no such task.

        Entries that `is_kept` refuses are omitted.
        """

    async def register_worker(self, worker: Worker) -> None:
        """Register a worker, or replace the one of the same id."""

    async def beat(self, worker_id: str) -> bool:
        """Record a heartbeat; return False if the worker is not registered.  Touches no task."""

    async def remove_worker(self, worker_id: str) -> None:
        """Remove a worker, which has stopped or is considered dead."""

    async def workers(self) -> Sequence[Worker]:
        """Return all registered workers."""

    async def enqueue(self, task_id: str, message: bytes, maximum: int) -> int:
        """Append a message of a task; return how many of the oldest were dropped.

        Messages of a task that does not exist are ignored.
        """

    async def dequeue(self, task_id: str, limit: int) -> Sequence[bytes]:
        """Remove and return up to `limit` messages of a task, oldest first."""

    async def keep_session(self, session: KeptSession, maximum: int) -> None:
        """Store a session durably, or replace the one of the same key.

        `LimitExceeded` if it is new and `maximum` are stored, including expired ones that were not
        removed yet.  Checking and storing are one atomic step.
        """

    async def session(self, key: str) -> KeptSession | None:
        """Return the session as last stored by any process, even if it has expired."""

    async def end_session(self, key: str) -> None:
        """Remove a session if it exists."""

    async def forget_sessions(self, now: int, limit: int) -> int:
        """Remove up to `limit` sessions whose `until` is not after `now`; return how many.

        The most overdue go first, by (until, key).
        """

    async def secret(self) -> bytes:
        """Return the secret of the store: 32 random bytes that are made with it."""

    async def adopt_secret(self, secret: bytes) -> None:
        """Adopt the secret of another store whose tasks will be adopted.

        `Conflict` if there are tasks, as tokens sealed for them could not be opened any more.
        """

    def export(self) -> AsyncIterator[tuple[Task, Sequence[Entry]]]:
        """Yield every task with its history, both of the same instant, in any order.

        Another store can `adopt` them.  Messages, workers and sessions belong to running processes
        and are not exported; clients must begin new sessions.
        """

    async def adopt(self, task: Task, entries: Sequence[Entry]) -> None:
        """Store an exported task unchanged, ignoring the caps.

        `Conflict` if the id exists or the owner's key is in use.
        """

    async def close(self) -> None:
        """Release all resources.  Acknowledged writes are durable.

        Every other method then raises `StoreError`; closing again has no effect.
        """


def check_caps(
    caps: Caps, live_of_owner: int, live: int, retained_of_owner: int, retained: int
) -> None:
    """Raise `LimitExceeded` if another task would exceed a cap.

    Clients should retry sooner for live tasks than for retained ones, which stay until their ttl.
    """
    for name, there, cap, retry_after_ms in (
        ("unfinished tasks of this caller", live_of_owner, caps.live_of_owner, 1_000),
        ("unfinished tasks", live, caps.live, 1_000),
        ("stored tasks of this caller", retained_of_owner, caps.retained_of_owner, 60_000),
        ("stored tasks", retained, caps.retained, 60_000),
    ):
        if there >= cap:
            raise LimitExceeded(f"{cap} {name}", retry_after_ms)


def check_sessions(there: int, maximum: int) -> None:
    """Raise `LimitExceeded` if another session would exceed the maximum."""
    if there >= maximum:
        raise LimitExceeded(f"{maximum} sessions", 60_000)


def is_kept(entry: Entry) -> bool:
    """Return True if the history keeps this entry.

    Only reports of tools are unbounded, so only they are limited.  A report with a note says that a
    worker released the task; one with data is a recorded step, and the runtime limits their number.
    """
    is_of_tool = entry.event is Event.REPORT and entry.note is None and entry.data is None
    return not is_of_tool or entry.seq <= MAX_REPORTS


async def open_store(url: str) -> Store:
    """Open the store of a URL: `memory:`, `sqlite:PATH`, `postgresql://...`, or another kind.

    Packages register stores under the entry point group `taskmachine.stores`: the name is the
    scheme, the value an async function that takes the URL.
    """
    store: Store = await _known(url).load()(url)
    return store


def check_url(url: str) -> None:
    """Raise `ConfigurationError` if no store supports the scheme of the URL."""
    _known(url)


async def find_schema(url: str) -> Schema | None:
    """Return the schema versions of a store without opening it; None if its kind has no schema.

    `ConfigurationError` if opening would refuse the store.  Packages register such functions under
    the entry point group `taskmachine.schemas`, like stores.
    """
    point = _points("taskmachine.schemas").get(_known(url).name)
    if point is None:
        return None
    schema: Schema = await point.load()(url)
    return schema


def without_password(url: str) -> str:
    """Return the URL of a store without user and password, for messages."""
    url = re.sub(r"//.*@", "//", url)
    return re.sub(r"(?<=[?&]password=)[^&#]*", "...", url)


def _known(url: str) -> EntryPoint:
    scheme, colon, _ = url.partition(":")
    known = _points("taskmachine.stores")
    if not colon or scheme not in known:
        raise ConfigurationError(f"no store for '{without_password(url)}': {_hint(url, known)}")
    return known[scheme]


def _hint(url: str, known: Iterable[str]) -> str:
    """Return what to write instead of a URL without a known scheme."""
    scheme, colon, rest = url.partition(":")
    nearest = get_close_matches(scheme, known, 1, 0.75)
    if nearest and (colon or nearest == ["memory"]):
        return f"did you mean {without_password(f'{nearest[0]}:{rest}')}?"
    if url and not colon:
        return f"did you mean sqlite:{url}?"
    return f"the scheme must be one of {', '.join(sorted(known))}"


def _points(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}
