"""The requirements for servers, and which transports each applies to."""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Final

import attrs

from taskmachine.adapters.conformance import checks, probes
from taskmachine.adapters.conformance.judging import CHECKS, REASONS
from taskmachine.specs import load_requirements

__all__ = [
    "OURS",
    "Requirement",
    "load_checks",
    "load_probes",
    "requirements_of_servers",
    "transports_of",
]


@attrs.frozen
class Requirement:
    """A requirement of the specification, or one that the tester adds."""

    id: str
    level: str
    page: str
    section: str
    says: str
    transports: tuple[str, ...] = ("stdio", "http")
    unobservable: str | None = None

    @property
    def is_checked(self) -> bool:
        """Whether a check exists for this requirement."""
        return self.id in CHECKS

    @property
    def reason(self) -> str | None:
        """Why no check exists."""
        return self.unobservable or REASONS.get(self.id)


OURS: Final = (
    Requirement(
        "alive", "MUST", "taskmachine", "Robustness",
        "The server survives whatever it receives: it neither crashes nor exits.",
    ),
    Requirement(
        "answers", "MUST", "taskmachine", "Robustness",
        "The server answers every request exactly once, within the time limit.",
    ),
)  # fmt: skip

_HTTP_BEGINNINGS: Final = (
    "http-", "sse-", "get-stream-", "result-stream-", "session-", "resume-", "no-broadcast",
    "message-on-one-stream", "messages-on-any-stream", "get-not-upgraded-to-sse",
    "protocol-version-", "disconnect-", "loss-mitigated", "header-", "param-header",
    "mcp-name", "mcp-method", "streamable-http", "meta-missing-400", "undeclared-capability-400",
    "binding-may-mirror", "connection-not-required",
)  # fmt: skip


_NEEDS_PRINCIPALS: Final = frozenset(
    {
        "auth-on-each-request", "bound-to-auth-context", "elicitation-bound-to-user",
        "elicitation-state-not-session-only", "elicitation-state-per-user",
        "foreign-cancel-rejected", "foreign-get-rejected", "foreign-not-listed",
        "foreign-result-rejected", "ids-as-bearer-tokens", "list-not-declared-without-identity",
        "request-state-bound-to-principal", "tool-access-controlled",
    }
)  # fmt: skip
"""Not testable on stdio, where a process has one client."""


_BY_NOTIFICATION: Final = frozenset(
    {
        "cancellation-races-handled", "cancelled-may-be-ignored", "cancelled-request-not-answered",
        "cancelled-request-stopped", "invalid-cancellation-ignored",
    }
)  # fmt: skip
"""Not testable over HTTP in 2026-07-28, where a client cancels by closing the response stream."""


@cache
def requirements_of_servers(revision: str) -> Mapping[str, Requirement]:
    """Return all server requirements in the order of the specification's pages, then `OURS`."""
    load_checks()
    found = {
        row["id"]: Requirement(
            row["id"],
            row["level"],
            row["page"],
            row["section"],
            row["says"],
            transports_of(row["id"].partition(":")[2], row["page"]),
            row.get("unobservable"),
        )
        for row in load_requirements(revision)
        if row["who"] in ("receiver", "server", "both")
    }
    return found | {ours.id: ours for ours in OURS}


def transports_of(name: str, page: str) -> tuple[str, ...]:
    """Return the transports on which a requirement with that name and page can be observed."""
    if page.endswith("/stdio") or name.startswith("stdio-"):
        return ("stdio",)
    if page.endswith("/streamable-http") or name.startswith(_HTTP_BEGINNINGS):
        return ("http",)
    if name in _NEEDS_PRINCIPALS:
        return ("http",)
    if page == "basic/patterns/cancellation" and name in _BY_NOTIFICATION:
        return ("stdio",)
    return ("stdio", "http")


@cache
def load_checks() -> None:
    """Import every module below `checks`, so that its checks register themselves."""
    _import_all(checks)


@cache
def load_probes() -> None:
    """Import every module below `probes`."""
    _import_all(probes)


def _import_all(package: ModuleType) -> None:
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    for name in sorted(module.name for module in found):
        importlib.import_module(name)
