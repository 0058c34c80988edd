"""The server under the official conformance suite, in both revisions."""

import json
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import attrs

from tests.peers.installed import node_folder

__all__ = ["NOTHING_TO_CHECK", "NOT_APPLICABLE", "Run", "Suite", "Verdict", "table"]

REVISIONS: Final = ("2025-11-25", "2026-07-28")

NOT_APPLICABLE: Final[Mapping[str, str]] = {
    "completion-complete": "no completion",
    "logging-set-level": "no logging",
    "tools-call-with-logging": "no logging",
    "resources-list": "no resources",
    "resources-read-text": "no resources",
    "resources-read-binary": "no resources",
    "resources-templates-read": "no resources",
    "resources-subscribe": "no resources",
    "resources-unsubscribe": "no resources",
    "sep-2164-resource-not-found": "no resources",
    "sep-2640-skills-directory": "no resources, and so no skills",
    "sep-2640-skills-enumeration": "no resources, and so no skills",
    "sep-2640-skills-manifest": "no resources, and so no skills",
    "prompts-list": "no prompts",
    "prompts-get-simple": "no prompts",
    "prompts-get-with-args": "no prompts",
    "prompts-get-embedded-resource": "no prompts",
    "prompts-get-with-image": "no prompts",
    "input-required-result-non-tool-request": "no prompts",
}
"""Scenarios for features that a server of tools and tasks neither has nor declares."""

NOT_APPLICABLE_CHECKS: Final[Mapping[tuple[str, str], str]] = {
    ("caching", "sep-2549-prompts-list-caching-hints"): "no prompts",
    ("caching", "sep-2549-resources-list-caching-hints"): "no resources",
    ("caching", "sep-2549-resources-templates-list-caching-hints"): "no resources",
}
"""Likewise for single checks, which the suite fails without looking at the capabilities."""

NOTHING_TO_CHECK: Final[Mapping[str, str]] = {
    "tasks-status-notifications": "the suite skips its only check until it is rewritten",
}
"""Scenarios that run although they cannot pass."""

_AT_ONCE: Final = 4
_PATIENCE_S: Final = 120


@attrs.frozen
class Run:
    """One scenario in one revision; extensions have none and use the latest."""

    scenario: str
    revision: str | None


@attrs.frozen
class Verdict:
    """The verdict of the suite."""

    run: Run
    checks: Sequence[Mapping[str, Any]]
    trouble: str = ""
    """The reason why there are no checks."""

    def count(self, status: str) -> int:
        return sum(check["status"] == status for check in self.checks)

    @property
    def wrong(self) -> list[str]:
        """The failures; a run without checks is also one."""
        found = [
            f"{check['id']}: {check.get('errorMessage', check['description'])}"
            for check in self.checks
            if check["status"] == "FAILURE"
        ]
        if self.trouble:
            found.append(self.trouble)
        elif not self.count("SUCCESS") and not found and self.run.scenario not in NOTHING_TO_CHECK:
            found.append("nothing was checked")
        return found


class Suite:
    """The installed suite."""

    def __init__(self) -> None:
        modules = node_folder("suite") / "node_modules"
        program = modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
        self._command = [str(modules / ".bin" / "node"), str(program)]

    def runs(self) -> list[Run]:
        """Return every scenario for servers, in each of our revisions that it supports."""
        listed = self._call("list", "--server").stdout
        found = []
        for name, versions in re.findall(r"^  - (\S+) \[(.+)\]$", listed, re.MULTILINE):
            if versions == "extension":
                found.append(Run(name, None))
            found += [Run(name, revision) for revision in REVISIONS if revision in versions]
        assert found, f"no scenarios in: {listed}"
        return found

    def judge(self, url: str, runs: Iterable[Run]) -> list[Verdict]:
        """Return the verdicts on a server.

        Each revision is one process, as starting one takes a second; extensions have to be named.
        """
        wanted = list(runs)
        revisions = [r for r in REVISIONS if any(run.revision == r for run in wanted)]
        jobs = [["--scenario", run.scenario] for run in wanted if run.revision is None]
        jobs += [["--suite", "all", "--spec-version", revision] for revision in revisions]
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(_AT_ONCE) as pool:
            places = [Path(folder) / str(number) for number in range(len(jobs))]
            said = list(pool.map(lambda job, place: self._run(url, job, place), jobs, places))
            found: dict[Run, list[Verdict]] = {}
            for job, place in zip(jobs, places, strict=True):
                revision = job[-1] if job[0] == "--suite" else None
                for verdict in _reports(place, revision):
                    found.setdefault(verdict.run, []).append(verdict)
        missing = "no report; " + "; ".join(filter(None, said))
        return [
            found[run][0] if len(found.get(run, ())) == 1 else Verdict(run, [], missing)
            for run in wanted
        ]

    def _run(self, url: str, job: Sequence[str], place: Path) -> str:
        try:
            done = self._call("server", "--url", url, "-o", str(place), *job)
        except subprocess.TimeoutExpired:
            return f"{' '.join(job)} took more than {_PATIENCE_S} s"
        return done.stderr[-500:].strip()

    def _call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, *arguments],
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )


def _reports(place: Path, revision: str | None) -> Iterator[Verdict]:
    for path in sorted(place.glob("server-*/checks.json")):
        name = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", path.parent.name).removeprefix("server-")
        checks = [
            check
            for check in json.loads(path.read_text())
            if (name, check["id"]) not in NOT_APPLICABLE_CHECKS
        ]
        yield Verdict(Run(name, revision), checks)


def table(verdicts: Sequence[Verdict]) -> str:
    """Format the verdicts, one line per run, with failures below it."""
    statuses = ("SUCCESS", "FAILURE", "WARNING", "SKIPPED")
    lines = [f"{'scenario':47} {'revision':11} {'passed':>6} {'failed':>6} {'warned':>6} skipped"]
    for verdict in verdicts:
        passed, failed, warned, skipped = map(verdict.count, statuses)
        name, revision = verdict.run.scenario, verdict.run.revision or "extension"
        lines.append(f"{name:47} {revision:11} {passed:6} {failed:6} {warned:6} {skipped:7}")
        lines += [f"    wrong: {words}" for words in verdict.wrong]
        lines += [
            f"    warning: {check['id']}: {check.get('errorMessage', '')}"
            for check in verdict.checks
            if check["status"] == "WARNING"
        ]
    sums = [sum(verdict.count(status) for verdict in verdicts) for status in statuses]
    lines.append(f"{f'{len(verdicts)} runs':59} {sums[0]:6} {sums[1]:6} {sums[2]:6} {sums[3]:7}")
    return "\n".join(lines)
