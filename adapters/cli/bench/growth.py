"""`grow`: the cost of create, get and list, and the size of a task, as the store grows."""

import contextlib
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from taskmachine.adapters.cli.bench.clients import run_client
from taskmachine.adapters.cli.bench.contestants import CONFIGURATION, Contestant
from taskmachine.adapters.cli.bench.figures import Failed, Row, row_of
from taskmachine.adapters.cli.bench.growth_client import Job, Steps
from taskmachine.adapters.cli.bench.processes import NotStarted, serving
from taskmachine.adapters.cli.bench.workload import Workload

__all__ = ["fill_server_command", "measure_growth", "stored"]

PATIENCE_S: Final = 1_800


def stored(size: int) -> str:
    """Return the name of the case."""
    return f"{size:,} tasks"


def measure_growth(
    contestants: Sequence[Contestant], workload: Workload, folder: Path, say: Callable[[str], None]
) -> list[Row]:
    """Measure each contestant once, comparing every step with its first one."""
    rows = []
    for one in contestants:
        if one.store == "postgresql":  # tests/benchmarks/postgresql.py measures it with a million
            continue
        say(f"grow: {one}")
        try:
            rows += _rows(one, _grown(one, workload, folder))
        except (Failed, NotStarted, OSError) as error:
            rows.append(Row("grow", one.name, one.revision, "", skipped=str(error)))
    return rows


def _grown(one: Contestant, workload: Workload, folder: Path) -> Steps:
    if one.missing:
        raise Failed(one.missing)
    with tempfile.TemporaryDirectory(dir=folder) as name, contextlib.ExitStack() as stack:
        own = Path(name)
        command = fill_server_command(one.store, own) if one.is_ours else one.http(own, stack)
        address = stack.enter_context(serving(command, own / "output.txt"))
        job = Job(
            one.dialog,
            one.path,
            address,
            list(workload.sizes),
            0 if one.is_ours else workload.fill_s,
            workload.seconds / 5,
            one.revision == "2025-11-25",
            workload.most,
        )
        return run_client("growth_client", job, Steps, PATIENCE_S)


def fill_server_command(store: str, folder: Path) -> Sequence[str]:
    """Return the command of our server with the tool `fill`."""
    configuration = folder / "taskmachine.toml"
    configuration.write_text(CONFIGURATION)
    url = "memory:" if store == "memory" else f"sqlite:{folder / 'tasks.db'}"
    module = "taskmachine.adapters.cli.bench.fill_server"
    return sys.executable, "-m", module, url, str(configuration)


def _rows(one: Contestant, steps: Steps) -> list[Row]:
    rows = []
    for step in steps.steps:
        first = steps.steps[0]
        values = {"kb_each": (step.resident - steps.empty) / step.size / 1_000}
        for name, cost in step.costs_us.items():
            values[f"{name}_us"] = cost
            values[f"{name}_x"] = cost / first.costs_us[name]
        rows.append(row_of("grow", one.name, one.revision, stored(step.size), [values]))
    if steps.failed:
        rows.append(Row("grow", one.name, one.revision, "", skipped=steps.failed))
    return rows
