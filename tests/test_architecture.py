"""Rules about the tree itself."""

import ast
import re
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from tests.architecture import (
    BESIDE,
    FRONT_DOOR,
    ORDER,
    PORTIONS,
    imports,
    modules,
    name_of,
    violations,
)
from tests.oracle import REPOSITORY

# Allowed imports besides the standard library.
ALLOWED = {
    "statemachine": {"attrs", "transitions", "taskmachine.statemachine"},
    "protocol": {
        "attrs",
        "cattrs",
        "cryptography",
        "msgspec",
        "taskmachine.statemachine",
        "taskmachine.protocol",
    },
    "specs": {"taskmachine.specs"},
}

# No clock, no randomness and no I/O below adapters.
IMPURE = {
    "asyncio", "concurrent", "ctypes", "io", "logging", "multiprocessing", "os", "pathlib",
    "random", "secrets", "select", "selectors", "signal", "socket", "sqlite3", "subprocess",
    "sys", "tempfile", "threading", "time", "uuid", "warnings",
}  # fmt: skip


def files(portion: str) -> list[Path]:
    return sorted((REPOSITORY / portion).rglob("*.py"))


def is_below(name: str, roots: set[str]) -> bool:
    return any(name == root or name.startswith(root + ".") for root in roots)


@pytest.mark.parametrize("portion", ALLOWED)
def test_the_core_imports_only_what_is_allowed(portion: str) -> None:
    for path in files(portion):
        for name in imports(path):
            if name.partition(".")[0] in sys.stdlib_module_names:
                continue
            assert is_below(name, ALLOWED[portion]), f"{path.name} imports {name}"


@pytest.mark.parametrize("portion", ["statemachine", "protocol"])
def test_the_core_is_pure(portion: str) -> None:
    for path in files(portion):
        assert not {name.partition(".")[0] for name in imports(path)} & IMPURE, path
        source = ast.parse(path.read_text())
        calls = {n.attr for n in ast.walk(source) if isinstance(n, ast.Attribute)}
        assert not calls & {"now", "utcnow", "today"}, f"{path.name} reads the clock"


def test_statemachine_imports_no_json_and_names_no_revision() -> None:
    for path in files("statemachine"):
        assert "json" not in {name.partition(".")[0] for name in imports(path)}
        assert "2025" not in path.read_text().replace("2025-11-25:", "")


def test_rooms_import_in_one_direction() -> None:
    assert violations() == []


def test_every_module_of_adapters_is_in_an_ordered_room() -> None:
    placed = {room for rooms in ORDER for room in rooms} | set(BESIDE)
    adapters = REPOSITORY / "adapters"
    assert {path.name for path in adapters.glob("*.py")} == {"__init__.py"}
    assert {path.parent.name for path in adapters.glob("*/__init__.py")} <= placed


def test_there_are_no_import_cycles() -> None:
    graph = {name: set(imports(path)) for name, path in modules().items()}
    edges: dict[str, set[str]] = {name: set() for name in graph}
    for name, names_used in graph.items():
        for used in names_used:
            run = [other for other in graph if is_below(used, {other})]
            # A package re-exports its modules: importing from it counts for the module only.
            own = max(run, key=len, default=name)
            edges[name] |= {other for other in run if other == own or not is_below(name, {other})}
        edges[name].discard(name)
    while ready := [name for name, others in edges.items() if not others & edges.keys()]:
        for name in ready:
            del edges[name]
    assert edges == {}


def test_every_folder_with_code_is_installed() -> None:
    setuptools = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {
        path.parent for portion in PORTIONS for path in (REPOSITORY / portion).rglob("__init__.py")
    }
    assert setuptools["packages"] == sorted(map(name_of, folders))
    assert setuptools["package-dir"] == {"taskmachine": "/".join(FRONT_DOOR)} | {
        f"taskmachine.{portion}": portion for portion in PORTIONS
    }


def test_files_that_share_a_prefix_are_a_folder() -> None:
    for portion in PORTIONS:
        for folder in {path.parent for path in files(portion)}:
            prefixes = Counter(path.stem.partition("_")[0] for path in folder.glob("[a-z]*_*.py"))
            assert not [prefix for prefix, count in prefixes.items() if count > 2], folder


@pytest.mark.parametrize("portion", PORTIONS)
def test_modules_stay_small(portion: str) -> None:
    """The largest is a dialect with all its message classes."""
    for path in files(portion):
        assert len(path.read_text().splitlines()) <= 480, path


def test_only_ids_that_the_repository_defines_are_cited() -> None:
    """Requirement ids are defined in specs/requirements; private ids are not defined."""
    private = re.compile(r"\b(?:ERL|ROO|SWIFT|USER|X\d\d)-\d+")
    for pattern in ("**/*.py", "**/*.md", "**/*.toml"):
        for portion in (*PORTIONS, "docs", "tests"):
            for path in (REPOSITORY / portion).glob(pattern):
                assert not private.search(path.read_text()), path
