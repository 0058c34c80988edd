"""The worker of an engine, which runs the tools of claimed tasks.

Engines differ in how they find tasks; this module claims them and runs their tools.
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
from taskmachine.adapters.runtime.observer import RunEnd
from taskmachine.adapters.runtime.service import Reservation, TaskService
from taskmachine.adapters.runtime.tool_runs import STOP_TIMEOUT_S, Ended, Stopwatch, ToolRunner
from taskmachine.adapters.runtime.waiting import retry_store_errors
from taskmachine.adapters.stores import StoreError, Worker
from taskmachine.adapters.tools.errors import Gone
from taskmachine.adapters.tools.registry import Tool, Tools
from taskmachine.adapters.tools.retries import Again
from taskmachine.adapters.tools.work import ObserveStep, Parked
from taskmachine.protocol.caller import Caller
from taskmachine.protocol.jsonrpc import INTERNAL_ERROR
from taskmachine.statemachine import (
    ConfigurationError,
    NotFound,
    Outcome,
    Progress,
    Question,
    Reply,
    Task,
)

__all__ = ["BEAT_S", "MOST_QUEUED", "POLL_S", "WAKE_S", "TaskWorker"]

log: Final = logging.getLogger("taskmachine")

FAIR: Final = 3
"""An owner may start a tool while it holds less than this many times the free places.

One owner gets at most three quarters of the places (all of up to three places); every owner more
makes the parts smaller.  An owner that holds none may always take a free one.
"""

GRACE_S: Final = 5.0
"""How long running tools may continue at shutdown."""

CLOSING_STOP_TIMEOUT_S: Final = 0.5
"""How long stopped tools may clean up at shutdown."""

POLL_S: Final = 5.0
"""How often an engine polls the store for tasks without a notification."""

WAKE_S: Final = 0.25
"""How often an engine looks for tasks that have become due."""

WATCH_S: Final = 0.25
"""After this time a running tool also polls its task, as a notification may be lost."""

BEAT_S: Final = 5.0
"""Interval of worker heartbeats."""

MOST_QUEUED: Final = 1_000
"""Maximum number of tasks that are read from the store at a time."""


_Ended = Callable[[RunEnd], None]
"""Reports to the observer how a tool run ended."""


class TaskWorker:
    """A registered worker of a service, and the tools that it runs.

    `on_room` is called when a tool has ended.
    """

    def __init__(
        self,
        service: TaskService,
        tools: Tools,
        runner: ToolRunner,
        new_worker: Callable[[], Worker],
        on_room: Callable[[], None],
    ) -> None:
        self._service = service
        self._tools = tools
        self._runner = runner
        self._new_worker = new_worker
        self._on_room = on_room
        self._worker = new_worker()
        self._concurrency = service.limits.concurrency
        self._running: dict[asyncio.Task[None], _Place] = {}
        self._held: dict[str, int] = {}
        self._runs: dict[asyncio.Task[None], _TaskRun] = {}
        self._abandoned = 0
        self._is_closing = False

    @property
    def has_room(self) -> bool:
        """True if one more tool may run."""
        return self._free > 0

    def has_room_for(self, owner: str) -> bool:
        """Return True if one more tool of this owner may run."""
        return self._held.get(owner, 0) < FAIR * self._free

    @property
    def owners_without_room(self) -> list[str]:
        """The owners of running tools that may not run one more."""
        most = FAIR * self._free
        return [owner for owner, held in self._held.items() if held >= most]

    def has(self, task_id: str) -> bool:
        """Return True if the tool of this task runs or is about to run here."""
        return any(place.task_id == task_id for place in self._running.values())

    def begin(self, task_id: str, owner: str, take: Callable[[], Awaitable[Claim | None]]) -> None:
        """Run the tool of a task once `take` has claimed it."""
        running = asyncio.create_task(self._run(take), name=f"task {task_id}")
        self._running[running] = _Place(task_id, owner)
        self._held[owner] = self._held.get(owner, 0) + 1
        running.add_done_callback(self._end)

    def reserve(self, task: Task) -> Reservation:
        """Run the tool of a task as soon as it is stored."""
        claimed = asyncio.get_running_loop().create_future()
        reservation = _Reservation(self._service, self._worker.id, claimed)
        self.begin(task.id, task.owner, lambda: reservation.claim)
        return reservation

    def claim(self, task_id: str) -> Awaitable[Claim | None]:
        """Claim a task; return None if it is no longer queued."""
        return claim(self._service, task_id, self._worker.id)

    async def register(self) -> None:
        """Register the worker; claims of an unregistered worker are orphans."""
        await self._service.store.register_worker(self._worker)

    async def beat(self) -> float:
        """Send a heartbeat; register under a new id if the lease was lost."""
        if not await self._service.store.beat(self._worker.id):
            log.warning("worker %s lost its lease; registering under a new id", self._worker.id)
            worker = self._new_worker()
            await self._service.store.register_worker(worker)
            self._worker = worker  # only now: claims of an unregistered worker are orphans
        return BEAT_S

    async def give_back_lost(self) -> None:
        """Release tasks that this worker holds without knowing.

        They come from a claim that was committed although the store reported an error.
        """
        for task in await self._service.store.held(self._worker.id, MOST_QUEUED):
            if not self.has(task.id):
                why = "The worker of this task lost track of it."
                await give_back(self._service, task, lost=True, why=why)

    async def shutdown(self, grace_s: float | None = None) -> None:
        """Let tools finish for `grace_s` (default: 5 s), then stop them.

        Repeatable tasks of stopped tools are requeued; the others fail.
        """
        self._is_closing = True
        if self._running:
            await asyncio.wait(self._running, timeout=GRACE_S if grace_s is None else grace_s)
        for running in list(self._running):
            if running in self._runs:
                self._runs[running].give_up(None)
            else:
                running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        store, worker = self._service.store, self._worker.id
        try:
            for task in await store.held(worker, MOST_QUEUED):
                why = "The server was stopped."
                await give_back(self._service, task, lost=False, why=why)
            await store.remove_worker(worker)
        except StoreError as error:  # another process releases them when the lease expires
            log.warning("worker %s could not release its tasks: %s", worker, error)

    # --- tool runs ---------------------------------------------------------------------------

    @property
    def _free(self) -> int:
        if self._is_closing:
            return 0
        # Up to the same number of abandoned tools is tolerated; more of them reduce the capacity.
        taken = len(self._running) + max(0, self._abandoned - self._concurrency)
        return self._concurrency - taken

    def _end(self, running: asyncio.Task[None]) -> None:
        place = self._running.pop(running, None)
        if place is None:
            return  # `_stop` has replaced it
        self._held[place.owner] -= 1
        if not self._held[place.owner]:
            del self._held[place.owner]
        if not running.cancelled() and (error := running.exception()) is not None:
            log.error("task %s: its tool run failed", place.task_id, exc_info=error)
        self._on_room()

    async def _run(self, take: Callable[[], Awaitable[Claim | None]]) -> None:
        held = await take()
        if held is None:
            return
        if not self._service.is_newest(held.task) and await held.is_lost():
            return
        observer = self._service.observer
        with nullcontext() if observer is None else observer.tool_run(held.task) as ended:
            await self._work(held, ended)

    async def _work(self, held: Claim, ended: _Ended | None) -> None:
        running = asyncio.current_task()
        assert running is not None, "tool runs are asyncio tasks"
        try:
            tool = self._tools.of_version(str(held.task.call.name), held.task.tool_version)
            caller = self._service.caller(held.task)
        except ConfigurationError as error:
            log.error("task %s cannot run: %s", held.task.id, error)
            name = held.task.call.name
            refused = Outcome.of_error(INTERNAL_ERROR, f"Tool '{name}' cannot run: {error}")
            if ended is not None:
                ended(refused)
            await _until_written(partial(held.settle, refused))
            return
        run = self._runs[running] = _TaskRun(
            held, tool, self._runner, caller, partial(self._stop, running, ended)
        )
        tool_run = run.tool_run
        try:
            outcome = await tool_run.run()
        except asyncio.CancelledError:
            if not tool_run.is_given_up:
                await tool_run.clean_up(CLOSING_STOP_TIMEOUT_S)
            raise
        finally:
            del self._runs[running]
            run.end()
        if tool_run.is_given_up:
            return
        if ended is not None:
            ended(_run_end(outcome))
        if isinstance(outcome, Parked):
            await _until_written(partial(held.park, outcome.due_at))
        elif isinstance(outcome, Again):
            await _until_written(partial(held.try_again, outcome, tool.retries.count + 1))
        elif outcome is not None:
            await _until_written(partial(held.settle, outcome))
        if tool_run.is_gone:
            await tool_run.clean_up(self._stop_timeout_s)

    def _stop(
        self,
        running: asyncio.Task[None],
        ended: _Ended | None,
        run: "_TaskRun",
        outcome: Outcome | None,
    ) -> None:
        """Stop a tool in a new asyncio task, which replaces that of the tool."""
        stopping = asyncio.create_task(
            self._stopped(run, outcome, ended), name=running.get_name(), context=run.context
        )
        self._running[stopping] = self._running.pop(running)
        stopping.add_done_callback(self._end, context=run.context)

    async def _stopped(
        self, run: "_TaskRun", outcome: Outcome | None, ended: _Ended | None
    ) -> None:
        try:
            if ended is not None and not self._is_closing:
                ended(outcome or "lost")
            if outcome is not None:
                await _until_written(partial(run.held.settle, outcome))
        finally:
            if not await run.tool_run.stop(self._stop_timeout_s, self._abandoned_ended):
                self._abandoned += 1

    @property
    def _stop_timeout_s(self) -> float:
        return CLOSING_STOP_TIMEOUT_S if self._is_closing else STOP_TIMEOUT_S

    def _abandoned_ended(self) -> None:
        self._abandoned -= 1
        self._on_room()


@attrs.frozen
class _Place:
    """What holds one place of a worker."""

    task_id: str
    owner: str


@attrs.define(eq=False)
class _Reservation:
    """A reservation for a task that is about to be stored."""

    _service: TaskService
    worker: str
    claim: "asyncio.Future[Claim | None]"

    def resolve(self, task: Task | None) -> None:
        if not self.claim.done():  # shutdown may have cancelled it
            self.claim.set_result(None if task is None else Claim(self._service, task))


class _TaskRun:
    """A tool run for a task, and the conditions that stop it.

    `stop` is called once, with this run and the outcome to write, when the tool times out or the
    task is no longer held by this worker.
    """

    def __init__(
        self,
        held: Claim,
        tool: Tool,
        runner: ToolRunner,
        caller: Caller,
        stop: Callable[["_TaskRun", Outcome | None], None],
    ) -> None:
        task, service = held.task, held.service
        self.held = held
        self.task_id = task.id
        self.context = copy_context()
        """The context variables of the tool, also used to stop it and clean up."""
        self._stop = stop
        self._timeout_s = task.timeout_ms / 1_000
        self._stopwatch = Stopwatch(self._timeout_s, self._time_out)
        self._unfollow = service.store.follow(task.id, self._moved)
        # A notification may be lost, so long runs also poll their task.
        self._watching: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(WATCH_S, self._watch)
        work = _TaskWork(
            held,
            self._stopwatch,
            tool.parks,
            task.id,
            task.failures,
            task.error,
            None if service.observer is None else partial(service.observer.step, task),
        )
        self.tool_run = runner.prepare(tool, task.call.arguments, work, caller)

    def give_up(self, outcome: Outcome | None) -> None:
        """Stop the tool and write this outcome, if any."""
        if not self.tool_run.is_given_up:
            self.tool_run.is_given_up = True
            stop = self._stop
            self.end()
            stop(self, outcome)

    def end(self) -> None:
        """Stop watching the task, and break reference cycles, as a call may be large."""
        self._stop = _no_stop
        self._stopwatch.stop()
        self._unfollow()
        self._timer.cancel()
        if self._watching is not None:
            self._watching.cancel()

    def _time_out(self) -> None:
        self.give_up(self.tool_run.timed_out(self._timeout_s))

    def _moved(self, task: Task | None) -> None:
        if task is None or not self.held.is_held(task):
            self.give_up(None)

    def _watch(self) -> None:
        self._watching = asyncio.create_task(self._wait_until_lost())

    async def _wait_until_lost(self) -> None:
        while True:
            try:
                await self.held.service.until(
                    self.task_id, lambda task: not self.held.is_held(task)
                )
            except NotFound:
                pass
            except StoreError as error:
                log.warning("task %s cannot be watched: %s", self.task_id, error)
                await asyncio.sleep(1)
                continue
            self.give_up(None)
            return


def _no_stop(run: _TaskRun, outcome: Outcome | None) -> None:
    """Do nothing: the run has ended."""


def _run_end(outcome: Ended | None) -> RunEnd:
    match outcome:
        case None:
            return "lost"
        case Parked():
            return "parked"
        case Again():
            return "retried"
    return outcome


async def _until_written(write: Callable[[], Awaitable[None]]) -> None:
    try:
        await retry_store_errors(write)
    except Gone as gone:  # not an error: the task has already ended
        log.info("discarded a late outcome: %s", gone)


@attrs.frozen
class _TaskWork:
    """The work behind the context of a tool that runs as a task."""

    _held: Claim
    _stopwatch: Stopwatch
    _parks: bool
    task_id: str
    failures: int
    last_error: str | None
    observe_step: ObserveStep | None

    async def report(self, *, progress: Progress | None, message: str | None) -> None:
        try:
            await self._held.report(progress=progress, message=message)
        except StoreError as error:  # a lost report must not fail the tool
            log.warning("task %s: a report was lost: %s", self.task_id, error)

    async def ask(
        self, questions: Sequence[Question], *, park: bool, partial: bytes | None
    ) -> Mapping[str, Reply]:
        replies = await retry_store_errors(lambda: self._held.ask(questions, partial=partial))
        keys = {question.key for question in questions}
        if replies.keys() == keys:
            return replies
        if park or self._parks:
            raise Parked(questions)
        with self._stopwatch.paused():
            return await retry_store_errors(lambda: self._held.answers(keys))

    async def recorded(self) -> Sequence[bytes]:
        return await retry_store_errors(self._held.recorded)

    async def record(self, data: bytes) -> None:
        await retry_store_errors(lambda: self._held.record(data))

    def now(self) -> int:
        return self._held.service.clock()

    async def sleep(self, until: int) -> None:
        if self.now() < until:
            raise Parked(due_at=until)
