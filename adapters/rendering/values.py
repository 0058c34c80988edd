"""Stored times and JSON as text."""

from datetime import UTC, datetime
from typing import Any, Final

from taskmachine.protocol.jsonvalue import decode_json

__all__ = ["moment", "moment_text", "read_text", "read_value"]


def read_text(encoded: bytes) -> str:
    """Return stored JSON on one line."""
    return encoded.decode(errors="backslashreplace")


def read_value(encoded: bytes | None) -> Any:
    """Decode stored JSON; return invalid JSON as text."""
    if encoded is None:
        return None
    try:
        return decode_json(encoded)
    except ValueError:
        return read_text(encoded)


def moment(milliseconds: int) -> datetime:
    """Convert a timestamp; values beyond the calendar become its last second."""
    return datetime.fromtimestamp(min(max(milliseconds // 1_000, 0), _LAST_SECOND), UTC)


def moment_text(milliseconds: int) -> str:
    """Return the time in UTC, to the second."""
    return f"{moment(milliseconds):%Y-%m-%d %H:%M:%S}"


_LAST_SECOND: Final = int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())
