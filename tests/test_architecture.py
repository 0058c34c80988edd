"""Rules about the tree itself."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oracle import REPOSITORY

PORTIONS = ("statemachine", "protocol", "adapters", "specs")

# Who may import what, besides the standard library.
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

# No clock, no chance, no world below adapters.
IMPURE = {
    "asyncio", "concurrent", "ctypes", "io", "logging", "multiprocessing", "os", "pathlib",
    "random", "secrets", "select", "selectors", "signal", "socket", "sqlite3", "subprocess",
    "sys", "tempfile", "threading", "time", "uuid", "warnings",
}  # fmt: skip


def modules(portion: str) -> list[Path]:
    return sorted((REPOSITORY / portion).rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Full names, also those below TYPE_CHECKING or inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_below(name: str, roots: set[str]) -> bool:
    return any(name == root or name.startswith(root + ".") for root in roots)


@pytest.mark.parametrize("portion", ALLOWED)
def test_data_flows_one_way(portion: str) -> None:
    for path in modules(portion):
        for name in imports(path):
            if name.partition(".")[0] in sys.stdlib_module_names:
                continue
            assert is_below(name, ALLOWED[portion]), f"{path.name} imports {name}"


@pytest.mark.parametrize("portion", ["statemachine", "protocol"])
def test_the_core_is_pure(portion: str) -> None:
    for path in modules(portion):
        assert not {name.partition(".")[0] for name in imports(path)} & IMPURE, path
        source = ast.parse(path.read_text())
        calls = {n.attr for n in ast.walk(source) if isinstance(n, ast.Attribute)}
        assert not calls & {"now", "utcnow", "today"}, f"{path.name} reads the clock"


def test_statemachine_knows_no_json_and_no_revision() -> None:
    for path in modules("statemachine"):
        assert "json" not in {name.partition(".")[0] for name in imports(path)}
        assert "2025" not in path.read_text().replace("2025-11-25:", "")


def test_modules_do_not_import_each_other_in_circles() -> None:
    graph: dict[str, set[str]] = {}
    for portion in PORTIONS:
        for path in modules(portion):
            parts = path.relative_to(REPOSITORY).with_suffix("").parts
            name = ".".join(("taskmachine", *parts)).removesuffix(".__init__")
            graph[name] = set(imports(path))
    edges: dict[str, set[str]] = {name: set() for name in graph}
    for name, names_used in graph.items():
        for used in names_used:
            run = [other for other in graph if is_below(used, {other})]
            # A package gathers its own modules: they need it only for what it defines itself.
            own = max(run, key=len, default=name)
            edges[name] |= {other for other in run if other == own or not is_below(name, {other})}
        edges[name].discard(name)
    while ready := [name for name, others in edges.items() if not others & edges.keys()]:
        for name in ready:
            del edges[name]
    assert edges == {}


def test_every_folder_with_code_is_installed() -> None:
    setuptools = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["setuptools"]
    found = {
        ".".join(("taskmachine", *path.parent.relative_to(REPOSITORY).parts))
        for portion in PORTIONS
        for path in (REPOSITORY / portion).rglob("__init__.py")
    }
    assert set(setuptools["packages"]) == found
    for package, folder in setuptools["package-dir"].items():
        assert package == "taskmachine." + folder.replace("/", ".")


@pytest.mark.parametrize("portion", PORTIONS)
def test_modules_stay_small(portion: str) -> None:
    """One concern each; a dialect with all its message classes is the largest."""
    for path in modules(portion):
        assert len(path.read_text().splitlines()) <= 480, path
