"""What whoever runs a server may do to its tasks and their store, from outside of the server.

Everything goes through the store, by the same moves that the server makes: a server that has the
store open hears of it as of any other process.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

import attrs

from taskmachine.adapters.runtime import processes
from taskmachine.adapters.runtime.maintenance import BATCH, sweep
from taskmachine.adapters.runtime.runtime import new_id, system_clock
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.stores import (
    Conflict,
    Schema,
    Store,
    StoreError,
    find_schema,
    open_store,
    without_password,
)
from taskmachine.protocol.operations import Cancel
from taskmachine.protocol.sealing import Position, Sealer
from taskmachine.statemachine import (
    ConfigurationError,
    Entry,
    IllegalTransition,
    NotFound,
    State,
    Task,
    TaskmachineError,
    lifecycle,
)
from taskmachine.statemachine.lifecycle import Step

__all__ = [
    "Findings",
    "Refused",
    "back_up",
    "cancel",
    "check",
    "existing_schema",
    "existing_store",
    "find",
    "history",
    "migrate",
    "newest",
    "purge",
]

REASON: Final = "The task was cancelled by an operator."
MAX_REASON: Final = 4_000

_Exported = tuple[Task, Sequence[Entry]]


class Refused(TaskmachineError):
    """It can be done, but not to this, or not now."""


@runtime_checkable
class Inspectable(Protocol):
    """A store that offers more than its contract: a look at itself, and a copy."""

    @property
    def schema_version(self) -> int: ...

    async def check(self) -> list[str]: ...

    async def backup(self, path: str) -> None: ...


@asynccontextmanager
async def existing_store(url: str) -> AsyncIterator[Store]:
    """The store of that URL, which somebody else has made."""
    # Opening would make it, and a wrong name would look like a store without tasks.
    scheme, _, name = url.partition(":")
    if scheme != "sqlite":
        await existing_schema(url)
    elif not Path(name).exists():
        raise ConfigurationError(f"there is no file '{name}'")
    async with _opened(url) as store:
        yield store


async def existing_schema(url: str) -> Schema | None:
    """The schema of a store that somebody else has made, without opening it; None if stores of
    its kind have none.
    """
    scheme, _, name = url.partition(":")
    if scheme == "sqlite" and not Path(name).exists():
        raise ConfigurationError(f"there is no file '{name}'")
    schema = await find_schema(url)
    if schema is not None and schema.found == 0:
        raise ConfigurationError(f"there is no store in {without_password(url)}")
    return schema


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[Store]:
    if url.partition(":")[0] == "memory":
        raise ConfigurationError(f"'{url}' is in the memory of one server: no other can open it")
    store = await open_store(url)
    try:
        yield store
    finally:
        await store.close()


# --- tasks -----------------------------------------------------------------------------------


async def newest(
    store: Store, limit: int, *, owner: str | None = None, state: State | None = None
) -> Sequence[Task]:
    """Up to so many tasks, newest first; of one owner, in one state."""
    found: list[Task] = []
    async for task in _walk(store, owner):
        if state is None or task.state is state:
            found.append(task)
            if len(found) == limit:
                break
    return found


async def find(store: Store, task_id: str) -> Task:
    """The task, whoever owns it."""
    task = await store.load(task_id)
    if task is None:
        raise NotFound(task_id)
    return task


async def history(store: Store, task_id: str) -> Sequence[Entry]:
    """What happened to a task, oldest first."""
    await find(store, task_id)
    return await store.history(task_id)


async def cancel(store: Store, task_id: str, reason: str = REASON) -> Task:
    """Stop a task: whichever server runs its tool hears of it and stops the tool."""
    task = await find(store, task_id)
    service = await _service(store)
    after, steps = await service.perform(task.owner, Cancel(task_id, reason[:MAX_REASON]))
    if not steps:
        raise Refused(f"task '{task_id}' has ended already: it is {after.state}")
    return after


async def purge(store: Store, *, all_ended: bool = False) -> int:
    """Forget ended tasks whose time is over, or all that have ended; how many."""
    service = await _service(store)
    if not all_ended:
        return await sweep(service)
    count = 0
    batch: list[Task] = []
    async for task in _walk(store, None):
        if task.is_terminal:
            batch.append(task)
        if len(batch) == BATCH:
            count += await _forget(service, batch)
            batch = []
    return count + await _forget(service, batch)


async def _forget(service: TaskService, tasks: Sequence[Task]) -> int:
    # All at once: the store writes them together.
    return sum(await asyncio.gather(*(_is_forgotten(service, task.id) for task in tasks)))


async def _is_forgotten(service: TaskService, task_id: str) -> bool:
    def forget(task: Task, now: int) -> tuple[Step]:
        return (lifecycle.purge(task, now),)

    try:
        await service.move(task_id, forget)
    except (IllegalTransition, NotFound):  # a server was faster
        return False
    return True


async def _walk(store: Store, owner: str | None) -> AsyncIterator[Task]:
    """All tasks, or those of one owner, newest first."""
    after: Position | None = None
    while True:
        page = await (
            store.browse(after, BATCH) if owner is None else store.page(owner, after, BATCH)
        )
        for task in page:
            yield task
        if len(page) < BATCH:
            return
        after = Position(page[-1].created_at, page[-1].id)


async def _service(store: Store) -> TaskService:
    return TaskService(store, Sealer(await store.secret()), clock=system_clock, new_id=new_id)


# --- stores ----------------------------------------------------------------------------------


@attrs.frozen
class Findings:
    """What a look through a whole store has found."""

    schema_version: int
    states: Counter[State]
    workers: int
    problems: Sequence[str]


async def check(store: Store, url: str) -> Findings:
    """Look through everything."""
    inspected = _inspectable(store, url)
    problems = await inspected.check()
    states: Counter[State] = Counter()
    try:
        async for task in _walk(store, None):
            states[task.state] += 1
    except StoreError as error:  # which the check has most likely found, too
        if not problems:
            problems = [f"The tasks cannot be counted: {error}."]
    return Findings(inspected.schema_version, states, len(await store.workers()), problems)


async def back_up(store: Store, url: str, path: str) -> int:
    """Copy a store to a new file while servers use it; the size of the copy in bytes."""
    await _inspectable(store, url).backup(path)
    return Path(path).stat().st_size


async def migrate(source: Store, target_url: str) -> int:
    """Copy every task with its history, and the secret, into an empty store; how many tasks.

    Live ones stay live.

    `Refused` while a server works on the source, since what it does meanwhile would be lost.
    """
    if any(not processes.is_dead(worker) for worker in await source.workers()):
        raise Refused("a server works on the store to copy from: stop it first")
    async with _opened(target_url) as target:
        if await target.browse(None, 1):
            raise Refused(f"{without_password(target_url)} is not empty")
        count = 0
        batch: list[_Exported] = []
        await target.adopt_secret(await source.secret())
        try:
            async for exported in source.export():
                batch.append(exported)
                if len(batch) == BATCH:
                    count += await _adopt(target, batch)
                    batch = []
            return count + await _adopt(target, batch)
        except (Conflict, StoreError) as error:
            where = without_password(target_url)
            raise Refused(f"{error}; {where} has only a part, begin anew") from error


async def _adopt(target: Store, batch: Sequence[_Exported]) -> int:
    await asyncio.gather(*(target.adopt(task, entries) for task, entries in batch))
    return len(batch)


def _inspectable(store: Store, url: str) -> Inspectable:
    if not isinstance(store, Inspectable):
        scheme = url.partition(":")[0]
        raise ConfigurationError(f"{scheme} has tools of its own for this")
    return store
