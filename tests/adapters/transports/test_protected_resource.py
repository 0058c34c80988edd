"""Challenges and metadata for clients without a token."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmachine.adapters.transports.auth.bearer_tokens import (
    Unauthorized,
    insufficient_scope,
    invalid_token,
    no_credentials,
)
from taskmachine.adapters.transports.auth.protected_resource import (
    challenge,
    metadata,
    metadata_paths,
    metadata_url,
)
from taskmachine.statemachine import ConfigurationError
from tests.requirements import covers

ROOT = "/.well-known/oauth-protected-resource"
WHERE = "https://tasks.example/.well-known/oauth-protected-resource/mcp"


def parameters(header: str) -> dict[str, str]:
    """Parse a challenge by RFC 9110: a scheme, then parameters with quoted strings."""
    scheme, _, rest = header.partition(" ")
    assert scheme == "Bearer"
    quoted = r'([a-z_]+)="((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\[\x20-\x7e])*)"'
    assert rest == "" or re.fullmatch(rf"{quoted}(?:, {quoted})*", rest), header
    found = re.findall(quoted, rest)
    assert len(dict(found)) == len(found), "no parameter comes twice"
    return {name: re.sub(r"\\(.)", r"\1", value) for name, value in found}


@covers("2025-11-25:http-auth-spec", "2026-07-28:http-auth-spec")
@pytest.mark.parametrize(
    ("refusal", "more"),
    [
        (no_credentials(), {}),
        (
            invalid_token("it has expired"),
            {"error": "invalid_token", "error_description": "it has expired"},
        ),
        (
            insufficient_scope(),
            {"error": "insufficient_scope", "error_description": "the access token lacks a scope"},
        ),
    ],
)
def test_a_challenge_names_metadata_scopes_and_error(
    refusal: Unauthorized, more: dict[str, str]
) -> None:
    found = parameters(challenge(WHERE, refusal, ["write", "read"]))
    assert found == {"resource_metadata": WHERE, "scope": "read write", **more}


def test_missing_values_are_left_out_of_a_challenge() -> None:
    assert challenge(None, no_credentials(), []) == "Bearer"
    assert parameters(challenge(None, invalid_token(), [])).keys() == {"error", "error_description"}


@given(st.text(), st.text(min_size=1), st.lists(st.text(min_size=1)))
def test_quotes_in_a_challenge_are_escaped(url: str, description: str, scopes: list[str]) -> None:
    header = challenge(url, Unauthorized(401, "invalid_token", description), scopes)
    found = parameters(header)
    assert len(found["error_description"]) == len(description)
    assert found["error"] == "invalid_token"


def test_a_line_break_does_not_begin_another_header() -> None:
    header = challenge(WHERE, invalid_token('x"\r\nSet-Cookie: a=b'), [])
    assert "\r" not in header
    assert "\n" not in header
    assert parameters(header)["error_description"] == 'x"??Set-Cookie: a=b'


def test_the_metadata_names_the_resource_and_its_authorization_servers() -> None:
    assert metadata("https://tasks.example/mcp", ["https://issuer.example"], {"b", "a"}) == {
        "resource": "https://tasks.example/mcp",
        "authorization_servers": ["https://issuer.example"],
        "scopes_supported": ["a", "b"],
        "bearer_methods_supported": ["header"],
    }
    assert "scopes_supported" not in metadata("http://127.0.0.1:8000/", ["https://i"], [])


@pytest.mark.parametrize(
    ("resource", "servers"),
    [
        ("https://tasks.example/mcp", []),
        ("tasks.example", ["https://issuer.example"]),
        ("https://tasks.example#part", ["https://issuer.example"]),
        ("https://", ["https://issuer.example"]),
        ("https://:8443/mcp", ["https://issuer.example"]),
        ("https://[::1/mcp", ["https://issuer.example"]),
    ],
)
def test_unusable_metadata_is_refused(resource: str, servers: list[str]) -> None:
    with pytest.raises(ConfigurationError):
        metadata(resource, servers, [])


@pytest.mark.parametrize(
    ("endpoint", "paths"),
    [
        ("/mcp", [ROOT + "/mcp", ROOT]),
        ("/public/mcp", [ROOT + "/public/mcp", ROOT]),
        ("/", [ROOT]),
        ("", [ROOT]),
    ],
)
def test_the_metadata_is_at_the_path_of_the_endpoint_and_at_the_root(
    endpoint: str, paths: list[str]
) -> None:
    assert metadata_paths(endpoint) == paths
    url = "https://tasks.example:8443" + endpoint
    assert metadata_url(url) == "https://tasks.example:8443" + paths[0]
