"""Requests for input: sent to clients with different capabilities, and answered incorrectly."""

from collections.abc import Mapping
from typing import Any, Final

from taskmachine.adapters.conformance.harness import Harness
from taskmachine.adapters.conformance.history import Entry
from taskmachine.adapters.conformance.probes.registry import probe
from taskmachine.adapters.conformance.profile import Role, ToolCall
from taskmachine.adapters.conformance.wire.answering import Reply, answer
from taskmachine.adapters.conformance.wire.caller import Caller
from taskmachine.adapters.conformance.wire.metadata import META

__all__ = ["wrong_content", "wrong_message"]

OLD: Final = ("2025-11-25",)
NEW: Final = ("2026-07-28",)
MARK: Final = "this-is-not-what-was-asked-for"
QUESTIONS: Final = (Role.ASKS, Role.SAMPLES)
CLIENTS: Final[tuple[Mapping[str, Any], ...]] = (
    {"elicitation": {}, "sampling": {}},
    {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}, "context": {}}},
    {"elicitation": {"url": {}}},
    {},
)
LONG_MS: Final = 5_500.0


def wrong_content(schema: Any) -> dict[str, Any]:
    """Return form content with an object in each field, which no schema allows."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return {name: {"text": MARK} for name in properties or {}} or {"text": MARK}


def wrong_message() -> dict[str, Any]:
    """Return a sampling result with invalid content."""
    return {"role": "assistant", "content": {"type": "text", "text": [MARK]}, "model": "none"}


def _wrong(method: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    right = answer(method, params).get("result", {})
    if method == "sampling/createMessage":
        return {**right, **wrong_message()}
    return {**right, "action": "accept", "content": wrong_content(params.get("requestedSchema"))}


# --- 2025-11-25 ----------------------------------------------------------------------------------


@probe(revisions=OLD)
async def clients_with_each_capability(harness: Harness) -> None:
    """Let clients with every set of capabilities be asked, with and without a task."""
    for capabilities in CLIENTS:
        caller = await harness.caller(fresh=True, capabilities=capabilities)
        for role in QUESTIONS:
            call = harness.profile.get(role)
            if call is not None:
                await _ask(caller, call)
                await caller.call(call, as_task=False)
        await harness.release(caller)


@probe(revisions=OLD)
async def answer_incorrectly(harness: Harness) -> None:
    """Answer each request with a response to another kind of request."""
    caller = await harness.caller(fresh=True)

    def wrong(entry: Entry) -> Reply:
        return {"result": _wrong(entry.method, entry.params)}

    caller.answering = wrong
    for role in QUESTIONS:
        call = harness.profile.get(role)
        if call is not None:
            await _ask(caller, call)
    await harness.release(caller)


async def _ask(caller: Caller, call: ToolCall) -> None:
    """Run a task and answer its requests within a time limit."""
    task_id = await caller.create(call)
    if task_id is None:
        return
    result = caller.start("tasks/result", {"taskId": task_id})
    if await caller.until(task_id, "input_required", within_ms=1_000) is not None:
        await result.answer(1_000)
        await caller.until(task_id, within_ms=100)
    if not result.is_done:
        await caller.cancel(task_id)
        await result.answer(500)


@probe(Role.ASKS, revisions=OLD, transports=("http",))
async def answer_as_another_principal(harness: Harness) -> None:
    """Let one principal's task send a request, and answer it as another principal."""
    if not harness.has_two_principals:
        return
    one, other = await harness.caller("A", fresh=True), await harness.caller("B")
    one.answering = lambda _: None
    task_id = await one.create(harness.profile.calls[Role.ASKS])
    if task_id is None:
        return
    params = {"taskId": task_id}
    result = one.start("tasks/result", params)
    if await one.until(task_id, "input_required", within_ms=2_000) is None:
        return
    session = one.session.get("mcp-session-id")
    for headers in ({}, {} if session is None else {"mcp-session-id": session}):
        for method in ("tasks/get", "tasks/result"):
            await other.request(method, params, headers=headers, wait_ms=500)
    question = next((entry for entry in result.heard() if entry.is_request), None)
    if question is not None:
        reply = answer(question.method, question.params)
        await other.reply(question, reply)
        await one.get(task_id)
        await one.get(task_id)
        await one.reply(question, reply)
        await result.answer(1_000)
        await other.request("tasks/get", params)
        await other.request("tasks/result", params, wait_ms=500)
    await harness.release(one)


# --- 2026-07-28 ----------------------------------------------------------------------------------


@probe(revisions=NEW)
async def requests_with_each_capability(harness: Harness) -> None:
    """Let clients with every set of capabilities be asked, with and without a task."""
    caller = await harness.caller()
    extensions = caller.capabilities.get("extensions", {})
    for capabilities in CLIENTS:
        for role in QUESTIONS:
            call = harness.profile.get(role)
            if call is None:
                continue
            plain = {f"{META}clientCapabilities": capabilities}
            await caller.request("tools/call", call.params, meta=plain)
            meta = {f"{META}clientCapabilities": {**capabilities, "extensions": extensions}}
            task_id = await caller.create(call, meta=meta)
            if task_id is not None:
                await caller.until(task_id, "input_required", within_ms=1_000)
                await caller.get(task_id, meta=meta)
                await caller.cancel(task_id)


@probe(Role.ASKS, revisions=NEW)
async def decline_and_cancel(harness: Harness) -> None:
    """Decline and cancel the elicitation of a task."""
    caller = await harness.caller()
    for action in ("decline", "cancel"):
        task_id = await caller.create(harness.profile.calls[Role.ASKS])
        if task_id is None:
            return
        keys = await _questions(caller, task_id)
        replies = {key: {"action": action} for key in keys}
        await _update(caller, task_id, replies)
        left = keys
        for _ in range(int(LONG_MS / 100)):
            task = (await caller.get(task_id)).fields
            left = {k: v for k, v in _requests(task).items() if k in keys}
            if not left:
                break
            await caller.pause(100)
        await caller.until(task_id, within_ms=1_000)


@probe(revisions=NEW)
async def answer_tasks_incorrectly(harness: Harness) -> None:
    """Send malformed responses, then responses that violate the requested schema."""
    caller = await harness.caller()
    for role in QUESTIONS:
        call = harness.profile.get(role)
        if call is None:
            continue
        for make in (_number, _no_action, _wrong):
            task_id = await caller.create(call)
            if task_id is None:
                return
            asked = await _questions(caller, task_id)
            replies = {key: make(*_method_and_params(one)) for key, one in asked.items()}
            if make is _number:
                await _update(caller, task_id, 5)
            await _update(caller, task_id, replies)
            await caller.get(task_id)
            await caller.pause(40)
            await caller.get(task_id)
            await caller.cancel(task_id)


def _number(_method: Any, _params: Mapping[str, Any]) -> Any:
    return 5


def _no_action(_method: Any, _params: Mapping[str, Any]) -> Any:
    return {"action": 7, "role": 7}


async def _questions(caller: Caller, task_id: str) -> Mapping[str, Any]:
    task = await caller.until(task_id, "input_required", within_ms=2_000)
    return _requests(task or {})


def _requests(task: Mapping[str, Any]) -> Mapping[str, Any]:
    requests = task.get("inputRequests")
    return requests if isinstance(requests, dict) else {}


def _method_and_params(request: Any) -> tuple[Any, Mapping[str, Any]]:
    request = request if isinstance(request, dict) else {}
    params = request.get("params")
    return request.get("method"), params if isinstance(params, dict) else {}


async def _update(caller: Caller, task_id: str, responses: Any) -> None:
    await caller.request("tasks/update", {"taskId": task_id, "inputResponses": responses})
