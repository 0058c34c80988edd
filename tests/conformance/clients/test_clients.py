"""Correct clients break nothing, and are put to the test in most of what can be."""

import asyncio
from collections.abc import Sequence

import pytest

from taskmachine.adapters.conformance.clients.report import Played
from taskmachine.adapters.conformance.clients.run import SCENARIOS, Transport
from taskmachine.adapters.conformance.clients.script import Scenario
from tests.conformance.clients import a_client, our_client
from tests.conformance.clients.playing import Main, broken, findings, played, words_of

REVISIONS = ("2025-11-25", "2026-07-28")
AT_ONCE = 6


def _through_all(revision: str, transport: Transport, client: str) -> Sequence[Played]:
    """All scenarios of a revision, several at the same time."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(scenario: Scenario) -> Played:
        async with room:
            return await played(_main(revision, scenario, client), scenario, transport)

    async def all_of_them() -> list[Played]:
        fitting = [one for one in SCENARIOS[revision] if transport in one.transports]
        return await asyncio.gather(*map(one, fitting))

    return asyncio.run(all_of_them())


def _main(revision: str, scenario: Scenario, client: str) -> Main:
    in_turn = ["--in-turn"] if scenario.name == "sessions" else []

    async def main(address: str) -> None:
        if client == "a_client":
            await a_client.main([*in_turn, revision, *words_of(address)])
        else:
            target = address if address.startswith("http") else words_of(address)
            await our_client.main(revision, target)

    return main


@pytest.mark.parametrize("client", ["a_client", "our_client"])
@pytest.mark.parametrize("transport", ["http", "stdio"])
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_correct_client_breaks_nothing(revision: str, transport: Transport, client: str) -> None:
    runs = _through_all(revision, transport, client)
    assert not broken(runs)
    exercised = [finding for finding in findings(runs) if finding.times]
    assert len(exercised) >= {"http": 75, "stdio": 45}[transport]
