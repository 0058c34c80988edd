"""Summarise the messages between two peers in a few words each."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import attrs

from taskmachine.adapters.cli.demo.tap import Passed
from taskmachine.protocol.jsonvalue import JSONObject

__all__ = ["in_words"]

SKIPPED: Final = ("notifications/initialized", "notifications/subscriptions/acknowledged")


@attrs.define
class _Line:
    is_of_client: bool
    text: str
    answer: str | None = None

    def __str__(self) -> str:
        there, back = ("→", "←") if self.is_of_client else ("←", "→")
        answered = "" if self.answer is None else f" {back} {self.answer}"
        return f"{there} {self.text}{answered}"


def in_words(passed: Iterable[Passed]) -> list[str]:
    """Return a line for each request with its answer, and for each notification.

    An arrow to the right marks the client.  Repeated lines, as of polls and notifications, are
    counted at their first occurrence.  Messages without content are left out.
    """
    lines: list[_Line] = []
    open: dict[tuple[bool, Any], _Line] = {}
    for one in passed:
        message, id = one.message, one.message.get("id")
        if "method" in message:
            line = _Line(one.is_of_client, _request(message))
            if message["method"] not in SKIPPED:
                lines.append(line)
            if id is not None:
                open[one.is_of_client, id] = line
        elif (asked := open.get((not one.is_of_client, id))) is not None:
            asked.answer = _answered(message)
    counted = Counter(map(str, lines))
    return [line if times == 1 else f"{line} ×{times}" for line, times in counted.items()]  # noqa: RUF001


def _request(message: JSONObject) -> str:
    method, params = message["method"], message.get("params", {})
    match method, params:
        case "tools/call", {"name": name, "task": _}:
            return f"{method} {name}, task: {{}}"
        case "tools/call", {"name": name}:
            return f"{method} {name}"
        case "tasks/update", {"inputResponses": answers}:
            return f"{method} {', '.join(answers)}"
        case "elicitation/create", {"message": asked}:
            return f'{method} "{asked}"'
        case _, {"status": _}:
            return f"{method} {_task(params)}"
        case _:
            return str(method)


def _answered(message: JSONObject) -> str:
    match message.get("result"):
        case None:
            return f"error {message['error']['code']}"
        case {"protocolVersion": spoken}:
            return str(spoken)
        case {"supportedVersions": spoken}:
            return ", ".join(spoken)
        case {"tools": tools}:
            return f"{len(tools)} tools"
        case {"task": _}:
            return "task"
        case {"resultType": "task"}:
            return "resultType: task"
        case {"status": _} as task:
            return _task(task)
        case {"action": action}:
            return str(action)
        case {"content": _, "isError": True}:
            return "result + isError"
        case {"content": _}:
            return "result"
        case _:
            return "{}"


def _task(task: JSONObject) -> str:
    """Describe a task by its status and other contents."""
    match task:
        case {"status": status, "inputRequests": {**asked}} if asked:
            return f"{status} + {', '.join(map(str, asked))}"
        case {"status": status, "result": {"isError": True}}:
            return f"{status} + isError"
        case {"status": status, "result": _}:
            return f"{status} + result"
        case _:
            return str(task["status"])
