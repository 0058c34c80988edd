"""A profile of the server: the functions with the most own time, by module.

`python -m tests.benchmarks.server_profile [--quick]`
"""

import json
import os
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from taskmachine.adapters.cli.bench.clients import run_client
from taskmachine.adapters.cli.bench.contestants import FLOOR, command_of_ours
from taskmachine.adapters.cli.bench.load import Figure, Figures, Job, Kind, Load
from taskmachine.adapters.cli.bench.processes import serving
from tests.oracle import REPOSITORY

__all__ = ["print_profiles", "print_table", "profiled"]

TOP: Final = 25
CLIENTS: Final = 32
WAIT_S: Final = 20

_ABOVE: Final = re.compile(r".*(?:site-packages|lib/python3\.\d+|__editable__[^/]*)/")

_MADE_BY_ATTRS: Final = re.compile(r"<attrs generated methods (.*)\.(\w+)>")

Samples = Counter[tuple[str, str]]
"""Number of samples by module and function."""


def print_profiles(each: int) -> None:
    """Profile `each` lookups and `each` whole tasks, in both revisions, on the memory store."""
    kinds: tuple[tuple[Kind, str], ...] = (("get", "tasks/get"), ("task", "whole tasks"))
    for revision in ("2025-11-25", "2026-07-28"):
        for kind, what in kinds:
            with tempfile.TemporaryDirectory() as folder:
                samples, figure = profiled(Path(folder), revision, kind, each)
            print_table(samples, figure, f"{what}, {revision}")


def profiled(folder: Path, revision: str, kind: Kind, each: int) -> tuple[Samples, Figure]:
    file = folder / "samples.json"
    command = [sys.executable, "-m", "tests.benchmarks.server_profiled", str(file)]
    command += command_of_ours(folder, "memory:")[1:]
    with (
        serving(FLOOR, folder / "floor.txt") as floor,
        serving(command, folder / "output.txt", {"PYTHONPATH": str(REPOSITORY)}) as address,
    ):
        job = Job(
            revision,
            "/mcp",
            address,
            floor,
            [Load(kind, CLIENTS)],
            seconds=60,
            warm_seconds=0,
            most=-(-each // CLIENTS),
        )
        os.kill(address.pid, signal.SIGUSR1)
        figures = run_client("load", job, Figures, 120)
        os.kill(address.pid, signal.SIGUSR2)
        until = time.monotonic() + WAIT_S
        while not file.exists():
            if time.monotonic() > until:
                raise TimeoutError("the samples were not written")
            time.sleep(0.02)
    samples: Samples = Counter()
    for path, function, count in json.loads(file.read_text()):
        samples[located(path, function)] += count
    return samples, figures.turns[0].subject


def located(path: str, function: str) -> tuple[str, str]:
    if made := _MADE_BY_ATTRS.fullmatch(path):
        return made[1], f"{made[2]}.{function}"
    return _ABOVE.sub("", path).removesuffix(".py").replace("/", "."), function


def layer(module: str) -> str:
    """Return the package of a taskmachine module, or the top-level name of another one."""
    return module.rpartition(".")[0] if module.startswith("taskmachine.") else module.split(".")[0]


def print_table(samples: Samples, figure: Figure, what: str) -> None:
    whole = samples.total()
    modules: Counter[str] = Counter()
    layers: Counter[str] = Counter()
    for (module, _), count in samples.items():
        modules[module] += count
        layers[layer(module)] += count
    top = samples.most_common(TOP)
    print(f"{what}: {figure.done:,} by {CLIENTS} clients, {figure.sent:,} requests,")
    print(f"{figure.cost_us:.0f} us of the processor for each; {whole:,} samples of own time")
    print("(time in C functions counts for their Python caller)")
    print(*(f"{count / whole:.0%} {name}" for name, count in layers.most_common(10)), sep=", ")
    shown = {module for (module, _), _ in top}
    for module, total in modules.most_common():
        if module in shown:
            print(f"{total / whole:6.1%} {module}")
            for (its, function), count in top:
                if its == module:
                    share = count / whole
                    print(f"       {share:6.1%} {share * figure.cost_us:6.1f} us  {function}")
    print()


if __name__ == "__main__":
    print_profiles(20 if "--quick" in sys.argv else 10_000)
