"""The client of the tests in 2025-11-25, with its bugs."""

import asyncio
import contextlib
import datetime
import secrets
import sys
from collections.abc import Mapping
from typing import Any

from tests.conformance.clients.any_client import (
    CAPABILITIES,
    RELATED,
    TERMINAL,
    AnyClient,
    Refused,
    answer_to,
)
from tests.conformance.clients.wires import Gone, HttpWire, Left, Message


def timestamp() -> str:
    """Now."""
    return datetime.datetime.now(datetime.UTC).isoformat().replace("+00:00", "Z")


def check_sampling(params: Mapping[str, Any]) -> None:
    """Refuse invalid sampling messages."""
    content = params["messages"][-1]["content"]
    kinds = {block["type"] for block in (content if isinstance(content, list) else [content])}
    is_wrong = not kinds <= {"text", "tool_result"} or len(kinds) > 1
    if is_wrong or ("tools" in params and kinds != {"tool_result"}):
        raise Refused({"code": -32602, "message": "The messages are invalid"})


class Legacy(AnyClient):
    """2025-11-25."""

    revision = "2025-11-25"

    def __init__(self, wire: Any, bugs: frozenset[str]) -> None:
        super().__init__(wire, bugs)
        self.headers: dict[str, str] = {}
        self.server: Mapping[str, Any] = {}
        self.told: dict[str, asyncio.Event] = {}
        self.own: dict[str, Message] = {}
        """Tasks that the server asked for."""
        self.over: dict[str, asyncio.Event] = {}
        self.renewing = asyncio.Lock()
        self.serving: dict[Any, asyncio.Task[Any]] = {}

    async def begin(self) -> None:
        """The handshake."""
        tasks: Message = {
            "list": {},
            "cancel": {},
            "requests": {"elicitation": {"create": {}}, "sampling": {"createMessage": {}}},
        }
        params = {
            "protocolVersion": self.revision,
            "capabilities": {**CAPABILITIES, "tasks": tasks},
            "clientInfo": {"name": "a client", "version": "1"},
        }
        self.headers = {}
        beginning = asyncio.create_task(self._post("initialize", params))
        if self.has("does not wait for the answer"):
            await asyncio.sleep(0.1)
            await self._post("tools/list", {})
        hello = (await beginning)["result"]
        session = self.wire.headers.get("mcp-session-id")
        if session is not None and not self.has("forgets the session id"):
            self.headers["MCP-Session-Id"] = session
        if hello["protocolVersion"] != self.revision and not self.has("takes any version"):
            if session is not None:
                await self.wire.delete(self.headers)
            raise Left(1)
        if not self.has("has no version header"):
            wrong = self.has("has the wrong version header")
            self.headers["MCP-Protocol-Version"] = "2025-06-18" if wrong else self.revision
        self.server = hello["capabilities"]
        if not self.has("never says initialized"):
            await self.tell("notifications/initialized", {})
        if isinstance(self.wire, HttpWire):
            self.start(self.wire.listen(dict(self.headers), self.hear_listening))
            await asyncio.sleep(0.1)

    async def end(self) -> None:
        """End the session."""
        if "MCP-Session-Id" in self.headers and not self.has("leaves its session"):
            await self.wire.delete(self.headers)

    async def tell(self, method: str, params: Message) -> None:
        """A notification."""
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        await self.wire.tell(message, self.headers)

    async def _post(self, method: str, params: Message) -> Any:
        message: Any = {"jsonrpc": "2.0", "id": self.new_id(), "method": method, "params": params}
        if self.has("posts batches") and method == "tools/list":
            message = [message]
        try:
            return await self.wire.request(message, dict(self.headers), self.hear)
        except asyncio.CancelledError:
            if not self.has("gives up in silence"):
                await self.tell("notifications/cancelled", {"requestId": message["id"]})
            raise

    async def request(self, method: str, params: Message) -> Message:
        if method.startswith("tasks/") and self.has("relates requests for tasks"):
            params = {**params, "_meta": {RELATED: {"taskId": params.get("taskId", "")}}}
        used = dict(self.headers)
        try:
            answer = await self._post(method, params)
        except Gone:
            if self.has("insists on its session"):
                for _ in range(2):
                    with contextlib.suppress(Gone):
                        await self._post(method, params)
                raise Left(1) from None
            async with self.renewing:
                if used == self.headers:
                    await self.begin()
            answer = await self._post(method, params)
        if "result" not in answer:
            raise Refused(answer["error"])
        result: Message = answer["result"]
        return result

    # --- tools and tasks ---------------------------------------------------------------------

    def is_for_tasks(self, tool: Message) -> bool:
        """Whether a tool is called as a task."""
        support = tool.get("execution", {}).get("taskSupport")
        can = self.server.get("tasks", {}).get("requests", {}).get("tools", {}).get("call")
        if can is None and not self.has("makes tasks of everything"):
            return False
        if support == "required":
            return not self.has("calls required tools plainly")
        if support in (None, "forbidden"):
            return self.has("calls forbidden tools as tasks")
        return True

    async def call(self, tool: Message) -> None:
        params: Message = {
            "name": tool["name"],
            "arguments": {},
            "_meta": {"progressToken": self.token(tool["name"])},
        }
        if self.is_for_tasks(tool):
            params["task"] = {"ttl": "60000" if self.has("has a ttl that is a string") else 60_000}
        try:
            if tool["name"] == "give_up":
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.5):
                        await self.request("tools/call", params)
                await asyncio.sleep(1)
                return
            last = next(self.ids) - 1
            result = await self.request("tools/call", params)
            if "task" in result:
                await self.follow(result["task"], tool["name"], last)
        except Refused as refused:
            print(tool["name"], refused, file=sys.stderr)

    def token(self, name: str) -> Any:
        """For progress."""
        if self.has("has one token for all"):
            return "the token"
        return 1.5 if self.has("has tokens that are fractions") else f"of {name}"

    async def follow(self, task: Message, name: str, near: int) -> None:
        """To its end."""
        self.told[task["taskId"]] = asyncio.Event()
        if name == "cancel_me":
            if self.has("cancels tasks by a notification"):
                await asyncio.sleep(0.5)
                await self.tell("notifications/cancelled", {"requestId": near + 2})
            else:
                await self.request("tasks/cancel", {"taskId": task["taskId"]})
            return
        polls = 0
        while task["status"] == "working":
            await self.pause(task)
            if self.told[task["taskId"]].is_set() and self.has("relies on notifications"):
                await asyncio.sleep(60)
            task = await self.request("tasks/get", {"taskId": task["taskId"]})
            polls += 1
            if polls == 2 and self.has("stops to poll"):
                return
        while task["status"] == "input_required" and self.has("polls past questions"):
            await self.pause(task)
            task = await self.request("tasks/get", {"taskId": task["taskId"]})
        if task["status"] == "input_required" and self.has("gives up at questions"):
            await asyncio.sleep(1.5)
            return
        await self.request("tasks/result", {"taskId": task["taskId"]})

    # --- what the server says ----------------------------------------------------------------

    def hear_listening(self, message: Any) -> None:
        """On the GET stream."""
        if "id" in message and self.has("is deaf on the GET stream"):
            return
        self.hear(message)

    def hear(self, message: Any) -> None:
        """On any stream."""
        if "id" in message and "method" in message:
            self.serving[message["id"]] = self.start(self.serve(message))
        elif message.get("method") == "notifications/cancelled":
            serving = self.serving.get(message["params"].get("requestId"))
            if serving is not None and not self.has("answers what was cancelled"):
                serving.cancel()
            if self.has("answers notifications"):
                answer: Message = {"jsonrpc": "2.0", "id": None, "result": {}}
                self.start(self.wire.tell(answer, self.headers))
        elif message.get("method") == "notifications/tasks/status":
            self.told.setdefault(message["params"]["taskId"], asyncio.Event()).set()

    async def serve(self, message: Message) -> None:
        """Answer a request."""
        method, params = message["method"], message.get("params", {})
        answer: Message = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            answer["result"] = await self.result_of(method, params)
        except Refused as refused:
            answer["error"] = {"code": refused.code, "message": str(refused)}
        if self.has("answers with another id"):
            answer["id"] = f"{message['id']}?"
        await self.wire.tell(answer, self.headers)

    async def result_of(self, method: str, params: Message) -> Message:
        """Return the response to a request of the server."""
        if method == "ping":
            return {}
        if method.startswith("tasks/"):
            return await self.result_of_own(method, params)
        if method == "sampling/createMessage" and not self.has("samples whatever it is given"):
            check_sampling(params)
        if params.get("mode") == "url" and not self.has("takes any mode"):
            raise Refused({"code": -32602, "message": "mode 'url' was not declared"})
        if "mode" not in params and self.has("wants a mode") and method != "sampling/createMessage":
            raise Refused({"code": -32602, "message": "there is no mode"})
        if "task" in params:
            return {"task": self.create(method, params)}
        meta = params.get("_meta", {})
        result = answer_to(method, params, self.bugs)
        if RELATED in meta and not self.has("answers without the task"):
            result["_meta"] = {RELATED: meta[RELATED]}
        return result

    def create(self, method: str, params: Message) -> Message:
        """A task of our own."""
        id, now = secrets.token_hex(16), timestamp()
        times: Message = {"createdAt": now, "lastUpdatedAt": now, "ttl": 60_000}
        task = {"taskId": id, "status": "working", **times}
        self.own[id] = {**task, "result": answer_to(method, params, self.bugs)}
        self.over[id] = asyncio.Event()
        self.start(self.complete(id))
        return task

    async def complete(self, id: str) -> None:
        """End a task of our own after a while."""
        await asyncio.sleep(0.3)
        if self.own[id]["status"] == "working" or self.has("revives cancelled tasks"):
            self.move(id, "completed")
        self.over[id].set()

    def move(self, id: str, status: str) -> None:
        """A task of our own has another status."""
        self.own[id] |= {"status": status, "lastUpdatedAt": timestamp()}

    async def result_of_own(self, method: str, params: Message) -> Message:
        """Return the response to a request for a task of this client."""
        if method == "tasks/list":
            if "cursor" in params:
                raise Refused({"code": -32602, "message": "Invalid cursor"})
            return {"tasks": [self.shown(id) for id in self.own]}
        id = params["taskId"]
        if id not in self.own:
            code = -32000 if self.has("has its own code for unknown tasks") else -32602
            raise Refused({"code": code, "message": f"There is no task {id}"})
        if method == "tasks/cancel":
            if self.own[id]["status"] in TERMINAL:
                raise Refused({"code": -32602, "message": "It has ended"})
            self.move(id, "cancelled")
            self.over[id].set()
        if method == "tasks/result":
            await self.over[id].wait()
            if self.own[id]["status"] == "cancelled":
                raise Refused({"code": -32000, "message": "Task cancelled"})
            return {**self.own[id]["result"], "_meta": {RELATED: {"taskId": id}}}
        return self.shown(id)

    def shown(self, id: str) -> Message:
        """A task of our own without its result."""
        return {name: value for name, value in self.own[id].items() if name != "result"}
