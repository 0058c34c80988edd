"""What goes wrong, and when: dice for faults, and a wall clock that jumps."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

__all__ = ["Clock", "Weather"]

EPOCH_MS: Final = 1_790_000_000_000


class Weather:
    """How likely each fault is; nothing goes wrong once it `is_clear`."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.is_clear = False
        self.counts: Counter[str] = Counter()
        """What has happened, by name."""
        rough = random.choice((0.2, 0.7, 1.0, 2.0))
        self.refuse = 0.006 * rough
        self.doubt = 0.006 * rough
        self.slow = 0.05 * rough
        self.crash = 0.004 * rough
        self.lost_notice = random.choice((0.0, 0.0, 0.2))
        self.trouble_every_s = 20 / rough

    def happens(self, chance: float, what: str) -> bool:
        """Roll the dice for one fault, and count it."""
        if self.is_clear or self.random.random() >= chance:
            return False
        self.counts[what] += 1
        return True

    def pause_s(self) -> float:
        """How long an operation of the store takes: mostly nothing, sometimes long."""
        if self.random.random() < 0.4:
            return 0
        if self.happens(self.slow, "slow operations"):
            return self.random.uniform(0.05, 2)
        return self.random.random() * 0.01


class Clock:
    """Wall clock of all processes, in milliseconds.  It jumps by up to an hour, either way."""

    def __init__(self, steady: Callable[[], float]) -> None:
        self._steady = steady
        self._offset_ms = 0
        self._farthest_ms = 0

    def __call__(self) -> int:
        return EPOCH_MS + round(self._steady() * 1_000) + self._offset_ms

    @property
    def latest(self) -> int:
        """What the clock would show if it had never gone back."""
        return EPOCH_MS + round(self._steady() * 1_000) + self._farthest_ms

    def jump(self, random: Random) -> None:
        most_s = random.choice((1, 30, 600, 3_600))
        self._offset_ms += round(random.uniform(-most_s, most_s) * 1_000)
        self._farthest_ms = max(self._farthest_ms, self._offset_ms)
