"""Where a worker runs the tools of the tasks that it has: coroutines on the event loop, functions
in threads.

Engines differ in how they come by tasks; what they do with one is this.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import Final

from taskmachine.adapters.claims import Claim, Gone, claim, give_back
from taskmachine.adapters.context import Context, Parked
from taskmachine.adapters.legs import PATIENCE_S, Leg, Stopwatch, nobody
from taskmachine.adapters.observer import LegEnd
from taskmachine.adapters.service import Place, TaskService
from taskmachine.adapters.stores import StoreError, Worker
from taskmachine.adapters.tools import Threads, Tool
from taskmachine.adapters.waiting import persevere, wait_for
from taskmachine.statemachine import NotFound, Outcome, Progress, Question, Reply, Task

__all__ = ["BEAT_S", "LOOK_S", "MOST_QUEUED", "Workshop"]

log: Final = logging.getLogger("taskmachine")

GRACE_S: Final = 5.0
HASTE_S: Final = 0.5
"""How long running tools may go on when the process is to end, and then to clean up."""

LOOK_S: Final = 5.0
"""How often an engine looks for what nobody told it."""

WATCH_S: Final = 0.25
BEAT_S: Final = 5.0

MOST_QUEUED: Final = 1_000
"""Jobs that are read from the store at a time."""


class Workshop:
    """A worker of a service: its name, which it keeps alive, and the tools that it runs.

    `on_room` is called when one has ended.
    """

    def __init__(
        self,
        service: TaskService,
        tools: Mapping[str, Tool],
        threads: Threads,
        new_worker: Callable[[], Worker],
        on_room: Callable[[], None],
    ) -> None:
        self._service = service
        self._tools = tools
        self._threads = threads
        self._new_worker = new_worker
        self._on_room = on_room
        self._worker = new_worker()
        self._concurrency = service.limits.concurrency
        self._legs: dict[asyncio.Task[None], str] = {}
        self._runs: dict[asyncio.Task[None], _Run] = {}
        self._abandoned = 0
        self._is_closing = False

    @property
    def has_room(self) -> bool:
        """Whether one more tool may run."""
        # Abandoned tools may be as many again; beyond that they take the places of others.
        taken = len(self._legs) + max(0, self._abandoned - self._concurrency)
        return not self._is_closing and taken < self._concurrency

    def has(self, task_id: str) -> bool:
        """Whether a tool runs for this task, or is about to."""
        return task_id in self._legs.values()

    def begin(self, task_id: str, take: Callable[[], Awaitable[Claim | None]]) -> None:
        """Run the tool of a task once `take` has claimed it."""
        running = asyncio.create_task(self._leg(take), name=f"task {task_id}")
        self._legs[running] = task_id
        running.add_done_callback(self._end)

    def reserve(self, task_id: str) -> Place:
        """Run the tool of a task as soon as it is stored."""
        place = _Place(self._service, self._worker.id)
        self.begin(task_id, lambda: place.filled)
        return place

    def claim(self, task_id: str) -> Awaitable[Claim | None]:
        """Take a task; None if there is nothing to take."""
        return claim(self._service, task_id, self._worker.id)

    async def enlist(self) -> None:
        """Be known to the others: what an unknown worker claims is an orphan."""
        await self._service.store.enlist(self._worker)

    async def beat(self) -> float:
        """Say that we live; if nobody believed it, begin anew under another name."""
        if not await self._service.store.beat(self._worker.id):
            log.warning("worker %s was given up by others, and begins anew", self._worker.id)
            worker = self._new_worker()
            await self._service.store.enlist(worker)
            self._worker = worker  # not before: what an unknown worker claims is an orphan
        return BEAT_S

    async def give_back_lost(self) -> None:
        """Let go of tasks that we hold unknowingly.

        They come from a claim that was committed although the store reported an error.
        """
        for task in await self._service.store.held(self._worker.id, MOST_QUEUED):
            if not self.has(task.id):
                why = "The worker of this task lost track of it."
                await give_back(self._service, task, lost=True, why=why)

    async def shutdown(self, grace_s: float | None = None) -> None:
        """Let the tools end for 5 s, or so long, then stop them.

        Of their tasks what may be repeated goes to the queue, for whoever starts next; the rest
        fails.
        """
        self._is_closing = True
        if self._legs:
            await asyncio.wait(self._legs, timeout=GRACE_S if grace_s is None else grace_s)
        for leg in list(self._legs):
            if leg in self._runs:
                self._runs[leg].give_up(None)
            else:
                leg.cancel()
        await asyncio.gather(*self._legs, return_exceptions=True)
        store, worker = self._service.store, self._worker.id
        try:
            for task in await store.held(worker, MOST_QUEUED):
                why = "The server was stopped."
                await give_back(self._service, task, lost=False, why=why)
            await store.strike(worker)
        except StoreError as error:  # others will notice that this process is gone
            log.warning("worker %s could not give back its tasks: %s", worker, error)

    # --- legs --------------------------------------------------------------------------------

    def _end(self, leg: asyncio.Task[None]) -> None:
        task_id = self._legs.pop(leg, None)
        if task_id is None:
            return  # another one took its place
        if not leg.cancelled() and (error := leg.exception()) is not None:
            log.error("task %s: its leg failed", task_id, exc_info=error)
        self._on_room()

    async def _leg(self, take: Callable[[], Awaitable[Claim | None]]) -> None:
        held = await take()
        if held is not None and not await held.is_lost():
            with self._service.observer.leg(held.task) as ended:
                await self._work(held, self._tools[str(held.task.call.name)], ended)

    async def _work(self, held: Claim, tool: Tool, ended: Callable[[LegEnd], None]) -> None:
        working = asyncio.current_task()
        assert working is not None, "legs are tasks"
        run = _Run(held, tool, self._threads, partial(self._stop, working, ended))
        self._runs[working] = run
        try:
            outcome = await run.leg.run()
        except asyncio.CancelledError:
            if not run.leg.is_given_up:
                await run.leg.clean_up(HASTE_S)
            raise
        finally:
            del self._runs[working]
            run.end()
        if run.leg.is_given_up:
            return
        ended("parked" if isinstance(outcome, Parked) else outcome or "lost")
        if isinstance(outcome, Parked):
            await _until_written(held.park)
        elif outcome is not None:
            await _until_written(partial(held.settle, outcome))
        if run.leg.is_gone:
            await run.leg.clean_up(self._patience_s)

    def _stop(
        self,
        working: asyncio.Task[None],
        ended: Callable[[LegEnd], None],
        run: "_Run",
        outcome: Outcome | None,
    ) -> None:
        """End a leg whose tool does not, in its place."""
        stopping = asyncio.create_task(
            self._stopped(run, outcome, ended), name=working.get_name(), context=run.context
        )
        self._legs[stopping] = self._legs.pop(working)
        stopping.add_done_callback(self._end, context=run.context)

    async def _stopped(
        self, run: "_Run", outcome: Outcome | None, ended: Callable[[LegEnd], None]
    ) -> None:
        try:
            if not self._is_closing:
                ended(outcome or "lost")
            if outcome is not None:
                await _until_written(partial(run.held.settle, outcome))
        finally:
            if not await run.leg.stop(self._patience_s, self._came_to_an_end):
                self._abandoned += 1

    @property
    def _patience_s(self) -> float:
        return HASTE_S if self._is_closing else PATIENCE_S

    def _came_to_an_end(self) -> None:
        self._abandoned -= 1
        self._on_room()


class _Place:
    """One tool may run, of a task that is being stored."""

    def __init__(self, service: TaskService, worker: str) -> None:
        self.worker = worker
        self.filled: asyncio.Future[Claim | None] = asyncio.get_running_loop().create_future()
        self._service = service

    def fill(self, task: Task | None) -> None:
        if not self.filled.done():  # the process may just be stopped
            self.filled.set_result(None if task is None else Claim(self._service, task))


class _Run:
    """A tool at work on a task, and who stops it: its time is over, or it is not its task any more.

    `stop` is called with this and the outcome then, or None if there is none to write, and once.
    """

    def __init__(
        self,
        held: Claim,
        tool: Tool,
        threads: Threads,
        stop: Callable[["_Run", Outcome | None], None],
    ) -> None:
        timeout_s = held.task.timeout_ms / 1_000
        self.held = held
        self.context = copy_context()
        """Where the tool runs, and is to be cleaned up: whoever stops it may be somewhere else."""
        self._stop = stop
        self._stopwatch = Stopwatch(timeout_s, lambda: self.give_up(self.leg.overtime(timeout_s)))
        self._watch = _Watch(held, lambda: self.give_up(None))
        context = Context(_TaskWork(held, self._stopwatch, parks=tool.parks))
        raised = held.service.observer.raised
        self.leg = Leg(tool, held.task.call.arguments, context, threads, raised)

    def give_up(self, outcome: Outcome | None) -> None:
        """Nobody waits for the tool any more."""
        if not self.leg.is_given_up:
            self.leg.is_given_up = True
            self.end()
            self._stop(self, outcome)

    def end(self) -> None:
        """Nobody needs to be stopped any more."""
        self._stopwatch.stop()
        self._watch.stop()


class _Watch:
    """Notices that a task is no longer ours: it ended, or somebody else has it.

    Being told is a hint, and costs little; work that takes its time is also looked after.
    """

    def __init__(self, held: Claim, lost: Callable[[], None]) -> None:
        self._held = held
        self._lost = lost
        self._leave = held.service.store.follow(held.task.id, self._hear)
        self._looking: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(WATCH_S, self._begin_to_look)

    def stop(self) -> None:
        self._lost = nobody
        self._leave()
        self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()

    def _hear(self, task: Task) -> None:
        if not self._held.is_held(task):
            self._lost()

    def _begin_to_look(self) -> None:
        self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        store, task_id = self._held.service.store, self._held.task.id
        while True:
            try:
                await wait_for(store, task_id, lambda task: not self._held.is_held(task))
            except NotFound:
                pass
            except StoreError as error:
                log.warning("task %s cannot be watched: %s", task_id, error)
                await asyncio.sleep(1)
                continue
            self._lost()
            return


async def _until_written(write: Callable[[], Awaitable[None]]) -> None:
    try:
        await persevere(write)
    except Gone as gone:  # USER-5: quietly, the task has its outcome
        log.info("a late outcome was dropped: %s", gone)


class _TaskWork:
    """The work behind the context of a tool that runs as a task."""

    def __init__(self, held: Claim, stopwatch: Stopwatch, *, parks: bool) -> None:
        self._held = held
        self._stopwatch = stopwatch
        self._parks = parks

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
        if park or self._parks:
            raise Parked(questions)
        with self._stopwatch.paused():
            return await persevere(lambda: self._held.answers(keys))
