"""The checks of headers that repeat the body in 2026-07-28, against histories written by hand."""

from collections.abc import Callable
from typing import Any

import pytest

from taskmachine.adapters.conformance.catalogue import load_checks
from tests.conformance.histories.modern import LISTED, by_http, outcomes, shown

load_checks()

PASS, FAIL, SILENT = {"good"}, {"bad"}, set[str]()
Row = tuple[str, Callable[[], Any], set[str]]


def encoded(tale: Any) -> Any:
    """A call under a name in Base64."""
    return tale.ask("tools/call", {"name": "tool"}, headers={"mcp-name": "=?base64?dG9vbA==?="})


def named(method: str, name: str, **headers: str | None) -> Any:
    """A request that could be served, with other headers; its twin follows with `twin`."""
    params = {"taskId": name} if method.startswith("tasks/") else {"name": name}
    changed = {key.replace("_", "-"): value for key, value in headers.items()}
    return by_http().ask(method, params, headers=changed)


def twin(tale: Any, method: str = "tasks/get", **params: str) -> Any:
    """The same request without a fault is served."""
    return tale.ask(method, params or {"taskId": "t1"}).answer(shown())


WRONG_TASK = {"mcp_name": "t2"}

HEADERS: list[Row] = [
    (
        "header-body-mismatch-rejected",
        lambda: named("tasks/get", "t1", **WRONG_TASK).head(400).error(-32020),
        PASS,
    ),
    (
        "header-body-mismatch-rejected",
        lambda: named("tasks/get", "t1", **WRONG_TASK).answer(shown()),
        FAIL,
    ),
    (
        "header-body-mismatch-rejected",
        lambda: by_http().lists(headers={"mcp-method": "tools/call"}),
        FAIL,
    ),
    ("header-body-mismatch-rejected", lambda: encoded(by_http()).answer({}), SILENT),
    ("header-body-mismatch-rejected", lambda: by_http().lists(), SILENT),
    (
        "header-body-mismatch-rejected",
        lambda: named("tasks/get", "t1", mcp_name="t1 ").answer(shown()),
        SILENT,
    ),
    (
        "header-mismatch-400",
        lambda: named("tasks/get", "t1", **WRONG_TASK).head(400).error(-32020),
        PASS,
    ),
    (
        "header-mismatch-400",
        lambda: named("tasks/get", "t1", **WRONG_TASK).head(200).error(-32020),
        FAIL,
    ),
    (
        "header-mismatch-400",
        lambda: named("tasks/get", "t1", **WRONG_TASK).head(404).error(-32602),
        SILENT,
    ),
    (
        "header-mismatch-400",
        lambda: named("tasks/get", "t1", **WRONG_TASK).head(429).error(-32020),
        SILENT,
    ),
    (
        "header-mismatch-32020",
        lambda: named("tasks/get", "t1", **WRONG_TASK).head(400).error(-32020),
        PASS,
    ),
    (
        "header-mismatch-32020",
        lambda: twin(named("tasks/get", "t1", **WRONG_TASK).head(400).error(-32602)),
        FAIL,
    ),
    (
        "header-mismatch-32020",
        lambda: named("tasks/get", "t1", **WRONG_TASK).head(400).error(-32602),
        SILENT,
    ),
    (
        "header-missing-rejected",
        lambda: named("tools/call", "a", mcp_name=None).head(400).error(-32020),
        PASS,
    ),
    ("header-missing-rejected", lambda: by_http().lists(headers={"mcp-method": None}), FAIL),
    (
        "header-missing-rejected",
        lambda: twin(named("tools/call", "a", mcp_name=None).error(-32602), "tools/call", name="a"),
        FAIL,
    ),
    (
        "header-missing-rejected",
        lambda: named("tasks/get", "t1", mcp_name=None).answer(shown()),
        SILENT,
    ),
    (
        "header-values-case-sensitive",
        lambda: by_http().ask("tools/list", headers={"mcp-method": "TOOLS/LIST"}).error(-32020),
        PASS,
    ),
    (
        "header-values-case-sensitive",
        lambda: by_http().lists(headers={"mcp-method": "TOOLS/LIST"}),
        FAIL,
    ),
    ("header-names-case-insensitive", lambda: by_http().lists(), PASS),
    (
        "header-names-case-insensitive",
        lambda: named("tasks/get", "t1", mcp_name=None).head(400).error(-32020),
        SILENT,
    ),
    (
        "header-names-case-insensitive",
        lambda: by_http().ask("tools/call", {"name": None}).head(400).error(-32020),
        SILENT,
    ),
    (
        "header-names-case-insensitive",
        lambda: by_http().ask("tools/list").head(400).error(-32020),
        FAIL,
    ),
    ("header-values-decoded", lambda: encoded(by_http()).answer({}), PASS),
    (
        "header-values-decoded",
        lambda: twin(encoded(by_http()).head(400).error(-32020), "tools/call", name="tool"),
        FAIL,
    ),
    ("header-values-decoded", lambda: encoded(by_http()).head(400).error(-32020), SILENT),
    ("header-values-decoded", lambda: encoded(by_http()).error(-32602), SILENT),
    ("header-decoded-before-compare", lambda: encoded(by_http()).answer({}), PASS),
    (
        "header-decoded-before-compare",
        lambda: twin(encoded(by_http()).error(-32020), "tools/call", name="tool"),
        FAIL,
    ),
]


def tool(schema: Any) -> Any:
    """A list with one tool."""
    tale = by_http().ask("tools/list")
    tale.answer({**LISTED, "tools": [{"name": "a", "inputSchema": schema}]})
    return tale


def fields(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def mark(value: Any, kind: Any = "string") -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": value}


def called(header: str | None, **arguments: Any) -> Any:
    """A call of a tool that wants `n` in a header, after one that was served."""
    tale = tool(fields(n=mark("N", ["integer", "null"]), other={"type": "string"}))
    right = {"mcp-param-n": "42"}
    tale.ask("tools/call", {"name": "a", "arguments": {"n": 42}}, headers=right).answer({})
    asked = {"name": "a", "arguments": arguments}
    return tale.ask("tools/call", asked, headers={"mcp-param-n": header})


PARAMETERS: list[Row] = [
    ("param-header-matches-body", lambda: called("43", n=42).head(400).error(-32020), PASS),
    ("param-header-matches-body", lambda: called("43", n=42).answer({}), FAIL),
    ("param-header-matches-body", lambda: called("42", n=42).answer({}), SILENT),
    ("param-header-matches-body", lambda: called("{}", n={}).answer({}), SILENT),
    (
        "param-header-bad-characters",
        lambda: called("=?base64?!?=", n=42).head(400).error(-32020),
        PASS,
    ),
    ("param-header-bad-characters", lambda: called("\xe9", n=42).answer({}), FAIL),
    ("param-header-missing-rejected", lambda: called(None, n=42).head(400).error(-32020), PASS),
    ("param-header-missing-rejected", lambda: called(None, n=42).answer({}), FAIL),
    ("param-header-failure-32020", lambda: called("43", n=42).head(400).error(-32020), PASS),
    ("param-header-failure-32020", lambda: called("43", n=42).head(400).error(-32602), FAIL),
    ("param-header-failure-32020", lambda: called("43", n=42).head(200).error(-32020), FAIL),
    ("param-header-failure-32020", lambda: called("43", n=41).head(400).error(-32602), SILENT),
    ("param-header-not-expected-for-null", lambda: called(None, n=None).answer({}), PASS),
    ("param-header-not-expected-for-null", lambda: called(None, n=None).error(-32020), FAIL),
    ("param-header-not-expected-for-null", lambda: called(None, n=None).error(-32602), SILENT),
    ("param-header-not-expected-if-absent", lambda: called(None, other="x").answer({}), PASS),
    ("param-header-not-expected-if-absent", lambda: called(None, other="x").error(-32020), FAIL),
    ("header-integers-numeric", lambda: called("42.0", n=42).answer({}), PASS),
    ("header-integers-numeric", lambda: called("42.0", n=42).head(400).error(-32020), FAIL),
    ("param-headers-optional", lambda: tool(fields(n={"type": "string"})), PASS),
    ("x-mcp-header-not-empty", lambda: tool(fields(n=mark("N"))), PASS),
    ("x-mcp-header-not-empty", lambda: tool(fields(n=mark(""))), FAIL),
    ("x-mcp-header-not-empty", lambda: tool(fields(n={"type": "string"})), SILENT),
    ("x-mcp-header-token", lambda: tool(fields(n=mark("N-1"))), PASS),
    ("x-mcp-header-token", lambda: tool(fields(n=mark("a b"))), FAIL),
    ("x-mcp-header-token", lambda: tool(fields(n=mark(5))), FAIL),
    ("x-mcp-header-no-control", lambda: tool(fields(n=mark("N"))), PASS),
    ("x-mcp-header-no-control", lambda: tool(fields(n=mark("N\r\n"))), FAIL),
    ("x-mcp-header-unique", lambda: tool(fields(n=mark("N"), m=mark("M"))), PASS),
    ("x-mcp-header-unique", lambda: tool(fields(n=mark("N"), m=mark("n"))), FAIL),
    ("x-mcp-header-primitive", lambda: tool(fields(n=mark("N", ["boolean", "null"]))), PASS),
    ("x-mcp-header-primitive", lambda: tool(fields(n=mark("N", "number"))), FAIL),
    ("x-mcp-header-reachable", lambda: tool(fields(o=fields(n=mark("N")))), PASS),
    ("x-mcp-header-reachable", lambda: tool({"additionalProperties": mark("N")}), FAIL),
    ("x-mcp-header-reachable", lambda: tool(mark("N", "object")), FAIL),
    ("x-mcp-header-chain", lambda: tool(fields(n=mark("N"))), PASS),
    ("x-mcp-header-chain", lambda: tool(fields(l={"items": mark("N")})), FAIL),
    ("x-mcp-header-chain", lambda: tool({"oneOf": [fields(n=mark("N"))]}), FAIL),
    ("x-mcp-header-chain", lambda: tool({"$defs": {"x": mark("N")}}), FAIL),
    ("x-mcp-header-chain", lambda: tool(fields(n={"default": mark("N")})), SILENT),
]

ROWS = [*HEADERS, *PARAMETERS]


@pytest.mark.parametrize(("name", "tale", "expected"), ROWS)
def test_what_a_check_says(name: str, tale: Callable[[], Any], expected: set[str]) -> None:
    seen = outcomes(f"2026-07-28:{name}", tale())
    assert seen - {"good"} == expected - {"good"}
    assert seen >= expected
