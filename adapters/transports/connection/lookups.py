"""The hooks around each lookup of a task, by which a transport limits their rate."""

from collections.abc import Callable

import attrs

__all__ = ["Lookups"]


@attrs.frozen
class Lookups:
    """Called for each lookup: before it, and if there was no such task."""

    begin: Callable[[], None]
    """May raise `LimitExceeded`."""
    missed: Callable[[], None]
