"""Everything that must hold, in one command: `python -m tests`.

Style, types, all tests, and the coverage that we promise: every branch of `statemachine` and
`protocol`, nine tenths of the whole (ERL-30, ERL-87).
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Final

ALONE: Final = [
    "tests/conformance/test_bugs.py",
    "tests/conformance/test_variations.py",
    "tests/conformance/test_command.py",
    "tests/conformance/clients/test_bugs.py",
    "tests/peers/test_servers.py",
]
"""Several hundred servers with bugs: they need the whole machine, or answers are late."""

APART: Final = [
    ["tests/peers"],  # mostly waits: for packages, and for the programs of others
    ["tests/benchmarks", "tests/crashes", "tests/simulation", "tests/wire", "tests/wire_faults"],
]
"""Tests of other processes, and one that watching each line would make twice as slow."""

BEFORE: Final = [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]]
WATCHED: Final = [
    *("coverage", "run", "-m", "pytest"),
    *(f"--ignore={folder}" for folders in [*APART, ALONE] for folder in folders),
]
AFTER: Final = [
    ["coverage", "report", "--fail-under=100", "--include=*/statemachine/*,*/protocol/*"],
    ["coverage", "report", "--fail-under=90"],
]


def main() -> int:
    """Stop at the first step that fails, with its exit code."""
    return _in_turn(BEFORE) or _side_by_side() or _in_turn([*AFTER, ["pytest", *ALONE]])


def _in_turn(steps: Sequence[Sequence[str]]) -> int:
    for step in steps:
        print("$", *step, flush=True)
        code = _start(step).wait()
        if code:
            return code
    return 0


def _side_by_side() -> int:
    """All tests.  What those apart have to say comes when the others are done."""
    with contextlib.ExitStack() as files:
        running = []
        for folders in APART:
            said = files.enter_context(tempfile.TemporaryFile("w+"))
            pytest = ["pytest", *folders, *(f"--ignore={file}" for file in ALONE)]
            running.append((folders, _start(pytest, said.fileno()), said))
        code = _in_turn([WATCHED])
        for folders, process, said in running:
            code = process.wait() or code
            said.seek(0)
            print("$ pytest", *folders)
            print(said.read(), flush=True)
    return code


def _start(step: Sequence[str], output: int | None = None) -> "subprocess.Popen[bytes]":
    environment = {"HYPOTHESIS_PROFILE": "ci", **os.environ}
    return subprocess.Popen([sys.executable, "-m", *step], env=environment, stdout=output)


sys.exit(main())
