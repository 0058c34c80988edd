"""Progress in both revisions."""

from typing import Any, Final

from tests.conformance.checks.cases import (
    GOOD,
    NOTHING,
    Rows,
    bad,
    good,
    mixed,
    note,
    nothing,
    row,
    table,
)  # fmt: skip
from tests.conformance.histories.messages import a_task
from tests.conformance.histories.wire import Wire, http, stdio

OLD: Final = "2025-11-25"
NEW: Final = "2026-07-28"
RELATED = "io.modelcontextprotocol/related-task"
DONE: dict[str, Any] = {"content": []}


def call(history: Wire, token: Any = "t", **params: Any) -> Wire:
    """Call a tool with a progress token."""
    sent = {"name": "tool", "arguments": {}, "_meta": {"progressToken": token}, **params}
    return history.request("tools/call", sent, id=1)


def progress(
    history: Wire,
    value: Any,
    token: Any = "t",
    task: str | None = None,
    post: int | None = None,
    **more: Any,
) -> Wire:
    """Receive progress."""
    meta = {} if task is None else {"_meta": {RELATED: {"taskId": task}}}
    params = {"progressToken": token, "progress": value, **more, **meta}
    return history.push("notifications/progress", params, post=post)


def plain(history: Wire, *values: Any, **more: Any) -> Wire:
    """Perform a call with progress."""
    call(history)
    for value in values:
        progress(history, value, **more)
    return history.answer(DONE, id=1)


def task(history: Wire | None = None) -> Wire:
    """Create a task with a progress token."""
    return call(stdio() if history is None else history, task={}).answer({"task": a_task()})


def get(history: Wire, status: str) -> Wire:
    return history.request("tasks/get", {"taskId": "task-a"}).answer(a_task(status=status))


def wait(history: Wire, id: int = 2, **params: Any) -> Wire:
    """Send `tasks/result`."""
    return history.request("tasks/result", {"taskId": "task-a", **params}, id=id)


def before_creation() -> Wire:
    return progress(call(stdio(), task={}), 1).answer({"task": a_task()}, id=1)


def raw(**params: Any) -> Wire:
    return call(stdio()).push("notifications/progress", params)


def ended() -> Wire:
    return get(progress(task(), 1, task="task-a"), "completed")


def both(revision: Any) -> Rows:
    """Rows of both revisions."""
    begin = stdio if revision == OLD else http

    def token(token: Any) -> Wire:
        return progress(call(begin(revision)), 1, token)

    return {
        "progress-increases": [
            good(plain(begin(revision), 1, 2, 3.5)),
            nothing(plain(begin(revision), 1), plain(begin(revision), "1", None, True)),
            bad(plain(begin(revision), 1, 1), plain(begin(revision), 2, 1)),
        ],
        "progress-token-known": [good(token("t")), bad(token("T"), token(5), token(None))],
        "progress-stops-after-completion progress-operation-running": [
            good(plain(stdio(revision), 1, 2)),
            mixed(progress(plain(stdio(revision), 1), 2)),
        ],
    }


OLD_ROWS: Rows = {
    "progress-increases": [
        # two streams without an order, a resumed stream, a token of two requests
        nothing(
            progress(progress(wait(task(http())).send(method="GET"), 2), 1, post=2),
            progress(
                progress(wait(task(http())), 2).send(method="GET", headers={"last-event-id": "7"}),
                1,
            ),
            plain(plain(stdio(), 2), 1),
        ),
        # a stream that was opened later
        bad(progress(wait(progress(wait(task(http())), 2), 3), 1)),
    ],
    "progress-token-known": [bad(progress(call(stdio(), 1), 1, "1"))],
    "progress-stops-after-completion": [
        # on another stream, progress may be late
        good(progress(call(http().send(method="GET")).answer(DONE), 1, post=1)),
    ],
    "progress-stops-at-terminal progress-operation-running": [
        good(ended()),
        mixed(progress(ended(), 2, task="task-a")),
    ],
    "progress-stops-at-terminal": [
        bad(progress(task().request("tasks/result", {"taskId": "task-a"}).answer(DONE), 1))
    ],
    "progress-same-token progress-after-create-result": [
        good(progress(task(), 1, task="task-a")),
        bad(
            progress(task(), 1, "other", task="task-a"),
            progress(wait(task(), _meta={"progressToken": "waiter"}), 1, "waiter"),
        ),
        row(before_creation(), GOOD, NOTHING),
    ],
    "progress-optional": [
        good(
            raw(progressToken="t", progress=1),
            raw(progressToken="t", progress=0.5, total=1, message="m"),
        ),
        note(
            raw(progress=1),
            raw(progressToken="t", progress="1"),
            raw(progressToken="t", progress=1, total="2"),
            raw(progressToken="t", progress=1, message=2),
        ),
    ],
    "progress-may-be-absent": [good(plain(stdio())), nothing(plain(stdio(), 1))],
}

NEW_ROWS: Rows = {
    "progress-message-readable": [
        good(plain(stdio(NEW), 1, message="half")),
        nothing(plain(stdio(NEW), 1)),
        bad(plain(stdio(NEW), 1, message=" "), plain(stdio(NEW), 1, message=5)),
    ],
    "progress-operation-running": [
        bad(
            progress(
                call(stdio(NEW)).answer({"resultType": "task", "taskId": "a", "status": "working"}),
                1,
            )
        )
    ],
    "progress-may-be-float progress-total-optional progress-any-frequency": [
        good(plain(stdio(NEW), 0.5))
    ],
}

CASES = table(OLD, both(OLD), OLD_ROWS) + table(NEW, both(NEW), NEW_ROWS)
