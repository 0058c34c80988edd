"""Where a worker runs the tools of the tasks that it has: coroutines on the event loop, functions
in threads.

Engines differ in how they come by tasks; what they do with one is this.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from contextvars import copy_context
from functools import partial
from typing import Final

import attrs

from taskmachine.adapters.runtime.claims import Claim, claim, give_back
from taskmachine.adapters.runtime.observer import LegEnd
from taskmachine.adapters.runtime.service import Place, TaskService
from taskmachine.adapters.runtime.tool_runs import PATIENCE_S, Leg, Stopwatch
from taskmachine.adapters.runtime.waiting import persevere, wait_for
from taskmachine.adapters.stores import StoreError, Worker
from taskmachine.adapters.tools.context import Context, Parked
from taskmachine.adapters.tools.errors import Gone
from taskmachine.adapters.tools.registry import Threads, Tool
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


_Ended = Callable[[LegEnd], None]
"""Takes how one run of a tool ended."""


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
        filled = asyncio.get_running_loop().create_future()
        place = _Place(self._service, self._worker.id, filled)
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
        if held is None:
            return
        if not self._service.is_newest(held.task) and await held.is_lost():
            return
        observer = self._service.observer
        with nullcontext() if observer is None else observer.leg(held.task) as ended:
            await self._work(held, ended)

    async def _work(self, held: Claim, ended: _Ended | None) -> None:
        tool = self._tools[str(held.task.call.name)]
        working = asyncio.current_task()
        assert working is not None, "legs are tasks"
        run = self._runs[working] = _Run(
            held, tool, self._threads, partial(self._stop, working, ended)
        )
        leg = run.leg
        try:
            outcome = await leg.run()
        except asyncio.CancelledError:
            if not leg.is_given_up:
                await leg.clean_up(HASTE_S)
            raise
        finally:
            del self._runs[working]
            run.end()
        if leg.is_given_up:
            return
        if ended is not None:
            ended("parked" if isinstance(outcome, Parked) else outcome or "lost")
        if isinstance(outcome, Parked):
            await _until_written(held.park)
        elif outcome is not None:
            await _until_written(partial(held.settle, outcome))
        if leg.is_gone:
            await leg.clean_up(self._patience_s)

    def _stop(
        self,
        working: asyncio.Task[None],
        ended: _Ended | None,
        run: "_Run",
        outcome: Outcome | None,
    ) -> None:
        """End a leg whose tool does not, in its place."""
        stopping = asyncio.create_task(
            self._stopped(run, outcome, ended), name=working.get_name(), context=run.context
        )
        self._legs[stopping] = self._legs.pop(working)
        stopping.add_done_callback(self._end, context=run.context)

    async def _stopped(self, run: "_Run", outcome: Outcome | None, ended: _Ended | None) -> None:
        try:
            if ended is not None and not self._is_closing:
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


@attrs.define(eq=False)
class _Place:
    """A place for the tool of a task that is being stored."""

    _service: TaskService
    worker: str
    filled: "asyncio.Future[Claim | None]"

    def fill(self, task: Task | None) -> None:
        if not self.filled.done():  # the process may just be stopped
            self.filled.set_result(None if task is None else Claim(self._service, task))


class _Run:
    """A tool at work on a task, and what stops it.

    `stop` is called once, with this run and the outcome to write, when the time of the tool is
    over or the task is no longer held here.
    """

    def __init__(
        self,
        held: Claim,
        tool: Tool,
        threads: Threads,
        stop: Callable[["_Run", Outcome | None], None],
    ) -> None:
        task, service = held.task, held.service
        self.held = held
        self.task_id = task.id
        self.context = copy_context()
        """Where the tool runs and is cleaned up: the caller that stops it may have another."""
        self._stop = stop
        self._timeout_s = task.timeout_ms / 1_000
        self._stopwatch = Stopwatch(self._timeout_s, self._time_out)
        self._leave = service.store.follow(task.id, self._moved)
        # A hint may get lost, so work that takes its time is also watched.
        self._watching: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(WATCH_S, self._watch)
        context = Context(_TaskWork(held, self._stopwatch, tool.parks, task.id))
        self.leg = Leg(tool, task.call.arguments, context, threads, service.raised)

    def give_up(self, outcome: Outcome | None) -> None:
        """Stop the tool from outside."""
        if not self.leg.is_given_up:
            self.leg.is_given_up = True
            stop = self._stop
            self.end()
            stop(self, outcome)

    def end(self) -> None:
        """Watch no longer; break the reference cycles, as a call may carry much."""
        self._stop = _no_stop
        self._stopwatch.stop()
        self._leave()
        self._timer.cancel()
        if self._watching is not None:
            self._watching.cancel()

    def _time_out(self) -> None:
        self.give_up(self.leg.overtime(self._timeout_s))

    def _moved(self, task: Task | None) -> None:
        if task is None or not self.held.is_held(task):
            self.give_up(None)

    def _watch(self) -> None:
        self._watching = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while True:
            try:
                await wait_for(
                    self.held.service.store,
                    self.task_id,
                    lambda task: not self.held.is_held(task),
                )
            except NotFound:
                pass
            except StoreError as error:
                log.warning("task %s cannot be watched: %s", self.task_id, error)
                await asyncio.sleep(1)
                continue
            self.give_up(None)
            return


def _no_stop(run: _Run, outcome: Outcome | None) -> None:
    """Stand for a run that has ended."""


async def _until_written(write: Callable[[], Awaitable[None]]) -> None:
    try:
        await persevere(write)
    except Gone as gone:  # quietly: the task has its outcome
        log.info("a late outcome was dropped: %s", gone)


@attrs.frozen
class _TaskWork:
    """The work behind the context of a tool that runs as a task."""

    _held: Claim
    _stopwatch: Stopwatch
    _parks: bool
    task_id: str

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
