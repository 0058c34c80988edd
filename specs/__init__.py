"""What the specifications say, written down by hand as data.

The independent oracle of the tests and of the conformance tester.  Nothing that decides a move
reads it.
"""

import json
import tomllib
from importlib.resources import files
from typing import Any

__all__ = ["load_lifecycle", "load_requirements", "load_schema"]


def load_lifecycle() -> dict[str, Any]:
    """Statuses and edges of each generation, and all 96 pairs of the table."""
    return tomllib.loads(files(__name__).joinpath("lifecycle.toml").read_text("utf-8"))


def load_requirements(revision: str) -> list[dict[str, Any]]:
    """Every MUST, SHOULD and MAY of one revision that tasks meet, in the order of its pages."""
    text = files(__name__).joinpath("requirements", f"{revision}.toml").read_text("utf-8")
    rows: list[dict[str, Any]] = tomllib.loads(text)["requirement"]
    return rows


def load_schema(revision: str) -> dict[str, Any]:
    """The JSON Schema of the task messages of one revision; look into its `$defs`."""
    schema: dict[str, Any] = json.loads(
        files(__name__).joinpath("schema", f"{revision}.json").read_text("utf-8")
    )
    return schema
