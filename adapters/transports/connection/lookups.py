"""Hooks around each task lookup, with which a transport limits their rate."""

from collections.abc import Callable

import attrs

__all__ = ["Lookups"]


@attrs.frozen
class Lookups:
    """Callbacks before each lookup, and after one that found no task."""

    begin: Callable[[], None]
    """May raise `LimitExceeded`."""
    missed: Callable[[], None]
