"""Connections of callers to a real runtime in each dialect, in plain JSON."""

import asyncio
import json
from itertools import count
from typing import Any, Final

from taskmachine.adapters.runtime.runtime import Runtime
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.questions import form
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.transports.connection.conversation import Conversation
from taskmachine.protocol.dialects.erlmcp.receiver import RECEIVER as RECEIVER_ERLMCP
from taskmachine.protocol.dialects.mcp_2025_11_25.receiver import RECEIVER as RECEIVER_2025
from taskmachine.protocol.dialects.mcp_2026_07_28.receiver import RECEIVER as RECEIVER_2026
from taskmachine.protocol.dialects.receiver import ReceiverDialect
from taskmachine.protocol.jsonrpc import decode_message, encode_message
from taskmachine.protocol.offer import Offer
from taskmachine.protocol.outputs import Send

DIALECTS: Final[dict[str, ReceiverDialect]] = {
    "2025-11-25": RECEIVER_2025,
    "2026-07-28": RECEIVER_2026,
    "erlmcp": RECEIVER_ERLMCP,
}

CLIENT_CAPABILITIES: Final[dict[str, Any]] = {
    "elicitation": {"form": {}},
    "extensions": {"io.modelcontextprotocol/tasks": {}},
}


def meta_2026(capabilities: dict[str, Any]) -> dict[str, Any]:
    return {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }


NAME_FORM: Final = {"type": "object", "properties": {"name": {"type": "string"}}}


def greeting_tools() -> Tools:
    """`greet` asks for a name, `add` does not, `hang` never ends."""
    tools = Tools()

    @tools.task(immediate="Greeting you.")
    async def greet(ctx: Context, salute: str = "Hello") -> str:
        answer = await ctx.ask("name", form("Who are you?", NAME_FORM))
        return f"{salute}, {answer.content['name']}!"

    @tools.task()
    async def add(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    @tools.task(support="required")
    async def hang() -> None:
        await asyncio.Event().wait()

    return tools


def offer(tools: Tools) -> Offer:
    return Offer(
        {"name": "test", "version": "1"}, {name: tool.offered for name, tool in tools.items()}
    )


class Connection:
    """The connection of one caller."""

    def __init__(self, runtime: Runtime, dialect: str, owner: str) -> None:
        self.dialect = dialect
        self.owner = owner
        self.capabilities = CLIENT_CAPABILITIES
        self.sent: list[Send] = []
        self.received = asyncio.Event()
        """Set whenever something is sent."""
        numbers = count(1)
        self.conversation = Conversation(
            runtime,
            DIALECTS[dialect],
            offer(runtime.tools),
            owner=owner,
            new_id=lambda: f"q-{next(numbers)}",
            send=self._keep,
        )

    def _keep(self, send: Send) -> None:
        self.sent.append(send)
        self.received.set()

    async def introduce(self) -> None:
        if self.dialect == "2025-11-25":
            hello = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"elicitation": {}},
                "clientInfo": {"name": "test", "version": "1"},
            }
            await self.ask("initialize", hello)
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: dict[str, Any]) -> None:
        self.conversation.receive(decode_message(json.dumps(message).encode()))

    async def ask(self, method: str, params: dict[str, Any], id: int | str = 1) -> list[bytes]:
        """Send a request; return everything that is sent until nothing more happens."""
        before = len(self.sent)
        if self.dialect == "2026-07-28":
            params = {**params, "_meta": meta_2026(self.capabilities)}
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        await quiet()
        return [encode_message(send.message) for send in self.sent[before:]]

    async def call(self, method: str, params: dict[str, Any], id: int | str = 1) -> dict[str, Any]:
        """Send a request and return its response."""
        answers = [json.loads(message) for message in await self.ask(method, params, id)]
        [answer] = [message for message in answers if message.get("id") == id]
        assert isinstance(answer, dict)
        return answer

    async def create(self, tool: str, arguments: dict[str, Any]) -> str:
        """Create a task and return its id."""
        if self.dialect == "erlmcp":
            answer = await self.call(
                "tasks/create", {"action": {"name": tool, "arguments": arguments}}
            )
        else:
            answer = await self.call(
                "tools/call", {"name": tool, "arguments": arguments, "task": {}}
            )
        result = answer["result"]
        task_id = result.get("task", result)["taskId"]
        assert isinstance(task_id, str)
        return task_id


async def quiet() -> None:
    """Run everything that can run without time passing."""
    for _ in range(60):
        await asyncio.sleep(0)
