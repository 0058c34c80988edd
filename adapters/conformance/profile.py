"""Profiles: which tool call plays which role."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import attrs

__all__ = ["Profile", "Role", "ToolCall"]


class Role(StrEnum):
    """What probes use a tool call for."""

    COMPLETES = "completes"
    """Becomes a task that completes by itself, soon if possible."""
    SLOW = "slow"
    """Becomes a task that works long enough to be cancelled."""
    FAILS = "fails"
    """Becomes a task whose tool reports an error: `isError`."""
    BREAKS = "breaks"
    """Becomes a task that ends with a JSON-RPC error."""
    ASKS = "asks"
    """Becomes a task that asks for input: a form, or anything but sampling."""
    SAMPLES = "samples"
    """Becomes a task that asks for sampling."""
    REPORTS = "reports"
    """Becomes a task that reports progress."""
    PLAIN = "plain"
    """Never becomes a task: unmarked, or forbidden; in 2026-07-28, answered with a result."""
    REQUIRED = "required"
    """Can be called only as a task."""


@attrs.frozen
class ToolCall:
    """A tool and its arguments."""

    name: str
    arguments: Mapping[str, Any] = attrs.field(factory=dict)
    takes_ms: int | None = None
    """Approximate duration of its task, if discovered."""

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of `tools/call`."""
        return {"name": self.name, "arguments": dict(self.arguments)}


@attrs.frozen
class Profile:
    """Tool calls by role, configured or discovered."""

    calls: Mapping[Role, ToolCall] = attrs.field(factory=dict)

    def get(self, *roles: Role) -> ToolCall | None:
        """Return the call for the first of these roles that has one."""
        return next((self.calls[role] for role in roles if role in self.calls), None)

    def __bool__(self) -> bool:
        return bool(self.calls)
