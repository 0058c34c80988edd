"""Task operations of 2025-11-25: get, result, cancel, list, errors and owners."""

from typing import Any

from taskmachine.adapters.conformance.history import RELATED
from tests.conformance.checks.cases import (
    GOOD,
    WARNING,
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
from tests.conformance.histories.messages import Messages, a_task, server

ID = "0b7e7f4e-6a43-4c38-8d33-5f3a0e4f6d11"
OTHER = "c2f3e1a0-93a7-4f0e-9a41-0d5b8f7c6e22"
TEXT = {"content": [{"type": "text", "text": "done"}]}
TOOL_ERROR = {"content": [{"type": "text", "text": "no"}], "isError": True}
NAMED = {"_meta": {RELATED: {"taskId": ID}}}
RESULT = {**TEXT, **NAMED}
JSON = {"content-type": "application/json; charset=utf-8"}
STREAM = {"content-type": "text/event-stream"}
TWO = {"A": "alice", "B": "bob"}


def task(id: str = ID, **options: Any) -> Messages:
    return server(**options).create(a_task(id))


def ended(status: str = "completed", **fields: Any) -> Messages:
    return task().get(a_task(ID, status, **fields))


def result(history: Messages, task_id: str = ID, **options: Any) -> Messages:
    """Send `tasks/result`."""
    return history.request("tasks/result", {"taskId": task_id}, **options)


def cancel(history: Messages, id: Any = ID, **options: Any) -> Messages:
    """Send `tasks/cancel`."""
    return history.request("tasks/cancel", {"taskId": id}, **options)


def get(history: Messages, id: Any = ID, **options: Any) -> Messages:
    """Send `tasks/get`."""
    return history.request("tasks/get", {"taskId": id}, **options)


def plain_calls(history: Messages, answer: Any, times: int = 2) -> Messages:
    """Call the tool without a task."""
    for _ in range(times):
        history.request("tools/call", {"name": "tool", "arguments": {}})
        history.answer(answer) if isinstance(answer, dict) else history.error(answer)
    return history


def cancelled() -> Messages:
    return cancel(task()).answer(a_task(ID, "cancelled"))


def waiting() -> Messages:
    """Wait for the result of a working task."""
    return result(task(), id="wait").get(a_task(ID))


def abandoned() -> Messages:
    """Cancel the request that waits for the result."""
    taken_back = {"method": "notifications/cancelled", "params": {"requestId": "wait"}}
    return waiting().send(taken_back)


def listed(*pages: list[str], known: tuple[str, ...] = (ID, OTHER)) -> Messages:
    """Create two tasks, list tasks with these pages, then poll both."""
    history = server()
    for id in known:
        history.create(a_task(id))
    for number, ids in enumerate(pages):
        history.request("tasks/list", {"cursor": f"c{number}"} if number else {})
        following = {"nextCursor": f"c{number + 1}"} if number + 1 < len(pages) else {}
        history.answer({"tasks": [a_task(id) for id in ids], **following})
    return history.get(*map(a_task, known))


def foreign(method: str, **options: Any) -> Messages:
    """Send a request as bob about a task of alice."""
    history = task(principals=TWO)
    return history.request(method, {"taskId": ID}, caller="B", line=2, **options)


def many_guesses() -> Messages:
    """Ask for 100 unknown tasks."""
    history = server()
    for number in range(100):
        get(history, f"guess-{number}").error(-32602)
    return history


def many_tasks() -> Messages:
    """Create 40 tasks and poll them."""
    history, tasks = server(), [a_task(f"task-{number}") for number in range(40)]
    for task in tasks:
        history.create(task)
    return history.get(*tasks)


def twenty_slow_calls() -> Messages:
    """Send 20 calls at once; the server answers all after 6 s."""
    history = server()
    for number in range(20):
        history.request("tools/call", {"name": "tool", "task": {}}, id=f"call-{number}")
    history.wait(6_000)
    for number in range(20):
        history.answer({"task": a_task(f"task-{number}")}, to=f"call-{number}")
    return history


ROWS: Rows = {
    "result-blocks": [
        good(waiting().answer(RESULT, to="wait").get(a_task(ID, "completed"))),
        bad(
            result(task()).error(-32600, "not over").get(a_task(ID)),
            result(task()).answer(RESULT).get(a_task(ID, "input_required")),
            waiting().get(a_task(ID, "completed")).time_out(of="wait"),
        ),
        # a rate limit is allowed
        nothing(result(task(), id="wait").error(-32603, "rate limit").get(a_task(ID))),
        # a cancelled request may be answered
        nothing(abandoned().error(0, "cancelled", to="wait").get(a_task(ID))),
        # another session need not see the task
        nothing(result(task(), line=2).error(-32602).get(a_task(ID))),
    ],
    "result-of-terminal-task": [
        good(result(ended()).answer(RESULT), result(ended("failed")).error(-32602)),
        bad(result(ended()).time_out(), result(ended()).wait(5_100).answer(RESULT)),
        # an answer lost with its connection is not late
        nothing(result(ended())),
    ],
    "result-of-cancelled-task": [
        good(result(cancelled()).error(-32000)),
        note(result(cancelled()).answer(RESULT)),
        bad(result(cancelled()).time_out()),
    ],
    "get-works-while-result-blocks": [good(waiting()), bad(get(result(task())).time_out())],
    "result-request-cancellable": [
        good(abandoned().get(a_task(ID)).get(a_task(ID, "completed"))),
        mixed(abandoned().get(a_task(ID, "cancelled"))),
    ],
    "result-exactly-underlying": [
        good(
            result(result(ended()).answer(RESULT)).answer(RESULT),
            plain_calls(result(ended()).answer(RESULT), TEXT),
        ),
        warning(plain_calls(result(ended()).answer(RESULT), {"content": []})),
        bad(
            result(result(ended()).answer(RESULT)).answer({**RESULT, "content": []}),
            plain_calls(result(ended()).answer(RESULT), {**TEXT, "structuredContent": {}}),
        ),
        # a cancelled task may be deleted
        nothing(result(result(cancelled()).error(-32000)).error(-32602)),
        # the tool is not deterministic
        nothing(
            plain_calls(
                plain_calls(result(ended()).answer(RESULT), {"content": []}, 1), {"content": [1]}, 1
            )
        ),
    ],
    "result-matches-request-type": [
        good(result(ended()).answer(RESULT)),
        bad(result(ended()).answer({**RESULT, "taskId": ID}), result(ended()).answer(NAMED)),
    ],
    "result-is-success-response": [
        good(plain_calls(result(ended("failed")).answer(TOOL_ERROR), TOOL_ERROR)),
        bad(plain_calls(result(ended("failed")).error(-32000), TOOL_ERROR)),
    ],
    "result-same-error": [
        good(plain_calls(result(ended("failed")).error(-31000), -31000)),
        bad(
            plain_calls(result(ended("failed")).error(-32000), -31000),
            plain_calls(result(ended("failed")).answer(TOOL_ERROR), -31000),
        ),
        # the request was refused, the tool did not fail
        nothing(plain_calls(result(ended("failed")).error(-31000), -32601)),
    ],
    "status-completed": [
        good(result(ended()).answer(RESULT)),
        bad(result(ended()).error(-31000)),
        # an expired task may be deleted
        nothing(result(ended(ttl=100).wait(200)).error(-32602)),
    ],
    "status-failed": [
        good(result(ended("failed")).answer(TOOL_ERROR), result(ended("failed")).error(-31000)),
        bad(result(ended("failed")).answer(RESULT)),
    ],
    "failed-on-jsonrpc-error": [
        good(result(ended("failed")).error(-31000)),
        bad(result(ended()).error(-31000)),
    ],
    "failed-on-is-error": [
        good(result(ended("failed")).answer(TOOL_ERROR)),
        warning(result(ended()).answer({**TOOL_ERROR, **NAMED})),
    ],
    "failed-status-message": [
        good(ended("failed", statusMessage="It broke.")),
        bad(ended("failed"), ended("failed", statusMessage=" ")),
    ],
    "get-returns-task-flat": [
        good(task().get(a_task(ID))),
        bad(
            get(task()).answer({"task": a_task(ID)}),
            task().get(a_task(ID, "completed"), takes_ms=5_100),
        ),
    ],
    "get-not-upgraded-to-sse": [
        good(get(task()).answer(a_task(ID), headers=JSON)),
        bad(get(task()).answer(a_task(ID), headers=STREAM)),
    ],
    "streamable-http-still-applies": [
        good(get(task()).answer(a_task(ID), headers=JSON)),
        mixed(get(task()).answer(a_task(ID), headers={"content-type": "text/plain"})),
    ],
    "task-id-param-decides": [
        good(result(ended()).answer(RESULT)),
        bad(get(task()).answer(a_task(OTHER))),
        mixed(result(ended().create(a_task(OTHER)), OTHER).answer(RESULT)),
    ],
    "cancel-capability": [
        good(cancelled(), cancel(task(capabilities={"tasks": {}})).error(-32601)),
        warning(cancel(task(capabilities={"tasks": {}})).answer(a_task(ID, "cancelled"))),
        bad(cancel(task()).error(-32601), cancel(task()).error(-32602).get(a_task(ID))),
        # a task that ends while it is cancelled
        good(cancel(task()).error(-32602).get(a_task(ID, "completed"))),
    ],
    "cancel-answers-with-task": [
        good(cancelled()),
        bad(cancel(task()).answer({}), cancel(task()).answer(a_task(ID))),
    ],
    "cancelled-before-answer": [
        good(get(cancelled()).error(-32602)),
        bad(cancel(task()).answer(a_task(ID)), cancelled().get(a_task(ID))),
    ],
    "cancelled-sticks": [
        good(cancelled().get(a_task(ID, "cancelled"))),
        bad(cancelled().get(a_task(ID, "completed"))),
    ],
    "cancel-terminal-refused": [
        good(cancel(ended()).error(-32602)),
        bad(
            cancel(ended()).answer(a_task(ID, "completed")),
            cancel(cancelled()).answer(a_task(ID, "cancelled")),
            cancel(ended()).error(-32603),
        ),
    ],
    "may-delete-cancelled": [good(get(cancelled()).error(-32602))],
    "get-unknown-32602": [
        good(get(server(), "nobody").error(-32602), get(server(), 7).error(-32602)),
        nothing(get(server(), "nobody").error(-32603, "rate limit")),
        bad(
            get(server(), "nobody").error(-32603),
            get(server(), None).error(-32600),
            get(server(), "nobody").answer({}),
        ),
        # no answer within the timeout
        nothing(get(server(), "nobody").time_out()),
    ],
    "result-unknown-32602": [
        good(result(server(), "nobody").error(-32602)),
        bad(result(server(), "nobody").error(-32001), result(server(), "nobody").time_out()),
    ],
    "cancel-unknown-32602": [
        good(cancel(server(), "nobody").error(-32602)),
        bad(cancel(server(), "nobody").answer({})),
        # the capability was not declared
        nothing(cancel(server(capabilities={"tasks": {}}), "nobody").error(-32601)),
    ],
    "internal-error-32603": [
        good(get(task()).error(-32603, "Internal error")),
        bad(get(task()).error(-32000, "Internal error")),
    ],
    "informative-error-messages": [
        good(get(server(), "nobody").error(-32602, "no such task")),
        bad(
            get(server(), "nobody").error(-32602, ""),
            get(server(), "nobody").error(-32602, None),
        ),
        mixed(cancel(cancel(ended(), "nobody").error(-32602, "Invalid")).error(-32602, "Invalid")),
    ],
    "list-capability": [
        good(
            listed([ID, OTHER]),
            server(capabilities={"tasks": {}}).request("tasks/list").error(-32601),
        ),
        warning(server(capabilities={"tasks": {}}).request("tasks/list").answer({"tasks": []})),
        bad(server().request("tasks/list").error(-32601)),
    ],
    "list-result-shape": [
        good(listed([ID], [OTHER])),
        bad(
            server().request("tasks/list").answer({"tasks": {}}),
            server().request("tasks/list").answer({"tasks": [{"taskId": ID}]}),
            server().request("tasks/list").answer({"tasks": [], "nextCursor": None}),
        ),
    ],
    "list-paginated": [
        good(listed([ID], [OTHER])),
        note(
            server().request("tasks/list").answer({"tasks": [a_task(str(n)) for n in range(200)]})
        ),
    ],
    "create-answer-prompt": [good(twenty_slow_calls())],
    "next-cursor-when-more": [good(listed([ID], [OTHER])), mixed(listed([ID]))],
    "get-implies-list": [good(listed([ID], [], [OTHER])), bad(listed([])), mixed(listed([ID], []))],
    "list-no-duplicates": [
        good(listed([ID, OTHER])),
        bad(listed([ID, ID])),
        row(listed([ID, OTHER], [ID]), GOOD | WARNING),
    ],
    "list-bad-cursor-32602": [
        good(server().request("tasks/list", {"cursor": "x"}).error(-32602)),
        bad(
            server().request("tasks/list", {"cursor": "x"}).answer({"tasks": []}),
            server().request("tasks/list", {"cursor": 7}).error(-32603),
        ),
        # an empty cursor
        nothing(server().request("tasks/list", {"cursor": ""}).answer({"tasks": []})),
    ],
    "foreign-get-rejected": [
        good(foreign("tasks/get").error(-32602)),
        bad(foreign("tasks/get").answer(a_task(ID))),
        # no credentials: only sessions tell callers apart
        nothing(get(task(), line=2, caller="B").answer(a_task(ID))),
    ],
    "foreign-result-rejected": [
        good(foreign("tasks/result").error(-32602)),
        bad(foreign("tasks/result").answer(RESULT), foreign("tasks/result").time_out()),
    ],
    "foreign-cancel-rejected": [
        good(foreign("tasks/cancel").error(-32602)),
        bad(foreign("tasks/cancel").answer(a_task(ID, "cancelled"))),
        mixed(foreign("tasks/cancel").error(-32602).get(a_task(ID, "cancelled"))),
    ],
    "bound-to-auth-context": [
        good(foreign("tasks/get").error(-32602)),
        bad(foreign("tasks/get").answer(a_task(ID))),
    ],
    "foreign-not-listed": [
        good(task(principals=TWO).request("tasks/list", caller="B", line=2).answer({"tasks": []})),
        bad(
            task(principals=TWO)
            .request("tasks/list", caller="B", line=2)
            .answer({"tasks": [a_task(ID)]})
        ),
    ],
    "list-not-declared-without-identity": [
        good(
            task()
            .initialize({"tasks": {"list": {}}}, line=2)
            .request("tasks/list", line=2)
            .answer({"tasks": []})
        ),
        bad(
            task()
            .initialize({"tasks": {"list": {}}}, line=2)
            .request("tasks/list", line=2)
            .answer({"tasks": [a_task(ID)]})
        ),
    ],
    "rate-limited-operations": [
        good(get(server(), "nobody").error(-32603, "rate limit")),
        note(many_guesses()),
    ],
    "concurrency-limit": [
        good(
            task()
            .request("tools/call", {"name": "tool", "task": {}})
            .error(-32603, "too many tasks")
        ),
        note(many_tasks()),
    ],
}

CASES = table("2025-11-25", ROWS)
