"""The result of a check, independent of its presentation."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from taskmachine.adapters.conformance.catalogue import Requirement
from taskmachine.adapters.conformance.history import Entry, History
from taskmachine.adapters.conformance.judging import CHECKS, Check, Observation, Verdict, judge
from taskmachine.adapters.conformance.profile import Profile

__all__ = ["CHECK_ERROR", "Finding", "Report", "Run", "finding_of", "judge_all"]

CHECK_ERROR: Final = "internal error in the check"


@attrs.frozen
class Finding:
    """The verdict on one requirement."""

    requirement: Requirement
    verdict: Verdict
    words: str = ""
    """Description of the worst observation, or the reason for a missing verdict."""
    transcript: tuple[Entry, ...] = ()
    times: int = 0
    """Number of observations."""
    broken: int = 0
    """Number of observations that violate the requirement."""

    @property
    def id(self) -> str:
        """The requirement's id."""
        return self.requirement.id


@attrs.frozen
class Run:
    """All verdicts of one revision."""

    revision: str
    transport: str
    findings: Sequence[Finding]
    profile: Profile
    server: Mapping[str, Any] = attrs.field(factory=dict)
    """The target's description of itself: its handshake result."""
    edges: Mapping[tuple[str, str], int] = attrs.field(factory=dict)
    """Observed status transitions and their counts."""
    took_ms: float = 0
    stopped: str | None = None
    """Why the run ended early."""
    replays: Mapping[str, Any] = attrs.field(factory=dict)
    """Faults found by exploration, with their moves, by requirement id."""
    is_client: bool = False
    """Whether the target is a client; clients have no tools."""

    def count(self, *verdicts: Verdict) -> int:
        """Count the findings with one of these verdicts."""
        return sum(finding.verdict in verdicts for finding in self.findings)

    @property
    def broken(self) -> list[Finding]:
        """Failures, then warnings."""
        found = [f for f in self.findings if f.verdict in (Verdict.FAIL, Verdict.WARNING)]
        return sorted(found, key=lambda finding: list(Verdict).index(finding.verdict))

    @property
    def exercised(self) -> int:
        """Number of requirements that were exercised."""
        return sum(finding.times > 0 for finding in self.findings)

    @property
    def observable(self) -> int:
        """Number of requirements that can be exercised on this transport."""
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
    """Ids of known failures: shown, but without effect on the exit status."""

    def count(self, *verdicts: Verdict) -> int:
        """Count the findings with one of these verdicts that are not known."""
        return sum(
            finding.verdict in verdicts and finding.id not in self.known
            for run in self.runs
            for finding in run.findings
        )

    @property
    def summary(self) -> str:
        """The result in one sentence."""
        return {
            0: "No MUST requirement is violated.",
            1: "At least one MUST requirement is violated.",
            3: "Nothing could be tested.",
        }[self.exit_status()]

    def exit_status(self, *, strict: bool = False) -> int:
        """Return 0, or 1 if a MUST is violated, 3 if nothing was tested, 4 for warnings if strict.

        Status 2 is for checks that cannot be run at all.
        """
        if self.count(Verdict.FAIL):
            return 1
        if not any(run.exercised if run.is_client else run.profile for run in self.runs):
            return 3
        return 4 if strict and self.count(Verdict.WARNING) else 0


def judge_all(
    history: History, requirements: Mapping[str, Requirement], wanted: frozenset[str]
) -> list[Finding]:
    """Return the verdict on each wanted requirement."""
    seen: dict[Check, list[Observation]] = {}
    findings = []
    for id, requirement in requirements.items():
        if id not in wanted:
            continue
        check = CHECKS.get(id)
        if history.transport not in requirement.transports:
            words = f"applies only to {' and '.join(requirement.transports)}"
            findings.append(Finding(requirement, Verdict.NOT_APPLICABLE, words))
        elif check is None:
            words = requirement.reason or "no check available"
            findings.append(Finding(requirement, Verdict.NOT_APPLICABLE, words))
        else:
            if check not in seen:  # one check may decide several requirements
                seen[check] = _observe(check, history)
            findings.append(finding_of(requirement, seen[check], check.needs))
    return findings


def _observe(check: Check, history: History) -> list[Observation]:
    """Run a check. If it raises, report an internal error instead of a verdict."""
    try:
        return list(check.observe(history))
    except Exception as error:  # noqa: BLE001  the other checks must still run
        return [Observation("note", f"{CHECK_ERROR}: {error!r}")]


def finding_of(requirement: Requirement, seen: Sequence[Observation], needs: str) -> Finding:
    """Return the worst verdict of all observations."""
    judged = list(judge(requirement.level, seen))
    if not judged:
        words = f"not exercised: needs {needs}" if needs else "not exercised"
        return Finding(requirement, Verdict.INCONCLUSIVE, words)
    counted = Counter(verdict for verdict, _ in judged)
    # Prefer the shortest transcript of equally severe observations.
    verdict, worst = min(
        judged, key=lambda one: (list(Verdict).index(one[0]), len(one[1].evidence))
    )
    broken = sum(counted[bad] for bad in (Verdict.FAIL, Verdict.WARNING))
    return Finding(requirement, verdict, worst.words, worst.evidence, len(judged), broken)
