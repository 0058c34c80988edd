"""Checks of `Origin` and `Host`: only local and explicitly allowed web pages may send requests.

Any web page can make a browser send requests to servers on this machine, also through a domain
name that resolves to it (DNS rebinding).
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

__all__ = ["Origins"]

LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Origins:
    """Checks requests; with `is_local` only this machine can connect, and `Host` is checked."""

    def __init__(self, allowed: Iterable[str], *, is_local: bool, public_url: str | None) -> None:
        known = [*allowed, *([] if public_url is None else [public_url])]
        self._allowed = {_origin_of(url) for url in known}
        self._hosts = {urlsplit(url).hostname for url in known} | LOCAL if is_local else None
        self.refusal = lru_cache(1_000)(self._refusal)  # most requests repeat these headers
        """Return why a request with this `Host` and `Origin` is refused, or None."""

    def _refusal(self, host: str | None, origin: str | None) -> str | None:
        if (
            self._hosts is not None
            and host is not None
            and _hostname(f"//{host}") not in self._hosts
        ):
            return "Forbidden: the server accepts local host names only; see its setting public_url"
        if origin is not None and not self._is_allowed(origin):
            return "Forbidden: this origin is not allowed; see the server's setting origins"
        return None

    def _is_allowed(self, origin: str) -> bool:
        return _hostname(origin) in LOCAL or _origin_of(origin) in self._allowed


def _hostname(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _origin_of(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}".lower()
