"""The caller of a request, as its tool sees it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Self

import attrs

from taskmachine.protocol.jsonvalue import decode_json, encode_json

__all__ = ["MAX_CALLER", "Caller"]

MAX_CALLER: Final = 16 * 1024
"""Maximum size of subject, claims and scopes together, in bytes of JSON."""


@attrs.frozen
class Caller:
    """Who called a tool.

    `owner` identifies the caller: the owner of its tasks.  Subject, claims and scopes are those of
    a verified token; without one they are empty.
    """

    owner: str
    subject: str | None = attrs.field(default=None, repr=False)  # logs show the owner only
    claims: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    scopes: frozenset[str] = attrs.field(default=frozenset(), repr=False)

    @classmethod
    def decode(cls, owner: str, encoded: bytes) -> Self:
        """Return the caller with an owner and what `encode` returned."""
        subject, claims, scopes = decode_json(encoded)
        return cls(owner, subject, MappingProxyType(claims), frozenset(scopes))

    def encode(self) -> bytes:
        """Return all but the owner as JSON; ValueError if it is not, or above `MAX_CALLER`."""
        try:
            encoded = encode_json([self.subject, dict(self.claims), sorted(self.scopes)])
        except (TypeError, RecursionError) as error:
            raise ValueError(f"the claims of a caller must be JSON: {error}") from None
        if len(encoded) > MAX_CALLER:
            raise ValueError(
                f"a caller has {len(encoded)} bytes of claims; the limit is {MAX_CALLER}"
            )
        return encoded

    def checked(self) -> Self:
        """Return a copy as a task gets it from its store; ValueError like `encode`."""
        return self.decode(self.owner, self.encode())
