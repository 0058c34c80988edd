"""`checking.check`: the entry point of the tester, for programs and for its own command."""

import asyncio
import sys
from pathlib import Path
from typing import Final

import pytest

from taskmachine.adapters.conformance.checking import check, check_client, revisions_of
from taskmachine.adapters.conformance.errors import CannotCheck
from taskmachine.adapters.conformance.judging import Verdict
from taskmachine.adapters.conformance.report import Finding, Report
from taskmachine.adapters.conformance.run import Options
from taskmachine.adapters.conformance.target import Target

SERVER: Final = f"{Path(sys.executable).parent / 'taskmachine'} serve --stdio --store memory:"
QUICK: Final = Options(budget_s=4, examples=1)


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(SERVER, id="command"),
        pytest.param(Target.at(SERVER), id="target", marks=[pytest.mark.slow, pytest.mark.bugs]),
    ],
)
def test_check_accepts_a_command_target_and_reports_its_progress(target: str | Target) -> None:
    told: list[str] = []

    def run() -> tuple[Report, list[Finding]]:
        checked = check(
            target,
            generation="2025-11-25", options=QUICK, known=["some-id"], on_progress=told.append,
        )  # fmt: skip
        report = asyncio.run(checked)
        return report, [f for r in report.runs for f in r.findings if f.verdict is Verdict.FAIL]

    report, failed = run()
    if failed:  # on a busy machine, correct answers come late: a failure must repeat
        report, failed = run()
    assert (report.exit_status(), failed) == (0, [])
    assert report.target == SERVER
    assert report.known == {"some-id"}
    assert [run.revision for run in report.runs] == ["2025-11-25"]
    assert report.runs[0].exercised > 50
    assert "discovering tools" in told


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("http://127.0.0.1:9/mcp", "cannot connect to the target"),
        ("ftp://127.0.0.1/mcp", "is not an http:// or https:// URL"),
        ("no-such-program --stdio", "cannot start 'no-such-program'"),
        ("'", "cannot read the command"),
        (" ", "the command is empty"),
    ],
)
def test_a_target_out_of_reach_is_explained(target: str, words: str) -> None:
    with pytest.raises(CannotCheck, match=words):
        asyncio.run(check(target))


def test_a_requirement_that_does_not_exist_is_refused() -> None:
    with pytest.raises(CannotCheck, match="unknown requirement 'no-such'"):
        asyncio.run(check(SERVER, options=Options(skip=frozenset({"no-such"}))))
    with pytest.raises(CannotCheck, match="cannot be negative"):
        Options(examples=-1)


def test_requirements_of_clients_can_be_chosen_for_clients_only() -> None:
    chosen = Options(only=frozenset({"2026-07-28:header-value-base64"}))
    with pytest.raises(CannotCheck, match="unknown requirement"):
        asyncio.run(check(SERVER, options=chosen))
    with pytest.raises(CannotCheck, match="cannot start 'no-such-client'"):
        asyncio.run(check_client("no-such-client {url}", options=chosen))


def test_target_distinguishes_urls_from_commands() -> None:
    assert Target.at("HTTPS://example.org/mcp") == Target("HTTPS://example.org/mcp")
    assert Target.at("run --url http://x").command == ["run", "--url", "http://x"]
    assert Target(command=["a", "b c"]).address == "a 'b c'"


def test_every_revision_is_checked_unless_one_is_named() -> None:
    assert revisions_of("auto") == revisions_of("both") == ["2025-11-25", "2026-07-28"]
    assert revisions_of("2026-07-28") == ["2026-07-28"]
