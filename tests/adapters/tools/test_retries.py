"""Policies of retries: after which errors, how often, and when."""

from typing import Any

import pytest

from taskmachine.adapters.tools.registry import CallError, ToolError
from taskmachine.adapters.tools.retries import MOST_S, Retries, Retry, exponential, retries_of
from taskmachine.client import ConnectionLost
from taskmachine.statemachine import ConfigurationError

WEEK_S = 7 * 24 * 3600


def pauses(retries: Retries, error: BaseException, **options: Any) -> list[float | None]:
    return [retries.pause_s(error, failures, "t-1", **options) for failures in range(1, 5)]


# --- when ------------------------------------------------------------------------------------


def test_one_attempt_is_the_default() -> None:
    assert pauses(Retries(), OSError()) == [None] * 4
    assert pauses(Retries(), Retry(after=1)) == [None] * 4


def test_pauses_grow_to_a_bound() -> None:
    steady = exponential(first=2, factor=3, most=20, jitter=False)
    assert pauses(Retries(3, steady), OSError()) == [2, 6, 18, None]
    assert [steady(failures) for failures in (4, 1_000, 10**6)] == [20] * 3


def test_the_default_backoff_is_jittered_and_repeatable() -> None:
    retries = Retries(1_000)
    for failures in (1, 2, 5, 500):
        whole = min(300, 2 ** (failures - 1))
        found = [retries.pause_s(OSError(), failures, f"task {n}") for n in range(50)]
        assert all(pause is not None and whole / 2 <= pause <= whole for pause in found)
        assert len({*found}) == 50, "tasks that failed together are not repeated together"
        assert found == [retries.pause_s(OSError(), failures, f"task {n}") for n in range(50)]


def test_a_function_is_a_backoff_too() -> None:
    retries = retries_of({"retries": 3, "backoff": lambda failures: 10.0 * failures})
    assert pauses(retries, OSError()) == [10, 20, 30, None]


def test_a_retry_says_when_unless_it_leaves_it_to_the_backoff() -> None:
    retries = Retries(2, exponential(first=2, jitter=False), retry_on=KeyError)
    assert pauses(retries, Retry(after=60)) == [60, 60, None, None]
    assert pauses(retries, Retry(after=0)) == [0, 0, None, None]
    assert pauses(retries, Retry(reason="busy")) == [2, 4, None, None]


@pytest.mark.parametrize("pause", [-1, float("nan"), WEEK_S + 1, "5", None])
def test_a_backoff_that_goes_wrong_later_ends_the_retries(
    pause: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """At the first failure it is called at registration."""
    retries = retries_of({"retries": 3, "backoff": lambda failures: 1 if failures == 1 else pause})
    assert pauses(retries, OSError()) == [1, None, None, None]
    assert f"no retry: backoff must return 0 s to 7 days, got {pause!r}" in caplog.text


# --- after what ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "retry_on", "give_up_on", "is_retried"),
    [
        (OSError(), Exception, (), True),
        (OSError(), OSError, (), True),
        (ConnectionError(), OSError, (), True),
        (OSError(), (KeyError, OSError), (), True),
        (OSError(), KeyError, (), False),
        (OSError(), (), (), False),
        (OSError(), Exception, OSError, False),
        (ConnectionError(), OSError, (KeyError, ConnectionError), False),
        (Retry(), KeyError, (), True),
        (Retry(), Exception, Retry, False),
        (SystemExit(1), Exception, (), False),
    ],
)
def test_which_errors_are_retried(
    error: BaseException, retry_on: Any, give_up_on: Any, is_retried: bool
) -> None:
    retries = Retries(1, retry_on=retry_on, give_up_on=give_up_on)
    assert (retries.pause_s(error, 1, "") is not None) is is_retried


@pytest.mark.parametrize("error", [ToolError("no"), CallError(-1, "no"), ConnectionLost("no")])
@pytest.mark.parametrize(
    ("retry_on", "is_retried"),
    [
        (Exception, False),
        ((Exception,), False),
        ((OSError, Exception), False),
        (BaseException, False),
        ((OSError, ToolError, CallError, ConnectionLost), True),
        ((Exception, ToolError, CallError, ConnectionLost), True),
    ],
)
def test_deliberate_errors_are_retried_only_by_name(
    error: Exception, retry_on: Any, is_retried: bool
) -> None:
    pause = Retries(1, retry_on=retry_on).pause_s(error, 1, "", is_deliberate=True)
    assert (pause is not None) is is_retried


# --- mistakes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"first": -1}, "needs 0 <= first <= most <= 7 days, in seconds, and a factor of at least"),
        ({"first": float("nan")}, "needs 0 <= first <= most"),
        ({"most": MOST_S + 1}, "needs 0 <= first <= most"),
        ({"first": 600}, "needs 0 <= first <= most"),
        ({"factor": 0.5}, "and a factor of at least 1"),
        ({"first": "1"}, "needs numbers, got '1'"),
        ({"most": None}, "needs numbers, got None"),
    ],
)
def test_a_growth_that_cannot_be(options: Any, words: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        exponential(**options)
    assert str(refused.value).startswith("exponential: ")
    assert words in str(refused.value)


@pytest.mark.parametrize("after", [-1, float("nan"), WEEK_S + 1])
def test_a_retry_at_a_time_that_cannot_be(after: float) -> None:
    with pytest.raises(ValueError, match="after must be from 0 s to 7 days, got"):
        Retry(after)


def test_a_retry_whose_reason_stands_first() -> None:
    with pytest.raises(TypeError, match="after must be seconds, got 'busy'; a text is the reason="):
        Retry("busy")  # type: ignore[arg-type]
