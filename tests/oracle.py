"""The specifications as tests use them, without any code under test."""

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

import jsonschema_rs

from taskmachine.specs import load_lifecycle, load_schema
from taskmachine.statemachine.invariants import RUNTIME, Lifecycle

SPEC: Final = load_lifecycle()
REVISIONS: Final = ("2025-11-25", "2026-07-28")
MOVES: Final[dict[str, dict[str, str]]] = SPEC["table"]["move"]
ILLEGAL: Final = "illegal"
DUTIES_BY_HAND: Final[dict[str, dict[str, str]]] = SPEC["table"]["duties"]

REPOSITORY: Final = Path(__file__).parent.parent
REFERENCE: Final = REPOSITORY.parent / "shared" / "reference"
"""The published schemas, if available, as a second oracle."""


def _runtime() -> Lifecycle:
    edges = {
        (source, dest)
        for source, row in MOVES.items()
        for dest in row.values()
        if dest not in (ILLEGAL, source)
    }
    ended = {"completed", "failed", "cancelled"}
    return Lifecycle(frozenset({"new"}), frozenset(ended), frozenset(edges))


def _generation(revision: str) -> Lifecycle:
    spec = SPEC["generation"][revision]
    return Lifecycle(
        frozenset(spec["initial"]),
        frozenset(spec["terminal"]),
        frozenset((source, dest) for source, dest in spec["edges"]),
    )


_ERLMCP: Final = Lifecycle(
    frozenset({"pending"}),
    frozenset({"completed", "failed", "cancelled"}),
    frozenset(
        {
            ("pending", "processing"),
            ("processing", "input_required"),
            ("input_required", "processing"),
            *((a, b) for a in ("pending", "processing", "input_required")
              for b in ("completed", "failed", "cancelled")),
        }
    ),
)  # fmt: skip

LIFECYCLES: Final = {RUNTIME: _runtime(), "erlmcp": _ERLMCP} | {
    name: _generation(name) for name in REVISIONS
}


@cache
def judge(revision: str, name: str) -> jsonschema_rs.Draft202012Validator:
    """Return a validator for one message by the schema in `specs/schema`."""
    return _validator(load_schema(revision), name)


@cache
def published_judge(file: str, name: str) -> jsonschema_rs.Draft202012Validator:
    """Return a validator for one message by the published schema in `REFERENCE`."""
    return _validator(json.loads((REFERENCE / file).read_text()), name)


def _validator(schema: dict[str, Any], name: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator({**schema, "$ref": f"#/$defs/{name}"})
