"""Keep a run for the page: `python -m tests.site.measured FILE`, which `bench --json` wrote.

Then `python -m tests.update_docs`.  The rounds are left out: their medians are what is shown.
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
