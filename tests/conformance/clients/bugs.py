"""The bugs of the test client, with the requirements that each breaks."""

from typing import Final, Literal

import attrs

__all__ = ["BUGS", "Bug"]


@attrs.frozen
class Bug:
    """A bug, the scenario that shows it, and the requirements that it breaks."""

    words: str
    revision: Literal["2025-11-25", "2026-07-28"]
    scenario: str
    breaks: frozenset[str]
    also: frozenset[str] = frozenset()
    """Requirements that may be broken as well."""
    only: str = ""
    """The tools to call, separated by commas; all if empty."""
    transport: Literal["http", "stdio"] = "http"

    @property
    def hello_ms(self) -> float:
        """Delay of the first response; long for a client that does not wait for it."""
        return 2_000 if self.words == "does not wait for the answer" else 100

    @property
    def in_turn(self) -> bool:
        """Whether one call after the other shows it."""
        return self.scenario == "sessions" or self.words == "keeps its answers"


def _old(
    words: str, scenario: str, breaks: str, also: str = "", only: str = "", transport: str = "http"
) -> Bug:
    return _bug("2025-11-25", words, scenario, breaks, also, only, transport)


def _new(
    words: str, scenario: str, breaks: str, also: str = "", only: str = "", transport: str = "http"
) -> Bug:
    return _bug("2026-07-28", words, scenario, breaks, also, only, transport)


def _bug(
    revision: str, words: str, scenario: str, breaks: str, also: str, only: str, transport: str
) -> Bug:
    def ids(names: str) -> frozenset[str]:
        return frozenset(f"{revision}:{name}" for name in names.split())

    return Bug(words, revision, scenario, ids(breaks), ids(also), only, transport)  # type: ignore[arg-type]


BUGS: Final = (
    # --- 2025-11-25 ---------------------------------------------------------------------------
    _old("polls too fast", "lifecycle", "poll-interval-respected", only="paced"),
    _old("stops to poll", "lifecycle", "poll-until-terminal", only="paced"),
    _old("relies on notifications", "notified", "poll-despite-notifications",
         "poll-until-terminal"),
    _old("relates requests for tasks", "lifecycle", "no-related-task-on-task-requests",
         only="quick"),
    _old("parses cursors", "lifecycle", "cursors-opaque", only="quick"),
    _old("stops at an empty page", "lifecycle", "page-size-not-assumed both-paging-flows",
         only="quick"),
    _old("goes beyond the last page", "lifecycle", "missing-cursor-is-end", only="quick"),
    _old("makes tasks of everything", "no_tasks",
         "no-tasks-without-capability no-tool-task-without-capability augment-only-if-declared "
         "only-negotiated-capabilities"),
    _old("makes tasks of everything", "no_tool_tasks",
         "no-tool-task-without-capability augment-only-if-declared only-negotiated-capabilities"),
    _old("calls forbidden tools as tasks", "lifecycle",
         "forbidden-tool-not-called-as-task task-support-default-forbidden",
         only="forbidden,unmarked"),
    _old("calls required tools plainly", "lifecycle", "required-tool-called-as-task",
         only="required"),
    _old("has a ttl that is a string", "lifecycle", "ttl-parameter-number", only="quick"),
    _old("has one token for all", "lifecycle", "progress-token-unique", only="quick,last"),
    _old("has tokens that are fractions", "lifecycle", "progress-token-type",
         "progress-token-unique", only="quick"),
    _old("reuses ids", "lifecycle", "request-id-not-reused",
         "progress-token-unique poll-until-terminal cursors-opaque both-paging-flows "
         "page-size-not-assumed session-deleted-by-client", only="quick"),
    _old("has ids that are null", "no_tasks", "request-id-not-null", "request-id-not-reused",
         only="quick"),
    _old("cancels tasks by a notification", "cancel",
         "tasks-cancelled-by-tasks-cancel cancelled-still-running", only="cancel_me"),
    _old("gives up in silence", "cancel", "cancel-sent-explicitly",
         only="give_up,quick"),
    _old("forgets the session id", "lifecycle", "session-id-sent",
         "session-deleted-by-client", only="quick"),
    _old("has no version header", "no_tasks", "protocol-version-header"),
    _old("has the wrong version header", "no_tasks", "protocol-version-header-negotiated"),
    _old("accepts nothing", "no_tasks", "http-accept-both get-stream-accept"),
    _old("posts batches", "lifecycle", "http-single-message-body http-one-post-per-message",
         "session-deleted-by-client"),
    _old("never says initialized", "no_tasks", "initialized-sent"),
    _old("does not wait for the answer", "lifecycle", "client-waits-for-initialize",
         "initialize-first initialize-sent-by-client initialized-sent", only="quick"),
    _old("takes any version", "versions", "client-disconnects-on-version"),
    _old("leaves its session", "no_tasks", "session-deleted-by-client"),
    _old("insists on its session", "sessions", "session-404-starts-new-session",
         "session-deleted-by-client"),
    _old("comes back at once", "streams", "sse-retry-respected", only="cut"),
    _old("never comes back", "streams", "sse-client-reconnects resume-by-get",
         "session-deleted-by-client", only="cut"),
    _old("reads no events", "lifecycle", "http-client-takes-both"),
    _old("polls past questions", "asking", "result-called-on-input-required", only="asks"),
    _old("gives up at questions", "asking", "result-called-on-input-required",
         only="asks"),
    _old("answers without the task", "asking",
         "related-task-on-answer related-task-on-task-messages", only="asks"),
    _old("is deaf on the GET stream", "asking", "messages-on-any-stream",
         only="asks,asks_listening"),
    _old("takes any mode", "asking", "elicitation-undeclared-mode-32602", only="asks_otherwise"),
    _old("wants a mode", "asking", "elicitation-no-mode-is-form", only="asks,asks_otherwise"),
    _old("accepts nothing in particular", "asking",
         "elicitation-three-actions elicitation-client-validates", only="asks"),
    _old("answers with another id", "asking", "result-same-id", "messages-on-any-stream",
         only="asks"),
    _old("has its own code for unknown tasks", "receiver",
         "get-unknown-32602 result-unknown-32602 cancel-unknown-32602"),
    _old("revives cancelled tasks", "receiver", "cancelled-sticks terminal-final",
         "paths-from-working"),
    _old("answers what was cancelled", "receiver", "cancelled-request-not-answered"),
    _old("answers notifications", "receiver",
         "notification-not-answered invalid-cancellation-ignored",
         "result-same-id"),
    _old("samples whatever it is given", "receiver",
         "sampling-missing-tool-result-32602 sampling-mixed-tool-result-32602"),
    _old("chats on the pipe", "no_tasks", "stdio-stdin-only-mcp stdio-no-embedded-newlines",
         transport="stdio"),
    _old("writes over several lines", "no_tasks",
         "stdio-stdin-only-mcp stdio-no-embedded-newlines", transport="stdio"),
    _old("kills its server", "no_tasks", "shutdown-close-stdin", transport="stdio"),
    # --- 2026-07-28 ---------------------------------------------------------------------------
    _new("polls too fast", "lifecycle", "poll-interval-respected", only="paced"),
    _new("stops to poll", "lifecycle", "poll-until-terminal", only="paced"),
    _new("forgets its tasks", "lifecycle", "client-handles-both-results fixed-shape-clients",
         only="quick"),
    _new("accepts nothing", "no_tasks", "http-accept-both"),
    _new("reads no events", "lifecycle", "http-client-takes-both", "sse-comments-ignored"),
    _new("fears comments", "lifecycle", "sse-comments-ignored", only="quick"),
    _new("has no version header", "no_tasks", "http-version-header http-metadata-headers"),
    _new("has the wrong version header", "no_tasks", "http-version-header-matches"),
    _new("has no method header", "lifecycle",
         "mcp-method-header mcp-method-is-method http-metadata-headers tools-call-headers-built "
         "header-values-case-sensitive", only="quick"),
    _new("has no name header", "lifecycle",
         "mcp-name-header mcp-name-is-task-id http-metadata-headers tools-call-headers-built",
         only="quick"),
    _new("encodes nothing", "lifecycle",
         "mcp-name-encoded header-value-base64 header-values-encoded "
         "header-sentinel-lookalike-encoded", "mcp-name-is-task-id", only="größe,lookalike"),
    _new("takes no care of lookalikes", "lifecycle",
         "header-sentinel-lookalike-encoded mcp-name-encoded", "mcp-name-is-task-id",
         only="lookalike"),
    _new("shouts", "lifecycle", "header-sentinel-exact",
         "mcp-name-encoded header-value-base64 header-values-encoded mcp-name-header "
         "tools-call-headers-built mcp-name-is-task-id", only="größe"),
    _new("repeats no parameters", "headers",
         "param-headers-mirrored param-header-included tools-call-headers-built"),
    _new("repeats null", "headers", "param-header-omitted-for-null"),
    _new("repeats what is not there", "headers", "param-header-omitted-if-absent"),
    _new("calls what is marked wrongly", "headers",
         "x-mcp-header-invalid-rejected x-mcp-header-invalid-excluded"),
    _new("does not look again", "headers", "header-mismatch-retry", only="mismatch"),
    _new("falls back at any 400", "headers", "http-400-body-inspected", only="incapable"),
    _new("hides its version", "no_tasks", "meta-required-fields"),
    _new("is anonymous", "no_tasks", "client-info-sent"),
    _new("declares once", "lifecycle", "client-declares-per-request", only="quick"),
    _new("ignores questions", "asking",
         "client-answers-questions client-inspects-input-requests", only="asks"),
    _new("turns away after an answer", "asking", "client-observes-after-update", only="asks"),
    _new("answers twice", "asking", "answer-once questions-deduplicated", only="asks"),
    _new("answers what was not asked", "asking", "response-keys-outstanding", only="asks"),
    _new("accepts nothing in particular", "asking", "question-as-standalone-request",
         "elicitation-no-mode-is-form", only="asks"),
    _new("responds to questions", "asking",
         "client-sends-no-responses http-no-responses", "stdio-no-responses", only="asks"),
    _new("trims the state", "retries", "request-state-echoed request-state-opaque"),
    _new("invents a state", "retries", "no-invented-request-state"),
    _new("answers in part", "retries", "mrtr-client-builds-answers"),
    _new("retries with the same id", "retries", "retry-new-id", only="retry"),
    _new("takes nonsense for a task", "nonsense", "unknown-result-type-invalid",
         "client-uses-task-id state-by-explicit-id", only="nonsense"),
    _new("follows any task", "misplaced", "task-for-unsupported-request-invalid"),
    _new("keeps its answers", "retries", "answers-only-for-retry", only="retry,plain"),
    _new("wants a kind", "lifecycle", "absent-result-type-is-complete", only="without_type"),
    _new("waits for a type that was not granted", "unacknowledged", "client-checks-ack"),
    _new("insists on its version", "versions", "client-retries-with-supported-version"),
    _new("cancels tasks by a notification", "cancel",
         "cancelled-notification-not-for-tasks cancelled-still-running",
         "client-handles-both-results fixed-shape-clients", only="cancel_me"),
    _new("chats on the pipe", "unacknowledged",
         "stdio-stdin-only-mcp stdio-no-embedded-newlines", transport="stdio"),
    _new("kills its server", "unacknowledged", "stdio-shutdown-close-stdin", transport="stdio"),
)  # fmt: skip
