"""Elicitation in both revisions."""

from typing import Any, Final

from tests.conformance.checks.cases import Rows, bad, good, mixed, nothing, table
from tests.conformance.histories.messages import Messages, a_task, messages

OLD: Final = "2025-11-25"
NEW: Final = "2026-07-28"
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
INVALID = "this-is-not-what-was-asked-for"
TWO = {"A": "Bearer a", "B": "Bearer b"}
COMPLETE = {"resultType": "complete"}


def without(params: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in params.items() if key != name}


def asked_by_request(params: Any, can: Any = None, **options: Any) -> Messages:
    """2025-11-25: a task elicits."""
    history = messages(OLD, **options)
    declared = {"elicitation": {}} if can is None else can
    history.request("initialize", {"capabilities": declared})
    history.answer({"capabilities": {}}, headers={"mcp-session-id": "s"})
    history.create(a_task(), id="create")
    history.request("tasks/result", {"taskId": "task-a"}, id="result")
    return history.receive(elicitation(params, "q"), on="result")


def elicitation(params: Any, id: Any) -> dict[str, Any]:
    params = {**params, "_meta": {RELATED: {"taskId": "task-a"}}}
    return {"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params}


def call(can: Any, **more: Any) -> dict[str, Any]:
    """2026-07-28: return the parameters of a call."""
    return {"name": "tool", "arguments": {}, "_meta": {CAPABILITIES: can}, **more}


def asked_by_result(params: Any, can: Any = None) -> Messages:
    """2026-07-28: a call requires input."""
    history = messages(NEW).request("tools/call", call({"elicitation": {}} if can is None else can))
    requests = {"size": {"method": "elicitation/create", "params": params}}
    return history.answer(
        {"resultType": "input_required", "inputRequests": requests, "requestState": "s"}
    )


def asked_by_task(can: Any = None) -> Messages:
    """2026-07-28: a task requires input."""
    history = messages(NEW).request("tools/call", call({"elicitation": {}} if can is None else can))
    history.answer({"resultType": "task", "taskId": "task-a", "status": "working"})
    return poll(history, "input_required")


def poll(history: Messages, status: str, **fields: Any) -> Messages:
    """2026-07-28: poll the task."""
    requests = {"size": {"method": "elicitation/create", "params": FORM}}
    more = {"inputRequests": requests} if status == "input_required" else {}
    return history.get({"taskId": "task-a", "status": status, **more, **fields})


def updated(**response: Any) -> Messages:
    """2026-07-28: answer the request of a task; the response is missing."""
    params = {"taskId": "task-a", "inputResponses": {"size": response}}
    return asked_by_task().request("tasks/update", params)


def accepted_invalid() -> Messages:
    return updated(action="accept", content=WRONG).answer(COMPLETE)


def refused(action: str) -> Messages:
    return updated(action=action).answer(COMPLETE)


def declined_call() -> Messages:
    params = call({}, requestState="s", inputResponses={"size": {"action": "decline"}})
    return asked_by_result(FORM).request("tools/call", params)


def field(field: Any) -> Messages:
    """2025-11-25: elicit with this field in the form."""
    schema = {"type": "object", "properties": {"field": field}}
    return asked_by_request(FORM | {"requestedSchema": schema})


def url(url: str) -> Messages:
    return asked_by_request(URL | {"url": url})


def text(words: str, **more: Any) -> dict[str, Any]:
    """Return a tool result."""
    return {"content": [{"type": "text", "text": words}], **more}


def reply(history: Messages, content: Any, **options: Any) -> Messages:
    """2025-11-25: answer the elicitation."""
    result = {"action": "accept", "content": content}
    return history.send({"jsonrpc": "2.0", "id": "q", "result": result}, **options)


def replied() -> Messages:
    return reply(asked_by_request(FORM, principals=TWO), {"size": 1})


def replied_as_b() -> Messages:
    return reply(asked_by_request(FORM, principals=TWO), {"size": 1}, caller="B", line=2)


def validated(revision: str, content: Any, result: Any) -> Messages:
    """Answer an elicitation with this content; the call ends with this result."""
    if revision == OLD:
        return reply(asked_by_request(FORM), content).answer(result, to="result")
    responses = {"size": {"action": "accept", "content": content}}
    params = call({"elicitation": {}}, requestState="s", inputResponses=responses)
    return asked_by_result(FORM).request("tools/call", params).answer({**COMPLETE, **result})


def foreign_get(history: Messages, **options: Any) -> Messages:
    """Poll the task of A as B."""
    return history.request("tasks/get", {"taskId": "task-a"}, caller="B", line=2, **options)


def with_session(session: str) -> Messages:
    """Poll the task of A as B with this session."""
    headers = {"mcp-session-id": session}
    return foreign_get(asked_by_request(FORM, principals=TWO), headers=headers)


REFUSALS = ("decline", "cancel")
WRONG = {"size": {"text": INVALID}}


def both(revision: str, asked: Any) -> Rows:
    """Rows of both revisions."""
    return {
        "elicitation-declared-modes-only": [
            good(
                asked(FORM),
                asked(FORM | {"mode": "form"}),
                asked(URL, {"elicitation": {"url": {}}}),
                asked(URL, {"elicitation": {"form": {}, "url": {}}}),
            ),
            bad(
                asked(URL),
                asked(URL, {"elicitation": {"form": {}}}),
                asked(FORM, {"elicitation": {"url": {}}}),
                asked(FORM, {"sampling": {}}),
                asked(FORM | {"mode": 5}),
            ),
        ],
        "elicitation-required-params": [
            good(asked(FORM), asked(URL)),
            bad(
                asked(without(FORM, "message")),
                asked(FORM | {"message": 5}),
                asked(FORM | {"mode": "letter"}),
                asked(without(URL, "mode")),
            ),
        ],
        "elicitation-form-schema": [
            good(asked(FORM)),
            nothing(asked(URL)),
            bad(asked(without(FORM, "requestedSchema")), asked(FORM | {"requestedSchema": []})),
        ],
        "elicitation-server-validates": [
            good(validated(revision, WRONG, text(f"{INVALID} is not a size.", isError=True))),
            nothing(
                validated(revision, WRONG, text("No coat.")),  # treated as a refusal
                validated(revision, {"size": 5}, text("A coat of size 5.")),
                validated(revision, {"size": "5"}, text("A coat of size 5.")),
            ),
            bad(validated(revision, WRONG, text(f"A coat of size {INVALID}."))),
        ],
    }


OLD_ROWS: Rows = {
    "elicitation-mode-omitted": [
        good(asked_by_request(FORM), asked_by_request(FORM | {"mode": "form"}))
    ],
    "elicitation-empty-is-form": [
        good(asked_by_request(FORM)),
        nothing(asked_by_request(URL, {"elicitation": {"url": {}}})),
        bad(asked_by_request(URL)),
    ],
    "elicitation-schema-flat": [
        good(
            field({"type": "string", "format": "email"}),
            field({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}),
            field({"type": "array", "items": {"type": "string", "enum": ["a"]}}),
            field({"type": "array", "items": {"anyOf": [{"const": "a"}]}}),
            field({"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ),
        bad(
            field({"type": "array", "items": {"type": "object"}}),
            field({"type": "object"}),
            field({"properties": {}}),
            field(5),
        ),
    ],
    "elicitation-url-params": [
        good(asked_by_request(URL)),
        bad(*(asked_by_request(without(URL, n)) for n in ("message", "url", "elicitationId"))),
    ],
    "elicitation-url-valid": [
        good(url("https://example.org/a?b=c"), url("http://127.0.0.1:8000")),
        bad(*map(url, ("example.org", "over there", "http://[", ""))),
    ],
    "elicitation-bound-to-user": [
        good(
            foreign_get(asked_by_request(FORM, principals=TWO)).error(-32602),
            replied_as_b().get(a_task(status="input_required")),
        ),
        nothing(
            foreign_get(asked_by_request(FORM)).error(-32602),
            reply(replied_as_b(), {"size": 1}).get(a_task(status="completed")),
        ),
        bad(
            asked_by_request(FORM, principals=TWO).receive(
                elicitation(FORM, 7), line=2, caller="B"
            ),
            replied_as_b().get(a_task(status="completed")),
        ),
    ],
    "elicitation-state-per-user": [
        good(foreign_get(replied()).error(-32602)),
        mixed(foreign_get(foreign_get(replied()).error(-32602)).answer(a_task(status="completed"))),
    ],
    "elicitation-state-not-session-only": [
        good(with_session("s").error(-32001, status=404)),
        nothing(with_session("other").answer(a_task())),
        bad(with_session("s").answer(a_task(status="input_required"))),
    ],
}

NEW_ROWS: Rows = {
    "elicitation-declared-modes-only": [
        good(asked_by_task()),
        bad(asked_by_task({"sampling": {}})),
    ],
    "elicitation-server-validates": [
        good(
            updated(action="accept", content=WRONG).error(-32602),
            poll(accepted_invalid(), "input_required"),
        ),
        nothing(accepted_invalid()),
        bad(poll(accepted_invalid(), "completed", result=text(f"Size {INVALID}."))),
    ],
    "elicitation-refusals-handled": [
        good(
            declined_call().answer({**COMPLETE, **text("No coat.")}),
            *(poll(refused(a), "completed", result=text("No coat.")) for a in REFUSALS),
            *(poll(refused(a), "failed") for a in REFUSALS),
        ),
        nothing(*(poll(refused(a), "input_required") for a in REFUSALS)),
        bad(
            declined_call().time_out(),
            *(poll(refused(a).wait(5_100), "input_required") for a in REFUSALS),
        ),
    ],
}

CASES = table(OLD, both(OLD, asked_by_request), OLD_ROWS) + table(
    NEW, both(NEW, asked_by_result), NEW_ROWS
)
