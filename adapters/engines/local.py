"""Runs tools in this process: coroutines on the event loop, functions in threads.

The queue in memory is only the order in which this process takes tasks; the jobs themselves are
the `submitted` tasks of the store.  So nothing is lost when the process is: whoever looks next
finds them there.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final

from taskmachine.adapters.claims import Claim, Gone, claim, give_back
from taskmachine.adapters.context import Context, Parked
from taskmachine.adapters.engines.fair_queue import FairQueue
from taskmachine.adapters.legs import PATIENCE_S, Leg, Stopwatch
from taskmachine.adapters.service import TaskService
from taskmachine.adapters.stores import StoreError, Worker
from taskmachine.adapters.tools import Threads, Tool
from taskmachine.adapters.waiting import persevere, wait_for
from taskmachine.protocol.jsonvalue import decode_json
from taskmachine.statemachine import NotFound, Progress, Question, Reply, Task

__all__ = ["LocalEngine"]

log: Final = logging.getLogger("taskmachine")

GRACE_S: Final = 5.0
HASTE_S: Final = 0.5
"""How long running tools may go on when the process is to end, and then to clean up."""

LOOK_S: Final = 5.0
WATCH_S: Final = 0.25
BEAT_S: Final = 5.0

_MOST_QUEUED: Final = 1_000
"""Jobs that are read from the store at a time."""


class LocalEngine:
    """Takes tasks of a service and runs the tools that they call, so many at a time."""

    def __init__(
        self,
        service: TaskService,
        tools: Mapping[str, Tool],
        new_worker: Callable[[], Worker],
    ) -> None:
        self._service = service
        self._tools = tools
        self._new_worker = new_worker
        self._worker = new_worker()
        self._concurrency = service.limits.concurrency
        self._threads = Threads(2 * self._concurrency)
        self._queue = FairQueue()
        self._legs: dict[asyncio.Task[None], str] = {}
        self._abandoned = 0
        self._is_closing = False

    @property
    def threads(self) -> Threads:
        """Where plain functions run: shared with plain calls."""
        return self._threads

    async def start(self) -> None:
        """Be known to the others, and take what there is to do."""
        await self._service.store.enlist(self._worker)
        self._service.on_dispatch(self.dispatch)

    def dispatch(self, task: Task) -> None:
        """There is a new job."""
        tool = self._tools.get(task.call.name or "")
        if tool is None:
            return  # somebody else's: another server on the same store has other tools
        self._queue.push(task.id, task.owner, _priority(task, tool))
        self._fill()

    async def beat(self) -> float:
        """Say that we live; if nobody believed it, begin anew under another name."""
        if not await self._service.store.beat(self._worker.id):
            log.warning("worker %s was given up by others, and begins anew", self._worker.id)
            worker = self._new_worker()
            await self._service.store.enlist(worker)
            self._worker = worker  # not before: what an unknown worker claims is an orphan
        return BEAT_S

    async def look(self) -> float:
        """Find what nobody told us: jobs in the queue, and tasks that we hold unknowingly.

        The latter come from a claim that was committed although the store reported an error.
        """
        for task in await self._service.store.held(self._worker.id, _MOST_QUEUED):
            if task.id not in self._legs.values():
                why = "The worker of this task lost track of it."
                await give_back(self._service, task, lost=True, why=why)
        for task in await self._service.store.queued(_MOST_QUEUED):
            if task.id not in self._legs.values():
                self.dispatch(task)
        return LOOK_S

    async def shutdown(self, grace_s: float | None = None) -> None:
        """Take nothing more, let the tools end for 5 s, or so long, then stop them.

        Of their tasks what may be repeated goes to the queue, for whoever starts next; the rest
        fails.
        """
        self._is_closing = True
        if self._legs:
            await asyncio.wait(self._legs, timeout=GRACE_S if grace_s is None else grace_s)
        legs = list(self._legs)
        for leg in legs:
            leg.cancel()
        await asyncio.gather(*legs, return_exceptions=True)
        store, worker = self._service.store, self._worker.id
        try:
            for task in await store.held(worker, _MOST_QUEUED):
                why = "The server was stopped."
                await give_back(self._service, task, lost=False, why=why)
            await store.strike(worker)
        except StoreError as error:  # others will notice that this process is gone
            log.warning("worker %s could not give back its tasks: %s", worker, error)

    # --- legs --------------------------------------------------------------------------------

    def _fill(self) -> None:
        # Abandoned tools may be as many again; beyond that they take the places of others.
        while (
            self._queue
            and not self._is_closing
            and len(self._legs) + max(0, self._abandoned - self._concurrency) < self._concurrency
        ):
            task_id = self._queue.pop()
            leg = asyncio.create_task(self._leg(task_id), name=f"task {task_id}")
            self._legs[leg] = task_id
            leg.add_done_callback(self._end)

    def _end(self, leg: asyncio.Task[None]) -> None:
        task_id = self._legs.pop(leg)
        if not leg.cancelled() and (error := leg.exception()) is not None:
            log.error("task %s: its leg failed", task_id, exc_info=error)
        self._fill()

    async def _leg(self, task_id: str) -> None:
        try:
            held = await claim(self._service, task_id, self._worker.id)
        except StoreError as error:  # whether it was claimed or not: `look` will find it
            log.warning("task %s could not be claimed: %s", task_id, error)
            return
        if held is not None:
            await self._work(held, self._tools[str(held.task.call.name)])

    async def _work(self, held: Claim, tool: Tool) -> None:
        timeout_s = held.task.timeout_ms / 1_000
        stopwatch = Stopwatch(timeout_s)
        context = Context(_TaskWork(held, stopwatch))
        leg = Leg(tool, held.task.call.arguments, context, self._threads, stopwatch, timeout_s)
        watch = _Watch(held)
        try:
            outcome = await leg.outcome(watch.lost)
            if isinstance(outcome, Parked):
                await _until_written(held.park)
            elif outcome is not None:
                await _until_written(partial(held.settle, outcome))
        finally:
            watch.stop()
            patience_s = HASTE_S if self._is_closing else PATIENCE_S
            if not await leg.stop(patience_s, self._came_to_an_end):
                self._abandoned += 1

    def _came_to_an_end(self) -> None:
        self._abandoned -= 1
        self._fill()


def _priority(task: Task, tool: Tool) -> str:
    """What the creator said of it, else what its tool says."""
    if task.metadata == b"{}":  # as most
        return tool.priority
    said = decode_json(task.metadata).get("priority")
    return said if said in ("low", "normal", "high") else tool.priority


class _Watch:
    """Notices that a task is no longer ours: it ended, or somebody else has it.

    Being told is a hint, and costs little; work that takes its time is also looked after.
    """

    def __init__(self, held: Claim) -> None:
        loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = loop.create_future()
        self._held = held
        self._leave = held.service.store.follow(held.task.id, self._hear)
        self._looking: asyncio.Task[None] | None = None
        self._timer = loop.call_later(WATCH_S, self._begin_to_look)

    def stop(self) -> None:
        self._leave()
        self._timer.cancel()
        self.lost.cancel()
        if self._looking is not None:
            self._looking.cancel()

    def _hear(self, task: Task) -> None:
        if not self.lost.done() and not self._held.is_held(task):
            self.lost.set_result(None)

    def _begin_to_look(self) -> None:
        self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        store, task_id = self._held.service.store, self._held.task.id
        while not self.lost.done():
            try:
                self._hear(
                    await wait_for(store, task_id, lambda task: not self._held.is_held(task))
                )
            except NotFound:
                if not self.lost.done():
                    self.lost.set_result(None)
            except StoreError as error:
                log.warning("task %s cannot be watched: %s", task_id, error)
                await asyncio.sleep(1)


async def _until_written(write: Callable[[], Awaitable[None]]) -> None:
    try:
        await persevere(write)
    except Gone as gone:  # USER-5: quietly, the task has its outcome
        log.info("a late outcome was dropped: %s", gone)


class _TaskWork:
    """The work behind the context of a tool that runs as a task."""

    def __init__(self, held: Claim, stopwatch: Stopwatch) -> None:
        self._held = held
        self._stopwatch = stopwatch

    @property
    def task_id(self) -> str:
        return self._held.task.id

    async def report(self, *, progress: Progress | None, message: str | None) -> None:
        try:
            await self._held.report(progress=progress, message=message)
        except StoreError as error:  # not worth a tool's life
            log.warning("task %s: a report was lost: %s", self.task_id, error)

    async def ask(
        self, questions: Sequence[Question], *, park: bool, partial: bytes | None
    ) -> Mapping[str, Reply]:
        replies = await persevere(lambda: self._held.ask(questions, partial=partial))
        keys = {question.key for question in questions}
        if replies.keys() == keys:
            return replies
        if park:
            raise Parked(questions)
        with self._stopwatch.paused():
            return await persevere(lambda: self._held.answers(keys))
