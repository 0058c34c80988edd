"""Run `taskmachine check` with parsed arguments."""

import argparse
import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import attrs
from rich.console import Console

from taskmachine.adapters.conformance import profile_files
from taskmachine.adapters.conformance.catalogue import requirements_of_servers
from taskmachine.adapters.conformance.checking import check, check_client, revisions_of
from taskmachine.adapters.conformance.errors import CannotCheck
from taskmachine.adapters.conformance.exploration.replaying import (
    Replay,
    read_replay,
    replay,
    write_replays,
)
from taskmachine.adapters.conformance.judging import Verdict
from taskmachine.adapters.conformance.profile import Profile
from taskmachine.adapters.conformance.report import Report
from taskmachine.adapters.conformance.reports import html, json_report, junit, terminal
from taskmachine.adapters.conformance.run import Options
from taskmachine.adapters.conformance.target import Target

__all__ = ["check_named", "run", "wanted_ids"]

FORMATS: Final[Mapping[str, Callable[[Report], str]]] = {
    "json": json_report.render,
    "junit": junit.render,
    "html": html.render,
}


def run(options: argparse.Namespace, console: Console) -> int:
    """Check the target, show and write the reports, and return the exit status."""
    if options.list:
        terminal.list_requirements(console, revisions_of(options.generation))
        return 0
    if options.replay:
        return _replay(options, console)
    with terminal.progress(console) as on_progress:
        report = check_named(options, on_progress)
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


def check_named(options: argparse.Namespace, on_progress: Callable[[str], None]) -> Report:
    """Check the target that the options name.

    Raise CannotCheck if the options are contradictory or the target cannot be reached.
    """
    if bool(options.server) is bool(options.client):
        raise CannotCheck("specify exactly one target: SERVER or --client COMMAND")
    how = {
        "generation": options.generation,
        "options": _options(options),
        "known": _baseline(options.baseline),
        "on_progress": on_progress,
    }
    if options.client:
        return asyncio.run(check_client(options.client, **how))
    return asyncio.run(check(_target(options), **how))


def wanted_ids(options: argparse.Namespace) -> list[str]:
    """Return the ids that get a verdict if the target supports the selected revisions."""
    ids = {id: None for r in revisions_of(options.generation) for id in requirements_of_servers(r)}
    return sorted(_options(options).wanted(list(ids)), key=list(ids).index)


def _target(options: argparse.Namespace) -> Target:
    headers = {}
    for header in options.header:
        name, separator, value = header.partition(":")
        if not separator or not name.strip():
            raise CannotCheck(f"--header {header!r} must have the form 'Name: value'")
        headers[name.strip()] = value.strip()
    if len(options.bearer) > 2:
        raise CannotCheck("--bearer may be given at most twice")
    if not options.server:
        raise CannotCheck("--replay needs SERVER")
    target = Target.at(options.server)
    if target.url is None and (headers or options.bearer):
        raise CannotCheck("--header and --bearer require a URL; stdio has no HTTP headers")
    return attrs.evolve(target, headers=headers, tokens=tuple(options.bearer))


def _options(options: argparse.Namespace) -> Options:
    given = Profile() if options.profile is None else profile_files.load(options.profile)
    return Options(
        budget_s=options.budget,
        seed=options.seed,
        examples=options.examples,
        only=frozenset(options.only),
        skip=frozenset(options.skip),
        profile=given,
        tools=tuple(profile_files.read_call(text) for text in options.tool),
        allow_destructive=options.allow_destructive,
    )


def _baseline(path: Path | None) -> frozenset[str]:
    """Read the known ids, one per line; `#` starts a comment."""
    if path is None:
        return frozenset()
    lines = (line.partition("#")[0].strip() for line in _read(path).splitlines())
    return frozenset(line for line in lines if line)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CannotCheck(f"cannot read {path}: {error}") from None


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise CannotCheck(f"cannot write {path}: {error}") from None


def _replay(options: argparse.Namespace, console: Console) -> int:
    """Repeat a replay, and return 1 if the requirement is still violated."""
    again: Replay = read_replay(_read(options.replay))
    finding = asyncio.run(replay(_target(options), again, _options(options)))
    terminal.show_finding(finding, console)
    return 1 if finding.verdict is Verdict.FAIL else 0
