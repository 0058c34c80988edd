"""Shares of the places of a worker: no owner takes them all, and none is reserved."""

from collections import Counter
from typing import Final

__all__ = ["FAIR", "Shares"]

FAIR: Final = 3
"""An owner may take a place while it holds less than this many times the free places.

One owner alone gets three quarters of the places, rounded up; every owner more makes the parts
smaller.
"""


class Shares:
    """Counts the places that each owner holds, and decides who may take another.

    The threshold depends only on the number of free places, so an owner that holds none may always
    take one, and a share grows when the tools of other owners end.
    """

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()

    def take(self, owner: str) -> None:
        self._held[owner] += 1

    def release(self, owner: str) -> None:
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]

    def may_take(self, owner: str, free: int) -> bool:
        """Return True if the owner may take one of so many free places."""
        return self._held[owner] < FAIR * free

    def full(self, free: int) -> list[str]:
        """Return the owners that may not take one of so many free places."""
        return [owner for owner in self._held if not self.may_take(owner, free)]
