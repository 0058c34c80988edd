"""The rules about tools and their lists, against histories written by hand."""

from typing import Any, Literal

import pytest

from tests.conformance.histories.judged import judged
from tests.conformance.histories.told import Told, a_task, told
from tests.conformance.histories.wire import Wire, pipe, web

OLD: Literal["2025-11-25"] = "2025-11-25"
NEW: Literal["2026-07-28"] = "2026-07-28"
BOTH: list[Literal["2025-11-25", "2026-07-28"]] = [OLD, NEW]
Revision = Literal["2025-11-25", "2026-07-28"]

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


def listed(tale: Wire, *names: str, **more: Any) -> Wire:
    """A list of tools."""
    tools = [HEAP if name == "heap" else {"name": name} for name in names]
    return tale.request("tools/list", {}).answer({"tools": tools, **more})


def called(tale: Wire, result: Any, name: Any = "heap", **arguments: Any) -> Wire:
    """A plain call."""
    return tale.request("tools/call", {"name": name, "arguments": arguments}).answer(result)


@pytest.mark.parametrize(("revision", "hello"), [(OLD, "initialize"), (NEW, "server/discover")])
@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [({"tools": {}}, {"good"}), ({}, {"bad"}), ({"tools": True}, {"bad"}), (5, {"bad"})],
)
def test_tools_are_declared(
    revision: Revision, hello: str, capabilities: Any, expected: set[str]
) -> None:
    tale = pipe(revision).request(hello, {}).answer({"capabilities": capabilities})
    assert judged(f"{revision}:tools-capability", listed(tale, "heap")) == expected


def test_without_tools_nothing_is_declared() -> None:
    tale = listed(pipe().request("initialize", {}).answer({"capabilities": {}}))
    assert judged(f"{OLD}:tools-capability", tale) == set()


def test_declared_tools_are_listed() -> None:
    name = f"{NEW}:tools-list-answered"

    def hello() -> Wire:
        return pipe(NEW).request("server/discover", {}).answer({"capabilities": {"tools": {}}})

    assert judged(name, listed(hello())) == {"good"}
    assert judged(name, hello().request("tools/list", {}).error(-32601)) == {"bad"}
    assert judged(name, hello().request("tools/list", {}).answer({"items": []})) == {"bad"}
    assert judged(name, hello().request("tools/list", {}).error(-32603)) == set()


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ([(1, "ab"), (2, "ab"), (1, "ab")], {"good"}),
        ([(1, "ab"), (2, "a"), (1, "ab")], {"bad"}),
        ([(1, "ab"), (2, "a"), (1, "a")], {"note"}),
        ([(1, "ab"), (1, "a"), (1, "ab")], {"note"}),
    ],
)
def test_tools_do_not_depend_on_the_connection(
    lists: list[tuple[int, str]], expected: set[str]
) -> None:
    tale = pipe(NEW)
    for line, names in lists:
        listed(tale.on(line), *names)
    found = judged(f"{NEW}:tools-list-not-per-connection", tale)
    assert found - {"good"} == expected - {"good"}
    assert ("good" in expected) <= ("good" in found)


@pytest.mark.parametrize("revision", BOTH)
@pytest.mark.parametrize("name", ["nothing", 5, None])
def test_unknown_tools_are_errors(revision: Revision, name: Any) -> None:
    id = f"{revision}:tool-protocol-errors"

    def call() -> Wire:
        return listed(pipe(revision), "heap").request("tools/call", {"name": name})

    assert judged(id, call().error(-32602)) == {"good"}
    assert judged(id, call().error(-32000)) == {"good"}
    assert judged(id, call().answer(FAILED)) == {"note"}
    assert judged(id, call().answer(FINE)) == {"bad"}
    assert judged(id, called(listed(pipe(revision), "heap"), FINE)) == set()
    unseen = pipe(revision).request("tools/call", {"name": name}).answer(FINE)
    assert judged(id, unseen) == set()


def test_a_task_of_an_unknown_tool_fails() -> None:
    id = f"{OLD}:tool-protocol-errors"
    tale = listed(pipe(), "heap").request("tools/call", {"name": "nothing", "task": {}})
    tale.answer({"task": a_task()})
    assert judged(id, tale) == set()
    tale.request("tasks/get", {"taskId": "task-a"}).answer(a_task(status="failed"))
    assert judged(id, tale) == {"good"}
    tale.request("tasks/result", {"taskId": "task-a"}).answer(FINE)
    assert judged(id, tale) == {"bad"}


def old_task(result: Any, status: str, name: str = "heap", **arguments: Any) -> Told:
    """A task of 2025-11-25 and its result."""
    tale = told().request("tools/list").answer({"tools": [HEAP]})
    params = {"name": name, "arguments": arguments, "task": {}}
    tale.request("tools/call", params).answer({"task": a_task()}).get(a_task(status=status))
    return tale.request("tasks/result", {"taskId": "task-a"}).answer(result)


def new_task(result: Any, status: str, name: str = "heap", **arguments: Any) -> Told:
    """The same of 2026-07-28."""
    tale = told(NEW).request("tools/list").answer({"tools": [HEAP]})
    tale.request("tools/call", {"name": name, "arguments": arguments})
    tale.answer({"resultType": "task", "taskId": "task-a", "status": "working"})
    return tale.get({"taskId": "task-a", "status": status, "result": result})


def test_tools_say_that_they_failed() -> None:
    assert judged(f"{OLD}:tool-execution-errors", old_task(FAILED, "failed")) == {"good"}
    assert judged(f"{OLD}:tool-execution-errors", old_task(FINE, "failed")) == {"bad"}
    assert judged(f"{OLD}:tool-execution-errors", old_task(FINE, "completed")) == set()
    assert judged(f"{NEW}:tool-execution-errors", new_task(FAILED, "completed")) == {"good"}
    assert judged(f"{NEW}:tool-execution-errors", new_task(FAILED, "failed")) == {"bad"}


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (FINE, {"good"}),
        (FAILED, set()),
        ({"content": []}, {"bad"}),
        ({"content": [], "structuredContent": {"height": "high"}}, {"bad"}),
        ({"content": [], "structuredContent": []}, {"bad"}),
    ],
)
def test_structured_results_keep_their_promise(result: Any, expected: set[str]) -> None:
    for revision in BOTH:
        plain = called(listed(pipe(revision), "heap"), result, stones=1)
        assert judged(f"{revision}:structured-result-conforms", plain) == expected
    old, new = old_task(result, "completed"), new_task(result, "completed")
    assert judged(f"{OLD}:structured-result-conforms", old) == expected
    assert judged(f"{NEW}:structured-result-conforms", new) == expected


@pytest.mark.parametrize("schema", [{"$ref": "http://127.0.0.1:9/x"}, {"type": 5}, 7, None])
def test_a_schema_that_is_none_promises_nothing(schema: Any) -> None:
    tool = {"name": "odd", "outputSchema": schema, "inputSchema": schema}
    tale = pipe().request("tools/list", {}).answer({"tools": [tool]})
    called(tale, FINE, "odd", a=1)
    assert judged(f"{OLD}:structured-result-conforms", tale) <= {"good"}
    assert judged(f"{OLD}:tool-input-validated", tale) == set()


@pytest.mark.parametrize(
    ("arguments", "is_judged"),
    [
        ({}, True),
        ({"stones": {"a": 1}}, True),
        ({"stones": "5"}, False),  # many read a number from a text
        ({"stones": 1, "sand": 2}, False),
        ({"stones": 1}, False),
    ],
)
def test_wrong_arguments_have_no_success(arguments: dict[str, Any], is_judged: bool) -> None:
    for revision in BOTH:
        id = f"{revision}:tool-input-validated"
        fine = called(listed(pipe(revision), "heap"), FINE, **arguments)
        assert judged(id, fine) == ({"bad"} if is_judged else set())
        failed = called(listed(pipe(revision), "heap"), FAILED, **arguments)
        assert judged(id, failed) == ({"good"} if is_judged else set())
    assert judged(f"{OLD}:tool-input-validated", old_task(FINE, "completed", **arguments)) == (
        {"bad"} if is_judged else set()
    )


@pytest.mark.parametrize("revision", BOTH)
def test_nobody_calls_without_credentials(revision: Revision) -> None:
    id = f"{revision}:tool-access-controlled"

    def call(authorization: str | None) -> Told:
        headers = {} if authorization is None else {"authorization": authorization}
        tale = told(revision, principals={"A": "Bearer a", "B": "Bearer b"})
        return tale.request("tools/call", {"name": "heap"}, headers=headers)

    assert judged(id, call(None).answer(FINE)) == {"warning"}
    assert judged(id, call("Bearer x").answer(FINE)) == {"warning"}
    assert judged(id, call(None).error(-32600, status=401)) == {"good"}
    assert judged(id, call("Bearer a").answer(FINE)) == set()


# --- cursors ---------------------------------------------------------------------------------


def page(tale: Wire, *ids: str, cursor: str = "c") -> Wire:
    """A page of tasks."""
    tasks = [a_task(id) for id in ids]
    return tale.request("tasks/list", {"cursor": cursor}).answer({"tasks": tasks})


def test_cursors_are_stable() -> None:
    id = f"{OLD}:cursors-stable"
    assert judged(id, page(page(pipe(), "a", "b"), "a", "b")) == {"good"}
    assert judged(id, page(page(pipe(), "a", "b"), "b", "a")) == {"bad"}
    assert judged(id, page(page(pipe(), "a", "b"), "a", "b", "c")) == {"bad"}
    assert judged(id, page(page(pipe(), "a"), "b", cursor="d")) == set()


def test_tasks_may_come_and_go() -> None:
    id = f"{OLD}:cursors-stable"
    assert judged(id, page(page(pipe(), "a", "b"), "b")) == set()
    made = page(pipe(), "a").request("tools/call", {"task": {}}).answer({"task": a_task("b")})
    assert judged(id, page(made, "a", "b")) == set()
    still = page(page(pipe(), "a", "b"), "b").request("tasks/get", {"taskId": "a"})
    assert judged(id, still.answer(a_task("a"))) == {"bad"}


def test_bad_cursors_do_no_harm() -> None:
    id = f"{OLD}:bad-cursor-graceful"

    def ask(tale: Wire) -> Wire:
        return tale.request("tasks/list", {"cursor": "mine"})

    assert judged(id, ask(pipe()).error(-32602).request("ping").answer({})) == {"good"}
    assert judged(id, ask(web()).head(500).error(-32603)) == {"bad"}
    assert judged(id, ask(pipe()).exits()) == {"bad"}
    assert judged(id, ask(pipe().sent(text="{")).exits()) == set()
    given = pipe().request("tasks/list", {}).answer({"tasks": [], "nextCursor": "mine"})
    assert judged(id, ask(given).answer({"tasks": []}).request("ping").answer({})) == set()
