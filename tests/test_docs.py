"""Documents are up to date, and their programs, commands and links work."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Final

import pytest

import taskmachine
from tests.architecture import FRONT_DOOR, imports
from tests.oracle import REPOSITORY
from tests.site.pages import PAGES, blocks_of, examples_of, page
from tests.update_docs import DOCUMENTS

EXAMPLES: Final = {
    "docs/howto/adapters.md": "",
    "docs/howto/client.md": "call.py",
    "docs/howto/protocol.md": "",
    "docs/howto/server.md": "",
    "docs/howto/tools.md": "own program",
    "docs/howto/watch.md": "",
}
"""Pages with a program that prints the block below it, and the title of the program."""

PROGRAMS: Final = sorted((REPOSITORY / "docs" / "examples").glob("*.py"))
NAMESPACES: Final = {
    path.parent.name for path in REPOSITORY.joinpath(*FRONT_DOOR).glob("*/__init__.py")
}
PURE: Final = {"protocol", "statemachine"}


@pytest.mark.parametrize("path", DOCUMENTS)
def test_generated_documents_are_up_to_date(path: str) -> None:
    assert (REPOSITORY / path).read_text() == DOCUMENTS[path](), "python -m tests.update_docs"


@pytest.mark.parametrize("path", EXAMPLES)
def test_page_example_run_in_process_prints_the_documented_output(path: str) -> None:
    [(example, output)] = [
        (block.text, text) for block, text in examples_of(path) if block.title == EXAMPLES[path]
    ]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, path, "exec"), {})
    assert printed.getvalue() == output


@pytest.mark.parametrize("path", PAGES)
def test_every_command_shown_works(path: str) -> None:
    """Output below a command is compared; a command without output must print some."""
    for block in blocks_of(path, "console"):
        for line, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE):
            program, *arguments = shlex.split(line)
            printed = subprocess.run(
                [str(Path(sys.executable).with_name(program)), *arguments],
                env={**os.environ, "COLUMNS": "80"},
                capture_output=True,
                check=True,
                text=True,
            ).stdout
            assert printed, line
            assert "--help" not in line or shown, f"{line}: show its output"
            assert printed.split() == (shown or printed).split(), line


@pytest.mark.parametrize("path", PAGES)
def test_pages_show_public_names_only(path: str, tmp_path: Path) -> None:
    assert "taskmachine.adapters" not in page(path), "use a public name"
    programs = [*blocks_of(path, "python"), *blocks_of(path, "py")]
    for number, program in enumerate(programs):
        (tmp_path / f"{number}.py").write_text(textwrap.dedent(program.text))
        assert_public(tmp_path / f"{number}.py")


@pytest.mark.parametrize("example", PROGRAMS, ids=lambda path: path.name)
def test_examples_use_public_names_only(example: Path) -> None:
    assert_public(example)


def assert_public(program: Path) -> None:
    """It imports from `taskmachine`, its namespaces and the two pure packages only."""
    try:
        names = list(imports(program))
    except SyntaxError:  # an excerpt from inside of a function
        names = re.findall(r"^from (taskmachine\S*) import", program.read_text(), re.MULTILINE)
    for name in names:
        package, *parts = name.split(".")
        if package == "taskmachine" and parts and parts[0] not in {*NAMESPACES, *PURE}:
            assert name.count(".") == 1, name
            assert parts[0] in taskmachine.__all__, name


@pytest.mark.parametrize("path", PAGES)
def test_every_link_leads_to_a_file(path: str) -> None:
    for target in re.findall(r"\]\(([^)#:\s]+)[)#\s]", page(path)):
        assert (REPOSITORY / path).parent.joinpath(target).exists(), f"{path} links to {target}"
