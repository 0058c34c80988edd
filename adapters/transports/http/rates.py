"""How fast one caller may look things up: a token bucket for each.

A bucket is one number, the time at which it will be full again: spending moves that time into
the future, as far as the burst allows.  A time in the past is a full bucket, which is the same
as none, so it can be forgotten.  No other bucket ever is: nobody gets a new one by making the
server forget the old one.
"""

from collections import OrderedDict
from collections.abc import Callable
from math import ceil
from typing import Final

from taskmachine.statemachine import ConfigurationError, LimitExceeded

__all__ = ["MAX_CALLERS", "MISS", "Rates"]

MAX_CALLERS: Final = 10_000
"""Buckets that are not full, at the same time; beyond it new callers have to wait."""

MISS: Final = 10
"""What a lookup costs that found nothing: ids are not to be guessed."""

_EXAMINED: Final = 2
"""Buckets that are looked at for each new one: more can go than come, and no sweep takes long."""

_EXAMINED_AT_MOST: Final = 32
"""The same, before a new caller is refused."""


class Rates:
    """The buckets of all callers.  `clock` is steady and in seconds."""

    def __init__(
        self,
        per_second: float,
        burst: int,
        clock: Callable[[], float],
        max_callers: int = MAX_CALLERS,
    ) -> None:
        if not per_second > 0 or burst < 1:
            raise ConfigurationError("a rate of lookups must allow at least one")
        self._per_second = per_second
        self._price = 1 / per_second
        self._depth = burst / per_second
        self._clock = clock
        self._max_callers = max_callers
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def spend(self, caller: str, cost: int = 1) -> None:
        """Before a lookup; `LimitExceeded` if the bucket has less, and then it keeps it.

        A cost above the burst can never be paid.
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
        """After a lookup that found nothing: it costs `MISS` in all.

        The rest is taken without asking, so that the next lookup waits: a refusal at this point
        would leave the price of a guess at one, and tell guesses from hits.
        """
        now = self._clock()
        self._full_at[caller] = max(self._full_at.get(caller, now), now) + (MISS - 1) * self._price

    def _make_room(self, now: float) -> None:
        """Forget buckets that are full; each gets its turn, whatever the others do."""
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
