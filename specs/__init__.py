"""The specifications as hand-written data.

The independent oracle of the tests and of the conformance tester.  The code that moves tasks does
not read it.
"""

import json
import tomllib
from importlib.resources import files
from typing import Any

__all__ = ["load_lifecycle", "load_requirements", "load_schema"]


def load_lifecycle() -> dict[str, Any]:
    """Return the statuses and edges of each generation, and all 96 pairs of the table."""
    return tomllib.loads(files(__name__).joinpath("lifecycle.toml").read_text("utf-8"))


def load_requirements(revision: str) -> list[dict[str, Any]]:
    """Return the requirements of one revision that apply to tasks, in the order of its pages."""
    text = files(__name__).joinpath("requirements", f"{revision}.toml").read_text("utf-8")
    rows: list[dict[str, Any]] = tomllib.loads(text)["requirement"]
    return rows


def load_schema(revision: str) -> dict[str, Any]:
    """Return the JSON Schema of one revision's task messages, in its `$defs`."""
    schema: dict[str, Any] = json.loads(
        files(__name__).joinpath("schema", f"{revision}.json").read_text("utf-8")
    )
    return schema
