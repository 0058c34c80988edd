"""The public keys of an issuer: a JSON Web Key Set (RFC 7517) in a file or at a URL.

Both sources pick up new and withdrawn keys.  While a source fails, the server keeps using the
last keys, so an outage of the issuer does not become one of this server.
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
"""Time between two fetches for unknown keys: any client can send an invented key id."""

_RETRY_S: Final = 5
"""Time between two tries while the server has no keys at all."""

_MEMBERS: Final = ("kty", "kid", "alg", "crv", "n", "e", "x", "y")


class KeysUnavailable(TaskmachineError):
    """The server has not loaded any key yet and cannot verify tokens: HTTP 503."""

    def __init__(self, retry_after_ms: int) -> None:
        super().__init__("the issuer's keys are not available")
        self.retry_after_ms = retry_after_ms


class KeySource(Protocol):
    """A source of an issuer's current keys."""

    async def current(self) -> Collection[jwt.PyJWK]:
        """Return the known keys; called for every request."""

    async def renewed(self) -> Collection[jwt.PyJWK]:
        """Return the keys, reloaded if allowed, after a token named an unknown key."""


def decode_key_set(document: bytes) -> Collection[jwt.PyJWK]:
    """Return the keys that can verify a signature, each bound to one algorithm.

    Secrets (`oct`), encryption keys, weak RSA keys and unknown curves are left out.
    ValueError if the document is not a key set, or has no usable key.
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
        # PyJWT assumes RS256 for an RSA key without an algorithm.
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
        log.warning("ignoring key %r: %s", key.key_id, fault)
    return not fault


class KeyFile:
    """A key set in a file, reloaded when the file changes.

    ConfigurationError if the file is unusable at the start; later failures are logged and the
    last keys stay in use.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = self._file_stamp()
        try:
            self._keys = self._read()
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"cannot use {path}: {_reason(error)}") from None

    async def current(self) -> Collection[jwt.PyJWK]:
        # The stamp is taken before reading, so a change in between is seen the next time.
        if (stamp := self._file_stamp()) != self._stamp:
            self._stamp = stamp  # also of a broken file, so that it is logged once
            try:
                self._keys = self._read()
            except (OSError, ValueError) as error:
                log.warning("cannot use %s, keeping the old keys: %s", self._path, _reason(error))
        return self._keys

    async def renewed(self) -> Collection[jwt.PyJWK]:
        return await self.current()

    def _file_stamp(self) -> tuple[int, ...]:
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

    An unknown key causes one more fetch, at most once a minute.  Concurrent requests share a
    fetch.  `clock` counts seconds.  ConfigurationError for an unsafe URL; see `check_address`.
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
        if self._has_passed(_FRESH_S, self._fetched_at):
            pause_s = _RENEW_S if self._keys else _RETRY_S
            if self._fetching is not None or self._has_passed(pause_s, self._tried_at):
                await self._fetch()
        if not self._keys:
            raise KeysUnavailable(_RETRY_S * 1_000)
        return self._keys

    async def renewed(self) -> Collection[jwt.PyJWK]:
        if self._fetching is not None:
            await self._fetch()
        elif self._has_passed(_RENEW_S, self._renewed_at):
            self._renewed_at = self._clock()
            await self._fetch()
        return await self.current()

    def _has_passed(self, seconds: float, since: float) -> bool:
        return self._clock() - since >= seconds

    async def _fetch(self) -> None:
        if self._fetching is None:
            self._tried_at = self._clock()
            self._fetching = asyncio.create_task(self._load())
        # Cancelling one request must not cancel the fetch that other requests share.
        await asyncio.shield(self._fetching)

    async def _load(self) -> None:
        try:
            # One bound for the whole download, also for a server that sends byte by byte.
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
    """Raise ConfigurationError unless it is `https`, or `http` on this host, without a password."""
    try:
        parts = urlsplit(url)
        host, is_well_formed = parts.hostname, parts.port != 0
    except ValueError:
        host, is_well_formed = None, False
    if not host or not is_well_formed or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigurationError("this is not a valid URL")
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
