"""Notify followers of commits by other processes to the same database.

Polling is authoritative: all followed tasks are read four times a second.  Hints make it faster:
a process that commits names the tasks in a `NOTIFY`, and one connection of each process listens.
Hints are sent in batches after the commit: inside the transaction, `NOTIFY` would serialize all
commits of the server.  A lost hint costs a quarter of a second.
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
"""How long hints are collected before they are sent in one round trip."""

MAX_HINTS: Final = 1_000
"""Maximum number of task ids that wait to be sent; polling finds the others."""

_HINT_BYTES: Final = 7_000  # PostgreSQL accepts 8000

_logger: Final = logging.getLogger(__name__)

_UNKNOWN: Final = object()
_Known = Task | None | object
"""The last known version, None for no such task, or `_UNKNOWN`."""


class Watch:
    """Notifies followers of versions committed by this process or others.

    `being_written` contains the ids of tasks that this process is writing; the writer notifies
    their followers in order.
    """

    def __init__(self, connections: Connections, being_written: Container[str]) -> None:
        self._connections = connections
        self._being_written = being_written
        self._channel = f"taskmachine_{connections.address.schema}"
        self._sender = secrets.token_hex(8)
        self._followers = Followers()
        self._known: dict[str, _Known] = {}  # the last notified version of each followed task
        self._seen: OrderedDict[str, Task | None] = OrderedDict()  # last read or written
        self._hinted: set[str] = set()
        self._has_hints = asyncio.Event()
        self._to_send: dict[str, None] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._is_open = True

    # --- versions in this process ------------------------------------------------------------

    def follow(self, task_id: str, follower: Follower) -> Callable[[], None]:
        """See `Store.follow`.

        For a task that this process has never read, the first version read is notified.
        """
        if task_id not in self._known:
            self._known[task_id] = self._seen.get(task_id, _UNKNOWN)
        remove = self._followers.add(task_id, follower)

        def unfollow() -> None:
            remove()
            if task_id not in self._followers.by_task:
                self._known.pop(task_id, None)

        self._run("poll", self._keep_polling)
        self._run("listen", self._keep_listening)
        return unfollow

    def remember(self, task_id: str, task: Task | None) -> None:
        """Remember a version that was read, which later followers already know."""
        self._seen[task_id] = task
        self._seen.move_to_end(task_id)
        if len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)

    def notify(self, task: Task) -> None:
        """Notify followers here, and soon other processes, of a version committed here."""
        self._notify(task.id, None if task.state is State.REMOVED else task)
        if len(self._to_send) < MAX_HINTS:
            self._to_send[task.id] = None
            self._run("send", self._send)

    def _notify(self, task_id: str, task: Task | None) -> None:
        self.remember(task_id, task)
        if task_id in self._known:
            self._known[task_id] = task
            self._followers.notify(task_id, task)

    async def close(self) -> None:
        self._is_open = False
        await stop_all(self._tasks.values())

    def _run(self, name: str, act: Callable[[], Awaitable[None]]) -> None:
        """Run `act` in the background unless it runs already."""
        running = self._tasks.get(name)
        if self._is_open and (running is None or running.done()):
            self._tasks[name] = asyncio.get_running_loop().create_task(_guarded(name, act))

    # --- versions of other processes ---------------------------------------------------------

    async def _keep_polling(self) -> None:
        while self._known:
            is_hinted = True
            try:
                async with asyncio.timeout(INTERVAL_S):
                    await self._has_hints.wait()
            except TimeoutError:
                is_hinted = False
            hinted, self._hinted = self._hinted, set()
            self._has_hints.clear()
            with suppress(StoreError):  # the next poll may succeed
                await self._look(hinted & self._known.keys() if is_hinted else {*self._known})

    async def _look(self, task_ids: Collection[str]) -> None:
        before = {task_id: self._known[task_id] for task_id in task_ids}
        if not before:
            return
        versions = [_version(known) for known in before.values()]

        async def read(session: Session) -> Mapping[str, bytes | None]:
            return dict(await session.rows(sql.NEWS, ([*before], versions)))

        for task_id, record in (await self._connections.run(read, reads=True)).items():
            # A version notified or being written meanwhile is not older than the one that was read.
            is_as_before = self._known.get(task_id, self) is before[task_id]
            if is_as_before and task_id not in self._being_written:
                self._notify_foreign(task_id, record)

    def _notify_foreign(self, task_id: str, record: bytes | None) -> None:
        known = self._known[task_id]
        if record is not None:
            with suppress(StoreError):  # a damaged task must not hide other changes
                task = read_task(record)
                if not isinstance(known, Task) or task.version > known.version:
                    self._notify(task_id, task)
        elif isinstance(known, Task):
            self._notify(task_id, None)
        else:
            self._known[task_id] = None

    async def _keep_listening(self) -> None:
        """Listen for hints on one connection; polling suffices while there is none."""
        pause_s = 0.1
        while True:
            try:
                async with await connect(self._connections.address) as connection:
                    await connection.execute(f"LISTEN {self._channel}")
                    pause_s = 0.1
                    async for hint in connection.notifies():
                        self._on_hint(hint.payload)
            except (psycopg.Error, TaskmachineError) as error:
                _logger.info("not listening for hints; polling only: %s", error)
            await asyncio.sleep(pause_s)
            pause_s = min(MAX_PAUSE_S, 2 * pause_s)

    def _on_hint(self, payload: str) -> None:
        sender, *task_ids = payload.split("\n")
        if sender != self._sender:
            self._hinted.update(task_id for task_id in task_ids if task_id in self._known)
        if self._hinted:
            self._has_hints.set()

    async def _send(self) -> None:
        while self._to_send:
            await asyncio.sleep(GATHER_S)
            hints = [f"{self._sender}\n{payload}" for payload in _payloads(self._to_send)]
            self._to_send = {}

            async def send(session: Session, hints: list[str] = hints) -> None:
                await session.rows(sql.HINT, (self._channel, hints))

            with suppress(StoreError):
                await self._connections.run(send)


def _version(known: _Known) -> int:
    if isinstance(known, Task):
        return known.version
    return 0 if known is None else -1


def _payloads(task_ids: Collection[str]) -> list[str]:
    """Return as few payloads as possible; ids that are too long are left to polling."""
    payloads: list[list[str]] = [[]]
    size = 0
    for task_id in task_ids:
        needs = len(task_id.encode()) + 1
        if needs > _HINT_BYTES:
            continue
        if size + needs > _HINT_BYTES:
            payloads.append([])
            size = 0
        payloads[-1].append(task_id)
        size += needs
    return ["\n".join(payload) for payload in payloads]


async def _guarded(name: str, act: Callable[[], Awaitable[None]]) -> None:
    try:
        await act()
    except Exception:
        _logger.exception("watching other processes: %s failed", name)
