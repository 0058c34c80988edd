"""Checks of clients.

A requirement for both sides has a check for each: those for servers are in
`taskmachine.adapters.conformance.judging`.
"""

from collections.abc import Callable
from typing import Final

from taskmachine.adapters.conformance.judging import Check, Observer

__all__ = ["CLIENT_CHECKS", "CLIENT_REASONS", "cannot_check_clients", "client_check"]

CLIENT_CHECKS: Final[dict[str, Check]] = {}
"""By the id of the requirement."""

CLIENT_REASONS: Final[dict[str, str]] = {}
"""Rows that could be observed, but not by a tester that owns neither the client nor its clock."""


def client_check(*ids: str, needs: str = "") -> Callable[[Observer], Observer]:
    """Register a check of what clients do; each observation counts for all of these ids."""

    def register(observe: Observer) -> Observer:
        made = Check(ids, observe, needs)
        for id in ids:
            _claim(id)
            CLIENT_CHECKS[id] = made
        return observe

    return register


def cannot_check_clients(reason: str, *ids: str) -> None:
    """Register why these requirements have no check of clients."""
    for id in ids:
        _claim(id)
        CLIENT_REASONS[id] = reason


def _claim(id: str) -> None:
    assert id not in {*CLIENT_CHECKS, *CLIENT_REASONS}, f"{id} is decided twice"
