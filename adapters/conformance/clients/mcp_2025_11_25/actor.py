"""The scripted server of 2025-11-25: raw JSON, sessions, tasks, requests on streams."""

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
from taskmachine.adapters.conformance.history import RELATED, TERMINAL
from taskmachine.adapters.conformance.recorder import Recorder

__all__ = ["CAPABILITIES", "LegacyActor", "Session"]

REVISION: Final = "2025-11-25"
SESSION: Final = "mcp-session-id"
CAPABILITIES: Final[Mapping[str, Any]] = {
    "tools": {},
    "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
}
_STREAM_S: Final = 6.0  # for a stream to send a request on
_ANSWER_S: Final = 8.0  # for a response


@attrs.define(eq=False)
class Session:
    """A session, or a stdio connection."""

    line: int
    id: str | None
    capabilities: Mapping[str, Any] = attrs.field(factory=dict)
    """The client's capabilities."""
    listening: Stream | None = None
    tasks: "dict[str, LegacyTask]" = attrs.field(factory=dict)
    calls: int = 0
    is_forgotten: bool = False
    running: dict[str, Stream] = attrs.field(factory=dict)
    """Open responses by `repr` of the request id, which may be of any JSON type."""
    _asked: dict[str, "asyncio.Future[Mapping[str, Any]]"] = attrs.field(factory=dict)

    def has(self, *path: str) -> bool:
        """Return whether the client declared this capability."""
        found: Any = self.capabilities
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return isinstance(found, dict)

    def expect(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Build a request for the client; `answer_to` waits for its response."""
        id = f"server-{self.line}-{len(self._asked) + 1}"
        self._asked[id] = asyncio.get_running_loop().create_future()
        return {"jsonrpc": "2.0", "id": id, "method": method, "params": dict(params)}

    async def answer_to(
        self, request: Mapping[str, Any], within_s: float = _ANSWER_S
    ) -> Mapping[str, Any] | None:
        """Wait for the response; None if it does not arrive in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                return await asyncio.shield(self._asked[request["id"]])
        return None

    def answered(self, response: Mapping[str, Any]) -> None:
        """Record a response of the client; the first one counts."""
        id = response.get("id")
        waiting = self._asked.get(id) if isinstance(id, str) else None
        if waiting is not None and not waiting.done():
            waiting.set_result(response)


@attrs.define(eq=False, kw_only=True)
class LegacyTask(ScriptedTask):
    """A task that sends its requests on streams."""

    session: Session
    ttl: Any = 60_000
    waiting: list[Stream] = attrs.field(factory=list)
    """Streams of blocked `tasks/result` requests."""
    has_waiter: asyncio.Event = attrs.field(factory=asyncio.Event)
    before_poll: list[dict[str, Any]] = attrs.field(factory=list)
    """Messages to send on the stream of the next `tasks/get`."""

    @property
    def related(self) -> dict[str, Any]:
        """The related-task metadata."""
        return {RELATED: {"taskId": self.id}}

    def document(self) -> dict[str, Any]:
        """Return the task as in `tasks/get`."""
        return {
            "taskId": self.id,
            "status": self.status,
            "createdAt": self.created_at,
            "lastUpdatedAt": self.updated_at,
            "ttl": self.ttl,
            "pollInterval": self.interval_ms,
        }

    def end_of(self, outcome: Mapping[str, Any]) -> str:
        return "failed" if outcome.get("isError") else "completed"

    async def work(self, ms: float) -> None:
        await asyncio.sleep(ms / 1_000)

    async def notify(self) -> None:
        stream = self.session.listening
        if stream is not None and stream.is_open:
            method = "notifications/tasks/status"
            await stream.send({"jsonrpc": "2.0", "method": method, "params": self.document()})

    async def ask(
        self, *questions: Question, where: Where = "result", lingers_ms: float = 0
    ) -> Sequence[Any] | None:
        answers: list[Any] = []
        self.move("input_required")
        for question in questions:
            if not question.fits(self.session.capabilities):
                continue
            params = {**question.params, "_meta": self.related}
            request = self.session.expect(question.method, params)
            if where == "poll" and not self.waiting:
                self.before_poll.append(request)
            elif (stream := await self._stream(where)) is not None:
                await stream.send(request)
            else:
                break
            answers.append(await self.session.answer_to(request))
        self.move("working")
        return answers or None

    async def _stream(self, where: Where) -> Stream | None:
        listening = self.session.listening
        if where == "listening" and listening is not None and listening.is_open:
            return listening
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STREAM_S):
                while not self.waiting:
                    self.has_waiter.clear()
                    await self.has_waiter.wait()
                return self.waiting[-1]
        return None


class LegacyActor:
    """Follows a scenario; serves clients that violate a rule, to record more."""

    def __init__(self, scenario: Scenario, recorder: Recorder, ids: Ids) -> None:
        self.scenario = scenario
        self.ids = ids
        self._recorder = recorder
        self._sessions: list[Session] = []
        self._background = Background()
        self._answers = 0
        self._resumable: dict[str, dict[str, Any]] = {}

    # --- called by the transport -----------------------------------------------------------------

    def connection_of(self, method: str, headers: Mapping[str, str], message: Any) -> int:
        """Return a new number for each `initialize`; requests without a session get the latest."""
        if isinstance(message, dict) and message.get("method") == "initialize":
            self._sessions.append(Session(self._recorder.new_line(), self.ids.new()))
        named = [s for s in self._sessions if s.id == headers.get(SESSION)]
        found = named or self._sessions
        return found[-1].line if found else 0

    def opened(self, line: int) -> None:
        """Treat a stdio connection as a session."""
        self._sessions.append(Session(line, None))

    async def close(self) -> None:
        """Stop all tasks."""
        await self._background.close()

    async def handle(self, incoming: ClientMessage) -> None:
        """Answer a message."""
        session = next((s for s in self._sessions if s.line == incoming.line), None)
        if session is not None and session.is_forgotten and SESSION in incoming.headers:
            await incoming.answer(error(None, -32001, "Session not found"), status=404)
        elif incoming.http_method in ("", "POST"):
            await self._message(incoming, session)
        elif incoming.http_method == "GET" and session is not None:
            await self._listen(incoming, session)
        elif incoming.http_method == "DELETE" and session is not None:
            await incoming.accept(200)
        else:
            await incoming.accept(405)

    # --- messages --------------------------------------------------------------------------------

    async def _message(self, incoming: ClientMessage, session: Session | None) -> None:
        entry = incoming.entry
        id = entry.body.get("id")
        if session is None:
            old = error(id, self.scenario.old_error or -32000, "Bad Request: no session")
            await incoming.answer(old, status=400)
        elif entry.is_response:
            session.answered(entry.body)
            await incoming.accept()
        elif entry.is_notification:
            await self._notified(incoming, session)
        elif entry.is_request and entry.method is not None:
            handler = getattr(self, "_" + entry.method.replace("/", "_"), None)
            if handler is not None and entry.method in _METHODS:
                await handler(incoming, session)
            else:
                code = self.scenario.old_error or -32601
                await incoming.answer(error(id, code, f"Method not found: {entry.method}"))
        else:
            await incoming.answer(error(None, -32600, "Invalid Request"), status=400)

    async def _notified(self, incoming: ClientMessage, session: Session) -> None:
        if incoming.http_method == "" and incoming.entry.method == "notifications/initialized":
            session.listening = await incoming.stream()
        if incoming.entry.method == "notifications/cancelled":
            stream = session.running.pop(repr(incoming.entry.params.get("requestId")), None)
            if stream is not None:
                await stream.close()
        await incoming.accept()

    async def reply(self, incoming: ClientMessage, message: Mapping[str, Any]) -> None:
        """Send a response: in turn as JSON, as events, and as events with comments."""
        self._answers += 1
        if self._answers % 3 == 1:
            await incoming.answer(message)
        else:
            stream = await incoming.stream()
            if self._answers % 3 == 0:
                await stream.comment()
            await stream.send(message)
            await stream.close()

    async def _initialize(self, incoming: ClientMessage, session: Session) -> None:
        entry = incoming.entry
        capabilities = entry.params.get("capabilities")
        session.capabilities = capabilities if isinstance(capabilities, dict) else {}
        await asyncio.sleep(self.scenario.hello_ms / 1_000)
        declared = self.scenario.capabilities
        hello = {
            "protocolVersion": self.scenario.version or REVISION,
            "capabilities": dict(CAPABILITIES if declared is None else declared),
            "serverInfo": {"name": "taskmachine-check", "version": "1"},
            "instructions": "Call each tool once, if possible as a task, and answer its requests.",
        }
        headers = {} if session.id is None else {SESSION: session.id}
        await incoming.answer(result(entry.body["id"], hello), headers=headers)

    async def _ping(self, incoming: ClientMessage, session: Session) -> None:
        await incoming.answer(result(incoming.entry.body["id"], {}))

    async def _tools_list(self, incoming: ClientMessage, session: Session) -> None:
        id = incoming.entry.body["id"]
        place = page_of(len(self.scenario.pages), incoming.entry.params.get("cursor"))
        if place is None:
            await incoming.answer(error(id, -32602, "Invalid cursor"))
            return
        number, following = place
        body: dict[str, Any] = {
            "tools": [tool.document(REVISION) for tool in self.scenario.pages[number]]
        }
        if following is not None:
            body["nextCursor"] = following
        await self.reply(incoming, result(id, body))

    async def _tools_call(self, incoming: ClientMessage, session: Session) -> None:
        entry = incoming.entry
        tool = self.scenario.tools.get(str(entry.params.get("name")))
        if tool is None:
            await incoming.answer(error(entry.body["id"], -32602, "Unknown tool"))
        elif tool.respond is not None:
            await tool.respond(self, incoming)
        elif "task" in entry.params and tool.support in ("optional", "required"):
            await self.create(incoming, session, tool)
        else:
            await self.reply(incoming, result(entry.body["id"], text_result("done")))
        session.calls += 1
        if self.scenario.forgets_sessions and session is self._sessions[0]:
            session.is_forgotten = True

    async def create(self, incoming: ClientMessage, session: Session, tool: Tool) -> None:
        """Create a task for a call."""
        task = LegacyTask(id=tool.task_id or self.ids.new(), tool=tool, session=session)
        session.tasks[task.id] = task
        self._background.start(task.run(task))
        await self.reply(incoming, result(incoming.entry.body["id"], {"task": task.document()}))

    # --- tasks -----------------------------------------------------------------------------------

    async def _task(self, incoming: ClientMessage, session: Session) -> LegacyTask | None:
        task = session.tasks.get(str(incoming.entry.params.get("taskId")))
        if task is None:
            await incoming.answer(error(incoming.entry.body["id"], -32602, "Task not found"))
        return task

    async def _tasks_get(self, incoming: ClientMessage, session: Session) -> None:
        task = await self._task(incoming, session)
        if task is None:
            return
        id, requests = incoming.entry.body["id"], task.before_poll
        if not requests:
            await self.reply(incoming, result(id, task.document()))
            return
        task.before_poll = []
        stream = await incoming.stream()
        for request in requests:
            await stream.send(request)
        await stream.send(result(id, task.document()))
        await stream.close()

    async def _tasks_result(self, incoming: ClientMessage, session: Session) -> None:
        task = await self._task(incoming, session)
        if task is None:
            return
        id = incoming.entry.body["id"]
        stream = await incoming.stream()
        session.running[repr(id)] = stream
        await stream.comment()
        task.waiting.append(stream)
        task.has_waiter.set()
        over = [asyncio.ensure_future(e) for e in (task.ended.wait(), stream.wait_closed())]
        try:
            await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in over:
                one.cancel()
            task.waiting.remove(stream)
        if session.running.pop(repr(id), None) is not None:
            await stream.send(_outcome(id, task))
        await stream.close()

    async def _tasks_list(self, incoming: ClientMessage, session: Session) -> None:
        id, tasks = incoming.entry.body["id"], list(session.tasks.values())
        pages = [tasks[:1], tasks[1:]] if len(tasks) > 1 else [tasks]
        place = page_of(len(pages), incoming.entry.params.get("cursor"))
        if place is None:
            await incoming.answer(error(id, -32602, "Invalid cursor"))
            return
        number, following = place
        body: dict[str, Any] = {"tasks": [task.document() for task in pages[number]]}
        if following is not None:
            body["nextCursor"] = following
        await self.reply(incoming, result(id, body))

    async def _tasks_cancel(self, incoming: ClientMessage, session: Session) -> None:
        task = await self._task(incoming, session)
        if task is None:
            return
        id = incoming.entry.body["id"]
        if task.status in TERMINAL:
            await incoming.answer(error(id, -32602, f"Cannot cancel: already {task.status}"))
            return
        task.move("cancelled")
        await self.reply(incoming, result(id, task.document()))

    # --- streams ---------------------------------------------------------------------------------

    async def _listen(self, incoming: ClientMessage, session: Session) -> None:
        stream = await incoming.stream()
        late = self._resumable.pop(incoming.headers.get("last-event-id", ""), None)
        if late is not None:
            await stream.send(late, event_id="after")
            await stream.close()
            return
        session.listening = stream
        await stream.comment()
        await stream.wait_closed()

    async def cut(self, incoming: ClientMessage, retry_ms: int) -> None:
        """Close the stream of a call before its response, for the client to reconnect."""
        event_id = self.ids.new()
        self._resumable[event_id] = result(incoming.entry.body["id"], text_result("resumed"))
        stream = await incoming.stream()
        await stream.prime(event_id, retry_ms)
        await stream.close()

    def session_of(self, incoming: ClientMessage) -> Session:
        """Return the session of a call."""
        return next(s for s in self._sessions if s.line == incoming.line)


_METHODS: Final = {
    "initialize",
    "ping",
    "tools/list",
    "tools/call",
    "tasks/get",
    "tasks/result",
    "tasks/list",
    "tasks/cancel",
}


def _outcome(id: Any, task: LegacyTask) -> dict[str, Any]:
    if "error" in task.outcome:
        return {"jsonrpc": "2.0", "id": id, "error": task.outcome["error"]}
    if "result" in task.outcome and task.status != "cancelled":
        return result(id, {**task.outcome["result"], "_meta": task.related})
    return error(id, -32000, "Task cancelled")
