"""A queue in which owners take turns; tasks of one owner are ordered by priority, then age."""

from collections import deque
from heapq import heappop, heappush
from itertools import count
from typing import Final

__all__ = ["FairQueue"]

_RANKS: Final = {"high": 0, "normal": 1, "low": 2}


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

    def push(self, task_id: str, owner: str, priority: str) -> None:
        """Add a task unless it is already queued."""
        if task_id in self.waiting:
            return
        self.waiting.add(task_id)
        if owner not in self._by_owner:
            self._by_owner[owner] = []
            self._turns.append(owner)
        heappush(self._by_owner[owner], (_RANKS[priority], next(self._numbers), task_id))

    def pop(self) -> str:
        """Remove and return the next task; IndexError if the queue is empty."""
        owner = self._turns.popleft()
        tasks = self._by_owner[owner]
        _, _, task_id = heappop(tasks)
        self.waiting.remove(task_id)
        if tasks:
            self._turns.append(owner)
        else:
            del self._by_owner[owner]
        return task_id
