"""Behaviour that the specification allows and our server does not show: never a finding."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final

import attrs

from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import Surroundings
from taskmachine.statemachine import Times
from tests.conformance.planting import (
    REVISIONS,
    Bug,
    ClientChange,
    Head,
    Instead,
    Later,
    Message,
    Planted,
    ResponseHead,
    ServerChange,
    ServerMessage,
    as_bug,
    meta_of,
    method_of,
    params_of,
    task_id_of,
)  # fmt: skip

__all__ = ["VARIATIONS", "tasks_in"]

OLD: Final = "2025-11-25"
NEW: Final = "2026-07-28"
CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
HTTP: Final = ("http",)

VARIATIONS: Final[dict[str, Planted]] = {}


def vary(
    *revisions: str,
    transports: tuple[str, ...] = ("stdio", "http"),
    base: type[Bug] = Bug,
    **attributes: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a variation under its name; without revisions it belongs to both."""

    def register(made: Callable[..., Any]) -> Callable[..., Any]:
        name, bug = made.__name__, as_bug(made, base, attributes)
        ids = frozenset[str]()
        VARIATIONS[name] = Planted(name, bug, ids, ids, revisions or REVISIONS, transports)
        return made

    return register


def tasks_in(message: Message) -> Iterator[Message]:
    """Yield every task in a message of the server, to be changed in place."""
    result, params = message.get("result"), message.get("params")
    if isinstance(result, dict):
        if isinstance(result.get("task"), dict):
            yield result["task"]
        if "taskId" in result:
            yield result
        yield from result.get("tasks", ())
    if message.get("method") in ("notifications/tasks/status", "notifications/tasks"):
        yield params or {}


@vary()
class Unchanged(Bug): ...


@vary(transports=HTTP)
class RequiresNoToken(Bug):
    is_open = True


# --- omitted ---------------------------------------------------------------------------------


@vary(base=ServerMessage)
def sends_no_notifications(message: Message, request: Message | None) -> list[Any]:
    match message.get("method"):
        case "notifications/subscriptions/acknowledged":
            message["params"]["notifications"].pop("taskIds", None)
        case "notifications/tasks" | "notifications/tasks/status" | "notifications/progress":
            return []
    return [message]


@vary(base=ServerMessage)
def sends_no_progress(message: Message, request: Message | None) -> list[Any]:
    return [] if method_of(message) == "notifications/progress" else [message]


@vary(base=ServerChange)
def omits_poll_interval(message: Message, request: Message | None) -> None:
    for task in tasks_in(message):
        task.pop("pollInterval", None)
        task.pop("pollIntervalMs", None)


@vary(base=ServerChange)
def omits_optional_status_messages(message: Message, request: Message | None) -> None:
    for task in tasks_in(message):
        if task.get("status") != "failed":
            task.pop("statusMessage", None)


class _Without(Bug):
    """A server without an optional method, which it does not declare either."""

    capability: str

    def client_message(self, message: Message, head: Head) -> Message:
        if method_of(message) == f"tasks/{self.capability}":
            message["method"] = "tasks/nothing"
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(request) == "initialize" and "result" in message:
            message["result"]["capabilities"]["tasks"].pop(self.capability)
        return [message]


@vary(OLD)
class HasNoTasksList(_Without):
    capability = "list"


@vary(OLD)
class HasNoTasksCancel(_Without):
    capability = "cancel"


@vary(OLD, transports=HTTP)
class HasNeitherGetNorDelete(Bug):
    def client_bytes(self, body: bytes, head: Head) -> bytes | Instead:
        if head.method in ("GET", "DELETE"):
            return Instead(status=405, headers={"allow": "POST"})
        return body


# --- different -------------------------------------------------------------------------------


@vary(base=ServerChange)
def keeps_tasks_without_limit(message: Message, request: Message | None) -> None:
    for task in tasks_in(message):
        for name in ("ttl", "ttlMs"):
            if task.get(name, Times().max_ttl_ms) < Times().max_ttl_ms:
                task[name] = None


@vary(base=ServerChange)
def suggests_hourly_polls(message: Message, request: Message | None) -> None:
    for task in tasks_in(message):
        for name in ("pollInterval", "pollIntervalMs"):
            if name in task:
                task[name] = 3_600_000


@vary()
class UsesUuid4AsTaskId(Bug):
    def surroundings(self) -> Surroundings:
        return Surroundings(new_id=lambda: str(uuid.uuid4()))


@vary(base=ServerChange)
def sends_timestamps_in_seconds_with_offset(message: Message, request: Message | None) -> None:
    for task in tasks_in(message):
        for name in ("createdAt", "lastUpdatedAt"):
            task[name] = task[name][:19] + "+00:00"


@vary()
class ListsOneTaskPerPage(Bug):
    def limits(self) -> Limits:
        return attrs.evolve(Limits(), page=1)


@vary(base=ServerMessage)
def answers_200_ms_later(message: Message, request: Message | None) -> list[Any]:
    return [message if "method" in message else Later(0.2, message)]


@vary(base=ServerChange)
def adds_unknown_fields(message: Message, request: Message | None) -> None:
    more = {"anything": [1, None]}
    for task in list(tasks_in(message)):
        task["xMore"] = more
    for holder in (message.get("result"), message.get("params")):
        if isinstance(holder, dict):
            holder["xMore"] = more
            holder["_meta"] = {**holder.get("_meta", {}), "org.example/more": more}
            holder.get("capabilities", {})["xMore"] = more
            for tool in holder.get("tools", ()):
                tool["xMore"] = more


@vary(base=ServerChange)
def changes_error_messages(message: Message, request: Message | None) -> None:
    if "error" in message:
        error = message["error"]
        error["message"] = f"Sorry! {error['message'].upper()}"
        if error["code"] not in (-32_021, -32_022, -32_042):
            error.pop("data", None)


@vary(transports=HTTP)
class StreamsOnlyForRequestsAndSubscriptions(Bug):
    waits_for_json = True


@vary(transports=HTTP)
class StreamsEveryResponseButThatOfGet(Bug):
    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        is_json = head.headers.get("content-type") == "application/json" and head.status == 200
        if request is None or not is_json or request["method"] == "tasks/get":
            return [message]
        return [message, b": end\n\n"]


@vary(transports=HTTP, base=ResponseHead)
def closes_each_connection(request: Message | None, head: Head) -> None:
    head.headers["connection"] = "close"


# --- lifecycle of tasks ----------------------------------------------------------------------


@vary(OLD)
class DeletesCancelledTasks(Bug):
    def __init__(self) -> None:
        self._deleted: list[str] = []

    def client_message(self, message: Message, head: Head) -> Message:
        if task_id_of(message) in self._deleted:
            message["params"]["taskId"] = "nothing"
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(request) == "tasks/cancel" and "result" in message:
            self._deleted.append(message["result"]["taskId"])
        elif method_of(request) == "tasks/list" and "result" in message:
            tasks = message["result"]["tasks"]
            message["result"]["tasks"] = [t for t in tasks if t["taskId"] not in self._deleted]
        return [message]


@vary(NEW, base=ClientChange)
def runs_some_tools_without_tasks(message: Message, head: Head) -> None:
    capabilities = meta_of(message).get(CAPABILITIES)
    is_meant = params_of(message).get("name") in ("heap", "topple")
    if method_of(message) == "tools/call" and is_meant and isinstance(capabilities, dict):
        capabilities.pop("extensions", None)


@vary(NEW)
class CreatesCompletedTasks(Bug):
    def __init__(self) -> None:
        self._completed: dict[str, str] = {}

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        result = message.get("result")
        is_new = isinstance(result, dict) and result.get("resultType") == "task"
        if is_new and request is not None and request["params"]["name"] == "heap":
            self._completed[message["result"]["taskId"]] = message["result"]["lastUpdatedAt"]
            message["result"]["status"] = "completed"
            return [Later(0.3, message)]  # the task is completed by then
        for task in tasks_in(message):
            task["lastUpdatedAt"] = self._completed.get(task["taskId"], task["lastUpdatedAt"])
        return [message]


@vary(NEW)
class AcknowledgesCancelWithoutEffect(Bug):
    def client_message(self, message: Message, head: Head) -> Message:
        is_cancel = method_of(message) == "tasks/cancel"
        if is_cancel and head.headers.get("mcp-method", "tasks/cancel") == "tasks/cancel":
            message["method"] = "tasks/get"
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(request) == "tasks/cancel" and "result" in message:
            kept = ("resultType", "_meta")
            message["result"] = {k: v for k, v in message["result"].items() if k in kept}
        return [message]
