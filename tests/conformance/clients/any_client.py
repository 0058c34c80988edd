"""The parts of the test client that both revisions share."""

import asyncio
import contextlib
import itertools
from collections.abc import Mapping
from typing import Any

from tests.conformance.clients.wires import Left, Message

RELATED = "io.modelcontextprotocol/related-task"
META = "io.modelcontextprotocol/"
TASKS = "io.modelcontextprotocol/tasks"
TERMINAL = ("completed", "failed", "cancelled")
CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}}, "sampling": {"tools": {}}}


class Refused(Left):
    """A JSON-RPC error."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(str(error.get("message")))
        self.code = error.get("code")


def answer_to(method: str, params: Mapping[str, Any], bugs: frozenset[str]) -> Message:
    """Anything will do."""
    if method == "sampling/createMessage":
        text = {"type": "text", "text": "Anything."}
        return {"role": "assistant", "content": text, "model": "none"}
    if "accepts nothing in particular" in bugs:
        return {"action": "accept"}
    return {"action": "accept", "content": {"stage": "live"}}


def arguments_for(schema: Mapping[str, Any]) -> Message:
    """Return the default values of a schema."""
    properties = schema.get("properties", {})
    return {name: one["default"] for name, one in properties.items() if "default" in one}


class AnyClient:
    """What both revisions have in common."""

    revision = ""

    def __init__(self, wire: Any, bugs: frozenset[str]) -> None:
        self.wire = wire
        self.bugs = bugs
        self.ids = itertools.count(1)
        self.background: set[asyncio.Task[Any]] = set()
        self.tools: dict[str, Message] = {}

    def has(self, *bugs: str) -> bool:
        """Whether one of these bugs is switched on."""
        return bool(self.bugs & set(bugs))

    def start(self, work: Any) -> asyncio.Task[Any]:
        """Let it go on beside."""
        task = asyncio.create_task(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)
        return task

    def new_id(self) -> Any:
        """For a request."""
        if self.has("reuses ids"):
            return 7
        if self.has("has ids that are null"):
            return None
        return next(self.ids)

    async def list_tools(self) -> None:
        """All pages."""
        cursor: Any = None
        while True:
            params = {} if cursor is None else {"cursor": cursor}
            page = await self.request("tools/list", params)
            self.tools |= {tool["name"]: tool for tool in page["tools"]}
            cursor = page.get("nextCursor")
            if self.has("parses cursors") and cursor is not None:
                cursor = cursor.strip()
            if cursor is None or (self.has("stops at an empty page") and not page["tools"]):
                break
        if self.has("goes beyond the last page"):
            with contextlib.suppress(Refused):
                await self.request("tools/list", {"cursor": "2"})

    async def request(self, method: str, params: Message) -> Message:
        """The result; Refused if there is an error."""
        raise NotImplementedError

    async def call(self, tool: Message) -> None:
        """Call a tool, and follow it to its end."""
        raise NotImplementedError

    async def pause(self, task: Mapping[str, Any]) -> None:
        """As long as the server wants."""
        interval = task.get("pollInterval", task.get("pollIntervalMs", 1_000))
        await asyncio.sleep(0.02 if self.has("polls too fast") else interval / 1_000)

    async def call_all(self, only: frozenset[str], *, in_turn: bool) -> None:
        """Each tool once, all at the same time or in turn."""
        wanted = [tool for name, tool in self.tools.items() if not only or name in only]
        if in_turn:
            for tool in wanted:
                await self.call(tool)
        else:
            await asyncio.gather(*map(self.call, wanted))

    def stop(self) -> None:
        """Let nothing go on."""
        for task in list(self.background):
            task.cancel()
