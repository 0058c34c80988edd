"""The fault tests at full size, with figures: `python -m tests.wire_faults --full`."""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.wire_faults.abuse import Report, abuse_http, abuse_stdio
from tests.wire_faults.kills import campaign
from tests.wire_faults.slow_readers import measure
from tests.wire_faults.store_outage import outage

GROWTH = 0.10


def main() -> int:
    """Return 0 if there was no violation, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.wire_faults", description=__doc__)
    parser.add_argument("--full", action="store_true", help="full size; default: a tenth")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    size = 1.0 if options.full else 0.1
    wrong: list[str] = []
    for title, run in {
        "garbage over HTTP": lambda f: _garbage(abuse_http(f, round(10_000 * size), options.seed)),
        "garbage over stdio": lambda f: _garbage(
            abuse_stdio(f, round(10_000 * size), options.seed)
        ),
        "slow readers": lambda f: _slow_readers(f, round(500 * size)),
        "kills, sessions": lambda f: _kills(f, round(200 * size), False, options.seed),
        "kills, tokens": lambda f: _kills(f, round(200 * size), True, options.seed),
        "full disk": lambda f: outage(f, 45 * size),
    }.items():
        wrong += _section(title, run)
    print(*wrong, sep="\n")
    return 1 if wrong else 0


def _section(title: str, run: Callable[[Path], list[str]]) -> list[str]:
    print(f"--- {title}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="wire-faults-") as folder:
        found = run(Path(folder))
    print(f"{len(found)} violations, {time.monotonic() - began:.1f} s", flush=True)
    return [f"{title}: {one}" for one in found]


def _garbage(report: Report) -> list[str]:
    print(f"{report.requests} sent: {dict(report.statuses.most_common())}")
    sizes = f"{report.warm_bytes / 1e6:.1f} MB -> {report.end_bytes / 1e6:.1f} MB"
    print(f"{sizes} ({report.growth:+.1%}) in {report.took_s:.1f} s")
    grown = [f"grew by {report.growth:.1%}"] if report.growth > GROWTH else []
    return [*report.wrong, *grown]


def _slow_readers(folder: Path, readers: int) -> list[str]:
    measured = measure(folder, readers)
    print(measured)
    return measured.complaints()


def _kills(folder: Path, tasks: int, with_token: bool, seed: int) -> list[str]:
    outcome = campaign(folder, tasks, kills=3, with_token=with_token, seed=seed)
    print(outcome)
    return outcome.wrong


if __name__ == "__main__":
    sys.exit(main())
