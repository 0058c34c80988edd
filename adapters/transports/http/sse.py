"""Server-sent events as bytes, for every stream that a server writes.

Each call returns a whole block with the empty line that ends it, so blocks can be sent as they
are made, in any chunks.
"""

import re
from typing import Final

__all__ = ["comment", "event"]

_LINE_ENDS: Final = re.compile(rb"\r\n|\r|\n")
"""What a reader takes for the end of a line.  `bytes.splitlines` would forget a last empty one."""


def event(
    data: bytes, *, id: str | None = None, event: str | None = None, retry: int | None = None
) -> bytes:
    """One event; data of several lines arrives with line feeds between them.

    `data` is UTF-8.  `retry` is in milliseconds.  An id or a name that would break out of its
    line is a ValueError: it was never meant to be one.
    """
    lines = []
    if id is not None:
        # A reader ignores an id with a NUL, and would go on from an older event.
        lines.append(b"id: " + _on_one_line("id", id, "\r\n\0"))
    if event is not None:
        lines.append(b"event: " + _on_one_line("event", event, "\r\n"))
    if retry is not None:
        lines.append(b"retry: %d" % retry)
    lines += [b"data: " + line for line in _LINE_ENDS.split(data)]
    return b"\n".join(lines) + b"\n\n"


def comment(text: str = "") -> bytes:
    """A line that readers skip; it shows both sides, and all between them, that there is life."""
    return b": " + _on_one_line("comment", text, "\r\n") + b"\n\n"


def _on_one_line(what: str, text: str, forbidden: str) -> bytes:
    if any(character in text for character in forbidden):
        raise ValueError(f"{what} must be on one line, got {text!r:.80}")
    return text.encode()
