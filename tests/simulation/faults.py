"""Random faults, and a wall clock that jumps."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

__all__ = ["Clock", "Faults"]

EPOCH_MS: Final = 1_790_000_000_000


class Faults:
    """The probability of each fault; none occurs once they `are_off`."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.are_off = False
        self.counts: Counter[str] = Counter()
        """How often each fault and event has occurred."""
        intensity = random.choice((0.2, 0.7, 1.0, 2.0))
        self.refuse = 0.006 * intensity
        self.doubt = 0.006 * intensity
        self.slow = 0.05 * intensity
        self.crash = 0.004 * intensity
        self.lost_notice = random.choice((0.0, 0.0, 0.2))
        self.fault_every_s = 20 / intensity

    def happens(self, chance: float, what: str) -> bool:
        """Return whether a fault occurs now, and count it."""
        if self.are_off or self.random.random() >= chance:
            return False
        self.counts[what] += 1
        return True

    def pause_s(self) -> float:
        """Return how long an operation of the store takes: mostly 0, sometimes long."""
        if self.random.random() < 0.4:
            return 0
        if self.happens(self.slow, "slow operations"):
            return self.random.uniform(0.05, 2)
        return self.random.random() * 0.01


class Clock:
    """The wall clock of all processes, in milliseconds; it jumps by up to an hour."""

    def __init__(self, steady: Callable[[], float]) -> None:
        self._steady = steady
        self._offset_ms = 0
        self._farthest_ms = 0

    def __call__(self) -> int:
        return EPOCH_MS + round(self._steady() * 1_000) + self._offset_ms

    @property
    def latest(self) -> int:
        """The latest time that the clock may have shown so far."""
        return EPOCH_MS + round(self._steady() * 1_000) + self._farthest_ms

    def jump(self, random: Random) -> None:
        most_s = random.choice((1, 30, 600, 3_600))
        self._offset_ms += round(random.uniform(-most_s, most_s) * 1_000)
        self._farthest_ms = max(self._farthest_ms, self._offset_ms)
