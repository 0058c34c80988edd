"""Bugs of elicitation."""

import json
from collections.abc import Iterator
from typing import Any

from tests.conformance.bugs.tools import SIGNED, results_in
from tests.conformance.planting import (
    HTTP,
    STDIO,
    Bug,
    ClientMessage,
    Head,
    Instead,
    Message,
    new,
    old,
    plant,
)

OLD, NEW = "2025-11-25", "2026-07-28"
RELATED = "io.modelcontextprotocol/related-task"
MARK = "this-is-not-what-was-asked-for"


def questions_in(message: Message, method: str = "elicitation/create") -> Iterator[Message]:
    """The questions that a message asks, to be changed in place."""
    if message.get("method") == method:
        yield message
    for holder in (message.get("result"), message.get("params")):
        requests = holder.get("inputRequests") if isinstance(holder, dict) else None
        for request in requests.values() if isinstance(requests, dict) else ():
            if request.get("method") == method:
                yield request


class _Question(Bug):
    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        for question in questions_in(message):
            self.change(question["params"])
        return [message]

    def change(self, params: Message) -> None:
        """Ask otherwise."""


@plant(*old("elicitation-empty-is-form", "elicitation-declared-modes-only"),
    *new("elicitation-declared-modes-only"), also=old("only-negotiated-capabilities"),
    base=_Question)  # fmt: skip
def elicits_by_url_without_capability(params: Message) -> None:
    params.pop("requestedSchema")
    params |= {"mode": "url", "url": "https://example.org/form", "elicitationId": "1"}


@plant(*old("elicitation-required-params"), *new("elicitation-required-params"), base=_Question)
def elicits_without_message(params: Message) -> None:
    del params["message"]


@plant(*old("elicitation-form-schema"), *new("elicitation-form-schema"), base=_Question)
def elicits_without_schema(params: Message) -> None:
    del params["requestedSchema"]


@plant(*old("elicitation-schema-flat"), base=_Question)
def elicits_with_nested_schema(params: Message) -> None:
    inner = {"type": "object", "properties": {"left": {"type": "string"}}}
    params["requestedSchema"]["properties"]["colour"] = inner


@plant(*old("elicitation-url-params", "elicitation-url-valid"), transports=STDIO)
class ElicitsWithInvalidUrl(_Question):
    def __init__(self) -> None:
        self._can = False

    def client_message(self, message: Message, head: Head) -> Message:
        if message.get("method") == "initialize":
            self._can = "url" in message["params"]["capabilities"].get("elicitation", {})
        return message

    def change(self, params: Message) -> None:
        if self._can:
            params.pop("requestedSchema")
            params |= {"mode": "url", "url": "over there"}


@plant(*old("elicitation-server-validates", "sampling-content-validated"),
    *new("elicitation-server-validates"), also=new("input-responses-validated"))  # fmt: skip
class AcceptsInvalidElicitationContent(Bug):
    def __init__(self) -> None:
        self._is_told = False

    def client_message(self, message: Message, head: Head) -> Message:
        if MARK not in json.dumps(message):
            return message
        self._is_told = True
        if "result" in message:
            message["result"] = _better(message["result"])
        responses = message.get("params", {}).get("inputResponses")
        if isinstance(responses, dict):
            message["params"]["inputResponses"] = {k: _better(v) for k, v in responses.items()}
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        for result in results_in(message):
            for block in result["content"] if self._is_told else ():
                block["text"] = f"{block.get('text')} {MARK}"
        return [message]


def _better(answer: Any) -> Any:
    if not isinstance(answer, dict) or MARK not in json.dumps(answer):
        return answer
    if "role" in answer:
        return {**answer, "content": {"type": "text", "text": "Yes."}}
    return {**answer, "content": {"size": 1}}


@plant(*new("elicitation-refusals-handled"), base=ClientMessage)
def ignores_cancelled_elicitations(message: Message, head: Head) -> Message | Instead | None:
    if message.get("method") != "tasks/update" or not isinstance(message.get("params"), dict):
        return message
    responses = message["params"].get("inputResponses")
    answers = list(responses.values()) if isinstance(responses, dict) else []
    if {"action": "cancel"} not in answers:
        return message
    result = {"resultType": "complete", **SIGNED}
    return Instead(({"jsonrpc": "2.0", "id": message["id"], "result": result},))


FOREIGN = (
    f"{OLD}:result-blocks",
    f"{OLD}:bound-to-auth-context",
    f"{OLD}:foreign-get-rejected",
)
"""Requirements that are broken as well when a task is shown to another user."""

# --- owners -------------------------------------------------------------------------


class _Owners(Bug):
    """Record the owner and the open elicitation of each task."""

    hook = "foreign_message"

    def __init__(self) -> None:
        self.owners: dict[str, dict[str, str]] = {}
        self.questions: dict[Any, Message] = {}

    def client_message(self, message: Message, head: Head) -> Message | Instead:
        caller = {name: head.headers.get(name, "") for name in ("authorization", "mcp-session-id")}
        params = message.get("params")
        task_id = params.get("taskId") if isinstance(params, dict) else None
        if not isinstance(task_id, str):
            return message
        if message.get("method") == "tasks/result":  # the first one to wait is the owner
            self.owners.setdefault(task_id, caller)
        owner = self.owners.get(task_id, caller)
        is_other = owner["authorization"] != caller["authorization"] != ""
        return self.foreign_message(message, head, owner) if is_other else message

    def foreign_message(
        self, message: Message, head: Head, owner: dict[str, str]
    ) -> Message | Instead:
        """Handle a request of another caller than the owner."""
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if message.get("method") == "elicitation/create":
            about = message["params"].get("_meta", {}).get(RELATED, {}).get("taskId")
            self.questions[about] = message
        return [message]


@plant(*old("elicitation-bound-to-user"), also=old("side-channel-allowed", "sse-priming-event"),
    transports=HTTP)  # fmt: skip
class ElicitsFromAnotherUser(_Owners):
    def foreign_message(
        self, message: Message, head: Head, owner: dict[str, str]
    ) -> Message | Instead:
        question = self.questions.get(message["params"]["taskId"])
        is_stolen = head.headers.get("mcp-session-id") == owner["mcp-session-id"]
        if message["method"] != "tasks/result" or question is None or is_stolen:
            return message
        error = {"code": -32602, "message": "Unknown task"}
        return Instead((question, {"jsonrpc": "2.0", "id": message["id"], "error": error}))


@plant(*old("elicitation-state-per-user"), also=(*FOREIGN, *old("status-completed",
    "failed-on-jsonrpc-error")), transports=HTTP, base=_Owners)  # fmt: skip
def shows_answered_tasks_to_other_users(
    message: Message, head: Head, owner: dict[str, str]
) -> Message:
    is_own = head.headers.get("mcp-session-id") != owner["mcp-session-id"]
    if message["method"] == "tasks/get" and is_own:
        head.headers.update(owner)
    return message


@plant(*old("elicitation-state-not-session-only"), also=FOREIGN, transports=HTTP, base=_Owners)
def authorizes_by_session_alone(message: Message, head: Head, owner: dict[str, str]) -> Message:
    is_stolen = head.headers.get("mcp-session-id") == owner["mcp-session-id"]
    if message["method"] == "tasks/get" and is_stolen:
        head.headers.update(owner)
    return message
