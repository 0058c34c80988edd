"""Tasks and lines of history as bytes, and the columns that indexes need, for databases.

MessagePack with the names of the fields: what an older version did not write takes its default,
and what a newer one added is skipped.  Records with an integer beyond 64 bits, which MessagePack
does not have and JSON messages may bring along, are JSON.
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
"""Bytes in which the length of a line is written."""

_JSON: Final = ord("{")  # no map of MessagePack begins with this byte


def write_record(value: Task | Entry) -> bytes:
    """Its bytes; `StoreError` if it has text that is no Unicode."""
    try:
        return _encoder.encode(value)
    except OverflowError:
        return _json_encoder.encode(value)
    except UnicodeEncodeError as error:
        raise StoreError(f"the record cannot be stored: {error}") from None


def read_task(data: bytes) -> Task:
    """The task that was written; `StoreError` if the bytes are damaged."""
    try:
        if data[0] == _JSON:
            return _json_task_decoder.decode(data)
        return _task_decoder.decode(data)
    except (ValueError, IndexError) as error:  # msgspec's errors are ValueErrors
        raise StoreError(f"a stored task is damaged: {error}") from None


def framed(line: bytes) -> bytes:
    """Return a record with its length before it, so that others can follow."""
    return len(line).to_bytes(_LENGTH) + line


def split_lines(data: bytes) -> list[bytes]:
    """What was joined; the last one is shorter than it should be if the end is missing."""
    lines, at = [], 0
    while at < len(data):
        begin = at + _LENGTH
        at = begin + int.from_bytes(data[at:begin])
        lines.append(data[begin:at])
    return lines


def read_entry(data: bytes) -> Entry:
    """The line of history that was written; `StoreError` if the bytes are damaged."""
    try:
        if data[0] == _JSON:
            return _json_entry_decoder.decode(data)
        return _entry_decoder.decode(data)
    except (ValueError, IndexError) as error:
        raise StoreError(f"a stored line of history is damaged: {error}") from None


MAX_INTEGER: Final = 2**63 - 1

Columns = tuple[int, int | None, int, str | None, int]
"""is_live, deadline, is_queued, holder, is_waiting."""


def columns_of(task: Task) -> Columns:
    """What the indexes need to know of a task, by the duties of its state."""
    duties, deadline = task.state.duties, task.deadline
    return (
        int(duties.is_live),
        None if deadline is None else min(deadline, MAX_INTEGER),
        int(duties.is_queued),
        task.worker if duties.is_live else None,
        int(duties.is_waiting),
    )


def call_key(task: Task) -> str | None:
    """Equal for calls that are the same one to their owner.

    One text and not three columns: to an index, two tasks without a name would differ.
    """
    call = task.call
    if call.key is None:
        return None
    return msgspec.json.encode((call.method, call.name, call.key)).decode()
