"""Who may call from a web page: nobody but pages of this machine, and those that were allowed.

A page of some other site can make a browser send requests to servers on this machine, also by a
name that it lets point here (DNS rebinding); `Origin` and `Host` tell.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

__all__ = ["Origins"]

LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Origins:
    """`allowed` are origins of pages, `is_local` says that only this machine can connect."""

    def __init__(self, allowed: Iterable[str], *, is_local: bool, public_url: str | None) -> None:
        known = [*allowed, *([] if public_url is None else [public_url])]
        self._allowed = {_origin_of(url) for url in known}
        self._hosts = {urlsplit(url).hostname for url in known} | LOCAL if is_local else None
        self.refusal = lru_cache(1_000)(self._refusal)  # callers differ less than requests
        """Why a request with this `Host` and `Origin` is refused (2025-11-25, 2026-07-28)."""

    def _refusal(self, host: str | None, origin: str | None) -> str | None:
        if (
            self._hosts is not None
            and host is not None
            and _hostname(f"//{host}") not in self._hosts
        ):
            return "Forbidden: this server is for its own machine; see public_url in its settings"
        if origin is not None and not self._is_allowed(origin):
            return "Forbidden: pages of this origin may not call; see origins in the settings"
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
