"""The rules about sampling, against histories written by hand."""

from typing import Any, Literal

import pytest

from tests.conformance.histories.judged import judged
from tests.conformance.histories.told import Told, a_task, told

OLD: Literal["2025-11-25"] = "2025-11-25"
NEW: Literal["2026-07-28"] = "2026-07-28"
RELATED = "io.modelcontextprotocol/related-task"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
MARK = "this-is-not-what-was-asked-for"
TEXT = {"type": "text", "text": "Hello"}
HELLO = {"role": "user", "content": TEXT}
PLAIN = {"messages": [HELLO], "maxTokens": 5}


def used(*ids: str) -> dict[str, Any]:
    """The model uses tools."""
    blocks = [{"type": "tool_use", "id": id, "name": "look", "input": {}} for id in ids]
    return {"role": "assistant", "content": blocks}


def result(id: str) -> dict[str, Any]:
    """What a tool found."""
    return {"type": "tool_result", "toolUseId": id, "content": []}


def results(*blocks: Any) -> dict[str, Any]:
    """A message with what tools found."""
    return {"role": "user", "content": list(blocks)}


def asked_by_request(params: Any, can: Any) -> Told:
    """2025-11-25: a task asks."""
    tale = told(OLD).request("initialize", {"capabilities": {"sampling": can}}).answer({})
    tale.create(a_task()).request("tasks/result", {"taskId": "task-a"}, id="result")
    meta = {"_meta": {RELATED: {"taskId": "task-a"}}}
    question = {"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage"}
    return tale.hear({**question, "params": {**params, **meta}}, on="result")


def asked_by_result(params: Any, can: Any) -> Told:
    """2026-07-28: a call asks."""
    call = {"name": "tool", "_meta": {CAPABILITIES: {"sampling": can}}}
    requests = {"line": {"method": "sampling/createMessage", "params": params}}
    asking = {"resultType": "input_required", "inputRequests": requests}
    return told(NEW).request("tools/call", call).answer(asking)


@pytest.mark.parametrize(("revision", "asked"), [(OLD, asked_by_request), (NEW, asked_by_result)])
@pytest.mark.parametrize(
    ("params", "can", "expected"),
    [
        (PLAIN, {}, {"good"}),
        (PLAIN | {"tools": []}, {}, {"bad"}),
        (PLAIN | {"toolChoice": {"mode": "none"}}, {}, {"bad"}),
        (PLAIN | {"tools": []}, {"tools": {}}, {"good"}),
    ],
)
def test_tools_only_for_those_that_have_them(
    revision: str, asked: Any, params: Any, can: Any, expected: set[str]
) -> None:
    assert judged(f"{revision}:sampling-tools-only-if-declared", asked(params, can)) == expected


@pytest.mark.parametrize(
    ("params", "can", "expected"),
    [
        (PLAIN, {}, {"good"}),
        (PLAIN | {"includeContext": "none"}, {}, {"good"}),
        (PLAIN | {"includeContext": "thisServer"}, {}, {"bad"}),
        (PLAIN | {"includeContext": "allServers"}, {"context": {}}, {"good"}),
    ],
)
def test_no_context_of_servers(params: Any, can: Any, expected: set[str]) -> None:
    assert judged(f"{OLD}:sampling-context-avoided", asked_by_request(params, can)) == expected


@pytest.mark.parametrize(
    ("messages", "alone", "answered"),
    [
        ([HELLO], set(), set()),
        ([HELLO, used("1", "2"), results(result("2"), result("1"))], {"good"}, {"good"}),
        ([used("1"), {"role": "user", "content": result("1")}], {"good"}, {"good"}),
        ([used("1"), results(result("1"), TEXT)], {"bad"}, {"bad"}),
        ([used("1", "2"), results(result("1"))], {"good"}, {"bad"}),
        ([used("1")], set(), {"bad"}),
        ([used("1"), HELLO, results(result("1"))], {"good"}, {"bad"}),
        ("hello", set(), set()),
        ([5, {"role": 5, "content": 5}], set(), set()),
    ],
)
def test_uses_of_tools_and_their_results(
    messages: Any, alone: set[str], answered: set[str]
) -> None:
    tale = asked_by_request({"messages": messages}, {"tools": {}})
    assert judged(f"{OLD}:sampling-tool-results-alone", tale) == alone
    assert judged(f"{OLD}:sampling-tool-uses-answered", tale) == answered


RIGHT = {"role": "assistant", "content": {"type": "text", "text": MARK}, "model": "m"}
ECHO = {"content": [{"type": "text", "text": f"La la {MARK}"}]}


@pytest.mark.parametrize(
    ("answer", "outcome", "expected"),
    [
        (RIGHT, ECHO, set()),
        (RIGHT | {"content": [TEXT]}, ECHO, set()),
        (RIGHT | {"content": {"type": "text", "text": [MARK]}}, ECHO, {"bad"}),
        (RIGHT | {"role": 5}, ECHO, {"bad"}),
        (MARK, ECHO, {"bad"}),
        (RIGHT | {"role": 5}, ECHO | {"isError": True}, {"good"}),
        (RIGHT | {"role": 5}, {"content": []}, set()),
    ],
)
def test_answers_of_models_are_validated(answer: Any, outcome: Any, expected: set[str]) -> None:
    tale = asked_by_request(PLAIN, {})
    tale.say({"jsonrpc": "2.0", "id": "q", "result": answer}).answer(outcome, to="result")
    assert judged(f"{OLD}:sampling-content-validated", tale) == expected
