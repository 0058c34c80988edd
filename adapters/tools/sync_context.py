"""The context of a tool that runs in a thread."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from taskmachine.adapters.tools.context import Cleanup, Context
from taskmachine.adapters.tools.questions import Answer, Request
from taskmachine.protocol.caller import Caller

if TYPE_CHECKING:
    from typing_extensions import TypeForm

__all__ = ["SyncContext"]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_S = TypeVar("_S", bound=str)


class SyncContext:
    """The context of a tool that runs in a thread: the same methods, but blocking."""

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop

    @property
    def task_id(self) -> str | None:
        return self._context.task_id

    @property
    def attempt(self) -> int:
        return self._context.attempt

    @property
    def last_error(self) -> str | None:
        return self._context.last_error

    @property
    def step_id(self) -> str | None:
        return self._context.step_id

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

    @overload
    def ask(
        self, key: str, question: Request[_T], *, park: bool = False, partial: Any = None
    ) -> _T: ...

    @overload
    def ask(
        self,
        key: str,
        question: str,
        answer_type: "TypeForm[_T]",
        *,
        park: bool = False,
        partial: Any = None,
    ) -> Answer[_T]: ...

    def ask(
        self,
        key: str,
        question: Any,
        answer_type: Any = None,
        *,
        park: bool = False,
        partial: Any = None,
    ) -> Any:
        asking = self._context.ask(key, question, answer_type, park=park, partial=partial)
        return self._wait(asking)

    def ask_all(
        self, requests: Mapping[str, Request[Any]], *, park: bool = False, partial: Any = None
    ) -> dict[str, Any]:
        return self._wait(self._context.ask_all(requests, park=park, partial=partial))

    def confirm(self, key: str, message: str, *, park: bool = False) -> bool:
        return self._wait(self._context.confirm(key, message, park=park))

    @overload
    def choose(
        self, key: str, message: str, options: "TypeForm[_T]", *, park: bool = False
    ) -> _T | None: ...

    @overload
    def choose(
        self,
        key: str,
        message: str,
        options: Sequence[_S] | Mapping[_S, str],
        *,
        park: bool = False,
    ) -> _S | None: ...

    def choose(self, key: str, message: str, options: Any, *, park: bool = False) -> Any:
        return self._wait(self._context.choose(key, message, options, park=park))

    @overload
    def step(
        self, key: str, function: Callable[_P, Awaitable[_T]], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T: ...

    @overload
    def step(
        self, key: str, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T: ...

    def step(self, key: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return self._wait(self._context.step(key, function, *args, **kwargs))

    def sleep(
        self,
        key: str,
        seconds: float = 0,
        *,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
    ) -> None:
        self._wait(self._context.sleep(key, seconds, minutes=minutes, hours=hours, days=days))

    def on_cancel(self, cleanup: Cleanup) -> None:
        """Call `cleanup` on the thread of the event loop if the call is stopped."""
        self._context.on_cancel(cleanup)

    def _wait(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()
