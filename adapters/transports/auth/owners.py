"""Task owners: one string for each caller, compared for equality on every operation.

Each kind of caller has its own prefix.  Subjects, headers and session ids are stored as keyed
hashes, so they cannot be read from the store, or guessed without its secret.
"""

import base64
import hmac
from typing import Final

import attrs
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from taskmachine.protocol.sealing import MIN_SECRET
from taskmachine.statemachine import ConfigurationError

__all__ = ["ADMIN", "ANONYMOUS", "STDIO", "Owners", "Principal"]

STDIO: Final = "stdio"
"""The owner of all tasks created over standard input and output."""

ANONYMOUS: Final = "anonymous"
"""The owner of all callers of a server without authentication: only task ids are secret."""

ADMIN: Final = "admin"
"""The scope that allows a caller to see the tasks of all owners in the console."""


@attrs.frozen
class Principal:
    """The subject of an issuer's tokens."""

    issuer: str
    subject: str


class Owners:
    """Derives owners from a store's secret, so that every replica derives the same ones.

    ConfigurationError if the secret has less than `MIN_SECRET` bytes.
    """

    def __init__(self, secret: bytes) -> None:
        if len(secret) < MIN_SECRET:
            raise ConfigurationError(
                f"the server secret has {len(secret)} bytes, at least {MIN_SECRET} are needed"
            )
        # The label separates this key from others: the same secret also seals cursors.
        self._key = HKDF(SHA256(), length=32, salt=None, info=b"taskmachine owners").derive(secret)

    def of_principal(self, principal: Principal) -> str:
        """Return the owner for a subject."""
        # 2025-11-25:bound-to-auth-context
        return "principal:" + self._hash("principal", principal.issuer, principal.subject)

    def of_token_name(self, name: str) -> str:
        """Return the owner for a static token's name, so that a replaced token keeps the tasks."""
        return "token:" + name

    def of_header(self, authorization: str) -> str:
        """Return the owner for a raw, unverified Authorization header."""
        return "header:" + self._hash("header", authorization)

    def of_session(self, session_id: str) -> str:
        """Return the owner for a session without a principal."""
        return "session:" + self._hash("session", session_id)

    def session_key(self, session_id: str) -> str:
        """Return the store key of a session, from which the session id cannot be derived."""
        return self._hash("session key", session_id)

    def _hash(self, *parts: str) -> str:
        framed = bytearray()
        for part in parts:
            data = part.encode(errors="surrogatepass")  # a subject may be any text
            # Length-prefixed, or issuer "a" with subject "bc" would equal "ab" with "c".
            framed += len(data).to_bytes(8) + data
        digest = hmac.digest(self._key, framed, "sha256")
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")
