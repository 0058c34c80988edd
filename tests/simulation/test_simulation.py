"""Simulated worlds with faults keep all guarantees."""

import os
import subprocess
import sys
import time
from collections import Counter
from typing import Final

import attrs
import pytest

from tests.oracle import REPOSITORY
from tests.simulation.world import Report, simulate

SEEDS: Final = 300
CHUNKS: Final = 10
SPEED_UP: Final = 200

# A batch without one of these proves too little.
REQUIRED: Final = (
    "answers", "clock jumps", "conflicts", "crashes", "crashes after a commit", "ended: cancelled",
    "ended: error", "ended: expired", "ended: result", "ended: timed_out", "ended: worker_lost",
    "expiries", "lost notices", "lost workers", "outages", "parks", "pauses",
    "purges", "recorded steps", "refusals", "requeues", "retries", "sleeps", "slow operations",
    "stops",
    "writes in doubt",
)  # fmt: skip


@attrs.define
class Batch:
    """The figures of all chunks together."""

    counts: Counter[str] = attrs.field(factory=Counter)
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    seeds: int = 0


BATCH: Final = Batch()


def run(seed: int) -> Report:
    report = simulate(seed)
    assert not report.wrong, f"python -m tests.simulation --seeds 1 --first {seed}\n" + "\n".join(
        report.wrong
    )
    return report


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_guarantees_hold_in_every_world(chunk: int) -> None:
    began = time.process_time()
    for seed in range(chunk * SEEDS // CHUNKS, (chunk + 1) * SEEDS // CHUNKS):
        report = run(seed)
        BATCH.counts += report.counts
        BATCH.virtual_s += report.virtual_s
        BATCH.seeds += 1
    BATCH.cpu_s += time.process_time() - began


def test_every_fault_occurs_and_virtual_time_is_fast() -> None:
    """Needs the figures of all chunks from this process."""
    if BATCH.seeds < SEEDS:
        pytest.skip("needs the other tests of this module in the same process")
    speed_up = BATCH.virtual_s / BATCH.cpu_s
    print(f"\n{BATCH.seeds} seeds, {BATCH.virtual_s / 3_600:.1f} virtual hours: x {speed_up:.0f}")
    print(*(f"{times:8,} {what}" for what, times in sorted(BATCH.counts.items())), sep="\n")
    missing = [what for what in REQUIRED if not BATCH.counts[what]]
    assert not missing, f"never happened in {SEEDS} worlds: {missing}"
    assert not BATCH.counts["processes that gave up"], "a process waits for a failing store"
    assert speed_up >= SPEED_UP


@pytest.mark.parametrize("seed", [4, 7])
def test_a_seed_determines_the_history(seed: int) -> None:
    again = [run(seed).digest for _ in range(2)]
    code = f"from tests.simulation.world import simulate; print(simulate({seed}).digest)"
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
        )
        again.append(done.stdout.strip())
    assert len(set(again)) == 1, again
