"""Convert Python values to JSON values, for results of tools and defaults of parameters."""

import dataclasses
from collections.abc import Mapping
from datetime import date
from enum import Enum
from math import isfinite
from typing import Any, Final
from uuid import UUID

import attrs

from taskmachine.protocol.jsonrpc import json_type
from taskmachine.protocol.jsonvalue import MAX_DEPTH, encode_json

__all__ = ["fields_of", "shown", "step", "to_json"]

_LONGEST_SHOWN: Final = 40


def to_json(value: Any, place: str = "result", depth: int = 0) -> Any:
    """Return `value` as JSON; ValueError names the first member that cannot be converted.

    Objects are written with the fields that their constructors take, so they can be read again.
    """
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        if not isfinite(value):
            raise ValueError(f"{place} must be a finite number, got {value}")
        return float(value)
    if isinstance(value, int):
        return _encodable(int(value), place)
    if isinstance(value, str):
        return _encodable(str.__str__(value), place)
    if isinstance(value, date):  # a datetime is one too
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if depth == MAX_DEPTH:  # the limit of `decode_json`; also ends cycles
        raise ValueError(f"{place[:_LONGEST_SHOWN]}… is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, list | tuple | set | frozenset):
        items = [to_json(item, place + step(i), depth + 1) for i, item in enumerate(value)]
        # A set has no order; sorting makes equal sets equal in every process.
        return items if isinstance(value, list | tuple) else sorted(items, key=encode_json)
    return {
        name: to_json(item, place + step(name), depth + 1)
        for name, item in _members(value, place).items()
    }


def _encodable(value: Any, place: str) -> Any:
    try:
        encode_json(value)
    except ValueError as error:  # a lone surrogate, or thousands of digits
        raise ValueError(f"{place} cannot be JSON: {error}") from None
    return value


def _members(value: Any, place: str) -> dict[str, Any]:
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"{place} has a key of type {type(key).__name__}, not a string")
        return {_encodable(str.__str__(key), place): item for key, item in value.items()}
    fields = fields_of(type(value))
    if fields is None:
        raise ValueError(f"{place} cannot be JSON: it is of type {type(value).__name__}")
    return {getattr(f, "alias", f.name): getattr(value, f.name) for f in fields}


def fields_of(cls: type) -> list[Any] | None:
    """Return the constructor's fields of an attrs class or dataclass; None for any other type."""
    if attrs.has(cls):
        return [field for field in attrs.fields(cls) if field.init]
    if dataclasses.is_dataclass(cls):
        return [field for field in dataclasses.fields(cls) if field.init]
    return None


def step(key: str | int) -> str:
    """Return the suffix that names a member or item in a message."""
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if key.isidentifier() and len(key) <= _LONGEST_SHOWN else f"[{shown(key)}]"


def shown(value: Any) -> str:
    """Return a short representation of a JSON value for messages."""
    if type(value) is str:
        return repr(value if len(value) <= _LONGEST_SHOWN else value[:_LONGEST_SHOWN] + "…")
    if isinstance(value, list | dict) or (type(value) is int and value.bit_length() > 64):
        return json_type(value)
    return encode_json(value).decode()
