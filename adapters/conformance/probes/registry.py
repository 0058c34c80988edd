"""The registry of probes."""

from collections.abc import Awaitable, Callable
from typing import Final

import attrs

from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.profile import Role

__all__ = ["PROBES", "Probe", "probe"]


@attrs.frozen
class Probe:
    """A short conversation with the target."""

    name: str
    run: Callable[[Harness], Awaitable[None]]
    revisions: tuple[str, ...]
    transports: tuple[str, ...]
    needs: tuple[Role, ...]
    """Skip the probe unless the profile has a call for each role."""
    alone: bool
    """Whether no other probe may run concurrently, since this one may disturb the target."""


PROBES: Final[list[Probe]] = []


def probe(
    *needs: Role,
    revisions: tuple[str, ...] = ("2025-11-25", "2026-07-28"),
    transports: tuple[str, ...] = ("stdio", "http"),
    alone: bool = False,
) -> Callable[[Callable[[Harness], Awaitable[None]]], Callable[[Harness], Awaitable[None]]]:
    """Register a probe. The runner limits its time, and it may return early."""

    def register(run: Callable[[Harness], Awaitable[None]]) -> Callable[[Harness], Awaitable[None]]:
        name = f"{run.__module__.partition('.probes.')[2]}.{run.__name__}"
        PROBES.append(Probe(name, run, revisions, transports, needs, alone))
        return run

    return register
