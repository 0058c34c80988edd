"""Plain calls: the same tools, run without a task and answered with their result."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.tool_runs import STOP_TIMEOUT_S, Stopwatch, ToolRunner
from taskmachine.adapters.tools.errors import CannotAsk, Gone
from taskmachine.adapters.tools.registry import Tool
from taskmachine.adapters.tools.retries import Again
from taskmachine.adapters.tools.work import Parked
from taskmachine.protocol.caller import Caller
from taskmachine.protocol.dialects.dialect import capabilities_for, kind_of
from taskmachine.protocol.errors import InvalidParams, MissingCapability
from taskmachine.protocol.jsonrpc import INTERNAL_ERROR
from taskmachine.statemachine import Call, LimitExceeded, Outcome, Progress, Question, Reply

__all__ = ["PlainCalls"]

Report = Callable[[Progress | None, str | None], None]
Ask = Callable[[Sequence[Question]], Awaitable[Mapping[str, Reply]]]


class PlainCalls:
    """Runs tools for callers that wait for the result, up to a limit per owner."""

    def __init__(self, limits: Limits, runner: ToolRunner, clock: Callable[[], int]) -> None:
        self._limits = limits
        self._clock = clock
        self._runner = runner
        self._running: Counter[str] = Counter()
        self._stopping: set[asyncio.Task[bool]] = set()

    async def run(
        self,
        caller: Caller,
        tool: Tool,
        call: Call,
        answers: Mapping[str, Reply],
        *,
        report: Report | None = None,
        ask: Ask | None = None,
    ) -> Outcome | Sequence[Question]:
        """Return the outcome, or the questions to answer before the call is repeated.

        With `ask` the tool continues when its questions are answered.  Cancelling this coroutine
        stops the tool.  `LimitExceeded` if the owner has too many calls in progress,
        `MissingCapability` if the tool asks a question of an undeclared kind.
        """
        owner = caller.owner
        if call.not_before is not None:
            raise InvalidParams("only a task can start later, and this call is none")
        if self._running[owner] >= self._limits.blocked_calls:
            raise LimitExceeded(f"{self._limits.blocked_calls} calls at the same time", 1_000)
        self._running[owner] += 1
        timeout_s = tool.timeout_ms / 1_000
        timed_out: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        stopwatch = Stopwatch(timeout_s, lambda: timed_out.set_result(None))
        work = _PlainWork(call, answers, stopwatch, report, ask, self._clock)
        run = self._runner.prepare(tool, call.arguments, work, caller)
        running = run.begin()
        try:
            either: set[asyncio.Future[Any]] = {running, timed_out}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            outcome = running.result() if running.done() else run.timed_out(timeout_s)
            assert outcome is not None, "a plain call has no task that could be lost"
            assert not isinstance(outcome, Again), "a plain call is tried once"
            return outcome.questions if isinstance(outcome, Parked) else outcome
        except CannotAsk as error:
            if ask is None:  # 2026-07-28:undeclared-capability-32021
                raise MissingCapability(capabilities_for([error.kind])) from None
            return Outcome.of_error(INTERNAL_ERROR, f"Tool '{tool.name}' failed: {error}")
        finally:
            work.has_ended = True
            stopwatch.stop()
            self._running[owner] -= 1
            if not self._running[owner]:
                del self._running[owner]
            # The response does not wait for the tool's cleanup.
            stopping = asyncio.create_task(run.stop(STOP_TIMEOUT_S, lambda: None))
            self._stopping.add(stopping)
            stopping.add_done_callback(self._stopping.discard)

    async def stopped(self) -> None:
        """Wait until the tools of past calls have ended, or were abandoned."""
        await asyncio.gather(*self._stopping)


class _PlainWork:
    """The work behind the context of a tool that runs as a plain call."""

    task_id = None
    failures = 0
    last_error: str | None = None
    observe_step = None

    def __init__(
        self,
        call: Call,
        answers: Mapping[str, Reply],
        stopwatch: Stopwatch,
        report: Report | None,
        ask: Ask | None,
        clock: Callable[[], int],
    ) -> None:
        self.has_ended = False
        self._call = call
        self._answers = dict(answers)
        self._stopwatch = stopwatch
        self._report = report
        self._ask = ask
        self._highest: float | None = None
        self._clock = clock
        self._recorded: list[bytes] = []

    async def report(self, *, progress: Progress | None, message: str | None) -> None:
        self._check()
        if progress is not None:
            if self._highest is not None and progress.value <= self._highest:
                progress = None
            else:
                self._highest = progress.value
        if self._report is not None and (progress is not None or message is not None):
            self._report(progress, message)

    async def ask(
        self, questions: Sequence[Question], *, park: bool, partial: bytes | None
    ) -> Mapping[str, Reply]:
        self._check()
        for question in questions:
            if kind_of(question) not in self._call.answers:
                raise CannotAsk(kind_of(question))
        missing = [question for question in questions if question.key not in self._answers]
        if missing and self._ask is None:
            raise Parked(questions)  # the client repeats the call with the answers
        if missing and self._ask is not None:
            with self._stopwatch.paused():
                self._answers.update(await self._ask(missing))
        return {question.key: self._answers[question.key] for question in questions}

    async def recorded(self) -> Sequence[bytes]:
        return self._recorded

    async def record(self, data: bytes) -> None:
        self._check()
        self._recorded.append(data)

    def now(self) -> int:
        return self._clock()

    async def sleep(self, until: int) -> None:
        await asyncio.sleep(max(0, until - self.now()) / 1_000)

    def _check(self) -> None:
        if self.has_ended:
            raise Gone("the call has ended")
