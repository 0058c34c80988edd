"""Authentication of each HTTP request by its Authorization header.

The settings select one of three kinds.  A token in a query string is ignored.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from taskmachine.adapters.transports.auth.bearer_tokens import (
    MAX_CREDENTIALS,
    SCOPE,
    Unauthorized,
    invalid_token,
    no_credentials,
)
from taskmachine.adapters.transports.auth.jwt_tokens import JwtAuthenticator
from taskmachine.adapters.transports.auth.key_sources import (
    KeyFile,
    KeySource,
    KeysUnavailable,
    KeyUrl,
    check_address,
)
from taskmachine.adapters.transports.auth.owners import Owners, Principal
from taskmachine.adapters.transports.auth.static_tokens import StaticTokenAuthenticator, read_tokens
from taskmachine.protocol.caller import Caller
from taskmachine.statemachine import ConfigurationError

__all__ = [
    "Authenticator",
    "HeaderAuthenticator",
    "JwtAuthenticator",
    "KeysUnavailable",
    "Principal",
    "StaticTokenAuthenticator",
    "Unauthorized",
    "authenticator_from",
]

T = TypeVar("T")


class Authenticator(Protocol):
    """Authenticates each request by itself, independently of connections and sessions."""

    async def authenticate(self, authorization: str | None) -> Caller:
        """Return the caller for this Authorization header.

        Raise `Unauthorized`, or `KeysUnavailable` if the server cannot verify tokens.
        """


class HeaderAuthenticator:
    """Derives the owner from the raw header without verifying it.

    For a server behind a proxy that verifies the header.
    """

    def __init__(self, owners: Owners) -> None:
        self._owners = owners

    async def authenticate(self, authorization: str | None) -> Caller:
        if not authorization:
            raise no_credentials()
        if len(authorization) > MAX_CREDENTIALS:
            raise invalid_token("the Authorization header is too long")
        return Caller(self._owners.of_header(authorization))


_KEYS: Final = {
    "jwt": {"issuer", "audience", "jwks", "scopes"},
    "tokens": {"tokens"},
    "header": set[str](),
}


def authenticator_from(settings: Mapping[str, Any], owners: Owners) -> Authenticator | None:
    """Create the authenticator that the table `auth` of the settings describes, or None if empty.

    ConfigurationError names the wrong key.  Paths are relative to the working directory.
    """
    if not settings:
        return None
    kind = settings.get("kind")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise ConfigurationError('auth.kind must be "jwt", "tokens" or "header"')
    for key in settings:
        if key != "kind" and key not in _KEYS[kind]:
            raise ConfigurationError(f'auth.{key} is not a setting of kind "{kind}"')
    if kind == "header":
        return HeaderAuthenticator(owners)
    if kind == "tokens":
        path = _text(settings, "tokens")
        return _named("tokens", lambda: StaticTokenAuthenticator(owners, read_tokens(Path(path))))
    issuer = _text(settings, "issuer")
    _named("issuer", lambda: check_address(issuer))
    place = _text(settings, "jwks")
    return JwtAuthenticator(
        owners,
        issuer,
        _text(settings, "audience"),
        _named("jwks", lambda: _key_source(place)),
        required_scopes=_scopes(settings),
    )


def _key_source(place: str) -> KeySource:
    return KeyUrl(place) if "://" in place else KeyFile(Path(place))


def _text(settings: Mapping[str, Any], key: str) -> str:
    value = settings.get(key)
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ConfigurationError(f"auth.{key} must be a non-empty string of printable characters")
    return value


def _scopes(settings: Mapping[str, Any]) -> list[str]:
    scopes = settings.get("scopes", [])
    if not isinstance(scopes, list) or not all(
        isinstance(scope, str) and SCOPE.fullmatch(scope) for scope in scopes
    ):
        raise ConfigurationError("auth.scopes must be a list of scopes without spaces and quotes")
    # A client asks its authorization server for it; no resource needs it (2026-07-28).
    if "offline_access" in scopes:
        raise ConfigurationError("auth.scopes must not contain offline_access")
    return scopes


def _named(key: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except ConfigurationError as error:
        raise ConfigurationError(f"auth.{key}: {error}") from None
