"""The client of the tests in 2026-07-28, with its bugs."""

import asyncio
import base64
import contextlib
import re
from typing import Any

from tests.conformance.clients.any_client import (
    CAPABILITIES,
    META,
    TASKS,
    TERMINAL,
    AnyClient,
    Refused,
    answer_to,
    arguments_for,
)
from tests.conformance.clients.wires import Left, Message, PipeWire


class Modern(AnyClient):
    """2026-07-28."""

    revision = "2026-07-28"

    def __init__(self, wire: Any, bugs: frozenset[str]) -> None:
        super().__init__(wire, bugs)
        self.answered: set[tuple[str, str]] = set()
        self.last_answers: Message = {}
        self.last: Message = {}
        """The last result: only a bug looks at it."""

    async def begin(self) -> None:
        """See who it is."""
        try:
            await self.request("server/discover", {})
        except Refused as refused:
            if not self.has("insists on its version"):
                raise Left(str(refused)) from None
            for _ in range(2):
                await asyncio.sleep(0.2)
                with contextlib.suppress(Refused):
                    await self.request("server/discover", {})

    async def end(self) -> None:
        """Nothing is left."""

    def meta(self, method: str) -> Message:
        """Return the metadata of a request."""
        capabilities = {**CAPABILITIES, "extensions": {TASKS: {}}}
        if method.startswith("tasks/") and self.has("declares once"):
            del capabilities["extensions"]
        meta = {
            META + "protocolVersion": self.revision,
            META + "clientInfo": {"name": "a client", "version": "1"},
            META + "clientCapabilities": capabilities,
        }
        if self.has("is anonymous"):
            del meta[META + "clientInfo"]
        if self.has("hides its version"):
            del meta[META + "protocolVersion"]
        return meta

    def encoded(self, value: str) -> str:
        """As a header has it."""
        is_plain = re.fullmatch(r"[!-~]([ -~]*[!-~])?", value) is not None
        looks = value.startswith("=?base64?") and value.endswith("?=")
        if self.has("takes no care of lookalikes"):
            looks = False
        if (is_plain and not looks) or self.has("encodes nothing"):
            return value.replace("\n", " ")
        marker = "=?BASE64?" if self.has("shouts") else "=?base64?"
        return marker + base64.b64encode(value.encode()).decode() + "?="

    def headers(self, method: str, params: Message) -> dict[str, str]:
        """Return the headers that mirror the body."""
        version = "2025-11-25" if self.has("has the wrong version header") else self.revision
        headers = {"MCP-Protocol-Version": version, "Mcp-Method": method}
        if self.has("has no version header"):
            del headers["MCP-Protocol-Version"]
        if self.has("has no method header"):
            del headers["Mcp-Method"]
        name = params.get("name") if method == "tools/call" else params.get("taskId")
        if name is not None and not self.has("has no name header"):
            headers["Mcp-Name"] = self.encoded(name)
        if method == "tools/call" and not self.has("repeats no parameters"):
            schema = self.tools[params["name"]]["inputSchema"]
            headers |= dict(self.marked(schema, params["arguments"]))
        return headers

    def marked(self, schema: Message, arguments: Message) -> Any:
        """Headers of marked parameters."""
        for name, inner in schema.get("properties", {}).items():
            if name not in arguments:
                if "x-mcp-header" in inner and self.has("repeats what is not there"):
                    yield f"Mcp-Param-{inner['x-mcp-header']}", "nothing"
                continue
            value = arguments[name]
            if isinstance(value, dict):
                yield from self.marked(inner, value)
            if "x-mcp-header" in inner and re.fullmatch(r"[\w-]+", inner["x-mcp-header"]):
                text = str(value).lower() if isinstance(value, bool) else str(value)
                if value is not None or self.has("repeats null"):
                    yield f"Mcp-Param-{inner['x-mcp-header']}", self.encoded(text)

    async def request(self, method: str, params: Message, id: Any = None) -> Message:
        id = self.new_id() if id is None else id
        sent = {**params, "_meta": self.meta(method)}
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": sent}
        try:
            answer = await self.wire.request(message, self.headers(method, params), lambda _: None)
        except asyncio.CancelledError:
            if isinstance(self.wire, PipeWire):
                params = {"requestId": id}
                told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
                await self.wire.tell(told, {})
            raise
        if "result" not in answer:
            if answer["error"]["code"] == -32021 and self.has("falls back at any 400"):
                hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
                old = {"jsonrpc": "2.0", "id": next(self.ids), "method": "initialize"}
                await self.wire.request({**old, "params": hello}, {}, lambda _: None)
            raise Refused(answer["error"])
        self.last = answer["result"]
        return self.last

    async def list_tools(self) -> None:
        try:
            await super().list_tools()
        except KeyError:  # no tools
            if self.has("follows any task"):
                await self.request("tasks/get", {"taskId": self.last["taskId"]})
            raise Left("no tools") from None
        if not self.has("calls what is marked wrongly"):
            for name in [name for name in self.tools if name.startswith("bad_")]:
                del self.tools[name]

    async def call(self, tool: Message) -> None:
        params: Message = {"name": tool["name"], "arguments": arguments_for(tool["inputSchema"])}
        if self.has("keeps its answers") and self.last_answers:
            params["inputResponses"] = self.last_answers
        try:
            if tool["name"] == "give_up":
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.5):
                        await self.request("tools/call", params)
                await asyncio.sleep(3 if isinstance(self.wire, PipeWire) else 0.5)
                return
            result = await self.request("tools/call", params)
        except Refused as refused:
            if refused.code != -32020 or self.has("does not look again"):
                return
            await self.list_tools()
            result = await self.request("tools/call", params)
        await self.take(result, params)

    async def take(self, result: Message, params: Message) -> None:
        """Whatever a call gave."""
        kind = result.get("resultType", "complete")
        if "resultType" not in result and self.has("wants a kind"):
            raise Left("no resultType")
        if kind == "input_required":
            await self.take(await self.retry(result, params), params)
        elif kind == "task" or (kind == "nonsense" and self.has("takes nonsense for a task")):
            with contextlib.suppress(Refused):
                await self.follow(result, params["name"])

    async def retry(self, result: Message, params: Message) -> Message:
        """The same call again, with answers."""
        answers = {
            key: answer_to(one["method"], one["params"], self.bugs)
            for key, one in result.get("inputRequests", {}).items()
        }
        self.last_answers = dict(answers)
        if self.has("answers in part") and answers:
            del answers[min(answers)]
        again = {**params, **({"inputResponses": answers} if answers else {})}
        if "requestState" in result:
            state = result["requestState"]
            again["requestState"] = state.strip() if self.has("trims the state") else state
        elif self.has("invents a state"):
            again["requestState"] = ""
        last = next(self.ids) - 1 if self.has("retries with the same id") else None
        return await self.request("tools/call", again, last)

    async def follow(self, task: Message, name: str) -> None:
        """To its end."""
        id = task["taskId"]
        if name == "cancel_me":
            if self.has("cancels tasks by a notification"):
                await asyncio.sleep(0.5)
                params = {"requestId": 3}
                told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
                await self.wire.tell(told, {})
            else:
                await self.request("tasks/cancel", {"taskId": id})
            return
        if self.has("forgets its tasks"):
            await asyncio.sleep(0.5)
            return
        if self.has("waits for a type that was not granted"):
            await self.listen(id)
        polls = 0
        while task["status"] not in TERMINAL:
            await self.pause(task)
            task = await self.request("tasks/get", {"taskId": id})
            polls += 1
            if polls == 2 and self.has("stops to poll"):
                return
            if task["status"] == "input_required" and not self.has("ignores questions"):
                await self.answer(id, task["inputRequests"])
                if self.has("turns away after an answer"):
                    return

    async def answer(self, id: str, questions: Message) -> None:
        """Return the requests without a response."""
        answers = {
            key: answer_to(one["method"], one["params"], self.bugs)
            for key, one in questions.items()
            if (id, key) not in self.answered or self.has("answers twice")
        }
        if not answers:
            return
        self.answered |= {(id, key) for key in answers}
        if self.has("answers what was not asked"):
            answers["surprise"] = {"action": "decline"}
        if self.has("responds to questions"):
            await self.wire.tell({"jsonrpc": "2.0", "id": 1, "result": {}}, {})
        await self.request("tasks/update", {"taskId": id, "inputResponses": answers})

    async def listen(self, id: str) -> None:
        """For news of a task, for ever."""
        await self.request("subscriptions/listen", {"notifications": {"taskIds": [id]}})
