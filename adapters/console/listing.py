"""Filter and page the list of tasks, reading a bounded number of tasks for each page.

Stores can only list the tasks of one owner, or all, by creation.  The filters are applied here.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

import attrs

from taskmachine.adapters.console.access import TaskAccess
from taskmachine.protocol.sealing import Position
from taskmachine.statemachine import DUTIES, TERMINAL, Task

__all__ = ["SIZES", "STATES", "Query", "Window", "position_of", "read_window"]

SIZES: Final = (50, 200, 1_000)
"""Selectable numbers of rows of a page."""

MOST_READ: Final = 2_000
"""Maximum number of tasks read for one page."""

LONGEST_FILTER: Final = 200

LIVE: Final = "live"
ENDED: Final = "ended"
STATES: Final = {
    LIVE: DUTIES.keys() - TERMINAL,
    ENDED: TERMINAL,
    **{state.value: frozenset({state}) for state in DUTIES},
}
"""The values of the state filter, and the states that they select."""


@attrs.frozen
class Query:
    """The filters and the page of a list."""

    state: str = ""
    tool: str = ""
    owner: str = ""
    size: int = SIZES[0]
    after: str = ""
    """The cursor at the end of the previous page."""

    @classmethod
    def read(cls, params: Mapping[str, str]) -> "Query":
        """Read the query of a URL, ignoring invalid values."""
        state, size = params.get("state", ""), params.get("size", "")
        return cls(
            state if state in STATES else "",
            params.get("tool", "").strip()[:LONGEST_FILTER],
            params.get("owner", "").strip()[:LONGEST_FILTER],
            int(size) if size in map(str, SIZES) else SIZES[0],
            params.get("after", ""),
        )

    def url(self, **changes: Any) -> str:
        """Return the query of a URL with these changes."""
        given = attrs.asdict(attrs.evolve(self, **changes))
        given = {name: value for name, value in given.items() if value not in ("", SIZES[0])}
        return f"?{urlencode(given)}" if given else "?"

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
    """The tasks of one page."""

    tasks: Sequence[Task]
    others: Sequence[Task]
    """Live tasks that were read and do not match the filters yet."""
    read: int
    """The number of tasks read."""
    cursor: str | None
    """The position of the next page, if there is one."""


def position_of(access: TaskAccess, query: Query) -> Position | None:
    """Return the position where the page begins; `InvalidParams` for another visitor's cursor."""
    if not query.after:
        return None
    return access.service.sealer.open_cursor(access.session.owner, query.after)


async def read_window(access: TaskAccess, query: Query) -> Window:
    """Return the page; `InvalidParams` for another visitor's cursor."""
    after = position_of(access, query)
    found: list[Task] = []
    others: list[Task] = []
    read = 0
    while read < MOST_READ:
        wanted = query.size + 1 if not query.is_filtered else min(500, MOST_READ - read)
        batch = await access.page(after, wanted)
        for task in batch:
            if len(found) == query.size:  # one more, so there is a next page
                return Window(found, others, read, _cursor(access, after))
            read += 1
            after = Position(task.created_at, task.id)
            if query.wants(task):
                found.append(task)
            elif task.is_live:
                others.append(task)
        if len(batch) < wanted:
            return Window(found, others, read, None)
    return Window(found, others, read, _cursor(access, after))


def _cursor(access: TaskAccess, after: Position | None) -> str:
    assert after is not None, "at least one task was read"
    return access.service.sealer.seal_cursor(access.session.owner, after)
