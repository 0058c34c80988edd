"""The reports: everything is in them, for people and programs, whatever a target sends."""

import io
import json
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pytest
from rich.console import Console

from taskmachine.adapters.conformance.catalogue import Requirement
from taskmachine.adapters.conformance.errors import CannotCheck
from taskmachine.adapters.conformance.exploration.exploring import Fault
from taskmachine.adapters.conformance.exploration.replaying import read_replay, write_replays
from taskmachine.adapters.conformance.judging import Verdict
from taskmachine.adapters.conformance.profile import Profile, Role, ToolCall
from taskmachine.adapters.conformance.report import Finding, Report, Run
from taskmachine.adapters.conformance.reports import html, json_report, junit, terminal
from tests.conformance.histories.messages import messages

NASTY: Final = "<script>alert('\x07&')</script>"
URL: Final = "http://127.0.0.1:1/mcp"


def a_requirement(id: str, level: str = "MUST") -> Requirement:
    return Requirement(id, level, "basic/page", "Section", f"Somebody must do what {id} says.")


def a_report(*verdicts: Verdict, known: frozenset[str] = frozenset()) -> Report:
    """A finding for each of these verdicts, with a transcript that is hard to print."""
    transcript = (
        messages("2025-11-25", "http")
        .request("tasks/get", {"taskId": NASTY})
        .answer({"taskId": NASTY, "status": "completed"})
        .history.entries
    )
    findings = [
        Finding(a_requirement(f"rule-{verdict}"), verdict, f"seen {NASTY}", tuple(transcript), 2, 1)
        for verdict in verdicts
    ]
    profile = Profile({Role.COMPLETES: ToolCall("a tool", {"text": NASTY})})
    fault = Fault("alive", "it died", ({"do": "pause", "ms": 1},))
    edges = {("working", "completed"): 2, ("completed", "working"): 1}
    run = Run("2025-11-25", "http", findings, profile, {}, edges, 12.0, None, {"alive": fault})
    return Report(URL, 7, [run], known)


ALL: Final = a_report(*Verdict)


def test_json_has_every_finding_with_its_transcript() -> None:
    read = json.loads(json_report.render(ALL))
    (run,) = read["runs"]
    assert [finding["verdict"] for finding in run["findings"]] == [v.value for v in Verdict]
    assert run["findings"][0]["transcript"][0]["message"]["params"] == {"taskId": NASTY}
    assert read["exitStatus"] == 1
    assert read["seed"] == 7


def test_junit_report_counts_failures_and_undecided_checks_as_skipped() -> None:
    (suite,) = ElementTree.fromstring(junit.render(ALL))
    counts = {name: suite.get(name) for name in ("tests", "failures", "skipped")}
    assert counts == {"tests": "6", "failures": "1", "skipped": "2"}
    cases = {case.get("name"): [part.tag for part in case] for case in suite}
    assert cases == {
        "rule-fail": ["failure"],
        "rule-warning": ["system-out"],
        "rule-note": ["system-out"],
        "rule-pass": [],
        "rule-inconclusive": ["skipped"],
        "rule-not applicable": ["skipped"],
    }


def test_a_known_failure_is_shown_and_does_not_count() -> None:
    report = a_report(Verdict.FAIL, known=frozenset({"rule-fail"}))
    assert report.exit_status() == 0
    (suite,) = ElementTree.fromstring(junit.render(report))
    assert (suite.get("failures"), suite.get("skipped")) == ("0", "1")
    assert "(known)" in html.render(report)
    assert json.loads(json_report.render(report))["runs"][0]["findings"][0]["known"] is True


def test_html_report_is_complete_and_escapes_target_output() -> None:
    page = html.render(ALL)
    assert "<script>alert" not in page
    assert "{{" not in page
    assert all(f'data-verdict="{v.replace(" ", "-")}"' in page for v in Verdict)
    assert 'class="broken"' in page, "a move out of a terminal state is red"
    assert "http://" not in page.replace(URL, ""), "it needs nothing from elsewhere"
    assert "curl -sN" in page


def test_a_terminal_of_100_columns_shows_failures_first() -> None:
    out = io.StringIO()
    terminal.show(ALL, Console(file=out, width=100, no_color=True))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 100
    places = [out.getvalue().index(f"rule-{verdict}") for verdict in ("fail", "warning", "note")]
    assert places == sorted(places)
    assert "rule-pass" not in out.getvalue(), "what is fine is only counted"
    assert "\x07" not in out.getvalue()


@pytest.mark.parametrize(
    ("verdicts", "strict", "status"),
    [
        ([Verdict.PASS], False, 0),
        ([Verdict.WARNING], False, 0),
        ([Verdict.WARNING], True, 4),
        ([Verdict.NOTE, Verdict.INCONCLUSIVE], True, 0),
        ([Verdict.FAIL, Verdict.WARNING], True, 1),
    ],
)
def test_exit_status_reflects_the_verdicts(
    verdicts: list[Verdict], strict: bool, status: int
) -> None:
    assert a_report(*verdicts).exit_status(strict=strict) == status


def test_without_any_tool_there_is_nothing_to_test() -> None:
    run = Run("2025-11-25", "http", [], Profile())
    assert Report(URL, 0, [run]).exit_status() == 3


def test_replays_and_requests_are_written_and_read_again(tmp_path: Path) -> None:
    write_replays(ALL, tmp_path / "new" / "folder")
    (replay,) = (tmp_path / "new" / "folder").glob("*.replay.json")
    again = read_replay(replay.read_text())
    assert (again.id, again.moves) == ("alive", ({"do": "pause", "ms": 1},))
    assert again.calls == {Role.COMPLETES: ToolCall("a tool", {"text": NASTY})}
    requests = (tmp_path / "new" / "folder" / "rule-fail.2025-11-25.requests.txt").read_text()
    assert requests.count("curl -sN -X POST") == 1


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"revision": "2025-11-25", "id": "no-such", "moves": [], "calls": {}}'],
)
def test_text_that_is_not_a_replay_file_is_refused(text: str) -> None:
    with pytest.raises(CannotCheck, match="not a replay file"):
        read_replay(text)


def test_no_transcript_gives_a_token_away() -> None:
    from taskmachine.adapters.conformance.transcripts import lines, pasteable

    history: Any = (
        messages("2026-07-28", "http")
        .request("tasks/get", {"taskId": "a"}, headers={"authorization": "Bearer secret"})
        .history
    )
    printed = [*lines(history.entries), *pasteable(history.entries, URL)]
    assert any("$TOKEN" in line for line in printed)
    assert not any("secret" in line for line in printed)
