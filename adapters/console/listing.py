"""Which tasks a list shows: a page of them, picked out of a bounded stretch of the store.

Stores know one order and one owner; whatever else is asked for is picked out here, and nobody
can make a server read all it has.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

import attrs

from taskmachine.adapters.console.access import Sight
from taskmachine.protocol.sealing import Position
from taskmachine.statemachine import DUTIES, TERMINAL, Task

__all__ = ["SIZES", "STATES", "Query", "Window", "position_of", "read_window"]

SIZES: Final = (50, 200, 1_000)
"""Rows of a page."""

MOST_READ: Final = 2_000
"""Tasks that are looked at for one page."""

LONGEST_FILTER: Final = 200

LIVE: Final = "live"
ENDED: Final = "ended"
STATES: Final = {
    LIVE: DUTIES.keys() - TERMINAL,
    ENDED: TERMINAL,
    **{state.value: frozenset({state}) for state in DUTIES},
}
"""What can be asked for, and the states that it means."""


@attrs.frozen
class Query:
    """What somebody wants to see.  What makes no sense counts as not said."""

    state: str = ""
    tool: str = ""
    owner: str = ""
    size: int = SIZES[0]
    after: str = ""
    """The cursor of the page before."""

    @classmethod
    def read(cls, params: Mapping[str, str]) -> "Query":
        """From the query of a URL."""
        state, size = params.get("state", ""), params.get("size", "")
        return cls(
            state if state in STATES else "",
            params.get("tool", "").strip()[:LONGEST_FILTER],
            params.get("owner", "").strip()[:LONGEST_FILTER],
            int(size) if size in map(str, SIZES) else SIZES[0],
            params.get("after", ""),
        )

    def url(self, **changes: Any) -> str:
        """As the query of a URL, with something else in it."""
        given = attrs.asdict(attrs.evolve(self, **changes))
        told = {name: value for name, value in given.items() if value not in ("", SIZES[0])}
        return f"?{urlencode(told)}" if told else "?"

    @property
    def is_filtered(self) -> bool:
        return bool(self.state or self.tool or self.owner)

    def wants(self, task: Task) -> bool:
        return (
            (not self.state or task.state in STATES[self.state])
            and (not self.tool or self.tool == (task.call.name or task.call.method))
            and (not self.owner or self.owner == task.owner)
        )


@attrs.frozen
class Window:
    """What was found."""

    tasks: Sequence[Task]
    others: Sequence[Task]
    """That were looked at, and may fit later."""
    read: int
    """How many were looked at."""
    cursor: str | None
    """Where the next page begins, if there is one."""


def position_of(sight: Sight, query: Query) -> Position | None:
    """Where the page begins; `InvalidParams` for a cursor of somebody else."""
    if not query.after:
        return None
    return sight.service.sealer.open_cursor(sight.visit.owner, query.after)


async def read_window(sight: Sight, query: Query) -> Window:
    """The page that was asked for; `InvalidParams` for a cursor of somebody else."""
    after = position_of(sight, query)
    found: list[Task] = []
    others: list[Task] = []
    read = 0
    while read < MOST_READ:
        wanted = query.size + 1 if not query.is_filtered else min(500, MOST_READ - read)
        batch = await sight.page(after, wanted)
        for task in batch:
            if len(found) == query.size:  # one more, so there is a next page
                return Window(found, others, read, _cursor(sight, after))
            read += 1
            after = Position(task.created_at, task.id)
            if query.wants(task):
                found.append(task)
            elif task.is_live:
                others.append(task)
        if len(batch) < wanted:
            return Window(found, others, read, None)
    return Window(found, others, read, _cursor(sight, after))


def _cursor(sight: Sight, after: Position | None) -> str:
    assert after is not None, "something was read"
    return sight.service.sealer.seal_cursor(sight.visit.owner, after)
