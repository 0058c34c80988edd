"""Bugs in what a server of 2025-11-25 offers as tasks, and in what calls of tools become."""

import uuid
from typing import Any, Final

from tests.conformance.bugs.mcp_2025_11_25.tasks.shown import (
    Answers,
    error,
    method_of,
    of,
    params_of,
)
from tests.conformance.planting import Bug, Head, Later, Message, plant

__all__: list[str] = []

IMMEDIATE: Final = "io.modelcontextprotocol/model-immediate-response"
OPTIONAL: Final = ("heap", "drift", "linger", "topple", "snap", "tailor", "hum")


def _is_call(request: Message | None, *tools: str) -> bool:
    name = params_of(request).get("name")
    return method_of(request) == "tools/call" and (not tools or name in tools)


def _is_creation(message: Message, request: Message | None) -> bool:
    result = message.get("result")
    return _is_call(request) and isinstance(result, dict) and "task" in result


# --- what is declared ------------------------------------------------------------------------


@plant(*of("capability-declared", "capability-requests-exhaustive"), also=of(
    "undeclared-type-processed-normally"
))  # fmt: skip
class NothingDeclared(Answers):
    """There are tasks, and nobody was told."""

    method = "initialize"

    def change(self, result: Message, request: Message) -> None:
        del result["capabilities"]["tasks"]


@plant(*of("capability-shape"))
class DeclaresByTrue(Answers):
    """True instead of an object."""

    method = "initialize"

    def change(self, result: Message, request: Message) -> None:
        result["capabilities"]["tasks"]["list"] = True


@plant(*of("server-capability-keys"))
class DeclaresSampling(Answers):
    """What only a client can offer."""

    method = "initialize"

    def change(self, result: Message, request: Message) -> None:
        result["capabilities"]["tasks"]["requests"]["sampling"] = {"createMessage": {}}


@plant(*of("capability-requests-exhaustive", "undeclared-type-processed-normally"))
class PingIsATask(Bug):
    """Whoever wishes for a task gets one, whatever it is for."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(request) == "ping" and "task" in params_of(request):
            moment = "2026-01-02T03:04:05Z"
            message["result"]["task"] = {
                "taskId": str(uuid.uuid4()),
                "status": "working",
                "createdAt": moment,
                "lastUpdatedAt": moment,
                "ttl": None,
            }
        return [message]


@plant(*of("undeclared-type-processed-normally"))
class WishesAreErrors(Bug):
    """A wish for a task is an invalid parameter of other requests."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None and not _is_call(request) and "task" in params_of(request):
            return [error(request, -32602, "There is a parameter 'task'")]
        return [message]


@plant(
    *of("get-and-result-always-served"),
    also=of(
        "result-unknown-32602", "status-completed", "failed-on-jsonrpc-error", "result-blocks",
        "result-is-success-response", "result-same-error",
    ),
)  # fmt: skip
class NoResults(Bug):
    """There is no `tasks/result`."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None and method_of(request) == "tasks/result":
            return [error(request, -32601, "Method not found")]
        return [message]


# --- which tools -----------------------------------------------------------------------------


@plant(*of("task-support-values"))
class StrangeSupport(Answers):
    """A tool that is a task sometimes."""

    method = "tools/list"

    def change(self, result: Message, request: Message) -> None:
        for tool in result["tools"]:
            if tool["name"] == "glance":
                tool["execution"] = {"taskSupport": "sometimes"}


@plant(*of("forbidden-tool-task-refused-32601"))
class ForbiddenToolsRun(Bug):
    """A wish for a task is ignored where it is forbidden."""

    def asked(self, message: Message, head: Head) -> Message:
        if _is_call(message, "glance"):
            message["params"].pop("task", None)
        return message


@plant(*of("forbidden-tool-task-refused-32601"))
class ForbiddenToolsHaveAnotherCode(Bug):
    """A wish for a task is an invalid parameter where it is forbidden."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None and _is_call(request, "glance") and "task" in params_of(request):
            return [error(request, -32602, "This is no task")]
        return [message]


@plant(*of("task-support-default-forbidden"), also=of("forbidden-tool-task-refused-32601"))
class UnmarkedToolsAreTasks(Answers):
    """Tools do not say that they can be tasks."""

    method = "tools/list"

    def change(self, result: Message, request: Message) -> None:
        for tool in result["tools"]:
            if tool["name"] in OPTIONAL:
                tool.pop("execution", None)


@plant(*of("optional-tool-served-both-ways"))
class OptionalIsRequired(Bug):
    """A tool that says it is optional insists on a task."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None and _is_call(request, "heap") and "task" not in params_of(request):
            return [error(request, -32601, "Only as a task")]
        return [message]


@plant(*of("required-tool-plain-refused-32601"))
class RequiredIsOptional(Bug):
    """A tool that insists on a task answers without one."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        is_plain = _is_call(request, "ferment") and "task" not in params_of(request)
        if is_plain and "error" in message:
            del message["error"]
            text = {"type": "text", "text": '{"bubbles":7}'}
            message["result"] = {"content": [text], "structuredContent": {"bubbles": 7}}
        return [message]


# --- the creating answer ---------------------------------------------------------------------


@plant(*of("create-result-returned"))
class ResultInsteadOfTask(Bug):
    """A wish for a task is not heeded."""

    def asked(self, message: Message, head: Head) -> Message:
        if _is_call(message, "topple"):
            message["params"].pop("task", None)
        return message


@plant(*of("create-result-shape"))
class FlatCreation(Bug):
    """The new task is not under `task`."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if _is_creation(message, request) and _is_call(request, "topple"):
            message["result"] = message["result"]["task"]
        return [message]


@plant(*of("create-result-without-operation-result"))
class ContentInCreation(Bug):
    """For those who cannot wait."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if _is_creation(message, request):
            message["result"]["content"] = [{"type": "text", "text": "It has begun."}]
        return [message]


@plant(*of("create-answer-prompt"))
class LateCreation(Bug):
    """It is told that a task was begun when it is over."""

    def __init__(self) -> None:
        self._is_over = False

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if self._is_over or not _is_creation(message, request) or not _is_call(request, "snap"):
            return [message]
        self._is_over = True
        return [Later(5.3, message)]


@plant(*of("model-immediate-response"))
class ImmediateNumber(Bug):
    """The model is told a number."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if _is_creation(message, request):
            message["result"]["_meta"] = {IMMEDIATE: 7}
        return [message]
