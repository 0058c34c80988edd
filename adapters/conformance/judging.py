"""Checks: what they are, where they are kept, and what becomes of what they saw."""

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Final, Literal

import attrs

from taskmachine.adapters.conformance.history import Entry, Exchange, History, Sighting

__all__ = [
    "CHECKS",
    "REASONS",
    "Check",
    "Observation",
    "Verdict",
    "bad",
    "cannot_check",
    "check",
    "good",
    "judge",
    "note",
    "warning",
]

Evidence = Entry | Exchange | Sighting


class Verdict(StrEnum):
    """What is said of a requirement, the worst first."""

    FAIL = "fail"
    WARNING = "warning"
    NOTE = "note"
    PASS = "pass"
    INCONCLUSIVE = "inconclusive"
    NOT_APPLICABLE = "not applicable"


@attrs.frozen
class Observation:
    """One time that a requirement was put to the test."""

    outcome: Literal["good", "bad", "warning", "note"]
    words: str = ""
    """What was seen, if it was not good: one sentence, without a full stop."""
    evidence: tuple[Entry, ...] = ()
    """What shows it: the shortest transcript, in order."""


Observer = Callable[[History], Iterable[Observation]]


@attrs.frozen
class Check:
    """Decides about requirements: a pure function of the history."""

    ids: tuple[str, ...]
    observe: Observer
    needs: str
    """What a target must have or do for it, for whoever reads that it could not be decided."""


CHECKS: Final[dict[str, Check]] = {}
"""By the id of the requirement."""

REASONS: Final[dict[str, str]] = {}
"""Rows that could be observed, but not by a tester that owns neither the target nor its clock."""


def check(*ids: str, needs: str = "") -> Callable[[Observer], Observer]:
    """Register a check of these requirements; each observation counts for all of them."""

    def register(observe: Observer) -> Observer:
        made = Check(ids, observe, needs)
        for id in ids:
            assert id not in {*CHECKS, *REASONS}, f"{id} is decided twice"
            CHECKS[id] = made
        return observe

    return register


def cannot_check(reason: str, *ids: str) -> None:
    """Register why these requirements have no check."""
    for id in ids:
        assert id not in {*CHECKS, *REASONS}, f"{id} is decided twice"
        REASONS[id] = reason


def good(*evidence: Evidence) -> Observation:
    """It was kept."""
    return Observation("good", "", _entries(evidence))


def bad(words: str, *evidence: Evidence) -> Observation:
    """It was broken; the level of the requirement says how bad that is."""
    return Observation("bad", words, _entries(evidence))


def warning(words: str, *evidence: Evidence) -> Observation:
    """It was broken, but never more than a warning (design 11)."""
    return Observation("warning", words, _entries(evidence))


def note(words: str, *evidence: Evidence) -> Observation:
    """Worth to be said, and no finding (design 11)."""
    return Observation("note", words, _entries(evidence))


def judge(level: str, observations: Iterable[Observation]) -> Iterator[tuple[Verdict, Observation]]:
    """The verdict of each observation, by the level of the requirement."""
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
