"""Find out on the correct server which probe exercises which requirement.

A bug is then run only with the probes that matter to it.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from taskmachine.adapters.conformance.catalogue import (
    load_checks,
    load_probes,
    requirements_of_servers,
)
from taskmachine.adapters.conformance.discovery import discover, list_tools
from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.probes.registry import PROBES, Probe
from taskmachine.adapters.conformance.profile import Profile
from taskmachine.adapters.conformance.recorder import Recorder
from taskmachine.adapters.conformance.report import Finding, judge_all
from taskmachine.adapters.conformance.target import Revision, Target
from taskmachine.adapters.conformance.wire.caller import TargetLost

__all__ = ["Coverage", "measure_coverage", "run_probes"]

CONCURRENCY: Final = 4
PROBE_S: Final = 20.0

INTRODUCTION: Final = ""
DISCOVERY: Final = "discovery"
"""Not probes, but they exercise requirements as well."""


@attrs.frozen
class Coverage:
    """The requirements that each probe exercises, for one revision over one transport."""

    profile: Profile
    exercised: Mapping[str, frozenset[str]]
    """The ids that each probe exercises, by its name."""

    def probes_for(self, ids: frozenset[str], theme: str, most: int) -> list[str]:
        """Select probes that exercise these ids: special ones, broad ones, some of the theme.

        If no probe does, because only a bug exercises the id: all of the theme.
        """
        chosen: set[str] = set()
        of_theme = [name for name in self.exercised if _is_of_theme(name, theme)]
        for id in ids:
            names = [name for name, exercised in self.exercised.items() if id in exercised]
            names.sort(key=lambda name: (len(self.exercised[name]), name))
            own = [name for name in of_theme if name in names]
            chosen.update(names[:most], names[-most:], own[: 2 * most] if names else of_theme)
        return sorted(chosen)


def _is_of_theme(probe: str, theme: str) -> bool:
    return _subject(probe.rpartition(".")[0]) == _subject(theme)


def _subject(module: str) -> tuple[str, ...]:
    """Return a page that both revisions share, or a revision and a page of it."""
    first, *rest = module.split(".")
    return (first, *rest[:1]) if first.startswith("mcp_") else (first,)


async def measure_coverage(target: Target, revision: Revision) -> Coverage:
    """Run every probe by itself on a correct server."""
    load_checks()
    load_probes()
    harness = Harness(target, revision, Recorder(_clock))
    try:
        profile = await discover(harness, Profile())
    finally:
        await harness.close()
    room = asyncio.Semaphore(CONCURRENCY)
    exercised: dict[str, frozenset[str]] = {}

    async def measure(name: str) -> None:
        async with room:
            findings = await run_probes(target, revision, profile, [name])
            exercised[name] = frozenset(finding.id for finding in findings if finding.times)

    fitting = [p.name for p in PROBES if _fits(p, revision, target.transport, profile)]
    await asyncio.gather(*map(measure, [INTRODUCTION, DISCOVERY, *fitting]))
    return Coverage(profile, exercised)


async def run_probes(
    target: Target, revision: Revision, profile: Profile, probes: Sequence[str]
) -> list[Finding]:
    """Return the findings of these probes alone, with a known profile."""
    load_checks()
    load_probes()
    harness = Harness(target, revision, Recorder(_clock), profile=profile)
    try:
        with contextlib.suppress(TargetLost):
            await list_tools(await harness.caller())
            if DISCOVERY in probes:
                await discover(harness, Profile())
            for probe in PROBES:
                if probe.name in probes:
                    await _run(probe, harness)
            await harness.is_alive()
    finally:
        await harness.close()
    requirements = requirements_of_servers(revision)
    return judge_all(harness.history(), requirements, frozenset(requirements))


async def _run(probe: Probe, harness: Harness) -> None:
    with contextlib.suppress(TargetLost, TimeoutError):
        async with asyncio.timeout(PROBE_S):
            await probe.run(harness)


def _fits(probe: Probe, revision: str, transport: str, profile: Profile) -> bool:
    return (
        revision in probe.revisions
        and transport in probe.transports
        and all(role in profile.calls for role in probe.needs)
    )


def _clock() -> float:
    return time.monotonic() * 1_000
