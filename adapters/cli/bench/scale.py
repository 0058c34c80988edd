"""How much is done in a run."""

from typing import Final

import attrs

__all__ = ["JUDGED_CLIENTS", "SIZES", "Scale", "quick", "usual"]

SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)
"""Of stores that are full."""

WHOLE_ROUNDS: Final = 2
"""With peers one takes minutes; all measures together must not take more than twenty."""

JUDGED_CLIENTS: Final = 32
"""The bounds on rates are for so many."""


@attrs.frozen
class Scale:
    rounds: int
    whole_rounds: int
    """The first ones, with everything; the others take only what is judged by many of them."""
    seconds: float
    """Of each load."""
    most: int
    """Of each client in each load, however much time is left."""
    clients: tuple[int, ...]
    waiters: int
    notices: int
    """Status notifications that are waited for, one after the other."""
    payloads: tuple[int, ...]
    sizes: tuple[int, ...]
    fill_s: float
    """How long a peer may take until it has as many tasks."""
    starts: int
    imports: int
    commit_s: float


def usual(rounds: int, seconds: float, tasks: int) -> Scale:
    """`tasks`: the most that are stored."""
    return Scale(
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


def quick() -> Scale:
    """Enough to see that everything works."""
    return Scale(
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
