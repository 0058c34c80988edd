"""Encode server-sent events as bytes.

Each function returns a whole block including the empty line that ends it.
"""

import re
from typing import Final

__all__ = ["comment", "event"]

_LINE_ENDS: Final = re.compile(rb"\r\n|\r|\n")
"""Line ends by the SSE format.  `bytes.splitlines` would drop a last empty line."""


def event(
    data: bytes, *, id: str | None = None, event: str | None = None, retry: int | None = None
) -> bytes:
    """Encode one event; the client joins several lines of data with line feeds.

    `data` is UTF-8.  `retry` is in milliseconds.  ValueError for a line end in an id or a name.
    """
    lines = []
    if id is not None:
        # Clients ignore an id with a NUL, and would resume from an older event.
        lines.append(b"id: " + _on_one_line("id", id, "\r\n\0"))
    if event is not None:
        lines.append(b"event: " + _on_one_line("event", event, "\r\n"))
    if retry is not None:
        lines.append(b"retry: %d" % retry)
    lines += [b"data: " + line for line in _LINE_ENDS.split(data)]
    return b"\n".join(lines) + b"\n\n"


def comment(text: str = "") -> bytes:
    """Encode a comment, which clients ignore; it keeps connections and proxies alive."""
    return b": " + _on_one_line("comment", text, "\r\n") + b"\n\n"


def _on_one_line(what: str, text: str, forbidden: str) -> bytes:
    if any(character in text for character in forbidden):
        raise ValueError(f"{what} must be on one line, got {text!r:.80}")
    return text.encode()
