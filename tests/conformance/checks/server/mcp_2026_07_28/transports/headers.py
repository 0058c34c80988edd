"""Headers of 2026-07-28 that repeat parts of the body."""

from typing import Any

from tests.conformance.checks.cases import Rows, bad, good, nothing, table
from tests.conformance.histories.wire_2026_07_28 import LISTED, http, shown


def encoded(history: Any) -> Any:
    """Call a tool with a Base64 name header."""
    return history.ask("tools/call", {"name": "tool"}, headers={"mcp-name": "=?base64?dG9vbA==?="})


def named(method: str, name: str, **headers: str | None) -> Any:
    """Send a request with other headers."""
    params = {"taskId": name} if method.startswith("tasks/") else {"name": name}
    changed = {key.replace("_", "-"): value for key, value in headers.items()}
    return http().ask(method, params, headers=changed)


def twin(history: Any, method: str = "tasks/get", **params: str) -> Any:
    """Send the same request without a fault; it is answered."""
    return history.ask(method, params or {"taskId": "t1"}).answer(shown())


WRONG_TASK = {"mcp_name": "t2"}


def tool(schema: Any) -> Any:
    """List one tool."""
    history = http().ask("tools/list")
    history.answer({**LISTED, "tools": [{"name": "a", "inputSchema": schema}]})
    return history


def fields(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def mark(value: Any, kind: Any = "string") -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": value}


def called(header: str | None, **arguments: Any) -> Any:
    """Call a tool that requires a header for `n`, after a call that is answered."""
    history = tool(fields(n=mark("N", ["integer", "null"]), other={"type": "string"}))
    right = {"mcp-param-n": "42"}
    history.ask("tools/call", {"name": "a", "arguments": {"n": 42}}, headers=right).answer({})
    asked = {"name": "a", "arguments": arguments}
    return history.ask("tools/call", asked, headers={"mcp-param-n": header})


ROWS: Rows = {
    "header-body-mismatch-rejected": [
        good(named("tasks/get", "t1", **WRONG_TASK).head(400).error(-32020)),
        nothing(
            encoded(http()).answer({}),
            http().list_tools(),
            named("tasks/get", "t1", mcp_name="t1 ").answer(shown()),
        ),
        bad(
            named("tasks/get", "t1", **WRONG_TASK).answer(shown()),
            http().list_tools(headers={"mcp-method": "tools/call"}),
        ),
    ],
    "header-mismatch-400": [
        good(named("tasks/get", "t1", **WRONG_TASK).head(400).error(-32020)),
        nothing(
            named("tasks/get", "t1", **WRONG_TASK).head(404).error(-32602),
            named("tasks/get", "t1", **WRONG_TASK).head(429).error(-32020),
        ),
        bad(named("tasks/get", "t1", **WRONG_TASK).head(200).error(-32020)),
    ],
    "header-mismatch-32020": [
        good(named("tasks/get", "t1", **WRONG_TASK).head(400).error(-32020)),
        nothing(named("tasks/get", "t1", **WRONG_TASK).head(400).error(-32602)),
        bad(twin(named("tasks/get", "t1", **WRONG_TASK).head(400).error(-32602))),
    ],
    "header-missing-rejected": [
        good(named("tools/call", "a", mcp_name=None).head(400).error(-32020)),
        nothing(named("tasks/get", "t1", mcp_name=None).answer(shown())),
        bad(
            http().list_tools(headers={"mcp-method": None}),
            twin(named("tools/call", "a", mcp_name=None).error(-32602), "tools/call", name="a"),
        ),
    ],
    "header-values-case-sensitive": [
        good(http().ask("tools/list", headers={"mcp-method": "TOOLS/LIST"}).error(-32020)),
        bad(http().list_tools(headers={"mcp-method": "TOOLS/LIST"})),
    ],
    "header-names-case-insensitive": [
        good(http().list_tools()),
        nothing(
            named("tasks/get", "t1", mcp_name=None).head(400).error(-32020),
            http().ask("tools/call", {"name": None}).head(400).error(-32020),
        ),
        bad(http().ask("tools/list").head(400).error(-32020)),
    ],
    "header-values-decoded": [
        good(encoded(http()).answer({})),
        nothing(encoded(http()).head(400).error(-32020), encoded(http()).error(-32602)),
        bad(twin(encoded(http()).head(400).error(-32020), "tools/call", name="tool")),
    ],
    "header-decoded-before-compare": [
        good(encoded(http()).answer({})),
        bad(twin(encoded(http()).error(-32020), "tools/call", name="tool")),
    ],
    "param-header-matches-body": [
        good(called("43", n=42).head(400).error(-32020)),
        nothing(called("42", n=42).answer({}), called("{}", n={}).answer({})),
        bad(called("43", n=42).answer({})),
    ],
    "param-header-bad-characters": [
        good(called("=?base64?!?=", n=42).head(400).error(-32020)),
        bad(called("\xe9", n=42).answer({})),
    ],
    "param-header-missing-rejected": [
        good(called(None, n=42).head(400).error(-32020)),
        bad(called(None, n=42).answer({})),
    ],
    "param-header-failure-32020": [
        good(called("43", n=42).head(400).error(-32020)),
        nothing(called("43", n=41).head(400).error(-32602)),
        bad(called("43", n=42).head(400).error(-32602), called("43", n=42).head(200).error(-32020)),
    ],
    "param-header-not-expected-for-null": [
        good(called(None, n=None).answer({})),
        nothing(called(None, n=None).error(-32602)),
        bad(called(None, n=None).error(-32020)),
    ],
    "param-header-not-expected-if-absent": [
        good(called(None, other="x").answer({})),
        bad(called(None, other="x").error(-32020)),
    ],
    "header-integers-numeric": [
        good(called("42.0", n=42).answer({})),
        bad(called("42.0", n=42).head(400).error(-32020)),
    ],
    "param-headers-optional": [good(tool(fields(n={"type": "string"})))],
    "x-mcp-header-not-empty": [
        good(tool(fields(n=mark("N")))),
        nothing(tool(fields(n={"type": "string"}))),
        bad(tool(fields(n=mark("")))),
    ],
    "x-mcp-header-token": [
        good(tool(fields(n=mark("N-1")))),
        bad(tool(fields(n=mark("a b"))), tool(fields(n=mark(5)))),
    ],
    "x-mcp-header-no-control": [
        good(tool(fields(n=mark("N")))),
        bad(tool(fields(n=mark("N\r\n")))),
    ],
    "x-mcp-header-unique": [
        good(tool(fields(n=mark("N"), m=mark("M")))),
        bad(tool(fields(n=mark("N"), m=mark("n")))),
    ],
    "x-mcp-header-primitive": [
        good(tool(fields(n=mark("N", ["boolean", "null"])))),
        bad(tool(fields(n=mark("N", "number")))),
    ],
    "x-mcp-header-reachable": [
        good(tool(fields(o=fields(n=mark("N"))))),
        bad(tool({"additionalProperties": mark("N")}), tool(mark("N", "object"))),
    ],
    "x-mcp-header-chain": [
        good(tool(fields(n=mark("N")))),
        nothing(tool(fields(n={"default": mark("N")}))),
        bad(
            tool(fields(l={"items": mark("N")})),
            tool({"oneOf": [fields(n=mark("N"))]}),
            tool({"$defs": {"x": mark("N")}}),
        ),
    ],
}

CASES = table("2026-07-28", ROWS)
