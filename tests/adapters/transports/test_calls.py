"""The number of function calls for a request stays small."""

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


def test_the_counter_sees_each_call_of_this_package() -> None:
    calls = asyncio.run(count_calls(whole_task, "memory"))
    times = {code.co_qualname: count for code, count in calls.by_function.items()}
    assert times["Receiver.receive"] == times["TaskService.create"] == 1
    assert calls.total >= len(calls.by_function) > 50


@pytest.mark.parametrize("store", STORES)
def test_a_request_that_waits_is_read_and_performed_once(store: str) -> None:
    calls = asyncio.run(count_calls(waiting_result, store))
    times = {code.co_qualname: count for code, count in calls.by_function.items()}
    assert times["decode_message"] == 1
    assert times["Dialect.decode_request"] == 1
    assert times["TaskService.get"] == 2, "before and after it is followed"
    assert times["Rates.spend"] == 1, "one lookup"
