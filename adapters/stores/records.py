"""Tasks and lines of history as bytes, for stores that keep bytes.

MessagePack with the names of the fields: what an older version did not write takes its default,
and what a newer one added is skipped.  Records with an integer beyond 64 bits, which MessagePack
does not have and JSON messages may bring along, are JSON.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from taskmachine.adapters.stores import StoreError
from taskmachine.statemachine import Entry, Task

__all__ = ["join_lines", "read_entry", "read_task", "split_lines", "write_record"]

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


def join_lines(lines: Iterable[bytes]) -> bytes:
    """Records one after the other, so that more can be added at the end."""
    return b"".join(len(line).to_bytes(_LENGTH) + line for line in lines)


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
