"""Judge the runs of a client."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from taskmachine.adapters.conformance.clients.catalogue import ClientRequirement
from taskmachine.adapters.conformance.clients.program import ProcessResult
from taskmachine.adapters.conformance.clients.script import Scenario
from taskmachine.adapters.conformance.clients.view import original
from taskmachine.adapters.conformance.history import History
from taskmachine.adapters.conformance.judging import Check, Observation, Verdict
from taskmachine.adapters.conformance.report import Finding, finding_of

__all__ = ["ClientRun", "judge_clients"]


@attrs.frozen
class ClientRun:
    """One run of a client."""

    scenario: Scenario
    history: History
    ran: ProcessResult

    @property
    def was_asked_for_tasks(self) -> bool:
        """Whether the scripted server sent task-augmented requests to the client."""
        return any("task" in exchange.params for exchange in self.history.exchanges)

    @property
    def takes_tasks(self) -> bool:
        """Whether the client declares tasks of its own (2025-11-25)."""
        declared = [e.params.get("capabilities") for e in self.history.heard]
        return any(isinstance(one, dict) and "tasks" in one for one in declared)


def judge_clients(
    played: Sequence[ClientRun],
    requirements: Mapping[str, ClientRequirement],
    wanted: frozenset[str],
) -> list[Finding]:
    """Return the verdict on each wanted requirement over all runs."""
    seen: dict[Check, list[Observation]] = {}
    transports = {one.history.transport for one in played}
    takes_tasks = any(one.takes_tasks for one in played)
    findings = []
    for id, requirement in requirements.items():
        if id not in wanted:
            continue
        check = requirement.check
        if transports and not transports & set(requirement.transports):
            words = f"applies only to {' and '.join(requirement.transports)}"
            findings.append(Finding(requirement, Verdict.NOT_APPLICABLE, words))
        elif check is None:
            words = requirement.reason or "no check available"
            findings.append(Finding(requirement, Verdict.NOT_APPLICABLE, words))
        else:
            if check not in seen:
                all_count = not requirement.is_for_receivers
                fitting = [p for p in played if all_count or p.was_asked_for_tasks]
                seen[check] = list(itertools.chain.from_iterable(_observe(check, fitting)))
            if requirement.is_for_receivers and not takes_tasks and not seen[check]:
                words = "the client does not declare tasks"
                findings.append(Finding(requirement, Verdict.NOT_APPLICABLE, words))
            else:
                findings.append(finding_of(requirement, seen[check], check.needs))
    return findings


def _observe(check: Check, played: Iterable[ClientRun]) -> Iterator[list[Observation]]:
    for one in played:
        yield [_told(observation, one) for observation in check.observe(one.history)]


def _told(observation: Observation, played: ClientRun) -> Observation:
    """Add the scenario's name, and map the evidence back to the server's view."""
    evidence = tuple(original(played.history, entry) for entry in observation.evidence)
    words = observation.words and f"{observation.words} (scenario '{played.scenario.name}')"
    return attrs.evolve(observation, words=words, evidence=evidence)
