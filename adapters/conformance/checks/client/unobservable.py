"""Requirements of clients that are not observable through the protocol."""

from typing import Final

from taskmachine.adapters.conformance.judging import cannot_check_clients

__all__: list[str] = []

_OLD: Final = "2025-11-25"
_NEW: Final = "2026-07-28"


def _both(*names: str) -> list[str]:
    return [f"{revision}:{name}" for revision in (_OLD, _NEW) for name in names]


cannot_check_clients(
    "The client's timeouts may exceed the duration of a run.",
    *_both("request-timeouts", "tool-timeouts", "timeout-maximum", "timeout-reset-by-progress"),
    f"{_OLD}:timeout-sends-cancelled",
    f"{_NEW}:timeout-cancels",
)
cannot_check_clients(
    "A client's reports to its user or model are not observable through the protocol.",
    *_both("structured-result-validated"),
    f"{_OLD}:negotiation-errors-handled",
    f"{_NEW}:legacy-codes-without-meaning",
)
cannot_check_clients(
    "Other requirements cover this in detail and are checked separately.",
    *_both("base-protocol-supported"),
    f"{_OLD}:streamable-http-still-applies",
    f"{_OLD}:version-respected",
    f"{_NEW}:binding-delivers",
    f"{_NEW}:binding-may-mirror",
)
cannot_check_clients(
    "Authorization has its own requirements, which this tester does not cover.",
    *_both("http-auth-spec"),
)
cannot_check_clients(
    "The tester sends clients no unusual keys or names that could reveal a violation.",
    *_both("meta-no-assumptions", "meta-name-characters"),
    f"{_OLD}:result-any-object",
    f"{_NEW}:header-names-case-insensitive",
    f"{_NEW}:info-changes-nothing",
    f"{_NEW}:info-not-for-security",
)
cannot_check_clients(
    "Clients of this revision send no results or errors.",
    *(
        f"{_NEW}:{name}"
        for name in (
            "extensions-add-result-types",
            "result-types-from-capabilities",
            "result-type-task-reserved",
            "legacy-codes-avoided",
            "reserved-codes-not-invented",
            "reserved-codes-as-defined",
            "old-codes-not-sent",
            "own-codes-outside-range",
        )
    ),
)
cannot_check_clients(
    "No task of the tester outlives its ttl.",
    f"{_NEW}:ttl-as-backstop",
    f"{_NEW}:task-unusable-after-ttl",
)
cannot_check_clients(
    "The tester starts a client once per scenario, so nothing can be resumed or restarted.",
    f"{_NEW}:task-ids-persisted",
    f"{_NEW}:era-persisted",
    f"{_NEW}:stdio-restart-server",
    f"{_NEW}:stdio-listen-again",
    f"{_NEW}:reconnect-after-drop",
    f"{_OLD}:disconnect-may-happen",
)
cannot_check_clients(
    "How a client assigns notifications to its subscriptions is not observable.",
    f"{_NEW}:stdio-client-correlates",
)
cannot_check_clients(
    "A single run does not show whether a client supports both eras.",
    f"{_NEW}:stdio-probe-with-discover",
    f"{_NEW}:stdio-fallback-any-error",
)
cannot_check_clients(
    "The tester cannot make a user reject a request.",
    f"{_OLD}:sampling-user-rejected",
)
cannot_check_clients(
    "A client's internal work for a cancelled request is not observable.",
    f"{_OLD}:cancelled-request-stopped",
)
cannot_check_clients(
    "The specification allows both behaviors, and neither is observable.",
    f"{_NEW}:x-mcp-header-other-transports",
)
cannot_check_clients(
    "Clients send no progress notifications.",
    *_both("progress-rate-limited"),
)
