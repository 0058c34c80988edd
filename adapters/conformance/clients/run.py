"""Run a client through all scenarios, and judge its messages."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

from taskmachine.adapters.conformance.clients.actor import Ids
from taskmachine.adapters.conformance.clients.catalogue import requirements_of_clients
from taskmachine.adapters.conformance.clients.http import serve_http
from taskmachine.adapters.conformance.clients.incoming import Actor
from taskmachine.adapters.conformance.clients.mcp_2025_11_25.actor import LegacyActor
from taskmachine.adapters.conformance.clients.mcp_2025_11_25.scenarios import SCENARIOS as LEGACY
from taskmachine.adapters.conformance.clients.mcp_2026_07_28.actor import ModernActor
from taskmachine.adapters.conformance.clients.mcp_2026_07_28.scenarios import SCENARIOS as MODERN
from taskmachine.adapters.conformance.clients.pipes import serve_relays
from taskmachine.adapters.conformance.clients.program import (
    ProcessResult,
    command_line,
    relay_command,
    run_program,
)
from taskmachine.adapters.conformance.clients.report import ClientRun, judge_clients
from taskmachine.adapters.conformance.clients.script import Scenario
from taskmachine.adapters.conformance.clients.view import (
    STOPPED,
    client_info,
    speaks,
    until_stopped,
    without_other_era,
)
from taskmachine.adapters.conformance.history import Entry, Kind
from taskmachine.adapters.conformance.profile import Profile
from taskmachine.adapters.conformance.recorder import Recorder
from taskmachine.adapters.conformance.report import Run
from taskmachine.adapters.conformance.run import Options
from taskmachine.adapters.conformance.target import Revision

__all__ = ["SCENARIOS", "Runner", "run_client", "run_scenario"]

CONCURRENCY: Final = 4
"""Number of clients that run concurrently."""

Transport = Literal["stdio", "http"]

SCENARIOS: Final = {"2025-11-25": LEGACY, "2026-07-28": MODERN}


async def run_client(
    command: str,
    revision: Revision,
    options: Options,
    *,
    on_progress: Callable[[str], None] = lambda _: None,
) -> Run:
    """Run the client once for each scenario, and judge everything that it sent.

    With `{server}` in the command the client uses stdio, else HTTP.  `on_progress` receives the
    name of each scenario.  Raise CannotCheck if the command cannot be started.
    """
    began = time.monotonic()
    transport: Transport = "stdio" if "{server}" in command else "http"
    fitting = [one for one in SCENARIOS[revision] if transport in one.transports]
    played: list[ClientRun] = []
    stopped: str | None = None
    room = asyncio.Semaphore(CONCURRENCY)

    async def one(scenario: Scenario) -> None:
        async with room:
            on_progress(scenario.name)
            run = _program(command, scenario)
            played.append(await run_scenario(run, scenario, transport, options.seed))

    try:
        async with asyncio.timeout(options.budget_s):
            await one(fitting[0])
            if speaks(played[0].history):
                await asyncio.gather(*(one(scenario) for scenario in fitting[1:]))
            else:
                stopped = _silence(revision, played[0])
    except TimeoutError:
        stopped = f"the budget of {options.budget_s:g} s ran out"
    requirements = requirements_of_clients(revision)
    played.sort(key=lambda one: fitting.index(one.scenario))
    return Run(
        revision,
        transport,
        judge_clients(played, requirements, options.wanted(list(requirements))),
        Profile(),
        client_info(played[0].history) if played else {},
        took_ms=(time.monotonic() - began) * 1_000,
        stopped=stopped,
        is_client=True,
    )


Runner = Callable[[str, asyncio.Event, Callable[[ProcessResult], None]], Awaitable[ProcessResult]]
"""Runs a client with an address: a URL, or the command of a server.

The event is set when the client has sent its first message; the callback is called at its end.
"""


async def run_scenario(
    run: Runner, scenario: Scenario, transport: Transport, seed: int = 0
) -> ClientRun:
    """Run a client through one scenario."""
    begun = asyncio.Event()
    recorder = _StartRecorder(lambda: time.monotonic() * 1_000, begun)
    ids = Ids(random.Random(f"{seed} {scenario.revision} {scenario.name}"))
    actor: Actor
    if scenario.revision == "2025-11-25":
        actor = LegacyActor(scenario, recorder, ids)
    else:
        actor = ModernActor(scenario, recorder, ids, has_lines=transport == "stdio")

    def over(ran: ProcessResult) -> None:
        how = STOPPED if ran.returncode is None else f"exit status {ran.returncode}"
        recorder.add(Kind.EXITED, "A", 0, text=how)

    if transport == "http":
        async with serve_http(actor, recorder) as url:
            ran = await run(url, begun, over)
    else:
        async with serve_relays(actor, recorder) as port:
            ran = await run(relay_command(port), begun, over)
    history = until_stopped(recorder.history(scenario.revision, transport, {"A": None}))
    return ClientRun(scenario, without_other_era(history), ran)


class _StartRecorder(Recorder):
    """A recorder that signals the client's first message."""

    def __init__(self, clock: Callable[[], float], begun: asyncio.Event) -> None:
        super().__init__(clock)
        self._begun = begun

    def add(self, *arguments: Any, **more: Any) -> Entry:
        self._begun.set()  # the client always sends first
        return super().add(*arguments, **more)


def _program(command: str, scenario: Scenario) -> Runner:
    async def run(
        address: str, begun: asyncio.Event, over: Callable[[ProcessResult], None]
    ) -> ProcessResult:
        words = command_line(command, url=address, server=address)
        return await run_program(words, scenario.name, scenario.patience_s, begun=begun, over=over)

    return run


def _silence(revision: str, played: ClientRun) -> str:
    last = played.ran.words.strip().splitlines()[-1:]
    log = f"; last line on its standard error: {last[0][:200]}" if last else ""
    status = played.ran.returncode
    how = "was stopped" if status is None else f"exited with status {status}"
    return f"the client completed no request of {revision} and {how}{log}"
