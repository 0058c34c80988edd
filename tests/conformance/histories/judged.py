"""What a registered check says of a history that was written by hand."""

from typing import Protocol

from taskmachine.adapters.conformance.catalogue import load_checks
from taskmachine.adapters.conformance.history import History
from taskmachine.adapters.conformance.judging import CHECKS

__all__ = ["judged"]


class _Tale(Protocol):
    @property
    def history(self) -> History: ...


def judged(id: str, tale: _Tale) -> set[str]:
    """The outcomes, in one word each."""
    load_checks()
    return {observation.outcome for observation in CHECKS[id].observe(tale.history)}
