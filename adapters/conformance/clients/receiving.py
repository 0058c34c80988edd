"""Exercise a client as the receiver of tasks (2025-11-25)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from taskmachine.adapters.conformance.clients.actor import result
from taskmachine.adapters.conformance.clients.incoming import ClientMessage, Stream
from taskmachine.adapters.conformance.clients.mcp_2025_11_25.actor import LegacyActor, Session
from taskmachine.adapters.conformance.clients.script import FORM, SAMPLING, Question, text_result
from taskmachine.adapters.conformance.history import TERMINAL

__all__ = ["drive"]

_WEATHER: Final = ({"name": "weather", "inputSchema": {"type": "object"}},)
_PAUSE_S: Final = 0.1
_LATE_S: Final = 0.5
_UNKNOWN: Final = "no-such-task"
_POLLS: Final = 20


async def drive(actor: LegacyActor, incoming: ClientMessage) -> None:
    """Send every kind of request to the client while an ordinary call is open."""
    session = actor.session_of(incoming)
    stream = await incoming.stream()
    requestor = _Requestor(session, stream)
    for question, path in ((FORM, ("elicitation", "create")), (SAMPLING, _SAMPLING)):
        if session.has("tasks", "requests", *path) and session.has(question.kind):
            await requestor.go_through(question)
        elif session.has(question.kind):  # 2025-11-25:undeclared-type-processed-normally
            await requestor.ask(question.method, {**question.params, "task": {"ttl": 60_000}})
    if session.has("tasks"):
        await requestor.ask_for_strangers()
    await requestor.send_notifications()
    if session.has("sampling"):
        await requestor.sample_nonsense()
    await stream.send(result(incoming.entry.body["id"], text_result("done")))
    await stream.close()


_SAMPLING: Final = ("sampling", "createMessage")


class _Requestor:
    """The requestor of the client's tasks."""

    def __init__(self, session: Session, stream: Stream) -> None:
        self._session = session
        self._stream = stream

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the result of a request, empty without one."""
        request = self._session.expect(method, params)
        await self._stream.send(request)
        answer = await self._session.answer_to(request)
        found = None if answer is None else answer.get("result")
        return found if isinstance(found, dict) else {}

    async def go_through(self, question: Question) -> None:
        """Let one task complete, cancel another, and send the same request without a task."""
        await self.ask(question.method, question.params)
        task_id = await self._create(question)
        if task_id is None:
            return
        await self.ask("tasks/get", {"taskId": task_id})
        await self.ask("tasks/result", {"taskId": task_id})
        for _ in range(_POLLS):
            task = await self.ask("tasks/get", {"taskId": task_id})
            if task.get("status") in TERMINAL or not task:
                break
        await self.ask("tasks/result", {"taskId": task_id})
        if self._session.has("tasks", "cancel"):
            await self.ask("tasks/cancel", {"taskId": task_id})
            if (second := await self._create(question)) is not None:
                await self.ask("tasks/cancel", {"taskId": second})
                await self.ask("tasks/get", {"taskId": second})
                await self.ask("tasks/result", {"taskId": second})
                await self.ask("tasks/get", {"taskId": second})
        if self._session.has("tasks", "list"):
            await self._list()

        if (third := await self._create(question)) is not None:
            await self._give_up_result(third)

    async def _give_up_result(self, task_id: str) -> None:
        """Cancel a blocked `tasks/result`, and let the task complete."""
        request = self._session.expect("tasks/result", {"taskId": task_id})
        await self._stream.send(request)
        await self._notify("notifications/cancelled", {"requestId": request["id"]})
        for _ in range(_POLLS):
            task = await self.ask("tasks/get", {"taskId": task_id})
            if task.get("status") in TERMINAL or not task:
                break
            await asyncio.sleep(_PAUSE_S)
        await self._session.answer_to(request, _LATE_S)

    async def _notify(self, method: str, params: Mapping[str, Any]) -> None:
        await self._stream.send({"jsonrpc": "2.0", "method": method, "params": dict(params)})

    async def send_notifications(self) -> None:
        """Send unknown notifications and pointless cancellations, then a request."""
        await self._notify("notifications/com.example/unknown", {"what": "nothing"})
        await self._notify("notifications/cancelled", {"requestId": "never-sent"})
        await self._notify("notifications/cancelled", {"reason": "unknown request"})
        await self.ask("ping", {})

    async def sample_nonsense(self) -> None:
        """Send invalid sampling content, and tool results that are missing or mixed with other
        content.
        """
        await self._sample([{"role": "user", "content": {"type": "no such type"}}])
        if self._session.has("sampling", "tools"):
            ask = {"role": "user", "content": {"type": "text", "text": "What is the weather?"}}
            text = {"type": "text", "text": "and?"}
            used = {"type": "tool_use", "id": "use-1", "name": "weather", "input": {}}
            outcome = {"type": "tool_result", "toolUseId": "use-1", "content": [text]}
            asked = [ask, {"role": "assistant", "content": [used]}]
            await self._sample([*asked, {"role": "user", "content": [text]}], *_WEATHER)
            await self._sample([*asked, {"role": "user", "content": [outcome, text]}], *_WEATHER)
            await self._sample([*asked, {"role": "user", "content": [outcome]}], *_WEATHER)

    async def _sample(self, messages: Sequence[Any], *tools: Any) -> None:
        more = {"tools": list(tools)} if tools else {}
        params = {"messages": list(messages), "maxTokens": 20, **more}
        await self.ask("sampling/createMessage", params)

    async def _create(self, question: Question) -> str | None:
        made = await self.ask(question.method, {**question.params, "task": {"ttl": 60_000}})
        task = made.get("task")
        id = task.get("taskId") if isinstance(task, dict) else None
        return id if isinstance(id, str) else None

    async def _list(self) -> None:
        cursor: Any = None
        for _ in range(_POLLS):
            page = await self.ask("tasks/list", {} if cursor is None else {"cursor": cursor})
            cursor = page.get("nextCursor")
            if cursor is None:
                break
        await self.ask("tasks/list", {"cursor": "not a cursor"})

    async def ask_for_strangers(self) -> None:
        """Use task ids that the client never issued."""
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            if method != "tasks/cancel" or self._session.has("tasks", "cancel"):
                await self.ask(method, {"taskId": _UNKNOWN})
