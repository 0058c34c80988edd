"""Run the tester against servers with bugs, many at a time."""

import asyncio
import fcntl
import hashlib
import multiprocessing
import os
import pickle
import tempfile
import time
import traceback
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import attrs

from taskmachine.adapters.conformance.catalogue import requirements_of_servers
from taskmachine.adapters.conformance.history import MISSING, Entry
from taskmachine.adapters.conformance.judging import Verdict
from taskmachine.adapters.conformance.report import CHECK_ERROR, Finding, Run
from taskmachine.adapters.conformance.run import Options, run_server
from taskmachine.adapters.conformance.target import Revision, Target
from tests.conformance.broken_server import CORRECT, TOKENS, serving
from tests.conformance.planted import all_bugs, planted
from tests.conformance.prefork import prefork_server
from tests.conformance.probe_selection import Coverage, measure_coverage, run_probes
from tests.conformance.proxy.between import ErrorLog, recording_errors
from tests.conformance.variations import VARIATIONS
from tests.oracle import REPOSITORY

__all__ = ["Job", "Outcome", "Pool", "jobs", "pool", "run", "variation_jobs"]

CONCURRENCY: Final = 6
"""Runs at a time, more than processors because a run mostly waits."""

PROBE_COUNTS: Final = (2, 8)
"""Probes for each broken requirement; the second number if the first does not show the bug."""

OPTIONS: Final = Options(budget_s=180, examples=1)
"""The probes must find every bug; exploration has tests of its own."""

SURVEYS: Final = REPOSITORY / ".pytest_cache" / "coverage-of-probes"
"""What each probe exercises, by a digest of the code."""

BAD: Final = (Verdict.FAIL, Verdict.WARNING)


@attrs.frozen
class Job:
    """A bug or variation with a revision and a transport."""

    name: str
    revision: Revision
    transport: str

    @property
    def breaks(self) -> frozenset[str]:
        """The requirements that the bug breaks in this revision over this transport."""
        requirements = requirements_of_servers(self.revision)
        return frozenset(
            id
            for id in planted(self.name).breaks
            if id in requirements and self.transport in requirements[id].transports
        )

    def __str__(self) -> str:
        return f"{self.name}-{self.revision}-{self.transport}"


@attrs.frozen
class Outcome:
    """The findings of a run."""

    job: Job
    found: Mapping[str, str]
    """Verdict and transcript, by the id of the requirement."""
    undecided: frozenset[str]
    took_s: float
    stopped: str | None
    errors: str
    """The text of the `ErrorLog`."""

    @property
    def missed(self) -> list[str]:
        """The broken requirements that the tester did not find."""
        return sorted(self.job.breaks - self.found.keys())

    @property
    def complaints(self) -> list[str]:
        """The mistakes of the tester, or of the bug."""
        expected = planted(self.job.name)
        return [
            *(f"{id} was not reported" for id in self.missed),
            *(
                f"{id} was reported as well: {words}"
                for id, words in self.found.items()
                if id not in expected.breaks | expected.also
            ),
            *filter(None, [self.errors]),
        ]


# --- which ones ------------------------------------------------------------------------------


def jobs(*, full: bool = False) -> list[Job]:
    """Return all bugs in each of their revisions, over one of their transports unless `full`."""
    return [
        Job(bug.name, cast(Revision, revision), transport)
        for bug in all_bugs().values()
        for revision in bug.revisions
        for transport in (bug.transports if full else [_one_of(bug.transports, bug.name)])
    ]


def variation_jobs(*, full: bool = False) -> list[Job]:
    """Return all variations, which run all probes: one run of each unless `full`."""
    return [
        Job(one.name, cast(Revision, revision), transport)
        for one in VARIATIONS.values()
        for revision in (one.revisions if full else [_one_of(one.revisions, one.name[::-1])])
        for transport in (one.transports if full else [_one_of(one.transports, one.name)])
    ]


def _one_of(transports: Sequence[str], name: str) -> str:
    """Choose a transport; always the same for a name."""
    return transports[zlib.crc32(name.encode()) % len(transports)]


# --- one run ---------------------------------------------------------------------------------


@attrs.frozen
class Workspace:
    """The folder and the command that runs share."""

    folder: Path
    command: Sequence[str]
    """The beginning of the command from `prefork_server`."""

    @asynccontextmanager
    async def target(self, name: str, transport: str, errors: ErrorLog) -> AsyncIterator[Target]:
        """Serve with that bug."""
        if transport == "stdio":
            yield Target(command=[*self.command, name, str(errors.path)])
            return
        bug = planted(name).make()
        async with serving(bug, errors) as url:
            yield Target(url, tokens=() if bug.is_open else TOKENS)


async def run(job: Job, workspace: Workspace, errors: ErrorLog) -> Run:
    """Run the whole tester against a server with that bug."""
    async with workspace.target(job.name, job.transport, errors) as target:
        return await run_server(target, job.revision, OPTIONS)


def _run_selected(job: Job, workspace: Workspace, errors: ErrorLog, most: int) -> Sequence[Finding]:
    """Return the findings of so many probes for each broken requirement."""
    known = _coverage(job.revision, job.transport, workspace)
    probes = known.probes_for(job.breaks, planted(job.name).theme, most)

    async def find() -> Sequence[Finding]:
        async with workspace.target(job.name, job.transport, errors) as target:
            return await run_probes(target, job.revision, known.profile, probes)

    return asyncio.run(find())


@cache
def _digest() -> str:
    sources = [*REPOSITORY.glob("adapters/**/*.py"), *REPOSITORY.glob("protocol/**/*.py")]
    sources += [*Path(__file__).parent.glob("*.py"), *REPOSITORY.glob("specs/**/*.toml")]
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(sources))).hexdigest()[:16]


def _coverage(revision: Revision, transport: str, workspace: Workspace) -> Coverage:
    """Measure once for this code; other processes wait, later test runs reuse the file."""
    SURVEYS.mkdir(parents=True, exist_ok=True)
    file = SURVEYS / f"{_digest()}-{revision}-{transport}"

    async def make() -> Coverage:
        errors = ErrorLog(workspace.folder / file.name)
        async with workspace.target(CORRECT, transport, errors) as target:
            return await measure_coverage(target, revision)

    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            new = file.with_suffix(".new")
            new.write_bytes(pickle.dumps(asyncio.run(make())))
            new.replace(file)
    found: Coverage = pickle.loads(file.read_bytes())
    return found


def _run(job: Job, workspace: Workspace, is_full: bool) -> Outcome:
    """Run again after a complaint: on a busy machine, correct answers come late."""
    outcome = _try(job, workspace, is_full)
    return _try(job, workspace, is_full) if outcome.complaints else outcome


def _try(job: Job, workspace: Workspace, is_full: bool) -> Outcome:
    errors = ErrorLog(workspace.folder / f"{job}-{os.getpid()}-{time.monotonic_ns()}")
    began = time.monotonic()

    def outcome(findings: Sequence[Finding], stopped: str | None = None) -> Outcome:
        for finding in findings:
            if CHECK_ERROR in finding.words:
                errors.record(f"{finding.id}: {finding.words}")
        return Outcome(
            job,
            {f.id: _shown(f) for f in findings if f.verdict in BAD},
            frozenset(f.id for f in findings if f.verdict is Verdict.INCONCLUSIVE),
            time.monotonic() - began,
            stopped,
            errors.text(),
        )

    try:
        with recording_errors(errors):
            for most in () if is_full or not job.breaks else PROBE_COUNTS:
                result = outcome(_run_selected(job, workspace, errors, most))
                if not result.missed:
                    return result
            done = asyncio.run(run(job, workspace, errors))
            return outcome(done.findings, done.stopped)
    except Exception:  # noqa: BLE001, the other runs continue
        errors.record(traceback.format_exc())
        return outcome(())


def _shown(finding: Finding) -> str:
    lines = [f"{finding.verdict}: {finding.words}", *map(_line, finding.transcript)]
    return "\n      ".join(lines)


def _line(entry: Entry) -> str:
    content: Any = entry.text if entry.message is MISSING else entry.message
    http = entry.http
    where = "" if http is None else f" {http.method}{http.status or ''}"
    return f"{entry.at:8.1f} {entry.kind}{where} {str(content)[:600]}"


# --- many ------------------------------------------------------------------------------------


@attrs.frozen
class Pool:
    """Processes that run jobs."""

    _executor: ProcessPoolExecutor
    _workspace: Workspace
    _is_full: bool
    _running: dict[Job, "Future[Outcome]"] = attrs.field(factory=dict)

    def start(self, job: Job) -> "Future[Outcome]":
        """Run each job once."""
        if job not in self._running:
            self._running[job] = self._executor.submit(_run, job, self._workspace, self._is_full)
        return self._running[job]


@contextmanager
def pool(concurrency: int = CONCURRENCY, *, full: bool = False) -> Iterator[Pool]:
    """Open a pool; at the end of the block, jobs that have not started are dropped.

    A full run uses all probes.  Else a bug runs with the probes for the requirements that it
    breaks, and with all probes only if those do not find it.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        command = stack.enter_context(prefork_server(folder))
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        executor = ProcessPoolExecutor(concurrency, context)
        stack.callback(executor.shutdown, cancel_futures=True)
        yield Pool(executor, Workspace(folder, command), full)
