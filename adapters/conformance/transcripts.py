"""Render messages as readable transcripts, and as requests that can be sent again."""

import json
import shlex
from collections.abc import Iterable, Iterator

from taskmachine.adapters.conformance.history import MISSING, Entry, Kind

__all__ = ["describe", "lines", "pasteable"]

_SIGNS = {
    Kind.SENT: "->",
    Kind.HEARD: "<-",
    Kind.EVENT: "<-",
    Kind.HEAD: "<-",
    Kind.ENDED: "..",
    Kind.LEFT: "..",
    Kind.GAVE_UP: "..",
    Kind.EXITED: "!!",
}
_SECRET = frozenset({"authorization", "cookie", "set-cookie"})


def lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Render one line per entry: time, caller and connection, direction, message."""
    for entry in entries:
        where = f"{entry.caller}{entry.line}"
        yield f"{entry.at / 1_000:8.3f} {where} {_SIGNS[entry.kind]} {describe(entry)}"


def describe(entry: Entry) -> str:
    """Render an entry in one line."""
    http = entry.http
    if entry.kind is Kind.HEAD and http is not None:
        kind = http.headers.get("content-type", "no content type")
        return f"HTTP {http.status}, {kind}"
    if entry.kind in (Kind.GAVE_UP, Kind.LEFT, Kind.ENDED, Kind.EXITED, Kind.EVENT):
        return f"({entry.kind}{f': {entry.text}' if entry.text else ''})"
    what = repr(entry.text) if entry.message is MISSING else _json(entry.message)
    is_plain_post = http is None or http.method in ("", "POST")
    return what if is_plain_post or http is None else f"HTTP {http.method} {what}"


def pasteable(entries: Iterable[Entry], url: str | None) -> Iterator[str]:
    """Render the sent messages as lines for stdin, or as curl commands for a URL.

    Credentials are replaced by `$TOKEN`.
    """
    for entry in entries:
        if entry.kind is not Kind.SENT:
            continue
        body = entry.text if entry.message is MISSING else _json(entry.message)
        if url is None:
            yield body or ""
        else:
            yield _curl(entry, url, body)


def _curl(entry: Entry, url: str, body: str | None) -> str:
    http = entry.http
    words = ["curl", "-sN", "-X", "POST" if http is None else http.method, url]
    line = shlex.join(words)
    for name, value in ({} if http is None else http.headers).items():
        # The shell inserts the token, so that no transcript contains it.
        shown = f'"{name}: $TOKEN"' if name in _SECRET else shlex.quote(f"{name}: {value}")
        line += f" -H {shown}"
    return f"{line} -d {shlex.quote(body)}" if body else line


def _json(message: object) -> str:
    return json.dumps(message, ensure_ascii=False)
