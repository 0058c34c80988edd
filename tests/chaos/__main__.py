"""A fleet under fire, in one command: `python -m tests.chaos --tasks 20000 --minutes 30`."""

import argparse
import asyncio
import logging
import secrets
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.chaos.campaign import Plan, Report, campaign
from tests.chaos.judge import verdict
from tests.chaos.transcript import transcript

__all__ = ["figures", "main"]


def main() -> int:
    """Return 0 if there was no violation, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--tasks", type=int, default=20_000, help="at most")
    parser.add_argument("--minutes", type=float, default=30.0, help="at most")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--workers", type=int, default=5)
    parser.add_argument(
        "--engine", choices=("procrastinate", "local"), default="procrastinate",
        help="local: replicas do the work themselves",
    )  # fmt: skip
    options = parser.parse_args()
    plan = Plan(
        options.tasks, options.minutes * 60, options.seed, options.replicas, options.workers,
        options.engine,
    )  # fmt: skip
    print(
        f"python -m tests.chaos --tasks {plan.tasks} --minutes {options.minutes:g}"
        f" --seed {plan.seed} --replicas {plan.replicas} --workers {plan.workers}"
        f" --engine {plan.engine}",
        flush=True,
    )
    logging.getLogger("psycopg.pool").setLevel(logging.ERROR)  # broken connections are expected
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    report = asyncio.run(campaign(plan, folder))
    wrong = verdict(report.evidence)
    print(figures(report, wrong))
    if wrong:
        print(*wrong[:100], sep="\n")
        (folder / "transcript.txt").write_text(transcript(report.evidence, wrong))
        print(f"{len(wrong)} violations; the logs and a transcript of these tasks are in {folder}")
    else:
        shutil.rmtree(folder)
    return 1 if wrong else 0


def figures(report: Report, wrong: list[str]) -> str:
    """Return the counts of a run: faults, calls, tasks, violations."""
    evidence = report.evidence
    ends = Counter(str(t.outcome.cause) if t.outcome else "live" for t in evidence.tasks.values())
    losses = sum(task.losses for task in evidence.tasks.values())
    begun = sum(line.what == "begin" for line in evidence.log_lines)
    sections = {
        "faults": report.faults,
        "callers": evidence.counts,
        "tasks": Counter(
            {
                "stored": len(evidence.tasks),
                "acknowledged": len({made.task_id for made in evidence.made}),
                **{f"  ended by {cause}": number for cause, number in sorted(ends.items())},
                "claims lost with their worker": losses,
                "runs of tools": begun,
                "failed attempts that were repeated": sum(
                    task.failures for task in evidence.tasks.values()
                ),
                "recorded steps and sleeps": sum(task.recorded for task in evidence.tasks.values()),
                "calls of steps": sum(line.what == "called" for line in evidence.log_lines),
                "  known to be recorded": sum(
                    line.what == "recorded" for line in evidence.log_lines
                ),
            }
        ),
        "judged": Counter(
            {
                "observations": len(evidence.observations),
                "calls": len(evidence.spans),
                "lines of history": sum(map(len, evidence.entries.values())),
                "streams": len(evidence.channels),
                "violations": len(wrong),
            }
        ),
    }
    lines = [f"{report.took_s:.0f} s, settled {report.settled_s:.1f} s after the last fault"]
    for title, counts in sections.items():
        lines.append(title)
        lines += [f"{number:9} {name}" for name, number in counts.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
