"""Parts that the scripted servers of both revisions share: tasks, timestamps and responses."""

import asyncio
import datetime
import random
from collections.abc import Coroutine, Mapping
from typing import Any, Final

import attrs

from taskmachine.adapters.conformance.clients.script import TaskError, Tool
from taskmachine.adapters.conformance.history import TERMINAL

__all__ = [
    "CURSORS",
    "Background",
    "Ids",
    "ScriptedTask",
    "error",
    "page_of",
    "result",
    "timestamp",
]

CURSORS: Final = (' bmV4dA==/+ ü"&?%2F\\ ', "2", "0x3")
"""Opaque cursors, one of which looks like a number."""


def result(id: Any, body: Mapping[str, Any]) -> dict[str, Any]:
    """Build a JSON-RPC result response."""
    return {"jsonrpc": "2.0", "id": id, "result": dict(body)}


def error(id: Any, code: int, message: str, data: Any = None) -> dict[str, Any]:
    """Build a JSON-RPC error response."""
    more = {} if data is None else {"data": data}
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, **more}}


def timestamp() -> str:
    """Return the current time in ISO 8601."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def page_of(pages: int, cursor: Any) -> tuple[int, str | None] | None:
    """Return the page of a cursor and the cursor of the next page, or None if it is unknown."""
    known = {None: 0} | {CURSORS[n - 1]: n for n in range(1, pages)}
    if not (cursor is None or isinstance(cursor, str)) or cursor not in known:
        return None
    number = known[cursor]
    return number, CURSORS[number] if number + 1 < pages else None


class Background:
    """Concurrent work that is cancelled at the end of a run."""

    def __init__(self) -> None:
        self._working: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a coroutine in the background."""
        task = asyncio.get_running_loop().create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def close(self) -> None:
        """Cancel all background work."""
        working = list(self._working)
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)


@attrs.define(eq=False)
class ScriptedTask:
    """A task of either revision, without its messages."""

    id: str
    tool: Tool
    interval_ms: int = 250
    status: str = "working"
    created_at: str = attrs.field(factory=timestamp)
    updated_at: str = attrs.field(factory=timestamp)
    outcome: dict[str, Any] = attrs.field(factory=dict)
    """`result` or `error` in a terminal status."""
    ended: asyncio.Event = attrs.field(factory=asyncio.Event)

    def move(self, status: str) -> None:
        """Change the status unless it is terminal."""
        if self.status not in TERMINAL:
            self.status = status
            self.updated_at = timestamp()
        if self.status in TERMINAL:
            self.ended.set()

    async def run(self, task: Any) -> None:
        """Run the tool and record its outcome."""
        try:
            outcome = await self.tool.run(task)
        except TaskError as failure:
            self.outcome = {"error": {"code": failure.code, "message": failure.message}}
            self.move("failed")
        else:
            self.outcome = {"result": outcome}
            self.move(self.end_of(outcome))

    def end_of(self, outcome: Mapping[str, Any]) -> str:
        """Return the terminal status for a result."""
        return "completed"


class Ids:
    """Generate unguessable ids that are reproducible by the seed."""

    def __init__(self, source: random.Random) -> None:
        self._random = source

    def new(self) -> str:
        """Return a new id."""
        return f"{self._random.getrandbits(128):032x}"
