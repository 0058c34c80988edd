"""Rate limits for task lookups: a token bucket for each caller.

A bucket is stored as the time at which it will be full again; spending moves that time into the
future, as far as the burst allows.  Only full buckets are evicted, so a caller cannot reset its
limit.
"""

from collections import OrderedDict
from collections.abc import Callable
from math import ceil
from typing import Final

from taskmachine.statemachine import ConfigurationError, LimitExceeded

__all__ = ["MAX_CALLERS", "MISS", "Rates"]

MAX_CALLERS: Final = 10_000
"""Maximum number of buckets that are not full; beyond it new callers have to wait."""

MISS: Final = 10
"""Cost of a lookup that finds no task, to slow down guessing of ids."""

_EXAMINED: Final = 2
"""Buckets checked for eviction at each new one: more than one, so that they cannot pile up."""

_EXAMINED_AT_MOST: Final = 32
"""Buckets checked for eviction before a new caller is refused."""


class Rates:
    """The buckets of all callers.  `clock` is monotonic, in seconds."""

    def __init__(
        self,
        per_second: float,
        burst: int,
        clock: Callable[[], float],
        max_callers: int = MAX_CALLERS,
    ) -> None:
        if not per_second > 0 or burst < 1:
            raise ConfigurationError("the lookup rate must be positive, and the burst at least 1")
        self._per_second = per_second
        self._price = 1 / per_second
        self._depth = burst / per_second
        self._clock = clock
        self._max_callers = max_callers
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def spend(self, caller: str, cost: int = 1) -> None:
        """Charge a lookup in advance; `LimitExceeded`, without a charge, if the bucket has less.

        A cost above the burst is always refused.
        """
        # 2025-11-25:rate-limited-operations, 2026-07-28:may-rate-limit-polling
        now = self._clock()
        full_at = self._full_at.get(caller)
        if full_at is None:
            self._make_room(now)
        after = (now if full_at is None or full_at < now else full_at) + cost * self._price
        if after - now > self._depth:
            wait_ms = ceil((after - now - self._depth) * 1_000)
            raise LimitExceeded(f"{self._per_second:g} lookups per second", wait_ms)
        self._full_at[caller] = after

    def miss(self, caller: str) -> None:
        """Charge the rest of `MISS` after a lookup that found no task.

        This never raises, so that the next lookup waits: a refusal here would limit the cost of
        a wrong guess to one, and distinguish it from a hit.
        """
        now = self._clock()
        self._full_at[caller] = max(self._full_at.get(caller, now), now) + (MISS - 1) * self._price

    def _make_room(self, now: float) -> None:
        """Evict full buckets, checking some in turn; raise `LimitExceeded` if all are in use."""
        buckets = self._full_at
        is_crowded = len(buckets) >= self._max_callers
        for _ in range(min(_EXAMINED_AT_MOST if is_crowded else _EXAMINED, len(buckets))):
            caller = next(iter(buckets))
            if buckets[caller] <= now:
                del buckets[caller]
            else:
                buckets.move_to_end(caller)
        if len(buckets) >= self._max_callers:
            raise LimitExceeded(f"{self._max_callers} callers at a time", 1_000)
