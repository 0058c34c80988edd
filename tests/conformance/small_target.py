"""A small server of 2025-11-25 on stdio: `small_target.py FILE` appends every call to FILE.

The state of a task depends on the clock alone, so nothing runs in the background.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

NOTHING = {"type": "object", "properties": {}}
SWITCH = {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}
DELAY = {"type": "object", "properties": {"delay_ms": {"type": "integer"}}}


def tool(name: str, schema: Any = NOTHING, support: str | None = None, **hints: bool) -> Any:
    execution = {} if support is None else {"execution": {"taskSupport": support}}
    return {"name": name, "inputSchema": schema, "annotations": hints, **execution}


TOOLS = [
    tool("drop", support="optional", destructiveHint=True),
    tool("write", destructiveHint=False),
    tool("write more"),
    tool("read", readOnlyHint=True),
    tool("read wrongly", readOnlyHint=True),
    tool("light", SWITCH, "optional"),
    tool("wait", DELAY, "required"),
]


class Task:
    """Begun by a call."""

    def __init__(self, name: str, arguments: Any) -> None:
        self.name, self.arguments, self.began = name, arguments, time.monotonic()
        self.is_asked = self.is_answered = False

    @property
    def status(self) -> str:
        if self.name == "light" and self.arguments["on"]:
            return "completed" if self.is_answered else "input_required"
        if self.name == "light":
            return "failed"
        worked_ms = (time.monotonic() - self.began) * 1_000
        return "working" if worked_ms < self.arguments.get("delay_ms", 1) else "completed"


tasks: dict[str, Task] = {}


def tell(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def shown(id: str) -> Any:
    times = dict.fromkeys(("createdAt", "lastUpdatedAt"), "2026-01-02T03:04:05Z")
    return {"taskId": id, "status": tasks[id].status, "ttl": None, "pollInterval": 10, **times}


def called(id: Any, params: Any) -> Any:
    with Path(sys.argv[1]).open("a") as calls:
        print(json.dumps(params), file=calls)
    if "task" not in params:
        return {"content": [], "isError": params["name"] == "read wrongly"}
    tasks[f"task-{id}"] = Task(params["name"], params["arguments"])
    return {"task": shown(f"task-{id}")}


def result(id: Any, task: Task) -> None:
    """Ask first, without saying for which task."""
    if task.status == "input_required" and not task.is_asked:
        task.is_asked = True
        params = {"message": "Sure?", "requestedSchema": NOTHING}
        tell(id="question", method="elicitation/create", params=params)
    elif task.status == "failed":
        tell(id=id, result={"content": [], "isError": True})


for line in sys.stdin:
    message = json.loads(line)
    id, params = message.get("id"), message.get("params", {})
    match message.get("method"):
        case "initialize":
            capabilities: Any = {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}}
            info = {"name": "small", "version": "1"}
            tell(id=id, result={
                "protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info,
            })  # fmt: skip
        case "tools/list":
            # The first page is short, and the cursor says where the next one begins.
            begin = int(params.get("cursor", 0))
            more = {"nextCursor": str(begin + 4)} if begin + 4 < len(TOOLS) else {}
            tell(id=id, result={"tools": TOOLS[begin : begin + 4], **more})
        case "tools/call":
            tell(id=id, result=called(id, params))
        case "tasks/get":
            tell(id=id, result=shown(params["taskId"]))
        case "tasks/result":
            result(id, tasks[params["taskId"]])
        case None:
            for task in tasks.values():
                task.is_answered = task.is_answered or task.is_asked
