"""Everything that must hold, in one command: `python -m tests`.

Style, types, all tests, and the coverage that we promise: every branch of `statemachine` and
`protocol`, nine tenths of the whole.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Final

ALONE: Final = [
    "tests/chaos/test_chaos.py",
    "tests/conformance/test_bugs.py",
    "tests/conformance/test_variations.py",
    "tests/conformance/test_command.py",
    "tests/conformance/clients/test_bugs.py",
    "tests/peers/test_bridges.py",
    "tests/peers/test_servers.py",
]
"""Many processes, among them several hundred servers with bugs: they need the whole machine, or
answers are late."""

TIMED: Final = [
    "tests/conformance/clients/test_clients.py",
    "tests/conformance/test_bad_targets.py",
    "tests/conformance/test_exploration.py",
    "tests/conformance/test_run.py",
]
"""The same for whole runs of the tester, which are watched."""

UNWATCHED: Final = [
    ["tests/peers"],  # mostly waits: for packages, and for the programs of others
    ["tests/benchmarks", "tests/crashes", "tests/simulation", "tests/wire_faults"],
    ["tests/chaos", "tests/replicas", "tests/console"],
    [
        "tests/lifecycle/test_cells.py",
        "tests/lifecycle/test_stores.py",
        "tests/lifecycle/test_wire.py",
    ],
]
"""Tests of other processes, and one that watching each line would make twice as slow."""

APART: Final = ["tests/adapters/client", "tests/adapters/bridges", "tests/conformance"]
"""These take as long as all others together."""

WATCHED: Final = ["coverage", "run", "-m", "pytest"]
BEFORE: Final = [
    ["ruff", "check", "."],
    ["ruff", "format", "--check", "."],
    ["mypy"],
    ["coverage", "erase"],
]


def _but(*groups: Sequence[str]) -> list[str]:
    return [f"--ignore={path}" for group in groups for path in group]


SIDE_BY_SIDE: Final = [
    [*WATCHED, *_but(APART, ALONE, *UNWATCHED)],
    [*WATCHED, *APART, *_but(ALONE, TIMED)],
    *(["pytest", *paths, *_but(ALONE)] for paths in UNWATCHED),
]
AFTER: Final = [
    [*WATCHED, *TIMED],
    ["coverage", "combine", "--quiet"],
    ["coverage", "report", "--fail-under=100", "--include=*/statemachine/*,*/protocol/*"],
    ["coverage", "report", "--fail-under=90"],
    ["pytest", *ALONE],
]


def main() -> int:
    """Whether all is well, as an exit code.  Tests are run only if style and types are right."""
    for step in BEFORE:
        if code := _run(step):
            return code
    codes = [*_side_by_side(), *(_run(step) for step in AFTER)]
    return max(codes, key=abs)


def _side_by_side() -> list[int]:
    """What the first has to say is shown as it comes, the others follow when it is done."""
    first, *others = SIDE_BY_SIDE
    with contextlib.ExitStack() as files:
        running = []
        for step in others:
            said = files.enter_context(tempfile.TemporaryFile("w+"))
            running.append((step, _start(step, said.fileno()), said))
        codes = [_run(first)]
        for step, process, said in running:
            codes.append(process.wait())
            said.seek(0)
            print("$", *step)
            print(said.read(), flush=True)
    return codes


def _run(step: Sequence[str]) -> int:
    print("$", *step, flush=True)
    return _start(step).wait()


def _start(step: Sequence[str], output: int | None = None) -> "subprocess.Popen[bytes]":
    environment = {"HYPOTHESIS_PROFILE": "ci", **os.environ}
    return subprocess.Popen([sys.executable, "-m", *step], env=environment, stdout=output)


sys.exit(main())
