"""Run the tester against every server with a bug: `python -m tests.conformance`.

Each bug runs over one transport with the probes for the requirements that it breaks; with `--full`
over both transports with all probes.
"""

import argparse
import sys
from concurrent.futures import as_completed

from tests.conformance.runs import CONCURRENCY, Job, Outcome, jobs, pool, variation_jobs


def main() -> int:
    """Return 1 if the tester missed a bug or reported something else."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--full", action="store_true", help="both transports, all probes")
    parser.add_argument("--bug", metavar="NAME", action="append", help="a bug or a variation")
    parser.add_argument("--revision", choices=["2025-11-25", "2026-07-28"])
    parser.add_argument("--transport", choices=["stdio", "http"])
    parser.add_argument("--concurrency", metavar="N", type=int, default=CONCURRENCY)
    parser.add_argument("--undecided", action="store_true", help="list inconclusive requirements")
    given = parser.parse_args()
    is_full = given.full or given.transport is not None or given.revision is not None
    chosen = [
        job
        for job in [*variation_jobs(full=is_full), *jobs(full=is_full)]
        if (given.bug is None or job.name in given.bug)
        and given.revision in (None, job.revision)
        and given.transport in (None, job.transport)
    ]
    return _report(chosen, given.concurrency, given.full, given.undecided)


def _report(chosen: list[Job], concurrency: int, is_full: bool, shows_undecided: bool) -> int:
    wrong = 0
    with pool(concurrency, full=is_full) as running:
        for done in as_completed([running.start(job) for job in chosen]):
            outcome = done.result()
            wrong += bool(outcome.complaints)
            _print(outcome, shows_undecided)
    print(f"{len(chosen)} runs, {wrong} wrong")
    return 1 if wrong else 0


def _print(outcome: Outcome, shows_undecided: bool) -> None:
    verdict = "WRONG" if outcome.complaints else "right"
    print(f"{verdict} {outcome.took_s:5.1f} s  {outcome.job}", flush=True)
    if outcome.stopped is not None:
        print(f"    stopped: {outcome.stopped}")
    for complaint in outcome.complaints:
        print(f"    {complaint}")
    if shows_undecided:
        for id in sorted(outcome.undecided):
            print(f"    undecided: {id}")


if __name__ == "__main__":
    sys.exit(main())
