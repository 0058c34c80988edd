"""Correct clients break nothing and exercise most requirements."""

import asyncio
import itertools
from collections.abc import Mapping, Sequence

import pytest

from taskmachine.adapters.conformance.clients.report import ClientRun
from taskmachine.adapters.conformance.clients.run import SCENARIOS, Transport
from taskmachine.adapters.conformance.clients.script import Scenario
from tests.conformance.clients import a_client, our_client
from tests.conformance.clients.playing import Main, broken, findings, played, words_of

pytestmark = [pytest.mark.slow, pytest.mark.bugs]

AT_ONCE = 8
CLIENTS = ("a_client", "our_client")
REVISIONS = ("2025-11-25", "2026-07-28")
TRANSPORTS: tuple[Transport, ...] = ("http", "stdio")
CASES = list(itertools.product(CLIENTS, REVISIONS, TRANSPORTS))

Case = tuple[str, str, Transport]


def _main(client: str, scenario: Scenario) -> Main:
    in_turn = ["--in-turn"] if scenario.name == "sessions" else []

    async def main(address: str) -> None:
        if client == "a_client":
            await a_client.main([*in_turn, scenario.revision, *words_of(address)])
        else:
            target = address if address.startswith("http") else words_of(address)
            await our_client.main(scenario.revision, target)

    return main


@pytest.fixture(scope="module")
def runs() -> Mapping[Case, Sequence[ClientRun]]:
    """Run all scenarios with all clients concurrently; they mostly wait."""

    async def all_of_them() -> list[list[ClientRun]]:
        room = asyncio.Semaphore(AT_ONCE)

        async def one(client: str, scenario: Scenario, transport: Transport) -> ClientRun:
            async with room:
                return await played(_main(client, scenario), scenario, transport)

        async def case(client: str, revision: str, transport: Transport) -> list[ClientRun]:
            fitting = [one for one in SCENARIOS[revision] if transport in one.transports]
            return await asyncio.gather(*(one(client, each, transport) for each in fitting))

        return await asyncio.gather(*itertools.starmap(case, CASES))

    return dict(zip(CASES, asyncio.run(all_of_them()), strict=True))


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_a_correct_client_breaks_nothing(
    case: Case, runs: Mapping[Case, Sequence[ClientRun]]
) -> None:
    assert not broken(runs[case])


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_a_correct_client_is_put_to_the_test(
    case: Case, runs: Mapping[Case, Sequence[ClientRun]]
) -> None:
    exercised = [finding for finding in findings(runs[case]) if finding.times]
    assert len(exercised) >= {"http": 75, "stdio": 45}[case[2]]
