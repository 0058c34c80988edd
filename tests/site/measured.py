"""Keep a run for the page: `python -m tests.site.measured FILE`, written by `bench --json`.

Then run `python -m tests.update_docs`.  The page shows medians, so the rounds are left out.
"""

import sys
from pathlib import Path

import attrs

from taskmachine.adapters.cli.bench.figures import from_json, to_json
from tests.oracle import REPOSITORY

if __name__ == "__main__":
    report = from_json(Path(sys.argv[1]).read_bytes())
    rows = [attrs.evolve(row, rounds=[]) for row in report.rows]
    kept = to_json(attrs.evolve(report, rows=rows))
    (REPOSITORY / "docs" / "performance.json").write_bytes(kept + b"\n")
