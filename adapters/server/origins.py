"""Who may call from a web page: nobody but pages of this machine, and those that were allowed.

A page of some other site can make a browser send requests to servers on this machine, also by a
name that it lets point here (DNS rebinding); `Origin` and `Host` tell.
"""

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

from taskmachine.adapters.server.asgi import Refusal
from taskmachine.protocol.jsonrpc import INVALID_REQUEST

__all__ = ["Origins"]

LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Origins:
    """`allowed` are origins of pages, `is_local` says that only this machine can connect."""

    def __init__(self, allowed: Iterable[str], *, is_local: bool, public_url: str | None) -> None:
        known = [*allowed, *([] if public_url is None else [public_url])]
        self._allowed = {_origin_of(url) for url in known}
        self._hosts = {urlsplit(url).hostname for url in known} | LOCAL if is_local else None
        self._seen: dict[str, bool] = {}

    def check(self, headers: Mapping[str, str]) -> None:
        """`Refusal` (403) for a page that is not allowed (2025-11-25, 2026-07-28)."""
        host = headers.get("host")
        if self._hosts is not None and host is not None and not self._is_known_host(host):
            why = "Forbidden: this server is for its own machine; see public_url in its settings"
            raise Refusal(403, INVALID_REQUEST, why)
        origin = headers.get("origin")
        if origin is not None and not self._is_allowed(origin):
            why = "Forbidden: pages of this origin may not call; see origins in the settings"
            raise Refusal(403, INVALID_REQUEST, why)

    def _is_known_host(self, host: str) -> bool:
        if host not in self._seen:
            if len(self._seen) > 1_000:
                self._seen.clear()
            self._seen[host] = self._hosts is not None and _hostname(f"//{host}") in self._hosts
        return self._seen[host]

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
