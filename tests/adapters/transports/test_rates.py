"""Lookups above the rate are refused, and those below never."""

from fractions import Fraction

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmachine.adapters.transports.http.rates import MISS, Rates
from taskmachine.statemachine import ConfigurationError, LimitExceeded
from tests.requirements import covers


@attrs.define
class Steady:
    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


def is_allowed(rates: Rates, caller: str, cost: int = 1) -> bool:
    try:
        rates.spend(caller, cost)
    except LimitExceeded:
        return False
    return True


@covers("2025-11-25:rate-limited-operations", "2026-07-28:may-rate-limit-polling")
def test_a_burst_is_allowed_and_then_so_many_in_each_second() -> None:
    clock = Steady()
    rates = Rates(4, 10, clock)
    assert [is_allowed(rates, "a") for _ in range(12)] == [True] * 10 + [False] * 2
    clock.now += 1
    assert [is_allowed(rates, "a") for _ in range(6)] == [True] * 4 + [False] * 2
    clock.now += 1_000
    assert [is_allowed(rates, "a") for _ in range(12)] == [True] * 10 + [False] * 2


def test_a_retry_after_the_given_time_succeeds() -> None:
    clock = Steady()
    rates = Rates(4, 1, clock)
    rates.spend("a")
    with pytest.raises(LimitExceeded, match="4 lookups per second") as refused:
        rates.spend("a")
    assert refused.value.retry_after_ms == 250
    clock.now += 0.125
    assert not is_allowed(rates, "a")
    clock.now += 0.125
    assert is_allowed(rates, "a")


def test_callers_have_separate_buckets() -> None:
    rates = Rates(1, 1, Steady())
    rates.spend("a")
    assert not is_allowed(rates, "a")
    assert is_allowed(rates, "b")


def test_a_miss_costs_more_and_is_never_refused() -> None:
    clock = Steady()
    rates = Rates(1, 3, clock)
    rates.spend("guesser")
    rates.miss("guesser")
    with pytest.raises(LimitExceeded) as refused:
        rates.spend("guesser")
    # 3 tokens minus 10 for the miss, and the next lookup needs one.
    assert refused.value.retry_after_ms == (MISS - 3 + 1) * 1_000
    rates.miss("guesser")
    clock.now += 2 * MISS - 1 - 3
    assert not is_allowed(rates, "guesser")
    clock.now += 1
    assert is_allowed(rates, "guesser")


@given(
    st.integers(1, 8),
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 12), st.sampled_from(["spend", "miss"]))
    ),
)
def test_a_bucket_is_the_model_of_a_bucket(burst: int, steps: list[tuple[str, int, str]]) -> None:
    """Compare with a model that adds four tokens a second; times are exact binary fractions."""
    clock = Steady()
    rates = Rates(4, burst, clock, max_callers=2)
    tokens = dict.fromkeys("abc", Fraction(burst))
    for caller, eighths, act in steps:
        clock.now += eighths / 8
        for name in tokens:
            tokens[name] = min(Fraction(burst), tokens[name] + Fraction(eighths, 2))
        if act == "miss":
            rates.miss(caller)
            tokens[caller] -= MISS - 1
            continue
        is_full = tokens[caller] == burst
        others = sum(left < burst for name, left in tokens.items() if name != caller)
        allowed = is_allowed(rates, caller)
        if not (is_full and others >= 2):  # else there may be no room, or an old bucket
            assert allowed == (tokens[caller] >= 1)
        if allowed:
            tokens[caller] -= 1


def test_refused_caller_is_not_evicted_by_many_other_callers() -> None:
    clock = Steady()
    rates = Rates(1, 2, clock, max_callers=10)
    assert [is_allowed(rates, "greedy") for _ in range(3)] == [True, True, False]
    for number in range(1_000):
        is_allowed(rates, f"other {number}")
    assert not is_allowed(rates, "greedy")


def test_beyond_the_bound_new_callers_wait_until_one_bucket_is_full() -> None:
    clock = Steady()
    rates = Rates(1, 2, clock, max_callers=3)
    for caller in ("a", "a", "b", "c", "c"):
        rates.spend(caller)
    with pytest.raises(LimitExceeded, match="3 callers at a time"):
        rates.spend("d")
    assert is_allowed(rates, "b"), "a caller with a bucket is served"
    clock.now += 2
    assert [is_allowed(rates, caller) for caller in "def"] == [True, True, True]


def test_one_empty_bucket_does_not_block_the_eviction_of_other_callers() -> None:
    clock = Steady()
    rates = Rates(1, 1, clock, max_callers=10)
    rates.spend("guesser")
    for _ in range(100):
        rates.miss("guesser")
    for number in range(200):
        clock.now += 1
        assert is_allowed(rates, f"caller {number}"), number
    assert not is_allowed(rates, "guesser")


@pytest.mark.parametrize(("per_second", "burst"), [(0, 1), (-1, 1), (float("nan"), 1), (1, 0)])
def test_a_rate_of_zero_is_refused(per_second: float, burst: int) -> None:
    with pytest.raises(ConfigurationError):
        Rates(per_second, burst, Steady())
