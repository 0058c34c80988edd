"""Task fields and ids of 2025-11-25, in unusual cases."""

from typing import Any

from taskmachine.adapters.conformance.history import MISSING
from tests.conformance.checks.cases import Rows, bad, good, mixed, note, nothing, table, warning
from tests.conformance.histories.messages import Messages, a_task, messages

LATER = "2026-11-16T10:00:05.000Z"
UUIDS = ("0b7e7f4e-6a43-4c38-8d33-5f3a0e4f6d11", "c2f3e1a0-93a7-4f0e-9a41-0d5b8f7c6e22")


def seen(*statuses: str, **fields: Any) -> Messages:
    """Create a task, then poll it."""
    return messages().create(a_task()).get(*(a_task(status=s, **fields) for s in statuses))


def created(**fields: Any) -> Messages:
    return messages().create(a_task(**fields))


def made(*ids: str, principals: Any = None) -> Messages:
    """Create tasks with these ids."""
    history = messages(principals=principals)
    for id in ids:
        history.create(a_task(id))
    return history


def overlapping(first: str, second: str) -> Messages:
    """Poll twice at the same time; the answers come in this order."""
    history = messages().create(a_task())
    history.request("tasks/get", {"taskId": "task-a"}, id="x")
    history.request("tasks/get", {"taskId": "task-a"}, id="y")
    return history.answer(a_task(status=first), to="x").answer(a_task(status=second), to="y")


ROWS: Rows = {
    "terminal-final": [
        good(seen("completed", "completed")),
        nothing(overlapping("completed", "working")),
        bad(
            seen("completed", "working"),
            seen("cancelled", "completed"),
            overlapping("completed", "failed"),
            overlapping("completed", "working").get(a_task(status="working")),
        ),
    ],
    "paths-from-working": [
        good(seen("input_required", "working", "completed")),
        bad(seen("paused")),
    ],
    "status-values": [
        good(seen("input_required", "failed")),
        bad(created(status=["working"]), created(status="Working")),
    ],
    "created-at-everywhere": [
        good(
            created(createdAt="2026-11-16T12:00:00+02:00"),
            created(createdAt="2026-11-16T12:00:00.123456789z"),
        ),
        bad(
            created(createdAt=1763287200),
            created(createdAt=MISSING),
            created(createdAt="Mon Nov 16 2026"),
        ),
    ],
    "created-at-constant": [
        nothing(seen(createdAt="2026-11-16T11:00:00+01:00")),
        good(seen("working", "completed")),
        bad(seen("working", createdAt=LATER)),
    ],
    "last-updated-at-order": [
        good(
            seen("completed", lastUpdatedAt=LATER),
            # an update of a field that only the target understands
            messages().get(a_task(xDone=1), a_task(xDone=2, lastUpdatedAt=LATER)),
        ),
        # the coarser of two timestamps decides
        nothing(created(createdAt="2026-11-16T10:00:00.900Z", lastUpdatedAt=LATER[:19] + "Z")),
        good(seen("completed")),
        note(messages().get(a_task(), a_task(lastUpdatedAt=LATER))),
        warning(
            messages().get(a_task(status="failed"), a_task(status="failed", lastUpdatedAt=LATER))
        ),
        bad(
            created(lastUpdatedAt="2026-11-16T09:59:59.999Z"),
        ),
        bad(messages().get(a_task(lastUpdatedAt=LATER), a_task())),
        mixed(created().wait(500).get(a_task(), a_task(status="completed"))),
    ],
    "task-id-unique": [
        good(made("a", "b", "c")),
        # a new process may use the same id
        good(messages(transport="stdio").create(a_task("1"), line=1).create(a_task("1"), line=2)),
        bad(made("a", "a")),
    ],
    "ids-unguessable": [
        good(
            made(*UUIDS),
            made(*(f"task_{id}" for id in UUIDS)),
            made(*UUIDS).create(a_task("mine"), task={"taskId": "mine"}),
        ),
        warning(made("1", "2", "3", principals={"A": "alice"})),
        bad(
            made("1", "2", "3"),
            made("task-9", "task-10", "task-11"),
            made(*(f"{'7' * 40}{n}" for n in range(3))),
            made("k3x9", "p0q2"),
            made("d9428888-122b-11e1-b85c-61cd3cbb3210"),
            made(*(f"aaaaaaaa-{n}-bbbbbbbbbbbbbbbbbbbbbbbb" for n in ("1a", "7c", "e0", "42"))),
        ),
    ],
    "task-id-string": [
        good(made("a")),
        bad(messages().create({"taskId": 7, "status": "working"})),
    ],
    "task-required-fields": [good(created(ttl=None)), bad(created(ttl=MISSING))],
    "status-message-optional": [
        good(created(statusMessage="at it")),
        bad(created(statusMessage=None)),
    ],
}

CASES = table("2025-11-25", ROWS)
