"""A call to a remote tool."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import attrs

from taskmachine.adapters.client.errors import CallFailed, Cancelled, SessionLost
from taskmachine.protocol.jsonvalue import JSONObject, decode_json
from taskmachine.statemachine import Cause, Outcome, Progress, TaskmachineError

__all__ = ["Question", "RemoteTask", "Update"]

MOST_UPDATES: Final = 1_000
"""Updates kept for slow readers; older ones are dropped."""


@attrs.frozen
class Update:
    """A change of status or progress."""

    status: str
    message: str | None = None
    progress: float | None = None
    total: float | None = None


@attrs.frozen
class Question:
    """A question of the server to the user."""

    method: str
    params: JSONObject
    key: str

    @property
    def message(self) -> str:
        """The message to show to the user; empty if there is none."""
        message = self.params.get("message")
        return message if isinstance(message, str) else ""

    def accept(self, **content: Any) -> JSONObject:
        """Return the answer that fills in a form."""
        return {"action": "accept", "content": content}

    def decline(self) -> JSONObject:
        """Return the answer that declines."""
        return {"action": "decline"}


class RemoteTask:
    """A running call, whether or not it is awaited.

    `async for update in task` yields changes of status and progress from the first to the last, for
    any number of readers.
    """

    def __init__(self, cancel: Callable[[], None]) -> None:
        self.id: str | None = None
        """The id of the task on the server; None for a plain call."""
        self._cancel = cancel
        self._updates: deque[Update] = deque(maxlen=MOST_UPDATES)
        self._count = 0
        self._news = asyncio.Event()
        self._known = asyncio.Event()
        self._ended = asyncio.Event()
        self._outcome: Outcome | TaskmachineError | None = None

    async def result(self) -> JSONObject:
        """Wait for the CallToolResult, including one with `isError`.

        Raises CallFailed for an error, Cancelled if the call was cancelled, and ConnectionLost if
        the server is no longer reachable.
        """
        await self._ended.wait()
        outcome = self._outcome
        if isinstance(outcome, TaskmachineError):
            raise outcome
        assert outcome is not None, "an ended call has an outcome"
        if outcome.cause is Cause.CANCELLED:
            raise Cancelled(outcome.message)
        if outcome.result is None:
            data = None if outcome.data is None else decode_json(outcome.data)
            raise CallFailed(outcome.code or 0, outcome.message or "", data)
        result: JSONObject = decode_json(outcome.result)
        return result

    async def cancel(self) -> None:
        """Ask the server to cancel the call; `result` reports how it ends.

        Raises CallFailed if the server does not support that.
        """
        if not self._ended.is_set():
            self._cancel()

    def __aiter__(self) -> AsyncIterator[Update]:
        return _Reader(self)

    async def update_after(self, seen: int) -> tuple[int, Update] | None:
        """Return the update after that number, or the oldest one kept; None after the end."""
        while seen >= self._count:
            if self._ended.is_set():
                return None
            await self._news.wait()
        missed = self._count - len(self._updates)
        number = max(seen, missed) + 1
        return number, self._updates[number - 1 - missed]

    @property
    def was_refused_unread(self) -> bool:
        """Whether the server rejected the call because it had lost the session."""
        return isinstance(self._outcome, SessionLost) and self.id is None

    @property
    def error_code(self) -> int | None:
        """The code of the JSON-RPC error that ended the call, if any."""
        return self._outcome.code if isinstance(self._outcome, Outcome) else None

    # --- called by the session --------------------------------------------------------------------

    async def wait_until_known(self) -> None:
        """Wait until the call is a task, shows progress, or has ended."""
        await self._known.wait()

    def show_status(self, status: str, message: str | None) -> None:
        """Record a change of status."""
        last = self._last()
        self._show(attrs.evolve(last, status=status, message=message))

    def show_progress(self, progress: Progress) -> None:
        """Record progress."""
        last = self._last()
        message = last.message if progress.message is None else progress.message
        self._show(Update(last.status, message, progress.value, progress.total))

    def end(self, outcome: Outcome | TaskmachineError) -> None:
        """Record the end of the call."""
        self._outcome = outcome
        self._ended.set()
        last = self._last()
        if last.status not in _ENDS:
            status, words = _end_of(outcome)
            last = attrs.evolve(last, status=status, message=words or last.message)
            self._show(last)
        self._wake()

    def _last(self) -> Update:
        return self._updates[-1] if self._updates else Update("working")

    def _show(self, update: Update) -> None:
        if self._updates and self._updates[-1] == update:
            return  # status and progress often carry the same message
        self._updates.append(update)
        self._count += 1
        self._wake()

    def _wake(self) -> None:
        self._known.set()
        self._news.set()
        self._news = asyncio.Event()


@attrs.define
class _Reader:
    """An iterator rather than a generator, so that abandoned ones need no cleanup."""

    _task: RemoteTask
    _seen: int = 0

    def __aiter__(self) -> AsyncIterator[Update]:
        return self

    async def __anext__(self) -> Update:
        found = await self._task.update_after(self._seen)
        if found is None:
            raise StopAsyncIteration
        self._seen, update = found
        return update


_ENDS: Final = ("completed", "failed", "cancelled")


def _end_of(outcome: Outcome | TaskmachineError) -> tuple[str, str | None]:
    if isinstance(outcome, TaskmachineError):
        return "failed", str(outcome)
    if outcome.cause is Cause.CANCELLED:
        return "cancelled", outcome.message
    return ("failed", outcome.message) if outcome.result is None else ("completed", None)
