"""Cost measurement, and the rows of the printed table."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

__all__ = ["ENDLESS", "Act", "Cost", "Row", "best", "race", "timed"]

ENDLESS: Final = float("inf")

Act = Callable[[], Awaitable[object]]


class Cost(NamedTuple):
    """Wall time and processor time in microseconds."""

    wall: float
    cpu: float


class Row(NamedTuple):
    """One row of the table, with or without a bound."""

    what: str
    cost: Cost
    most: float = ENDLESS
    floor: float | None = None
    most_ratio: float = ENDLESS
    unit: str = "us"

    @property
    def ratio(self) -> float:
        return self.cost.wall / self.floor if self.floor else 0

    @property
    def holds(self) -> bool:
        return self.cost.wall <= self.most and self.ratio <= self.most_ratio

    def __str__(self) -> str:
        bounds = [f"{self.most:g} {self.unit}"] if self.most < ENDLESS else []
        bounds += [f"{self.most_ratio:g} x"] if self.most_ratio < ENDLESS else []
        return " ".join(
            (
                f"{self.what:58} {self.cost.wall:9.2f} {self.unit}",
                f"{self.cost.cpu:9.2f}" if self.cost.cpu else " " * 9,
                f"{self.floor:10.2f} {self.ratio:7.3f}" if self.floor else " " * 18,
                f"{' '.join(bounds):>9}{'' if self.holds else '  BROKEN'}",
            )
        ).rstrip()


HEADER: Final = f"{'what':58} {'cost':>12} {'CPU':>9} {'floor':>10} {'ratio':>7} {'bound':>9}"


async def timed(n: int, act: Act) -> Cost:
    """Return the mean cost of `n` calls."""
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(n):
        await act()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Cost(wall / n * 1e6, cpu / n * 1e6)


async def race(rounds: int, n: int, *makers: Callable[[], Awaitable[Act]]) -> list[Cost]:
    """Return the best round of each; alternating, so that noise affects all.

    The makers run before each round and are not measured.
    """
    costs = [[await timed(n, await make()) for make in makers] for _ in range(rounds)]
    return [best(column) for column in zip(*costs, strict=True)]


def best(costs: Sequence[Cost]) -> Cost:
    return Cost(min(cost.wall for cost in costs), min(cost.cpu for cost in costs))
