"""What `taskmachine check` does, once its arguments are read."""

import argparse
import asyncio
import shlex
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, get_args

from rich.console import Console

from taskmachine.adapters.conformance import profile_files
from taskmachine.adapters.conformance.catalogue import load_checks, requirements_of_servers
from taskmachine.adapters.conformance.clients.run import check_client
from taskmachine.adapters.conformance.judging import Verdict
from taskmachine.adapters.conformance.lab import Revision, Target
from taskmachine.adapters.conformance.profile import Profile
from taskmachine.adapters.conformance.replaying import Replay, read_replay, replay, write_replays
from taskmachine.adapters.conformance.report import Report
from taskmachine.adapters.conformance.reports import html, json_report, junit, terminal
from taskmachine.adapters.conformance.run import Options, check_server, says_hello
from taskmachine.statemachine import ConfigurationError

__all__ = ["run"]

FORMATS: Final[Mapping[str, Callable[[Report], str]]] = {
    "json": json_report.render,
    "junit": junit.render,
    "html": html.render,
}
REVISIONS: Final[tuple[Revision, ...]] = get_args(Revision)


def run(options: argparse.Namespace, console: Console) -> int:
    """Check the target that the options name, show what came out; the status to leave with."""
    load_checks()
    if options.list:
        terminal.list_requirements(console, _revisions(options.generation))
        return 0
    if options.replay:
        return _replay(options, console)
    with terminal.progress(console) as tell:
        report = check(options, tell)
    terminal.show(report, console)
    for name, render in FORMATS.items():
        path = getattr(options, name)
        if path is not None:
            _write(path, render(report))
    if options.write_profile:
        _write(options.write_profile, profile_files.dump(report.runs))
    if options.replays:
        write_replays(report, options.replays)
    return report.exit_status(strict=options.strict)


def check(options: argparse.Namespace, tell: Callable[[str], None]) -> Report:
    """Check the target that the options name; ConfigurationError if that cannot be."""
    load_checks()
    _refuse_unknown(options.only + options.skip)
    if sum(map(bool, (options.url, options.stdio, options.client))) != 1:
        raise ConfigurationError("one target is needed: a URL, --stdio or --client")
    _options(options, options.budget)  # what is wrong with them is said before anybody is called
    known = _baseline(options.baseline)
    checking = _check_client if options.client else _check_server
    return asyncio.run(checking(options, known, tell))


def wanted_ids(options: argparse.Namespace) -> list[str]:
    """The requirements that there will be a verdict on, if the target speaks what is wanted."""
    ids = {id: None for r in _revisions(options.generation) for id in requirements_of_servers(r)}
    return sorted(_options(options, options.budget).wanted(list(ids)), key=list(ids).index)


# --- what is wanted ------------------------------------------------------------------------------


def _revisions(generation: str) -> list[Revision]:
    return [revision for revision in REVISIONS if generation in ("auto", "both", revision)]


def _refuse_unknown(ids: list[str]) -> None:
    known = {id for revision in REVISIONS for id in requirements_of_servers(revision)}
    for id in ids:
        if id not in known:
            raise ConfigurationError(f"there is no requirement {id!r}; --list shows all")


def _target(options: argparse.Namespace) -> Target:
    headers = {}
    for header in options.header:
        name, separator, value = header.partition(":")
        if not separator or not name.strip():
            raise ConfigurationError(f"--header {header!r} is not of the form 'Name: value'")
        headers[name.strip()] = value.strip()
    if len(options.bearer) > 2:
        raise ConfigurationError("--bearer can be given twice at most")
    if options.stdio:
        if headers or options.bearer:
            raise ConfigurationError("--header and --bearer are for HTTP")
        return Target(command=_words(options.stdio))
    return Target(options.url, headers=headers, tokens=tuple(options.bearer))


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigurationError(f"cannot read the command {command!r}: {error}") from None
    if not words:
        raise ConfigurationError("the command is empty")
    return words


def _options(options: argparse.Namespace, budget_s: float) -> Options:
    if options.examples < 0:
        raise ConfigurationError("--examples cannot be negative")
    given = Profile() if options.profile is None else profile_files.load(options.profile)
    return Options(
        budget_s=budget_s,
        seed=options.seed,
        examples=options.examples,
        only=frozenset(options.only),
        skip=frozenset(options.skip),
        profile=given,
        tools=tuple(profile_files.read_call(text) for text in options.tool),
        allow_destructive=options.allow_destructive,
    )


def _baseline(path: Path | None) -> frozenset[str]:
    """One id on each line; what follows # is a comment."""
    if path is None:
        return frozenset()
    lines = (line.partition("#")[0].strip() for line in _read(path).splitlines())
    return frozenset(line for line in lines if line)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read {path}: {error}") from None


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error}") from None


# --- what is done --------------------------------------------------------------------------------


async def _check_server(
    options: argparse.Namespace, known: frozenset[str], tell: Callable[[str], None]
) -> Report:
    target = _target(options)
    deadline = time.monotonic() + options.budget
    revisions = await _spoken(target, options.generation)
    least = options.budget / 2 / len(revisions)
    runs = []
    for done, revision in enumerate(revisions):  # what one does not need the next one can have
        left = (deadline - time.monotonic()) / (len(revisions) - done)
        given = _options(options, max(left, least))
        runs.append(await check_server(target, revision, given, tell=tell))
    return Report(options.url or options.stdio, options.seed, runs, known)


async def _spoken(target: Target, generation: str) -> list[Revision]:
    """The revisions to check; ConfigurationError if the target does not speak what is wanted."""
    wanted = _revisions(generation)
    answers = await asyncio.gather(*(says_hello(target, revision) for revision in wanted))
    refusals = dict(zip(wanted, answers, strict=True))
    spoken = [revision for revision, why in refusals.items() if why is None]
    if not spoken or (generation == "both" and len(spoken) < len(refusals)):
        said = "; ".join(f"{revision}: {why}" for revision, why in refusals.items() if why)
        raise ConfigurationError(f"the target cannot be talked to ({said})")
    return spoken


async def _check_client(
    options: argparse.Namespace, known: frozenset[str], tell: Callable[[str], None]
) -> Report:
    _words(options.client)
    revisions = _revisions(options.generation)
    given = _options(options, options.budget / len(revisions))
    runs = [
        await check_client(options.client, revision, given, tell=tell) for revision in revisions
    ]
    return Report(options.client, options.seed, runs, known)


def _replay(options: argparse.Namespace, console: Console) -> int:
    """1 if what the file shows is still so."""
    again: Replay = read_replay(_read(options.replay))
    finding = asyncio.run(replay(_target(options), again, _options(options, options.budget)))
    terminal.show_finding(finding, console)
    return 1 if finding.verdict is Verdict.FAIL else 0
