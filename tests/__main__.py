"""Everything that must hold, in one command: `python -m tests`.

Style, types, all tests, and the coverage that we promise: every branch of `statemachine` and
`protocol`, nine tenths of the whole (ERL-30, ERL-87).
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Final

APART: Final = [
    f"tests/{folder}"
    for folder in ("benchmarks", "crashes", "peers", "simulation", "wire", "wire_faults")
]
"""Tests of other processes, and one that watching each line would make twice as slow."""

BEFORE: Final = [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]]
WATCHED: Final = ["coverage", "run", "-m", "pytest", *(f"--ignore={folder}" for folder in APART)]
AFTER: Final = [
    ["coverage", "report", "--fail-under=100", "--include=*/statemachine/*,*/protocol/*"],
    ["coverage", "report", "--fail-under=90"],
]


def main() -> int:
    """Stop at the first step that fails, with its exit code."""
    return _in_turn(BEFORE) or _side_by_side(WATCHED, ["pytest", *APART]) or _in_turn(AFTER)


def _in_turn(steps: Sequence[Sequence[str]]) -> int:
    for step in steps:
        print("$", *step, flush=True)
        code = _start(step).wait()
        if code:
            return code
    return 0


def _side_by_side(one: Sequence[str], other: Sequence[str]) -> int:
    """What the other one has to say comes when the first is done."""
    with tempfile.TemporaryFile("w+") as said:
        running = _start(other, said.fileno())
        code = _in_turn([one])
        code = running.wait() or code
        said.seek(0)
        print("$", *other)
        print(said.read(), flush=True)
    return code


def _start(step: Sequence[str], output: int | None = None) -> "subprocess.Popen[bytes]":
    environment = {"HYPOTHESIS_PROFILE": "ci", **os.environ}
    return subprocess.Popen([sys.executable, "-m", *step], env=environment, stdout=output)


sys.exit(main())
