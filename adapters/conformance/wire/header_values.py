"""Header values of 2026-07-28: plain ASCII unchanged, other text as marked Base64."""

import base64
import binascii
import re
from typing import Any, Final

__all__ = ["decode_value", "encode_value", "is_encoded", "to_base64", "to_text"]

_ENCODED: Final = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)


def to_text(value: Any) -> str:
    """Return a parameter as text: booleans in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def to_base64(text: str) -> str:
    """Encode a text in marked Base64."""
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def encode_value(text: str) -> str:
    """Encode a text unless a header can carry it unchanged and unambiguously."""
    # 2026-07-28:header-value-base64, 2026-07-28:header-sentinel-lookalike-encoded
    is_visible = all(" " <= character <= "~" or character == "\t" for character in text)
    is_plain = is_visible and text != "" and text == text.strip() and not is_encoded(text)
    return text if is_plain else to_base64(text)


def is_encoded(value: str) -> bool:
    """Return whether a value is marked Base64."""
    return _ENCODED.fullmatch(value) is not None


def decode_value(value: str) -> str | None:
    """Decode a value; None if its Base64 is invalid."""
    encoded = _ENCODED.fullmatch(value)
    if encoded is None:
        return value
    try:
        return base64.b64decode(encoded[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
