"""The documentation page and the example of the SDK's client work as described."""

import ast
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Final

from taskmachine import mcp
from tests.oracle import REPOSITORY
from tests.peers.serving import serving
from tests.site.pages import blocks_of, example_of

PAGE: Final = "docs/howto/client.md"
EXAMPLE: Final = str(REPOSITORY / "docs" / "examples" / "sdk_client.py")
PATIENCE_S: Final = 30.0


def test_page_example_prints_the_documented_output(tmp_path: Path) -> None:
    example, output = example_of(PAGE, "sdk_client.py")
    assert finished([sys.executable, "-c", example], tmp_path) == output


def test_the_excerpt_of_the_page_is_python_and_its_names_are_there() -> None:
    [excerpt] = blocks_of(PAGE, "py")
    names = {node.id for node in ast.walk(ast.parse(excerpt.text)) if isinstance(node, ast.Name)}
    assert names - {"Client", "client"} <= set(mcp.__all__)


def finished(command: list[str], place: Path, stdin: int = subprocess.DEVNULL) -> str:
    ended = subprocess.run(
        command, cwd=place, stdin=stdin, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stdout


def test_without_a_terminal_the_example_answers_by_itself(tmp_path: Path) -> None:
    lines = finished([sys.executable, EXAMPLE], tmp_path).splitlines()
    assert lines[0] == '{"counted":3}'
    assert "asked: Deploy 1.4?" in lines
    assert "completed: " in lines
    assert lines[-1] == "1.4 is deployed to test."


def test_on_a_terminal_a_person_answers(tmp_path: Path) -> None:
    ours, its = pty.openpty()
    try:
        os.write(ours, b"perhaps\nyes\nlive\n")
        lines = finished([sys.executable, EXAMPLE], tmp_path, stdin=its).splitlines()
    finally:
        os.close(ours)
        os.close(its)
    assert lines[-1] == "1.4 is deployed to live."


def test_the_example_calls_a_server_that_runs_already(tmp_path: Path) -> None:
    with serving("demo", tmp_path) as server:
        said = finished([sys.executable, EXAMPLE, server.url], tmp_path)
    assert said.splitlines()[-1] == "1.4 is deployed to test."


def test_example_reports_a_refused_connection_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, EXAMPLE, "http://127.0.0.1:9/mcp"]
    ended = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    [said] = ended.stderr.splitlines()
    assert "connection" in said
