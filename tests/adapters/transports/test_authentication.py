"""Authentication: owners of valid credentials, and errors for others."""

import asyncio
import hmac
import json
import tomllib
from collections.abc import Iterator
from math import nan
from pathlib import Path
from typing import Any

import attrs
import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from taskmachine.adapters.transports.auth.authentication import (
    Authenticator,
    HeaderAuthenticator,
    JwtAuthenticator,
    StaticTokenAuthenticator,
    Unauthorized,
    authenticator_from,
)
from taskmachine.adapters.transports.auth.bearer_tokens import MAX_CREDENTIALS
from taskmachine.adapters.transports.auth.key_sources import KeyFile, KeySource, KeyUrl
from taskmachine.adapters.transports.auth.owners import ADMIN, Owners, Principal
from taskmachine.protocol.jsonvalue import MAX_DEPTH
from taskmachine.statemachine import ConfigurationError
from tests.adapters.memory_service import Clock, run
from tests.adapters.transports.issuer import (
    AUDIENCE,
    ISSUER,
    FixedKeys,
    b64,
    claims,
    document,
    jwk,
    key_server,
    now_s,
    private_key,
    reason,
    token,
    unsigned,
)
from tests.oracle import REPOSITORY
from tests.requirements import covers

OWNERS = Owners(b"s" * 32)
ALICE = OWNERS.of_principal(Principal(ISSUER, "alice"))
SIGNERS = {
    "rsa": ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"],
    "p256": ["ES256"],
    "p384": ["ES384"],
    "p521": ["ES512"],
    "ed25519": ["EdDSA"],
}
PAIRS = [(kid, algorithm) for kid, algorithms in SIGNERS.items() for algorithm in algorithms]

NONE = (401, None, "this server needs an access token")
INVALID = (401, "invalid_token", "the access token is not valid")
MALFORMED = (401, "invalid_token", "the Authorization header has no single well-formed token")
MALFORMED_CLAIM = (401, "invalid_token", "the access token has a malformed claim")
TOO_MUCH = (401, "invalid_token", "the access token has too many claims, or one is not JSON")
LACKING = (401, "invalid_token", "the access token lacks one of iss, aud, sub and exp")
TOO_LONG = (401, "invalid_token", "the access token is too long")


def invalid(description: str) -> tuple[int, str, str]:
    return (401, "invalid_token", f"the access token {description}")


def all_keys() -> FixedKeys:
    return FixedKeys.of(*(jwk(kid) for kid in SIGNERS))


def jwt_authenticator(keys: KeySource | None = None, **more: Any) -> JwtAuthenticator:
    return JwtAuthenticator(OWNERS, ISSUER, AUDIENCE, keys or all_keys(), **more)


def refusal(authenticator: Authenticator, authorization: str | None) -> tuple[int, str | None, str]:
    with pytest.raises(Unauthorized) as refused:
        run(authenticator.authenticate(authorization))
    return reason(refused.value)


# --- signed tokens ---------------------------------------------------------------------------


@covers("2026-07-28:auth-on-each-request")
@pytest.mark.parametrize(("kid", "algorithm"), PAIRS)
def test_a_token_of_the_issuer_makes_its_subject_the_owner(kid: str, algorithm: str) -> None:
    bearer = "Bearer " + token(kid, algorithm)
    assert run(jwt_authenticator().authenticate(bearer)).owner == ALICE


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer  "])
def test_the_scheme_is_case_insensitive(scheme: str) -> None:
    assert run(jwt_authenticator().authenticate(f"{scheme} {token()}")).owner == ALICE


async def test_two_tokens_of_one_subject_are_one_owner_and_two_subjects_are_two() -> None:
    authenticator = jwt_authenticator()
    first, second, bob = [
        (await authenticator.authenticate("Bearer " + signed)).owner
        for signed in (token(jti="1"), token("rsa", "RS256", scope="x"), token(sub="bob"))
    ]
    assert first == second == ALICE != bob


def hs256_with_the_public_key(encoding: str) -> str:
    """Return a token with the public key as the secret of an HMAC."""
    public = private_key("rsa").public_key()
    info = PublicFormat.SubjectPublicKeyInfo
    secret: bytes = {
        "PEM": public.public_bytes(Encoding.PEM, info),
        "DER": public.public_bytes(Encoding.DER, info),
        "JWK": json.dumps(jwk("rsa")).encode(),
    }[encoding]
    signed = unsigned({"alg": "HS256", "kid": "rsa"})
    return f"{signed}.{b64(hmac.digest(secret, signed.encode(), 'sha256'))}"


def swapped_payload() -> str:
    head, _, signature = token().split(".")
    return f"{head}.{token(sub='mallory').split('.')[1]}.{signature}"


def twice(last: str) -> str:
    """Return a token whose header names the algorithm twice; the last one counts (RFC 7515)."""
    header = b64(f'{{"alg": "EdDSA", "kid": "ed25519", "alg": "{last}"}}'.encode())
    signed = f"{header}.{b64(json.dumps(claims()).encode())}"
    return f"{signed}.{b64(private_key('ed25519').sign(signed.encode()))}"


def no_payload() -> str:
    """Return an unsigned token with a detached payload (RFC 7797)."""
    return f"{b64(json.dumps({'alg': 'EdDSA', 'kid': 'ed25519', 'b64': False}).encode())}..AAAA"


def critical() -> str:
    header = {"alg": "EdDSA", "kid": "ed25519", "crit": ["b64"], "b64": True}
    signed = unsigned(header)
    return f"{signed}.{b64(private_key('ed25519').sign(signed.encode()))}"


def bad_tokens() -> Iterator[tuple[str, str, tuple[int, str | None, str]]]:
    """Yield name, token, and the expected error."""
    yield "wrong issuer", token(iss="https://evil.example"), invalid("is from another issuer")
    yield "issuer with a slash", token(iss=ISSUER + "/"), invalid("is from another issuer")
    yield "part of the issuer", token(iss=ISSUER[:-1]), invalid("is from another issuer")
    yield "list with the issuer", unchecked(iss=[ISSUER]), invalid("is from another issuer")
    yield "no issuer", token(iss=None), LACKING
    for name, audience in {
        "wrong audience": "https://other.example",
        "part of the audience": AUDIENCE[:-1],
        "more than the audience": AUDIENCE + "/more",
        "list of wrong audiences": ["https://other.example", AUDIENCE + "/"],
        "audience in an object": {AUDIENCE: True},
        "audience in a list in a list": [[AUDIENCE]],
        "number as audience": 7,
    }.items():
        yield name, unchecked(aud=audience), invalid("is for another audience")
    yield "no audience", token(aud=None), LACKING
    yield "no audiences", token(aud=[]), LACKING
    yield "expired", token(exp=now_s() - 30), invalid("has expired")
    yield "long expired", token(exp=0), invalid("has expired")
    yield "exp true", unchecked(exp=True), invalid("has expired")
    yield "not yet valid", token(nbf=now_s() + 86_400), invalid("is not valid yet")
    yield "not valid yet", token(iat=now_s() + 86_400), invalid("is not valid yet")
    yield "no exp", token(exp=None), LACKING
    yield "no sub", token(sub=None), LACKING
    for name in ("exp", "nbf", "iat"):
        right = claims()["exp"] if name == "exp" else 0
        yield f"{name} as text", unchecked(**{name: str(right)}), MALFORMED_CLAIM
        yield f"{name} as a list", unchecked(**{name: [right]}), INVALID
        yield f"{name} without an end", unchecked(**{name: float("inf")}), INVALID
        yield f"{name} is not a number", unchecked(**{name: float("nan")}), INVALID
    yield "nbf true", unchecked(nbf=True), MALFORMED_CLAIM
    yield "empty sub", token(sub=""), MALFORMED_CLAIM
    yield "sub as a number", unchecked(sub=7), INVALID

    yield "alg none", unsigned({"alg": "none"}) + ".", INVALID
    yield "alg none, signed", unsigned({"alg": "none"}) + ".AAAA", INVALID
    yield "alg None", unsigned({"alg": "None", "kid": "rsa"}) + ".AAAA", INVALID
    yield "no alg", unsigned({"kid": "rsa"}) + ".AAAA", INVALID
    yield "alg as a list", unsigned({"alg": ["RS256"], "kid": "rsa"}) + ".AAAA", INVALID
    for encoding in ("PEM", "DER", "JWK"):
        yield f"HS256 by public {encoding}", hs256_with_the_public_key(encoding), INVALID
    yield "unknown kid", token(headers={"kid": "nobody"}), INVALID
    yield "kid of another key", token(headers={"kid": "p256"}), INVALID
    yield "kid of another key of the kind", token("rsa-2", "RS256", {"kid": "rsa"}), INVALID
    yield "kid as a number", unsigned({"alg": "EdDSA", "kid": 7}) + ".AAAA", INVALID
    yield "unknown key without kid", token("ed25519-2", headers={}), INVALID
    yield "algorithm of another curve", unsigned({"alg": "ES384", "kid": "p256"}) + ".AAAA", INVALID
    yield "key inside the token", token("ed25519-2", headers={"jwk": jwk("ed25519-2")}), INVALID
    yield "crit", token(headers={"kid": "ed25519", "crit": ["x"], "x": 1}), INVALID
    yield "crit that PyJWT knows", critical(), INVALID
    yield "b64", unsigned({"alg": "EdDSA", "kid": "ed25519", "b64": False}) + ".AAAA", INVALID
    yield "empty payload, not encoded", no_payload(), INVALID
    yield "key at an address", token("ed25519-2", headers={"jku": "https://evil.example"}), INVALID
    yield "chain inside the token", token("ed25519-2", headers={"x5c": [], "x5u": "x"}), INVALID
    yield "kid as null", unsigned({"alg": "EdDSA", "kid": None}) + ".AAAA", INVALID
    yield "alg twice", twice("none"), INVALID
    yield "deep header", f"{b64(b'[' * 9_000)}.AAAA.AAAA", INVALID
    yield "header no object", f"{b64(b'7')}.AAAA.AAAA", INVALID
    yield ("payload no object", jwt.PyJWS().encode(b"[]", private_key("ed25519"), "EdDSA"), INVALID)
    yield "payload no JSON", jwt.PyJWS().encode(b"{", private_key("ed25519"), "EdDSA"), INVALID

    good = token()
    head, payload, signature = good.split(".")
    yield "truncated by one", good[:-1], INVALID
    yield "truncated by a half", good[: len(good) // 2], INVALID
    yield "without signature", f"{head}.{payload}.", INVALID
    yield "without the last part", f"{head}.{payload}", INVALID
    yield "with a part more", f"{good}.AAAA", INVALID
    yield "padded", good + "==", INVALID
    yield "signature of another", f"{head}.{payload}.{token('ed25519-2').split('.')[2]}", INVALID
    yield "payload of another", swapped_payload(), INVALID
    yield "not a token at all", "password", INVALID
    yield "three megabytes", "A" * 3_000_000, TOO_LONG
    yield "three megabytes, well formed", f"{head}.{'A' * 3_000_000}.{signature}", TOO_LONG
    yield "comma", f"{good},{good}", MALFORMED
    yield "two headers as one", f"{good}, Bearer {good}", MALFORMED
    yield "two tokens", f"{good} {good}", MALFORMED
    yield "line break", f"{good}\r\nX: y", MALFORMED
    yield "line break at the end", f"{good}\n", MALFORMED
    yield "not ASCII", f"{good}é", MALFORMED
    yield "nothing", "", MALFORMED
    yield "spaces", "   ", MALFORMED


def unchecked(**changes: Any) -> str:
    """Sign any claims: `jwt.encode` refuses some."""
    payload = json.dumps(claims(**changes)).encode()
    headers = {"kid": "ed25519"}
    return jwt.PyJWS().encode(payload, private_key("ed25519"), "EdDSA", headers)


BAD = {name: (bad, answer) for name, bad, answer in bad_tokens()}


@covers("2025-11-25:http-authentication", "2026-07-28:http-authentication")
@pytest.mark.parametrize("name", BAD)
def test_a_bad_token_is_refused(name: str) -> None:
    bad, answer = BAD[name]
    authenticator = jwt_authenticator()
    assert run(authenticator.authenticate("Bearer " + token())).owner == ALICE
    assert refusal(authenticator, "Bearer " + bad) == answer
    assert refusal(authenticator, "Bearer " + bad) == answer, "nor the second time"


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Basic YTpi",
        "Bearerx " + "A" * 40,
        "Negotiate",
        token(),
        "access_token=" + token(),
    ],
)
def test_without_a_bearer_token_no_error_is_named(authorization: str | None) -> None:
    assert refusal(jwt_authenticator(), authorization) == NONE


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": ["https://other.example", AUDIENCE]},
        {"exp": now_s() + 86_400.5},
        {"exp": 10**30},
        {"nbf": 0},
        {"iat": 0},
    ],
)
def test_valid_tokens_are_accepted(changes: dict[str, Any]) -> None:
    bearer = "Bearer " + unchecked(**changes)
    assert run(jwt_authenticator().authenticate(bearer)).owner == ALICE


def test_clocks_may_be_half_a_minute_apart() -> None:
    authenticator = jwt_authenticator()
    for near in (token(exp=now_s() - 20), token(nbf=now_s() + 30), token(iat=now_s() + 30)):
        assert run(authenticator.authenticate("Bearer " + near)).owner == ALICE
    late = "Bearer " + token(exp=now_s() - 30)
    assert refusal(authenticator, late) == invalid("has expired")
    early = "Bearer " + token(nbf=now_s() + 60)
    assert refusal(authenticator, early) == invalid("is not valid yet")


def test_the_last_of_two_members_with_one_name_counts() -> None:
    assert run(jwt_authenticator().authenticate("Bearer " + twice("EdDSA"))).owner == ALICE
    payload = json.dumps(claims(sub="mallory"))[:-1] + ', "sub": "alice"}'
    signed = jwt.PyJWS().encode(payload.encode(), private_key("ed25519"), "EdDSA")
    assert run(jwt_authenticator().authenticate("Bearer " + signed)).owner == ALICE


@pytest.mark.parametrize(
    "wrong",
    [
        {"sub": "alice\ud800"},
        {"name": "\udc00"},
        {"nested": json.loads("[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1))},
    ],
)
def test_claims_that_a_task_could_not_keep_are_refused(wrong: dict[str, Any]) -> None:
    assert refusal(jwt_authenticator(), "Bearer " + token(**wrong)) == TOO_MUCH


def test_claims_that_exceed_the_limit_when_they_are_encoded_again_are_refused() -> None:
    payload = f'{json.dumps(claims())[:-1]}, "numbers": [{"1e15," * 1_500}0]}}'
    signed = jwt.PyJWS().encode(payload.encode(), private_key("ed25519"), "EdDSA")
    assert refusal(jwt_authenticator(), "Bearer " + signed) == TOO_MUCH


def test_a_verified_token_tells_subject_claims_and_scopes() -> None:
    signed = claims(scope="read write", scp=["tasks"], groups=["dev"], limit=10**30, ratio=nan)
    caller = run(jwt_authenticator().authenticate("Bearer " + token(**signed)))
    assert caller.owner == ALICE, "scopes do not change the owner"
    assert caller.subject == "alice"
    assert caller.scopes == {"read", "write", "tasks"}
    assert caller.claims == signed | {"ratio": None}, "NaN is not JSON"
    assert "alice" not in repr(caller)


def test_a_token_without_kid_may_be_signed_by_any_key() -> None:
    bearer = "Bearer " + token("rsa-2", "RS256", headers={})
    keys = FixedKeys.of(jwk("rsa"), jwk("rsa-2"))
    assert run(jwt_authenticator(keys).authenticate(bearer)).owner == ALICE


def test_a_key_for_one_algorithm_is_not_used_for_another() -> None:
    authenticator = jwt_authenticator(FixedKeys.of(jwk("rsa", alg="RS256")))
    assert run(authenticator.authenticate("Bearer " + token("rsa", "RS256"))).owner == ALICE
    assert refusal(authenticator, "Bearer " + token("rsa", "PS256")) == INVALID


@pytest.mark.parametrize(
    ("changes", "is_enough"),
    [
        ({"scope": "read write"}, True),
        ({"scope": "other write read"}, True),
        ({"scp": ["read", "write"]}, True),
        ({"scp": "read write"}, True),
        ({"scope": "read"}, False),
        ({"scope": "readwrite"}, False),
        ({"scope": ["read write"]}, False),
        ({"scope": "READ WRITE"}, False),
        ({"scope": {"read": 1, "write": 1}}, False),
        ({"scp": [1, None, "read"]}, False),
        ({}, False),
    ],
)
def test_all_scopes_are_needed(changes: dict[str, Any], is_enough: bool) -> None:
    authenticator = jwt_authenticator(required_scopes=["read", "write"])
    bearer = "Bearer " + unchecked(**changes)
    if is_enough:
        assert run(authenticator.authenticate(bearer)).owner == ALICE
    else:
        answer = (403, "insufficient_scope", "the access token lacks a scope")
        assert refusal(authenticator, bearer) == answer
        assert refusal(authenticator, bearer) == answer


@pytest.mark.parametrize(
    ("changes", "is_admin"),
    [
        ({"scope": "tasks admin"}, True),
        ({"scp": ["admin"]}, True),
        ({"scope": "administrator"}, False),
        ({"scope": "tasks"}, False),
        ({}, False),
    ],
)
def test_the_scope_admin_makes_an_admin(changes: dict[str, Any], is_admin: bool) -> None:
    caller = run(jwt_authenticator().authenticate("Bearer " + unchecked(**changes)))
    assert (caller.owner, ADMIN in caller.scopes) == (ALICE, is_admin)


# --- keys that change -------------------------------------------------------------------------


def test_a_known_token_is_refused_when_its_key_is_withdrawn(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(document(jwk("ed25519"), jwk("rsa")))
    authenticator = jwt_authenticator(KeyFile(path))
    bearers = ["Bearer " + token(), "Bearer " + token("rsa", "RS256")]
    for bearer in bearers:
        run(authenticator.authenticate(bearer))
    path.write_bytes(document(jwk("rsa")))
    assert refusal(authenticator, bearers[0]) == INVALID
    assert run(authenticator.authenticate(bearers[1])).owner == ALICE


def test_only_an_unknown_key_causes_another_fetch() -> None:
    source = all_keys()
    authenticator = jwt_authenticator(source)
    for name in ("kid of another key", "expired", "alg none, signed", "HS256 by public PEM"):
        refusal(authenticator, "Bearer " + BAD[name][0])
    assert source.renewals == 0
    refusal(authenticator, "Bearer " + BAD["unknown kid"][0])
    assert source.renewals == 1
    refusal(authenticator, "Bearer " + BAD["unknown key without kid"][0])
    assert source.renewals == 2


async def test_an_issuer_without_key_ids_may_change_its_key() -> None:
    first, second = ({**jwk(name)} for name in ("ed25519", "ed25519-2"))
    del first["kid"], second["kid"]
    async with key_server(first) as server:
        authenticator = jwt_authenticator(KeyUrl(server.url))
        assert (await authenticator.authenticate("Bearer " + token(headers={}))).owner == ALICE
        server.body = document(second)
        new = "Bearer " + token("ed25519-2", headers={})
        assert (await authenticator.authenticate(new)).owner == ALICE


async def test_token_with_a_new_key_is_accepted_once_the_key_is_published() -> None:
    clock = Clock(0)
    async with key_server(jwk("ed25519")) as server:
        authenticator = jwt_authenticator(KeyUrl(server.url, clock))
        old, new = "Bearer " + token(), "Bearer " + token("p256", "ES256")
        assert (await authenticator.authenticate(old)).owner == ALICE
        server.body = document(jwk("p256"))
        assert (await authenticator.authenticate(new)).owner == ALICE
        with pytest.raises(Unauthorized):
            await authenticator.authenticate(old)
        made_up = [token(headers={"kid": f"made up {number}"}) for number in range(20)]
        for bad in made_up:
            with pytest.raises(Unauthorized):
                await authenticator.authenticate("Bearer " + bad)
        assert server.requests == 2
        clock.now += 60
        results = await asyncio.gather(
            *(authenticator.authenticate("Bearer " + bad) for bad in made_up),
            return_exceptions=True,
        )
        assert all(isinstance(result, Unauthorized) for result in results)
        assert server.requests == 3


# --- static tokens, and headers that are taken as they are -----------------------------------

CI, DEPLOY = "c" * 32, "d" * 40 + "-._~+/=="


def test_a_static_token_makes_its_name_the_owner() -> None:
    authenticator = StaticTokenAuthenticator(OWNERS, {"ci": CI, "deploy": DEPLOY})
    assert run(authenticator.authenticate("Bearer " + CI)).owner == OWNERS.of_token_name("ci")
    assert run(authenticator.authenticate("bearer " + DEPLOY)).owner == OWNERS.of_token_name(
        "deploy"
    )


@pytest.mark.parametrize("wrong", [CI[:-1], CI + "c", CI.upper(), "x" * 32, CI + "="])
def test_any_other_token_is_refused(wrong: str) -> None:
    authenticator = StaticTokenAuthenticator(OWNERS, {"ci": CI, "deploy": DEPLOY})
    assert refusal(authenticator, "Bearer " + wrong) == INVALID


@pytest.mark.parametrize(
    ("authorization", "answer"),
    [(None, NONE), (f"Basic {CI}", NONE), (CI, NONE), (f"Bearer {CI}, Bearer {CI}", MALFORMED)],
)
def test_a_static_token_is_sent_as_a_bearer_token(
    authorization: str | None, answer: tuple[int, str | None, str]
) -> None:
    assert refusal(StaticTokenAuthenticator(OWNERS, {"ci": CI}), authorization) == answer


@pytest.mark.parametrize(
    ("tokens", "mistake"),
    [
        ({}, "no token"),
        ({"ci": "c" * 31}, "'ci' has 31 characters, at least 32"),
        ({"ci": "c" * 31 + " "}, "'ci' has characters"),
        ({"ci": "=" * 32}, "'ci' has characters"),
        ({"ci": 7}, "'ci' must be a string"),
        ({"ci": {"token": CI}}, "'ci' must be a string"),
        ({"ci": CI, "deploy": CI}, "two names have the same token"),
        ({"": CI}, "the name of a token"),
        ({"a\nb": CI}, "the name of a token"),
        ({"n" * 129: CI}, "the name of a token"),
    ],
)
def test_invalid_static_tokens_are_refused(tokens: dict[str, Any], mistake: str) -> None:
    with pytest.raises(ConfigurationError, match=mistake) as refused:
        StaticTokenAuthenticator(OWNERS, tokens)
    assert CI not in str(refused.value)


def test_without_verification_the_header_is_the_owner() -> None:
    authenticator = HeaderAuthenticator(OWNERS)
    owners = [
        run(authenticator.authenticate(text)).owner for text in ("Basic YTpi", "Bearer x", "é")
    ]
    assert owners == [OWNERS.of_header(text) for text in ("Basic YTpi", "Bearer x", "é")]
    assert len(set(owners)) == 3
    for missing in (None, ""):
        assert refusal(authenticator, missing) == NONE
    too_long = "x" * (MAX_CREDENTIALS + 1)
    assert refusal(authenticator, too_long)[:2] == (401, "invalid_token")


# --- settings --------------------------------------------------------------------------------


@attrs.define
class Folder:
    """Writes files that settings name."""

    path: Path

    def write(self, name: str, content: str | bytes, mode: int = 0o600) -> str:
        file = self.path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        file.chmod(mode)
        return str(file)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def jwt_settings(folder: Folder, **changes: Any) -> dict[str, Any]:
    jwks = folder.write("keys.json", document(jwk("ed25519")))
    right = {"kind": "jwt", "issuer": ISSUER, "audience": AUDIENCE, "jwks": jwks}
    return {name: value for name, value in {**right, **changes}.items() if value is not None}


def test_empty_settings_configure_no_authentication() -> None:
    assert authenticator_from({}, OWNERS) is None


def test_settings_for_signed_tokens_with_keys_in_a_file(folder: Folder) -> None:
    made = authenticator_from(jwt_settings(folder, scopes=["read"]), OWNERS)
    assert made is not None
    assert run(made.authenticate("Bearer " + token(scope="read"))).owner == ALICE
    assert refusal(made, "Bearer " + token())[0] == 403


async def test_settings_for_signed_tokens_with_keys_at_an_address(folder: Folder) -> None:
    async with key_server(jwk("ed25519")) as server:
        settings = jwt_settings(folder, jwks=server.url)
        made = authenticator_from(settings, OWNERS)
        assert made is not None
        assert (await made.authenticate("Bearer " + token())).owner == ALICE


def test_settings_for_static_tokens(folder: Folder) -> None:
    path = folder.write("tokens.toml", f'ci = "{CI}"\n"a b" = "{DEPLOY}"\n')
    made = authenticator_from({"kind": "tokens", "tokens": path}, OWNERS)
    assert made is not None
    assert run(made.authenticate("Bearer " + DEPLOY)).owner == OWNERS.of_token_name("a b")


def test_settings_for_no_verification() -> None:
    made = authenticator_from({"kind": "header"}, OWNERS)
    assert isinstance(made, HeaderAuthenticator)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o777])
def test_a_token_file_that_other_users_can_read_is_refused(folder: Folder, mode: int) -> None:
    path = folder.write("tokens.toml", f'ci = "{CI}"', mode)
    match = rf"auth.tokens: .*readable by other users \(mode {mode:o}"
    with pytest.raises(ConfigurationError, match=match):
        authenticator_from({"kind": "tokens", "tokens": path}, OWNERS)


@pytest.mark.parametrize(
    "content",
    [
        f"ci = {CI}",
        f'ci: "{CI}"',
        b"\xff",
        f'ci = "{CI}"\nci = "{DEPLOY}"',
        "",
        f'[ci]\na = "{CI}"',
    ],
)
def test_an_invalid_token_file_is_refused_without_quoting_it(
    folder: Folder, content: str | bytes
) -> None:
    path = folder.write("tokens.toml", content)
    with pytest.raises(ConfigurationError, match=r"auth\.tokens: ") as refused:
        authenticator_from({"kind": "tokens", "tokens": path}, OWNERS)
    assert CI not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kind", "oauth"),
        ("kind", None),
        ("kind", ["jwt"]),
        ("issuer", None),
        ("issuer", ""),
        ("issuer", 7),
        ("issuer", "issuer.example"),
        ("issuer", "http://issuer.example"),
        ("audience", None),
        ("audience", [AUDIENCE]),
        ("audience", "a\nb"),
        ("jwks", None),
        ("jwks", "missing/keys.json"),
        ("jwks", "http://issuer.example/keys"),
        ("jwks", "https://user:pass@issuer.example/keys"),
        ("jwks", "file:///keys.json"),
        ("scopes", "read"),
        ("scopes", ["read write"]),
        ("scopes", ['"']),
        ("scopes", [7]),
        ("scopes", [""]),
        ("scopes", ["offline_access"]),
        ("tokens", "tokens.toml"),
        ("jwks_url", "https://issuer.example/keys"),
    ],
)
def test_an_error_names_the_wrong_key(folder: Folder, key: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=rf"^auth\.{key}\b") as refused:
        authenticator_from(jwt_settings(folder, **{key: value}), OWNERS)
    assert "pass" not in str(refused.value).replace("password", "")


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "tokens"},
        {"kind": "tokens", "tokens": 7},
        {"kind": "tokens", "tokens": "missing.toml"},
        {"kind": "header", "tokens": "tokens.toml"},
    ],
)
def test_an_error_in_the_token_file_names_its_key(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"^auth\.tokens\b"):
        authenticator_from(settings, OWNERS)


def test_the_settings_that_the_page_shows_are_accepted(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (REPOSITORY / "docs" / "howto" / "authentication.md").read_text()
    shown = [block.partition("```")[0] for block in page.split("```toml\n")[1:]]
    tables = [tomllib.loads(block) for block in shown]
    settings = [table["auth"] for table in tables if "auth" in table]
    assert {table["kind"] for table in settings} == {"jwt", "tokens", "header"}
    [tokens] = [block for block, table in zip(shown, tables, strict=True) if "auth" not in table]
    folder.write("tokens.toml", tokens)
    folder.write("keys.json", document(jwk("ed25519")))
    monkeypatch.chdir(folder.path)
    for table in settings:
        assert authenticator_from(table, OWNERS) is not None
