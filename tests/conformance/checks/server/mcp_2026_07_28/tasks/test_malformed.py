"""Whatever a target sends, the checks of tasks and subscriptions do not stumble over it."""

from typing import Any

import pytest

from taskmachine.adapters.conformance.catalogue import load_checks
from taskmachine.adapters.conformance.judging import CHECKS
from tests.conformance.histories.extension import TASKS, Extension, piped, posted, task

load_checks()

OWN = (".mcp_2026_07_28.tasks.", ".mcp_2026_07_28.subscriptions")
ODD: list[Any] = [None, True, -1, 1.5, 10**400, "", "x", [], [{}], [[]], {}, {"a": [1]}]
FIELDS = [
    *("taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttlMs"),
    *("pollIntervalMs", "result", "error", "inputRequests", "resultType", "task", "_meta"),
]


def stumbles(told: Extension) -> list[str]:
    """Checks that raise."""
    found, history = [], told.history
    for id, check in CHECKS.items():
        if any(own in check.function.__module__ for own in OWN):
            try:
                list(check.observe(history))
            except Exception as error:  # noqa: BLE001
                found.append(f"{id}: {error!r}")
    return found


def live(told: Any, number: int, **odd: Any) -> None:
    """A task that is odd everywhere."""
    id, stream = f"task-{number}", f"stream-{number}"
    told.create({**task(id), **odd}).listen(id, id=stream)
    for status in ("working", "input_required", "completed", "failed", "cancelled"):
        shown = {**task(id, status), **odd}
        told.ask("tasks/get", {"taskId": id}).answer({"resultType": "complete", **shown})
        told.tell("notifications/tasks", on=stream, **shown)
        told.update(id=id).acknowledge(**odd)
    told.cancel(id).acknowledge(**odd)
    told.call(declares=False).answer(odd)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("begin", [posted, piped])
def test_odd_fields(field: str, begin: Any) -> None:
    told = begin().discover()
    for number, value in enumerate(ODD):
        live(told, number, **{field: value})
    assert stumbles(told) == []


@pytest.mark.parametrize("begin", [posted, piped])
def test_odd_questions(begin: Any) -> None:
    told = begin()
    for number, value in enumerate(ODD):
        id = f"task-{number}"
        told.create(task(id))
        for question in (
            value,
            {"method": value},
            {"method": "elicitation/create", "params": value},
        ):
            told.get(task(id, "input_required", inputRequests={"size": question}))
            told.update(id=id).acknowledge().update({"size": value}, id).acknowledge()
    assert stumbles(told) == []


@pytest.mark.parametrize("begin", [posted, piped])
def test_odd_answers(begin: Any) -> None:
    told = begin()
    for number, value in enumerate(ODD):
        told.discover(value).discover({TASKS: value})
        told.ask("server/discover").answer({"capabilities": value})
        told.listen("task-a", id=f"a{number}", agreed=value)
        told.tell("notifications/tasks", on=f"a{number}", taskId=value)
        told.ask("subscriptions/listen", {"notifications": value}, id=f"b{number}").answer(value)
        told.notify("notifications/progress", value)
        for method in ("tools/call", "tasks/get", "tasks/update", "tasks/cancel", "tasks/list"):
            for params in ({"taskId": value}, {"taskId": "a", "name": value, "arguments": value}):
                told.ask(method, params).answer(value)
                told.ask(method, params).error(value, value, data=value)
                told.ask(method, params, declares=False).error(-32021, data=value)
                told.request(method, value).answer(value)
    assert stumbles(told) == []
