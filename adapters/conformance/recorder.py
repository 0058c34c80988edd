"""Record the traffic of a run."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from taskmachine.adapters.conformance.history import MISSING, Entry, History, Http, Kind, id_key

__all__ = ["MOST_BYTES", "MOST_ENTRIES", "Flooded", "Recorder"]

MOST_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of one message."""

MOST_ENTRIES: Final = 50_000
MOST_BYTES_IN_ALL: Final = 128 * 1024 * 1024
_HEARD: Final = frozenset({Kind.HEARD, Kind.EVENT, Kind.HEAD})

INTRODUCTIONS: Final = frozenset(
    {"initialize", "notifications/initialized", "server/discover", "tools/list"}
)


class Flooded(Exception):
    """The target sent more than the recorder keeps."""


class Recorder:
    """The history of a run so far. `clock` returns milliseconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._entries: list[Entry] = []
        self._lines = 0
        self._posts = 0
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> Sequence[Entry]:
        """All entries so far."""
        return self._entries

    def now(self) -> float:
        """Return the milliseconds since the run began."""
        return self._clock() - self._began

    def new_line(self) -> int:
        """Return a number for a new connection."""
        self._lines += 1
        return self._lines

    def new_post(self) -> int:
        """Return a number for a new HTTP request."""
        self._posts += 1
        return self._posts

    def add(
        self,
        kind: Kind,
        caller: str,
        line: int,
        *,
        post: int | None = None,
        message: Any = MISSING,
        text: str | None = None,
        http: Http | None = None,
    ) -> Entry:
        """Record an entry. Raise Flooded if it was received and exceeds the limits."""
        if kind in _HEARD:
            self.check_limits()
        entry = Entry(len(self._entries), self.now(), kind, caller, line, post, message, text, http)
        self._entries.append(entry)
        return entry

    def check_limits(self, more_bytes: int = 0) -> None:
        """Count received bytes. Raise Flooded beyond the limits."""
        self._bytes += more_bytes
        if len(self._entries) >= MOST_ENTRIES:
            raise Flooded(f"it sent more than {MOST_ENTRIES} messages")
        if self._bytes > MOST_BYTES_IN_ALL:
            raise Flooded(f"it sent more than {MOST_BYTES_IN_ALL} bytes")

    def heard_since(self, request: Entry) -> list[Entry]:
        """Return the messages on the HTTP response of a request, or on its stdio connection since
        then.
        """
        return [
            entry
            for entry in self._entries[request.number :]
            if entry.kind is Kind.HEARD and (entry.line, entry.post) == (request.line, request.post)
        ]

    def history(
        self,
        revision: Literal["2025-11-25", "2026-07-28"],
        transport: Literal["stdio", "http"],
        principals: dict[str, str | None],
        since: int = 0,
        lines: frozenset[int] = frozenset(),
    ) -> History:
        """Return the history, or from an entry on with the handshakes of these connections."""
        before = [entry for entry in self._entries[:since] if entry.line in lines]
        kept = (*_introductions(before), *self._entries[since:])
        return History(revision, transport, kept, dict(principals))


def _introductions(entries: Sequence[Entry]) -> list[Entry]:
    """Return the handshakes and tool lists, without which later entries cannot be judged."""
    kept = [e for e in entries if e.kind is Kind.SENT and e.method in INTRODUCTIONS]
    posts = {entry.post for entry in kept if entry.post is not None}
    ids = {(entry.line, id_key(entry.body["id"])) for entry in kept if "id" in entry.body}
    return [
        entry
        for entry in entries
        if entry in kept
        or entry.post in posts
        or (entry.is_response and (entry.line, id_key(entry.body.get("id"))) in ids)
    ]
