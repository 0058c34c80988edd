"""Each check reports the expected outcomes for handwritten histories: the tables stand beside."""

import importlib
import pkgutil
from collections import Counter
from collections.abc import Iterator

import pytest

from taskmachine.adapters.conformance.catalogue import requirements_of_servers
from taskmachine.adapters.conformance.judging import CHECKS
from tests.conformance import checks
from tests.conformance.checks.cases import BAD, GOOD, WARNING, Case, outcomes

PAGES = ("basic/index", "basic/versioning", "basic/transports/", "server/discover")


def _cases() -> Iterator[Case]:
    for module in pkgutil.walk_packages(checks.__path__, f"{checks.__name__}."):
        if ".test_" not in module.name:
            yield from getattr(importlib.import_module(module.name), "CASES", ())


def _names(cases: list[Case]) -> Iterator[str]:
    seen = Counter[str]()
    for case in cases:
        seen[str(case)] += 1
        yield f"{case} {seen[str(case)]}"


CASES = list(_cases())


@pytest.mark.parametrize("case", CASES, ids=_names(CASES))
def test_a_check_reports_the_expected_outcomes(case: Case) -> None:
    assert outcomes(case.check, case.history) == case.expected


def test_every_check_of_these_pages_is_seen_to_accept_and_to_condemn() -> None:
    reported: dict[str, set[str]] = {}
    for case in CASES:
        reported.setdefault(case.requirement, set()).update(case.expected)
    for id, requirement in requirements_of_servers("2026-07-28").items():
        if id in CHECKS and requirement.page.startswith(PAGES):
            assert reported.get(id, set()) >= GOOD, id
            assert requirement.level == "MAY" or reported[id] & (BAD | WARNING), id
