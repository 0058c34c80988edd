"""The size of a run."""

from typing import Final

import attrs

__all__ = ["JUDGED_CLIENTS", "SIZES", "Workload", "quick", "usual"]

SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)
"""Numbers of stored tasks."""

WHOLE_ROUNDS: Final = 2
"""With peers a round takes minutes, and all measures together at most twenty."""

JUDGED_CLIENTS: Final = 32
"""The number of clients in the bounds on rates."""


@attrs.frozen
class Workload:
    rounds: int
    whole_rounds: int
    """How many rounds take every measure; the rest repeat only those that the bounds use."""
    seconds: float
    """Duration of each load."""
    most: int
    """Maximum operations of each client in each load."""
    clients: tuple[int, ...]
    waiters: int
    notices: int
    """How many status notifications to measure, one after the other."""
    payloads: tuple[int, ...]
    sizes: tuple[int, ...]
    fill_s: float
    """How long filling the store of a peer may take."""
    starts: int
    imports: int
    commit_s: float


def usual(rounds: int, seconds: float, tasks: int) -> Workload:
    """Return the usual workload with at most `tasks` stored tasks."""
    return Workload(
        rounds,
        WHOLE_ROUNDS,
        seconds,
        most=10**9,
        clients=(1, 32, 256),
        waiters=100,
        notices=30,
        payloads=(100, 10_000, 100_000, 1_000_000),
        sizes=tuple(size for size in SIZES if size <= tasks),
        fill_s=30,
        starts=10,
        imports=15,
        commit_s=1,
    )


def quick() -> Workload:
    """Return a minimal workload that exercises everything."""
    return Workload(
        1,
        1,
        0.02,
        most=2,
        clients=(1, 32),
        waiters=4,
        notices=3,
        payloads=(100, 10_000),
        sizes=(100, 200),
        fill_s=5,
        starts=1,
        imports=1,
        commit_s=0.02,
    )
