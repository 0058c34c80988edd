"""Operator actions on tasks and stores, performed outside the server.

They make the same moves as a server, through the store, so a server that has the store open
notices them like the moves of any other process.
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
from taskmachine.adapters.runtime.reruns import rerun
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
from taskmachine.protocol.errors import InvalidParams
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
    "run_again",
]

REASON: Final = "The task was cancelled by an operator."
MAX_REASON: Final = 4_000
MIN_BEGINNING: Final = 4
MAX_CANDIDATES: Final = 5

_Exported = tuple[Task, Sequence[Entry]]


class Refused(TaskmachineError):
    """The operation is not possible in the current state of the task or store."""


@runtime_checkable
class Inspectable(Protocol):
    """A store that can also check and copy itself."""

    @property
    def schema_version(self) -> int: ...

    async def check(self) -> list[str]: ...

    async def backup(self, path: str) -> None: ...


@runtime_checkable
class Searchable(Protocol):
    """A store that can also look up tasks by the beginning of their id."""

    async def starting_with(self, prefix: str, limit: int) -> Sequence[Task]: ...


@asynccontextmanager
async def existing_store(url: str) -> AsyncIterator[Store]:
    """Open a store, which must exist."""
    # Opening creates a missing store, so a mistyped name would look like a store without tasks.
    scheme, _, name = url.partition(":")
    if scheme != "sqlite":
        await existing_schema(url)
    elif not Path(name).exists():
        raise ConfigurationError(_missing(name))
    async with _opened(url) as store:
        yield store


async def existing_schema(url: str) -> Schema | None:
    """Return the schema of an existing store without opening it.

    None if stores of its kind have no schema.
    """
    scheme, _, name = url.partition(":")
    if scheme == "sqlite" and not Path(name).exists():
        raise ConfigurationError(_missing(name))
    schema = await find_schema(url)
    if schema is not None and schema.found == 0:
        raise ConfigurationError(f"no store found in {without_password(url)}")
    return schema


def _missing(file: str) -> str:
    hint = "name the store that the server printed at its start, as in sqlite:FOLDER/taskmachine.db"
    return f"the file '{file}' does not exist: {hint}"


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[Store]:
    if url.partition(":")[0] == "memory":
        raise ConfigurationError(
            f"'{url}' is in the memory of one server: other processes cannot open it"
        )
    store = await open_store(url)
    try:
        yield store
    finally:
        await store.close()


# --- tasks -----------------------------------------------------------------------------------


async def newest(
    store: Store, limit: int, *, owner: str | None = None, state: State | None = None
) -> Sequence[Task]:
    """Return at most `limit` tasks, newest first, filtered by owner and state."""
    found: list[Task] = []
    async for task in _walk(store, owner):
        if state is None or task.state is state:
            found.append(task)
            if len(found) == limit:
                break
    return found


async def find(store: Store, beginning: str) -> Task:
    """Return the task with this id, or the only one whose id begins so, regardless of its owner."""
    task = await store.load(beginning)
    if task is not None:
        return task
    if len(beginning) < MIN_BEGINNING:
        raise Refused(f"no task '{beginning}': give at least {MIN_BEGINNING} characters of its id")
    found: Sequence[Task] = ()
    if isinstance(store, Searchable):
        found = await store.starting_with(beginning, MAX_CANDIDATES + 1)
    if not found:
        raise NotFound(beginning)
    if len(found) > 1:
        ids = [task.id for task in found[:MAX_CANDIDATES]]
        more = " and others" if len(found) > MAX_CANDIDATES else ""
        raise Refused(f"several ids begin with '{beginning}': {', '.join(ids)}{more}")
    return found[0]


async def history(store: Store, beginning: str) -> Sequence[Entry]:
    """Return the history of a task, oldest entry first."""
    return await store.history((await find(store, beginning)).id)


async def cancel(store: Store, beginning: str, reason: str = REASON) -> Task:
    """Cancel a task; the worker that runs its tool stops the tool."""
    task = await find(store, beginning)
    service = await _service(store)
    after, steps = await service.perform(task.owner, Cancel(task.id, reason[:MAX_REASON]))
    if not steps:
        raise Refused(f"task '{task.id}' has ended already: it is {after.state}")
    return after


async def run_again(store: Store, beginning: str, *, keep_steps: bool) -> Task:
    """Create a task for the call of an ended one; a server on the store runs it."""
    task = await find(store, beginning)
    try:
        return await rerun(await _service(store), task, keep_steps=keep_steps)
    except InvalidParams as error:
        raise Refused(error.reason) from None


async def purge(store: Store, *, all_ended: bool = False) -> int:
    """Delete ended tasks whose TTL has expired, or all ended tasks; return their number."""
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
    # Concurrently, so that the store writes them in one batch.
    return sum(await asyncio.gather(*(_is_forgotten(service, task.id) for task in tasks)))


async def _is_forgotten(service: TaskService, task_id: str) -> bool:
    def forget(task: Task, now: int) -> tuple[Step]:
        return (lifecycle.purge(task, now),)

    try:
        await service.move(task_id, forget)
    except (IllegalTransition, NotFound):  # a server has already deleted it
        return False
    return True


async def _walk(store: Store, owner: str | None) -> AsyncIterator[Task]:
    """Iterate over all tasks, or those of one owner, newest first."""
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
    """The result of checking a store."""

    schema_version: int
    states: Counter[State]
    workers: int
    problems: Sequence[str]


async def check(store: Store, url: str) -> Findings:
    """Check a whole store for damage and count its tasks and workers."""
    inspected = _inspectable(store, url)
    problems = await inspected.check()
    states: Counter[State] = Counter()
    try:
        async for task in _walk(store, None):
            states[task.state] += 1
    except StoreError as error:  # most likely among the problems already
        if not problems:
            problems = [f"The tasks cannot be counted: {error}."]
    return Findings(inspected.schema_version, states, len(await store.workers()), problems)


async def back_up(store: Store, url: str, path: str) -> int:
    """Copy a store to a new file while servers use it; return the size of the copy in bytes."""
    await _inspectable(store, url).backup(path)
    return Path(path).stat().st_size


async def migrate(source: Store, target_url: str) -> int:
    """Copy every task with its history, and the secret, into an empty store.

    Return the number of tasks.  Raise `Refused` while a server uses the source, because its
    changes during the copy would be lost.
    """
    if any(not processes.is_dead(worker) for worker in await source.workers()):
        raise Refused("a server is using the source store: stop it first")
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
            raise Refused(f"{error}; the copy in {where} is incomplete: start again") from error


async def _adopt(target: Store, batch: Sequence[_Exported]) -> int:
    await asyncio.gather(*(target.adopt(task, entries) for task, entries in batch))
    return len(batch)


def _inspectable(store: Store, url: str) -> Inspectable:
    if not isinstance(store, Inspectable):
        scheme = url.partition(":")[0]
        raise ConfigurationError(f"not available for {scheme} stores: use the tools of {scheme}")
    return store
