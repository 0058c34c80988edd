"""The package `taskmachine` and its namespaces: their names, and the cost of importing them."""

import ast
import importlib
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import taskmachine
from tests.architecture import FRONT_DOOR
from tests.oracle import REPOSITORY

DOOR: Final = REPOSITORY.joinpath(*FRONT_DOOR)
NAMESPACES: Final = sorted(path.parent.name for path in DOOR.glob("*/__init__.py"))

MOST_NAMES: Final = 40
"""As many as a reader can remember; other names belong to a namespace."""

IMPORT_RATIO: Final = 1.3
ROUNDS: Final = 7

TIME: Final = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"


def test_each_name_is_the_one_of_its_home() -> None:
    """The names under TYPE_CHECKING are those found at run time."""
    [declared] = [
        node
        for node in ast.parse((DOOR / "__init__.py").read_text()).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    homes = {
        alias.name: str(node.module)
        for node in declared.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted([*homes, "__version__"]) == sorted(taskmachine.__all__)
    for name, home in homes.items():
        assert getattr(taskmachine, name) is getattr(importlib.import_module(home), name), name


def test_there_are_few_names_and_dir_lists_them() -> None:
    assert len(taskmachine.__all__) <= MOST_NAMES
    assert set(taskmachine.__all__) <= set(dir(taskmachine))


def test_another_name_is_refused_in_plain_words() -> None:
    with pytest.raises(AttributeError) as error:
        taskmachine.tool  # type: ignore[attr-defined]  # noqa: B018
    assert str(error.value) == "module 'taskmachine' has no attribute 'tool'"
    with pytest.raises(ImportError):
        from taskmachine import tool  # type: ignore[attr-defined]  # noqa: F401


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_namespace_exports_every_name_in_all(namespace: str) -> None:
    if namespace == "mcp1":  # cannot be imported beside `mcp` 2.x
        promised = ast.parse((DOOR / namespace / "__init__.py").read_text())
        imported = {
            alias.name
            for node in promised.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        assert {"enable_tasks", "receive_tasks"} <= imported
        return
    module = importlib.import_module(f"taskmachine.{namespace}")
    assert module.__all__
    for name in module.__all__:
        assert hasattr(module, name), name


def test_the_version_is_the_one_of_the_command(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-m", "taskmachine", "--version"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert said == f"taskmachine {taskmachine.__version__}\n"


def test_importing_the_package_costs_next_to_nothing(tmp_path: Path) -> None:
    """At most 1.3 times the cost of its parts: medians of alternating runs in new interpreters."""
    took: dict[str, list[float]] = {"taskmachine": [], "attrs, transitions": []}
    for _ in range(ROUNDS):
        for modules, times in took.items():
            ended = subprocess.run(
                [sys.executable, "-c", TIME.format(modules)],
                cwd=tmp_path,
                check=True,
                capture_output=True,
            )
            times.append(float(ended.stdout))
    ours, parts = map(statistics.median, took.values())
    assert ours <= IMPORT_RATIO * parts
