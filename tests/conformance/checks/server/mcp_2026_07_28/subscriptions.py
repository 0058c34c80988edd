"""Subscriptions of 2026-07-28."""

from typing import Any

from taskmachine.adapters.conformance.history import MISSING
from tests.conformance.checks.cases import Rows, bad, good, mixed, note, nothing, table
from tests.conformance.histories.messages_2026_07_28 import (
    BOTH,
    SUBSCRIPTION,
    TASKS,
    http,
    stdio,
    task,
)

DONE = task(status="completed")
CHANGED = "notifications/tools/list_changed"
AGREED = "notifications/subscriptions/acknowledged"
NEEDED: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}


def listening(**how: Any) -> Any:
    """Subscribe to a task."""
    return http().create().listen("task-a", **how)


def begun() -> Any:
    """Subscribe; the acknowledgement is missing."""
    return listening(agreed=None)


def refused(code: int, data: Any = MISSING) -> Any:
    return listening(agreed=None, declares=False).error(code, data=data)


def ended(result: Any) -> Any:
    return listening().answer(result, to=77)


def noisy(history: Any) -> Any:
    return history.create(meta={"progressToken": "p"})


def progress(history: Any, token: Any = "p") -> Any:
    return history.push("notifications/progress", {"progressToken": token, "progress": 1})


ROWS: Rows = {
    "ack-first": [
        good(
            listening(),
            stdio()
            .listen("a")
            .listen("b", id=78, agreed=None)
            .announce_task(task("a"))
            .announce(AGREED, on=78, notifications={}),
        ),
        nothing(begun().error(-32601)),
        bad(
            begun().announce_task(task()).announce(AGREED),
            begun().answer({"resultType": "complete"}),
        ),
    ],
    "nothing-before-ack": [
        good(listening().announce_task(task())),
        bad(begun().announce(CHANGED).announce(AGREED), begun().announce(CHANGED)),
    ],
    "stdio-interleaving": [
        good(
            stdio()
            .listen("a")
            .listen("b", id=78, agreed=None)
            .announce_task(task("a"))
            .announce(AGREED, on=78, notifications={})
        ),
        nothing(listening()),
    ],
    "ack-is-subset": [
        good(listening(), listening(agreed={}), listening(agreed={"toolsListChanged": False})),
        bad(
            listening(agreed={"toolsListChanged": True}), listening(agreed={"taskIds": ["task-b"]})
        ),
    ],
    "ack-lists-task-ids": [
        good(listening()),
        nothing(listening(agreed={})),
        bad(listening(agreed={"taskIds": True}), listening(agreed={"taskIds": ["task-b"]})),
    ],
    "subscription-id-is-request-id": [
        good(listening(), listening(id="text")),
        bad(
            begun().announce(AGREED, named="77"),
            stdio().listen("a", agreed=None).announce(AGREED, named="77"),
        ),
    ],
    "only-requested-notifications": [
        good(
            listening().announce_task(task()),
            listening().announce("notifications/cancelled"),
            http()
            .ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id=77)
            .announce(AGREED)
            .announce(CHANGED),
        ),
        mixed(listening().announce(CHANGED)),
    ],
    "notifications-optional": [good(listening().announce_task(task())), nothing(listening())],
    "notifications-only-for-listened-ids": [
        good(listening().announce_task(task())),
        bad(listening().announce_task(task("b"))),
    ],
    "notification-is-whole-task": [
        good(
            listening().announce_task(DONE).get(DONE), listening().get(DONE).announce_task(task())
        ),
        bad(
            listening().announce_task(task(status="completed", result=None)),
            listening().announce_task(DONE).get(task()),
            listening().announce_task(DONE).get(task(status="completed", result={"content": [1]})),
        ),
    ],
    "no-progress-on-listen": [
        good(listening().announce_task(task())),
        nothing(listening()),
        bad(listening().announce("notifications/progress")),
    ],
    "no-log-messages-on-listen": [
        good(listening().announce_task(task())),
        bad(listening().announce("notifications/message")),
    ],
    "no-progress-for-tasks": [
        good(noisy(http()).get(DONE), progress(noisy(http()), "other").get(DONE)),
        nothing(noisy(http()), progress(http().create())),
        bad(progress(noisy(http()))),
    ],
    "listen-missing-capability-32021": [
        good(refused(-32021, NEEDED)),
        nothing(listening()),
        bad(refused(-32021), refused(-32602), listening(declares=False)),
    ],
    "listen-final-response": [
        good(ended({"resultType": "complete"})),
        nothing(listening()),
        note(listening().announce("notifications/cancelled").end()),
        bad(listening().end()),
    ],
    "listen-final-response-shape": [
        good(ended({"resultType": "complete", "_meta": {SUBSCRIPTION: 77}})),
        note(ended({"resultType": "complete", "why": 1, "_meta": {SUBSCRIPTION: 77}})),
        bad(
            ended({"resultType": "complete", "_meta": {SUBSCRIPTION: "77"}}),
            ended({"_meta": {SUBSCRIPTION: 77}}),
        ),
    ],
    "no-subscription-state-kept": [
        good(listening().get(task(), line=2)),
        nothing(listening().announce_task(task())),
        bad(
            http().push("notifications/tasks", task()),
            stdio().listen("a").push("notifications/tasks", task("a"), line=2),
        ),
    ],
    "auth-on-each-request": [
        good(http(BOTH).create().listen("task-a", caller="B", agreed={})),
        bad(http(BOTH).create().listen("task-a", caller="B")),
    ],
}

CASES = table("2026-07-28", ROWS)
