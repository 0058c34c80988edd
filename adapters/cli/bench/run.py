"""A whole run: all requested measures in sequence."""

import contextlib
import datetime
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from taskmachine.adapters.cli.bench.contestants import Contestant
from taskmachine.adapters.cli.bench.disk_commits import measure_disk
from taskmachine.adapters.cli.bench.figures import Report, Row
from taskmachine.adapters.cli.bench.growth import measure_growth
from taskmachine.adapters.cli.bench.imports import measure_imports
from taskmachine.adapters.cli.bench.loads import GET, PAYLOAD, TASK
from taskmachine.adapters.cli.bench.machine import described
from taskmachine.adapters.cli.bench.pipes import measure_start, measure_stdio
from taskmachine.adapters.cli.bench.processes import core_of_client, cores, on_core
from taskmachine.adapters.cli.bench.rounds import run_rounds
from taskmachine.adapters.cli.bench.wakeup_latency import NOTIFY, WAKE
from taskmachine.adapters.cli.bench.workload import Workload

__all__ = ["MEASURES", "measure"]

MEASURES: Final = (
    "task",
    "get",
    "wake",
    "notify",
    "grow",
    "stdio",
    "start",
    "import",
    "disk",
    "payload",
)

# Whole tasks come last: the requests of some servers get slower with each stored task.
_ON_SERVERS: Final = (GET, WAKE, NOTIFY, PAYLOAD, TASK)


def measure(
    wanted: Sequence[str],
    contestants: Sequence[Contestant],
    workload: Workload,
    folder: Path,
    command: str,
    say: Callable[[str], None],
    *,
    is_quick: bool,
) -> Report:
    """Take the measures, with files in `folder`, which must be on a disk."""
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=folder) as name, _on_our_core():
        own = Path(name)
        if measures := [each for each in _ON_SERVERS if each.name in wanted]:
            rows += run_rounds(measures, contestants, workload, own, say)
        if "grow" in wanted:
            rows += measure_growth(contestants, workload, own, say)
        if "stdio" in wanted:
            rows += measure_stdio(contestants, workload, say)
        if "start" in wanted:
            rows += measure_start(contestants, workload, say)
        if "import" in wanted:
            say("import")
            rows += measure_imports(workload)
        if "disk" in wanted:
            say("disk")
            rows += measure_disk(workload, own)
    rows.sort(key=lambda row: MEASURES.index(row.measure))
    return Report(
        datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        command,
        described(),
        workload.rounds,
        workload.seconds,
        is_quick,
        rows,
        {str(one): " ".join(one.programs) for one in contestants if one.programs},
    )


@contextlib.contextmanager
def _on_our_core() -> Iterator[None]:
    """Pin this process to the core of clients, because it reads the pipes of servers."""
    before = cores()
    on_core(core_of_client())
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
