"""Console login by an access token, or by a link with a key.

Browsers do not send bearer tokens by themselves, so the credential is exchanged once for a cookie
that does not contain it.
"""

import hmac
import secrets
from typing import Final, Protocol

from taskmachine.adapters.transports.auth.authentication import (
    Authenticator,
    HeaderAuthenticator,
    Unauthorized,
)
from taskmachine.adapters.transports.auth.owners import ADMIN
from taskmachine.protocol.caller import Caller
from taskmachine.statemachine import TaskmachineError

__all__ = ["LinkLogin", "Login", "Refused", "TokenLogin", "login_for"]

THIS_MACHINE: Final = "console"
"""The owner for a login by link.  It has no tasks, but is an admin and sees those of all."""


class Refused(TaskmachineError):
    """The login is refused; the message is shown to the user."""


class Login(Protocol):
    """A way to log in.  `asks_for` labels the input field of the login page."""

    asks_for: str
    hint: str

    async def admit(self, shown: str) -> Caller:
        """Return the caller for a credential; `Refused`, or `KeysUnavailable` without keys."""


class TokenLogin:
    """Login with the access token of an authenticated caller of the server."""

    asks_for = "Access token"
    hint = "The token with which you call this server. It is not stored."

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    async def admit(self, shown: str) -> Caller:
        try:
            return await self._authenticator.authenticate(f"Bearer {shown.strip()}")
        except Unauthorized as error:
            raise Refused(error.description) from None


class LinkLogin:
    """Login as admin with the key that a server without authentication prints at its start."""

    asks_for = "Key"
    hint = "The server printed a link with the key when it started: open that link."

    def __init__(self, key: str | None = None) -> None:
        self.key: Final = secrets.token_urlsafe(32) if key is None else key

    async def admit(self, shown: str) -> Caller:
        if not hmac.compare_digest(self.key.encode(), shown.strip().encode()):
            raise Refused("the key is not valid; the server creates a new one at each start")
        return Caller(THIS_MACHINE, scopes=frozenset({ADMIN}))


def login_for(authenticator: Authenticator | None, *, is_local: bool) -> Login | None:
    """Return the login for a server, or None if it cannot authenticate users.

    An authenticator must verify tokens, and the link is for local servers only.
    """
    if authenticator is None:
        return LinkLogin() if is_local else None
    return None if isinstance(authenticator, HeaderAuthenticator) else TokenLogin(authenticator)
