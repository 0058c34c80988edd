"""When a failed attempt is repeated: policies of tools and of their steps."""

import logging
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from taskmachine.adapters.tools.blame import blaming
from taskmachine.statemachine import ConfigurationError

__all__ = [
    "MOST_S",
    "Again",
    "Backoff",
    "Failures",
    "Retries",
    "Retry",
    "exponential",
    "retries_of",
]

log: Final = logging.getLogger("taskmachine")

MOST_RETRIES: Final = 1_000

MOST_S: Final = 7 * 24 * 3600
"""The longest pause before a retry."""

Failures = type[BaseException] | tuple[type[BaseException], ...]
"""Classes of exceptions, as `except` takes them."""

Backoff = Callable[[int], float]
"""Returns the seconds to wait after a number of failed attempts; see `exponential`."""


class Retry(Exception):
    """Raised by a tool or step that should be tried again, after this number of seconds.

    Without `after` the backoff of the tool decides.  The client sees the reason.
    """

    def __init__(self, after: float | None = None, reason: str = "") -> None:
        super().__init__(reason)
        if not isinstance(after, float | int | None):
            raise TypeError(f"after must be seconds, got {after!r:.40}; a text is the reason=")
        if after is not None and not 0 <= after <= MOST_S:
            raise ValueError(f"after must be from 0 s to 7 days, got {after} s")
        self.after = after
        self.reason = reason


class Again(BaseException):
    """Ends this attempt of a tool, which is tried again after `after_s`.

    Not an Exception, like `Parked`.  The client sees the message, not the error.
    """

    def __init__(self, after_s: float, error: str, message: str) -> None:
        super().__init__("again")
        self.after_s = after_s
        self.error = error
        self.message = message


@attrs.frozen
class exponential:
    """A pause that grows by `factor` from `first` to `most` seconds.

    With `jitter` each task waits for a different part of that, at least half, so that tasks that
    failed together are not repeated together.
    """

    first: float = 1
    factor: float = 2
    most: float = 300
    jitter: bool = True

    def __attrs_post_init__(self) -> None:
        with blaming("exponential"):
            for value in (self.first, self.factor, self.most):
                if not isinstance(value, float | int):
                    raise ConfigurationError(f"needs numbers, got {value!r:.40}")
            if not (0 <= self.first <= self.most <= MOST_S and self.factor >= 1):
                raise ConfigurationError(
                    "needs 0 <= first <= most <= 7 days, in seconds, and a factor of at least 1"
                )

    def __call__(self, failures: int) -> float:
        try:
            return min(self.most, self.first * self.factor ** (failures - 1))
        except OverflowError:
            return self.most


@attrs.frozen
class Retries:
    """How often a tool or a step is tried again, after which exceptions, and when."""

    count: int = 0
    backoff: Backoff = attrs.field(factory=exponential)
    retry_on: Failures = Exception
    give_up_on: Failures = ()

    def pause_s(
        self, error: BaseException, failures: int, seed: str, *, is_deliberate: bool = False
    ) -> float | None:
        """Return the pause before the next attempt; None if this failure is the last one.

        `failures` includes this one.  `seed` makes the jitter repeatable.  A deliberate error is
        retried only if `retry_on` names a class of it, not just any Exception.
        """
        if failures > self.count or isinstance(error, self.give_up_on):
            return None
        if is_deliberate and not self._names(error):
            return None
        if isinstance(error, Retry) and error.after is not None:
            return error.after
        if not (isinstance(error, Retry) or isinstance(error, self.retry_on)):  # noqa: SIM101
            return None
        try:
            pause = _seconds(self.backoff, failures)
        except ConfigurationError as mistake:
            log.error("no retry: %s", mistake)
            return None
        if isinstance(self.backoff, exponential) and self.backoff.jitter:
            pause *= random.Random(f"{seed} {failures}").uniform(0.5, 1)
        return pause

    def _names(self, error: BaseException) -> bool:
        classes = self.retry_on if isinstance(self.retry_on, tuple) else (self.retry_on,)
        return isinstance(error, tuple({*classes} - {Exception, BaseException}))


def retries_of(options: Mapping[str, Any]) -> Retries:
    """Return the policy in the options `retries`, `backoff`, `retry_on` and `give_up_on`."""
    count = options.get("retries", 0)
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_RETRIES:
        raise ConfigurationError(f"retries must be from 0 to {MOST_RETRIES}, got {count!r:.40}")
    others = {
        name: options[name] for name in ("backoff", "retry_on", "give_up_on") if name in options
    }
    if others and not count:
        raise ConfigurationError(f"{next(iter(others))} needs retries, as in retries=5")
    for name in ("retry_on", "give_up_on"):
        classes = others.get(name, ())
        for cls in classes if isinstance(classes, tuple) else (classes,):
            if not (isinstance(cls, type) and issubclass(cls, BaseException)):
                raise ConfigurationError(
                    f"{name} must be an exception class or a tuple of them, got {cls!r:.80}"
                )
    if "backoff" in others:
        backoff = others["backoff"]
        if not callable(backoff) or isinstance(backoff, type):
            raise ConfigurationError(
                f"backoff must be a function, such as exponential(first=1), got {backoff!r:.40}"
            )
        _seconds(backoff, 1)
    return Retries(count, **others)


def _seconds(backoff: Backoff, failures: int) -> float:
    try:
        pause = backoff(failures)
    except Exception as error:
        raise ConfigurationError(f"backoff({failures}) raised {error!r:.80}") from error
    if not isinstance(pause, float | int) or not 0 <= pause <= MOST_S:
        raise ConfigurationError(f"backoff must return 0 s to 7 days, got {pause!r:.40}")
    return pause
