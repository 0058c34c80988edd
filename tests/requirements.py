"""The tests of each requirement.

A test names its requirements with `@covers("2025-11-25:begins-working", ...)`; a row of the
catalogue that no test can show has a reason in `untested`.
"""

import ast
from collections.abc import Iterator
from typing import Final

import pytest

from tests.oracle import REPOSITORY

covers: Final = pytest.mark.requirement


def citations() -> dict[str, list[str]]:
    """Map each requirement id to the tests that cover it, as `path::test`."""
    found: dict[str, list[str]] = {}
    for path in sorted((REPOSITORY / "tests").rglob("test_*.py")):
        name = path.relative_to(REPOSITORY).as_posix()
        for function in ast.walk(ast.parse(path.read_text())):
            match function:
                case ast.FunctionDef() | ast.AsyncFunctionDef() if function.name.startswith(
                    "test_"
                ):
                    for cited in _cited(function):
                        found.setdefault(cited, []).append(f"{name}::{function.name}")
    return found


def _cited(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for decorator in function.decorator_list:
        for node in ast.walk(decorator):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "covers":
                yield from (ast.literal_eval(argument) for argument in node.args)
