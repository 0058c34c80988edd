"""Lets a client of the tests go through scenarios, without a process of its own."""

import asyncio
import contextlib
import shlex
from collections.abc import Awaitable, Callable, Sequence

from taskmachine.adapters.conformance.catalogue import load_checks
from taskmachine.adapters.conformance.clients.catalogue import requirements_of_clients
from taskmachine.adapters.conformance.clients.program import ProcessResult
from taskmachine.adapters.conformance.clients.report import ClientRun, judge_clients
from taskmachine.adapters.conformance.clients.run import SCENARIOS, Transport, run_scenario
from taskmachine.adapters.conformance.clients.script import Scenario
from taskmachine.adapters.conformance.judging import Verdict
from taskmachine.adapters.conformance.report import Finding
from taskmachine.statemachine import TaskmachineError
from tests.conformance.clients.wires import Left

__all__ = ["broken", "findings", "played", "scenario", "words_of"]

Main = Callable[[str], Awaitable[None]]
"""A client, given the address of its server."""


def scenario(revision: str, name: str) -> Scenario:
    """The one with this name."""
    return next(one for one in SCENARIOS[revision] if one.name == name)


async def played(main: Main, scenario: Scenario, transport: Transport) -> ClientRun:
    """One run."""

    async def run(
        address: str, begun: asyncio.Event, over: Callable[[ProcessResult], None]
    ) -> ProcessResult:
        running = asyncio.ensure_future(_exit_status(main(address)))
        await asyncio.wait([running], timeout=scenario.patience_s)
        ran = ProcessResult(running.result() if running.done() else None, "")
        over(ran)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        return ran

    return await run_scenario(run, scenario, transport)


async def _exit_status(running: Awaitable[None]) -> int:
    try:
        await running
    except (Left, TaskmachineError):
        return 1
    return 0


def findings(runs: Sequence[ClientRun]) -> list[Finding]:
    """The verdicts on all requirements."""
    load_checks()
    requirements = requirements_of_clients(runs[0].scenario.revision)
    return judge_clients(runs, requirements, frozenset(requirements))


def broken(runs: Sequence[ClientRun]) -> dict[str, str]:
    """Return the broken requirements with their messages."""
    bad = (Verdict.FAIL, Verdict.WARNING)
    return {one.id: one.words for one in findings(runs) if one.verdict in bad}


def words_of(address: str) -> list[str]:
    """The address as arguments."""
    return [address] if address.startswith("http") else shlex.split(address)
