"""Checks of servers accept any JSON value in every field without an exception."""

from typing import Any

import pytest

from taskmachine.adapters.conformance.catalogue import load_checks
from taskmachine.adapters.conformance.history import History
from taskmachine.adapters.conformance.judging import CHECKS
from tests.conformance.histories import messages_2026_07_28 as messages
from tests.conformance.histories import wire_2026_07_28 as wire
from tests.conformance.histories.messages_2026_07_28 import TASKS, task

load_checks()

VALUES: list[Any] = [None, True, -1, 1.5, 10**400, "", "x", [], [{}], [[]], {}, {"a": [1]}]
FIELDS = [
    *("taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttlMs"),
    *("pollIntervalMs", "result", "error", "inputRequests", "resultType", "task", "_meta"),
]
RESULT_FIELDS = [
    *("resultType", "taskId", "status", "inputRequests", "result", "error", "content"),
    *("supportedVersions", "capabilities", "tools", "protocolVersion", "_meta"),
]


def failures(history: History) -> list[str]:
    """Return the checks that raise."""
    found = []
    for id, check in CHECKS.items():
        if id.startswith(history.revision):
            try:
                list(check.observe(history))
            except Exception as error:  # noqa: BLE001
                found.append(f"{id}: {error!r}")
    return found


def task_life(history: Any, number: int, **malformed: Any) -> None:
    """Perform every operation on a task with these fields."""
    id, stream = f"task-{number}", f"stream-{number}"
    history.create({**task(id), **malformed}).listen(id, id=stream)
    for status in ("working", "input_required", "completed", "failed", "cancelled"):
        shown = {**task(id, status), **malformed}
        history.ask("tasks/get", {"taskId": id}).answer({"resultType": "complete", **shown})
        history.announce("notifications/tasks", on=stream, **shown)
        history.update(id=id).acknowledge(**malformed)
    history.cancel(id).acknowledge(**malformed)
    history.call(declares=False).answer(malformed)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("begin", [messages.http, messages.stdio])
def test_malformed_fields_of_tasks(field: str, begin: Any) -> None:
    history = begin().discover()
    for number, value in enumerate(VALUES):
        task_life(history, number, **{field: value})
    assert failures(history.history) == []


@pytest.mark.parametrize("begin", [messages.http, messages.stdio])
def test_malformed_input_requests(begin: Any) -> None:
    history = begin()
    for number, value in enumerate(VALUES):
        id = f"task-{number}"
        history.create(task(id))
        for request in (
            value,
            {"method": value},
            {"method": "elicitation/create", "params": value},
        ):
            history.get(task(id, "input_required", inputRequests={"size": request}))
            history.update(id=id).acknowledge().update({"size": value}, id).acknowledge()
    assert failures(history.history) == []


@pytest.mark.parametrize("begin", [messages.http, messages.stdio])
def test_malformed_results(begin: Any) -> None:
    history = begin()
    for number, value in enumerate(VALUES):
        history.discover(value).discover({TASKS: value})
        history.ask("server/discover").answer({"capabilities": value})
        history.listen("task-a", id=f"a{number}", agreed=value)
        history.announce("notifications/tasks", on=f"a{number}", taskId=value)
        history.ask("subscriptions/listen", {"notifications": value}, id=f"b{number}").answer(value)
        history.push("notifications/progress", value)
        for method in ("tools/call", "tasks/get", "tasks/update", "tasks/cancel", "tasks/list"):
            for params in ({"taskId": value}, {"taskId": "a", "name": value, "arguments": value}):
                history.ask(method, params).answer(value)
                history.ask(method, params).error(value, value, data=value)
                history.ask(method, params, declares=False).error(-32021, data=value)
                history.request(method, value).answer(value)
    assert failures(history.history) == []


@pytest.mark.parametrize("begin", [wire.http, wire.stdio])
@pytest.mark.parametrize("value", VALUES)
def test_malformed_messages(value: Any, begin: Any) -> None:
    mark = {"type": value, "x-mcp-header": value}
    marked = {"name": "a", "inputSchema": {"properties": {"n": mark}}}
    metas: list[Any] = [
        None,
        {wire.CAPABILITIES: {}},
        {wire.CLIENT: {"name": "b", "version": "1"}},
        {wire.MCP + "unknown-key": 1},
    ]
    history = begin()
    for method in ("server/discover", "tools/list", "tools/call", "tasks/get", "initialize"):
        for meta in metas:
            params = {"taskId": "t1", "name": "a", "arguments": {"n": 1}}
            history.ask(method, params, meta=meta).answer(dict.fromkeys(RESULT_FIELDS, value))
        history.ask(method).answer(value)
        history.ask(method).error(value, value, data=value)
        history.ask(method).error(-32021, data={"requiredCapabilities": value})
        history.ask(method).error(-32022, data={"supported": value})
    history.ask("tools/list").answer({**wire.LISTED, "tools": [marked, value]})
    history.ask("tasks/get", {"taskId": value}).answer(
        wire.shown(status=value, error={"code": value})
    )
    history.push("notifications/tasks", value).push("notifications/progress", {"x": value})
    history.notify("notifications/cancelled", {"requestId": value}).receive(value)
    assert failures(history.history) == []
