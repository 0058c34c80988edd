"""The checks of the tasks extension, against histories written by hand: tasks and their ends."""

from collections.abc import Callable
from typing import Any

import pytest

from taskmachine.adapters.conformance.catalogue import load_checks
from tests.conformance.histories.extension import Extension, numbered, outcomes, piped, posted, task

load_checks()

PASS, FAIL, WARN, NOTE, SILENT = {"good"}, {"bad"}, {"warning"}, {"note"}, set[str]()
MIXED = {"good", "bad"}
Row = tuple[str, Callable[[], Any], set[str]]
DONE = task(status="completed")
FAILED = task(status="failed")
CANCELLED = task(status="cancelled")


def got(*shown: Any) -> Any:
    """A task that is created, and shown like this."""
    told = posted().create()
    for one in shown:
        told.get(one)
    return told


def without(name: str, **fields: Any) -> dict[str, Any]:
    return {key: value for key, value in task(**fields).items() if key != name}


FIELDS: list[Row] = [
    ("task-required-fields", lambda: got(task()), PASS),
    *(
        ("task-required-fields", lambda name=name: got(without(name)), MIXED)
        for name in ("taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs")
    ),
    ("task-id-string", lambda: got(task()), PASS),
    ("task-id-string", lambda: posted().create(task(id=7)), FAIL),
    ("task-id-string", lambda: got().ask("tasks/get", {"taskId": "b"}).answer(task()), MIXED),
    ("task-id-from-server", lambda: posted().create(), SILENT),
    ("task-id-from-server", lambda: posted().create().create(task("task-b")), PASS),
    ("task-id-from-server", lambda: posted().create().create(), FAIL),
    ("task-id-from-server", lambda: posted().create(more={"taskId": "x"}), PASS),
    ("task-id-from-server", lambda: posted().create(more={"taskId": "task-a"}), FAIL),
    (
        "ids-unguessable",
        lambda: posted().create(task("786512e2-9e0d-44bd-8f29-789f320fe840")),
        PASS,
    ),
    ("ids-unguessable", lambda: posted().create(task("1")).create(task("2")), FAIL),
    ("status-message-optional", lambda: got(task()), SILENT),
    ("status-message-optional", lambda: got(task(statusMessage="at work")), PASS),
    ("status-message-optional", lambda: got(task(statusMessage=None)), FAIL),
    ("created-at-iso", lambda: got(task()), PASS),
    ("created-at-iso", lambda: got(task(createdAt="yesterday")), MIXED),
    ("created-at-iso", lambda: got(task(createdAt="2026-11-16T11:00:00+01:00")), PASS),
    ("created-at-iso", lambda: got(task(createdAt="2026-11-16T10:00:01Z")), MIXED),
    ("last-updated-at-iso", lambda: got(task()), PASS),
    ("last-updated-at-iso", lambda: got(task(lastUpdatedAt=17)), MIXED),
    (
        "last-updated-at-iso",
        lambda: got(task(lastUpdatedAt="2026-11-16T09:00:00Z")),
        MIXED,
    ),
    (
        "last-updated-at-iso",
        lambda: got(task(lastUpdatedAt="2026-11-16T11:00:00Z"), task()),
        {"good", "bad", "note"},
    ),
    ("ttl-ms-integer-or-null", lambda: got(task(), task(ttlMs=None)), PASS),
    ("ttl-ms-integer-or-null", lambda: posted().create(without("ttlMs")), FAIL),
    ("ttl-ms-integer-or-null", lambda: posted().create(task(ttlMs="60000")), FAIL),
    ("ttl-ms-integer-or-null", lambda: posted().create(task(ttlMs=True)), FAIL),
    ("ttl-ms-integer-or-null", lambda: posted().create(task(ttlMs=-1)), FAIL),
    ("ttl-ms-may-change", lambda: got(task()), SILENT),
    ("ttl-ms-may-change", lambda: got(task(ttlMs=1)), PASS),
    ("poll-interval-ms-integer", lambda: got(task()), SILENT),
    ("poll-interval-ms-integer", lambda: got(task(pollIntervalMs=500)), PASS),
    ("poll-interval-ms-integer", lambda: got(task(pollIntervalMs=-1.5)), FAIL),
    ("poll-interval-ms-integer", lambda: got(task(pollIntervalMs=None)), FAIL),
    ("poll-interval-may-change", lambda: got(task(pollIntervalMs=1)), PASS),
]


def expired(*, code: int = -32602) -> Any:
    return posted().create(task(ttlMs=100)).wait(500).misses(code=code)


CREATION: list[Row] = [
    ("create-result-type-task", lambda: posted().create(), PASS),
    ("create-result-type-task", lambda: posted().call().answer({"content": []}), SILENT),
    ("create-result-type-task", lambda: posted().call().answer(task()), FAIL),
    ("create-result-type-task", lambda: posted().call().answer({"task": task()}), FAIL),
    ("create-result-flat", lambda: posted().create(), PASS),
    (
        "create-result-flat",
        lambda: posted().call().answer({"resultType": "task", "task": task()}),
        FAIL,
    ),
    ("create-result-flat", lambda: old_task(), SILENT),
    ("seed-status", lambda: posted().create(), PASS),
    ("seed-status", lambda: posted().create(task(status="completed")), NOTE),
    ("seed-status", lambda: posted().create(task(status="submitted")), FAIL),
    ("only-tools-call", lambda: posted().create(), PASS),
    ("only-tools-call", lambda: posted().ask("tools/list").answer({"resultType": "task"}), FAIL),
    ("result-type-task-only-on-create", lambda: got(task()), PASS),
    ("result-type-task-only-on-create", lambda: got(task(resultType="task")), FAIL),
    ("result-type-task-reserved", lambda: posted().create(), PASS),
    ("result-type-task-reserved", lambda: posted().call().answer({"resultType": "task"}), FAIL),
    ("durable-before-create-answer", lambda: got(task()), PASS),
    ("durable-before-create-answer", lambda: posted().create().misses(), FAIL),
    ("durable-before-create-answer", lambda: posted().create().misses(caller="B"), SILENT),
    ("durable-before-create-answer", lambda: posted().create().cancel().misses(), SILENT),
    ("durable-before-create-answer", lambda: posted().create().misses(code=-32603), SILENT),
    ("durable-before-create-answer", lambda: got(DONE).misses(), PASS),
    ("durable-before-create-answer", lambda: expired(), SILENT),
    ("wait-for-consistency", lambda: got(task()), SILENT),
    ("wait-for-consistency", lambda: posted().create().get(task(), line=2), PASS),
    ("wait-for-consistency", lambda: posted().create().misses(line=2), FAIL),
    ("wait-for-consistency", lambda: piped().create().misses(line=2), SILENT),
    ("mrtr-before-create", lambda: posted().create(), SILENT),
    ("mrtr-before-create", lambda: posted().create(more={"requestState": "s"}), PASS),
    ("mrtr-before-create", lambda: posted().create(task(requestState="s")), FAIL),
    ("kept-until-ttl", lambda: got(DONE, DONE), PASS),
    ("kept-until-ttl", lambda: got(DONE).misses(), WARN),
    ("kept-until-ttl", lambda: got(CANCELLED).cancel().acknowledge().misses(), SILENT),
    ("kept-until-ttl", lambda: got(task(status="completed", ttlMs=0)).misses(), SILENT),
    ("kept-until-ttl", lambda: got(task(status="completed", ttlMs=None)).misses(), WARN),
    ("kept-until-ttl", lambda: got(task(status="completed", ttlMs="x")).misses(), SILENT),
    ("may-delete-after-ttl", lambda: expired(), PASS),
    ("may-delete-after-ttl", lambda: got(DONE), SILENT),
    (
        "may-fail-after-ttl",
        lambda: posted().create(task(ttlMs=1)).wait(99).get(task(status="failed", ttlMs=1)),
        PASS,
    ),
    ("purged-reads-as-not-found", lambda: expired(), PASS),
    ("purged-reads-as-not-found", lambda: expired(code=-31_000), FAIL),
]


def old_task() -> Any:
    """A task of a session of 2025-11-25 beside."""
    told = posted().initialize_old(tasks={})
    old = {"name": "tool", "arguments": {}, "task": {}}
    return told.request("tools/call", old, line=2).answer({"task": {"taskId": "o"}})


STATUSES: list[Row] = [
    ("status-values", lambda: got(task(), DONE), PASS),
    ("status-values", lambda: got(task(status="running")), MIXED),
    ("status-values", lambda: got(task(status=["working"])), MIXED),
    ("paths-from-working", lambda: got(DONE), PASS),
    ("paths-from-working", lambda: got(task(status="running")), FAIL),
    ("paths-from-input-required", lambda: got(task(status="input_required"), task()), PASS),
    (
        "paths-from-input-required",
        lambda: got(task(status="input_required"), task(status="paused")),
        FAIL,
    ),
    ("terminal-final", lambda: got(DONE, DONE), PASS),
    ("terminal-final", lambda: got(DONE, task()), FAIL),
    ("terminal-final", lambda: got(CANCELLED, DONE), FAIL),
    (
        "terminal-final",
        lambda: got(DONE, task(status="completed", result={"content": [1]})),
        MIXED,
    ),
    (
        "terminal-final",
        lambda: got(DONE, task(status="completed", result={"content": [], "_meta": {"at": 2}})),
        PASS,
    ),
    (
        "terminal-final",
        lambda: got(FAILED, task(status="failed", error={"code": 1, "message": "no"})),
        MIXED,
    ),
    ("terminal-final", lambda: posted().create().misses().get(DONE), SILENT),
    ("status-cancelled", lambda: got(CANCELLED), WARN),
    ("status-cancelled", lambda: got(task(status="cancelled", statusMessage="stopped")), PASS),
    ("status-cancelled", lambda: got().cancel().acknowledge().get(CANCELLED), PASS),
    ("payload-matches-status", lambda: got(task(), DONE, FAILED), PASS),
    ("payload-matches-status", lambda: got(task(result={})), WARN),
    ("payload-matches-status", lambda: got(task(inputRequests={})), FAIL),
    ("payload-matches-status", lambda: got(task(status="cancelled", result={})), FAIL),
    ("payload-matches-status", lambda: got(task(status="completed", error={})), FAIL),
    ("payload-matches-status", lambda: got(task(status="completed", error=None)), PASS),
    ("status-working", lambda: got(task()), PASS),
    ("status-working", lambda: got(task(inputRequests={"a": {}})), FAIL),
    ("status-input-required", lambda: got(task(status="input_required")), PASS),
    ("status-input-required", lambda: got(task(status="input_required", inputRequests=[])), FAIL),
    ("status-completed", lambda: got(DONE), PASS),
    ("status-completed", lambda: got(task(status="completed", result=None)), FAIL),
    ("status-failed", lambda: got(FAILED), PASS),
    ("status-failed", lambda: got(task(status="failed", error={"message": "no"})), FAIL),
    ("status-failed", lambda: got(task(status="failed", error={"code": 1})), FAIL),
    ("get-answers-by-status", lambda: got(task(), DONE), PASS),
    ("get-answers-by-status", lambda: got(without("result", status="completed")), FAIL),
    ("get-completed-has-result", lambda: got(DONE), PASS),
    ("get-completed-has-result", lambda: got(without("result", status="completed")), FAIL),
    ("get-failed-has-error", lambda: got(FAILED), PASS),
    ("get-failed-has-error", lambda: got(without("error", status="failed")), FAIL),
    ("get-cancelled", lambda: got(CANCELLED), PASS),
    ("get-cancelled", lambda: got(task(status="cancelled", result={})), FAIL),
    ("get-working", lambda: got(task()), PASS),
    ("get-working", lambda: got(task(error={})), WARN),
    ("get-working", lambda: got(task()).misses(code=-32000).get(task()), MIXED),
    ("get-working", lambda: got(task()).misses(code=-32000, caller="B").get(task()), PASS),
    ("get-working", lambda: got(task()).misses(), PASS),
    ("get-input-required-has-requests", lambda: got(task(status="input_required")), PASS),
    (
        "get-input-required-has-requests",
        lambda: got(task(status="input_required", inputRequests={"a": {"method": "roots/list"}})),
        PASS,
    ),
    (
        "get-input-required-has-requests",
        lambda: got(
            task(status="input_required", inputRequests={"a": {"method": "elicitation/create"}})
        ),
        FAIL,
    ),
    (
        "get-input-required-has-requests",
        lambda: got(task(status="input_required", inputRequests={"a": 7})),
        FAIL,
    ),
    (
        "get-input-required-has-requests",
        lambda: got(task(status="input_required", inputRequests=None)),
        FAIL,
    ),
    (
        "get-input-required-has-requests",
        lambda: got(task(status="input_required", inputRequests={})),
        NOTE,
    ),
    (
        "get-input-required-has-requests",
        lambda: posted().get(
            task(status="input_required", inputRequests={}),
            capabilities={"elicitation": {}, "sampling": {}, "roots": {}},
        ),
        FAIL,
    ),
    ("get-result-type-complete", lambda: got(task()), PASS),
    ("get-result-type-complete", lambda: got(task(resultType="task")), FAIL),
    ("task-questions-not-mrtr", lambda: got(task(status="input_required")), PASS),
    ("task-questions-not-mrtr", lambda: got(task(resultType="input_required")), FAIL),
    ("inlined-result-type", lambda: got(DONE), NOTE),
    ("reads-do-not-write", lambda: got(DONE, DONE), PASS),
    (
        "reads-do-not-write",
        lambda: got(DONE, task(status="completed", lastUpdatedAt="2026-11-16T11:00:00Z")),
        FAIL,
    ),
    ("reads-do-not-write", lambda: got(task(), task(lastUpdatedAt="2026-11-16T11:00Z")), SILENT),
    ("may-rate-limit-polling", lambda: got(task()), SILENT),
    ("may-rate-limit-polling", lambda: got(task(pollIntervalMs=5_000), task()), PASS),
]


def twins(plain: Any, *ends: Any) -> Any:
    """Two plain calls that give the same, and tasks that end like this."""
    told = posted()
    for _ in range(2):
        told.call(declares=False)
        told.error(**plain) if "code" in plain else told.answer(plain)
    for number, end in enumerate(ends):
        id = f"task-{number}"
        told.create(task(id)).get({**end, "taskId": id})
    return told


TEXT = {"content": [{"type": "text", "text": "a"}], "resultType": "complete"}
WRONG = {"content": [], "isError": True, "resultType": "complete"}


def completed(result: Any) -> dict[str, Any]:
    return task(status="completed", result=result)


def failing(**error: Any) -> dict[str, Any]:
    return task(status="failed", error={"message": "no", **error})


RESULTS: list[Row] = [
    ("result-is-underlying", lambda: twins(TEXT, completed(TEXT)), PASS),
    ("result-is-underlying", lambda: twins(TEXT, completed({"content": TEXT["content"]})), PASS),
    ("result-is-underlying", lambda: twins({**TEXT, "xMore": 1}, completed(TEXT)), PASS),
    ("result-is-underlying", lambda: twins(TEXT, completed(WRONG)), SILENT),
    ("result-is-underlying", lambda: twins(TEXT, completed(WRONG), completed(WRONG)), FAIL),
    ("result-is-underlying", lambda: twins(TEXT, completed(WRONG), completed(TEXT)), SILENT),
    ("is-error-is-completed", lambda: got(completed(WRONG)), PASS),
    ("is-error-is-completed", lambda: twins(WRONG, completed(TEXT)), FAIL),
    ("is-error-is-completed", lambda: twins(WRONG, failing(code=1)), FAIL),
    ("is-error-is-completed", lambda: twins(TEXT, failing(code=1)), SILENT),
    ("failed-only-for-jsonrpc-errors", lambda: got(completed(WRONG)), PASS),
    ("failed-only-for-jsonrpc-errors", lambda: twins(WRONG, failing(code=1)), FAIL),
    ("failed-only-for-jsonrpc-errors", lambda: got(failing(code=1, data=WRONG)), FAIL),
    ("failed-only-for-jsonrpc-errors", lambda: got(failing(code=1)), SILENT),
    ("failed-on-jsonrpc-error", lambda: got(FAILED), PASS),
    ("failed-on-jsonrpc-error", lambda: got(completed({"code": 1, "message": "no"})), FAIL),
    ("failed-on-jsonrpc-error", lambda: got(DONE), SILENT),
    ("error-is-underlying", lambda: twins({"code": -31_001}, failing(code=-31_001)), PASS),
    ("error-is-underlying", lambda: twins({"code": -31_001}, failing(code=-32_603)), FAIL),
    ("error-is-underlying", lambda: twins({"code": -32_002}, failing(code=-32_602)), NOTE),
    ("error-is-underlying", lambda: twins({"code": -32_602}, failing(code=1)), SILENT),
    ("failed-status-message", lambda: got(FAILED), PASS),
    ("failed-status-message", lambda: got(task(status="failed", statusMessage=" ")), FAIL),
]


@pytest.mark.parametrize(
    ("id", "tale", "expected"),
    numbered(*FIELDS, *CREATION, *STATUSES, *RESULTS),
)
def test_the_check_says(id: str, tale: Callable[[], Extension], expected: set[str]) -> None:
    assert outcomes(id, tale()) == expected
