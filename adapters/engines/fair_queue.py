"""Whose turn it is: owners take turns, and each one's own tasks go by priority, then by age."""

from collections import deque
from heapq import heappop, heappush
from itertools import count
from typing import Final

__all__ = ["FairQueue"]

_RANKS: Final = {"high": 0, "normal": 1, "low": 2}


class FairQueue:
    """A priority helps a task past others of its owner, never past those of somebody else.

    So neither a caller with a thousand tasks nor one who calls everything urgent is a burden to
    the rest.
    """

    def __init__(self) -> None:
        self._by_owner: dict[str, list[tuple[int, int, str]]] = {}
        self._turns: deque[str] = deque()
        self.waiting: set[str] = set()
        """The ids of the tasks in it."""
        self._numbers = count()

    def push(self, task_id: str, owner: str, priority: str) -> None:
        """Once for each task: pushing it again changes nothing."""
        if task_id in self.waiting:
            return
        self.waiting.add(task_id)
        if owner not in self._by_owner:
            self._by_owner[owner] = []
            self._turns.append(owner)
        heappush(self._by_owner[owner], (_RANKS[priority], next(self._numbers), task_id))

    def pop(self) -> str:
        """The next task; IndexError if there is none."""
        owner = self._turns.popleft()
        tasks = self._by_owner[owner]
        _, _, task_id = heappop(tasks)
        self.waiting.remove(task_id)
        if tasks:
            self._turns.append(owner)
        else:
            del self._by_owner[owner]
        return task_id
