"""Where our server spends its time: the functions that take most of it themselves, by module."""

import os
import pstats
import re
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.benchmarks.server_load import Figures, Job, Kind
from tests.benchmarks.server_processes import serving
from tests.benchmarks.server_subjects import FLOOR, command_of_ours

__all__ = ["print_profiles"]

TOP: Final = 25
CLIENTS: Final = 32
WAIT_S: Final = 20

_MODULE: Final = re.compile(r".*?(?:site-packages/|lib/python3\.\d+/|__editable__[^/]*/|main/)")


class Cost(NamedTuple):
    module: str
    function: str
    calls: int
    own_s: float


def print_profiles(load: Callable[[Job], Figures], each: int) -> None:
    """Of `each` lookups and `each` whole tasks, in both revisions, on the memory store."""
    kinds: tuple[tuple[Kind, str], ...] = (("get", "tasks/get"), ("task", "whole tasks"))
    for revision in ("2025-11-25", "2026-07-28"):
        for kind, what in kinds:
            with tempfile.TemporaryDirectory() as folder:
                costs, figures = profiled(load, Path(folder), revision, kind, each)
            print_table(costs, figures, f"{what}, {revision}")


def profiled(
    load: Callable[[Job], Figures], folder: Path, revision: str, kind: Kind, each: int
) -> tuple[list[Cost], Figures]:
    file = folder / "profile"
    command = [sys.executable, "-m", "tests.benchmarks.server_profiled", str(file)]
    command += command_of_ours(folder, "memory")[1:]
    with (
        serving(FLOOR, folder / "floor.txt") as floor,
        serving(command, folder / "output.txt") as address,
    ):
        job = Job(
            revision,
            "/mcp",
            address,
            floor,
            [(kind, CLIENTS)],
            seconds=60,
            warm_seconds=0,
            most=-(-each // CLIENTS),
        )
        os.kill(address.pid, signal.SIGUSR1)
        figures = load(job)
        os.kill(address.pid, signal.SIGUSR2)
        until = time.monotonic() + WAIT_S
        while not file.exists():
            if time.monotonic() > until:
                raise TimeoutError("the profile was not written")
            time.sleep(0.02)
    return list(read_costs(file)), figures


def read_costs(file: Path) -> Iterator[Cost]:
    stats = pstats.Stats(str(file))
    for (path, _, function), (_, calls, own_s, *_) in stats.stats.items():  # type: ignore[attr-defined]
        module = "built in" if path == "~" else _MODULE.sub("", path).removesuffix(".py")
        yield Cost(module.replace("/", "."), function, calls, own_s)


def print_table(costs: list[Cost], figures: Figures, what: str) -> None:
    whole = sum(cost.own_s for cost in costs)
    figure = figures.turns[0].subject
    by_module: dict[str, list[Cost]] = defaultdict(list)
    for cost in costs:
        by_module[cost.module].append(cost)
    totals = {module: sum(cost.own_s for cost in of) for module, of in by_module.items()}
    top = set(sorted(costs, key=lambda cost: -cost.own_s)[:TOP])
    print(f"{what}: {figure.done:,} by {CLIENTS} clients, {figure.sent:,} requests; own time")
    print("(the profiler makes small Python functions look dearer than they are)")
    for module in sorted({cost.module for cost in top}, key=lambda module: -totals[module]):
        print(f"{totals[module] / whole:6.1%} {module}")
        for cost in sorted(top & set(by_module[module]), key=lambda cost: -cost.own_s):
            each_us = cost.own_s / figure.sent * 1e6
            print(
                f"       {cost.own_s / whole:6.1%} {each_us:7.1f} us a request "
                f"{cost.calls / figure.sent:6.1f} calls  {cost.function}"
            )
    print()
