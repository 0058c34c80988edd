"""Who a task belongs to: one text for each caller, compared for equality on every operation.

Each kind of caller has a prefix of its own, so one kind can never pass for another, and what a
caller could be recognised or impersonated by is kept as a keyed hash: neither a subject, nor a
header, nor a session id can be read from the store, or guessed and tried without its secret.
"""

import base64
import hmac
from typing import Final

import attrs
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from taskmachine.protocol.sealing import MIN_SECRET
from taskmachine.statemachine import ConfigurationError

__all__ = ["ADMIN", "ANONYMOUS", "STDIO", "Caller", "Owners", "Principal"]

STDIO: Final = "stdio"
"""Whoever speaks to the process through its pipes: one owner for each store."""

ANONYMOUS: Final = "anonymous"
"""Everybody, where nobody is identified: the id of a task is the only secret."""


ADMIN: Final = "admin"
"""The scope of those who may see the tasks of all owners, in the console."""


@attrs.frozen
class Caller:
    """Who showed credentials, what they may see beyond their own, and until when that holds."""

    owner: str
    is_admin: bool = False
    expires_at: float | None = None
    """Milliseconds since the epoch."""


@attrs.frozen
class Principal:
    """Somebody whom an issuer vouches for, and what they were allowed."""

    issuer: str
    subject: str
    scopes: frozenset[str] = frozenset()


class Owners:
    """Owners under one store's secret: every replica of a server makes the same ones.

    ConfigurationError if the secret has less than `MIN_SECRET` bytes.
    """

    def __init__(self, secret: bytes) -> None:
        if len(secret) < MIN_SECRET:
            raise ConfigurationError(
                f"the server secret has {len(secret)} bytes, at least {MIN_SECRET} are needed"
            )
        # A label of its own: the same secret also seals cursors.
        self._key = HKDF(SHA256(), length=32, salt=None, info=b"taskmachine owners").derive(secret)

    def of_principal(self, principal: Principal) -> str:
        """The same for all tokens of one subject, whatever their scopes."""
        # 2025-11-25:bound-to-auth-context
        return "principal:" + self._hash("principal", principal.issuer, principal.subject)

    def of_token_name(self, name: str) -> str:
        """The configured name of a static token: a new token under the old name keeps the tasks."""
        return "token:" + name

    def of_header(self, authorization: str) -> str:
        """Of a raw Authorization header that nobody has verified."""
        return "header:" + self._hash("header", authorization)

    def of_session(self, session_id: str) -> str:
        """Of a session without a principal."""
        return "session:" + self._hash("session", session_id)

    def session_key(self, session_id: str) -> str:
        """What a session is kept under: whoever reads the store cannot take a session over."""
        return self._hash("session key", session_id)

    def _hash(self, *parts: str) -> str:
        framed = bytearray()
        for part in parts:
            data = part.encode(errors="surrogatepass")  # an issuer may name any subject
            # The length in front, or issuer "a" with subject "bc" would be "ab" with "c".
            framed += len(data).to_bytes(8) + data
        digest = hmac.digest(self._key, framed, "sha256")
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")
