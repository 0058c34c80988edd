"""The tester against servers with bugs: one run, and many at a time."""

import asyncio
import fcntl
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
from tests.conformance.forks import forking
from tests.conformance.planted import all_bugs, planted
from tests.conformance.proxy.between import Witness, witnessed
from tests.conformance.survey import Survey, meet, survey
from tests.conformance.variations import VARIATIONS

__all__ = ["Job", "Outcome", "Pool", "jobs", "pool", "run", "variation_jobs"]

AT_ONCE: Final = 6
"""Runs at a time: most of each is waiting, so there are more than processors."""

GLANCES: Final = (2, 8)
"""Probes for each thing that a bug breaks; if the first do not show it, the second."""

OPTIONS: Final = Options(budget_s=180, examples=1)
"""Every bug is meant to be found by the probes; exploration is tested by itself."""

BAD: Final = (Verdict.FAIL, Verdict.WARNING)


@attrs.frozen
class Job:
    """A bug or a variation, and how it is met."""

    name: str
    revision: Revision
    transport: str

    @property
    def breaks(self) -> frozenset[str]:
        """What the bug breaks, as far as it is judged there."""
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
    """What a run found."""

    job: Job
    found: Mapping[str, str]
    """By the id of the requirement: what was seen."""
    undecided: frozenset[str]
    took_s: float
    stopped: str | None
    witnessed: str
    """What must not happen, and did: see `Witness`."""

    @property
    def missed(self) -> list[str]:
        """What the bug breaks, and nobody noticed."""
        return sorted(self.job.breaks - self.found.keys())

    @property
    def complaints(self) -> list[str]:
        """Where the tester was wrong; or the bug itself."""
        expected = planted(self.job.name)
        return [
            *(f"{id} was not found" for id in self.missed),
            *(
                f"{id} was found, too: {words}"
                for id, words in self.found.items()
                if id not in expected.breaks | expected.also
            ),
            *filter(None, [self.witnessed]),
        ]


# --- which ones ------------------------------------------------------------------------------


def jobs(*, full: bool = False) -> list[Job]:
    """All bugs in each of their revisions; over both transports, or over one of them."""
    return [
        Job(bug.name, cast(Revision, revision), transport)
        for bug in all_bugs().values()
        for revision in bug.revisions
        for transport in (bug.transports if full else [_one_of(bug.transports, bug.name)])
    ]


def variation_jobs(*, full: bool = False) -> list[Job]:
    """All variations; each needs everything, so unless it is full there is one run of each."""
    return [
        Job(one.name, cast(Revision, revision), transport)
        for one in VARIATIONS.values()
        for revision in (one.revisions if full else [_one_of(one.revisions, one.name[::-1])])
        for transport in (one.transports if full else [_one_of(one.transports, one.name)])
    ]


def _one_of(transports: Sequence[str], name: str) -> str:
    """Always the same for a name."""
    return transports[zlib.crc32(name.encode()) % len(transports)]


# --- one run ---------------------------------------------------------------------------------


@attrs.frozen
class Place:
    """Where runs leave what they need of each other."""

    folder: Path
    command: Sequence[str]
    """How `forking` begins."""

    @asynccontextmanager
    async def target(self, name: str, transport: str, witness: Witness) -> AsyncIterator[Target]:
        """A server with that bug."""
        if transport == "stdio":
            yield Target(command=[*self.command, name, str(witness.path)])
            return
        bug = planted(name).make()
        async with serving(bug, witness) as url:
            yield Target(url, tokens=() if bug.is_open else TOKENS)


async def run(name: str, revision: Revision, transport: str, place: Place, witness: Witness) -> Run:
    """What the tester says of a server with that bug."""
    async with place.target(name, transport, witness) as target:
        return await run_server(target, revision, OPTIONS)


def _glance(job: Job, place: Place, witness: Witness, most: int) -> Sequence[Finding]:
    """What is found by so many probes for each thing that the bug breaks."""
    known = _surveyed(job.revision, job.transport, place)
    probes = known.probes_for(job.breaks, planted(job.name).theme, most)

    async def look() -> Sequence[Finding]:
        async with place.target(job.name, job.transport, witness) as target:
            return await meet(target, job.revision, known.profile, probes)

    return asyncio.run(look())


def _surveyed(revision: Revision, transport: str, place: Place) -> Survey:
    """Whoever comes first makes it, the others wait for it."""
    file = place.folder / f"survey-{revision}-{transport}"

    async def make() -> Survey:
        witness = Witness(file.with_suffix(".witness"))
        async with place.target(CORRECT, transport, witness) as target:
            return await survey(target, revision)

    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            file.write_bytes(pickle.dumps(asyncio.run(make())))
    found: Survey = pickle.loads(file.read_bytes())
    return found


def _run(job: Job, place: Place, is_full: bool) -> Outcome:
    """What is wrong is wrong twice: a busy machine makes answers late that are not."""
    outcome = _try(job, place, is_full)
    return _try(job, place, is_full) if outcome.complaints else outcome


def _try(job: Job, place: Place, is_full: bool) -> Outcome:
    witness = Witness(place.folder / f"{job}-{os.getpid()}-{time.monotonic_ns()}")
    began = time.monotonic()

    def told(findings: Sequence[Finding], stopped: str | None = None) -> Outcome:
        for finding in findings:
            if CHECK_ERROR in finding.words:
                witness.tell(f"{finding.id}: {finding.words}")
        return Outcome(
            job,
            {f.id: _shown(f) for f in findings if f.verdict in BAD},
            frozenset(f.id for f in findings if f.verdict is Verdict.INCONCLUSIVE),
            time.monotonic() - began,
            stopped,
            witness.told(),
        )

    try:
        with witnessed(witness):
            for most in () if is_full or not job.breaks else GLANCES:
                outcome = told(_glance(job, place, witness, most))
                if not outcome.missed:
                    return outcome
            done = asyncio.run(run(job.name, job.revision, job.transport, place, witness))
            return told(done.findings, done.stopped)
    except Exception:  # noqa: BLE001, whatever a probe does: the other runs go on
        witness.tell(traceback.format_exc())
        return told(())


def _shown(finding: Finding) -> str:
    lines = [f"{finding.verdict}: {finding.words}", *map(_line, finding.transcript)]
    return "\n      ".join(lines)


def _line(entry: Entry) -> str:
    said: Any = entry.text if entry.message is MISSING else entry.message
    http = entry.http
    where = "" if http is None else f" {http.method}{http.status or ''}"
    return f"{entry.at:8.1f} {entry.kind}{where} {str(said)[:600]}"


# --- many ------------------------------------------------------------------------------------


@attrs.frozen
class Pool:
    """Processes that run jobs."""

    _executor: ProcessPoolExecutor
    _place: Place
    _is_full: bool
    _running: dict[Job, "Future[Outcome]"] = attrs.field(factory=dict)

    def begin(self, job: Job) -> "Future[Outcome]":
        """Each job is run once."""
        if job not in self._running:
            self._running[job] = self._executor.submit(_run, job, self._place, self._is_full)
        return self._running[job]


@contextmanager
def pool(at_once: int = AT_ONCE, *, full: bool = False) -> Iterator[Pool]:
    """Until the end of the block; what was not begun by then never is.

    A full run tries everything.  Else a bug is met with the probes for what it breaks, and with
    all only if these do not find it.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        command = stack.enter_context(forking(folder))
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        executor = ProcessPoolExecutor(at_once, context)
        stack.callback(executor.shutdown, cancel_futures=True)
        yield Pool(executor, Place(folder, command), full)
