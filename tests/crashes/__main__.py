"""Many kills, in one command: `python -m tests.crashes --kills 1000`."""

import argparse
import asyncio
import secrets
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from tests.crashes.campaign import Figures, campaign
from tests.crashes.verdict import verdict

ON_ONE_FILE: Final = 100
"""Kills per store file; then a new file, so that later kills do not take longer."""


def main() -> int:
    """Return 0 if there was no violation, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.crashes", description=__doc__)
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    options = parser.parse_args()
    repeat = f"python -m tests.crashes --kills {options.kills} --seed {options.seed}"
    print(repeat, flush=True)
    began, figures, sums = time.monotonic(), Figures(), Counter[str]()
    folder = Path(tempfile.mkdtemp(prefix="crashes-"))
    for number, start in enumerate(range(0, options.kills, ON_ONE_FILE)):
        kills = min(ON_ONE_FILE, options.kills - start)
        place = folder / str(number)
        place.mkdir()
        evidence = asyncio.run(campaign(place, kills, options.seed + number, figures))
        if wrong := verdict(evidence):
            print(*wrong, sep="\n")
            print(f"{len(wrong)} violations; the file is in {place}; to repeat: {repeat}")
            return 1
        for path in place.iterdir():
            path.unlink()
        place.rmdir()
        sums["acknowledged creates"] += len(evidence.made)
        sums["accepted answers"] += len(evidence.answered)
        steps = {(step.task_id, step.key) for step in evidence.stepped}
        sums["steps"] += len(steps)
        sums["calls of steps that a kill left without a record"] += len(evidence.stepped) - len(
            steps
        )
        sums["recorded steps"] += len(evidence.kept)
        sums["failed attempts"] += sum(task.failures for task in evidence.tasks.values())
        sums["tasks"] += len(evidence.tasks)
        sums["observed versions"] += len(evidence.observations)
        sums["lost workers"] += sum(task.losses for task in evidence.tasks.values())
        for task in evidence.tasks.values():
            sums[f"  {task.outcome.cause if task.outcome else 'open question'}"] += 1
        print(f"{figures.kills} kills, {time.monotonic() - began:.0f} s", flush=True)
    folder.rmdir()
    print(figures)
    print(*(f"{count:8} {name}" for name, count in sums.items()), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
