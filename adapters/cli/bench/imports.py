"""`import`: the cost of `import taskmachine.statemachine`, beside that of its dependencies."""

import statistics
import subprocess
import sys
import time
from typing import Final

from taskmachine.adapters.cli.bench.figures import Row, row_of
from taskmachine.adapters.cli.bench.workload import Workload

__all__ = ["CASE", "OURS", "measure_imports"]

CASE: Final = "in a new process"
OURS: Final = "taskmachine.statemachine"
PARTS: Final = "attrs, transitions"


def measure_imports(workload: Workload) -> list[Row]:
    """Subtract the median of a bare interpreter; the programs take turns."""
    programs = {"": "pass", OURS: f"import {OURS}", PARTS: f"import {PARTS}"}
    took: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(workload.imports + 1):  # the first one compiles bytecode
        for name, program in programs.items():
            took[name].append(_ms(program))
    bare = statistics.median(took[""][1:])
    return [
        row_of("import", name, "", CASE, [{"ms": max(ms - bare, 0.001)} for ms in took[name][1:]])
        for name in (OURS, PARTS)
    ]


def _ms(program: str) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True)
    return (time.perf_counter() - begun) * 1e3
