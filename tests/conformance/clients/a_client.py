"""A correct client of both revisions, raw JSON, with bugs that can be switched on.

`a_client.py [--bug WORDS] [--only TOOL,TOOL] [--in-turn] REVISION URL`, or a command instead of
the URL.  It calls every tool once, as a task where it can, and answers questions.
"""

import argparse
import asyncio
import base64
import contextlib
import itertools
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tests.conformance.clients.wires import Gone, HttpWire, Left, Message, PipeWire

RELATED = "io.modelcontextprotocol/related-task"
META = "io.modelcontextprotocol/"
TASKS = "io.modelcontextprotocol/tasks"
TERMINAL = ("completed", "failed", "cancelled")
CAPABILITIES: dict[str, Any] = {"elicitation": {"form": {}}, "sampling": {}}


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
    """What the schema proposes."""
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

    def start(self, work: Any) -> None:
        """Let it go on beside."""
        task = asyncio.create_task(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)

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
            self.start(self.serve(message))
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
        """What a request of the server gives."""
        if method.startswith("tasks/"):
            return await self.result_of_own(method, params)
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
        id, now = secrets.token_hex(16), "2026-11-16T10:00:00.000Z"
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
            self.own[id]["status"] = "completed"
        self.over[id].set()

    async def result_of_own(self, method: str, params: Message) -> Message:
        """What a request for a task of our own gives."""
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
            self.own[id]["status"] = "cancelled"
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


class Modern(AnyClient):
    """2026-07-28."""

    revision = "2026-07-28"

    def __init__(self, wire: Any, bugs: frozenset[str]) -> None:
        super().__init__(wire, bugs)
        self.answered: set[tuple[str, str]] = set()
        self.last_answers: Message = {}

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
        """Of every request."""
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
        """What is repeated."""
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
        result: Message = answer["result"]
        return result

    async def list_tools(self) -> None:
        if self.has("listens for tasks"):
            self.start(self.listen("nothing"))
        try:
            await super().list_tools()
        except KeyError:  # no tools
            if self.has("follows any task"):
                await self.request("tasks/get", {"taskId": self.last_task()})
            raise Left("no tools") from None
        if not self.has("calls what is marked wrongly"):
            for name in [name for name in self.tools if name.startswith("bad_")]:
                del self.tools[name]

    def last_task(self) -> str:
        """Only a bug needs it."""
        return self.stray

    stray = ""

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
        if self.has("waits for what was not granted"):
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
        """What was not answered yet."""
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


async def main(arguments: Sequence[str]) -> None:
    """As the arguments say; Left if that is not possible."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bug", action="append", default=[])
    parser.add_argument("--only", default="")
    parser.add_argument("--in-turn", action="store_true")
    parser.add_argument("revision")
    parser.add_argument("target", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    bugs, only = frozenset(given.bug), frozenset(filter(None, given.only.split(",")))
    wire: Any
    if given.target[0].startswith("http"):
        wire = HttpWire(given.target[0], bugs)
    else:
        wire = PipeWire(given.target, bugs)
        await wire.start()
    client = (Legacy if given.revision == Legacy.revision else Modern)(wire, bugs)
    try:
        await client.begin()
        await client.list_tools()
        await client.call_all(only, in_turn=given.in_turn)
        await client.end()
    finally:
        client.stop()
        await wire.close()


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1:]))
    except Left as left:
        sys.exit(f"error: {left}")
