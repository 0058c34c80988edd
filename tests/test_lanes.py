"""The plugin of `tests/lanes.py`, in runs of its own on three small tests."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.oracle import REPOSITORY

MODULE: Final = """
import pytest

def test_first_lane(): pass

@pytest.mark.slow
@pytest.mark.peers
def test_peer(): pass

@pytest.mark.slow
@pytest.mark.chaos
def test_chaos(): pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.toml").write_text("[pytest]\nmarkers = ['slow']\n")
    (tmp_path / "test_small.py").write_text(MODULE)
    return tmp_path


def run(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "tests.lanes", "-v", f"--rootdir={folder}"]
    done = subprocess.run(
        [*command, f"-c{folder / 'pytest.toml'}", str(folder), *arguments],
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.parametrize("processes", ["0", "2"])
def test_the_first_lane_names_what_it_left_out(folder: Path, processes: str) -> None:
    output = run(folder, "-m", "not slow", "-n", processes)
    assert "1 passed" in output
    assert "Not run: 2 tests of the slow lane (chaos 1, peers 1)." in output
    assert "pytest -m slow" in output


@pytest.mark.parametrize(
    ("first", "order"), [("chaos", ["chaos", "peer"]), ("peers", ["peer", "chaos"])]
)
def test_a_run_begins_with_the_chosen_piece(folder: Path, first: str, order: list[str]) -> None:
    output = run(folder, "-m", "slow", "--first", first)
    assert re.findall(r"::test_(\w+) PASSED", output) == order
    assert "chaos: 1 tests" in output
    assert "Not run" not in output


def test_no_test_begins_after_its_time(folder: Path) -> None:
    output = run(folder, "-m", "slow", "--minutes", "0.0000001", "-rs")
    assert "2 skipped" in output
    assert "no time left" in output


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_resumed_run_leaves_out_passed_tests(folder: Path, processes: str) -> None:
    assert "1 passed" in run(folder, "-m", "peers")
    output = run(folder, "-m", "slow", "--resume", "-n", processes)
    assert "1 passed" in output
    assert "test_peer" not in output


def test_a_slow_test_needs_a_piece(folder: Path) -> None:
    (folder / "test_small.py").write_text(MODULE.replace("@pytest.mark.peers\n", ""))
    assert "test_peer is slow: mark it with one of bugs, " in run(folder)
