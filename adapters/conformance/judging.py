"""Checks, their registration, and the verdicts on their observations."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, Literal, TypeVar

import attrs

from taskmachine.adapters.conformance.history import Entry, Exchange, History, Sighting

__all__ = [
    "CHECKS",
    "CLIENT_CHECKS",
    "CLIENT_REASONS",
    "REASONS",
    "Check",
    "Observation",
    "Verdict",
    "bad",
    "cannot_check",
    "cannot_check_clients",
    "check",
    "client_check",
    "good",
    "judge",
    "note",
    "warning",
]

Evidence = Entry | Exchange | Sighting


class Verdict(StrEnum):
    """The verdict on a requirement, the worst first."""

    FAIL = "fail"
    WARNING = "warning"
    NOTE = "note"
    PASS = "pass"
    INCONCLUSIVE = "inconclusive"
    NOT_APPLICABLE = "not applicable"


@attrs.frozen
class Observation:
    """One occasion on which a requirement was exercised."""

    outcome: Literal["good", "bad", "warning", "note"]
    words: str = ""
    """Description of the violation or note: one clause without a full stop."""
    evidence: tuple[Entry, ...] = ()
    """The shortest transcript that shows it, in order."""


Observer = Callable[..., Iterable[Observation]]
"""A function of a history and of the check's parameters."""

_O = TypeVar("_O", bound=Observer)


@attrs.frozen(eq=False)
class Check:
    """Decides requirements: a pure function of the history."""

    ids: tuple[str, ...]
    function: Observer
    needs: str
    """A precondition of the target, for the reason of an inconclusive verdict."""
    parameters: Mapping[str, Any]

    def observe(self, history: History) -> Iterable[Observation]:
        """Yield an observation for each occasion on which the requirements were exercised."""
        return self.function(history, **self.parameters)


@attrs.frozen
class Registry:
    """The checks of servers, or those of clients."""

    checks: dict[str, Check] = attrs.field(factory=dict)
    """Checks by requirement id."""
    reasons: dict[str, str] = attrs.field(factory=dict)
    """Reasons for requirements that a third party could observe but this tester cannot."""

    def check(self, *ids: str, needs: str = "", **parameters: Any) -> Callable[[_O], _O]:
        """Register a function as the check of these requirements; it may be registered repeatedly.

        It is called with the history and these parameters. Each observation counts for all ids.
        """

        def register(function: _O) -> _O:
            inspect.signature(function).bind(None, **parameters)
            self.checks.update(
                dict.fromkeys(self._new(ids), Check(ids, function, needs, parameters))
            )
            return function

        return register

    def cannot_check(self, reason: str, *ids: str) -> None:
        """Register why these requirements have no check."""
        self.reasons.update(dict.fromkeys(self._new(ids), reason))

    def _new(self, ids: tuple[str, ...]) -> tuple[str, ...]:
        for id in ids:
            assert id not in {*self.checks, *self.reasons}, f"{id} is registered twice"
        return ids


_OF_SERVERS: Final = Registry()
_OF_CLIENTS: Final = Registry()
"""A requirement for both sides has a check in each registry."""

CHECKS: Final = _OF_SERVERS.checks
REASONS: Final = _OF_SERVERS.reasons
check: Final = _OF_SERVERS.check
cannot_check: Final = _OF_SERVERS.cannot_check
CLIENT_CHECKS: Final = _OF_CLIENTS.checks
CLIENT_REASONS: Final = _OF_CLIENTS.reasons
client_check: Final = _OF_CLIENTS.check
cannot_check_clients: Final = _OF_CLIENTS.cannot_check


def good(*evidence: Evidence) -> Observation:
    """Report that the requirement was met."""
    return Observation("good", "", _entries(evidence))


def bad(words: str, *evidence: Evidence) -> Observation:
    """Report a violation; the requirement's level decides its severity."""
    return Observation("bad", words, _entries(evidence))


def warning(words: str, *evidence: Evidence) -> Observation:
    """Report a violation that is at most a warning."""
    return Observation("warning", words, _entries(evidence))


def note(words: str, *evidence: Evidence) -> Observation:
    """Report behaviour worth mentioning that is not a violation."""
    return Observation("note", words, _entries(evidence))


def judge(level: str, observations: Iterable[Observation]) -> Iterator[tuple[Verdict, Observation]]:
    """Yield the verdict on each observation, according to the requirement's level."""
    broken = {
        "MUST": Verdict.FAIL,
        "MUST NOT": Verdict.FAIL,
        "implied": Verdict.FAIL,
        "SHOULD": Verdict.WARNING,
        "SHOULD NOT": Verdict.WARNING,
        "MAY": Verdict.NOTE,
    }[level]
    verdicts = {
        "good": Verdict.PASS,
        "bad": broken,
        "warning": max(broken, Verdict.WARNING, key=list(Verdict).index),
        "note": Verdict.NOTE,
    }
    for observation in observations:
        yield verdicts[observation.outcome], observation


def _entries(evidence: Iterable[Evidence]) -> tuple[Entry, ...]:
    found: dict[int, Entry] = {}
    for one in evidence:
        for entry in [one] if isinstance(one, Entry) else one.entries:
            found[entry.number] = entry
    return tuple(found[number] for number in sorted(found))
