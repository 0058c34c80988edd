"""The README: its commands and programs, as a reader of it runs them, and its length."""

import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

from taskmachine.adapters.conformance.command_line import read_arguments
from tests.oracle import REPOSITORY
from tests.ports import free_port
from tests.site.pages import blocks_of, page
from tests.site.pictures import BROKEN, PICTURE, run_check
from tests.site.serving import PATIENCE_S, TASKMACHINE

README: Final = "README.md"
MOST_LINES: Final = 110
"""Two screens, without the parts that are folded."""

PROGRAM: Final = ".venv/bin/taskmachine"


def test_readme_fits_two_screens() -> None:
    shown = re.sub(r"<details>.*?</details>", "", page(README), flags=re.DOTALL)
    assert len(shown.splitlines()) <= MOST_LINES


def test_its_pictures_exist() -> None:
    pictures = re.findall(r'<img src="(\S+)" width="\d+" alt="[^"]+">', page(README))
    assert len(pictures) == page(README).count("<img") == 3
    assert all((REPOSITORY / picture).exists() for picture in pictures)


def test_every_command_of_the_readme(tmp_path: Path) -> None:
    demo, test, serve, check = (block.text for block in blocks_of(README, "sh"))
    assert demo.endswith(f"&& {PROGRAM} demo\n")  # tests/adapters/cli/test_demo.py
    assert test.endswith("&& .venv/bin/pytest -n auto\n")
    _serve_and_call(serve, tmp_path)
    server = shlex.join([TASKMACHINE, "serve", "--stdio", "--store", "memory:"])
    for line in check.splitlines():
        program, name, *words = shlex.split(line.replace("node server.js", server))
        assert (program, name) == (PROGRAM, "check")
        options = read_arguments(words)
        assert options.server or options.client


def test_every_shown_command_is_installed_by_the_first_one() -> None:
    [first, *_] = blocks_of(README, "sh")
    [extras] = re.findall(r"'\.\[([\w,]+)\]'", first.text)
    assert set(extras.split(",")) == {"server", "check"}  # for serve and call, and for check
    for block in blocks_of(README, "sh"):
        for line in block.text.splitlines():
            assert line.startswith(
                (f"{PROGRAM} ", ".venv/bin/python ", "python3 -m venv .venv && .venv/bin/pip ")
            )


def test_pages_show_the_same_test_command() -> None:
    [_, test, *_] = blocks_of(README, "sh")
    for path in ("CONTRIBUTING.md", "docs/explanation/testing.md"):
        assert next(blocks_of(path, "sh")).text == test.text
    assert test.text.strip() in (REPOSITORY / ".ci" / "run").read_text()


def test_pages_show_the_same_tool() -> None:
    [first, _] = blocks_of(README, "python")
    assert next(blocks_of("docs/howto/tools.md", "python")) == first


def _serve_and_call(shown: str, folder: Path) -> None:
    """Type both lines as they are, in a folder with that `.venv`, on another port."""
    [program, _] = blocks_of(README, "python")
    (folder / program.title).write_text(program.text)
    (folder / ".venv").symlink_to(sys.prefix)
    address = f"127.0.0.1:{free_port()}"
    assert "127.0.0.1:8000" in shown
    serve, call = shown.replace("127.0.0.1:8000", address).splitlines()
    with subprocess.Popen(
        ["sh", "-c", f"exec {serve}"], cwd=folder, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stderr is not None
            while address not in (line := server.stderr.readline()):
                assert line, "the server has ended"
            said = subprocess.run(
                ["sh", "-c", call],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                check=True,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
            )
        finally:
            server.kill()
    assert said.stdout == "not deployed\n"  # without a terminal the question is declined


def test_every_program_of_the_readme() -> None:
    [_, program] = blocks_of(README, "python")
    [output] = blocks_of(README, "text")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program.text, README, "exec"), {})
    assert printed.getvalue() == output.text


def test_readme_picture_matches_the_output_of_the_tester() -> None:
    [run] = run_check("--only", BROKEN, "--budget", "5s").runs
    [finding] = run.findings
    shown = re.sub(r"<[^>]*>|\s|&#160;", "", PICTURE.read_text()).replace("&#x27;", "'")
    for words in (f"FAIL{BROKEN}MUST", finding.requirement.says, f"Seen:{finding.words}"):
        assert words.replace(" ", "") in shown, "python -m tests.site.pictures"


def test_readme_comparison_numbers_match_the_findings_page() -> None:
    """The numbers are those of docs/explanation/findings.md."""
    found = page("docs/explanation/findings.md")
    for server, over in re.findall(
        r"^\| .*?(`mcp` 1\.30\.0|FastMCP 4).*\| (.*) \[2\] \|", page(README), re.M
    ):
        rows = found.partition(server)[2].splitlines()[:2]
        for number, way in re.findall(r"(\d+) \((\w+)\)", over):
            assert any(f"{way}," in row and f"| {number}" in row for row in rows), (server, way)
