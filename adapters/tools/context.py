"""The context of a tool, in a task or in a plain call.

    @tools.task()
    async def deploy(version: str, ctx: Context) -> str:
        await ctx.progress(1, 3, "building")
        answer = await ctx.ask("go", form("Deploy now?", Confirmation))
        ...

The tool chooses a key for each question, the same on every run: when it runs again, after a crash
or because it parked, it gets the stored answer, so no person is asked twice.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Generic, Literal, Protocol, TypeVar
from urllib.parse import urlsplit

import attrs

from taskmachine.adapters.tools.form_answers import fits
from taskmachine.protocol.caller import Caller
from taskmachine.protocol.jsonvalue import JSONObject, decode_json, encode_json
from taskmachine.statemachine import Progress, Question, Reply, TaskmachineError

__all__ = [
    "Answer",
    "Context",
    "Parked",
    "Refused",
    "Request",
    "SyncContext",
    "Work",
    "form",
    "questions_of",
    "sampling",
    "url",
]

log: Final = logging.getLogger("taskmachine")

_T = TypeVar("_T")
_A_co = TypeVar("_A_co", covariant=True)
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


@attrs.frozen
class Request(Generic[_A_co]):
    """A question, generic in the type of its answer: see `form`, `url` and `sampling`."""

    method: str
    params: JSONObject


@attrs.frozen
class Answer:
    """The user's answer to a form or a link, with `content` if a form was accepted.

    Content that does not fit the form counts as `cancel`.
    """

    action: Literal["accept", "decline", "cancel"]
    content: JSONObject = attrs.field(factory=dict)


def form(message: str, schema: JSONObject) -> Request[Answer]:
    """Ask the user to fill in a form: an object schema with flat, primitive properties."""
    return Request(
        "elicitation/create", {"mode": "form", "message": message, "requestedSchema": schema}
    )


def url(message: str, address: str, elicitation_id: str) -> Request[Answer]:
    """Ask the user to visit a page; ValueError unless the address is an absolute URL."""
    if not urlsplit(address).scheme or not address.isprintable() or " " in address:
        # 2025-11-25:elicitation-url-valid
        raise ValueError(f"address must be an absolute URL, got {address!r:.80}")
    return Request(
        "elicitation/create",
        {"mode": "url", "message": message, "url": address, "elicitationId": elicitation_id},
    )


def sampling(messages: Sequence[JSONObject], max_tokens: int, **more: Any) -> Request[JSONObject]:
    """Ask the client's model; `more` are further members of the request."""
    params = {"messages": list(messages), "maxTokens": max_tokens, **more}
    return Request("sampling/createMessage", params)


def questions_of(requests: Mapping[str, Request[Any]]) -> tuple[Question, ...]:
    """Return the questions as a task record stores them."""
    return tuple(
        Question(key, request.method, encode_json(request.params))
        for key, request in requests.items()
    )


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

    async def ask(
        self, key: str, request: Request[_T], *, park: bool = False, partial: Any = None
    ) -> _T:
        """Ask the client and wait; return an `Answer` to a form or a link, or else the result.

        With `park` the tool ends here and runs again once there is an answer, so no worker waits.
        `partial` is a partial result to show until then.
        """
        answer: _T = (await self.ask_all({key: request}, park=park, partial=partial))[key]
        return answer

    async def ask_all(
        self, requests: Mapping[str, Request[Any]], *, park: bool = False, partial: Any = None
    ) -> dict[str, Any]:
        """Ask several questions together.  Raise the first error among the answers as `Refused`."""
        questions = questions_of(requests)
        shown = None if partial is None else encode_json(partial)
        replies = await self._work.ask(questions, park=park, partial=shown)
        return {key: _read(request, replies[key]) for key, request in requests.items()}

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


def _read(request: Request[Any], reply: Reply) -> Any:
    body = decode_json(reply.body)
    if reply.is_error:
        raise Refused(body.get("code", 0), str(body.get("message", "")))
    if request.method == "elicitation/create":
        content = body.get("content") or {}
        schema = request.params.get("requestedSchema")
        if body["action"] == "accept" and schema is not None and not fits(schema, content):
            # 2025-11-25:elicitation-server-validates
            log.warning("an answer does not fit its form; treating it as cancelled")
            return Answer("cancel")
        return Answer(body["action"], content)
    return body


class SyncContext:
    """The context of a tool that runs in a thread: the same methods, but blocking."""

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop

    @property
    def task_id(self) -> str | None:
        return self._context.task_id

    @property
    def caller(self) -> Caller:
        return self._context.caller

    @property
    def owner(self) -> str:
        return self._context.owner

    @property
    def claims(self) -> Mapping[str, Any]:
        return self._context.claims

    @property
    def scopes(self) -> frozenset[str]:
        return self._context.scopes

    @property
    def lifespan(self) -> Any:
        return self._context.lifespan

    @property
    def is_cancelled(self) -> bool:
        """True once the call was stopped.  Check it regularly, as a thread cannot be stopped."""
        return self._context.is_cancelled

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        self._wait(self._context.progress(done, total, message))

    def status(self, message: str) -> None:
        self._wait(self._context.status(message))

    def ask(self, key: str, request: Request[_T], *, park: bool = False, partial: Any = None) -> _T:
        return self._wait(self._context.ask(key, request, park=park, partial=partial))

    def ask_all(
        self, requests: Mapping[str, Request[Any]], *, park: bool = False, partial: Any = None
    ) -> dict[str, Any]:
        return self._wait(self._context.ask_all(requests, park=park, partial=partial))

    def on_cancel(self, cleanup: Cleanup) -> None:
        """Call `cleanup` on the thread of the event loop if the call is stopped."""
        self._context.on_cancel(cleanup)

    def _wait(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
