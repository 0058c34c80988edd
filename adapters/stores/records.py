"""Tasks and history entries as bytes, and the columns that indexes need, for databases.

Records are MessagePack with field names: fields that an older version did not write take their
defaults, and fields that a newer version added are ignored.  Records with an integer beyond 64
bits, which JSON messages may contain but MessagePack does not support, are JSON.
"""

from typing import Final

import msgspec

from taskmachine.adapters.stores import StoreError
from taskmachine.statemachine import Entry, Task

__all__ = [
    "MAX_INTEGER",
    "Columns",
    "call_key",
    "columns_of",
    "framed",
    "read_entry",
    "read_task",
    "split_lines",
    "write_record",
]

_encoder: Final = msgspec.msgpack.Encoder()
_task_decoder: Final = msgspec.msgpack.Decoder(Task)
_entry_decoder: Final = msgspec.msgpack.Decoder(Entry)
_json_encoder: Final = msgspec.json.Encoder()
_json_task_decoder: Final = msgspec.json.Decoder(Task)
_json_entry_decoder: Final = msgspec.json.Decoder(Entry)

_LENGTH: Final = 4
"""Number of bytes that encode the length of a line."""

_JSON: Final = ord("{")  # no MessagePack map begins with this byte


def write_record(value: Task | Entry) -> bytes:
    """Return the record of a value; `StoreError` if a text is not valid Unicode."""
    try:
        return _encoder.encode(value)
    except OverflowError:
        return _json_encoder.encode(value)
    except UnicodeEncodeError as error:
        raise StoreError(f"the record cannot be stored: {error}") from None


def read_task(data: bytes) -> Task:
    """Return the task of a record; `StoreError` if the bytes are damaged."""
    try:
        if data[0] == _JSON:
            return _json_task_decoder.decode(data)
        return _task_decoder.decode(data)
    except (ValueError, IndexError) as error:  # msgspec's errors are ValueErrors
        raise StoreError(f"a stored task is damaged: {error}") from None


def framed(line: bytes) -> bytes:
    """Return a record prefixed with its length, so that records can be concatenated."""
    return len(line).to_bytes(_LENGTH) + line


def split_lines(data: bytes) -> list[bytes]:
    """Return concatenated records; the last one is too short if the end is missing."""
    lines, at = [], 0
    while at < len(data):
        begin = at + _LENGTH
        at = begin + int.from_bytes(data[at:begin])
        lines.append(data[begin:at])
    return lines


def read_entry(data: bytes) -> Entry:
    """Return the history entry of a record; `StoreError` if the bytes are damaged."""
    try:
        if data[0] == _JSON:
            return _json_entry_decoder.decode(data)
        return _entry_decoder.decode(data)
    except (ValueError, IndexError) as error:
        raise StoreError(f"a stored history entry is damaged: {error}") from None


MAX_INTEGER: Final = 2**63 - 1

_AGES: Final = 2**62

Columns = tuple[int, int | None, int | None, str | None, int]
"""is_live, deadline, queued_at, holder, is_waiting."""


def columns_of(task: Task) -> Columns:
    """Return the indexed columns of a task, by the duties of its state."""
    duties, deadline = task.state.duties, task.deadline
    return (
        int(duties.is_live),
        None if deadline is None else min(deadline, MAX_INTEGER),
        _queued_at(task) if duties.is_queued else None,
        task.worker if duties.is_live else None,
        int(duties.is_waiting),
    )


def _queued_at(task: Task) -> int:
    """Return the time from which workers may claim a task.

    It is negative without `due_at`: such tasks come first, by age, at any time of the clock.
    """
    return task.created_at - _AGES if task.due_at is None else min(task.due_at, MAX_INTEGER)


def call_key(task: Task) -> str | None:
    """Return a text that is equal for repetitions of one call of an owner, or None without a key.

    It is one text instead of three columns, as a unique index treats null names as different.
    """
    call = task.call
    if call.key is None:
        return None
    return msgspec.json.encode((call.method, call.name, call.key)).decode()
