"""Suggest the names that a user may have meant."""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["did_you_mean"]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `: did you mean 'a' or 'b'?`, or nothing if no known name is similar."""
    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_lower, 3, 0.7)
    quoted = " or ".join(f"'{by_lower[each]}'" for each in near)
    return f": did you mean {quoted}?" if near else ""
