"""The lifetime of a store inside an SDK server, which has no startup or shutdown hook.

The event loop that first needs the store opens it, in a keeper task.  When the loop ends, asyncio
cancels the keeper, which fails the live tasks of this process and closes the store.  After a
crash, the next process to open the store does so.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import Context
from functools import partial
from typing import Final

import attrs

from taskmachine.adapters.engines.worker import BEAT_S, POLL_S
from taskmachine.adapters.runtime.claims import give_back
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.maintenance import (
    Leases,
    expire_overdue,
    recover,
    sweep,
    sweep_pause_s,
)
from taskmachine.adapters.runtime.runtime import EXPIRE_S, Surroundings
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.stores import Store, StoreError, Worker, check_url, open_store
from taskmachine.adapters.stores.supervision import run_periodically
from taskmachine.adapters.transports.auth.owners import Owners
from taskmachine.protocol.sealing import Sealer
from taskmachine.statemachine import Times

__all__ = ["LoopStore", "Opened"]

log: Final = logging.getLogger("taskmachine")

_MOST_HELD: Final = 1_000


@attrs.frozen
class Opened:
    """An open store, and the worker that represents this process."""

    service: TaskService
    owners: Owners
    worker: Worker


class LoopStore:
    """Opens a store on demand; raises `ConfigurationError` at once for an unknown URL."""

    def __init__(self, url: str, times: Times | None, limits: Limits | None) -> None:
        check_url(url)
        self._url = url
        self._times = times
        self._limits = limits
        self._keeper: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Opened] | None = None

    async def opened(self) -> Opened:
        """Return the store as opened in this event loop."""
        loop = asyncio.get_running_loop()
        keeper, ready = self._keeper, self._ready
        if keeper is None or ready is None or keeper.done() or keeper.get_loop() is not loop:
            ready = self._ready = loop.create_future()
            # In a new context, as it does not belong to a request.
            self._keeper = loop.create_task(self._keep(ready), context=Context())
        return ready.result() if ready.done() else await asyncio.shield(ready)

    async def close(self) -> None:
        """Close the store, which the next use opens again."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)

    async def _keep(self, ready: asyncio.Future[Opened]) -> None:
        try:
            store = await open_store(self._url)
            try:
                await self._serve(store, ready)
            finally:
                await store.close()
        except Exception as error:
            if ready.done():
                raise
            ready.set_exception(error)
        finally:
            ready.cancel()  # release waiting callers after a cancellation

    async def _serve(self, store: Store, ready: asyncio.Future[Opened]) -> None:
        secret, world = await store.secret(), Surroundings()
        service = TaskService(
            store,
            Sealer(secret),
            clock=world.clock,
            new_id=world.new_id,
            times=self._times,
            limits=self._limits,
        )
        service.on_full(partial(sweep, service))
        opened = Opened(service, Owners(secret), Worker(world.new_id(), world.host, world.pid))
        leases = Leases(world.is_dead)
        async with _enlisted(service, opened.worker):
            await recover(service, leases)  # before a client can see tasks of dead workers
            ready.set_result(opened)
            await asyncio.gather(
                run_periodically("worker heartbeat", lambda: _beat(opened)),
                run_periodically("recovery of lost workers", lambda: _recover(service, leases)),
                run_periodically("expiry of tasks", lambda: _expire(service)),
                run_periodically("sweep", lambda: _sweep(service)),
            )


@asynccontextmanager
async def _enlisted(service: TaskService, worker: Worker) -> AsyncIterator[None]:
    """Register the worker, and finally give back all its tasks."""
    store = service.store
    await store.register_worker(worker)
    try:
        yield
    finally:
        try:
            while held := await store.held(worker.id, _MOST_HELD):
                for task in held:
                    await give_back(service, task, lost=False, why="The server was stopped.")
            await store.remove_worker(worker.id)
        except StoreError as error:  # other processes will recover the tasks
            log.warning("worker %s could not give back its tasks: %s", worker.id, error)


async def _beat(opened: Opened) -> float:
    store = opened.service.store
    if not await store.beat(opened.worker.id):
        # Reuse the id: tasks that are not recovered yet are still running here.
        await store.register_worker(opened.worker)
    return BEAT_S


async def _recover(service: TaskService, leases: Leases) -> float:
    await recover(service, leases)
    return POLL_S


async def _expire(service: TaskService) -> float:
    await expire_overdue(service)
    return EXPIRE_S


async def _sweep(service: TaskService) -> float:
    return sweep_pause_s(await sweep(service))
