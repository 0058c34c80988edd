"""Style, types and the coverage of the pure packages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.oracle import REPOSITORY


@pytest.mark.parametrize(
    "command",
    ["mypy", "ruff check .", "ruff format --check ."],
    ids=lambda line: line.split(" .")[0],
)
def test_style_and_types(command: str) -> None:
    _run(*command.split())


def test_every_branch_of_the_pure_packages_is_tested(tmp_path: Path) -> None:
    """The tests of `statemachine` and `protocol` cover all their branches."""
    # Few examples, the same in each run: the other tests of the lane look for mistakes.
    data = {"COVERAGE_FILE": str(tmp_path / "coverage"), "HYPOTHESIS_PROFILE": "mutation"}
    with_io = ["test_wire.py", "test_stores.py", "test_cells.py", "wire"]
    tests = ["tests/protocol", "tests/lifecycle"]
    tests += [f"--ignore=tests/lifecycle/{name}" for name in with_io]
    _run("coverage", "run", "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, **data)
    _run("coverage", "combine", "--quiet", **data)
    pure = "*/statemachine/*,*/protocol/*"
    _run("coverage", "report", "--fail-under=100", f"--include={pure}", **data)


def _run(*command: str, **environment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=REPOSITORY, env={**os.environ, **environment}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
