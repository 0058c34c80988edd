"""Where the keys of an issuer come from: a file, or an address.

Both notice new keys and withdrawn ones.  When the source fails, the keys that are known stay in
use: an outage of the issuer is no outage of this server.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

import httpx

from taskmachine.adapters.server.jwt_keys import MAX_KEY_SET, KeySet, decode_key_set
from taskmachine.statemachine import ConfigurationError, TaskmachineError

__all__ = ["KeyFile", "KeySource", "KeyUrl", "KeysUnavailable", "check_address"]

log: Final = logging.getLogger("taskmachine")

_FRESH_MS: Final = 3_600_000
"""After which a withdrawn key is noticed."""

_RENEW_MS: Final = 60_000
"""Between two fetches that unknown keys cause: anybody can make one up."""

_RETRY_MS: Final = 5_000
"""Between two tries while there are no keys at all."""


class KeysUnavailable(TaskmachineError):
    """No key was ever had, so nobody can be verified: no fault of the caller (HTTP 503)."""

    def __init__(self, retry_after_ms: int) -> None:
        super().__init__("the keys of the issuer cannot be had at the moment")
        self.retry_after_ms = retry_after_ms


class KeySource(Protocol):
    """The same object as long as the keys are the same."""

    async def current(self) -> KeySet:
        """The keys as far as they are known; cheap, for every request."""

    async def renewed(self) -> KeySet:
        """The same, after somebody came with a key that is not among them."""


class KeyFile:
    """A key set in a file, read again when the file has changed.

    ConfigurationError if it cannot be used at first; later the old keys stay, and it is logged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._stamp, self._keys = self._read()
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"cannot use {path}: {_reason(error)}") from None

    async def current(self) -> KeySet:
        if (stamp := self._look()) != self._stamp:
            self._stamp = stamp  # also of a broken file: it is read, and logged, once
            try:
                self._stamp, self._keys = self._read()
            except (OSError, ValueError) as error:
                log.warning("the old keys stay: cannot use %s: %s", self._path, _reason(error))
        return self._keys

    async def renewed(self) -> KeySet:
        return await self.current()

    def _look(self) -> tuple[int, ...]:
        try:
            return _stamp(os.stat(self._path))
        except OSError:
            return ()

    def _read(self) -> tuple[tuple[int, ...], KeySet]:
        with self._path.open("rb") as file:
            stamp = _stamp(os.fstat(file.fileno()))
            return stamp, decode_key_set(file.read(MAX_KEY_SET + 1))


class KeyUrl:
    """A key set at an address, fetched when it is first needed, and again every hour.

    A key that is not in it causes one more fetch, at most once a minute.  Whoever needs a fetch
    while one is under way waits for that one.  ConfigurationError for an address that is not
    safe; see `check_address`.
    """

    def __init__(self, url: str, clock: Callable[[], int], timeout_s: float = 5.0) -> None:
        check_address(url)
        self._url = url
        self._clock = clock
        self._timeout_s = timeout_s
        self._tls = httpx.create_ssl_context()  # takes long: not while requests wait
        self._keys: KeySet | None = None
        self._document = b""
        self._fetched_at: int | None = None
        self._tried_at: int | None = None
        self._renewed_at: int | None = None
        self._fetching: asyncio.Task[None] | None = None

    async def current(self) -> KeySet:
        if self._is_over(self._fetched_at, _FRESH_MS):
            pause = _RETRY_MS if self._keys is None else _RENEW_MS
            if self._fetching is not None or self._is_over(self._tried_at, pause):
                await self._fetch()
        if self._keys is None:
            raise KeysUnavailable(_RETRY_MS)
        return self._keys

    async def renewed(self) -> KeySet:
        if self._fetching is not None:
            await self._fetch()
        elif self._is_over(self._renewed_at, _RENEW_MS):
            self._renewed_at = self._clock()
            await self._fetch()
        return await self.current()

    def _is_over(self, since: int | None, pause_ms: int) -> bool:
        # A clock that was set back must not stop the fetching until it has caught up.
        return since is None or not 0 <= self._clock() - since < pause_ms

    async def _fetch(self) -> None:
        if self._fetching is None:
            self._tried_at = self._clock()
            self._fetching = asyncio.create_task(self._load())
        # A caller that goes away does not take the fetch of the others with it.
        await asyncio.shield(self._fetching)

    async def _load(self) -> None:
        try:
            # One bound for all of it: a peer that sends a byte now and then is slow too.
            async with asyncio.timeout(self._timeout_s):
                document = await self._download()
            if document != self._document:
                self._keys = decode_key_set(document)
                self._document = document
            self._fetched_at = self._clock()
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            log.warning("cannot fetch keys from %s: %s", self._url, _reason(error))
        finally:
            self._fetching = None

    async def _download(self) -> bytes:
        # What may be plain because it stays on this host does not go through a proxy either.
        is_public = urlsplit(self._url).scheme == "https"
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        async with (
            httpx.AsyncClient(verify=self._tls, trust_env=is_public, timeout=None) as client,
            client.stream("GET", self._url, headers=headers) as response,
        ):
            if response.status_code != 200:  # also a redirect: to where, nobody has agreed to
                raise ValueError(f"HTTP status {response.status_code}")
            document = bytearray()
            async for chunk in response.aiter_raw():
                document += chunk
                if len(document) > MAX_KEY_SET:
                    raise ValueError(f"it has more than {MAX_KEY_SET} bytes")
            return bytes(document)


def check_address(url: str) -> None:
    """ConfigurationError unless it is `https`, or `http` on this very host, without a password."""
    try:
        parts = urlsplit(url)
        host, is_well_formed = parts.hostname, parts.port != 0
    except ValueError:
        host, is_well_formed = None, False
    if not host or not is_well_formed or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigurationError("it is not a URL")
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError("a URL must not contain a user name or password")
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(host)):
        raise ConfigurationError("a URL must begin with https:// (http:// only on this host)")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return found.st_mtime_ns, found.st_size, found.st_ino


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
