"""Each caller has one owner, and no two have the same."""

import re
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmachine.adapters.transports.auth.owners import ANONYMOUS, STDIO, Owners, Principal
from taskmachine.statemachine import ConfigurationError
from tests.requirements import covers

OWNERS = Owners(b"s" * 32)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def all_kinds(text: str) -> list[str]:
    return [
        OWNERS.of_principal(Principal(text, "")),
        OWNERS.of_principal(Principal("", text + "x")),
        OWNERS.of_token_name(text),
        OWNERS.of_header(text),
        OWNERS.of_session(text),
        OWNERS.session_key(text),
        STDIO,
        ANONYMOUS,
    ]


@given(TEXTS)
def test_no_kind_of_caller_passes_for_another(text: str) -> None:
    assert len(set(all_kinds(text))) == len(all_kinds(text))


@pytest.mark.parametrize("name", ["stdio", "anonymous", "principal:x", "session:x", "header:x"])
def test_a_token_with_the_name_of_another_kind_is_still_a_token(name: str) -> None:
    owner = OWNERS.of_token_name(name)
    assert owner not in (STDIO, ANONYMOUS)
    assert not owner.startswith(("principal:", "session:", "header:"))
    assert owner.endswith(name)


@covers("2025-11-25:bound-to-auth-context")
@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_owners_are_equal_if_and_only_if_issuer_and_subject_are(
    issuer: str, subject: str, other_issuer: str, other_subject: str
) -> None:
    one = OWNERS.of_principal(Principal(issuer, subject))
    other = OWNERS.of_principal(Principal(other_issuer, other_subject))
    assert (one == other) == ((issuer, subject) == (other_issuer, other_subject))


def test_moving_a_letter_from_issuer_to_subject_is_another_principal() -> None:
    pairs = [("ab", "c"), ("a", "bc"), ("", "abc"), ("abc", "")]
    owners = [OWNERS.of_principal(Principal(*pair)) for pair in pairs]
    assert len(set(owners)) == len(owners)


def test_another_secret_makes_other_owners_and_the_same_secret_the_same() -> None:
    same, other = Owners(b"s" * 32), Owners(b"t" * 32)
    for one, again, foreign in [
        (made.of_header("h"), twin.of_header("h"), far.of_header("h"))
        for made, twin, far in [(OWNERS, same, other)]
    ]:
        assert one == again != foreign
    assert OWNERS.session_key("x") == same.session_key("x") != other.session_key("x")


def test_nothing_that_identifies_a_caller_can_be_read_from_an_owner() -> None:
    secret = "Bearer secret-token"
    kept = [
        OWNERS.of_header(secret),
        OWNERS.of_session(secret),
        OWNERS.session_key(secret),
        OWNERS.of_principal(Principal(secret, secret)),
    ]
    for text in kept:
        assert "secret" not in text
        assert re.fullmatch(r"([a-z]+:)?[A-Za-z0-9_-]{43}", text), "256 bits in base64url"
    # Their hashes are unrelated, too.
    for one, other in combinations(kept, 2):
        assert one.rpartition(":")[2] != other.rpartition(":")[2]


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="31 bytes, at least 32"):
        Owners(b"s" * 31)
