"""Limits of the runtime, with the documented values as defaults."""

import attrs

from taskmachine.adapters.stores import Caps

__all__ = ["Limits"]


@attrs.frozen
class Limits:
    """Limits on callers and tools.  Requests beyond a limit fail; they are never queued."""

    caps: Caps = attrs.field(factory=Caps)
    blocked_calls: int = 1_000
    """Maximum number of calls that wait at the same time, per owner."""
    page: int = 50
    max_page: int = 200
    id_chars: int = 256
    """Maximum length of a task id; longer ids are not looked up."""
    key_chars: int = 256
    """Maximum length of an idempotency key."""
    questions: int = 100
    """Maximum number of questions of a task, including answered ones."""
    message_chars: int = 4_000
    """Maximum length of a status message; longer messages are truncated."""
    subscriptions: int = 1_000
    """Maximum number of subscriptions per owner."""
    watched: int = 100
    """Maximum number of tasks per subscription."""
    buffer: int = 1_000
    """Buffered versions per subscription; beyond it the oldest are dropped and counted."""
    idle_s: float = 3_600
    """A subscription that is not read for this long is closed."""
    calls: int = 1_000
    """Maximum number of unanswered requests per connection."""
    concurrency: int = 64
    """Maximum number of tools that run at the same time in one process.

    An owner may start one while it holds less than three times as many places as are free.
    """
