"""How the followers of tasks learn what other processes have committed to the same database.

Reading decides: while anybody follows a task, all that are followed are looked at four times a
second.  A hint makes it faster: whoever has committed names the tasks in a `NOTIFY`, and one
connection of each process listens.  Hints are sent after the commit and by themselves, several
at once: inside of it, each commit of the whole server would wait for the one before it.  A hint
that got lost, for whatever reason, costs a quarter of a second.
"""

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Container, Mapping
from contextlib import suppress
from typing import Final

import psycopg

from taskmachine.adapters.stores import Follower, StoreError
from taskmachine.adapters.stores.followers import Followers
from taskmachine.adapters.stores.postgresql import queries as sql
from taskmachine.adapters.stores.postgresql.connections import Connections, Session, connect
from taskmachine.adapters.stores.records import read_task
from taskmachine.adapters.stores.supervision import stop_all
from taskmachine.statemachine import State, Task, TaskmachineError

__all__ = ["Watch"]

INTERVAL_S: Final = 0.25
MAX_PAUSE_S: Final = 5.0
MAX_SEEN: Final = 10_000
GATHER_S: Final = 0.01
"""How long a hint waits for others: each parcel is a journey."""

MAX_HINTS: Final = 1_000
"""Task ids that wait to be sent; beyond it, looking will find them."""

_HINT_BYTES: Final = 7_000  # PostgreSQL takes 8000

_logger: Final = logging.getLogger(__name__)

_UNKNOWN: Final = object()
_Known = Task | None | object
"""A version, None for no such task, or nothing that we would know of."""


class Watch:
    """Tells followers of what was committed, here or elsewhere.

    `being_written` has the ids of tasks that this process is writing at the moment: they will be
    told by whoever writes, in their order.
    """

    def __init__(self, connections: Connections, being_written: Container[str]) -> None:
        self._connections = connections
        self._being_written = being_written
        self._channel = f"taskmachine_{connections.address.schema}"
        self._sender = secrets.token_hex(8)
        self._followers = Followers()
        self._known: dict[str, _Known] = {}  # of each followed task: what was last told
        self._seen: OrderedDict[str, Task | None] = OrderedDict()  # what was last read or written
        self._hinted: set[str] = set()
        self._has_hints = asyncio.Event()
        self._to_send: dict[str, None] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._is_open = True

    # --- what is known here ------------------------------------------------------------------

    def follow(self, task_id: str, follower: Follower) -> Callable[[], None]:
        """See `Store.follow`.

        Of a task that this process has never seen, the first look is told: it may be news.
        """
        if task_id not in self._known:
            self._known[task_id] = self._seen.get(task_id, _UNKNOWN)
        leave_followers = self._followers.add(task_id, follower)

        def leave() -> None:
            leave_followers()
            if task_id not in self._followers.by_task:
                self._known.pop(task_id, None)

        self._run("look", self._keep_looking)
        self._run("listen", self._keep_listening)
        return leave

    def see(self, task_id: str, task: Task | None) -> None:
        """What was read: no news to whoever follows it from now on."""
        self._seen[task_id] = task
        self._seen.move_to_end(task_id)
        if len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)

    def tell(self, task: Task) -> None:
        """Of a version that was committed here: followers now, other processes soon."""
        self._tell(task.id, None if task.state is State.REMOVED else task)
        if len(self._to_send) < MAX_HINTS:
            self._to_send[task.id] = None
            self._run("send", self._send)

    def _tell(self, task_id: str, task: Task | None) -> None:
        self.see(task_id, task)
        if task_id in self._known:
            self._known[task_id] = task
            self._followers.tell(task_id, task)

    async def close(self) -> None:
        self._is_open = False
        await stop_all(self._tasks.values())

    def _run(self, name: str, act: Callable[[], Awaitable[None]]) -> None:
        """Unless it runs already.  It ends when there is nothing to do."""
        running = self._tasks.get(name)
        if self._is_open and (running is None or running.done()):
            self._tasks[name] = asyncio.get_running_loop().create_task(_guarded(name, act))

    # --- what others commit ------------------------------------------------------------------

    async def _keep_looking(self) -> None:
        while self._known:
            is_hinted = True
            try:
                async with asyncio.timeout(INTERVAL_S):
                    await self._has_hints.wait()
            except TimeoutError:
                is_hinted = False
            hinted, self._hinted = self._hinted, set()
            self._has_hints.clear()
            with suppress(StoreError):  # the next look may succeed
                await self._look(hinted & self._known.keys() if is_hinted else {*self._known})

    async def _look(self, task_ids: Collection[str]) -> None:
        before = {task_id: self._known[task_id] for task_id in task_ids}
        if not before:
            return
        versions = [_version(known) for known in before.values()]

        async def read(session: Session) -> Mapping[str, bytes | None]:
            return dict(await session.rows(sql.NEWS, ([*before], versions)))

        for task_id, record in (await self._connections.run(read, reads=True)).items():
            # What was told or is being written since then is not older than what was read.
            is_as_before = self._known.get(task_id, self) is before[task_id]
            if is_as_before and task_id not in self._being_written:
                self._tell_foreign(task_id, record)

    def _tell_foreign(self, task_id: str, record: bytes | None) -> None:
        known = self._known[task_id]
        if record is not None:
            with suppress(StoreError):  # it must not keep the others from being noticed
                task = read_task(record)
                if not isinstance(known, Task) or task.version > known.version:
                    self._tell(task_id, task)
        elif isinstance(known, Task):
            self._tell(task_id, None)
        else:
            self._known[task_id] = None

    async def _keep_listening(self) -> None:
        """One connection.  Where there is none, looking is enough."""
        pause_s = 0.1
        while True:
            try:
                async with await connect(self._connections.address) as connection:
                    await connection.execute(f"LISTEN {self._channel}")
                    pause_s = 0.1
                    async for hint in connection.notifies():
                        self._hear(hint.payload)
            except (psycopg.Error, TaskmachineError) as error:
                _logger.info("nobody listens for hints for a while: %s", error)
            await asyncio.sleep(pause_s)
            pause_s = min(MAX_PAUSE_S, 2 * pause_s)

    def _hear(self, payload: str) -> None:
        sender, *task_ids = payload.split("\n")
        if sender != self._sender:  # our own news are known here
            self._hinted.update(task_id for task_id in task_ids if task_id in self._known)
        if self._hinted:
            self._has_hints.set()

    async def _send(self) -> None:
        while self._to_send:
            await asyncio.sleep(GATHER_S)
            hints = [f"{self._sender}\n{parcel}" for parcel in _in_parcels(self._to_send)]
            self._to_send = {}

            async def send(session: Session, hints: list[str] = hints) -> None:
                await session.rows(sql.HINT, (self._channel, hints))

            with suppress(StoreError):
                await self._connections.run(send)


def _version(known: _Known) -> int:
    if isinstance(known, Task):
        return known.version
    return 0 if known is None else -1


def _in_parcels(task_ids: Collection[str]) -> list[str]:
    """As few texts as have room for them; an id that has none by itself will be found."""
    parcels: list[list[str]] = [[]]
    size = 0
    for task_id in task_ids:
        needs = len(task_id.encode()) + 1
        if needs > _HINT_BYTES:
            continue
        if size + needs > _HINT_BYTES:
            parcels.append([])
            size = 0
        parcels[-1].append(task_id)
        size += needs
    return ["\n".join(parcel) for parcel in parcels]


async def _guarded(name: str, act: Callable[[], Awaitable[None]]) -> None:
    try:
        await act()
    except Exception:
        _logger.exception("the watch over other processes failed to %s", name)
