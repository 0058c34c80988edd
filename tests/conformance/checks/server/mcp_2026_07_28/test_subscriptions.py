"""The checks of subscriptions, against histories written by hand."""

from collections.abc import Callable
from typing import Any

import pytest

from taskmachine.adapters.conformance.catalogue import load_checks
from taskmachine.adapters.conformance.history import MISSING
from tests.conformance.histories.extension import (
    BOTH,
    SUBSCRIPTION,
    TASKS,
    Extension,
    numbered,
    outcomes,
    piped,
    posted,
    task,
)

load_checks()

PASS, FAIL, WARN, NOTE, SILENT = {"good"}, {"bad"}, {"warning"}, {"note"}, set[str]()
MIXED = {"good", "bad"}
Row = tuple[str, Callable[[], Any], set[str]]
DONE = task(status="completed")
CHANGED = "notifications/tools/list_changed"
AGREED = "notifications/subscriptions/acknowledged"
NEEDED: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}


def listening(**how: Any) -> Any:
    """A task that is listened to."""
    return posted().create().listen("task-a", **how)


def begun() -> Any:
    """The same, before anything is said."""
    return listening(agreed=None)


def refused(code: int, data: Any = MISSING) -> Any:
    return listening(agreed=None, declares=False).error(code, data=data)


def ended(result: Any) -> Any:
    return listening().answer(result, to=77)


def noisy(told: Any) -> Any:
    return told.create(meta={"progressToken": "p"})


def progress(told: Any, token: Any = "p") -> Any:
    return told.notify("notifications/progress", {"progressToken": token, "progress": 1})


ACKNOWLEDGEMENTS: list[Row] = [
    ("ack-first", lambda: listening(), PASS),
    ("ack-first", lambda: begun().tell_task(task()).tell(AGREED), FAIL),
    ("ack-first", lambda: begun().answer({"resultType": "complete"}), FAIL),
    ("ack-first", lambda: begun().error(-32601), SILENT),
    ("nothing-before-ack", lambda: listening().tell_task(task()), PASS),
    ("nothing-before-ack", lambda: begun().tell(CHANGED).tell(AGREED), FAIL),
    ("nothing-before-ack", lambda: begun().tell(CHANGED), FAIL),
    ("stdio-interleaving", lambda: listening(), SILENT),
    (
        "stdio-interleaving",
        lambda: (
            piped()
            .listen("a")
            .listen("b", id=78, agreed=None)
            .tell_task(task("a"))
            .tell(AGREED, on=78, notifications={})
        ),
        PASS,
    ),
    (
        "ack-first",
        lambda: (
            piped()
            .listen("a")
            .listen("b", id=78, agreed=None)
            .tell_task(task("a"))
            .tell(AGREED, on=78, notifications={})
        ),
        PASS,
    ),
    ("ack-is-subset", lambda: listening(), PASS),
    ("ack-is-subset", lambda: listening(agreed={}), PASS),
    ("ack-is-subset", lambda: listening(agreed={"toolsListChanged": False}), PASS),
    ("ack-is-subset", lambda: listening(agreed={"toolsListChanged": True}), FAIL),
    ("ack-is-subset", lambda: listening(agreed={"taskIds": ["task-b"]}), FAIL),
    ("ack-lists-task-ids", lambda: listening(), PASS),
    ("ack-lists-task-ids", lambda: listening(agreed={}), SILENT),
    ("ack-lists-task-ids", lambda: listening(agreed={"taskIds": True}), FAIL),
    ("ack-lists-task-ids", lambda: listening(agreed={"taskIds": ["task-b"]}), FAIL),
    ("subscription-id-is-request-id", lambda: listening(), PASS),
    ("subscription-id-is-request-id", lambda: listening(id="text"), PASS),
    ("subscription-id-is-request-id", lambda: begun().tell(AGREED, named="77"), FAIL),
    (
        "subscription-id-is-request-id",
        lambda: piped().listen("a", agreed=None).tell(AGREED, named="77"),
        FAIL,
    ),
]

NOTICES: list[Row] = [
    ("only-requested-notifications", lambda: listening().tell_task(task()), PASS),
    ("only-requested-notifications", lambda: listening().tell(CHANGED), MIXED),
    ("only-requested-notifications", lambda: listening().tell("notifications/cancelled"), PASS),
    (
        "only-requested-notifications",
        lambda: (
            posted()
            .ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id=77)
            .tell(AGREED)
            .tell(CHANGED)
        ),
        PASS,
    ),
    ("notifications-optional", lambda: listening(), SILENT),
    ("notifications-optional", lambda: listening().tell_task(task()), PASS),
    ("notifications-only-for-listened-ids", lambda: listening().tell_task(task()), PASS),
    ("notifications-only-for-listened-ids", lambda: listening().tell_task(task("b")), FAIL),
    ("notification-is-whole-task", lambda: listening().tell_task(DONE).get(DONE), PASS),
    ("notification-is-whole-task", lambda: listening().get(DONE).tell_task(task()), PASS),
    (
        "notification-is-whole-task",
        lambda: listening().tell_task(task(status="completed", result=None)),
        FAIL,
    ),
    ("notification-is-whole-task", lambda: listening().tell_task(DONE).get(task()), FAIL),
    (
        "notification-is-whole-task",
        lambda: listening().tell_task(DONE).get(task(status="completed", result={"content": [1]})),
        FAIL,
    ),
    ("no-progress-on-listen", lambda: listening().tell_task(task()), PASS),
    ("no-progress-on-listen", lambda: listening(), SILENT),
    ("no-progress-on-listen", lambda: listening().tell("notifications/progress"), FAIL),
    ("no-log-messages-on-listen", lambda: listening().tell_task(task()), PASS),
    ("no-log-messages-on-listen", lambda: listening().tell("notifications/message"), FAIL),
    ("no-progress-for-tasks", lambda: noisy(posted()).get(DONE), PASS),
    ("no-progress-for-tasks", lambda: noisy(posted()), SILENT),
    ("no-progress-for-tasks", lambda: progress(noisy(posted())), FAIL),
    ("no-progress-for-tasks", lambda: progress(noisy(posted()), "other").get(DONE), PASS),
    ("no-progress-for-tasks", lambda: progress(posted().create()), SILENT),
]

ENDS: list[Row] = [
    ("listen-missing-capability-32021", lambda: refused(-32021, NEEDED), PASS),
    ("listen-missing-capability-32021", lambda: refused(-32021), FAIL),
    ("listen-missing-capability-32021", lambda: refused(-32602), FAIL),
    ("listen-missing-capability-32021", lambda: listening(declares=False), FAIL),
    ("listen-missing-capability-32021", lambda: listening(), SILENT),
    ("listen-final-response", lambda: listening(), SILENT),
    ("listen-final-response", lambda: listening().end(), FAIL),
    ("listen-final-response", lambda: listening().tell("notifications/cancelled").end(), NOTE),
    ("listen-final-response", lambda: ended({"resultType": "complete"}), PASS),
    (
        "listen-final-response-shape",
        lambda: ended({"resultType": "complete", "_meta": {SUBSCRIPTION: 77}}),
        PASS,
    ),
    (
        "listen-final-response-shape",
        lambda: ended({"resultType": "complete", "_meta": {SUBSCRIPTION: "77"}}),
        FAIL,
    ),
    ("listen-final-response-shape", lambda: ended({"_meta": {SUBSCRIPTION: 77}}), FAIL),
    (
        "listen-final-response-shape",
        lambda: ended({"resultType": "complete", "why": 1, "_meta": {SUBSCRIPTION: 77}}),
        NOTE,
    ),
    ("no-subscription-state-kept", lambda: listening().tell_task(task()), SILENT),
    ("no-subscription-state-kept", lambda: listening().get(task(), line=2), PASS),
    ("no-subscription-state-kept", lambda: posted().notify("notifications/tasks", task()), FAIL),
    (
        "no-subscription-state-kept",
        lambda: piped().listen("a").notify("notifications/tasks", task("a"), line=2),
        FAIL,
    ),
    (
        "auth-on-each-request",
        lambda: posted(BOTH).create().listen("task-a", caller="B"),
        FAIL,
    ),
    (
        "auth-on-each-request",
        lambda: posted(BOTH).create().listen("task-a", caller="B", agreed={}),
        PASS,
    ),
]


@pytest.mark.parametrize(("id", "tale", "expected"), numbered(*ACKNOWLEDGEMENTS, *NOTICES, *ENDS))
def test_the_check_says(id: str, tale: Callable[[], Extension], expected: set[str]) -> None:
    assert outcomes(id, tale()) == expected
