"""Bugs of declared task support and of task creation in 2025-11-25."""

import uuid
from typing import Any, Final

from tests.conformance.bugs.mcp_2025_11_25.tasks.tasks import Answers
from tests.conformance.planting import (
    Bug,
    ClientChange,
    Head,
    Later,
    Message,
    ServerChange,
    ServerMessage,
    error,
    method_of,
    old,
    params_of,
    plant,
)

IMMEDIATE: Final = "io.modelcontextprotocol/model-immediate-response"
OPTIONAL: Final = ("heap", "drift", "linger", "topple", "snap", "tailor", "hum")


def _is_call(request: Message | None, *tools: str) -> bool:
    name = params_of(request).get("name")
    return method_of(request) == "tools/call" and (not tools or name in tools)


def _is_creation(message: Message, request: Message | None) -> bool:
    result = message.get("result")
    return _is_call(request) and isinstance(result, dict) and "task" in result


# --- what is declared ------------------------------------------------------------------------


@plant(*old("capability-declared", "capability-requests-exhaustive"),
    also=old("undeclared-type-processed-normally"), base=Answers, method="initialize")  # fmt: skip
def does_not_declare_tasks(result: Message, request: Message) -> None:
    del result["capabilities"]["tasks"]


@plant(*old("capability-shape"), base=Answers, method="initialize")
def declares_list_as_true(result: Message, request: Message) -> None:
    result["capabilities"]["tasks"]["list"] = True


@plant(*old("server-capability-keys"), base=Answers, method="initialize")
def declares_a_client_capability(result: Message, request: Message) -> None:
    result["capabilities"]["tasks"]["requests"]["sampling"] = {"createMessage": {}}


@plant(
    *old("capability-requests-exhaustive", "undeclared-type-processed-normally"), base=ServerChange
)
def creates_a_task_for_ping(message: Message, request: Message | None) -> None:
    if method_of(request) == "ping" and "task" in params_of(request):
        moment = "2026-01-02T03:04:05Z"
        message["result"]["task"] = {
            "taskId": str(uuid.uuid4()),
            "status": "working",
            "createdAt": moment,
            "lastUpdatedAt": moment,
            "ttl": None,
        }


@plant(*old("undeclared-type-processed-normally"), base=ServerMessage)
def refuses_task_parameter_elsewhere(message: Message, request: Message | None) -> list[Any]:
    if request is not None and not _is_call(request) and "task" in params_of(request):
        return [error(request, -32602, "There is a parameter 'task'")]
    return [message]


@plant(*old("get-and-result-always-served"), also=old("result-unknown-32602", "status-completed",
    "failed-on-jsonrpc-error", "result-blocks", "result-is-success-response",
    "result-same-error"), base=ServerMessage)  # fmt: skip
def has_no_tasks_result(message: Message, request: Message | None) -> list[Any]:
    if request is not None and method_of(request) == "tasks/result":
        return [error(request, -32601, "Method not found")]
    return [message]


# --- which tools -----------------------------------------------------------------------------


@plant(*old("task-support-values"), base=Answers, method="tools/list")
def declares_unknown_task_support(result: Message, request: Message) -> None:
    for tool in result["tools"]:
        if tool["name"] == "glance":
            tool["execution"] = {"taskSupport": "sometimes"}


@plant(*old("forbidden-tool-task-refused-32601"), base=ClientChange)
def runs_forbidden_tool_despite_task(message: Message, head: Head) -> None:
    if _is_call(message, "glance"):
        message["params"].pop("task", None)


@plant(*old("forbidden-tool-task-refused-32601"), base=ServerMessage)
def refuses_forbidden_task_with_32602(message: Message, request: Message | None) -> list[Any]:
    if request is not None and _is_call(request, "glance") and "task" in params_of(request):
        return [error(request, -32602, "This tool cannot be a task")]
    return [message]


@plant(*old("task-support-default-forbidden"), also=old("forbidden-tool-task-refused-32601"),
    base=Answers, method="tools/list")  # fmt: skip
def omits_task_support(result: Message, request: Message) -> None:
    for tool in result["tools"]:
        if tool["name"] in OPTIONAL:
            tool.pop("execution", None)


@plant(*old("optional-tool-served-both-ways"), base=ServerMessage)
def requires_tasks_for_optional_tool(message: Message, request: Message | None) -> list[Any]:
    if request is not None and _is_call(request, "heap") and "task" not in params_of(request):
        return [error(request, -32601, "Only as a task")]
    return [message]


@plant(*old("required-tool-plain-refused-32601"), base=ServerChange)
def answers_required_tool_without_task(message: Message, request: Message | None) -> None:
    is_plain = _is_call(request, "ferment") and "task" not in params_of(request)
    if is_plain and "error" in message:
        del message["error"]
        text = {"type": "text", "text": '{"bubbles":7}'}
        message["result"] = {"content": [text], "structuredContent": {"bubbles": 7}}


# --- the creating answer ---------------------------------------------------------------------


@plant(*old("create-result-returned"), base=ClientChange)
def ignores_task_parameter(message: Message, head: Head) -> None:
    if _is_call(message, "topple"):
        message["params"].pop("task", None)


@plant(*old("create-result-shape"), base=ServerChange)
def creates_tasks_without_wrapper(message: Message, request: Message | None) -> None:
    if _is_creation(message, request) and _is_call(request, "topple"):
        message["result"] = message["result"]["task"]


@plant(*old("create-result-without-operation-result"), base=ServerChange)
def adds_content_to_created_tasks(message: Message, request: Message | None) -> None:
    if _is_creation(message, request):
        message["result"]["content"] = [{"type": "text", "text": "It has begun."}]


@plant(*old("create-answer-prompt"))
class AnswersCreationLate(Bug):
    def __init__(self) -> None:
        self._is_over = False

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if self._is_over or not _is_creation(message, request) or not _is_call(request, "snap"):
            return [message]
        self._is_over = True
        return [Later(5.3, message)]


@plant(*old("model-immediate-response"), base=ServerChange)
def sends_immediate_response_as_number(message: Message, request: Message | None) -> None:
    if _is_creation(message, request):
        message["result"]["_meta"] = {IMMEDIATE: 7}
