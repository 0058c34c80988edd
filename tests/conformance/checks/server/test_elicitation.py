"""The rules about elicitation, against histories written by hand."""

from typing import Any, Literal

import pytest

from tests.conformance.histories.judged import judged
from tests.conformance.histories.told import Told, a_task, told

OLD: Literal["2025-11-25"] = "2025-11-25"
NEW: Literal["2026-07-28"] = "2026-07-28"
RELATED = "io.modelcontextprotocol/related-task"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
SCHEMA = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}
FORM = {"message": "Which size?", "requestedSchema": SCHEMA}
URL = {
    "mode": "url",
    "message": "Go there",
    "url": "https://example.org/",
    "elicitationId": "1",
}
MARK = "this-is-not-what-was-asked-for"
TWO = {"A": "Bearer a", "B": "Bearer b"}


def without(params: dict[str, Any], name: str) -> dict[str, Any]:
    """The same but for one."""
    return {key: value for key, value in params.items() if key != name}


def asked_by_request(params: Any, can: Any = None, **options: Any) -> Told:
    """2025-11-25: a task asks."""
    tale = told(OLD, **options)
    declared = {"elicitation": {}} if can is None else can
    tale.request("initialize", {"capabilities": declared})
    tale.answer({"capabilities": {}}, headers={"mcp-session-id": "s"})
    tale.create(a_task(), id="create")
    tale.request("tasks/result", {"taskId": "task-a"}, id="result")
    meta = {"_meta": {RELATED: {"taskId": "task-a"}}}
    question = {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create"}
    return tale.hear({**question, "params": {**params, **meta}}, on="result")


def call(can: Any, **more: Any) -> dict[str, Any]:
    """2026-07-28: the parameters of a call."""
    return {"name": "tool", "arguments": {}, "_meta": {CAPABILITIES: can}, **more}


def asked_by_result(params: Any, can: Any = None) -> Told:
    """2026-07-28: a call asks."""
    tale = told(NEW).request("tools/call", call({"elicitation": {}} if can is None else can))
    requests = {"size": {"method": "elicitation/create", "params": params}}
    return tale.answer(
        {"resultType": "input_required", "inputRequests": requests, "requestState": "s"}
    )


def asked_by_task(can: Any = None) -> Told:
    """2026-07-28: a task asks."""
    tale = told(NEW).request("tools/call", call({"elicitation": {}} if can is None else can))
    tale.answer({"resultType": "task", "taskId": "task-a", "status": "working"})
    return shows(tale, "input_required")


def shows(tale: Told, status: str, **fields: Any) -> Told:
    """2026-07-28: `tasks/get` of a task that asks if it needs input."""
    requests = {"size": {"method": "elicitation/create", "params": FORM}}
    more = {"inputRequests": requests} if status == "input_required" else {}
    return tale.get({"taskId": "task-a", "status": status, **more, **fields})


ASKED = [(OLD, asked_by_request), (NEW, asked_by_result)]


@pytest.mark.parametrize(("revision", "asked"), ASKED)
@pytest.mark.parametrize(
    ("can", "params", "expected"),
    [
        ({"elicitation": {}}, FORM, {"good"}),
        ({"elicitation": {}}, FORM | {"mode": "form"}, {"good"}),
        ({"elicitation": {}}, URL, {"bad"}),
        ({"elicitation": {"form": {}}}, URL, {"bad"}),
        ({"elicitation": {"url": {}}}, URL, {"good"}),
        ({"elicitation": {"url": {}}}, FORM, {"bad"}),
        ({"elicitation": {"form": {}, "url": {}}}, URL, {"good"}),
        ({"sampling": {}}, FORM, {"bad"}),
        ({"elicitation": {}}, FORM | {"mode": 5}, {"bad"}),
    ],
)
def test_nothing_is_asked_that_was_not_declared(
    revision: str, asked: Any, can: Any, params: Any, expected: set[str]
) -> None:
    assert judged(f"{revision}:elicitation-declared-modes-only", asked(params, can)) == expected


def test_a_task_may_ask_what_its_creation_allowed() -> None:
    name = f"{NEW}:elicitation-declared-modes-only"
    assert judged(name, asked_by_task()) == {"good"}
    assert judged(name, asked_by_task({"sampling": {}})) == {"bad"}


def test_a_form_may_say_that_it_is_one() -> None:
    for params in (FORM, FORM | {"mode": "form"}):
        assert judged(f"{OLD}:elicitation-mode-omitted", asked_by_request(params)) == {"good"}


def test_an_empty_capability_means_forms() -> None:
    name = f"{OLD}:elicitation-empty-is-form"
    assert judged(name, asked_by_request(FORM)) == {"good"}
    assert judged(name, asked_by_request(URL)) == {"bad"}
    assert judged(name, asked_by_request(URL, {"elicitation": {"url": {}}})) == set()


@pytest.mark.parametrize(("revision", "asked"), ASKED)
@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (FORM, {"good"}),
        (URL, {"good"}),
        (without(FORM, "message"), {"bad"}),
        (FORM | {"message": 5}, {"bad"}),
        (FORM | {"mode": "letter"}, {"bad"}),
        (without(URL, "mode"), {"bad"}),
    ],
)
def test_each_question_has_a_message_and_a_mode(
    revision: str, asked: Any, params: Any, expected: set[str]
) -> None:
    assert judged(f"{revision}:elicitation-required-params", asked(params)) == expected


@pytest.mark.parametrize(("revision", "asked"), ASKED)
def test_forms_have_a_schema(revision: str, asked: Any) -> None:
    name = f"{revision}:elicitation-form-schema"
    assert judged(name, asked(FORM)) == {"good"}
    assert judged(name, asked(without(FORM, "requestedSchema"))) == {"bad"}
    assert judged(name, asked(FORM | {"requestedSchema": []})) == {"bad"}
    assert judged(name, asked(URL)) == set()


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ({"type": "string", "format": "email"}, {"good"}),
        ({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}, {"good"}),
        ({"type": "array", "items": {"type": "string", "enum": ["a"]}}, {"good"}),
        ({"type": "array", "items": {"anyOf": [{"const": "a"}]}}, {"good"}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"good"}),
        ({"type": "array", "items": {"type": "object"}}, {"bad"}),
        ({"type": "object"}, {"bad"}),
        ({"properties": {}}, {"bad"}),
        (5, {"bad"}),
    ],
)
def test_forms_are_flat(field: Any, expected: set[str]) -> None:
    schema = {"type": "object", "properties": {"field": field}}
    tale = asked_by_request(FORM | {"requestedSchema": schema})
    assert judged(f"{OLD}:elicitation-schema-flat", tale) == expected


@pytest.mark.parametrize("name", ["message", "url", "elicitationId"])
def test_urls_come_with_all_they_need(name: str) -> None:
    assert judged(f"{OLD}:elicitation-url-params", asked_by_request(URL)) == {"good"}
    tale = asked_by_request(without(URL, name))
    assert judged(f"{OLD}:elicitation-url-params", tale) == {"bad"}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://example.org/a?b=c", {"good"}),
        ("http://127.0.0.1:8000", {"good"}),
        ("example.org", {"bad"}),
        ("over there", {"bad"}),
        ("http://[", {"bad"}),
        ("", {"bad"}),
    ],
)
def test_urls_are_urls(url: str, expected: set[str]) -> None:
    tale = asked_by_request(URL | {"url": url})
    assert judged(f"{OLD}:elicitation-url-valid", tale) == expected


# --- answers ---------------------------------------------------------------------------------


def reply(tale: Told, content: Any, **options: Any) -> Told:
    """2025-11-25: we answer."""
    result = {"action": "accept", "content": content}
    return tale.say({"jsonrpc": "2.0", "id": "q", "result": result}, **options)


def text(words: str, **more: Any) -> dict[str, Any]:
    """The result of a tool."""
    return {"content": [{"type": "text", "text": words}], **more}


WRONG = {"size": {"text": MARK}}


@pytest.mark.parametrize(
    ("content", "result", "expected"),
    [
        (WRONG, text(f"A coat of size {MARK}."), {"bad"}),
        (WRONG, text("No coat."), set()),  # taken for a refusal
        (WRONG, text(f"{MARK} is no size.", isError=True), {"good"}),
        ({"size": 5}, text("A coat of size 5."), set()),
        ({"size": "5"}, text("A coat of size 5."), set()),
    ],
)
def test_answers_are_validated(content: Any, result: Any, expected: set[str]) -> None:
    old = reply(asked_by_request(FORM), content).answer(result, to="result")
    assert judged(f"{OLD}:elicitation-server-validates", old) == expected
    responses = {"size": {"action": "accept", "content": content}}
    new = asked_by_result(FORM)
    new.request("tools/call", call({"elicitation": {}}, requestState="s", inputResponses=responses))
    new.answer({"resultType": "complete", **result})
    assert judged(f"{NEW}:elicitation-server-validates", new) == expected


def test_to_refuse_an_answer_or_ask_again_is_validation() -> None:
    name = f"{NEW}:elicitation-server-validates"
    update = {
        "taskId": "task-a",
        "inputResponses": {"size": {"action": "accept", "content": WRONG}},
    }
    assert judged(name, asked_by_task().request("tasks/update", update).error(-32602)) == {"good"}
    acked = asked_by_task().request("tasks/update", update).answer({"resultType": "complete"})
    assert judged(name, acked) == set()
    assert judged(name, shows(acked, "input_required")) == {"good"}
    acked = asked_by_task().request("tasks/update", update).answer({"resultType": "complete"})
    assert judged(name, shows(acked, "completed", result=text(f"Size {MARK}."))) == {"bad"}


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_refusals_do_not_hang(action: str) -> None:
    name = f"{NEW}:elicitation-refusals-handled"
    update = {"taskId": "task-a", "inputResponses": {"size": {"action": action}}}

    def refused() -> Told:
        return asked_by_task().request("tasks/update", update).answer({"resultType": "complete"})

    assert judged(name, shows(refused(), "completed", result=text("No coat."))) == {"good"}
    assert judged(name, shows(refused(), "failed")) == {"good"}
    assert judged(name, shows(refused(), "input_required")) == set()
    assert judged(name, shows(refused().wait(5_100), "input_required")) == {"bad"}


def test_a_call_that_is_refused_an_answer_ends() -> None:
    name = f"{NEW}:elicitation-refusals-handled"
    params = call({}, requestState="s", inputResponses={"size": {"action": "decline"}})
    tale = asked_by_result(FORM).request("tools/call", params)
    assert judged(name, tale.answer({"resultType": "complete", **text("No coat.")})) == {"good"}
    tale = asked_by_result(FORM).request("tools/call", params)
    assert judged(name, tale.give_up()) == {"bad"}


# --- owners ----------------------------------------------------------------------------------


def look(tale: Told, **options: Any) -> Told:
    """Somebody else asks for the task."""
    return tale.request("tasks/get", {"taskId": "task-a"}, caller="B", line=2, **options)


def test_only_the_owner_is_asked() -> None:
    name = f"{OLD}:elicitation-bound-to-user"
    assert judged(name, look(asked_by_request(FORM, principals=TWO)).error(-32602)) == {"good"}
    question = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "elicitation/create",
        "params": {**FORM, "_meta": {RELATED: {"taskId": "task-a"}}},
    }
    tale = asked_by_request(FORM, principals=TWO).hear(question, line=2, caller="B")
    assert judged(name, tale) == {"bad"}
    assert judged(name, look(asked_by_request(FORM)).error(-32602)) == set()


def test_only_the_owner_answers() -> None:
    name = f"{OLD}:elicitation-bound-to-user"
    tale = reply(asked_by_request(FORM, principals=TWO), {"size": 1}, caller="B", line=2)
    assert judged(name, tale.get(a_task(status="input_required"))) == {"good"}
    tale = reply(asked_by_request(FORM, principals=TWO), {"size": 1}, caller="B", line=2)
    assert judged(name, tale.get(a_task(status="completed"))) == {"bad"}
    tale = reply(asked_by_request(FORM, principals=TWO), {"size": 1}, caller="B", line=2)
    assert judged(name, reply(tale, {"size": 1}).get(a_task(status="completed"))) == set()


def test_nobody_else_sees_what_was_answered() -> None:
    name = f"{OLD}:elicitation-state-per-user"
    tale = reply(asked_by_request(FORM, principals=TWO), {"size": 1})
    assert judged(name, look(tale).error(-32602)) == {"good"}
    assert judged(name, look(tale).answer(a_task(status="completed"))) == {"good", "bad"}


def test_a_session_is_not_enough() -> None:
    name = f"{OLD}:elicitation-state-not-session-only"
    stolen = {"mcp-session-id": "s"}
    tale = look(asked_by_request(FORM, principals=TWO), headers=stolen)
    assert judged(name, tale.error(-32001, status=404)) == {"good"}
    tale = look(asked_by_request(FORM, principals=TWO), headers=stolen)
    assert judged(name, tale.answer(a_task(status="input_required"))) == {"bad"}
    tale = look(asked_by_request(FORM, principals=TWO), headers={"mcp-session-id": "other"})
    assert judged(name, tale.answer(a_task())) == set()
