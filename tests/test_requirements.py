"""The catalogue of requirements is complete and covered by tests."""

import re
from typing import Any, Final

import pytest

from taskmachine.specs import load_requirements
from tests.oracle import REPOSITORY, REVISIONS
from tests.requirements import citations

ROWS: Final = {revision: load_requirements(revision) for revision in REVISIONS}
IDS: Final = {row["id"] for rows in ROWS.values() for row in rows}
CITED: Final = citations()

LEVELS = {"MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "implied"}
WHO = {
    "2025-11-25": {"receiver", "requestor", "client", "server", "both"},
    "2026-07-28": {"client", "server", "both"},
}
every_revision = pytest.mark.parametrize("revision", REVISIONS)


@every_revision
def test_rows_are_well_formed(revision: str) -> None:
    rows = ROWS[revision]
    assert len(rows) >= 60
    assert len({row["id"] for row in rows}) == len(rows)
    for row in rows:
        assert re.fullmatch(rf"{revision}:[a-z0-9]+(-[a-z0-9]+)*", row["id"])
        assert row["level"] in LEVELS, row
        assert row["who"] in WHO[revision], row
        assert isinstance(row["pure"], bool), row
        assert row["page"], row
        assert row["section"], row
        assert 10 <= len(row["says"]) <= 200, row
        assert ("observed" in row) != ("unobservable" in row), row


@every_revision
def test_every_pure_row_has_a_test_or_a_reason(revision: str) -> None:
    bare = [
        row["id"]
        for row in ROWS[revision]
        if row["pure"] and row["id"] not in CITED and not row.get("untested")
    ]
    assert bare == []


@every_revision
def test_only_untested_requirements_have_a_reason(revision: str) -> None:
    both = [row["id"] for row in ROWS[revision] if "untested" in row and row["id"] in CITED]
    assert both == []


@every_revision
def test_most_musts_are_tested(revision: str) -> None:
    musts: list[dict[str, Any]] = [
        row for row in ROWS[revision] if row["pure"] and row["level"] in ("MUST", "MUST NOT")
    ]
    tested = sum(row["id"] in CITED for row in musts)
    assert tested / len(musts) >= 0.8


def test_tests_cite_only_existing_requirements() -> None:
    assert sorted(CITED.keys() - IDS) == []


def test_code_cites_only_existing_requirements() -> None:
    for portion in ("statemachine", "protocol", "adapters"):
        for path in sorted((REPOSITORY / portion).rglob("*.py")):
            cited = re.findall(r"\b20\d\d-\d\d-\d\d:[a-z][a-z0-9-]+", path.read_text())
            assert set(cited) <= IDS, f"{path.name} cites {sorted(set(cited) - IDS)}"
