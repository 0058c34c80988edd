"""Every bound of the runtime, with the promised number as its default."""

import attrs

from taskmachine.adapters.stores import Caps

__all__ = ["Limits"]


@attrs.frozen
class Limits:
    """What callers and tools can use up.  Beyond a bound there is an error, never a queue."""

    caps: Caps = attrs.field(factory=Caps)
    blocked_calls: int = 1_000
    """Of one owner, all waiting at the same time."""
    page: int = 50
    max_page: int = 200
    id_chars: int = 256
    """Longer ids belong to nobody, and are not looked up."""
    key_chars: int = 256
    questions: int = 100
    """Of one task, in all its life."""
    message_chars: int = 4_000
    """Of a status message: longer ones are cut."""
    subscriptions: int = 1_000
    """Of one owner."""
    watched: int = 100
    """Tasks of one subscription."""
    buffer: int = 1_000
    """Of a subscriber that does not read: the oldest are dropped, and counted."""
    idle_s: float = 3_600
    """After which a subscriber that does not read is gone."""
    calls: int = 1_000
    """Requests of one conversation that are not answered yet."""
    concurrency: int = 64
    """Tools that run at the same time in one process."""
