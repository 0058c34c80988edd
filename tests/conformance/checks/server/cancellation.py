"""`notifications/cancelled` in both revisions."""

from typing import Any, Final

from tests.conformance.checks.cases import Rows, bad, good, note, nothing, table
from tests.conformance.histories.messages import a_task
from tests.conformance.histories.wire import Wire, http, stdio

OLD: Final = "2025-11-25"
NEW: Final = "2026-07-28"
CANCELLED = "notifications/cancelled"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
CALL = {"name": "tool", "arguments": {}, "_meta": {"progressToken": "t"}}


def ping(history: Wire) -> Wire:
    return history.request("ping").answer({})


def cancel(history: Wire, id: Any) -> Wire:
    """Cancel a request of the tester."""
    return history.notify(CANCELLED, {"requestId": id})


def cancels(history: Wire, id: Any = "q", post: int | None = None) -> Wire:
    """Receive a cancellation."""
    return history.push(CANCELLED, {"requestId": id}, post=post)


def asked(history: Wire) -> Wire:
    """Receive an elicitation."""
    return history.push("elicitation/create", {"message": "?"}, id="q")


def reply(history: Wire) -> Wire:
    """Answer the elicitation."""
    return history.send({"jsonrpc": "2.0", "id": "q", "result": {"action": "cancel"}})


def result(history: Wire) -> Wire:
    return history.request("tasks/result", {"taskId": "task-a"}, id=1)


def answered_on_a_stream() -> Wire:
    """Answer an elicitation over HTTP; the cancellation follows on the first stream."""
    return cancels(reply(asked(result(http()))).head(202), post=1)


def listening() -> Wire:
    return stdio(NEW).request("subscriptions/listen", {}, id="s")


def task() -> Wire:
    """Create a task by a call."""
    return stdio().request("tools/call", {**CALL, "task": {}}, id=1).answer({"task": a_task()})


def get(history: Wire, status: str) -> Wire:
    return history.request("tasks/get", {"taskId": "task-a"}).answer(a_task(status=status))


def cancelled_task() -> Wire:
    history = cancel(task(), 1).request("tasks/cancel", {"taskId": "task-a"})
    return get(history.answer(a_task(status="cancelled")), "cancelled")


def cancelled_result() -> Wire:
    """Cancel a request for a result over HTTP, then poll."""
    return get(cancel(result(http()), 1).head(202), "working")


def call(revision: Any) -> Wire:
    return stdio(revision).request("tools/call", CALL, id=1)


def cancelled_call(revision: Any) -> Wire:
    """Cancel a call that reports progress."""
    return ping(cancel(progress(call(revision), 1), 1))


def progress(history: Wire, value: int, **how: Any) -> Wire:
    params = {"progressToken": "t", "progress": value}
    return history.push("notifications/progress", params, **how)


OLD_ROWS: Rows = {
    "cancelled-same-direction": [
        good(cancels(asked(stdio()))),
        nothing(
            stdio().push(CANCELLED, {}),
            # the request may have been on a stream that was closed
            cancels(result(http()).disconnect().send(method="GET")),
        ),
        bad(cancels(stdio().request("ping", id="q"))),
    ],
    "cancelled-still-running": [
        good(cancels(asked(stdio()))),
        nothing(cancels(reply(asked(stdio()))), answered_on_a_stream()),
        bad(
            cancels(ping(reply(asked(stdio())))),
            cancels(answered_on_a_stream().request("ping")),
        ),
    ],
    "late-response-ignored": [
        good(ping(reply(cancels(asked(stdio()))))),
        nothing(ping(reply(asked(stdio())))),
        bad(reply(cancels(asked(stdio()))).exit()),
    ],
    "cancelled-notification-keeps-task": [
        good(get(cancel(task(), 1), "completed")),
        nothing(cancelled_task()),
        bad(get(cancel(task(), 1), "cancelled")),
    ],
    "cancelled-request-not-answered": [
        good(cancelled_result()),
        bad(cancelled_result().answer({"content": []}, id=1, post=1)),
    ],
    # another message may be the cause
    "cancellation-races-handled": [
        nothing(cancel(stdio().request("ping", id=1).send(text="{"), 1).exit())
    ],
    "invalid-cancellation-ignored": [
        good(
            ping(cancel(http(), "unknown").head(202)),
            ping(http().notify(CANCELLED, []).head(400)),
        ),
        bad(
            ping(cancel(http(), "unknown").head(400)),
            ping(cancel(http(), "unknown").head(500)),
        ),
    ],
    "cancelled-may-be-ignored": [good(ping(cancel(stdio(), "unknown")))],
}

NEW_ROWS: Rows = {
    "server-cancelled-only-for-listen server-cancelled-names-listen": [
        bad(cancels(call(NEW), 1)),
    ],
    "server-cancelled-only-for-listen": [
        good(
            stdio(NEW)
            .request("tasks/get", {"taskId": "a"})
            .answer({"taskId": "a", "status": "cancelled"})
        ),
        nothing(cancels(listening(), "s")),
    ],
    "server-cancelled-names-listen": [
        good(cancels(listening(), "s")),
        bad(cancels(listening(), "s").push("notifications/tasks", {"_meta": {SUBSCRIPTION: "s"}})),
    ],
    "listen-teardown-cancelled": [
        good(cancels(listening(), "s").answer({}, id="s")),
        nothing(cancel(listening(), "s").answer({}, id="s")),
        note(listening().answer({}, id="s")),
    ],
    "cancelled-request-not-answered invalid-cancellation-ignored": [
        nothing(
            ping(cancel(http(NEW).request("tools/call", CALL, id=1), 1).head(400)),
        )
    ],
    "cancelled-may-be-ignored": [good(ping(cancel(stdio(NEW), 5)))],
}


def both(revision: Any) -> Rows:
    """Rows of both revisions."""
    invalid: list[Any] = [{"requestId": "unknown"}, {"requestId": []}, {}]

    def notified(params: Any) -> Wire:
        return stdio(revision).notify(CANCELLED, params)

    return {
        "cancelled-request-stopped": [
            good(cancelled_call(revision)),
            nothing(progress(cancelled_call(revision), 2)),
            bad(progress(cancelled_call(revision), 2, after=5_100)),
        ],
        "cancelled-request-not-answered": [
            good(cancelled_call(revision)),
            nothing(cancel(call(revision), 1).answer({"content": []}, id=1)),
            bad(
                cancelled_call(revision).answer({"content": []}, id=1),
                cancel(call(revision), 1).error(0, "Request cancelled", id=1),
            ),
        ],
        "cancellation-races-handled": [
            good(ping(cancel(call(revision), 1).answer({}, id=1))),
            bad(
                cancel(stdio(revision).request("ping", id=1), 1).exit(),
                cancel(ping(stdio(revision)), 1).exit(),
            ),
        ],
        "invalid-cancellation-ignored": [
            good(*(ping(notified(params)) for params in invalid)),
            good(
                *(
                    ping(
                        stdio(revision)
                        .send(text="{")
                        .notify(CANCELLED, params)
                        .error(-32700, id=None)
                    )
                    for params in invalid
                )
            ),
            bad(*(ping(notified(params).error(-32602, id=None)) for params in invalid)),
            bad(*(notified(params).exit() for params in invalid)),
        ],
    }


CASES = table(OLD, both(OLD), OLD_ROWS) + table(NEW, both(NEW), NEW_ROWS)
