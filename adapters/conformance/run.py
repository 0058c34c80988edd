"""Run discovery, probes and exploration against a server, then judge the record."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from taskmachine.adapters.conformance.catalogue import load_probes, requirements_of_servers
from taskmachine.adapters.conformance.discovery import discover
from taskmachine.adapters.conformance.errors import CannotCheck
from taskmachine.adapters.conformance.exploration.exploring import explore
from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.history import History
from taskmachine.adapters.conformance.probes.registry import PROBES, Probe
from taskmachine.adapters.conformance.profile import Profile, ToolCall
from taskmachine.adapters.conformance.recorder import Flooded, Recorder
from taskmachine.adapters.conformance.report import Run, judge_all
from taskmachine.adapters.conformance.target import Revision, Target
from taskmachine.adapters.conformance.wire.caller import PATIENCE_MS, TargetLost

__all__ = ["Options", "handshake_error", "run_server"]

CONCURRENCY: Final = 8
"""Number of concurrent probes."""

RESERVE: Final = 0.12
"""Share of the budget reserved for stopping the target and judging."""

FOR_DISCOVERY: Final = 0.25
"""Share of the budget for discovery."""

PROBE_S: Final = 20.0
"""Time limit of one probe."""


def _clock() -> float:
    return time.monotonic() * 1_000


@attrs.frozen
class Options:
    """How much to try, and which requirements to judge."""

    budget_s: float = 60.0
    seed: int = 0
    examples: int = attrs.field(default=20)
    """Number of exploration examples."""
    only: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()
    profile: Profile = attrs.field(factory=Profile)
    """Configured tool calls; missing roles are discovered."""
    tools: tuple[ToolCall, ...] = ()
    """Calls to try in discovery, instead of generated arguments."""
    allow_destructive: bool = False
    patience_ms: float = PATIENCE_MS

    @examples.validator
    def _are_possible(self, _: object, examples: int) -> None:
        if examples < 0:
            raise CannotCheck("the number of examples cannot be negative")

    def wanted(self, ids: Sequence[str]) -> frozenset[str]:
        """Return the selected requirements."""
        return frozenset(id for id in ids if (not self.only or id in self.only)) - self.skip


async def run_server(
    target: Target,
    revision: Revision,
    options: Options,
    *,
    on_progress: Callable[[str], None] = lambda _: None,
    clock: Callable[[], float] = _clock,
) -> Run:
    """Run everything and judge it. Raise TargetLost if the first handshake fails.

    `on_progress` receives the name of each step.
    """
    load_probes()
    recorder = Recorder(clock)
    harness = Harness(
        target, revision, recorder, seed=options.seed, patience_ms=options.patience_ms
    )
    deadline = clock() + options.budget_s * 1_000 * (1 - RESERVE)
    stopped: str | None = None
    replays: Mapping[str, Any] = {}
    server: Mapping[str, Any] = {}
    try:
        server = (await harness.caller()).server
        try:
            left_s = max((deadline - clock()) / 1_000, options.budget_s / 2)
            async with asyncio.timeout(left_s):
                on_progress("discovering tools")
                harness.profile = await discover(
                    harness,
                    options.profile,
                    options.tools,
                    options.allow_destructive,
                    within_ms=options.budget_s * 1_000 * FOR_DISCOVERY,
                )
                await _probe_all(harness, on_progress)
                if harness.profile and options.examples:
                    on_progress("exploring")
                    # It ends before the timeout cancels it, so that its results are not lost.
                    replays = await explore(
                        harness, options, (deadline - clock()) * 0.9, on_progress
                    )
        except TimeoutError:
            stopped = f"the budget of {options.budget_s:.3g} s ran out"
        except (TargetLost, Flooded) as error:
            stopped = str(error)
    finally:
        await harness.close()
    history = harness.history()
    requirements = requirements_of_servers(revision)
    wanted = options.wanted(list(requirements))
    return Run(
        revision,
        harness.transport,
        judge_all(history, requirements, wanted),
        harness.profile,
        server,
        _edges(history),
        recorder.now(),
        stopped,
        replays,
    )


async def handshake_error(target: Target, revision: Revision) -> str | None:
    """Return why the target cannot be used with that revision, or None if it can."""
    harness = Harness(target, revision, Recorder(_clock))
    try:
        await harness.caller()
    except TargetLost as error:
        return str(error)
    finally:
        await harness.close()
    return None


async def _probe_all(harness: Harness, on_progress: Callable[[str], None]) -> None:
    """Run the probes that tolerate others concurrently, then the rest one by one."""
    fitting = [probe for probe in PROBES if _fits(probe, harness)]
    room = asyncio.Semaphore(CONCURRENCY)

    async def one(probe: Probe) -> None:
        async with room:
            on_progress(probe.name)
            await _probe(harness, probe)

    await asyncio.gather(*(one(probe) for probe in fitting if not probe.alone))
    for probe in fitting:
        if probe.alone:
            on_progress(probe.name)
            await _probe(harness, probe)
            await harness.is_alive()


def _fits(probe: Probe, harness: Harness) -> bool:
    return (
        harness.revision in probe.revisions
        and harness.transport in probe.transports
        and all(role in harness.profile.calls for role in probe.needs)
    )


async def _probe(harness: Harness, probe: Probe) -> None:
    try:
        async with asyncio.timeout(PROBE_S):
            await probe.run(harness)
    except (TargetLost, TimeoutError):
        pass  # judge the messages recorded until then


def _edges(history: History) -> Mapping[tuple[str, str], int]:
    """Count status transitions between sightings whose order is certain."""
    edges: Counter[tuple[str, str]] = Counter()
    for sightings in history.by_task.values():
        last = sightings[0]
        for sighting in sightings[1:]:
            if last.precedes(sighting):
                edges[str(last.status), str(sighting.status)] += last.status != sighting.status
                last = sighting
    return {edge: count for edge, count in edges.items() if count}
