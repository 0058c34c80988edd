"""Writes down what happens, while it happens."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

from taskmachine.adapters.conformance.history import MISSING, Entry, History, Http, Kind, id_key

__all__ = ["MOST_BYTES", "MOST_ENTRIES", "Flooded", "Recorder"]

MOST_BYTES: Final = 16 * 1024 * 1024
"""Of one message of a target."""

MOST_ENTRIES: Final = 50_000
MOST_BYTES_IN_ALL: Final = 128 * 1024 * 1024
_HEARD: Final = frozenset({Kind.HEARD, Kind.EVENT, Kind.HEAD})

INTRODUCTIONS: Final = frozenset(
    {"initialize", "notifications/initialized", "server/discover", "tools/list"}
)


class Flooded(Exception):
    """The target says more than anybody could judge."""


class Recorder:
    """The history of a run, as far as it has come.  `clock` tells milliseconds."""

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
        """All of it."""
        return self._entries

    def now(self) -> float:
        """Milliseconds since the run began."""
        return self._clock() - self._began

    def new_line(self) -> int:
        """A number for a new connection."""
        self._lines += 1
        return self._lines

    def new_post(self) -> int:
        """A number for a new HTTP request."""
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
        """Write one down; Flooded if it was heard, and is beyond what can be kept."""
        if kind in _HEARD:
            self.refuse_floods()
        entry = Entry(len(self._entries), self.now(), kind, caller, line, post, message, text, http)
        self._entries.append(entry)
        return entry

    def refuse_floods(self, more_bytes: int = 0) -> None:
        """Count what was heard; Flooded beyond what can be kept."""
        self._bytes += more_bytes
        if len(self._entries) >= MOST_ENTRIES:
            raise Flooded(f"it sent more than {MOST_ENTRIES} messages")
        if self._bytes > MOST_BYTES_IN_ALL:
            raise Flooded(f"it sent more than {MOST_BYTES_IN_ALL} bytes")

    def heard_since(self, request: Entry) -> list[Entry]:
        """What came on the stream of a request, or on its line if that is a pipe."""
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
        """What was written down so far; or from an entry on, and how these lines began."""
        before = [entry for entry in self._entries[:since] if entry.line in lines]
        kept = (*_introductions(before), *self._entries[since:])
        return History(revision, transport, kept, dict(principals))


def _introductions(entries: Sequence[Entry]) -> list[Entry]:
    """The handshakes and the lists of tools: without them nothing that follows makes sense."""
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
