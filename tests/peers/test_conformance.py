"""The official conformance suite finds no failure, where it can be installed."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.stores.postgres_server import running
from tests.peers.conformance import (
    NOT_APPLICABLE,
    NOT_APPLICABLE_CHECKS,
    NOTHING_TO_CHECK,
    Run,
    Suite,
    Verdict,
    table,
)
from tests.peers.installed import Unavailable
from tests.peers.serving import serving

pytestmark = [pytest.mark.slow, pytest.mark.peers]


@pytest.fixture(scope="module")
def suite() -> Suite:
    try:
        return Suite()
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture(params=["memory", "postgresql"])
def store(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "memory":
        yield "memory:"
        return
    with running() as database:
        yield database.new_url()


def test_the_suite_finds_nothing_wrong(suite: Suite, store: str, tmp_path: Path) -> None:
    runs = [run for run in suite.runs() if run.scenario not in NOT_APPLICABLE]
    with serving("conformance", tmp_path, "--store", store) as server:
        before = server.names()
        verdicts = suite.judge(server.url, runs)
        assert server.names() == before, "it is still the server that it was"
    assert [verdict.run for verdict in verdicts] == runs
    assert not [verdict for verdict in verdicts if verdict.wrong], table(verdicts)


def test_exclusions_name_only_scenarios_of_the_suite(suite: Suite) -> None:
    """An exclusion must not outlive the scenario it names."""
    known = {run.scenario for run in suite.runs()}
    excused = {*NOT_APPLICABLE, *NOTHING_TO_CHECK, *(name for name, _ in NOT_APPLICABLE_CHECKS)}
    assert excused <= known
    assert {run.scenario for run in suite.runs() if run.revision is None} - {*NOT_APPLICABLE} == {
        "tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields",
        "tasks-request-state-removal", "tasks-mrtr-input", "tasks-request-headers",
        "tasks-dispatch-and-envelope", "tasks-status-notifications", "tasks-required-task-error",
        "tasks-mrtr-composition",
    }  # fmt: skip


def test_a_server_that_is_not_there_does_not_pass(suite: Suite) -> None:
    runs = [Run("tasks-lifecycle", None), Run("no-such-scenario", None)]
    verdicts = suite.judge("http://127.0.0.1:9/mcp", runs)
    assert all(verdict.wrong for verdict in verdicts)


CHECK: Mapping[str, Any] = {"id": "it", "description": "it works"}


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict(Run("one", None), [{**CHECK, "status": "FAILURE", "errorMessage": "it did not"}]),
        Verdict(Run("one", None), [{**CHECK, "status": "SKIPPED"}, {**CHECK, "status": "INFO"}]),
        Verdict(Run("one", None), []),
        Verdict(Run("one", None), [{**CHECK, "status": "SUCCESS"}], "no report"),
    ],
)
def test_conformance_verdict_without_a_clean_success_is_wrong(verdict: Verdict) -> None:
    assert verdict.wrong
    assert "wrong: " in table([verdict])


def test_success_is_success() -> None:
    verdict = Verdict(Run("one", None), [{**CHECK, "status": "SUCCESS"}])
    assert not verdict.wrong
    assert "wrong: " not in table([verdict])
