"""What the documents show is true today."""

import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.oracle import REPOSITORY
from tests.update_docs import DOCUMENTS

PAGES = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


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
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
