"""What the checks say of messages that belong to a task of 2025-11-25, and of tasks that ask."""

from typing import Any

import pytest

from taskmachine.adapters.conformance.catalogue import load_checks
from taskmachine.adapters.conformance.history import MISSING, RELATED
from tests.conformance.histories.told import Told, a_task, offering, says

load_checks()

ID = "0b7e7f4e-6a43-4c38-8d33-5f3a0e4f6d11"
OTHER = "c2f3e1a0-93a7-4f0e-9a41-0d5b8f7c6e22"
TEXT = {"content": [{"type": "text", "text": "done"}]}


def named(id: Any = ID) -> dict[str, Any]:
    """The metadata; none if there is no id."""
    return {} if id is MISSING else {"_meta": {RELATED: {"taskId": id}}}


def question(id: Any = ID, request_id: str = "q1") -> dict[str, Any]:
    """A form."""
    params = {"message": "Which?", "requestedSchema": {"type": "object"}, **named(id)}
    return {"jsonrpc": "2.0", "id": request_id, "method": "elicitation/create", "params": params}


def reply(request_id: str = "q1") -> dict[str, Any]:
    """Our answer."""
    return {"jsonrpc": "2.0", "id": request_id, "result": {"action": "accept", "content": {}}}


def waiting(**options: Any) -> Told:
    """A task, and somebody who waits for its result."""
    return offering(**options).create(a_task(ID)).request("tasks/result", {"taskId": ID}, id="r")


def asking(id: Any = ID) -> Told:
    """A question comes on the stream of `tasks/result`."""
    return waiting().hear(question(id), on="r")


def result(meta: dict[str, Any]) -> Told:
    """A result with that metadata."""
    return waiting().answer({**TEXT, **meta})


def progress(meta: dict[str, Any], token: str = "t") -> Told:
    """A task with a token, and its progress."""
    params = {"name": "tool", "arguments": {}, "task": {}, "_meta": {"progressToken": "t"}}
    tale = offering().request("tools/call", params).answer({"task": a_task(ID)})
    return tale.notify("notifications/progress", {"progressToken": token, "progress": 1, **meta})


def two() -> Told:
    """Two tasks that are over."""
    tale = offering().create(a_task(ID)).create(a_task(OTHER))
    return tale.get(a_task(ID, "completed")).get(a_task(OTHER, "completed"))


def with_metadata(method: str = "tasks/get", tale: Told | None = None) -> Told:
    """One task is asked for, and the other one is in the metadata."""
    return (tale or two()).request(method, {"taskId": ID, **named(OTHER)})


def cancelled_while_it_reports(later_ms: float) -> Told:
    """Progress, a cancel, and once more progress."""
    tale = progress(named()).request("tasks/cancel", {"taskId": ID})
    tale.answer(a_task(ID, "cancelled")).wait(later_ms)
    params = {"progressToken": "t", "progress": 2, **named()}
    return tale.notify("notifications/progress", params)


def silent(ms: float, *, asks: bool = False, transport: str = "stdio") -> Told:
    """A task needs input for a while, and somebody listens."""
    tale = waiting(transport=transport).get(a_task(ID, "input_required"))
    if asks:
        tale.hear(question(), on="r" if transport == "http" else None)
    return tale.wait(ms).get(a_task(ID, "input_required"))


def answered(ms: float, status: str, *, listens: bool = True) -> Told:
    """All is answered; a while later the task is so."""
    tale = offering().create(a_task(ID))
    if listens:
        tale.request("tasks/result", {"taskId": ID})
    tale.get(a_task(ID, "input_required")).hear(question()).say(reply())
    return tale.wait(ms).get(a_task(ID, status))


def two_ask(first: str, second: str) -> Told:
    """Two tasks ask, and both get their answers."""
    tale = offering()
    for id in (ID, OTHER):
        tale.create(a_task(id)).get(a_task(id, "input_required"))
        tale.request("tasks/result", {"taskId": id})
    for number, id in enumerate((first, second)):
        tale.hear(question(id, f"q{number}")).say(reply(f"q{number}"))
    for id in (ID, OTHER):
        tale.get(a_task(id, "completed"))
    return tale


def replayed() -> Told:
    """A question that comes again under another number."""
    return asking().hear(question(request_id="q2"), on="r")


KEPT: list[tuple[str, Told]] = [
    ("related-task-on-question", asking()),
    ("related-task-on-progress", progress(named())),
    ("related-task-on-result", result(named())),
    ("related-task-on-task-messages", result(named())),
    ("related-task-on-create-result", offering().create(a_task(ID))),
    (
        "related-task-on-error",
        two().request("tasks/result", {"taskId": ID}).error(-32000, data={"taskId": ID}),
    ),
    ("related-task-value-shape", result(named())),
    ("side-channel-allowed", replayed()),
    ("no-related-task-on-task-results", two()),
    (
        "no-related-task-on-status-notification",
        offering().notify("notifications/tasks/status", a_task()),
    ),
    ("related-task-ignored-on-task-requests", with_metadata().answer(a_task(ID, "completed"))),
    (
        "related-task-ignored-on-task-requests",
        with_metadata("tasks/result").answer({**TEXT, **named()}),
    ),
    ("progress-supported-on-tasks", progress(named())),
    ("cancel-stops-work", cancelled_while_it_reports(100)),
    # tasks that ask
    ("input-required-when-asking", asking().get(a_task(ID, "input_required")).say(reply())),
    ("leaves-input-required-when-answered", answered(100, "working")),
    ("status-input-required", silent(9_000, asks=True)),
    ("status-working", silent(9_000, asks=True)),
    ("question-task-id-matches", two_ask(ID, OTHER)),
]

ALLOWED: list[tuple[str, Told]] = [
    # a plain call may ask, too
    (
        "related-task-on-question",
        waiting(transport="stdio").request("tools/call", {"name": "tool"}).hear(question(MISSING)),
    ),
    # who asked may have got what it needs
    ("input-required-when-asking", asking().say(reply()).get(a_task(ID))),
    ("input-required-when-asking", asking().get(a_task(ID, "failed")).say(reply())),
    # the next question may wait for somebody who listens
    ("leaves-input-required-when-answered", answered(9_000, "input_required", listens=False)),
    ("leaves-input-required-when-answered", answered(100, "input_required")),
    ("status-input-required", silent(1_000)),
    # over HTTP it may ask on the stream of a GET, which nobody has opened
    ("status-input-required", silent(9_000, transport="http")),
    ("status-working", silent(9_000, transport="http")),
    (
        "status-input-required",
        offering().create(a_task(ID)).get(a_task(ID, "input_required"))
        .wait(9_000).get(a_task(ID, "input_required")),
    ),
    # progress before the task is known
    (
        "related-task-on-progress",
        offering()
        .request(
            "tools/call",
            {"name": "tool", "arguments": {}, "task": {}, "_meta": {"progressToken": "t"}},
        )
        .notify("notifications/progress", {"progressToken": "t", "progress": 1})
        .answer({"task": a_task(ID)}),
    ),
    # nobody is there
    ("related-task-ignored-on-task-requests", with_metadata().give_up()),
]  # fmt: skip

BROKEN: list[tuple[str, Told]] = [
    ("related-task-on-question", asking(MISSING)),
    (
        "related-task-on-question",
        waiting(transport="stdio").hear(question(MISSING)),
    ),
    ("related-task-on-progress", progress({})),
    ("related-task-on-progress", progress(named(OTHER))),
    ("related-task-on-result", result({})),
    ("related-task-on-result", result(named(OTHER))),
    ("related-task-on-task-messages", asking(MISSING)),
    ("related-task-on-task-messages", progress({})),
    ("related-task-on-task-messages", result({})),
    ("related-task-value-shape", result({"_meta": {RELATED: ID}})),
    ("related-task-value-shape", result(named("nobody"))),
    ("side-channel-allowed", asking().hear(question())),
    (
        "no-related-task-on-task-results",
        two().request("tasks/get", {"taskId": ID}).answer({**a_task(ID, "completed"), **named()}),
    ),
    (
        "no-related-task-on-status-notification",
        offering().notify("notifications/tasks/status", {**a_task(), **named()}),
    ),
    ("related-task-ignored-on-task-requests", with_metadata().answer(a_task(OTHER, "completed"))),
    ("related-task-ignored-on-task-requests", with_metadata().give_up().get(a_task(ID))),
    (
        "related-task-ignored-on-task-requests",
        with_metadata().error(-32602).get(a_task(ID, "completed")),
    ),
    ("progress-supported-on-tasks", progress(named(), token="other")),
    (
        "progress-supported-on-tasks",
        offering().create(a_task(ID)).request(
            "tools/call",
            {"name": "tool", "arguments": {}, "task": {}, "_meta": {"progressToken": "t"}},
        ).error(-32602),
    ),
    ("cancel-stops-work", cancelled_while_it_reports(5_100)),
    # tasks that ask
    ("input-required-when-asking", asking().get(a_task(ID)).say(reply())),
    ("leaves-input-required-when-answered", answered(5_100, "input_required")),
    ("status-input-required", silent(5_100)),
    ("status-working", silent(5_100)),
    ("question-task-id-matches", two_ask(ID, ID)),
]  # fmt: skip

NOTED: list[tuple[str, Told]] = [
    (
        "related-task-on-create-result",
        offering().request("tools/call", {"name": "tool", "task": {}})
        .answer({"task": a_task(ID), **named()}),
    ),
    ("related-task-on-error", two().request("tasks/result", {"taskId": ID}).error(-31000)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "tale"), KEPT)
def test_what_is_kept(name: str, tale: Told) -> None:
    assert says(f"2025-11-25:{name}", tale) == {"good"}


@pytest.mark.parametrize(("name", "tale"), ALLOWED)
def test_what_is_allowed(name: str, tale: Told) -> None:
    assert says(f"2025-11-25:{name}", tale) <= {"good"}


@pytest.mark.parametrize(("name", "tale"), BROKEN)
def test_what_is_broken(name: str, tale: Told) -> None:
    assert "bad" in says(f"2025-11-25:{name}", tale)


@pytest.mark.parametrize(("name", "tale"), NOTED)
def test_what_is_worth_a_note(name: str, tale: Told) -> None:
    assert says(f"2025-11-25:{name}", tale) - {"good"} == {"note"}
