"""Contestants that cannot be measured are skipped with a reason, and the rest are measured."""

import sys
from functools import partial
from pathlib import Path

import attrs
import pytest

from taskmachine.adapters.cli.bench import installing
from taskmachine.adapters.cli.bench.contestants import FLOOR, PEERS, Contestant, ours, peers
from taskmachine.adapters.cli.bench.figures import Failed, case_of
from taskmachine.adapters.cli.bench.growth import measure_growth
from taskmachine.adapters.cli.bench.installing import NotInstalled, install_python, slug
from taskmachine.adapters.cli.bench.loads import GET
from taskmachine.adapters.cli.bench.pipes import measure_start
from taskmachine.adapters.cli.bench.rounds import Measure, Round, run_rounds
from taskmachine.adapters.cli.bench.workload import quick

OLD = "2025-11-25"


def peer(name: str, *command: str, missing: str = "") -> Contestant:
    return Contestant(name, OLD, lambda *_: command, stdio=lambda *_: command, missing=missing)


MISSING = peer("missing", missing="there is no node")
ENDS = peer("ends", sys.executable, "-c", "print('no such module'); raise SystemExit(1)")
WRONG = peer("wrong", *FLOOR)
"""Answers `{}` to everything: fast, but wrong."""


def nothing(sentence: str) -> None:
    pass


def test_broken_contestants_are_skipped_with_a_reason(tmp_path: Path) -> None:
    [mine, *_] = ours()
    rows = run_rounds([GET], [MISSING, ENDS, WRONG, mine], quick(), tmp_path, nothing)
    reasons = {row.contestant: row.skipped for row in rows if row.skipped}
    assert reasons.keys() == {"missing", "ends", "wrong"}
    assert reasons["missing"] == "there is no node"
    assert "no such module" in reasons["ends"]
    assert "not the result of request 1" in reasons["wrong"]
    assert {row.contestant for row in rows if row.values} == {"ours, memory"}


def test_start_and_growth_measurements_skip_broken_contestants(tmp_path: Path) -> None:
    rows = measure_start([MISSING, ENDS], quick(), nothing)
    assert {row.contestant for row in rows if row.skipped} == {"missing", "ends"}
    rows = measure_growth([MISSING, ENDS, WRONG], quick(), tmp_path, nothing)
    assert {row.contestant for row in rows if row.skipped} == {"missing", "ends", "wrong"}


def test_contestant_that_fails_in_one_case_keeps_its_other_cases(tmp_path: Path) -> None:
    measure = Measure("get", lambda one_round: {"1 at a time": {"rate": 1.0}, "256": "it hung up"})
    few, many = run_rounds([measure], [WRONG], quick(), tmp_path, nothing)
    assert few.values == {"rate": 1.0}
    assert (many.case, many.skipped) == ("256", "it hung up")


def test_failed_contestant_is_not_measured_again(tmp_path: Path) -> None:
    asked: list[str] = []

    def take(one_round: Round) -> dict[str, dict[str, float]]:
        asked.append(one_round.contestant.name)
        raise Failed("never")

    twice = attrs.evolve(quick(), rounds=2, whole_rounds=2)
    [row] = run_rounds([Measure("get", take)], [WRONG], twice, tmp_path, nothing)
    assert asked == ["wrong"]
    assert row.skipped == "never"


def test_later_rounds_repeat_only_judged_measurements(tmp_path: Path) -> None:
    asked: list[tuple[str, int]] = []

    def take(name: str, one_round: Round) -> dict[str, dict[str, float]]:
        asked.extend((name, count) for count in one_round.workload.clients)
        return {case_of(count): {"rate": float(len(asked))} for count in one_round.workload.clients}

    measures = [
        Measure("get", partial(take, "get"), is_repeated=True),
        Measure("wake", partial(take, "wake")),
    ]
    workload = attrs.evolve(quick(), rounds=3)
    rows = run_rounds(measures, [WRONG], workload, tmp_path, nothing)
    assert asked == [("get", 1), ("get", 32), ("wake", 1), ("wake", 32), ("get", 32), ("get", 32)]
    found = {(row.measure, row.case): len(row.rounds) for row in rows}
    assert found["get", "32 at a time"] == 3
    assert found["get", "1 at a time"] == found["wake", "32 at a time"] == 1


def test_failed_installation_names_the_package_and_leaves_no_ready_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(NotInstalled, match="no-such-package==1"):
        install_python(tmp_path, "no-such-package==1")
    assert not (tmp_path / "no-such-package-1" / installing.READY).exists()


def test_without_node_its_peer_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    [found] = peers(tmp_path, lambda name: name == PEERS[4], nothing)
    assert found.missing == "node or npm is not installed"


@pytest.mark.parametrize(
    ("requirement", "folder"),
    [
        ("mcp==1.30.0", "mcp-1.30.0"),
        ("fastmcp[tasks]==4.1.2", "fastmcp-4.1.2"),
        ("@modelcontextprotocol/sdk@1.32.2", "modelcontextprotocol-sdk-1.32.2"),
    ],
)
def test_each_version_has_a_folder_of_its_own(requirement: str, folder: str) -> None:
    assert slug(requirement) == folder
