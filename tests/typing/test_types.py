"""Type checkers see the public names as they are, in `api.py`, the examples and the pages."""

import ast
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

import taskmachine
from tests.oracle import REPOSITORY
from tests.peers.installed import Unavailable, python_of
from tests.site.pages import PAGES, blocks_of

API: Final = REPOSITORY / "tests" / "typing" / "api.py"
MCP1: Final = {"docs/examples/mcp1_server.py", "docs/howto/mcp1.md"}
"""These need `mcp` 1.x, which cannot be installed beside 2.x."""


def mypy(*arguments: str | Path) -> str:
    """What mypy says; nothing if all is well."""
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", *map(str, arguments)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    return ended.stdout + ended.stderr


def pyright(path: Path) -> str:
    """What pyright says about a file."""
    try:
        checker = str(python_of("pyright").with_name("pyright"))
    except Unavailable as error:
        pytest.skip(str(error))
    # It fetches itself, from npm, when it first runs.
    if subprocess.run([checker, "--version"], capture_output=True).returncode:
        pytest.skip("pyright cannot be fetched")
    ended = subprocess.run(
        [checker, "--pythonpath", sys.executable, str(path)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    return ended.stdout + ended.stderr


def written(folder: Path, pages: Sequence[str]) -> list[Path]:
    """The programs of some pages as files."""
    programs = []
    for page in pages:
        for number, block in enumerate(blocks_of(page, "python")):
            name = page.removesuffix(".md").replace("/", "_").replace("-", "_")
            programs.append(folder / f"{name}_{number}.py")
            programs[-1].write_text(block.text)
    return programs


def test_every_public_name_is_used() -> None:
    used = {n.id for n in ast.walk(ast.parse(API.read_text())) if isinstance(n, ast.Name)}
    assert set(taskmachine.__all__) - {"__version__"} <= used


def test_the_public_names_the_examples_and_the_readme_are_strictly_typed(tmp_path: Path) -> None:
    examples = [
        path
        for path in sorted((REPOSITORY / "docs" / "examples").glob("*.py"))
        if path.relative_to(REPOSITORY).as_posix() not in MCP1
    ]
    assert mypy("--strict", API, *examples, *written(tmp_path, ["README.md"])) == ""


@pytest.mark.slow
@pytest.mark.peers
def test_pyright_sees_the_same_types_as_mypy(tmp_path: Path) -> None:
    assert pyright(API) == "0 errors, 0 warnings, 0 informations\n"
    program = tmp_path / "program.py"
    wrong = API.read_text().replace("answer.value.sure, bool", "answer.value.sure, str")
    program.write_text(wrong.replace("# type: ignore", "#"))
    said = pyright(program)
    assert '"assert_type" mismatch: expected "str" but received "bool"' in said
    refused = {int(line) for line in re.findall(r"program\.py:(\d+):\d+ - error", said)}
    ignored = {n for n, line in enumerate(wrong.splitlines(), 1) if "# type: ignore" in line}
    assert len(ignored) == 5
    assert ignored < refused


def test_page_programs_type_check(tmp_path: Path) -> None:
    """They have no annotations and do not narrow types, so that they stay short."""
    programs = written(tmp_path, [page for page in PAGES if page not in MCP1])
    assert len(programs) > 10
    [shop] = blocks_of("README.md", "python", "shop.py")
    programs.append(tmp_path / shop.title)  # the tests of pages import it
    programs[-1].write_text(shop.text)
    untyped = ("--allow-untyped-defs", "--allow-untyped-calls", "--check-untyped-defs")
    unnarrowed = (f"--disable-error-code={code}" for code in ("arg-type", "union-attr"))
    assert mypy(*untyped, *unnarrowed, *programs) == ""


def test_a_name_that_is_not_there_would_be_noticed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("from taskmachine import tool\nfrom taskmachine.stores import store\n")
    said = mypy("--strict", program)
    assert said.count("[attr-defined]") == 2, said
