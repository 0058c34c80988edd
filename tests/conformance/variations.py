"""What a server may do as well, though ours does not: nothing of it is a finding."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final

import attrs

from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import Surroundings
from taskmachine.statemachine import Times
from tests.conformance.planting import REVISIONS, Bug, Head, Instead, Later, Message, Planted

__all__ = ["VARIATIONS"]

OLD: Final = "2025-11-25"
NEW: Final = "2026-07-28"
CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"

VARIATIONS: Final[dict[str, Planted]] = {}


def vary(
    *revisions: str, transports: tuple[str, ...] = ("stdio", "http")
) -> Callable[[type[Bug]], type[Bug]]:
    """Register a variation under the name of its class; without revisions it is of both."""

    def register(made: type[Bug]) -> type[Bug]:
        VARIATIONS[made.__name__] = Planted(
            made.__name__, made, frozenset(), frozenset(), revisions or REVISIONS, transports
        )
        return made

    return register


def tasks_in(message: Message) -> Iterator[Message]:
    """Every task that a message shows, to be changed in place."""
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
class TheServerItself(Bug):
    """As it is."""


@vary(transports=("http",))
class OpenToAll(Bug):
    """Nobody has to say who is calling."""

    is_open = True


# --- what may be left out --------------------------------------------------------------------


@vary()
class NoNotifications(Bug):
    """Whoever wants to know has to ask."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        match message.get("method"):
            case "notifications/subscriptions/acknowledged":
                message["params"]["notifications"].pop("taskIds", None)
            case "notifications/tasks" | "notifications/tasks/status" | "notifications/progress":
                return []
        return [message]


@vary()
class NoProgress(Bug):
    """Nobody knows how far it is."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        return [] if message.get("method") == "notifications/progress" else [message]


@vary()
class NoPollInterval(Bug):
    """Nobody says how often to ask."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        for task in tasks_in(message):
            task.pop("pollInterval", None)
            task.pop("pollIntervalMs", None)
        return [message]


@vary()
class NoStatusMessage(Bug):
    """A status says enough, unless it is `failed`."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        for task in tasks_in(message):
            if task.get("status") != "failed":
                task.pop("statusMessage", None)
        return [message]


class _Without(Bug):
    """A method that is neither declared nor there."""

    capability: str

    def asked(self, message: Message, head: Head) -> Message:
        if message.get("method") == f"tasks/{self.capability}":
            message["method"] = "tasks/nothing"
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None and request.get("method") == "initialize" and "result" in message:
            message["result"]["capabilities"]["tasks"].pop(self.capability)
        return [message]


@vary(OLD)
class NoList(_Without):
    """Tasks are not listed."""

    capability = "list"


@vary(OLD)
class NoCancel(_Without):
    """What was begun is finished."""

    capability = "cancel"


@vary(OLD, transports=("http",))
class NoGeneralStream(Bug):
    """Neither GET nor DELETE."""

    def came(self, body: bytes, head: Head) -> bytes | Instead:
        if head.method in ("GET", "DELETE"):
            return Instead(status=405, headers={"allow": "POST"})
        return body


# --- what may be otherwise -------------------------------------------------------------------


@vary()
class UnlimitedTtl(Bug):
    """Tasks are kept for ever, but not because somebody asks for too much."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        for task in tasks_in(message):
            for name in ("ttl", "ttlMs"):
                if task.get(name, Times().max_ttl_ms) < Times().max_ttl_ms:
                    task[name] = None
        return [message]


@vary()
class RarePolls(Bug):
    """Clients ought to ask once an hour."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        for task in tasks_in(message):
            for name in ("pollInterval", "pollIntervalMs"):
                if name in task:
                    task[name] = 3_600_000
        return [message]


@vary()
class OtherIds(Bug):
    """Version 4 UUIDs with dashes."""

    def world(self) -> Surroundings:
        return Surroundings(new_id=lambda: str(uuid.uuid4()))


@vary()
class OtherTimestamps(Bug):
    """Whole seconds, and an offset instead of a Z."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        for task in tasks_in(message):
            for name in ("createdAt", "lastUpdatedAt"):
                task[name] = task[name][:19] + "+00:00"
        return [message]


@vary()
class OnePerPage(Bug):
    """Lists have many pages."""

    def limits(self) -> Limits:
        return attrs.evolve(Limits(), page=1)


@vary()
class SlowAnswers(Bug):
    """Every answer takes a fifth of a second longer."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        return [message if "method" in message else Later(0.2, message)]


@vary()
class ExtraFields(Bug):
    """Members that no schema knows, where it allows them."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
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
        return [message]


@vary()
class OtherWords(Bug):
    """Errors have other words, and data only where that is demanded."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if "error" in message:
            error = message["error"]
            error["message"] = f"Sorry! {error['message'].upper()}"
            if error["code"] not in (-32_021, -32_022, -32_042):
                error.pop("data", None)
        return [message]


@vary(transports=("http",))
class JsonWherePossible(Bug):
    """Streams only for questions and subscriptions."""

    waits_for_json = True


@vary(transports=("http",))
class StreamsWherePossible(Bug):
    """Every answer to a request is a stream, but that of `tasks/get`."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        is_json = head.headers.get("content-type") == "application/json" and head.status == 200
        if request is None or not is_json or request["method"] == "tasks/get":
            return [message]
        return [message, b": that was it\n\n"]


@vary(transports=("http",))
class ClosesConnections(Bug):
    """Every connection is for one request."""

    def answered(self, request: Message | None, head: Head) -> None:
        head.headers["connection"] = "close"


# --- other lives of tasks --------------------------------------------------------------------


@vary(OLD)
class CancelledAreDeleted(Bug):
    """As soon as a task is cancelled it is gone."""

    def __init__(self) -> None:
        self._gone: list[str] = []

    def asked(self, message: Message, head: Head) -> Message:
        params = message.get("params")
        if isinstance(params, dict) and params.get("taskId") in self._gone:
            params["taskId"] = "nothing"
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        method = None if request is None else request.get("method")
        if method == "tasks/cancel" and "result" in message:
            self._gone.append(message["result"]["taskId"])
        elif method == "tasks/list" and "result" in message:
            tasks = message["result"]["tasks"]
            message["result"]["tasks"] = [t for t in tasks if t["taskId"] not in self._gone]
        return [message]


@vary(NEW)
class ImmediateResults(Bug):
    """Some tools never become tasks."""

    def asked(self, message: Message, head: Head) -> Message:
        params = message.get("params")
        if message.get("method") == "tools/call" and isinstance(params, dict):
            meta = params.get("_meta")
            capabilities = meta.get(CAPABILITIES) if isinstance(meta, dict) else None
            if params.get("name") in ("heap", "topple") and isinstance(capabilities, dict):
                capabilities.pop("extensions", None)
        return message


@vary(NEW)
class BornTerminal(Bug):
    """A task that is over when its creator hears of it."""

    def __init__(self) -> None:
        self._over: dict[str, str] = {}

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        result = message.get("result")
        is_new = isinstance(result, dict) and result.get("resultType") == "task"
        if is_new and request is not None and request["params"]["name"] == "heap":
            self._over[message["result"]["taskId"]] = message["result"]["lastUpdatedAt"]
            message["result"]["status"] = "completed"
            return [Later(0.3, message)]  # it is, then
        for task in tasks_in(message):
            task["lastUpdatedAt"] = self._over.get(task["taskId"], task["lastUpdatedAt"])
        return [message]


@vary(NEW)
class UnheededCancel(Bug):
    """A cancellation is acknowledged, and the work goes on."""

    def asked(self, message: Message, head: Head) -> Message:
        is_cancel = message.get("method") == "tasks/cancel"
        if is_cancel and head.headers.get("mcp-method", "tasks/cancel") == "tasks/cancel":
            message["method"] = "tasks/get"
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        is_cancel = request is not None and request.get("method") == "tasks/cancel"
        if is_cancel and "result" in message:
            kept = ("resultType", "_meta")
            message["result"] = {k: v for k, v in message["result"].items() if k in kept}
        return [message]
