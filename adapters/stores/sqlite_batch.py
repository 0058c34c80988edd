"""One transaction of the writer, which several operations share."""

import sqlite3

from taskmachine.adapters.stores import sqlite_queries as sql

__all__ = ["Batch"]


class Batch:
    """What an operation works with: statements, and how many tasks there are."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.execute = connection.execute
        self.counts = Counts(connection)


class Counts:
    """Numbers of tasks, as (live, retained): of each owner, and of all.

    They are read once in a transaction and written at its end, not six times for each task.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self._stored: dict[str | None, tuple[int, int]] = {}
        self._added: dict[str | None, tuple[int, int]] = {}

    def of(self, owner: str | None) -> tuple[int, int]:
        """Those of an owner, or all."""
        if owner not in self._stored:
            query = (sql.TOTALS,) if owner is None else (sql.COUNTS, (owner,))
            self._stored[owner] = self._execute(*query).fetchone() or (0, 0)
        return _sum(self._stored[owner], self._added.get(owner, (0, 0)))

    def add(self, owner: str, live: int, retained: int) -> None:
        """So many more, or fewer."""
        for whose in (owner, None):
            self._added[whose] = _sum(self._added.get(whose, (0, 0)), (live, retained))

    def write(self) -> None:
        """The last thing in a transaction."""
        for owner, added in self._added.items():
            if owner is None:
                self._execute(sql.TOTAL, added)
            elif any(added):
                self._execute(sql.COUNT, (owner, *added))
                if added[1] < 0:
                    self._execute(sql.DELETE_COUNTS, (owner,))


def _sum(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] + other[0], one[1] + other[1]
