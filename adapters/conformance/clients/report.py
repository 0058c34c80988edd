"""What came out of the runs of a client."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from taskmachine.adapters.conformance.clients.catalogue import ClientRequirement
from taskmachine.adapters.conformance.clients.program import Ran
from taskmachine.adapters.conformance.clients.script import Scenario
from taskmachine.adapters.conformance.clients.view import original
from taskmachine.adapters.conformance.history import History
from taskmachine.adapters.conformance.judging import Check, Observation, Verdict
from taskmachine.adapters.conformance.report import Finding, _finding

__all__ = ["Played", "judge_clients"]


@attrs.frozen
class Played:
    """One run of a client."""

    scenario: Scenario
    history: History
    ran: Ran

    @property
    def is_receiver(self) -> bool:
        """Whether the client was asked for tasks of its own."""
        return any("task" in exchange.params for exchange in self.history.exchanges)


def judge_clients(
    played: Sequence[Played], requirements: Mapping[str, ClientRequirement], wanted: frozenset[str]
) -> list[Finding]:
    """The verdict on each of these requirements, by all runs together."""
    seen: dict[Check, list[Observation]] = {}
    transports = {one.history.transport for one in played}
    findings = []
    for id, requirement in requirements.items():
        if id not in wanted:
            continue
        check = requirement.check
        if transports and not transports & set(requirement.transports):
            words = f"it is about {' and '.join(requirement.transports)}"
            findings.append(Finding(requirement, Verdict.NOT_APPLICABLE, words))
        elif check is None:
            words = requirement.reason or "nothing decides about it"
            findings.append(Finding(requirement, Verdict.NOT_APPLICABLE, words))
        else:
            if check not in seen:
                fitting = [p for p in played if p.is_receiver or not requirement.is_for_receivers]
                seen[check] = list(itertools.chain.from_iterable(_observe(check, fitting)))
            findings.append(_finding(requirement, seen[check], check.needs))
    return findings


def _observe(check: Check, played: Iterable[Played]) -> Iterator[list[Observation]]:
    for one in played:
        yield [_told(observation, one) for observation in check.observe(one.history)]


def _told(observation: Observation, played: Played) -> Observation:
    """With the name of the scenario, and the evidence as we saw it."""
    evidence = tuple(original(played.history, entry) for entry in observation.evidence)
    words = observation.words and f"{observation.words} (scenario '{played.scenario.name}')"
    return attrs.evolve(observation, words=words, evidence=evidence)
