"""Reads tasks and outcomes out of recorded messages: plain JSON, never by the code under test."""

from typing import Any, Final

import attrs

from taskmachine.statemachine.invariants import Saw
from tests.oracle import LIFECYCLES, SPEC
from tests.wire.record import JSON, NEW, OLD, Channel, Evidence, Exchange

__all__ = [
    "UNKNOWN",
    "Look",
    "is_terminal",
    "outcome_of_result",
    "pushes",
    "reads",
    "results",
    "seen",
    "status_of",
    "task_of",
]

RELATED: Final = "io.modelcontextprotocol/related-task"
UNKNOWN: Final = -32_602
CANCELLED: Final = -32_000
PUSHED: Final = {"notifications/tasks/status": OLD, "notifications/tasks": NEW}

Outcome = tuple[Any, ...]
"""A result, an error or the cancellation, as it can be compared across wires."""


@attrs.frozen
class Look:
    """A task as an answer or a notification showed it."""

    at: int
    owner: str
    wire: str
    task: JSON
    outcome: Outcome | None = None
    """None if it does not show it."""

    @property
    def has_ended(self) -> bool:
        return is_terminal(self.status, self.wire)

    @property
    def task_id(self) -> str:
        return str(self.task["taskId"])

    @property
    def status(self) -> str:
        return str(self.task["status"])

    def saw(self, *, pushed: bool = False) -> Saw:
        return Saw(self.at, self.owner, self.task_id, self.status, self.wire, pushed, self.outcome)


def outcome_of_result(result: JSON) -> Outcome:
    """Of a tool, as it can be compared across wires: without what the wires add."""
    text = [block.get("text") for block in result.get("content", ())]
    return "result", tuple(text), bool(result.get("isError"))


def outcome_of_error(error: JSON) -> Outcome:
    if error["code"] == CANCELLED:
        return ("cancelled",)
    return "error", error["code"], error["message"]


def _look(at: int, owner: str, wire: str, task: JSON) -> Look:
    outcome = None
    if wire == NEW and "result" in task:
        outcome = outcome_of_result(task["result"])
    elif wire == NEW and "error" in task:
        outcome = outcome_of_error(task["error"])
    elif task["status"] == "cancelled":
        outcome = ("cancelled",)
    return Look(at, owner, wire, task, outcome)


def reads(evidence: Evidence) -> list[Look]:
    """Tasks in answers, in the order of time."""
    looks = []
    for exchange in evidence.exchanges:
        answer = exchange.answer
        if answer is None or "result" not in answer:
            continue
        result, place = answer["result"], (exchange.sent, exchange.owner, exchange.wire)
        match exchange.method:
            case "tasks/get":
                looks.append(_look(*place, result))
            case "tasks/cancel" if exchange.wire == OLD:
                looks.append(_look(*place, result))
            case "tools/call" if "task" in result:
                looks.append(_look(*place, result["task"]))
            case "tools/call" if result.get("resultType") == "task":
                looks.append(_look(*place, result))
            case "tasks/list":
                looks += [_look(*place, task) for task in result["tasks"]]
            case _:
                pass
    return sorted(looks, key=lambda look: look.at)


def results(evidence: Evidence) -> list[tuple[Exchange, Outcome]]:
    """What calls that waited for the end of a task were told."""
    told = []
    for exchange in evidence.exchanges:
        answer = exchange.answer
        is_refused = exchange.status is not None and exchange.status >= 400
        if exchange.method == "tasks/result" and answer is not None and not is_refused:
            if "result" in answer:
                told.append((exchange, outcome_of_result(answer["result"])))
            elif exchange.code != UNKNOWN:
                told.append((exchange, outcome_of_error(answer["error"])))
    return told


def pushes(channel: Channel) -> list[Look]:
    """Tasks in notifications."""
    return [
        _look(heard.at, channel.owner, wire, heard.message["params"])
        for heard in channel.heard
        if (wire := PUSHED.get(heard.message.get("method", ""))) is not None
    ]


def seen(evidence: Evidence) -> list[Look]:
    """Both; which of them was first nobody knows."""
    return [*reads(evidence), *(look for channel in evidence.channels for look in pushes(channel))]


def task_of(message: JSON) -> str | None:
    """The task that a message of the server is about."""
    params = message.get("params", {})
    if message.get("method") in PUSHED:
        return str(params["taskId"])
    related = params.get("_meta", {}).get(RELATED)
    return None if related is None else str(related["taskId"])


def is_terminal(status: str, wire: str) -> bool:
    return status in LIFECYCLES[wire].terminal


def status_of(outcome: Outcome, wire: str) -> str:
    """What the specification calls a task that ended so."""
    if outcome[0] == "result":
        state = "completed_is_error" if outcome[2] else "completed"
    else:
        state = "cancelled" if outcome[0] == "cancelled" else "failed"
    return str(SPEC["projection"][wire][state])
