"""Who is calling: an Authorization header in, an owner out, anew on each request.

There are three ways, chosen by the settings; nothing but the header is looked at, so a token in
a query string is no token.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

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
from taskmachine.adapters.transports.auth.owners import Caller, Owners, Principal
from taskmachine.adapters.transports.auth.static_tokens import StaticTokenAuthenticator, read_tokens
from taskmachine.statemachine import ConfigurationError

__all__ = [
    "Authenticator",
    "Caller",
    "HeaderAuthenticator",
    "JwtAuthenticator",
    "KeysUnavailable",
    "Principal",
    "Recognising",
    "StaticTokenAuthenticator",
    "Unauthorized",
    "authenticator_from",
]

T = TypeVar("T")


class Authenticator(Protocol):
    """To be asked on each request: nothing is bound to a connection or session."""

    async def authenticate(self, authorization: str | None) -> str:
        """The owner of the caller with this Authorization header; `Unauthorized`.

        Also `KeysUnavailable`, when the fault is not the caller's.
        """


@runtime_checkable
class Recognising(Authenticator, Protocol):
    """An authenticator that verifies, and knows more of a caller: whoever lets them in for a
    while wants to know.
    """

    async def recognise(self, authorization: str | None) -> Caller:
        """Like `authenticate`."""


class HeaderAuthenticator:
    """Verifies nothing: whoever sends the same header is the same caller.

    For a server behind something that has verified the header already.
    """

    def __init__(self, owners: Owners) -> None:
        self._owners = owners

    async def authenticate(self, authorization: str | None) -> str:
        if not authorization:
            raise no_credentials()
        if len(authorization) > MAX_CREDENTIALS:
            raise invalid_token("the Authorization header is too long")
        return self._owners.of_header(authorization)


_KEYS: Final = {
    "jwt": {"issuer", "audience", "jwks", "scopes"},
    "tokens": {"tokens"},
    "header": set[str](),
}


def authenticator_from(settings: Mapping[str, Any], owners: Owners) -> Authenticator | None:
    """What the table `auth` of the settings asks for; None if it is empty.

    ConfigurationError for every mistake, naming the key.  Paths are taken as they are: relative
    to the working directory.
    """
    if not settings:
        return None
    kind = settings.get("kind")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise ConfigurationError('auth.kind must be "jwt", "tokens" or "header"')
    for key in settings:
        if key != "kind" and key not in _KEYS[kind]:
            raise ConfigurationError(f'auth.{key} is no setting of kind "{kind}"')
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
        raise ConfigurationError(f"auth.{key} must be a text of at least one character")
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
