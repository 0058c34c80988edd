"""Tools, lists and cursors in both revisions."""

from typing import Any, Final

from tests.conformance.checks.cases import (
    Row,
    Rows,
    bad,
    good,
    note,
    nothing,
    table,
    warning,
)  # fmt: skip
from tests.conformance.histories.messages import Messages, a_task, messages
from tests.conformance.histories.wire import Wire, http, stdio

OLD: Final = "2025-11-25"
NEW: Final = "2026-07-28"

HEAP = {
    "name": "heap",
    "inputSchema": {
        "type": "object",
        "properties": {"stones": {"type": "integer"}},
        "required": ["stones"],
    },
    "outputSchema": {"type": "object", "properties": {"height": {"type": "integer"}}},
}
FINE = {"content": [], "structuredContent": {"height": 1}}
FAILED = {"content": [], "isError": True}
BROKEN: list[dict[str, Any]] = [
    {"content": []},
    {"content": [], "structuredContent": {"height": "high"}},
    {"content": [], "structuredContent": []},
]
INVALID_ARGUMENTS: list[dict[str, Any]] = [{}, {"stones": {"a": 1}}]
TOLERATED_ARGUMENTS: list[dict[str, Any]] = [
    {"stones": "5"},  # many servers read a number from a string
    {"stones": 1, "sand": 2},
    {"stones": 1},
]
NO_SCHEMAS: list[Any] = [{"$ref": "http://127.0.0.1:9/x"}, {"type": 5}, 7, None]


def listed(history: Wire, *names: str, **more: Any) -> Wire:
    """List tools."""
    tools = [HEAP if name == "heap" else {"name": name} for name in names]
    return history.request("tools/list", {}).answer({"tools": tools, **more})


def called(history: Wire, result: Any, name: Any = "heap", **arguments: Any) -> Wire:
    """Call a tool without a task."""
    return history.request("tools/call", {"name": name, "arguments": arguments}).answer(result)


def declared(revision: Any, capabilities: Any) -> Wire:
    """Perform the first request; the server has these capabilities."""
    method = "initialize" if revision == OLD else "server/discover"
    return stdio(revision).request(method, {}).answer({"capabilities": capabilities})


def lists(*lists: tuple[int, str]) -> Wire:
    """List tools on several lines."""
    history = stdio(NEW)
    for line, names in lists:
        listed(history.on(line), *names)
    return history


def asked_for_list() -> Wire:
    return declared(NEW, {"tools": {}}).request("tools/list", {})


def old_task(result: Any, status: str, name: str = "heap", **arguments: Any) -> Messages:
    """Perform a task of 2025-11-25 and fetch its result."""
    history = messages().request("tools/list").answer({"tools": [HEAP]})
    params = {"name": name, "arguments": arguments, "task": {}}
    history.request("tools/call", params).answer({"task": a_task()}).get(a_task(status=status))
    return history.request("tasks/result", {"taskId": "task-a"}).answer(result)


def new_task(result: Any, status: str, name: str = "heap", **arguments: Any) -> Messages:
    """Perform a task of 2026-07-28."""
    history = messages(NEW).request("tools/list").answer({"tools": [HEAP]})
    history.request("tools/call", {"name": name, "arguments": arguments})
    history.answer({"resultType": "task", "taskId": "task-a", "status": "working"})
    return history.get({"taskId": "task-a", "status": status, "result": result})


def failed_task() -> Wire:
    """Create a task of an unknown tool; it fails."""
    return unknown_task().request("tasks/get", {"taskId": "task-a"}).answer(a_task(status="failed"))


def unknown_task() -> Wire:
    history = listed(stdio(), "heap").request("tools/call", {"name": "nothing", "task": {}})
    return history.answer({"task": a_task()})


def without_schema(schema: Any) -> Wire:
    """Call a tool whose schema is not a usable JSON Schema."""
    tool = {"name": "odd", "outputSchema": schema, "inputSchema": schema}
    history = stdio().request("tools/list", {}).answer({"tools": [tool]})
    return called(history, FINE, "odd", a=1)


def page(history: Wire, *ids: str, cursor: str = "c") -> Wire:
    """Receive a page of tasks."""
    tasks = [a_task(id) for id in ids]
    return history.request("tasks/list", {"cursor": cursor}).answer({"tasks": tasks})


def pages(*pages: str) -> Wire:
    """Receive pages at the same cursor; each letter is a task."""
    history = stdio()
    for ids in pages:
        page(history, *ids)
    return history


def with_cursor(history: Wire) -> Wire:
    return history.request("tasks/list", {"cursor": "mine"})


def both(revision: Any) -> Rows:
    """Rows of both revisions."""

    def unknown(name: Any) -> Wire:
        return listed(stdio(revision), "heap").request("tools/call", {"name": name})

    def heap(result: Any, **arguments: Any) -> Wire:
        return called(listed(stdio(revision), "heap"), result, **arguments)

    def authorized(authorization: str | None) -> Messages:
        headers = {} if authorization is None else {"authorization": authorization}
        history = messages(revision, principals={"A": "Bearer a", "B": "Bearer b"})
        return history.request("tools/call", {"name": "heap"}, headers=headers)

    names: list[Any] = ["nothing", 5, None]
    task: Any = old_task if revision == OLD else new_task
    structured: list[Row] = [
        good(heap(FINE, stones=1), task(FINE, "completed")),
        nothing(heap(FAILED, stones=1), task(FAILED, "completed")),
        bad(*(heap(result, stones=1) for result in BROKEN)),
        bad(*(task(result, "completed") for result in BROKEN)),
    ]
    return {
        "tools-capability": [
            good(listed(declared(revision, {"tools": {}}), "heap")),
            bad(*(listed(declared(revision, c), "heap") for c in ({}, {"tools": True}, 5))),
        ],
        "tool-protocol-errors": [
            good(*(unknown(name).error(code) for name in names for code in (-32602, -32000))),
            nothing(heap(FINE)),
            nothing(*(called(stdio(revision), FINE, name) for name in names)),
            note(*(unknown(name).answer(FAILED) for name in names)),
            bad(*(unknown(name).answer(FINE) for name in names)),
        ],
        "structured-result-conforms": structured,
        "tool-input-validated": [
            good(*(heap(FAILED, **arguments) for arguments in INVALID_ARGUMENTS)),
            nothing(*(heap(FAILED, **arguments) for arguments in TOLERATED_ARGUMENTS)),
            nothing(*(heap(FINE, **arguments) for arguments in TOLERATED_ARGUMENTS)),
            bad(*(heap(FINE, **arguments) for arguments in INVALID_ARGUMENTS)),
        ],
        "tool-access-controlled": [
            good(authorized(None).error(-32600, status=401)),
            nothing(authorized("Bearer a").answer(FINE)),
            warning(authorized(None).answer(FINE), authorized("Bearer x").answer(FINE)),
        ],
    }


OLD_ROWS: Rows = {
    "tools-capability": [nothing(listed(declared(OLD, {})))],
    "tool-protocol-errors": [
        nothing(unknown_task()),
        good(failed_task()),
        bad(failed_task().request("tasks/result", {"taskId": "task-a"}).answer(FINE)),
    ],
    "tool-execution-errors": [
        good(old_task(FAILED, "failed")),
        nothing(old_task(FINE, "completed")),
        bad(old_task(FINE, "failed")),
    ],
    "structured-result-conforms": [
        good(*map(without_schema, NO_SCHEMAS[:2])),
        nothing(*map(without_schema, NO_SCHEMAS[2:])),
    ],
    "tool-input-validated": [
        nothing(*map(without_schema, NO_SCHEMAS)),
        nothing(*(old_task(FINE, "completed", **each) for each in TOLERATED_ARGUMENTS)),
        bad(*(old_task(FINE, "completed", **each) for each in INVALID_ARGUMENTS)),
    ],
    "cursors-stable": [
        good(pages("ab", "ab")),
        nothing(
            page(pages("a"), "b", cursor="d"),
            # a task was deleted, a task was created
            pages("ab", "b"),
            page(
                pages("a").request("tools/call", {"task": {}}).answer({"task": a_task("b")}),
                *"ab",
            ),
        ),
        bad(
            pages("ab", "ba"),
            pages("ab", "abc"),
            pages("ab", "b").request("tasks/get", {"taskId": "a"}).answer(a_task("a")),
        ),
    ],
    "bad-cursor-graceful": [
        good(with_cursor(stdio()).error(-32602).request("ping").answer({})),
        nothing(
            with_cursor(stdio().send(text="{")).exit(),
            with_cursor(
                stdio().request("tasks/list", {}).answer({"tasks": [], "nextCursor": "mine"})
            ).answer({"tasks": []}).request("ping").answer({}),
        ),
        bad(with_cursor(http()).head(500).error(-32603), with_cursor(stdio()).exit()),
    ],
}  # fmt: skip

NEW_ROWS: Rows = {
    "tools-list-answered": [
        good(listed(declared(NEW, {"tools": {}}))),
        nothing(asked_for_list().error(-32603)),
        bad(asked_for_list().error(-32601), asked_for_list().answer({"items": []})),
    ],
    "tools-list-not-per-connection": [
        good(lists((1, "ab"), (2, "ab"), (1, "ab"))),
        bad(lists((1, "ab"), (2, "a"), (1, "ab"))),
        note(lists((1, "ab"), (2, "a"), (1, "a")), lists((1, "ab"), (1, "a"), (1, "ab"))),
    ],
    "tool-execution-errors": [
        good(new_task(FAILED, "completed")),
        bad(new_task(FAILED, "failed")),
    ],
}

CASES = table(OLD, both(OLD), OLD_ROWS) + table(NEW, both(NEW), NEW_ROWS)
