"""JSON text to values and back, bounded and strict.

`msgspec` parses.  It refuses invalid UTF-8, lone surrogates, NaN, numbers beyond a double, control
characters and trailing text; integers keep all their digits; the last of duplicate keys wins.
This module adds the limits of size and of nesting, which counts objects and arrays.
"""

import re
from collections.abc import Callable
from itertools import accumulate
from typing import Any, Final

import msgspec

__all__ = ["MAX_BYTES", "MAX_DEPTH", "Encoded", "JSONObject", "decode_json", "encode_json"]

MAX_BYTES: Final = 4 * 1024 * 1024
MAX_DEPTH: Final = 128

JSONObject = dict[str, Any]

Encoded = msgspec.Raw
"""JSON text that is already encoded; `encode_json` copies it unchanged."""

_decoder: Final = msgspec.json.Decoder()


def decode_json(data: bytes) -> Any:
    """Return the value of a JSON text; ValueError states why it is refused."""
    if len(data) > MAX_BYTES:
        raise ValueError(f"{len(data)} bytes exceed the limit of {MAX_BYTES}")
    try:
        value = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels") from None
    # The number of brackets is an upper bound of the depth and suffices for nearly every message.
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _depth(data) > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    return value


encode_json: Final[Callable[[Any], bytes]] = msgspec.json.Encoder().encode
"""JSON text on one line.  A lone surrogate is a ValueError; NaN and infinities become null."""


_STRINGS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def _depth(data: bytes) -> int:
    """Return the nesting depth of valid JSON text, in linear time."""
    brackets = _STRINGS.sub(b"", data).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)
