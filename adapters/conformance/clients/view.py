"""The history from the client's point of view."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import attrs

from taskmachine.adapters.conformance.history import Entry, History, Kind

__all__ = [
    "STOPPED",
    "VERSION",
    "as_client",
    "client_info",
    "original",
    "speaks",
    "until_stopped",
    "without_other_era",
]

STOPPED: Final = "the tester stopped it"
"""Text of the entry for a client that did not exit by itself."""

VERSION: Final = "io.modelcontextprotocol/protocolVersion"
_INFO: Final = "io.modelcontextprotocol/clientInfo"
_MIRRORED: Final = {
    Kind.SENT: Kind.HEARD,
    Kind.HEARD: Kind.SENT,
    Kind.LEFT: Kind.ENDED,
    Kind.ENDED: Kind.LEFT,
}


@lru_cache(maxsize=64)
def as_client(history: History) -> History:
    """Return the same history with the directions swapped.

    `exchanges` are the client's requests with the server's responses, `questions` the server's
    requests with the client's responses, `by_task` the tasks as the server showed them, and LEFT is
    where the client disconnected.
    """
    entries = tuple(
        attrs.evolve(entry, kind=_MIRRORED.get(entry.kind, entry.kind)) for entry in history.entries
    )
    return attrs.evolve(history, entries=entries)


def original(history: History, entry: Entry) -> Entry:
    """Return the original of a mirrored entry."""
    return _by_number(history)[entry.number]


@lru_cache(maxsize=64)
def _by_number(history: History) -> Mapping[int, Entry]:
    return {entry.number: entry for entry in history.entries}


def speaks(history: History) -> bool:
    """Return whether the client completed a request in this revision."""
    answered = [
        e for e in as_client(history).exchanges if "result" in (e.response or e.request).body
    ]
    if history.revision == "2025-11-25":
        return any(exchange.method == "initialize" for exchange in answered)
    return bool(answered)


def client_info(history: History) -> Mapping[str, Any]:
    """Return the client's description of itself."""
    for entry in history.heard:
        for info in (entry.params.get("clientInfo"), entry.meta.get(_INFO)):
            if isinstance(info, dict):
                return info
    return {}


def until_stopped(history: History) -> History:
    """Drop entries after the client was stopped, since the tester caused them."""
    kept: list[Entry] = []
    for entry in history.entries:
        kept.append(entry)
        if entry.kind is Kind.EXITED and entry.text == STOPPED:
            break
    return attrs.evolve(history, entries=tuple(kept))


def without_other_era(history: History) -> History:
    """Drop requests by which the client detected that the server implements 2025-11-25."""
    if history.revision != "2025-11-25":
        return history
    modern = [entry for entry in history.heard if entry.is_request and VERSION in entry.meta]
    posts = {entry.post for entry in modern if entry.post is not None}
    ids = {(entry.line, repr(entry.body["id"])) for entry in modern if entry.post is None}
    kept = tuple(
        entry
        for entry in history.entries
        if entry.post not in posts
        and not (entry.post is None and (entry.line, repr(entry.body.get("id"))) in ids)
    )
    return attrs.evolve(history, entries=kept)
