"""Tasks of 2025-11-25: fields, statuses, lifetimes, negotiation and creation."""

from typing import Any

from taskmachine.adapters.conformance.history import MISSING
from tests.conformance.checks.cases import (
    GOOD,
    NOTE,
    WARNING,
    Rows,
    bad,
    good,
    mixed,
    note,
    nothing,
    row,
    table,
    warning,
)
from tests.conformance.histories.messages import CAPABILITIES, Messages, a_task, server

ID = "0b7e7f4e-6a43-4c38-8d33-5f3a0e4f6d11"
OTHER = "c2f3e1a0-93a7-4f0e-9a41-0d5b8f7c6e22"
LATER = "2026-11-16T10:00:05.000Z"
RESULT = {"content": [{"type": "text", "text": "done"}]}
CENTURY = 100 * 365 * 24 * 3_600_000
PLAIN_CAPABILITIES: dict[str, Any] = {"tools": {}}


def call(
    *, task: Any = MISSING, support: Any = "optional", capabilities: Any = CAPABILITIES
) -> Messages:
    """Call the tool; the response is missing."""
    params = {"name": "tool", "arguments": {}}
    if task is not MISSING:
        params["task"] = task
    return server(support, capabilities=capabilities).request("tools/call", params)


def wished(method: str = "ping") -> Messages:
    """Send a request that cannot be a task, without and with `task`; the latter is unanswered."""
    return server().request(method).answer({}).request(method, {"task": {}})


def notice(**fields: Any) -> Messages:
    """Receive a status notification."""
    return server().create(a_task()).push("notifications/tasks/status", a_task(**fields))


def seen(*statuses: str, **fields: Any) -> Messages:
    """Create a task, then poll it."""
    return server().create(a_task(ID)).get(*(a_task(ID, status, **fields) for status in statuses))


def expired(code: int | None) -> Messages:
    """Poll a task after its lifetime."""
    history = server().create(a_task(ID, ttl=500)).wait(600).request("tasks/get", {"taskId": ID})
    return history.answer(a_task(ID, "completed", ttl=500)) if code is None else history.error(code)


def counting_down(*ttls: int) -> Messages:
    """Create and poll a task whose ttl takes these values."""
    first, *rest = (a_task(ID, ttl=ttl) for ttl in ttls)
    return server().create(first).get(*rest)


ROWS: Rows = {
    "task-id-string": [good(seen()), bad(server().create({"taskId": 7, "status": "working"}))],
    "task-id-from-receiver": [
        good(server().create(a_task(ID), task={"taskId": "mine"})),
        bad(server().create(a_task("mine"), task={"taskId": "mine"})),
    ],
    "task-id-unique": [
        good(seen().create(a_task(OTHER))),
        bad(seen().create(a_task(ID))),
        # the ids of two processes
        good(server(transport="stdio").create(a_task("1"), line=1).create(a_task("1"), line=2)),
    ],
    "ids-unguessable": [
        good(seen().create(a_task(OTHER))),
        bad(server().create(a_task("1")).create(a_task("2")).create(a_task("3"))),
    ],
    "begins-working": [
        good(seen()),
        warning(server().create(a_task(status="completed"))),
        bad(server().create(a_task(status="submitted"))),
    ],
    "paths-from-working": [good(seen("input_required", "completed")), bad(seen("paused"))],
    "paths-from-input-required": [
        good(seen("input_required", "working")),
        bad(seen("input_required", "paused")),
    ],
    "terminal-final": [good(seen("completed", "completed")), bad(seen("completed", "working"))],
    "status-values": [good(seen("failed")), mixed(seen("done"))],
    "status-cancelled": [
        good(
            seen("cancelled", statusMessage="The server is about to stop."),
            seen().request("tasks/cancel", {"taskId": ID}).answer(a_task(ID, "cancelled")),
        ),
        warning(seen("cancelled")),
    ],
    "created-at-everywhere": [good(seen("working")), mixed(seen("working", createdAt=1))],
    "last-updated-at-everywhere": [
        good(seen("working")),
        mixed(seen("working", lastUpdatedAt=MISSING)),
    ],
    "created-at-constant": [good(seen("working")), bad(seen("working", createdAt=LATER))],
    "last-updated-at-order": [
        good(seen("completed", lastUpdatedAt=LATER)),
        bad(seen("working", lastUpdatedAt="2026-11-16T09:00:00Z")),
        row(seen("failed").get(a_task(ID, "failed", lastUpdatedAt=LATER)), GOOD | WARNING),
        row(seen("working").get(a_task(ID, lastUpdatedAt=LATER)), GOOD | NOTE),
    ],
    "task-required-fields": [
        good(server().create(a_task(ttl=None))),
        mixed(seen("working", ttl=MISSING)),
    ],
    "status-message-optional": [
        good(seen("working", statusMessage="at it")),
        bad(seen("working", statusMessage=None)),
    ],
    "poll-interval-optional": [
        good(seen("working", pollInterval=0.5)),
        note(seen("working", pollInterval="soon")),
    ],
    "status-notification-optional": [good(notice())],
    "status-notification-full-task": [
        good(notice()),
        bad(notice(ttl=MISSING), server().push("notifications/tasks/status", {"task": a_task()})),
    ],
    "actual-ttl-in-get": [
        good(seen("working", ttl=None)),
        bad(seen("working", ttl=MISSING), seen("working", ttl="1 h"), seen("working", ttl=-1)),
    ],
    "ttl-from-creation": [
        good(counting_down(9000, 9000)),
        nothing(counting_down(9000, 8000, 9500)),
        bad(counting_down(9000, 8980, 8960)),
        # a lifetime may change
        nothing(counting_down(9000, 500)),
    ],
    "ttl-may-be-overridden": [good(server().create(a_task(), task={"ttl": 1}))],
    "ttl-maximum": [
        good(
            server().create(a_task(), task={"ttl": CENTURY}),
            call(task={"ttl": CENTURY}).error(-32602),
        ),
        bad(
            server().create(a_task(ttl=CENTURY), task={"ttl": CENTURY}),
            server().create(a_task(ttl=None), task={"ttl": CENTURY}),
        ),
    ],
    "kept-until-ttl": [
        good(seen("completed")),
        bad(seen().request("tasks/get", {"taskId": ID}).error(-32602)),
        # it is too much at the moment
        nothing(seen().request("tasks/get", {"taskId": ID}).error(-32603, "rate limit")),
        # cancelled tasks may be deleted
        nothing(
            seen()
            .request("tasks/cancel", {"taskId": ID})
            .answer(a_task(ID, "cancelled"))
            .request("tasks/get", {"taskId": ID})
            .error(-32602)
        ),
        # others need not see it
        nothing(seen().request("tasks/get", {"taskId": ID}, line=2).error(-32602)),
    ],
    "may-delete-after-ttl": [good(expired(-32602), expired(None))],
    "purged-reads-as-not-found": [good(expired(-32602)), bad(expired(-32001))],
    "expired-cleaned-up": [good(expired(-32602))],
    "capability-declared": [
        good(server().create(a_task())),
        bad(server(capabilities=PLAIN_CAPABILITIES).create(a_task())),
    ],
    "capability-shape": [
        good(server()),
        note(server(capabilities={"tasks": {"list": {}, "more": {}}})),
        bad(
            server(capabilities={"tasks": {"list": True}}),
            server(capabilities={"tasks": {"requests": {"tools": []}}}),
        ),
    ],
    "server-capability-keys": [
        good(server()),
        bad(server(capabilities={"tasks": {"requests": {"sampling": {"createMessage": {}}}}})),
    ],
    "capability-requests-exhaustive": [
        good(wished().answer({})),
        bad(wished().answer({"task": a_task()})),
    ],
    "undeclared-type-processed-normally": [
        good(wished().answer({})),
        nothing(wished().error(-32603, "Server is busy")),
        bad(wished().answer({"task": a_task()}), wished().error(-32602)),
    ],
    "get-and-result-always-served": [
        good(seen("working")),
        bad(seen().request("tasks/get", {"taskId": ID}).error(-32601)),
    ],
    "task-support-values": [good(server("forbidden")), bad(server("always"))],
    "forbidden-tool-task-refused-32601": [
        good(call(task={}, support="forbidden").error(-32601)),
        bad(
            call(task={}, support="forbidden").answer(RESULT),
            call(support="forbidden")
            .answer(RESULT)
            .request("tools/call", {"name": "tool", "arguments": {}, "task": {}})
            .error(-32602),
        ),
        # arguments may be wrong, or the tool too
        nothing(call(task={}, support="forbidden").error(-32602)),
        # an undeclared capability need not be refused
        nothing(call(task={}, support="forbidden", capabilities=PLAIN_CAPABILITIES).answer(RESULT)),
    ],
    "task-support-default-forbidden": [
        good(call(task={}, support=MISSING).answer(RESULT)),
        bad(call(task={}, support=MISSING).answer({"task": a_task()})),
    ],
    "optional-tool-served-both-ways": [
        good(call().answer(RESULT), call(task={}).answer({"task": a_task()})),
        nothing(call().error(-32602)),
        note(call().error(-32600)),
        bad(call().error(-32601), call(task={}).error(-32601), call().answer({"task": a_task()})),
    ],
    "required-tool-plain-refused-32601": [
        good(call(support="required").error(-32601)),
        nothing(call(support="required").error(-32603, "too many")),
        note(call(support="required").error(-32600)),
        bad(call(support="required").answer(RESULT)),
    ],
    "may-require-augmentation": [good(call().error(-32600))],
    "plain-call-refused-32600": [good(call().error(-32600))],
    "create-result-returned": [
        good(call(task={}).answer({"task": a_task()})),
        nothing(
            call(task={}).error(-32000),
            call(task={}, capabilities=PLAIN_CAPABILITIES).answer(RESULT),
        ),
        bad(call(task={}).answer(RESULT)),
    ],
    "create-result-shape": [
        good(call(task={}).answer({"task": a_task()})),
        bad(call(task={}).answer(a_task())),
    ],
    "create-result-without-operation-result": [
        good(seen()),
        bad(call(task={}).answer({"task": a_task(), **RESULT})),
    ],
    "create-answer-prompt": [
        good(call(task={}).wait(4_900).answer({"task": a_task()})),
        bad(call(task={}).wait(5_100).answer({"task": a_task()})),
    ],
    "model-immediate-response": [
        good(
            call(task={}).answer(
                {
                    "task": a_task(),
                    "_meta": {"io.modelcontextprotocol/model-immediate-response": "Wait."},
                }
            )
        ),
        warning(
            call(task={}).answer(
                {"task": a_task(), "_meta": {"io.modelcontextprotocol/model-immediate-response": 1}}
            )
        ),
    ],
}

CASES = table("2025-11-25", ROWS)
