"""The entry point of the tester: check a server or a client against the specification.

    report = await check("http://127.0.0.1:8000/mcp")
    report.exit_status()

`taskmachine check` and the pytest plugin come here, too.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, get_args

import attrs

from taskmachine.adapters.conformance.errors import CannotCheck
from taskmachine.adapters.conformance.target import Revision, Target, split_command

if TYPE_CHECKING:  # Imported when `check` is called: these modules need the extra `check`.
    from taskmachine.adapters.conformance.catalogue import Requirement
    from taskmachine.adapters.conformance.report import Report
    from taskmachine.adapters.conformance.run import Options

__all__ = ["Generation", "check", "check_client", "revisions_of"]

Generation = Literal["auto", "both", "2025-11-25", "2026-07-28"]
"""A revision; `both`; or `auto`: every revision that the target supports."""


async def check(
    target: str | Target,
    *,
    generation: Generation = "auto",
    options: "Options | None" = None,
    known: Iterable[str] = (),
    on_progress: Callable[[str], None] = lambda _: None,
) -> "Report":
    """Check a server: discover its tools, probe, explore, and judge everything it sent.

    `target` is a URL, or a command that starts a server on stdio; a `Target` also carries headers
    and bearer tokens. Failures whose ids are `known` appear in the report and do not affect the
    exit status. `on_progress` receives a short text at the start of each step.

    Raise CannotCheck if the server cannot be reached or does not support the generation.
    """
    _require_extra()
    from taskmachine.adapters.conformance.catalogue import requirements_of_servers
    from taskmachine.adapters.conformance.report import Report
    from taskmachine.adapters.conformance.run import run_server

    target = Target.at(target) if isinstance(target, str) else target
    options = _valid(options, requirements_of_servers)
    deadline = time.monotonic() + options.budget_s
    revisions = await _spoken(target, generation)
    least = options.budget_s / 2 / len(revisions)
    runs = []
    for done, revision in enumerate(revisions):  # the next revision inherits unused time
        left = (deadline - time.monotonic()) / (len(revisions) - done)
        share = attrs.evolve(options, budget_s=max(left, least))
        runs.append(await run_server(target, revision, share, on_progress=on_progress))
    return Report(target.address, options.seed, runs, frozenset(known))


async def check_client(
    command: str,
    *,
    generation: Generation = "auto",
    options: "Options | None" = None,
    known: Iterable[str] = (),
    on_progress: Callable[[str], None] = lambda _: None,
) -> "Report":
    """Check a client: run the command against a scripted server, once for each scenario.

    In the command `{url}` stands for the server's URL, and `{server}` for a command that starts the
    server on stdio. Raise CannotCheck if the command cannot be started.
    """
    _require_extra()
    from taskmachine.adapters.conformance.clients.catalogue import requirements_of_clients
    from taskmachine.adapters.conformance.clients.run import run_client
    from taskmachine.adapters.conformance.report import Report

    split_command(command)
    options, revisions = _valid(options, requirements_of_clients), revisions_of(generation)
    share = attrs.evolve(options, budget_s=options.budget_s / len(revisions))
    runs = [
        await run_client(command, revision, share, on_progress=on_progress)
        for revision in revisions
    ]
    return Report(command, options.seed, runs, frozenset(known))


def revisions_of(generation: Generation) -> list[Revision]:
    """Return the revisions that a generation stands for, before the target is contacted."""
    every: tuple[Revision, ...] = get_args(Revision)
    return [revision for revision in every if generation in ("auto", "both", revision)]


def _require_extra() -> None:
    for package in ("httpx", "hypothesis", "jsonschema_rs"):
        if find_spec(package) is None:
            raise CannotCheck(f"{package} is not installed: pip install 'taskmachine[check]'")


def _valid(
    options: "Options | None", catalogue: "Callable[[str], Mapping[str, Requirement]]"
) -> "Options":
    from taskmachine.adapters.conformance.run import Options

    options = Options() if options is None else options
    known = {id for revision in revisions_of("both") for id in catalogue(revision)}
    for id in sorted(options.only | options.skip):
        if id not in known:
            raise CannotCheck(f"unknown requirement {id!r}; see --list")
    return options


async def _spoken(target: Target, generation: Generation) -> list[Revision]:
    from taskmachine.adapters.conformance.run import handshake_error

    wanted = revisions_of(generation)
    answers = await asyncio.gather(*(handshake_error(target, revision) for revision in wanted))
    refusals = dict(zip(wanted, answers, strict=True))
    spoken = [revision for revision, why in refusals.items() if why is None]
    if not spoken or (generation == "both" and len(spoken) < len(refusals)):
        said = "; ".join(f"{revision}: {why}" for revision, why in refusals.items() if why)
        if not spoken and len(set(refusals.values())) == 1:
            said = str(answers[0])
        raise CannotCheck(f"cannot connect to the target ({said})")
    return spoken
