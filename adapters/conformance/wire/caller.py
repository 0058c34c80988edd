"""A caller of a target: the requests that most probes send."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from taskmachine.adapters.conformance.history import MISSING, Exchange
from taskmachine.adapters.conformance.profile import ToolCall
from taskmachine.adapters.conformance.wire.answering import answer
from taskmachine.adapters.conformance.wire.connection import PATIENCE_MS, Connection
from taskmachine.adapters.conformance.wire.metadata import CLIENT, EXTENSION, META
from taskmachine.adapters.conformance.wire.pending import Pending, TargetLost

__all__ = ["EXTENSION", "LONGEST_POLL_MS", "PATIENCE_MS", "Caller", "Pending", "TargetLost"]

LONGEST_POLL_MS: Final = 1_000.0
LISTENING_MS: Final = 500
STEP_MS: Final = 20
EVENTS: Final = "text/event-stream"


class Caller(Connection):
    """A client of the target on one connection."""

    server: Mapping[str, Any] = {}
    """The target's description of itself: the result of `initialize` or `server/discover`."""

    async def handshake(self, *, wait_ms: float | None = None) -> Exchange:
        """Perform the handshake of the revision."""
        if self._revision == "2026-07-28":
            hello = await self.request("server/discover", wait_ms=wait_ms)
        else:
            params = {
                "protocolVersion": self._revision,
                "capabilities": self.capabilities,
                "clientInfo": CLIENT,
            }
            hello = await self.request("initialize", params, wait_ms=wait_ms)
            session = hello.headers.get("mcp-session-id")
            agreed = hello.fields.get("protocolVersion")
            self.session = {"mcp-protocol-version": agreed} if isinstance(agreed, str) else {}
            if session is not None:
                self.session["mcp-session-id"] = session
            if "result" in (hello.response.body if hello.response else {}):
                await self.notify("notifications/initialized")
        self.server = hello.fields
        return hello

    async def call(
        self, call: ToolCall, *, as_task: bool = True, ttl: Any = MISSING, **options: Any
    ) -> Exchange:
        """Send `tools/call`; in 2025-11-25 with `params.task` if `as_task`.

        In 2026-07-28 `as_task` declares the extension, and the target decides.
        """
        return await self.start_call(call, as_task=as_task, ttl=ttl, **options).answer()

    def start_call(
        self, call: ToolCall, *, as_task: bool = True, ttl: Any = MISSING, **options: Any
    ) -> Pending:
        """Like `call`, without waiting."""
        params = call.params
        if self._revision == "2025-11-25":
            if as_task:
                params["task"] = {} if ttl is MISSING else {"ttl": ttl}
        elif not as_task:
            rest = {k: v for k, v in self.capabilities.items() if k != "extensions"}
            meta = {f"{META}clientCapabilities": rest, **(options.get("meta") or {})}
            options = {**options, "meta": meta}
        return self.start("tools/call", params, **options)

    async def create(self, call: ToolCall, **options: Any) -> str | None:
        """Call a tool, and return the id of the task, or None without one."""
        fields = (await self.call(call, **options)).fields
        task = fields.get("task") if self._revision == "2025-11-25" else fields
        id = task.get("taskId") if isinstance(task, dict) else None
        return id if isinstance(id, str) else None

    async def get(self, task_id: Any, **options: Any) -> Exchange:
        """Send `tasks/get`."""
        return await self.request("tasks/get", {"taskId": task_id}, **options)

    async def cancel(self, task_id: Any, **options: Any) -> Exchange:
        """Send `tasks/cancel`."""
        return await self.request("tasks/cancel", {"taskId": task_id}, **options)

    async def answer_inputs(self, task: Mapping[str, Any]) -> Exchange | None:
        """Answer all input requests of a 2026-07-28 task by `tasks/update`."""
        requests = task.get("inputRequests")
        if not isinstance(requests, dict) or not requests:
            return None
        replies = {}
        for key, asked in requests.items():
            asked = asked if isinstance(asked, dict) else {}
            params = asked.get("params")
            reply = answer(asked.get("method"), params if isinstance(params, dict) else {})
            replies[key] = reply.get("result", {})
        params = {"taskId": task.get("taskId"), "inputResponses": replies}
        return await self.request("tasks/update", params)

    async def until(
        self, task_id: str, *statuses: str, within_ms: float = PATIENCE_MS
    ) -> Mapping[str, Any] | None:
        """Poll until one of these statuses or a terminal one, and return the task.

        Requests of the task are answered meanwhile. Return None after `within_ms` or an error.
        Respects the target's poll interval up to a second.
        """
        wanted = {*statuses, "completed", "failed", "cancelled"}
        deadline = self._recorder.now() + within_ms
        waiting: list[Pending] = []
        answered: set[str] = set()
        try:
            while True:
                fields = (await self.get(task_id)).fields
                if not fields or fields.get("status") in wanted:
                    return fields or None
                if fields.get("status") == "input_required":
                    keys = set(fields.get("inputRequests") or ())
                    if self._revision == "2026-07-28" and keys - answered:
                        answered |= keys
                        await self.answer_inputs(fields)
                    elif self._revision == "2025-11-25" and not waiting:
                        waiting += await self._listen()
                        waiting.append(self.start("tasks/result", {"taskId": task_id}))
                if self._recorder.now() >= deadline:
                    return None
                await self.pause(_interval(fields))
        finally:
            for one in waiting:
                if not one.is_done:
                    await one.abandon()

    async def _listen(self) -> list[Pending]:
        """Open the GET stream, on which a target may send requests as well as on `tasks/result`."""
        if self.pipe is not None:
            return []
        stream = self.begin(b"", method="GET", headers={"accept": EVENTS, "content-type": None})
        for _ in range(LISTENING_MS // STEP_MS):
            if stream.head is not None or stream.is_done:
                break
            await self.pause(STEP_MS)
        return [stream]

    async def pause(self, ms: float) -> None:
        """Sleep."""
        await asyncio.sleep(ms / 1_000)


def _interval(task: Mapping[str, Any]) -> float:
    given = task.get("pollInterval", task.get("pollIntervalMs"))
    wanted = given if isinstance(given, int | float) and given > 0 else 50
    return min(wanted, LONGEST_POLL_MS)
