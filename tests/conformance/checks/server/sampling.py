"""Sampling in both revisions."""

from typing import Any, Final

from tests.conformance.checks.cases import BAD, GOOD, NOTHING, Rows, bad, good, nothing, row, table
from tests.conformance.histories.messages import Messages, a_task, messages

OLD: Final = "2025-11-25"
NEW: Final = "2026-07-28"
RELATED = "io.modelcontextprotocol/related-task"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
INVALID = "this-is-not-what-was-asked-for"
TEXT = {"type": "text", "text": "Hello"}
HELLO = {"role": "user", "content": TEXT}
PLAIN = {"messages": [HELLO], "maxTokens": 5}


def used(*ids: str) -> dict[str, Any]:
    """Return a message of the model that uses tools."""
    blocks = [{"type": "tool_use", "id": id, "name": "look", "input": {}} for id in ids]
    return {"role": "assistant", "content": blocks}


def result(id: str) -> dict[str, Any]:
    return {"type": "tool_result", "toolUseId": id, "content": []}


def results(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def asked_by_request(params: Any, can: Any) -> Messages:
    """2025-11-25: a task requests sampling."""
    history = messages(OLD).request("initialize", {"capabilities": {"sampling": can}}).answer({})
    history.create(a_task()).request("tasks/result", {"taskId": "task-a"}, id="result")
    meta = {"_meta": {RELATED: {"taskId": "task-a"}}}
    question = {"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage"}
    return history.receive({**question, "params": {**params, **meta}}, on="result")


def asked_by_result(params: Any, can: Any) -> Messages:
    """2026-07-28: a call requires sampling."""
    call = {"name": "tool", "_meta": {CAPABILITIES: {"sampling": can}}}
    requests = {"line": {"method": "sampling/createMessage", "params": params}}
    asking = {"resultType": "input_required", "inputRequests": requests}
    return messages(NEW).request("tools/call", call).answer(asking)


def with_tools(asked: Any) -> Rows:
    return {
        "sampling-tools-only-if-declared": [
            good(asked(PLAIN, {}), asked(PLAIN | {"tools": []}, {"tools": {}})),
            bad(
                asked(PLAIN | {"tools": []}, {}),
                asked(PLAIN | {"toolChoice": {"mode": "none"}}, {}),
            ),
        ]
    }


def conversation(messages: Any) -> Messages:
    return asked_by_request({"messages": messages}, {"tools": {}})


def sampled(answer: Any, outcome: Any) -> Messages:
    """Answer a sampling request; the task ends with this result."""
    history = asked_by_request(PLAIN, {}).send({"jsonrpc": "2.0", "id": "q", "result": answer})
    return history.answer(outcome, to="result")


RIGHT = {"role": "assistant", "content": {"type": "text", "text": INVALID}, "model": "m"}
ECHO = {"content": [{"type": "text", "text": f"La la {INVALID}"}]}

ROWS: Rows = {
    **with_tools(asked_by_request),
    "sampling-context-avoided": [
        good(
            asked_by_request(PLAIN, {}),
            asked_by_request(PLAIN | {"includeContext": "none"}, {}),
            asked_by_request(PLAIN | {"includeContext": "allServers"}, {"context": {}}),
        ),
        bad(asked_by_request(PLAIN | {"includeContext": "thisServer"}, {})),
    ],
    "sampling-tool-results-alone sampling-tool-uses-answered": [
        nothing(
            conversation([HELLO]),
            conversation("hello"),
            conversation([5, {"role": 5, "content": 5}]),
        ),
        good(
            conversation([HELLO, used("1", "2"), results(result("2"), result("1"))]),
            conversation([used("1"), {"role": "user", "content": result("1")}]),
        ),
        bad(conversation([used("1"), results(result("1"), TEXT)])),
        row(conversation([used("1", "2"), results(result("1"))]), GOOD, BAD),
        row(conversation([used("1")]), NOTHING, BAD),
        row(conversation([used("1"), HELLO, results(result("1"))]), GOOD, BAD),
    ],
    "sampling-content-validated": [
        good(sampled(RIGHT | {"role": 5}, ECHO | {"isError": True})),
        nothing(
            sampled(RIGHT, ECHO),
            sampled(RIGHT | {"content": [TEXT]}, ECHO),
            sampled(RIGHT | {"role": 5}, {"content": []}),
        ),
        bad(
            sampled(RIGHT | {"content": {"type": "text", "text": [INVALID]}}, ECHO),
            sampled(RIGHT | {"role": 5}, ECHO),
            sampled(INVALID, ECHO),
        ),
    ],
}

CASES = [*table(OLD, ROWS), *table(NEW, with_tools(asked_by_result))]
