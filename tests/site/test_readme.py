"""The README: its commands and programs, and that it fits two screens."""

import contextlib
import io
import re
import shlex
import subprocess
from pathlib import Path
from typing import Final

from taskmachine.adapters.conformance.command_line import read_arguments
from tests.oracle import REPOSITORY
from tests.site.pages import blocks_of, page
from tests.site.pictures import BROKEN, PICTURE, run_check
from tests.site.serving import PATIENCE_S, TASKMACHINE, served

README: Final = "README.md"
MOST_LINES: Final = 140


def test_it_fits_two_screens() -> None:
    assert len(page(README).splitlines()) <= MOST_LINES


def test_every_command_of_the_readme(tmp_path: Path) -> None:
    demo, test, serve, check = (block.text for block in blocks_of(README, "sh"))
    assert demo.endswith("&& .venv/bin/taskmachine demo\n")  # tests/adapters/cli/test_demo.py
    assert test.strip() == (REPOSITORY / ".ci" / "run").read_text().splitlines()[-1]
    _serve_and_call(serve, tmp_path)
    server = shlex.join([TASKMACHINE, "serve", "--stdio", "--store", "memory:"])
    for line in check.splitlines():
        options = read_arguments(shlex.split(line.replace("node server.js", server))[2:])
        assert options.url or options.stdio or options.client


def _serve_and_call(shown: str, folder: Path) -> None:
    [program, _] = blocks_of(README, "python")
    (folder / program.title).write_text(program.text)
    serve, call = (shlex.split(line)[1:] for line in shown.splitlines())
    assert serve[:3] == ["serve", "--http", "127.0.0.1:8000"]
    with served(folder, *serve[3:]) as address:
        said = subprocess.run(
            [TASKMACHINE, *(word.replace("127.0.0.1:8000", address) for word in call)],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
    assert said.stdout == "nothing was done\n"  # nobody is there to say yes


def test_every_program_of_the_readme() -> None:
    [_, program] = blocks_of(README, "python")
    [output] = blocks_of(README, "text")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program.text, README, "exec"), {})
    assert printed.getvalue() == output.text


def test_the_picture_shows_what_the_tester_says() -> None:
    [run] = run_check("--only", BROKEN, "--budget", "5s").runs
    [finding] = run.findings
    shown = re.sub(r"<[^>]*>|\s|&#160;", "", PICTURE.read_text()).replace("&#x27;", "'")
    for words in (f"FAIL{BROKEN}MUST", finding.requirement.says, f"Seen:{finding.words}"):
        assert words.replace(" ", "") in shown, "python -m tests.site.pictures"


def test_others_are_compared_by_what_was_found() -> None:
    """The numbers are those of docs/findings.md."""
    found = page("docs/findings.md")
    for server, over in re.findall(
        r"^\| .*?(`mcp` 1\.30\.0|FastMCP 4).*\| (.*) \[2\] \|", page(README), re.M
    ):
        rows = found.partition(server)[2].splitlines()[:2]
        for number, way in re.findall(r"(\d+) \((\w+)\)", over):
            assert any(f"{way}," in row and f"| {number}" in row for row in rows), (server, way)
