"""A queue in which owners take turns; tasks of one owner are ordered by priority, then age."""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from taskmachine.adapters.tools.registry import Priority, Tool
from taskmachine.protocol.jsonvalue import decode_json
from taskmachine.statemachine import Task

__all__ = ["FairQueue", "priority_of"]

_RANKS: dict[Priority, int] = {"high": 0, "normal": 1, "low": 2}


class FairQueue:
    """Task ids by owner.  A priority orders tasks of one owner only.

    Neither a caller with a thousand tasks nor one with only high priorities delays other callers.
    """

    def __init__(self) -> None:
        self._by_owner: dict[str, list[tuple[int, int, str]]] = {}
        self._turns: deque[str] = deque()
        self.waiting: set[str] = set()
        """The ids of the queued tasks."""
        self._numbers = count()

    def push(self, task_id: str, owner: str, priority: Priority) -> None:
        """Add a task unless it is already queued."""
        if task_id in self.waiting:
            return
        self.waiting.add(task_id)
        if owner not in self._by_owner:
            self._by_owner[owner] = []
            self._turns.append(owner)
        heappush(self._by_owner[owner], (_RANKS[priority], next(self._numbers), task_id))

    def pop(self, may_start: Callable[[str], bool]) -> tuple[str, str] | None:
        """Remove the next task of an owner that may start one; return its id and the owner.

        An owner that is skipped keeps its turn.
        """
        owner = next(filter(may_start, self._turns), None)
        if owner is None:
            return None
        self._turns.remove(owner)
        tasks = self._by_owner[owner]
        _, _, task_id = heappop(tasks)
        self.waiting.remove(task_id)
        if tasks:
            self._turns.append(owner)
        else:
            del self._by_owner[owner]
        return task_id, owner


def priority_of(task: Task, tool: Tool | None) -> Priority:
    """Return the priority that the creator requested, or else that of the tool."""
    otherwise: Priority = "normal" if tool is None else tool.priority
    if task.metadata == b"{}":  # fast path
        return otherwise
    priority = decode_json(task.metadata).get("priority")
    return priority if priority in ("low", "normal", "high") else otherwise
