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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, overload

from taskmachine.adapters.tools.questions import (
    Answer,
    Request,
    choose,
    confirm,
    form,
    questions_of,
)
from taskmachine.protocol.caller import Caller
from taskmachine.protocol.jsonvalue import decode_json, encode_json
from taskmachine.statemachine import Progress, Question, Reply, TaskmachineError

if TYPE_CHECKING:
    from typing_extensions import TypeForm

__all__ = ["Cleanup", "Context", "Parked", "Refused", "Work"]

log: Final = logging.getLogger("taskmachine")

_T = TypeVar("_T")
_S = TypeVar("_S", bound=str)
Cleanup = Callable[[], object]


class Parked(BaseException):
    """Ends this run of the tool, which runs again with the answers.

    Not an Exception, so that `except Exception` in a tool does not catch it.
    """

    def __init__(self, questions: Sequence[Question]) -> None:
        super().__init__("parked")
        self.questions = questions


class Refused(TaskmachineError):
    """The client answered a question with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"the question was refused: {message}")
        self.code = code
        self.message = message


class Work(Protocol):
    """The task or plain call behind a context."""

    @property
    def task_id(self) -> str | None: ...

    async def report(self, *, progress: Progress | None, message: str | None) -> None: ...

    async def ask(
        self, questions: Sequence[Question], *, park: bool, partial: bytes | None
    ) -> Mapping[str, Reply]: ...


class Context:
    """The context of coroutine tools; plain functions get a `SyncContext`."""

    def __init__(self, work: Work, caller: Caller, lifespan: Callable[[], Any]) -> None:
        self._work = work
        self._caller = caller
        self._lifespan = lifespan
        self._cleanups: list[Cleanup] = []
        self._is_cancelled = False

    @property
    def task_id(self) -> str | None:
        """The id of the task, or None for a plain call."""
        return self._work.task_id

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
