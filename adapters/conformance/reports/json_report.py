"""The report as JSON."""

import json
from collections import Counter
from typing import Any

from taskmachine.adapters.conformance.history import MISSING, Entry
from taskmachine.adapters.conformance.report import Finding, Report, Run

__all__ = ["render"]


def render(report: Report) -> str:
    """Render the report; `version` changes when its format does."""
    document = {
        "version": 1,
        "target": report.target,
        "seed": report.seed,
        "exitStatus": report.exit_status(),
        "runs": [_run(run, report.known) for run in report.runs],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _run(run: Run, known: frozenset[str]) -> dict[str, Any]:
    return {
        "revision": run.revision,
        "transport": run.transport,
        "server": dict(run.server),
        "exercised": run.exercised,
        "observable": run.observable,
        "tookMs": round(run.took_ms),
        "stopped": run.stopped,
        "verdicts": dict(Counter(finding.verdict.value for finding in run.findings)),
        "tools": {role: call.params for role, call in run.profile.calls.items()},
        "edges": [[a, b, count] for (a, b), count in run.edges.items()],
        "findings": [_finding(finding, finding.id in known) for finding in run.findings],
    }


def _finding(finding: Finding, is_known: bool) -> dict[str, Any]:
    requirement = finding.requirement
    return {
        "id": finding.id,
        "level": requirement.level,
        "page": requirement.page,
        "section": requirement.section,
        "says": requirement.says,
        "verdict": finding.verdict.value,
        "known": is_known,
        "words": finding.words,
        "times": finding.times,
        "broken": finding.broken,
        "transcript": [_entry(entry) for entry in finding.transcript],
    }


def _entry(entry: Entry) -> dict[str, Any]:
    written: dict[str, Any] = {
        "atMs": round(entry.at, 1),
        "kind": entry.kind.value,
        "caller": entry.caller,
        "line": entry.line,
    }
    if entry.message is not MISSING:
        written["message"] = entry.message
    if entry.text is not None:
        written["text"] = entry.text
    if entry.http is not None:
        http = {"method": entry.http.method, "status": entry.http.status}
        written["http"] = {name: value for name, value in http.items() if value}
    return written
