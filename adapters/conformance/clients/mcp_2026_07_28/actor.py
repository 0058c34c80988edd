"""The scripted server of 2026-07-28: raw JSON, no sessions, tasks with input requests."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from taskmachine.adapters.conformance.clients.actor import (
    Background,
    Ids,
    ScriptedTask,
    error,
    page_of,
    result,
)
from taskmachine.adapters.conformance.clients.incoming import ClientMessage, Stream
from taskmachine.adapters.conformance.clients.script import (
    Question,
    Scenario,
    Tool,
    Where,
    text_result,
)
from taskmachine.adapters.conformance.history import TERMINAL
from taskmachine.adapters.conformance.recorder import Recorder

__all__ = ["CAPABILITIES", "EXTENSION", "META", "ModernActor", "declared"]

REVISION: Final = "2026-07-28"
META: Final = "io.modelcontextprotocol/"
EXTENSION: Final = "io.modelcontextprotocol/tasks"
CAPABILITIES: Final[Mapping[str, Any]] = {"tools": {}, "extensions": {EXTENSION: {}}}
_ANSWER_S: Final = 8.0


def declared(incoming: ClientMessage) -> Mapping[str, Any]:
    """Return the capabilities in a request."""
    found = incoming.entry.meta.get(META + "clientCapabilities")
    return found if isinstance(found, dict) else {}


@attrs.define(eq=False, kw_only=True)
class ModernTask(ScriptedTask):
    """A task that shows its input requests."""

    capabilities: Mapping[str, Any]
    """The capabilities of the creating request."""
    subscribers: dict[str, tuple[Any, Stream]] = attrs.field(factory=dict)
    """Request id and stream of each subscriber, by `repr` of the id."""
    open: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    answers: dict[str, Any] = attrs.field(factory=dict)
    _asked: int = 0
    _news: asyncio.Event = attrs.field(factory=asyncio.Event)

    def document(self) -> dict[str, Any]:
        """Return the task as in `tasks/get`, without `resultType`."""
        task: dict[str, Any] = {
            "taskId": self.id,
            "status": self.status,
            "createdAt": self.created_at,
            "lastUpdatedAt": self.updated_at,
            "ttlMs": 60_000,
            "pollIntervalMs": self.interval_ms,
        }
        if self.status == "input_required":
            task["inputRequests"] = dict(self.open)
        return {**task, **self.outcome} if self.status in ("completed", "failed") else task

    def seed(self) -> dict[str, Any]:
        """Return the task as in the create result."""
        task = self.document()
        for name in ("inputRequests", "result", "error"):
            task.pop(name, None)
        return task

    async def run(self, task: Any) -> None:
        await super().run(task)
        await self.notify()  # for subscribers that do not poll

    async def work(self, ms: float) -> None:
        await asyncio.sleep(ms / 1_000)

    async def notify(self) -> None:
        for id, stream in list(self.subscribers.values()):
            params = {**self.document(), "_meta": {META + "subscriptionId": id}}
            await stream.send({"jsonrpc": "2.0", "method": "notifications/tasks", "params": params})

    async def ask(
        self, *questions: Question, where: Where = "result", lingers_ms: float = 0
    ) -> Sequence[Any] | None:
        fitting = [question for question in questions if question.fits(self.capabilities)]
        if not fitting:
            return None
        for question in fitting:
            self._asked += 1
            key = f"question {self._asked}/ä"
            self.open[key] = {"method": question.method, "params": dict(question.params)}
        keys = list(self.open)
        self.move("input_required")
        await self.notify()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ANSWER_S):
                while not self.answers.keys() >= set(keys):
                    self._news.clear()
                    await self._news.wait()
        await asyncio.sleep(lingers_ms / 1_000)
        self.open.clear()
        self.move("working")
        return [self.answers.get(key) for key in keys]

    def update(self, responses: Mapping[str, Any]) -> None:
        """Record responses of the client; the first one to each request counts."""
        for key, answer in responses.items():
            if key in self.open:
                self.answers.setdefault(key, answer)
        self._news.set()


class ModernActor:
    """Follows a scenario; serves clients that violate a rule, to record more."""

    def __init__(
        self, scenario: Scenario, recorder: Recorder, ids: Ids, *, has_lines: bool
    ) -> None:
        """Initialize; `has_lines` is true on stdio, as HTTP does not distinguish connections."""
        self.scenario = scenario
        self.ids = ids
        self._line = 0 if has_lines else recorder.new_line()
        self.tasks: dict[str, ModernTask] = {}
        self._background = Background()
        self._answers = 0
        self.calls: dict[str, int] = {}
        """Number of calls of each tool."""
        self._running: dict[str, Stream] = {}

    # --- called by the transport -----------------------------------------------------------------

    def connection_of(self, method: str, headers: Mapping[str, str], message: Any) -> int:
        """Return the only connection number."""
        return self._line

    def opened(self, line: int) -> None:
        """A stdio connection has no state."""

    async def close(self) -> None:
        """Stop all tasks."""
        await self._background.close()

    async def handle(self, incoming: ClientMessage) -> None:
        """Answer a message."""
        entry = incoming.entry
        id = entry.body.get("id")
        if incoming.http_method not in ("", "POST"):
            await incoming.accept(405)
        elif entry.is_notification:
            await self._notified(incoming)
        elif entry.is_response:
            await incoming.accept(400)
        elif not entry.is_request or entry.method is None:
            await incoming.answer(error(None, -32600, "Invalid Request"), status=400)
        elif entry.method == "initialize" or self.scenario.refuses_version:
            versions = ["2025-11-25"] if self.scenario.refuses_version else [REVISION]
            asked = entry.meta.get(META + "protocolVersion") or entry.params.get("protocolVersion")
            data = {"supported": versions, "requested": asked}
            await incoming.answer(
                error(id, -32022, "Unsupported protocol version", data), status=400
            )
        elif entry.method not in _METHODS:
            await incoming.answer(error(id, -32601, "Method not found"), status=404)
        else:
            await getattr(self, "_" + entry.method.replace("/", "_"))(incoming)

    async def _notified(self, incoming: ClientMessage) -> None:
        if incoming.entry.method == "notifications/cancelled":
            named = repr(incoming.entry.params.get("requestId"))
            stream = self._running.pop(named, None)
            for task in self.tasks.values():
                task.subscribers.pop(named, None)
            if stream is not None:
                await stream.close()
        await incoming.accept()

    async def reply(
        self, incoming: ClientMessage, message: Mapping[str, Any], *, status: int = 200
    ) -> None:
        """Send a response: in turn as JSON, as events, and as events with comments."""
        self._answers += 1
        if self._answers % 3 == 1 or status != 200:
            await incoming.answer(message, status=status)
            return
        stream = await incoming.stream()
        if self._answers % 3 == 0:
            await stream.comment()
        await stream.send(message)
        await stream.close()

    # --- requests --------------------------------------------------------------------------------

    async def _server_discover(self, incoming: ClientMessage) -> None:
        await asyncio.sleep(self.scenario.hello_ms / 1_000)
        shown = self.scenario.capabilities
        body = {
            "resultType": "complete",
            "supportedVersions": [REVISION],
            "capabilities": dict(CAPABILITIES if shown is None else shown),
            "_meta": {META + "serverInfo": {"name": "taskmachine-check", "version": "1"}},
            "instructions": "Call each tool once and answer its input requests.",
            "ttlMs": 60_000,
            "cacheScope": "private",
        }
        await incoming.answer(result(incoming.entry.body["id"], body))

    async def _ping(self, incoming: ClientMessage) -> None:
        await incoming.answer(result(incoming.entry.body["id"], {"resultType": "complete"}))

    async def _tools_list(self, incoming: ClientMessage) -> None:
        id = incoming.entry.body["id"]
        place = page_of(len(self.scenario.pages), incoming.entry.params.get("cursor"))
        if self.scenario.lists_as_task:
            task = self._task_for(Tool("list", ""), incoming)
            await incoming.answer(result(id, {"resultType": "task", **task.seed()}))
            return
        if place is None:
            await incoming.answer(error(id, -32602, "Invalid cursor"))
            return
        number, following = place
        body: dict[str, Any] = {
            "resultType": "complete",
            "tools": [tool.document(REVISION) for tool in self.scenario.pages[number]],
            "ttlMs": 0,
            "cacheScope": "private",
        }
        if following is not None:
            body["nextCursor"] = following
        await self.reply(incoming, result(id, body))

    async def _tools_call(self, incoming: ClientMessage) -> None:
        entry = incoming.entry
        tool = self.scenario.tools.get(str(entry.params.get("name")))
        if tool is None:
            await incoming.answer(error(entry.body["id"], -32602, "Unknown tool"))
            return
        self.calls[tool.name] = self.calls.get(tool.name, 0) + 1
        extensions = declared(incoming).get("extensions")
        is_able = isinstance(extensions, dict) and isinstance(extensions.get(EXTENSION), dict)
        if tool.respond is not None:
            await tool.respond(self, incoming)
        elif is_able and tool.support != "forbidden":
            await self.create(incoming, tool)
        elif tool.support == "required":
            needed: Any = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
            message = error(entry.body["id"], -32021, "Missing required capability", needed)
            await incoming.answer(message, status=400)
        else:
            await self.complete(incoming)

    async def complete(self, incoming: ClientMessage, text: str = "done") -> None:
        """Build an ordinary result."""
        body = {"resultType": "complete", **text_result(text)}
        await self.reply(incoming, result(incoming.entry.body["id"], body))

    async def create(self, incoming: ClientMessage, tool: Tool) -> None:
        """Create a task for a call."""
        task = self._task_for(tool, incoming)
        self._background.start(task.run(task))
        await self.reply(
            incoming, result(incoming.entry.body["id"], {"resultType": "task", **task.seed()})
        )

    def _task_for(self, tool: Tool, incoming: ClientMessage) -> ModernTask:
        id = tool.task_id or self.ids.new()
        task = ModernTask(id=id, tool=tool, capabilities=declared(incoming))
        self.tasks[id] = task
        return task

    async def _task(self, incoming: ClientMessage) -> ModernTask | None:
        task = self.tasks.get(str(incoming.entry.params.get("taskId")))
        if task is None:
            await incoming.answer(error(incoming.entry.body["id"], -32602, "Task not found"))
        return task

    async def _tasks_get(self, incoming: ClientMessage) -> None:
        if (task := await self._task(incoming)) is not None:
            body = {"resultType": "complete", **task.document()}
            await self.reply(incoming, result(incoming.entry.body["id"], body))

    async def _tasks_update(self, incoming: ClientMessage) -> None:
        if (task := await self._task(incoming)) is not None:
            responses = incoming.entry.params.get("inputResponses")
            task.update(responses if isinstance(responses, dict) else {})
            await self.reply(
                incoming, result(incoming.entry.body["id"], {"resultType": "complete"})
            )

    async def _tasks_cancel(self, incoming: ClientMessage) -> None:
        if (task := await self._task(incoming)) is not None:
            if task.status not in TERMINAL:
                task.move("cancelled")
                await task.notify()
            await self.reply(
                incoming, result(incoming.entry.body["id"], {"resultType": "complete"})
            )

    async def _subscriptions_listen(self, incoming: ClientMessage) -> None:
        id, wanted = incoming.entry.body["id"], incoming.entry.params.get("notifications")
        task_ids = wanted.get("taskIds") if isinstance(wanted, dict) else None
        wished = task_ids if isinstance(task_ids, list) else []
        known = [t for t in wished if isinstance(t, str) and t in self.tasks]
        granted = [] if self.scenario.ignores_task_ids else known
        stream = await incoming.stream()
        self._running[repr(id)] = stream
        params = {
            "_meta": {META + "subscriptionId": id},
            "notifications": {"taskIds": granted} if granted else {},
        }
        method = "notifications/subscriptions/acknowledged"
        await stream.send({"jsonrpc": "2.0", "method": method, "params": params})
        await stream.comment()
        for task_id in granted:
            self.tasks[task_id].subscribers[repr(id)] = id, stream
        await stream.wait_closed()
        for task_id in granted:
            self.tasks[task_id].subscribers.pop(repr(id), None)


_METHODS: Final = {
    "server/discover",
    "ping",
    "tools/list",
    "tools/call",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
    "subscriptions/listen",
}
