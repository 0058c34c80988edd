"""A client session of `mcp` 1.x with our tasks: runs `inside_client.py` in its own environment."""

from pathlib import Path
from typing import Final

import pytest

from tests.adapters.bridges.mcp1.environment import run_with_mcp1
from tests.oracle import REPOSITORY
from tests.site.pages import example_of

pytestmark = [pytest.mark.slow, pytest.mark.peers]

INSIDE: Final = Path(__file__).with_name("inside_client.py")


def test_a_client_session_takes_questions_as_tasks(tmp_path: Path) -> None:
    alone = ["-p", "no:cacheprovider", "--noconftest", "-c", "/dev/null"]
    ended = run_with_mcp1(tmp_path, "-W", "error", "-m", "pytest", "-q", *alone, str(INSIDE))
    assert ended.returncode == 0, ended.stdout[-10_000:] + ended.stderr[-2_000:]


def test_documentation_example_prints_the_documented_output(tmp_path: Path) -> None:
    example, output = example_of("docs/howto/mcp1.md", "client.py")
    (tmp_path / "docs").symlink_to(REPOSITORY / "docs")
    ended = run_with_mcp1(tmp_path, "-c", example)
    assert (ended.stdout, ended.returncode) == (output, 0), ended.stderr[-2_000:]
