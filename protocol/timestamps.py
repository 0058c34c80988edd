"""Milliseconds since the epoch to RFC 3339 and back."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

__all__ = ["decode_timestamp", "encode_timestamp"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


@lru_cache(maxsize=4096)  # each poll of a task encodes the same two instants
def encode_timestamp(ms: int) -> str:
    """Return a text such as `2026-07-28T12:00:00.000Z`: UTC, always with milliseconds."""
    text = (_EPOCH + ms * _MILLISECOND).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z"


def decode_timestamp(text: str) -> int:
    """Return the instant of an RFC 3339 text; ValueError if malformed or without an offset."""
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError(f"{text!r} has no offset from UTC")
    return (instant - _EPOCH) // _MILLISECOND
