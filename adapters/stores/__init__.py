"""Where tasks are kept: the contract that every store fulfils, and how one is found by its URL.

A store moves nothing by itself.  Whoever wants a task to move loads it, lets the table decide,
and commits the next version on condition that the stored one is still the one that was loaded.
`contract` is the test kit for whoever writes a store.
"""

import re
from collections.abc import AsyncIterator, Callable, Sequence
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
"""Versions up to which each `report` has a line in the history; every other event always has."""


class StoreError(TaskmachineError):
    """The store could not do it: the file is damaged, the disk is full, the peer is gone.

    Whether a write was made before it failed is unknown.
    """


class Conflict(TaskmachineError):
    """The stored task is not the version that was expected: somebody else moved it first."""


@attrs.frozen
class Caps:
    """How many tasks there may be, live (not ended) and retained (all that are stored)."""

    live_of_owner: int = 1_000
    live: int = 1_000
    retained_of_owner: int = 10_000
    retained: int = 100_000


@attrs.frozen
class Totals:
    """How many tasks there are, of all owners and by whatever process."""

    live: int
    waiting: int
    """Of the live ones, those that wait for an answer (`input_required`)."""
    retained: int


@attrs.frozen
class Worker:
    """A process that works on tasks.  It beats for as long as it lives."""

    id: str
    host: str
    """Names the machine, or the container, in which `pid` means something."""
    pid: int
    beat: int = 0


@attrs.frozen
class KeptSession:
    """What a transport remembers of a conversation."""

    key: str
    """Names it: a digest of the session id, so that a copy of the store opens no session."""
    body: bytes
    until: int
    """Milliseconds since the epoch: when it may be forgotten."""


@attrs.frozen
class Schema:
    """Which version of its tables a store has, and which one this program would make of them."""

    found: int
    """0 if there is nothing yet."""
    known: int


Follower = Callable[[Task | None], None]
"""Is called with each new version of a task, and with None when there is no such task any more."""


class Store(Protocol):
    """What the runtime and the transports need of a store.

    Every method may raise `StoreError`.
    """

    @property
    def kind(self) -> str:
        """What stores of its kind are called where they are compared: the scheme of the URL."""

    async def create(self, task: Task, entries: Sequence[Entry], caps: Caps) -> Task:
        """Store a new task, unless its owner has one for the same method, name and key.

        That one is returned then, as it is now.  `LimitExceeded` if a cap is reached, `Conflict`
        if the id is known.  Checking and storing are one atomic step.
        """

    async def load(self, task_id: str) -> Task | None:
        """The task as it was last committed, by whatever process."""

    async def commit(self, task: Task, entries: Sequence[Entry], expected: int) -> None:
        """Replace version `expected` by `task` and append to its history, durably.

        `Conflict` if another version is stored, or none.  A task in state `removed` is deleted
        with all that belongs to it.
        """

    def follow(self, task_id: str, follower: Follower) -> Callable[[], None]:
        """Call `follower` with each new version that becomes known, and with None when the task
        is deleted, until the returned function is called.

        Creation is a version.  Each commit made through this store is passed on, in order, before
        `commit` returns; those of other processes within half a second, perhaps only the last
        of several.  No follower gets an older version after a newer one.  An exception of a
        follower is logged and does not reach the others.
        """

    async def page(self, owner: str, after: Position | None, limit: int) -> Sequence[Task]:
        """The tasks of an owner, newest first by (created_at, id), after a position."""

    async def browse(self, after: Position | None, limit: int) -> Sequence[Task]:
        """The tasks of all owners, like `page`: for operators."""

    async def queued(self, limit: int) -> Sequence[Task]:
        """Tasks that a worker may claim (`is_queued`), oldest first by (created_at, id)."""

    async def held(self, worker: str, limit: int) -> Sequence[Task]:
        """Live tasks that this worker has, in any order."""

    async def orphans(self, limit: int) -> Sequence[Task]:
        """Live tasks of workers that are not enlisted (any more), in any order."""

    async def overdue(self, now: int, limit: int) -> Sequence[Task]:
        """Live tasks whose deadline is not after `now`, the most overdue first."""

    async def forgettable(self, now: int, limit: int) -> Sequence[Task]:
        """Ended tasks whose deadline is not after `now`, the most overdue first."""

    async def totals(self) -> Totals:
        """How many tasks there are: counted as they come and go, so asking costs little."""

    async def history(self, task_id: str) -> Sequence[Entry]:
        """What happened to a task, oldest first; empty if there is none.

        Lines that `is_kept` refuses are left out.
        """

    async def enlist(self, worker: Worker) -> None:
        """A worker begins to beat; one of the same id is replaced."""

    async def beat(self, worker_id: str) -> bool:
        """Count the beat of a worker; False if it has been struck off.  Touches no task."""

    async def strike(self, worker_id: str) -> None:
        """Strike a worker off: it ended, or is believed to be dead."""

    async def workers(self) -> Sequence[Worker]:
        """All that are enlisted."""

    async def enqueue(self, task_id: str, message: bytes, maximum: int) -> int:
        """Append to the messages of a task; how many of the oldest were dropped for it.

        Nothing is kept for a task that does not exist.
        """

    async def dequeue(self, task_id: str, limit: int) -> Sequence[bytes]:
        """Take up to so many messages of a task, oldest first."""

    async def keep_session(self, session: KeptSession, maximum: int) -> None:
        """Remember a session, or replace the one of the same key, durably and for everybody.

        `LimitExceeded` if it is new and there are `maximum` already; those that may be forgotten
        and have not been count, too.  Checking and storing are one atomic step.
        """

    async def session(self, key: str) -> KeptSession | None:
        """The session as it was last kept, by whatever process; also one whose time is over."""

    async def end_session(self, key: str) -> None:
        """Forget a session now; no harm if there is none."""

    async def forget_sessions(self, now: int, limit: int) -> int:
        """Forget up to `limit` sessions whose `until` is not after `now`; how many.

        The most overdue go first, by (until, key).
        """

    async def secret(self) -> bytes:
        """32 random bytes, made when the store was: the same for everybody who opens it."""

    async def adopt_secret(self, secret: bytes) -> None:
        """Take over the secret of another store along with its tasks; `Conflict` if there are
        tasks already, since what was sealed for them could not be opened any more.
        """

    def export(self) -> AsyncIterator[tuple[Task, Sequence[Entry]]]:
        """Every task with its history as both were at one moment, in any order.

        For another store to `adopt`.  Messages, workers and sessions belong to running processes
        and stay: whoever comes back with a session is told to begin a new one.
        """

    async def adopt(self, task: Task, entries: Sequence[Entry]) -> None:
        """Store a task as it is, whatever the caps.

        `Conflict` if the id is known, or the owner's key is in use.
        """

    async def close(self) -> None:
        """Let go of everything.  What was acknowledged stays.

        Every other call raises `StoreError` from then on; closing again does no harm.
        """


def check_caps(
    caps: Caps, live_of_owner: int, live: int, retained_of_owner: int, retained: int
) -> None:
    """`LimitExceeded` if there is no room for one more.

    Live tasks end soon; retained ones go by their ttl.
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
    """`LimitExceeded` if there is no room for one more: they go by their time."""
    if there >= maximum:
        raise LimitExceeded(f"{maximum} sessions", 60_000)


def is_kept(entry: Entry) -> bool:
    """Whether a history keeps this line.

    It is bounded, and so are all moves but reports of a tool; those with a note say that a worker
    let the task go.
    """
    is_said_by_tool = entry.event is Event.REPORT and entry.note is None
    return not is_said_by_tool or entry.seq <= MAX_REPORTS


async def open_store(url: str) -> Store:
    """The store that a URL names: `memory:`, `sqlite:PATH`, `postgresql://...`, or one that is
    installed.

    Others add theirs by the entry point group `taskmachine.stores`: the name is the scheme, the
    value an async function that takes the URL.
    """
    store: Store = await _known(url).load()(url)
    return store


def check_url(url: str) -> None:
    """`ConfigurationError` if no store is known for that URL: for whoever opens it later."""
    _known(url)


async def find_schema(url: str) -> Schema | None:
    """What opening the store would find, without opening it; None if stores of its kind have no
    schema.

    `ConfigurationError` if opening would refuse it.  Found by the entry point group
    `taskmachine.schemas`, in the same way as stores are.
    """
    point = _points("taskmachine.schemas").get(_known(url).name)
    if point is None:
        return None
    schema: Schema = await point.load()(url)
    return schema


def without_password(url: str) -> str:
    """The URL of a store for sentences that others may read: without a user, too."""
    url = re.sub(r"//.*@", "//", url)
    return re.sub(r"(?<=[?&]password=)[^&#]*", "...", url)


def _known(url: str) -> EntryPoint:
    scheme, colon, _ = url.partition(":")
    known = _points("taskmachine.stores")
    if not colon or scheme not in known:
        raise ConfigurationError(
            f"no store for '{without_password(url)}':"
            f" the scheme must be one of {', '.join(sorted(known))}"
        )
    return known[scheme]


def _points(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}
