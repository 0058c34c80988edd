"""The requirements for clients."""

from collections.abc import Mapping
from functools import cache
from typing import Final

import attrs

from taskmachine.adapters.conformance.catalogue import Requirement, load_checks, transports_of
from taskmachine.adapters.conformance.judging import CHECKS, CLIENT_CHECKS, CLIENT_REASONS, Check
from taskmachine.specs import load_requirements

__all__ = ["ClientRequirement", "requirements_of_clients"]

_SHARED: Final = frozenset(
    {"get-and-result-always-served", "get-returns-task-flat", "list-result-shape"}
    | {"cancel-answers-with-task", "task-id-string", "task-id-unique", "begins-working"}
    | {"paths-from-working", "terminal-final", "created-at-everywhere", "status-values"}
    | {"last-updated-at-everywhere", "created-at-constant", "last-updated-at-order"}
    | {"task-required-fields", "status-message-optional", "poll-interval-optional"}
    | {"actual-ttl-in-get", "ttl-from-creation", "create-answer-prompt", "ids-unguessable"}
    | {"result-of-terminal-task", "result-of-cancelled-task", "related-task-on-error"}
    | {"related-task-on-create-result", "related-task-on-result", "task-id-param-decides"}
    | {"no-related-task-on-task-results", "list-no-duplicates", "cancel-terminal-refused"}
    | {"cancelled-before-answer", "cancelled-sticks", "may-delete-cancelled"}
    | {"status-working", "status-completed", "status-cancelled", "informative-error-messages"}
)
"""Requirements for receivers that responses alone can show, whatever the tool."""


@attrs.frozen
class ClientRequirement(Requirement):
    """A requirement for clients."""

    is_for_receivers: bool = False
    """Whether it concerns the client as a receiver of tasks."""

    @property
    def check(self) -> Check | None:
        """The client check, or the server check if it applies to receivers without tools."""
        is_shared = self.id.partition(":")[2] in _SHARED and self.is_for_receivers
        return CLIENT_CHECKS.get(self.id) or (CHECKS.get(self.id) if is_shared else None)

    @property
    def is_checked(self) -> bool:
        """Whether a check exists for this requirement."""
        return self.check is not None

    @property
    def reason(self) -> str | None:
        """Why no check exists."""
        of_servers = "Applies to servers only: it needs tools." if self.is_for_receivers else None
        return self.unobservable or CLIENT_REASONS.get(self.id) or of_servers


@cache
def requirements_of_clients(revision: str) -> Mapping[str, ClientRequirement]:
    """Return the requirements for requestors and, for 2025-11-25, receivers, page by page."""
    load_checks()
    whose = {"client", "requestor", "both"}
    if revision == "2025-11-25":
        whose.add("receiver")
    return {
        row["id"]: ClientRequirement(
            row["id"],
            row["level"],
            row["page"],
            row["section"],
            row["says"],
            transports_of(row["id"].partition(":")[2], row["page"]),
            row.get("unobservable"),
            row["who"] == "receiver",
        )
        for row in load_requirements(revision)
        if row["who"] in whose
    }
