"""The tester finds every bug of a client, and nothing else."""

import asyncio
from collections.abc import Mapping

import attrs
import pytest

from taskmachine.adapters.conformance.catalogue import load_checks
from taskmachine.adapters.conformance.clients.report import ClientRun
from taskmachine.adapters.conformance.judging import CLIENT_CHECKS
from tests.conformance.clients import a_client
from tests.conformance.clients.bugs import BUGS, Bug
from tests.conformance.clients.playing import broken, played, scenario, words_of

AT_ONCE = 8
SAMPLE = {"is anonymous", "forgets the session id", "kills its server", "declares once"}
SLOW = [pytest.mark.slow, pytest.mark.bugs]
CASES = [pytest.param(bug, marks=() if bug.words in SAMPLE else SLOW) for bug in BUGS]


def _name(bug: Bug) -> str:
    return f"{bug.revision} {bug.transport} {bug.scenario}: {bug.words}"


async def _played(bug: Bug) -> ClientRun:
    in_turn = ["--in-turn"] if bug.in_turn else []
    arguments = ["--bug", bug.words, "--only", bug.only, *in_turn, bug.revision]

    async def main(address: str) -> None:
        await a_client.main([*arguments, *words_of(address)])

    shown = attrs.evolve(scenario(bug.revision, bug.scenario), hello_ms=bug.hello_ms)
    return await played(main, shown, bug.transport)


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest) -> Mapping[Bug, dict[str, str]]:
    """Return what the bugs of the selected tests break; they run concurrently, mostly waiting."""
    items = [item for item in request.session.items if item.path == request.path]
    chosen = {item.callspec.params["bug"] for item in items if hasattr(item, "callspec")}
    bugs = [bug for bug in BUGS if bug in chosen]

    async def all_of_them() -> list[ClientRun]:
        room = asyncio.Semaphore(AT_ONCE)

        async def one(bug: Bug) -> ClientRun:
            async with room:
                return await _played(bug)

        return await asyncio.gather(*map(one, bugs))

    runs = asyncio.run(all_of_them())
    return {bug: broken([run]) for bug, run in zip(bugs, runs, strict=True)}


@pytest.mark.parametrize("bug", CASES, ids=_name)
def test_a_bug_is_found(bug: Bug, found: Mapping[Bug, dict[str, str]]) -> None:
    assert bug.breaks <= set(found[bug]), found[bug]


@pytest.mark.parametrize("bug", CASES, ids=_name)
def test_nothing_else_is_found(bug: Bug, found: Mapping[Bug, dict[str, str]]) -> None:
    others = {id: words for id, words in found[bug].items() if id not in bug.breaks | bug.also}
    assert not others


def test_every_client_bug_breaks_existing_checks() -> None:
    load_checks()
    receivers = {"2025-11-25:cancelled-sticks", "2025-11-25:terminal-final"}  # as of servers
    assert {id for bug in BUGS for id in bug.breaks} <= CLIENT_CHECKS.keys() | receivers
