"""Public keys of an issuer: a JSON Web Key Set (RFC 7517), as it is now.

A key says which algorithms it may verify, by its type and its own `alg`; the token's header only
chooses among these, so no key is ever taken for a key of another kind.  What cannot be used is
left out: secrets (`oct`), keys for encryption, RSA below 2048 bits, unknown curves.
"""

import logging
from collections.abc import Sequence
from typing import Any, Final

import attrs
import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from taskmachine.protocol.jsonvalue import decode_json

__all__ = ["ALGORITHMS", "MAX_KEY_SET", "KeySet", "PublicKey", "decode_key_set"]

log: Final = logging.getLogger("taskmachine")

MAX_KEY_SET: Final = 256 * 1024
"""Bytes of a key set."""

_MIN_RSA_BITS: Final = 2048

_VERIFIES: Final[dict[tuple[str | None, str | None], frozenset[str]]] = {
    ("RSA", None): frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
    ("EC", "P-256"): frozenset({"ES256"}),
    ("EC", "P-384"): frozenset({"ES384"}),
    ("EC", "P-521"): frozenset({"ES512"}),
    ("OKP", "Ed25519"): frozenset({"EdDSA"}),
}

ALGORITHMS: Final = frozenset().union(*_VERIFIES.values())
"""All of them asymmetric: there is no `none`, and no HMAC whose key everybody could read."""

_PUBLIC_MEMBERS: Final = ("kty", "n", "e", "crv", "x", "y")


@attrs.frozen
class PublicKey:
    """One key, and what it may verify."""

    kid: str | None
    algorithms: frozenset[str]
    key: Any


@attrs.frozen(eq=False)
class KeySet:
    """The usable keys of one document.  Another document makes another set, equal to none."""

    keys: Sequence[PublicKey]

    def has(self, kid: str) -> bool:
        return any(key.kid == kid for key in self.keys)

    def matching(self, kid: str | None, algorithm: str) -> list[PublicKey]:
        """Those that may have signed; a token without a `kid` may be of any key."""
        return [
            key
            for key in self.keys
            if algorithm in key.algorithms and (kid is None or key.kid == kid)
        ]


def decode_key_set(document: bytes) -> KeySet:
    """The keys in it; ValueError if it is no key set, or has no key that can be used."""
    if len(document) > MAX_KEY_SET:
        raise ValueError(f"it has more than {MAX_KEY_SET} bytes")
    value = decode_json(document)
    members = value.get("keys") if isinstance(value, dict) else None
    if not isinstance(members, list):
        raise ValueError("it is no JSON Web Key Set")
    keys = [key for member in members if (key := _public_key(member)) is not None]
    if not keys:
        raise ValueError("it has no public key that can verify a signature")
    return KeySet(keys)


def _public_key(member: object) -> PublicKey | None:
    if not isinstance(member, dict) or member.get("use", "sig") != "sig":
        return None
    kid, kind = member.get("kid"), (member.get("kty"), member.get("crv"))
    if not isinstance(kid, str | None) or not all(isinstance(part, str | None) for part in kind):
        return None
    algorithms = _VERIFIES.get(kind, frozenset())
    if "alg" in member:
        algorithms = frozenset(name for name in algorithms if name == member["alg"])
    if not algorithms:
        return None
    # Only what is public, should somebody have published more.
    public = {name: member[name] for name in _PUBLIC_MEMBERS if name in member}
    try:
        key = jwt.PyJWK(public, min(algorithms)).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError):
        return None  # one broken member does not take the others with it
    if isinstance(key, RSAPublicKey) and key.key_size < _MIN_RSA_BITS:
        log.warning("an RSA key of %d bits is too weak to be used", key.key_size)
        return None
    return PublicKey(kid, algorithms, key)
