"""What the documents show is true today."""

import contextlib
import io
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import taskmachine
from tests.architecture import FRONT_DOOR, imports
from tests.oracle import REPOSITORY
from tests.update_docs import DOCUMENTS

EXAMPLES = sorted((REPOSITORY / "docs" / "examples").glob("*.py"))
NAMESPACES = {path.parent.name for path in REPOSITORY.joinpath(*FRONT_DOOR).glob("*/__init__.py")}
PURE = {"protocol", "statemachine"}
PAGES = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}(?: title=\"[^\"]*\")?\n(.*?)^```", text, re.DOTALL | re.MULTILINE
    )


@pytest.mark.parametrize("path", DOCUMENTS)
def test_generated_documents_are_up_to_date(path: str) -> None:
    assert (REPOSITORY / path).read_text() == DOCUMENTS[path](), "python -m tests.update_docs"


@pytest.mark.parametrize(
    "page",
    [
        "docs/adapters.md",
        "docs/client.md",
        "docs/console.md",
        "docs/http.md",
        "docs/runtime.md",
        "docs/sans-io.md",
    ],
)
def test_the_example_prints_what_the_page_says(page: str) -> None:
    text = (REPOSITORY / page).read_text()
    [example], [output] = blocks(text, "python"), blocks(text, "text")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, page, "exec"), {})
    assert printed.getvalue() == output


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_every_command_shown_works(page: Path) -> None:
    for line in "".join(blocks(page.read_text(), "console")).splitlines():
        if line.startswith("$ "):
            program, *arguments = shlex.split(line.removeprefix("$ "))
            command = [str(Path(sys.executable).with_name(program)), *arguments]
            assert subprocess.run(command, capture_output=True, check=True).stdout, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_pages_show_public_names_only(page: Path, tmp_path: Path) -> None:
    text = page.read_text()
    assert "taskmachine.adapters" not in text, "what is in there has a public name, or needs one"
    for number, program in enumerate([*blocks(text, "python"), *blocks(text, "py")]):
        (tmp_path / f"{number}.py").write_text(textwrap.dedent(program))
        assert_public(tmp_path / f"{number}.py")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(REPOSITORY).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
