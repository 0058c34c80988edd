"""The context of a tool, in a task or in a plain call.

    @tools.task()
    async def deploy(version: str, ctx: Context) -> str:
        await ctx.progress(1, 3, "building")
        if not await ctx.confirm("go", "Deploy now?"):
            ...

The tool chooses a key for each question, the same on every run: when it runs again, after a crash
or because it parked, it gets the stored answer, so no person is asked twice.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar, overload

from taskmachine.adapters.tools.questions import (
    Answer,
    Request,
    choose,
    confirm,
    form,
    questions_of,
)
from taskmachine.adapters.tools.recorded import Recorder, StepError
from taskmachine.adapters.tools.retries import MOST_S
from taskmachine.adapters.tools.work import Work
from taskmachine.protocol.caller import Caller
from taskmachine.protocol.jsonvalue import decode_json, encode_json
from taskmachine.statemachine import Progress, Reply, TaskmachineError

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from taskmachine.adapters.tools.steps import RunInThread, Step

__all__ = ["Cleanup", "Context", "Refused"]

log: Final = logging.getLogger("taskmachine")

_P = ParamSpec("_P")
_T = TypeVar("_T")
_S = TypeVar("_S", bound=str)
Cleanup = Callable[[], object]


class Refused(TaskmachineError):
    """The client answered a question with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"the question was refused: {message}")
        self.code = code
        self.message = message


class Context:
    """The context of coroutine tools; plain functions get a `SyncContext`."""

    def __init__(
        self,
        work: Work,
        caller: Caller,
        lifespan: Callable[[], Any],
        run_in_thread: "RunInThread",
    ) -> None:
        self._work = work
        self._run_in_thread = run_in_thread
        self._caller = caller
        self._lifespan = lifespan
        self._cleanups: list[Cleanup] = []
        self._is_cancelled = False

    @cached_property
    def _recorder(self) -> Recorder:
        return Recorder(self._work)

    @property
    def task_id(self) -> str | None:
        """The id of the task, or None for a plain call."""
        return self._work.task_id

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1; it grows when a failed attempt is retried."""
        return self._work.failures + 1

    @property
    def last_error(self) -> str | None:
        """What the last failed attempt raised, or None in the first one."""
        return self._work.last_error

    @property
    def step_id(self) -> str | None:
        """An id of the step that runs, the same in every run of the task.

        Use it as the idempotency key of the service that the step calls: a step that was done but
        not yet recorded when its worker was lost is done again.  None in a plain call, and outside
        of steps.
        """
        from taskmachine.adapters.tools.steps import step_key

        key = step_key.get()
        return None if key is None or self.task_id is None else f"{self.task_id}:{key}"

    @property
    def caller(self) -> Caller:
        """The caller who created the task or makes the plain call."""
        return self._caller

    @property
    def owner(self) -> str:
        """The owner of the caller's tasks, which identifies the caller."""
        return self._caller.owner

    @property
    def claims(self) -> Mapping[str, Any]:
        """The claims of the caller's verified token; empty without one."""
        return self._caller.claims

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes of the caller's verified token; empty without one."""
        return self._caller.scopes

    @property
    def lifespan(self) -> Any:
        """The value that the lifespan of the `Tools` yielded; ConfigurationError without one."""
        return self._lifespan()

    @property
    def is_cancelled(self) -> bool:
        """True once the call was stopped."""
        return self._is_cancelled

    async def progress(
        self, done: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Report progress.  A value that is not above the last one is dropped.

        ValueError unless both numbers are finite; `Gone` once the task has ended or was lost.
        """
        await self._work.report(progress=Progress(done, total, message), message=message)

    async def status(self, message: str) -> None:
        """Set the status message."""
        await self._work.report(progress=None, message=message)

    @overload
    async def ask(
        self, key: str, question: Request[_T], *, park: bool = False, partial: Any = None
    ) -> _T: ...

    @overload
    async def ask(
        self,
        key: str,
        question: str,
        answer_type: "TypeForm[_T]",
        *,
        park: bool = False,
        partial: Any = None,
    ) -> Answer[_T]: ...

    async def ask(
        self,
        key: str,
        question: Any,
        answer_type: Any = None,
        *,
        park: bool = False,
        partial: Any = None,
    ) -> Any:
        """Ask the client and wait for the answer.

        `ask(key, message, answer_type)` is `ask(key, form(message, answer_type))`.  With `park` the
        tool ends here and runs again once there is an answer, so no worker waits.  `partial` is a
        partial result to show until then.
        """
        if isinstance(question, str):
            question = form(question, answer_type)
        return (await self.ask_all({key: question}, park=park, partial=partial))[key]

    async def ask_all(
        self, requests: Mapping[str, Request[Any]], *, park: bool = False, partial: Any = None
    ) -> dict[str, Any]:
        """Ask several questions together.  Raise the first error among the answers as `Refused`."""
        questions = questions_of(requests)
        shown = None if partial is None else encode_json(partial)
        replies = await self._work.ask(questions, park=park, partial=shown)
        return {key: _read(request, replies[key]) for key, request in requests.items()}

    async def confirm(self, key: str, message: str, *, park: bool = False) -> bool:
        """Ask for a yes or no; False if the user declines."""
        return await self.ask(key, confirm(message), park=park)

    @overload
    async def choose(
        self, key: str, message: str, options: "TypeForm[_T]", *, park: bool = False
    ) -> _T | None: ...

    @overload
    async def choose(
        self,
        key: str,
        message: str,
        options: Sequence[_S] | Mapping[_S, str],
        *,
        park: bool = False,
    ) -> _S | None: ...

    async def choose(self, key: str, message: str, options: Any, *, park: bool = False) -> Any:
        """Ask for one of some texts, of a Literal, or of the members of an Enum.

        A mapping has the text to return and the title to show.  None if the user declines.
        """
        return await self.ask(key, choose(message, options), park=park)

    @overload
    def step(self, key: str) -> "AbstractAsyncContextManager[Step]": ...

    @overload
    def step(
        self, key: str, function: Callable[_P, Awaitable[_T]], *args: _P.args, **kwargs: _P.kwargs
    ) -> Coroutine[Any, Any, _T]: ...

    @overload
    def step(
        self, key: str, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> Coroutine[Any, Any, _T]: ...

    def step(
        self, key: str, function: Callable[..., Any] | None = None, *args: Any, **kwargs: Any
    ) -> Any:
        """Call a function once: its result is recorded, and later runs get it back.

            page = await ctx.step("fetch", fetch, url)

        The function may be a coroutine function, or a plain one, which runs in a thread.  Its
        result must be JSON, and has the type that the function declares.  An error is not recorded.
        The same key with other arguments is a `StepError`.  `retrying` gives a step retries and a
        time-out.

        Without a function it is a block, `async with ctx.step("fetch") as step`, that sets
        `step.result` unless `step.is_recorded`.
        """
        from taskmachine.adapters.tools import steps  # it needs pydantic, which is slow to import

        if function is None:
            return steps.block(self._recorder, key)
        seed = self.task_id or ""
        return steps.run(self._recorder, self._run_in_thread, seed, key, function, args, kwargs)

    async def gather(self, *steps: Awaitable[_T]) -> list[_T]:
        """Run steps at the same time and return their results in order.

        The first error stops the other steps.  A step that parks lets them end first.
        """
        from taskmachine.adapters.tools.steps import gathered

        return await gathered(steps)

    async def sleep(
        self,
        key: str,
        seconds: float = 0,
        *,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
    ) -> None:
        """Sleep until a time that the first run decides, at most 7 days.

        The tool ends here and runs again at that time, so a task that sleeps takes no place and no
        connection, and survives restarts.  A plain call waits.
        """
        span_s = seconds + 60 * minutes + 3600 * hours + 86400 * days
        if not 0 <= span_s <= MOST_S:
            raise StepError(f"a sleep lasts from 0 s to 7 days, got {span_s:g} s")
        with self._recorder.using(key):
            found = await self._recorder.find("sleep", key, "")
            if found is None:
                until = self._work.now() + round(span_s * 1_000)
                await self._recorder.record("sleep", key, "", until)
            else:
                until = found["result"]
            await self._work.sleep(until)

    def on_cancel(self, cleanup: Cleanup) -> None:
        """Call `cleanup` if the call is stopped; the last one registered is called first."""
        self._cleanups.append(cleanup)

    async def cancelled(self) -> None:
        """Run the cleanups of a stopped call; an error in one does not stop the rest."""
        self._is_cancelled = True
        while self._cleanups:
            try:
                outcome = self._cleanups.pop()()
                if isinstance(outcome, Awaitable):
                    await outcome
            except Exception:
                log.exception("a cleanup of task %s failed", self.task_id)


def _read(request: Request[_T], reply: Reply) -> _T:
    body = decode_json(reply.body)
    if reply.is_error:
        raise Refused(body.get("code", 0), str(body.get("message", "")))
    return request.read(body)
