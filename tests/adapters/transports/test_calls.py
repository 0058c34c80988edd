"""The path of a request stays short: how many calls of our own functions it takes."""

import asyncio
from typing import Final

import pytest

from tests.adapters.transports.calls import (
    STORES,
    Scenario,
    count_calls,
    waiting_result,
    whole_task,
)

MOST: Final[dict[Scenario, int]] = {whole_task: 180, waiting_result: 200}
FILES: Final = 37


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("scenario", MOST, ids=lambda scenario: scenario.__name__)
def test_a_request_takes_few_calls(scenario: Scenario, store: str) -> None:
    calls = asyncio.run(count_calls(scenario, store))
    assert calls.total <= MOST[scenario], "\n".join(calls.lines())
    assert len(calls.files) <= FILES, sorted(calls.files)


def test_the_counter_counts() -> None:
    """A function more is a call more."""
    before = asyncio.run(count_calls(whole_task, "memory"))
    names = [code.co_qualname for code in before.by_function]
    assert "Receiver.receive" in names
    assert "TaskService.create" in names
    assert before.total == asyncio.run(count_calls(whole_task, "memory")).total


@pytest.mark.parametrize("store", STORES)
def test_a_request_that_waits_is_read_and_performed_once(store: str) -> None:
    calls = asyncio.run(count_calls(waiting_result, store))
    times = {code.co_qualname: count for code, count in calls.by_function.items()}
    assert times["decode_message"] == 1
    assert times["Dialect.decode_request"] == 1
    assert times["TaskService.perform"] == 1
    assert times["Rates.spend"] == 1, "one lookup"
