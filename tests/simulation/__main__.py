"""Many simulated worlds: `python -m tests.simulation --seeds 20000`.  Exits 1 on a violation."""

import argparse
import sys
import time
from collections import Counter

from tests.simulation.world import simulate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20_000, help="how many worlds")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first one")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    virtual_s, failures, began = 0.0, 0, time.perf_counter()
    for seed in range(options.first, options.first + options.seeds):
        report = simulate(seed)
        counts += report.counts
        virtual_s += report.virtual_s
        if report.wrong:
            failures += 1
            print(f"seed {seed}:", *report.wrong, sep="\n  ")
            print(f"  again: python -m tests.simulation --seeds 1 --first {seed}", flush=True)
    real_s = time.perf_counter() - began
    for what, times in sorted(counts.items()):
        print(f"{times:10,} {what}")
    print(
        f"{options.seeds:,} seeds, {failures} failed, {virtual_s / 3_600:,.1f} virtual hours"
        f" in {real_s:,.0f} s: {virtual_s / real_s:,.0f} times as fast"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
