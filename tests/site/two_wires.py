"""The messages of one task in both revisions, exchanged with a real server, for a page.

A scene is one section of docs/explanation/generations.md: lines with an arrow for the sender, as in
docs/explanation/findings.md.  Ids and times are replaced, because they differ from run to run.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Final

import attrs

__all__ = ["SCENES", "scene"]

_SERVER: Final = (str(Path(sys.executable).with_name("taskmachine")), "serve", "--stdio")
_OPTIONS: Final = ("--store", "memory:", "--tools", "demo", "--log-level", "error")

_TASKS: Final = "io.modelcontextprotocol/tasks"
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "docs", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {
        "elicitation": {"form": {}},
        "extensions": {_TASKS: {}},
    },
}
_SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
_WIDTH: Final = 96


@attrs.define
class Wire:
    """A connection to a server on pipes."""

    _process: "subprocess.Popen[str]"
    lines: list[str] = attrs.field(factory=list)
    """The messages for the page."""
    task_id: str = ""
    _ids: Iterator[int] = attrs.field(factory=lambda: count(1))

    def request(self, method: str, params: dict[str, Any]) -> int:
        """Send a request without waiting for its response."""
        number = next(self._ids)
        self._send({"id": number, "method": method, "params": params})
        self._note("->", method, params)
        return number

    def answer(self, number: int) -> dict[str, Any]:
        """Return the response to that request, which must be the next response."""
        message = self._receive()
        assert message["id"] == number, message
        kind = "result" if "result" in message else "error"
        body: dict[str, Any] = message[kind]
        self._note("<-", kind, body)
        return body

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its response."""
        return self.answer(self.request(method, params))

    def notify(self, method: str) -> None:
        """Send a notification."""
        self._send({"method": method})
        self._note("->", method, None)

    def asked(self) -> dict[str, Any]:
        """Return the next request of the server."""
        message = self._receive()
        self._note("<-", message["method"], message["params"])
        return message

    def reply(self, message: dict[str, Any], result: dict[str, Any]) -> None:
        """Answer a request of the server."""
        self._send({"id": message["id"], "result": result})
        self._note("->", "result", result)

    def lines_of(self, play: "Scene") -> list[str]:
        """Play a scene and return its messages."""
        self.forget()
        play(self)
        return list(self.lines)

    def forget(self) -> None:
        """Drop the messages so far from the page."""
        self.lines.clear()

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        print(json.dumps({"jsonrpc": "2.0", **message}), file=self._process.stdin, flush=True)

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        while True:
            message: dict[str, Any] = json.loads(self._process.stdout.readline())
            if "id" in message:  # notifications may arrive at any time
                return message

    def _note(self, arrow: str, name: str, body: dict[str, Any] | None) -> None:
        self.lines.append(_anonymous(f"{arrow} {name}{_shown(name, body)}"))


def _shown(name: str, body: dict[str, Any] | None) -> str:
    if body is None:
        return ""
    meta = body.get("_meta", {})
    if (meta == _META and name != "tools/call") or meta.keys() == {_SERVER_INFO}:
        body = {**body, "_meta": "..."}
    return " " + _laid_out(body, len(name) + 4)


def _laid_out(value: Any, before: int, indent: str = "") -> str:
    """Format JSON in lines of limited width."""
    line = json.dumps(value, ensure_ascii=False)
    if before + len(indent) + len(line) <= _WIDTH or not isinstance(value, dict):
        return line
    inner = f"{indent}  "
    members = [
        f"{inner}{json.dumps(key)}: {_laid_out(member, len(key) + 4, inner)}"
        for key, member in value.items()
    ]
    return "{\n" + ",\n".join(members) + f"\n{indent}}}"


def _anonymous(text: str) -> str:
    text = re.sub(r'("taskId": )"[\w-]{32}"', r'\1"786512e2"', text)
    text = re.sub(r'("ttl(?:Ms)?": \d+)\d{3}\b', r"\g<1>000", text)  # it grows with time
    return re.sub(r'"\d{4}-\d\d-\d\dT[\d:.]+Z"', '"2026-07-28T10:30:00.000Z"', text)


# --- scenes -----------------------------------------------------------------------------------


def _initialize(wire: Wire) -> None:
    about = {"name": "docs", "version": "1"}
    declared: dict[str, Any] = {"elicitation": {"form": {}}}
    wire.ask(
        "initialize",
        {"protocolVersion": "2025-11-25", "capabilities": declared, "clientInfo": about},
    )
    wire.notify("notifications/initialized")


def _discover(wire: Wire) -> None:
    wire.ask("server/discover", {"_meta": _META})


def _call_2025(wire: Wire, tool: str = "deploy", arguments: dict[str, Any] | None = None) -> None:
    given = {"version": "1.4"} if arguments is None else arguments
    made = wire.ask("tools/call", {"name": tool, "arguments": given, "task": {"ttl": 3_600_000}})
    wire.task_id = made["task"]["taskId"]


def _call_2026(wire: Wire, tool: str = "deploy", arguments: dict[str, Any] | None = None) -> None:
    given = {"version": "1.4"} if arguments is None else arguments
    made = wire.ask("tools/call", {"name": tool, "arguments": given, "_meta": _META})
    wire.task_id = made["taskId"]


def _until(wire: Wire, params: dict[str, Any], *statuses: str) -> None:
    """Poll until the task has one of the statuses; the page shows the last poll."""
    before = list(wire.lines)
    while wire.ask("tasks/get", params)["status"] not in statuses:
        wire.lines[:] = before


def _answer_2025(wire: Wire) -> None:
    _call_2025(wire)
    wire.forget()
    waiting = wire.request("tasks/result", {"taskId": wire.task_id})
    question = wire.asked()
    wire.reply(question, {"action": "accept", "content": {"confirmed": True, "stage": "live"}})
    wire.answer(waiting)


def _answer_2026(wire: Wire) -> None:
    _call_2026(wire)
    wire.forget()
    look = {"taskId": wire.task_id, "_meta": _META}
    _until(wire, look, "input_required")
    content = {"confirmed": True, "stage": "live"}
    answers = {"confirm": {"action": "accept", "content": content}}
    wire.ask("tasks/update", {"taskId": wire.task_id, "inputResponses": answers, "_meta": _META})
    _until(wire, look, "completed")


def _fail_2025(wire: Wire) -> None:
    _call_2025(wire, "fail", {})
    wire.forget()
    _until(wire, {"taskId": wire.task_id}, "failed")
    wire.ask("tasks/result", {"taskId": wire.task_id})


def _fail_2026(wire: Wire) -> None:
    _call_2026(wire, "fail", {})
    wire.forget()
    _until(wire, {"taskId": wire.task_id, "_meta": _META}, "completed")


def _late_2025(wire: Wire) -> None:
    _fail_2025(wire)
    wire.forget()
    wire.ask("tasks/cancel", {"taskId": wire.task_id})


def _late_2026(wire: Wire) -> None:
    _fail_2026(wire)
    wire.forget()
    wire.ask("tasks/cancel", {"taskId": wire.task_id, "_meta": _META})


Scene = Callable[[Wire], None]

SCENES: Final[dict[str, tuple[Scene, Scene]]] = {
    "hello": (_initialize, _discover),
    "call": (_call_2025, _call_2026),
    "question": (_answer_2025, _answer_2026),
    "error": (_fail_2025, _fail_2026),
    "too late": (_late_2025, _late_2026),
}
"""The messages of 2025-11-25 and of 2026-07-28, by name."""


def scene(name: str) -> str:
    """Return a scene in both revisions, as blocks for a page."""
    return "\n".join(
        f'```text title="{title}"\n' + "\n".join(lines) + "\n```\n"
        for title, lines in zip(("2025-11-25", "2026-07-28"), _played()[name], strict=True)
    )


@cache
def _played() -> dict[str, list[list[str]]]:
    """Play all scenes on one pipe, which both revisions may share."""
    with _conversation() as wire:
        return {name: [wire.lines_of(play) for play in both] for name, both in SCENES.items()}


@contextmanager
def _conversation() -> Iterator[Wire]:
    with subprocess.Popen(
        [*_SERVER, *_OPTIONS],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield Wire(process)
        finally:
            process.kill()
