"""Related-task metadata, progress and input requests of 2025-11-25."""

from typing import Any

from taskmachine.adapters.conformance.history import MISSING, RELATED
from tests.conformance.checks.cases import Rows, bad, good, mixed, note, nothing, table
from tests.conformance.histories.messages import Messages, a_task, server

ID = "0b7e7f4e-6a43-4c38-8d33-5f3a0e4f6d11"
OTHER = "c2f3e1a0-93a7-4f0e-9a41-0d5b8f7c6e22"
TEXT = {"content": [{"type": "text", "text": "done"}]}


def named(id: Any = ID) -> dict[str, Any]:
    """Return related-task metadata, or none without an id."""
    return {} if id is MISSING else {"_meta": {RELATED: {"taskId": id}}}


def question(id: Any = ID, request_id: str = "q1") -> dict[str, Any]:
    params = {"message": "Which?", "requestedSchema": {"type": "object"}, **named(id)}
    return {"jsonrpc": "2.0", "id": request_id, "method": "elicitation/create", "params": params}


def reply(request_id: str = "q1") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": {"action": "accept", "content": {}}}


def waiting(**options: Any) -> Messages:
    """Create a task and wait for its result."""
    return server(**options).create(a_task(ID)).request("tasks/result", {"taskId": ID}, id="r")


def asking(id: Any = ID) -> Messages:
    """Receive an elicitation on the stream of `tasks/result`."""
    return waiting().receive(question(id), on="r")


def result(meta: dict[str, Any]) -> Messages:
    return waiting().answer({**TEXT, **meta})


def progress(meta: dict[str, Any], token: str = "t") -> Messages:
    """Create a task with a progress token; receive progress."""
    params = {"name": "tool", "arguments": {}, "task": {}, "_meta": {"progressToken": "t"}}
    history = server().request("tools/call", params).answer({"task": a_task(ID)})
    return history.push("notifications/progress", {"progressToken": token, "progress": 1, **meta})


def two() -> Messages:
    """Complete two tasks."""
    history = server().create(a_task(ID)).create(a_task(OTHER))
    return history.get(a_task(ID, "completed")).get(a_task(OTHER, "completed"))


def with_metadata(method: str = "tasks/get", history: Messages | None = None) -> Messages:
    """Send a request for one task with the metadata of the other."""
    return (history or two()).request(method, {"taskId": ID, **named(OTHER)})


def cancelled_while_it_reports(later_ms: float) -> Messages:
    """Receive progress of a task after it was cancelled."""
    history = progress(named()).request("tasks/cancel", {"taskId": ID})
    history.answer(a_task(ID, "cancelled")).wait(later_ms)
    params = {"progressToken": "t", "progress": 2, **named()}
    return history.push("notifications/progress", params)


def silent(ms: float, *, asks: bool = False, transport: str = "stdio") -> Messages:
    """Show a task as input_required for a while to a client that waits for its result."""
    history = waiting(transport=transport).get(a_task(ID, "input_required"))
    if asks:
        history.receive(question(), on="r" if transport == "http" else None)
    return history.wait(ms).get(a_task(ID, "input_required"))


def answered(ms: float, status: str, *, listens: bool = True) -> Messages:
    """Answer the elicitation; later poll a task with this status."""
    history = server().create(a_task(ID))
    if listens:
        history.request("tasks/result", {"taskId": ID})
    history.get(a_task(ID, "input_required")).receive(question()).send(reply())
    return history.wait(ms).get(a_task(ID, status))


def two_ask(first: str, second: str) -> Messages:
    """Answer the elicitations of two tasks; each names one of the tasks."""
    history = server()
    for id in (ID, OTHER):
        history.create(a_task(id)).get(a_task(id, "input_required"))
        history.request("tasks/result", {"taskId": id})
    for number, id in enumerate((first, second)):
        history.receive(question(id, f"q{number}")).send(reply(f"q{number}"))
    for id in (ID, OTHER):
        history.get(a_task(id, "completed"))
    return history


def replayed() -> Messages:
    """Receive the same elicitation under a new id."""
    return asking().receive(question(request_id="q2"), on="r")


ROWS: Rows = {
    "related-task-on-question": [
        good(asking()),
        bad(asking(MISSING), waiting(transport="stdio").receive(question(MISSING))),
        # a plain call may elicit as well
        nothing(
            waiting(transport="stdio")
            .request("tools/call", {"name": "tool"})
            .receive(question(MISSING))
        ),
    ],
    "related-task-on-progress": [
        good(progress(named())),
        bad(progress({}), progress(named(OTHER))),
        # progress before the task is known
        nothing(
            server()
            .request(
                "tools/call",
                {"name": "tool", "arguments": {}, "task": {}, "_meta": {"progressToken": "t"}},
            )
            .push("notifications/progress", {"progressToken": "t", "progress": 1})
            .answer({"task": a_task(ID)})
        ),
    ],
    "related-task-on-result": [good(result(named())), bad(result({}), result(named(OTHER)))],
    "related-task-on-task-messages": [
        good(result(named())),
        bad(asking(MISSING), progress({}), result({})),
    ],
    "related-task-on-create-result": [
        good(server().create(a_task(ID))),
        note(
            server()
            .request("tools/call", {"name": "tool", "task": {}})
            .answer({"task": a_task(ID), **named()})
        ),
    ],
    "related-task-on-error": [
        good(two().request("tasks/result", {"taskId": ID}).error(-32000, data={"taskId": ID})),
        note(two().request("tasks/result", {"taskId": ID}).error(-31000)),
    ],
    "related-task-value-shape": [
        good(result(named())),
        bad(result({"_meta": {RELATED: ID}}), result(named("nobody"))),
    ],
    "side-channel-allowed": [good(replayed()), mixed(asking().receive(question()))],
    "no-related-task-on-task-results": [
        good(two()),
        mixed(
            two()
            .request("tasks/get", {"taskId": ID})
            .answer({**a_task(ID, "completed"), **named()})
        ),
    ],
    "no-related-task-on-status-notification": [
        good(server().push("notifications/tasks/status", a_task())),
        bad(server().push("notifications/tasks/status", {**a_task(), **named()})),
    ],
    "related-task-ignored-on-task-requests": [
        good(
            with_metadata().answer(a_task(ID, "completed")),
            with_metadata("tasks/result").answer({**TEXT, **named()}),
        ),
        bad(
            with_metadata().answer(a_task(OTHER, "completed")),
            with_metadata().time_out().get(a_task(ID)),
            with_metadata().error(-32602).get(a_task(ID, "completed")),
        ),
        # no answer at all
        nothing(with_metadata().time_out()),
    ],
    "progress-supported-on-tasks": [
        good(progress(named())),
        bad(
            server()
            .create(a_task(ID))
            .request(
                "tools/call",
                {"name": "tool", "arguments": {}, "task": {}, "_meta": {"progressToken": "t"}},
            )
            .error(-32602)
        ),
        mixed(progress(named(), token="other")),
    ],
    "cancel-stops-work": [
        good(cancelled_while_it_reports(100)),
        bad(cancelled_while_it_reports(5_100)),
    ],
    "input-required-when-asking": [
        good(asking().get(a_task(ID, "input_required")).send(reply())),
        nothing(asking().get(a_task(ID, "failed")).send(reply())),
        bad(asking().get(a_task(ID)).send(reply())),
        # the task may have continued
        nothing(asking().send(reply()).get(a_task(ID))),
    ],
    "leaves-input-required-when-answered": [
        good(answered(100, "working")),
        nothing(answered(100, "input_required")),
        bad(answered(5_100, "input_required")),
        # the next elicitation may wait for a stream
        nothing(answered(9_000, "input_required", listens=False)),
    ],
    "status-input-required": [
        good(silent(9_000, asks=True)),
        nothing(
            silent(1_000),
            server()
            .create(a_task(ID))
            .get(a_task(ID, "input_required"))
            .wait(9_000)
            .get(a_task(ID, "input_required")),
        ),
        bad(silent(5_100)),
        # over HTTP it may elicit on a GET stream, which is not open
        nothing(silent(9_000, transport="http")),
    ],
    "status-working": [
        good(silent(9_000, asks=True), silent(9_000, transport="http")),
        mixed(silent(5_100)),
    ],
    "question-task-id-matches": [good(two_ask(ID, OTHER)), mixed(two_ask(ID, ID))],
}

CASES = table("2025-11-25", ROWS)
