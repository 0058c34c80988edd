"""Checks of session ids and protocol version headers (2025-11-25)."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from taskmachine.adapters.conformance.checks.reading.posts import Post, is_in_live_session, posts
from taskmachine.adapters.conformance.history import History
from taskmachine.adapters.conformance.judging import Observation, bad, check, good

__all__ = ["is_no_version"]

SESSION: Final = "mcp-session-id"
VERSION: Final = "mcp-protocol-version"
FIRST_VERSION: Final = "2024-11-05"
SHORTEST: Final = 16
"""Minimum length of a session id in characters; shorter ones can be guessed."""

LEAST_DIFFERENT: Final = 8
"""Minimum number of positions in which two random ids of the same length differ."""

_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
_SESSIONS: Final = "a target that assigns sessions"


def is_no_version(version: str) -> bool:
    """Return whether a version cannot exist: not a date, or before the first version."""
    return not re.fullmatch(r"\d{4}-\d\d-\d\d", version) or version < FIRST_VERSION


def _given(history: History) -> Iterator[tuple[str, Post]]:
    """Yield the assigned session ids."""
    for post in posts(history):
        id = post.headers.get(SESSION)
        if post.sent.method == "initialize" and id is not None and 200 <= post.status < 300:
            yield id, post


def _later(history: History) -> Iterator[Post]:
    """Yield requests after `initialize`, without those rejected because of the Origin or load."""
    for post in posts(history):
        is_clear = not post.is_undecided and post.status != 403
        if post.sent.method != "initialize" and is_clear and "origin" not in post.sent_headers:
            yield post


# --- session ids ----------------------------------------------------------------------------------


@check("2025-11-25:session-id-assigned", needs="HTTP")
def sessions_may_have_ids(history: History) -> Iterator[Observation]:
    """Record `initialize` responses; session ids are optional."""
    for post in posts(history):
        if post.sent.method == "initialize" and 200 <= post.status < 300:
            yield good(*post.entries)


@check("2025-11-25:session-id-secure", needs=_SESSIONS)
def session_ids_cannot_be_guessed(history: History) -> Iterator[Observation]:
    """Check that ids are long, distinct, and differ in many positions."""
    given = list(_given(history))
    for id, post in given:
        if len(id) < SHORTEST:
            words = f"the session id {id!r} has only {len(id)} characters and can be guessed"
            yield bad(words, *post.entries)
    for (one, before), (other, post) in pairwise(given):
        differences = sum(a != b for a, b in zip(one, other, strict=False))
        if one == other:
            yield bad("two sessions have the same id", *before.entries, *post.entries)
        elif len(one) == len(other) >= SHORTEST and differences < LEAST_DIFFERENT:
            words = f"two session ids differ in only {differences} characters: {one!r}, {other!r}"
            yield bad(words, *before.entries, *post.entries)
        else:
            yield good(*before.entries, *post.entries)


@check("2025-11-25:session-id-visible-ascii", needs=_SESSIONS)
def session_ids_are_visible(history: History) -> Iterator[Observation]:
    """Check that ids contain only characters from 0x21 to 0x7E."""
    for id, post in _given(history):
        if _VISIBLE.fullmatch(id):
            yield good(*post.entries)
        else:
            words = f"the session id {id!r} contains characters outside 0x21 to 0x7E"
            yield bad(words, *post.entries)


# --- end of a session -----------------------------------------------------------------------------


@check("2025-11-25:session-id-missing-400", needs="a target that requires the session id")
def missing_sessions_get_400(history: History) -> Iterator[Observation]:
    """Check that a target that requires the session id rejects a request without it with 400."""
    if not any(_given(history)):
        return
    for post in _later(history):
        if post.session is not None or not post.is_request:
            continue
        is_refused = post.response is not None and "error" in post.response.body
        if post.status == 400:
            yield good(*post.entries)
        elif post.status >= 400:
            words = f"a request without 'Mcp-Session-Id' got HTTP status {post.status}, not 400"
            yield bad(words, *post.entries)
        elif is_refused and post.sent.method in ("ping", "tools/list"):
            words = "a request without 'Mcp-Session-Id' was rejected, but not with HTTP status 400"
            yield bad(words, *post.entries)


def _ended(history: History) -> dict[str, Post]:
    """Return the sessions that the client ended."""
    return {
        post.session: post
        for post in reversed(list(_later(history)))
        if post.method == "DELETE" and post.session is not None and post.status < 300
    }


@check("2025-11-25:session-may-end", needs="a session that ends")
def sessions_may_end(history: History) -> Iterator[Observation]:
    """Record sessions that ended; other checks judge what follows."""
    return (good(*post.entries) for post in _ended(history).values())


@check("2025-11-25:session-ended-404", needs="a target whose sessions can be ended by DELETE")
def ended_sessions_get_404(history: History) -> Iterator[Observation]:
    """Check that a request in an ended session gets 404."""
    ended = _ended(history)
    for post in _later(history):
        delete = ended.get(post.session or "")
        if delete is None or delete.head is None or post.sent.number < delete.head.number:
            continue
        if post.status == 404:
            yield good(*delete.entries, *post.entries)
        else:
            words = f"a request in a session that had ended got HTTP status {post.status}, not 404"
            yield bad(words, *delete.entries, *post.entries)


@check("2025-11-25:session-delete-405", needs=_SESSIONS)
def delete_may_get_405(history: History) -> Iterator[Observation]:
    """Record DELETE responses; the target may end the session or respond with 405."""
    for post in _later(history):
        if post.method == "DELETE" and (post.status < 300 or post.status == 405):
            yield good(*post.entries)


# --- versions ------------------------------------------------------------------------------------


@check("2025-11-25:protocol-version-assumed", needs=_SESSIONS)
def missing_versions_are_assumed(history: History) -> Iterator[Observation]:
    """Check that a request without the version header succeeds: the session has a version."""
    for post in _later(history):
        has_session = post.session is not None and is_in_live_session(history, post)
        if VERSION in post.sent_headers or not post.is_request or not has_session:
            continue
        if post.status == 400:
            words = "a session request without 'MCP-Protocol-Version' got HTTP status 400"
            yield bad(words, *post.entries)
        elif post.status < 300:
            yield good(*post.entries)


@check("2025-11-25:protocol-version-bad-400", needs="HTTP")
def bad_versions_get_400(history: History) -> Iterator[Observation]:
    """Check that a nonexistent version gets 400."""
    for post in _later(history):
        version = post.sent_headers.get(VERSION)
        if version is None or not is_no_version(version) or not is_in_live_session(history, post):
            continue
        if post.status == 400:
            yield good(*post.entries)
        elif post.status not in (404, 405):
            words = f"'MCP-Protocol-Version: {version}' got HTTP status {post.status}, not 400"
            yield bad(words, *post.entries)
