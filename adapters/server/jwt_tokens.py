"""Access tokens that an authorization server signed: JSON Web Tokens (RFC 7519, RFC 9068).

PyJWT verifies the signature; the claims are checked here, against a clock that is given.  Only
whoever holds an authentic token is told what is wrong with it.
"""

import base64
import re
from collections import OrderedDict
from collections.abc import Callable, Collection
from hashlib import sha256
from typing import Any, Final

import attrs
import jwt

from taskmachine.adapters.server.bearer_tokens import (
    bearer_token,
    insufficient_scope,
    invalid_token,
)
from taskmachine.adapters.server.jwt_keys import ALGORITHMS, KeySet
from taskmachine.adapters.server.key_sources import KeySource
from taskmachine.adapters.server.owners import ADMIN, Caller, Owners, Principal
from taskmachine.protocol.jsonvalue import decode_json
from taskmachine.statemachine import ConfigurationError

__all__ = ["MAX_VERIFIED", "JwtAuthenticator"]

MAX_VERIFIED: Final = 10_000
"""Tokens that are known to be authentic; beyond it the one that was not used for longest goes."""

_JWS: Final = jwt.PyJWS()
_COMPACT: Final = re.compile(r"([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


@attrs.frozen
class _Verified:
    caller: Caller
    expires_at: float
    keys: KeySet


class JwtAuthenticator:
    """Knows callers by tokens of one issuer, for one audience; the owner is the subject.

    All of `required_scopes` must be in the token.  `clock` is in milliseconds since the epoch.
    ConfigurationError for an algorithm that is not asymmetric.
    """

    def __init__(
        self,
        owners: Owners,
        issuer: str,
        audience: str,
        keys: KeySource,
        *,
        clock: Callable[[], int],
        leeway_s: int = 30,
        required_scopes: Collection[str] = (),
        algorithms: Collection[str] = ALGORITHMS,
    ) -> None:
        if not algorithms or not ALGORITHMS.issuperset(algorithms):
            raise ConfigurationError(f"algorithms must be among {', '.join(sorted(ALGORITHMS))}")
        self._owners = owners
        self._issuer = issuer
        self._audience = audience
        self._keys = keys
        self._clock = clock
        self._leeway_ms = leeway_s * 1_000
        self._scopes = frozenset(required_scopes)
        self._algorithms = frozenset(algorithms)
        # By digest: the tokens themselves are not kept.
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()

    async def authenticate(self, authorization: str | None) -> str:
        """The owner; `Unauthorized`, or `KeysUnavailable` if nobody can be verified."""
        return (await self.recognise(authorization)).owner

    async def recognise(self, authorization: str | None) -> Caller:
        """The caller, an admin by the scope of that name."""
        token = bearer_token(authorization)
        digest = sha256(token.encode()).digest()
        keys = await self._keys.current()
        known = self._verified.get(digest)
        # Not after other keys came: the one that vouched for it may be withdrawn.
        if known is None or known.keys is not keys or self._clock() >= known.expires_at:
            known = await self._verify(token, keys)
            self._verified[digest] = known
            if len(self._verified) > MAX_VERIFIED:
                self._verified.popitem(last=False)
        self._verified.move_to_end(digest)
        return known.caller

    async def _verify(self, token: str, keys: KeySet) -> _Verified:
        kid, algorithm = self._signed_by(token)
        payload = _authentic(token, keys, kid, algorithm)
        if payload is None and (kid is None or not keys.has(kid)):
            keys = await self._keys.renewed()
            payload = _authentic(token, keys, kid, algorithm)
        if payload is None:
            raise invalid_token()
        try:
            claims = decode_json(payload)
        except ValueError:
            raise invalid_token() from None
        principal, expires_at = self._checked(claims)
        if not self._scopes <= principal.scopes:
            raise insufficient_scope()
        owner = self._owners.of_principal(principal)
        caller = Caller(owner, ADMIN in principal.scopes, expires_at)
        return _Verified(caller, expires_at, keys)

    def _signed_by(self, token: str) -> tuple[str | None, str]:
        """Key id and algorithm, as the token claims."""
        found = _COMPACT.fullmatch(token)
        if found is None:
            raise invalid_token()
        try:
            header = decode_json(base64.urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4)))
        except ValueError:
            raise invalid_token() from None
        # `crit` names what must be understood (RFC 7515), and no extension is.
        if not isinstance(header, dict) or "crit" in header:
            raise invalid_token()
        kid, algorithm = header.get("kid"), header.get("alg")
        if not isinstance(kid, str | None) or not isinstance(algorithm, str):
            raise invalid_token()
        if algorithm not in self._algorithms:
            raise invalid_token()
        return kid, algorithm

    def _checked(self, claims: Any) -> tuple[Principal, float]:
        """Whom an authentic token is about, and until when it may be remembered."""
        if not isinstance(claims, dict) or claims.get("iss") != self._issuer:
            raise invalid_token("the access token is of another issuer")
        audiences = claims.get("aud")
        if self._audience not in (audiences if isinstance(audiences, list) else [audiences]):
            raise invalid_token("the access token is for another audience")
        now = self._clock()
        expires_at = _milliseconds(claims, "exp")
        if now >= expires_at + self._leeway_ms:
            raise invalid_token("the access token has expired")
        if "nbf" in claims and now < _milliseconds(claims, "nbf") - self._leeway_ms:
            raise invalid_token("the access token is not valid yet")
        subject = claims.get("sub")
        if not isinstance(subject, str) or not subject:
            raise invalid_token("the access token has no subject")
        return Principal(self._issuer, subject, _scopes(claims)), expires_at


def _authentic(token: str, keys: KeySet, kid: str | None, algorithm: str) -> bytes | None:
    """The payload, if one of the keys that may have signed it did."""
    for key in keys.matching(kid, algorithm):
        try:
            signed = _JWS.decode_complete(token, key.key, [algorithm])
        except jwt.PyJWTError:
            continue
        payload: bytes = signed["payload"]
        return payload
    return None


def _milliseconds(claims: dict[str, Any], claim: str) -> float:
    seconds = claims.get(claim)
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise invalid_token(f"the access token needs a number in {claim}")
    return seconds * 1_000


def _scopes(claims: dict[str, Any]) -> frozenset[str]:
    """`scope` by the standards; `scp`, and lists, by issuers that are older than those."""
    found: set[str] = set()
    for claim in ("scope", "scp"):
        value = claims.get(claim)
        if isinstance(value, str):
            found.update(value.split())
        elif isinstance(value, list):
            found.update(scope for scope in value if isinstance(scope, str))
    return frozenset(found)
