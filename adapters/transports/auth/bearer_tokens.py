"""Bearer token parsing, and the errors that refuse a caller (RFC 6750)."""

import re
from typing import Final

from taskmachine.statemachine import TaskmachineError

__all__ = [
    "MAX_CREDENTIALS",
    "SCOPE",
    "TOKEN",
    "Unauthorized",
    "bearer_token",
    "insufficient_scope",
    "invalid_token",
    "no_credentials",
]

MAX_CREDENTIALS: Final = 16 * 1024
"""Maximum length of an Authorization header, in characters."""

TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""A bearer token (RFC 6750)."""

SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
"""One scope: visible ASCII without quotes and backslashes (RFC 6749)."""

_SCHEME: Final = re.compile(r"bearer(?: +(.*))?", re.IGNORECASE | re.DOTALL)


class Unauthorized(TaskmachineError):
    """The credentials are missing, invalid or insufficient.

    `status` is 401 or 403.  `error` is None if there were no bearer credentials, else
    `invalid_token` or `insufficient_scope`.  `description` is safe to send to the caller.
    """

    def __init__(self, status: int, error: str | None, description: str) -> None:
        super().__init__(description)
        self.status = status
        self.error = error
        self.description = description


def no_credentials() -> Unauthorized:
    # RFC 6750: no error code if the request has no credentials or uses another scheme.
    return Unauthorized(401, None, "this server needs an access token")


def invalid_token(description: str = "") -> Unauthorized:
    return Unauthorized(401, "invalid_token", description or "the access token is not valid")


def insufficient_scope() -> Unauthorized:
    return Unauthorized(403, "insufficient_scope", "the access token lacks a scope")


def bearer_token(authorization: str | None) -> str:
    """Return the token of an Authorization header; `Unauthorized` if it has none.

    The scheme is case-insensitive.  Two headers joined by a comma are refused.
    """
    if authorization is None:
        raise no_credentials()
    if len(authorization) > MAX_CREDENTIALS:
        raise invalid_token("the access token is too long")
    found = _SCHEME.fullmatch(authorization)
    if found is None:
        raise no_credentials()
    token = found[1] or ""
    if not TOKEN.fullmatch(token):
        raise invalid_token("the Authorization header has no single well-formed token")
    return token
