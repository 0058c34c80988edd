"""The public keys of an issuer: a JSON Web Key Set (RFC 7517) in a file or at a URL.

Both sources notice new keys and withdrawn ones.  When a source fails, the server keeps using the
keys that it has: an outage of the issuer is no outage of this server.
"""

import asyncio
import logging
import math
import os
import time
from collections.abc import Callable, Collection
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

import httpx
import jwt

from taskmachine.protocol.jsonvalue import decode_json
from taskmachine.statemachine import ConfigurationError, TaskmachineError

__all__ = [
    "ALGORITHMS",
    "MAX_KEY_SET",
    "KeyFile",
    "KeySource",
    "KeyUrl",
    "KeysUnavailable",
    "check_address",
    "decode_key_set",
]

log: Final = logging.getLogger("taskmachine")

_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")

ALGORITHMS: Final = (*_RSA, "ES256", "ES384", "ES512", "EdDSA")
"""All of them are asymmetric: no `none`, and no HMAC, whose key every client could read."""

MAX_KEY_SET: Final = 256 * 1024
"""Maximum size of a key set, in bytes."""

_FRESH_S: Final = 3_600
"""Time after which the server notices a withdrawn key."""

_RENEW_S: Final = 60
"""Time between two fetches for unknown keys: any client can make up a key id."""

_RETRY_S: Final = 5
"""Time between two tries while the server has no keys at all."""

_MEMBERS: Final = ("kty", "kid", "alg", "crv", "n", "e", "x", "y")


class KeysUnavailable(TaskmachineError):
    """The server never had a key, so it can verify no token: HTTP 503, not the caller's fault."""

    def __init__(self, retry_after_ms: int) -> None:
        super().__init__("the keys of the issuer cannot be had at the moment")
        self.retry_after_ms = retry_after_ms


class KeySource(Protocol):
    """The keys of an issuer as they are now."""

    async def current(self) -> Collection[jwt.PyJWK]:
        """Return the known keys; cheap, for every request."""

    async def renewed(self) -> Collection[jwt.PyJWK]:
        """Return the keys after a token came with a key that is not among them."""


def decode_key_set(document: bytes) -> Collection[jwt.PyJWK]:
    """Return the keys that can verify a signature, each bound to one algorithm.

    The others are left out: secrets (`oct`), keys for encryption, weak RSA keys, unknown curves.
    ValueError if the document is not a key set, or has no such key.
    """
    if len(document) > MAX_KEY_SET:
        raise ValueError(f"it has more than {MAX_KEY_SET} bytes")
    value = decode_json(document)
    members = value.get("keys") if isinstance(value, dict) else None
    if not isinstance(members, list):
        raise ValueError("it is not a JSON Web Key Set")
    public = []
    for member in members:
        if not isinstance(member, dict) or member.get("use", "sig") != "sig":
            continue
        # The public members only, in case an issuer publishes a private key.
        key = {name: member[name] for name in _MEMBERS if name in member}
        if not all(isinstance(value, str) for value in key.values()) or key.get("kty") == "oct":
            continue
        # PyJWT takes RS256 for the algorithm of each RSA key that names none.
        names = _RSA if key.get("kty") == "RSA" and "alg" not in key else [key.get("alg")]
        public += [{**key, "alg": name} for name in names if name in (None, *ALGORITHMS)]
    try:
        found = jwt.PyJWKSet(public).keys
    except jwt.PyJWKSetError:
        found = []
    keys = [key for key in found if key.algorithm_name in ALGORITHMS and _is_usable(key)]
    if not keys:
        raise ValueError("it has no public key that can verify a signature")
    return keys


def _is_usable(key: jwt.PyJWK) -> bool:
    fault: object
    try:
        fault = key.Algorithm.check_key_length(key.Algorithm.prepare_key(key.key))
    except jwt.InvalidKeyError as error:  # a curve of another algorithm
        fault = error
    if fault:
        log.warning("the key %r is not used: %s", key.key_id, fault)
    return not fault


class KeyFile:
    """A key set in a file, read again when the file has changed.

    ConfigurationError if the file is unusable at first; later the server logs it and keeps the
    old keys.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = self._look()
        try:
            self._keys = self._read()
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"cannot use {path}: {_reason(error)}") from None

    async def current(self) -> Collection[jwt.PyJWK]:
        # Looked at before it is read: a change in between is seen the next time.
        if (stamp := self._look()) != self._stamp:
            self._stamp = stamp  # also of a broken file: it is read, and logged, once
            try:
                self._keys = self._read()
            except (OSError, ValueError) as error:
                log.warning("the old keys stay: cannot use %s: %s", self._path, _reason(error))
        return self._keys

    async def renewed(self) -> Collection[jwt.PyJWK]:
        return await self.current()

    def _look(self) -> tuple[int, ...]:
        try:
            found = os.stat(self._path)
        except OSError:
            return ()
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> Collection[jwt.PyJWK]:
        with self._path.open("rb") as file:
            return decode_key_set(file.read(MAX_KEY_SET + 1))


class KeyUrl:
    """A key set at a URL, fetched when a request first needs it, and again every hour.

    A key that is not in the set causes one more fetch, at most once a minute.  All requests that
    need a fetch share the one under way.  `clock` counts seconds.  ConfigurationError for a URL
    that is not safe; see `check_address`.
    """

    def __init__(
        self, url: str, clock: Callable[[], float] = time.monotonic, timeout_s: float = 5.0
    ) -> None:
        check_address(url)
        self._url = url
        self._clock = clock
        self._timeout_s = timeout_s
        self._tls = httpx.create_ssl_context()  # slow: not while requests wait
        self._keys: Collection[jwt.PyJWK] = ()
        self._fetched_at = self._tried_at = self._renewed_at = -math.inf
        self._fetching: asyncio.Task[None] | None = None

    async def current(self) -> Collection[jwt.PyJWK]:
        if self._is_over(self._fetched_at, _FRESH_S):
            pause_s = _RENEW_S if self._keys else _RETRY_S
            if self._fetching is not None or self._is_over(self._tried_at, pause_s):
                await self._fetch()
        if not self._keys:
            raise KeysUnavailable(_RETRY_S * 1_000)
        return self._keys

    async def renewed(self) -> Collection[jwt.PyJWK]:
        if self._fetching is not None:
            await self._fetch()
        elif self._is_over(self._renewed_at, _RENEW_S):
            self._renewed_at = self._clock()
            await self._fetch()
        return await self.current()

    def _is_over(self, since: float, pause_s: float) -> bool:
        return self._clock() - since >= pause_s

    async def _fetch(self) -> None:
        if self._fetching is None:
            self._tried_at = self._clock()
            self._fetching = asyncio.create_task(self._load())
        # A request that is cancelled does not cancel the fetch that the others wait for.
        await asyncio.shield(self._fetching)

    async def _load(self) -> None:
        try:
            # One bound for all of it: a peer that sends a byte now and then is slow too.
            async with asyncio.timeout(self._timeout_s):
                self._keys = decode_key_set(await self._download())
            self._fetched_at = self._clock()
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            log.warning("cannot fetch keys from %s: %s", self._url, _reason(error))
        finally:
            self._fetching = None

    async def _download(self) -> bytes:
        # Plain HTTP is allowed only on this host, so it must not go through a proxy either.
        is_public = urlsplit(self._url).scheme == "https"
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        async with (
            httpx.AsyncClient(verify=self._tls, trust_env=is_public, timeout=None) as client,
            client.stream("GET", self._url, headers=headers) as response,
        ):
            if response.status_code != 200:  # also a redirect: the operator named this URL only
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


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
