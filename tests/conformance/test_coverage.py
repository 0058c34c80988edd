"""Every requirement has a check or a reason, and every check a planted bug."""

from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any, Final, TypeGuard

import pytest

from taskmachine.adapters.conformance.catalogue import load_checks, requirements_of_servers
from taskmachine.adapters.conformance.judging import CHECKS, REASONS
from tests.conformance.planted import all_bugs
from tests.conformance.planting import REVISIONS
from tests.conformance.runs import jobs

LEAST_BUGS: Final = 60

CONDEMNS: Final = frozenset({"bad", "warning"})

load_checks()


def _can_condemn(function: FunctionType) -> bool:
    """Whether it names what condemns, itself or by a function of the checks that it names."""
    seen: set[FunctionType] = set()
    todo = [function]
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        names = set(_names(one.__code__))
        if names & CONDEMNS:
            return True
        inside = [cell.cell_contents for cell in one.__closure__ or ()]
        todo += filter(_is_of_checks, [*map(one.__globals__.get, names), *inside])
    return False


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _is_of_checks(value: Any) -> TypeGuard[FunctionType]:
    return isinstance(value, FunctionType) and ".conformance.checks." in value.__module__


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_observable_requirement_has_a_check_or_a_reason(revision: str) -> None:
    undecided = [
        id
        for id, row in requirements_of_servers(revision).items()
        if row.unobservable is None and id not in CHECKS and id not in REASONS
    ]
    assert not undecided


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_check_that_can_condemn_has_a_bug(revision: str) -> None:
    broken = {id for bug in all_bugs().values() for id in bug.breaks}
    unseen = [
        id
        for id, row in requirements_of_servers(revision).items()
        if id in CHECKS
        and row.level != "MAY"  # never more than a note
        and _can_condemn(CHECKS[id].function)  # type: ignore[arg-type]
        and id not in broken
    ]
    assert not unseen


def test_every_server_bug_breaks_existing_checks() -> None:
    known = {id for revision in REVISIONS for id in requirements_of_servers(revision)}
    for bug in all_bugs().values():
        assert bug.breaks, bug.name
        assert bug.breaks <= CHECKS.keys(), bug.name
        assert bug.breaks | bug.also <= known, bug.name


def test_every_planted_bug_breaks_a_check_in_each_of_its_jobs() -> None:
    assert not [str(job) for job in jobs(full=True) if not job.breaks]


def test_there_are_many_bugs() -> None:
    assert len(all_bugs()) >= LEAST_BUGS
