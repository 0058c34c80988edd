"""`taskmachine new` writes a project that works."""

import asyncio
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from taskmachine import connect
from taskmachine.adapters.cli.main import main
from tests.oracle import REPOSITORY


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_tests_of_a_new_project_pass_and_its_server_answers(folder: Path) -> None:
    assert main(["new", "my-shop"]) == 0
    project = folder / "my-shop"
    assert {path.name for path in project.iterdir()} == {
        ".gitignore", "README.md", "my_shop.py", "pyproject.toml", "test_my_shop.py"
    }  # fmt: skip
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(tests, cwd=project, capture_output=True, text=True, timeout=120)
    assert "3 passed" in done.stdout, done.stdout + done.stderr

    async def names() -> set[str]:
        command = [sys.executable, str(project / "my_shop.py"), "--store", "memory:"]
        async with connect(command) as session:
            return {tool["name"] for tool in await session.tools()}

    assert asyncio.run(names()) == {"hello", "count", "order"}


def test_the_metadata_of_a_new_project_is_valid(folder: Path) -> None:
    assert main(["new", "my-shop"]) == 0
    project = tomllib.loads((folder / "my-shop" / "pyproject.toml").read_text())["project"]
    assert project["name"] == "my-shop"
    assert project["scripts"] == {"my-shop": "my_shop:tools.run"}
    ours = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    for extra in ("server", "dev"):
        named = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
        assert f"taskmachine[{extra}]" in named
        assert extra in ours["optional-dependencies"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("there", "there exists already: choose another name"),
        ("json", "Python has a module 'json' already: choose another name, such as my-json"),
        ("Class", "Python has a module 'class' already: choose another name, such as my-Class"),
        ("a/b", "NAME must have letters, digits, - and _ only, as in my-shop, got 'a/b'"),
        ("1st", "NAME must have letters, digits, - and _ only, as in my-shop, got '1st'"),
        ("", "NAME must have letters, digits, - and _ only, as in my-shop, got ''"),
        ("x" * 300, f"cannot write {'x' * 300}: File name too long"),
    ],
)
def test_other_names_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, says: str
) -> None:
    (folder / "there").mkdir()
    assert main(["new", name]) == 2
    assert capsys.readouterr().err == f"taskmachine: error: {says}\n"
    assert [path.name for path in folder.rglob("*")] == ["there"]
