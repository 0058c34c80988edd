"""Values in headers of 2026-07-28: plain ASCII as it is, all else in Base64 between markers."""

import base64
import binascii
import re
from typing import Any, Final

__all__ = ["decode_value", "encode_value", "is_encoded", "to_base64", "to_text"]

_ENCODED: Final = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)


def to_text(value: Any) -> str:
    """Return the text that stands for a parameter: booleans in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def to_base64(text: str) -> str:
    """Encode a text, needed or not."""
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def encode_value(text: str) -> str:
    """Encode a text unless a header carries it unchanged, and a reader takes it as it is."""
    # 2026-07-28:header-value-base64, 2026-07-28:header-sentinel-lookalike-encoded
    is_visible = all(" " <= character <= "~" or character == "\t" for character in text)
    is_plain = is_visible and text != "" and text == text.strip() and not is_encoded(text)
    return text if is_plain else to_base64(text)


def is_encoded(value: str) -> bool:
    """Tell whether a value stands between the markers."""
    return _ENCODED.fullmatch(value) is not None


def decode_value(value: str) -> str | None:
    """Return the text that a value stands for; None if its Base64 is broken."""
    encoded = _ENCODED.fullmatch(value)
    if encoded is None:
        return value
    try:
        return base64.b64decode(encoded[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
