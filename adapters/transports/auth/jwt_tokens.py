"""Signed access tokens of an authorization server: JSON Web Tokens (RFC 7519, RFC 9068).

PyJWT verifies the signature and the claims.  An error names the wrong claim only if the signature
is valid.
"""

from collections.abc import Collection
from typing import Any, Final

import jwt

from taskmachine.adapters.transports.auth.bearer_tokens import (
    bearer_token,
    insufficient_scope,
    invalid_token,
)
from taskmachine.adapters.transports.auth.key_sources import ALGORITHMS, KeySource
from taskmachine.adapters.transports.auth.owners import Owners, Principal
from taskmachine.protocol.caller import Caller

__all__ = ["JwtAuthenticator"]

_LEEWAY_S: Final = 30

_FAULTS: Final[dict[type[jwt.InvalidTokenError], str]] = {
    jwt.ExpiredSignatureError: "the access token has expired",
    jwt.ImmatureSignatureError: "the access token is not valid yet",
    jwt.InvalidIssuerError: "the access token is from another issuer",
    jwt.InvalidAudienceError: "the access token is for another audience",
    jwt.MissingRequiredClaimError: "the access token lacks one of iss, aud, sub and exp",
}


class JwtAuthenticator:
    """Identify callers by tokens of one issuer, for one audience; the owner is the subject.

    All of `required_scopes` must be in the token.
    """

    def __init__(
        self,
        owners: Owners,
        issuer: str,
        audience: str,
        keys: KeySource,
        *,
        required_scopes: Collection[str] = (),
    ) -> None:
        self._owners = owners
        self._issuer = issuer
        self._audience = audience
        self._keys = keys
        self._scopes = frozenset(required_scopes)

    async def authenticate(self, authorization: str | None) -> Caller:
        """Return the caller; `Unauthorized`, or `KeysUnavailable` while the server has no keys."""
        token = bearer_token(authorization)
        try:
            header = jwt.get_unverified_header(token)
        except jwt.InvalidTokenError:
            raise invalid_token() from None
        # RFC 7515: the server understands no extension that `crit` could name, and a token is not
        # padded (PyJWT accepts padding).
        if "crit" in header or header.get("alg") not in ALGORITHMS or "=" in token:
            raise invalid_token()
        keys, kid = await self._keys.current(), header.get("kid")
        claims = self._verified(token, kid, keys)
        if claims is None and (kid is None or all(key.key_id != kid for key in keys)):
            claims = self._verified(token, kid, await self._keys.renewed())
        if claims is None:
            raise invalid_token()
        scopes, subject = _scopes(claims), claims["sub"]
        if not self._scopes <= scopes:
            raise insufficient_scope()
        owner = self._owners.of_principal(Principal(self._issuer, subject))
        try:
            return Caller(owner, subject, claims, scopes).checked()
        except ValueError:
            raise invalid_token(
                "the access token has too many claims, or one is not JSON"
            ) from None

    def _verified(
        self, token: str, kid: str | None, keys: Collection[jwt.PyJWK]
    ) -> dict[str, Any] | None:
        """Return the claims if one of the keys signed the token; `Unauthorized` for bad claims."""
        for key in keys:
            if kid not in (None, key.key_id):
                continue
            try:
                claims = jwt.decode(
                    token,
                    key,
                    ALGORITHMS,
                    issuer=self._issuer,
                    audience=self._audience,
                    leeway=_LEEWAY_S,
                    options={"require": ["iss", "aud", "sub", "exp"]},
                )
            except (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError):
                continue
            except jwt.InvalidTokenError as error:
                raise invalid_token(_FAULTS.get(type(error), "")) from None
            # PyJWT also accepts an empty subject and times as strings.
            times = {type(claims[name]) for name in ("exp", "nbf", "iat") if name in claims}
            if not claims["sub"] or not times <= {int, float}:
                raise invalid_token("the access token has a malformed claim")
            return claims
        return None


def _scopes(claims: dict[str, Any]) -> frozenset[str]:
    """Return the scopes of `scope`, and of `scp` and lists as older issuers write them."""
    found: set[str] = set()
    for claim in ("scope", "scp"):
        value = claims.get(claim)
        if isinstance(value, str):
            found.update(value.split())
        elif isinstance(value, list):
            found.update(scope for scope in value if isinstance(scope, str))
    return frozenset(found)
