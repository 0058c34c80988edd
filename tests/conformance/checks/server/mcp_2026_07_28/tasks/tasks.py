"""Tasks extension: task fields, creation, statuses and results."""

from typing import Any

from tests.conformance.checks.cases import (
    MIXED,
    NOTE,
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
from tests.conformance.histories.messages_2026_07_28 import http, stdio, task

DONE = task(status="completed")
FAILED = task(status="failed")
CANCELLED = task(status="cancelled")


def got(*shown: Any) -> Any:
    """Create a task and poll it."""
    return http().create().get(*shown)


def without(name: str, **fields: Any) -> dict[str, Any]:
    return {key: value for key, value in task(**fields).items() if key != name}


def expired(*, code: int = -32602) -> Any:
    return http().create(task(ttlMs=100)).wait(500).not_found(code=code)


def old_task() -> Any:
    """Create a task in a session of 2025-11-25."""
    history = http().initialize_old(tasks={})
    old = {"name": "tool", "arguments": {}, "task": {}}
    return history.request("tools/call", old, line=2).answer({"task": {"taskId": "o"}})


def twins(plain: Any, *ends: Any) -> Any:
    """Call twice without tasks, then create tasks of the same call with these ends."""
    history = http()
    for _ in range(2):
        history.call(declares=False)
        history.error(**plain) if "code" in plain else history.answer(plain)
    for number, end in enumerate(ends):
        id = f"task-{number}"
        history.create(task(id)).get({**end, "taskId": id})
    return history


TEXT = {"content": [{"type": "text", "text": "a"}], "resultType": "complete"}
WRONG = {"content": [], "isError": True, "resultType": "complete"}


def completed(result: Any) -> dict[str, Any]:
    return task(status="completed", result=result)


def failing(**error: Any) -> dict[str, Any]:
    return task(status="failed", error={"message": "no", **error})


REQUIRED = ("taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs")

ROWS: Rows = {
    "task-required-fields": [
        good(got(task())),
        mixed(*(got(without(name)) for name in REQUIRED)),
    ],
    "task-id-string": [
        good(got(task())),
        bad(http().create(task(id=7))),
        mixed(got().ask("tasks/get", {"taskId": "b"}).answer(task())),
    ],
    "task-id-from-server": [
        good(http().create().create(task("task-b")), http().create(more={"taskId": "x"})),
        nothing(http().create()),
        bad(http().create().create(), http().create(more={"taskId": "task-a"})),
    ],
    "ids-unguessable": [
        good(http().create(task("786512e2-9e0d-44bd-8f29-789f320fe840"))),
        bad(http().create(task("1")).create(task("2"))),
    ],
    "status-message-optional": [
        good(got(task(statusMessage="at work"))),
        nothing(got(task())),
        bad(got(task(statusMessage=None))),
    ],
    "created-at-iso": [
        good(got(task()), got(task(createdAt="2026-11-16T11:00:00+01:00"))),
        mixed(got(task(createdAt="yesterday")), got(task(createdAt="2026-11-16T10:00:01Z"))),
    ],
    "last-updated-at-iso": [
        good(got(task())),
        mixed(got(task(lastUpdatedAt=17)), got(task(lastUpdatedAt="2026-11-16T09:00:00Z"))),
        row(got(task(lastUpdatedAt="2026-11-16T11:00:00Z"), task()), MIXED | NOTE),
    ],
    "ttl-ms-integer-or-null": [
        good(got(task(), task(ttlMs=None))),
        bad(
            http().create(without("ttlMs")),
            http().create(task(ttlMs="60000")),
            http().create(task(ttlMs=True)),
            http().create(task(ttlMs=-1)),
        ),
    ],
    "ttl-ms-may-change": [good(got(task(ttlMs=1))), nothing(got(task()))],
    "poll-interval-ms-integer": [
        good(got(task(pollIntervalMs=500))),
        nothing(got(task())),
        bad(got(task(pollIntervalMs=-1.5)), got(task(pollIntervalMs=None))),
    ],
    "poll-interval-may-change": [good(got(task(pollIntervalMs=1)))],
    "create-result-type-task": [
        good(http().create()),
        nothing(http().call().answer({"content": []})),
        bad(http().call().answer(task()), http().call().answer({"task": task()})),
    ],
    "create-result-flat": [
        good(http().create()),
        nothing(old_task()),
        bad(http().call().answer({"resultType": "task", "task": task()})),
    ],
    "seed-status": [
        good(http().create()),
        note(http().create(task(status="completed"))),
        bad(http().create(task(status="submitted"))),
    ],
    "only-tools-call": [
        good(http().create()),
        bad(http().ask("tools/list").answer({"resultType": "task"})),
    ],
    "result-type-task-only-on-create": [good(got(task())), bad(got(task(resultType="task")))],
    "result-type-task-reserved": [
        good(http().create()),
        bad(http().call().answer({"resultType": "task"})),
    ],
    "durable-before-create-answer": [
        good(got(task()), got(DONE).not_found()),
        nothing(
            http().create().not_found(caller="B"),
            http().create().cancel().not_found(),
            http().create().not_found(code=-32603),
            expired(),
        ),
        bad(http().create().not_found()),
    ],
    "wait-for-consistency": [
        good(http().create().get(task(), line=2)),
        nothing(got(task()), stdio().create().not_found(line=2)),
        bad(http().create().not_found(line=2)),
    ],
    "mrtr-before-create": [
        good(http().create(more={"requestState": "s"})),
        nothing(http().create()),
        bad(http().create(task(requestState="s"))),
    ],
    "kept-until-ttl": [
        good(got(DONE, DONE)),
        nothing(
            got(CANCELLED).cancel().acknowledge().not_found(),
            got(task(status="completed", ttlMs=0)).not_found(),
            got(task(status="completed", ttlMs="x")).not_found(),
        ),
        warning(got(DONE).not_found(), got(task(status="completed", ttlMs=None)).not_found()),
    ],
    "may-delete-after-ttl": [good(expired()), nothing(got(DONE))],
    "may-fail-after-ttl": [
        good(http().create(task(ttlMs=1)).wait(99).get(task(status="failed", ttlMs=1)))
    ],
    "purged-reads-as-not-found": [good(expired()), bad(expired(code=-31_000))],
    "status-values": [
        good(got(task(), DONE)),
        mixed(got(task(status="running")), got(task(status=["working"]))),
    ],
    "paths-from-working": [good(got(DONE)), bad(got(task(status="running")))],
    "paths-from-input-required": [
        good(got(task(status="input_required"), task())),
        bad(got(task(status="input_required"), task(status="paused"))),
    ],
    "terminal-final": [
        good(
            got(DONE, DONE),
            got(DONE, task(status="completed", result={"content": [], "_meta": {"at": 2}})),
        ),
        nothing(http().create().not_found().get(DONE)),
        bad(got(DONE, task()), got(CANCELLED, DONE)),
        mixed(
            got(DONE, task(status="completed", result={"content": [1]})),
            got(FAILED, task(status="failed", error={"code": 1, "message": "no"})),
        ),
    ],
    "status-cancelled": [
        good(
            got(task(status="cancelled", statusMessage="stopped")),
            got().cancel().acknowledge().get(CANCELLED),
        ),
        warning(got(CANCELLED)),
    ],
    "payload-matches-status": [
        good(got(task(), DONE, FAILED), got(task(status="completed", error=None))),
        warning(got(task(result={}))),
        bad(
            got(task(inputRequests={})),
            got(task(status="cancelled", result={})),
            got(task(status="completed", error={})),
        ),
    ],
    "status-working": [good(got(task())), bad(got(task(inputRequests={"a": {}})))],
    "status-input-required": [
        good(got(task(status="input_required"))),
        bad(got(task(status="input_required", inputRequests=[]))),
    ],
    "status-completed": [good(got(DONE)), bad(got(task(status="completed", result=None)))],
    "status-failed": [
        good(got(FAILED)),
        bad(
            got(task(status="failed", error={"message": "no"})),
            got(task(status="failed", error={"code": 1})),
        ),
    ],
    "get-answers-by-status": [
        good(got(task(), DONE)),
        bad(got(without("result", status="completed"))),
    ],
    "get-completed-has-result": [good(got(DONE)), bad(got(without("result", status="completed")))],
    "get-failed-has-error": [good(got(FAILED)), bad(got(without("error", status="failed")))],
    "get-cancelled": [good(got(CANCELLED)), bad(got(task(status="cancelled", result={})))],
    "get-working": [
        good(
            got(task()),
            got(task()).not_found(code=-32000, caller="B").get(task()),
            got(task()).not_found(),
        ),
        warning(got(task(error={}))),
        mixed(got(task()).not_found(code=-32000).get(task())),
    ],
    "get-input-required-has-requests": [
        good(
            got(task(status="input_required")),
            got(task(status="input_required", inputRequests={"a": {"method": "roots/list"}})),
        ),
        note(got(task(status="input_required", inputRequests={}))),
        bad(
            got(
                task(status="input_required", inputRequests={"a": {"method": "elicitation/create"}})
            ),
            got(task(status="input_required", inputRequests={"a": 7})),
            got(task(status="input_required", inputRequests=None)),
            http().get(
                task(status="input_required", inputRequests={}),
                capabilities={"elicitation": {}, "sampling": {}, "roots": {}},
            ),
        ),
    ],
    "get-result-type-complete": [good(got(task())), bad(got(task(resultType="task")))],
    "task-questions-not-mrtr": [
        good(got(task(status="input_required"))),
        bad(got(task(resultType="input_required"))),
    ],
    "inlined-result-type": [note(got(DONE))],
    "reads-do-not-write": [
        good(got(DONE, DONE)),
        nothing(got(task(), task(lastUpdatedAt="2026-11-16T11:00Z"))),
        bad(got(DONE, task(status="completed", lastUpdatedAt="2026-11-16T11:00:00Z"))),
    ],
    "may-rate-limit-polling": [good(got(task(pollIntervalMs=5_000), task())), nothing(got(task()))],
    "result-is-underlying": [
        good(
            twins(TEXT, completed(TEXT)),
            twins(TEXT, completed({"content": TEXT["content"]})),
            twins({**TEXT, "xMore": 1}, completed(TEXT)),
        ),
        nothing(twins(TEXT, completed(WRONG)), twins(TEXT, completed(WRONG), completed(TEXT))),
        bad(twins(TEXT, completed(WRONG), completed(WRONG))),
    ],
    "is-error-is-completed": [
        good(got(completed(WRONG))),
        nothing(twins(TEXT, failing(code=1))),
        bad(twins(WRONG, completed(TEXT)), twins(WRONG, failing(code=1))),
    ],
    "failed-only-for-jsonrpc-errors": [
        good(got(completed(WRONG))),
        nothing(got(failing(code=1))),
        bad(twins(WRONG, failing(code=1)), got(failing(code=1, data=WRONG))),
    ],
    "failed-on-jsonrpc-error": [
        good(got(FAILED)),
        nothing(got(DONE)),
        bad(got(completed({"code": 1, "message": "no"}))),
    ],
    "error-is-underlying": [
        good(twins({"code": -31_001}, failing(code=-31_001))),
        nothing(twins({"code": -32_602}, failing(code=1))),
        note(twins({"code": -32_002}, failing(code=-32_602))),
        bad(twins({"code": -31_001}, failing(code=-32_603))),
    ],
    "failed-status-message": [
        good(got(FAILED)),
        bad(got(task(status="failed", statusMessage=" "))),
    ],
}

CASES = table("2026-07-28", ROWS)
