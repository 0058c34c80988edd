"""What came out of a run, before anybody prints it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from taskmachine.adapters.conformance.catalogue import Requirement
from taskmachine.adapters.conformance.history import Entry, History
from taskmachine.adapters.conformance.judging import CHECKS, Check, Observation, Verdict, judge
from taskmachine.adapters.conformance.profile import Profile

__all__ = ["OUR_FAULT", "Finding", "Report", "Run", "finding_of", "judge_all"]

OUR_FAULT: Final = "the check itself broke on what it saw"


@attrs.frozen
class Finding:
    """The verdict on one requirement."""

    requirement: Requirement
    verdict: Verdict
    words: str = ""
    """What was seen, the worst of it; or why there is no verdict."""
    transcript: tuple[Entry, ...] = ()
    times: int = 0
    """How often it was put to the test."""
    broken: int = 0
    """How often it was found broken."""

    @property
    def id(self) -> str:
        """Of the requirement."""
        return self.requirement.id


@attrs.frozen
class Run:
    """All verdicts of one revision."""

    revision: str
    transport: str
    findings: Sequence[Finding]
    profile: Profile
    server: Mapping[str, Any] = attrs.field(factory=dict)
    """What the target said of itself."""
    edges: Mapping[tuple[str, str], int] = attrs.field(factory=dict)
    """The moves of tasks that were seen, and how often."""
    took_ms: float = 0
    stopped: str | None = None
    """Why it ended before everything was tried."""
    replays: Mapping[str, Any] = attrs.field(factory=dict)
    """For what exploration found: the steps that show it, by the id of the requirement."""
    is_client: bool = False
    """Whether the target is a client, which has no tools."""

    def count(self, *verdicts: Verdict) -> int:
        """How many findings have one of these verdicts."""
        return sum(finding.verdict in verdicts for finding in self.findings)

    @property
    def broken(self) -> list[Finding]:
        """What was found, failures first."""
        found = [f for f in self.findings if f.verdict in (Verdict.FAIL, Verdict.WARNING)]
        return sorted(found, key=lambda finding: list(Verdict).index(finding.verdict))

    @property
    def exercised(self) -> int:
        """How many requirements were put to the test."""
        return sum(finding.times > 0 for finding in self.findings)

    @property
    def observable(self) -> int:
        """How many could be, on this transport."""
        return sum(
            finding.requirement.is_checked and self.transport in finding.requirement.transports
            for finding in self.findings
        )


@attrs.frozen
class Report:
    """All runs against one target."""

    target: str
    seed: int
    runs: Sequence[Run]
    known: frozenset[str] = frozenset()
    """Failures that a baseline has: they are shown, and do not count."""

    def count(self, *verdicts: Verdict) -> int:
        """How many findings have one of these verdicts and are not known."""
        return sum(
            finding.verdict in verdicts and finding.id not in self.known
            for run in self.runs
            for finding in run.findings
        )

    def exit_status(self, *, strict: bool = False) -> int:
        """0 if no MUST is broken, else 1; 3 if nothing could be tested; 4 for warnings if strict.

        2 is for what cannot be run at all.
        """
        if self.count(Verdict.FAIL):
            return 1
        if not any(run.exercised if run.is_client else run.profile for run in self.runs):
            return 3
        return 4 if strict and self.count(Verdict.WARNING) else 0


def judge_all(
    history: History, requirements: Mapping[str, Requirement], wanted: frozenset[str]
) -> list[Finding]:
    """The verdict on each of these requirements."""
    seen: dict[Check, list[Observation]] = {}
    findings = []
    for id, requirement in requirements.items():
        if id not in wanted:
            continue
        check = CHECKS.get(id)
        if history.transport not in requirement.transports:
            words = f"it is about {' and '.join(requirement.transports)}"
            findings.append(Finding(requirement, Verdict.NOT_APPLICABLE, words))
        elif check is None:
            words = requirement.reason or "nothing decides about it"
            findings.append(Finding(requirement, Verdict.NOT_APPLICABLE, words))
        else:
            if check not in seen:  # one may decide about several requirements
                seen[check] = _observe(check, history)
            findings.append(finding_of(requirement, seen[check], check.needs))
    return findings


def _observe(check: Check, history: History) -> list[Observation]:
    """A check that stumbles over what a target sent is our fault, and is said to be."""
    try:
        return list(check.observe(history))
    except Exception as error:  # noqa: BLE001  the other checks have something to say, too
        return [Observation("note", f"{OUR_FAULT}: {error!r}")]


def finding_of(requirement: Requirement, seen: Sequence[Observation], needs: str) -> Finding:
    """The verdict on a requirement by all that was seen: the worst of it."""
    judged = list(judge(requirement.level, seen))
    if not judged:
        words = f"it was not put to the test: needs {needs}" if needs else "it did not come to it"
        return Finding(requirement, Verdict.INCONCLUSIVE, words)
    counted = Counter(verdict for verdict, _ in judged)
    # Of equally bad ones the shortest shows it best.
    verdict, worst = min(
        judged, key=lambda one: (list(Verdict).index(one[0]), len(one[1].evidence))
    )
    broken = sum(counted[bad] for bad in (Verdict.FAIL, Verdict.WARNING))
    return Finding(requirement, verdict, worst.words, worst.evidence, len(judged), broken)
