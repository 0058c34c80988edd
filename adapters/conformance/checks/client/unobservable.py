"""Requirements of clients that nothing on the wire decides about."""

from typing import Final

from taskmachine.adapters.conformance.judging import cannot_check_clients

__all__: list[str] = []

_OLD: Final = "2025-11-25"
_NEW: Final = "2026-07-28"


def _both(*names: str) -> list[str]:
    return [f"{revision}:{name}" for revision in (_OLD, _NEW) for name in names]


cannot_check_clients(
    "A client may be more patient than any tester.",
    *_both("request-timeouts", "tool-timeouts", "timeout-maximum", "timeout-reset-by-progress"),
    f"{_OLD}:timeout-sends-cancelled",
    f"{_NEW}:timeout-cancels",
)
cannot_check_clients(
    "What a client reports to its user or model is not on the wire.",
    *_both("structured-result-validated"),
    f"{_OLD}:negotiation-errors-handled",
    f"{_NEW}:legacy-codes-without-meaning",
)
cannot_check_clients(
    "Other requirements say the same in detail.",
    *_both("base-protocol-supported"),
    f"{_OLD}:streamable-http-still-applies",
    f"{_OLD}:version-respected",
    f"{_NEW}:binding-delivers",
    f"{_NEW}:binding-may-mirror",
)
cannot_check_clients(
    "It is for tests of authorization to decide.",
    *_both("http-auth-spec"),
)
cannot_check_clients(
    "What is sent to clients has no unusual keys or names that one of them could trip over.",
    *_both("meta-no-assumptions", "meta-name-characters"),
    f"{_OLD}:result-any-object",
    f"{_NEW}:header-names-case-insensitive",
    f"{_NEW}:info-changes-nothing",
    f"{_NEW}:info-not-for-security",
)
cannot_check_clients(
    "Clients of this revision send no results and no errors.",
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
    "No task of the tester lives longer than its ttl.",
    f"{_NEW}:ttl-as-backstop",
    f"{_NEW}:task-unusable-after-ttl",
)
cannot_check_clients(
    "A client is started once for each scenario, and has nowhere to go on from.",
    f"{_NEW}:task-ids-persisted",
    f"{_NEW}:era-persisted",
    f"{_NEW}:stdio-restart-server",
    f"{_NEW}:stdio-listen-again",
    f"{_NEW}:reconnect-after-drop",
    f"{_OLD}:disconnect-may-happen",
)
cannot_check_clients(
    "Which of its own subscriptions a client means a notification for is not on the wire.",
    f"{_NEW}:stdio-client-correlates",
)
cannot_check_clients(
    "Whether a client knows both eras cannot be told from one run.",
    f"{_NEW}:stdio-probe-with-discover",
    f"{_NEW}:stdio-fallback-any-error",
)
cannot_check_clients(
    "Whether a person refuses is not in the hands of a tester.",
    f"{_OLD}:sampling-user-rejected",
)
cannot_check_clients(
    "What a client does for a request that was cancelled cannot be seen.",
    f"{_OLD}:cancelled-request-stopped",
)
cannot_check_clients(
    "Both ways are fine, and neither can be seen.",
    f"{_NEW}:x-mcp-header-other-transports",
)
cannot_check_clients(
    "Clients report no progress.",
    *_both("progress-rate-limited"),
)
