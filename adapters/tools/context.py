"""What a tool sees of the call that it serves, be it a task or a plain call.

    @tools.task()
    async def deploy(version: str, ctx: Context) -> str:
        await ctx.progress(1, 3, "building")
        answer = await ctx.ask("go", form("Deploy now?", Confirmation))
        ...

A question has a key that the tool chooses, the same on every run: a tool that is run again, after
a crash or because it parked, gets the answer that is there and never asks a person twice.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Generic, Literal, Protocol, TypeVar
from urllib.parse import urlsplit

import attrs

from taskmachine.adapters.tools.form_answers import fits
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
    """The tool ends this leg and is run again with the answers.

    Not an Exception: a tool that catches those must not catch this.
    """

    def __init__(self, questions: Sequence[Question]) -> None:
        super().__init__("parked")
        self.questions = questions


class Refused(TaskmachineError):
    """Whoever was asked answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"the question was refused: {message}")
        self.code = code
        self.message = message


@attrs.frozen
class Request(Generic[_A_co]):
    """Something to ask, by the type of its answer: see `form`, `url` and `sampling`."""

    method: str
    params: JSONObject


@attrs.frozen
class Answer:
    """What somebody did with a form or a link; `content` is there if they accepted a form.

    What does not fit the form is not accepted: it counts as `cancel`.
    """

    action: Literal["accept", "decline", "cancel"]
    content: JSONObject = attrs.field(factory=dict)


def form(message: str, schema: JSONObject) -> Request[Answer]:
    """Ask a person to fill in a form: an object schema with flat, primitive properties."""
    return Request(
        "elicitation/create", {"mode": "form", "message": message, "requestedSchema": schema}
    )


def url(message: str, address: str, elicitation_id: str) -> Request[Answer]:
    """Ask a person to visit a page; ValueError unless the address is a whole URL."""
    if not urlsplit(address).scheme or not address.isprintable() or " " in address:
        # 2025-11-25:elicitation-url-valid
        raise ValueError(f"a link needs an absolute URL, got {address!r:.80}")
    return Request(
        "elicitation/create",
        {"mode": "url", "message": message, "url": address, "elicitationId": elicitation_id},
    )


def sampling(messages: Sequence[JSONObject], max_tokens: int, **more: Any) -> Request[JSONObject]:
    """Ask the model of the requestor; `more` are other members of the request."""
    params = {"messages": list(messages), "maxTokens": max_tokens, **more}
    return Request("sampling/createMessage", params)


def questions_of(requests: Mapping[str, Request[Any]]) -> tuple[Question, ...]:
    """As a record keeps them."""
    return tuple(
        Question(key, request.method, encode_json(request.params))
        for key, request in requests.items()
    )


class Work(Protocol):
    """What stands behind a context."""

    @property
    def task_id(self) -> str | None: ...

    async def report(self, *, progress: Progress | None, message: str | None) -> None: ...

    async def ask(
        self, questions: Sequence[Question], *, park: bool, partial: bytes | None
    ) -> Mapping[str, Reply]: ...


class Context:
    """For tools that are coroutines; `SyncContext` is the same for plain functions."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._cleanups: list[Cleanup] = []
        self._is_cancelled = False

    @property
    def task_id(self) -> str | None:
        """The task that this call is, if it is one."""
        return self._work.task_id

    @property
    def is_cancelled(self) -> bool:
        """Whether there is no point in going on."""
        return self._is_cancelled

    async def progress(
        self, done: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Say how far the work is.  A value that is not above the last one is dropped.

        ValueError unless both are finite; `Gone` after the end.
        """
        await self._work.report(progress=Progress(done, total, message), message=message)

    async def status(self, message: str) -> None:
        """Say what is going on."""
        await self._work.report(progress=None, message=message)

    async def ask(
        self, key: str, request: Request[_T], *, park: bool = False, partial: Any = None
    ) -> _T:
        """Ask whoever made the call, and wait: an `Answer` to a form or a link, else the result.

        With `park` the tool is ended here and run again once there is an answer, so that no
        worker is kept waiting.  `partial` is what there is to show of the result until then.
        """
        answer: _T = (await self.ask_all({key: request}, park=park, partial=partial))[key]
        return answer

    async def ask_all(
        self, requests: Mapping[str, Request[Any]], *, park: bool = False, partial: Any = None
    ) -> dict[str, Any]:
        """Ask several things at once.  The first error among the answers is raised: `Refused`."""
        questions = questions_of(requests)
        shown = None if partial is None else encode_json(partial)
        replies = await self._work.ask(questions, park=park, partial=shown)
        return {key: _read(request, replies[key]) for key, request in requests.items()}

    def on_cancel(self, cleanup: Cleanup) -> None:
        """Call this, the last one first, when the call is stopped from outside."""
        self._cleanups.append(cleanup)

    async def cancelled(self) -> None:
        """The call was stopped: clean up.  An error in one cleanup does not stop the others."""
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
            log.warning("an answer does not fit its form, and counts as none")
            return Answer("cancel")
        return Answer(body["action"], content)
    return body


class SyncContext:
    """The context of a tool that runs in a thread: the same methods, and they block."""

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop

    @property
    def task_id(self) -> str | None:
        return self._context.task_id

    @property
    def is_cancelled(self) -> bool:
        """A thread cannot be stopped from outside: look here now and then."""
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
        """The cleanup is called on the thread of the event loop."""
        self._context.on_cancel(cleanup)

    def _wait(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
