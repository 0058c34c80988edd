"""Callers are sealed with their task, bounded, and the same before and after."""

from math import inf
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmachine.protocol.caller import MAX_CALLER, Caller
from taskmachine.protocol.sealing import Sealer
from taskmachine.statemachine import ConfigurationError
from tests.strategies import json_values, text

SEALER = Sealer(b"s" * 32)
ADA = Caller("alice", "ada", {"groups": ["dev"], "deep": {"n": 1}}, frozenset({"read", "write"}))

callers = st.builds(
    Caller,
    text,
    text,
    st.dictionaries(text, json_values, max_size=4),
    st.frozensets(text, max_size=3),
)


@given(callers, text)
def test_a_sealed_caller_opens_for_its_task_and_owner(caller: Caller, task_id: str) -> None:
    caller = caller.checked()
    sealed = SEALER.seal_caller(task_id, caller)
    assert SEALER.open_caller(task_id, caller.owner, sealed) == caller


@pytest.mark.parametrize(
    ("secret", "task_id", "owner", "flip"),
    [
        (b"t", "t1", "alice", None),
        (b"s", "t2", "alice", None),
        (b"s", "t1", "bob", None),
        (b"s", "t1", "alice", 0),
        (b"s", "t1", "alice", -1),
    ],
)
def test_it_opens_for_no_other_task_owner_or_secret(
    secret: bytes, task_id: str, owner: str, flip: int | None
) -> None:
    sealed = bytearray(SEALER.seal_caller("t1", ADA))
    if flip is not None:
        sealed[flip] ^= 1
    with pytest.raises(ConfigurationError, match="claims of its caller cannot be decrypted"):
        Sealer(secret * 32).open_caller(task_id, owner, bytes(sealed))


@pytest.mark.parametrize("sealed", [b"", b"short", b"x" * 16, b"x" * 100])
def test_other_bytes_do_not_open(sealed: bytes) -> None:
    with pytest.raises(ConfigurationError, match="cannot be decrypted"):
        SEALER.open_caller("t1", "alice", sealed)


def test_no_value_of_a_caller_is_readable_when_sealed_or_printed() -> None:
    for shown in (SEALER.seal_caller("t1", ADA).decode("latin-1"), repr(ADA)):
        for secret in ("ada", "groups", "dev", "write"):
            assert secret not in shown


def test_equal_callers_of_two_tasks_are_sealed_differently() -> None:
    assert SEALER.seal_caller("t1", ADA) != SEALER.seal_caller("t2", ADA)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"a": "x" * MAX_CALLER}, f"bytes of claims; the limit is {MAX_CALLER}"),
        ({"a": object()}, "must be JSON"),
        ({"a": "\ud800"}, "surrogates not allowed"),
    ],
)
def test_claims_that_cannot_be_kept_are_refused(claims: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Caller("alice", claims=claims).checked()
    with pytest.raises(ValueError, match=why):
        SEALER.seal_caller("t1", Caller("alice", claims=claims))


def test_a_plain_call_sees_the_claims_as_a_task_does() -> None:
    checked = attrs.evolve(ADA, claims={"tuple": (1, 2), "huge": 2**90, "inf": inf}).checked()
    assert checked.claims == {"tuple": [1, 2], "huge": 2**90, "inf": None}
    assert checked == checked.checked()
    with pytest.raises(TypeError):
        checked.claims["new"] = 1  # type: ignore[index]
