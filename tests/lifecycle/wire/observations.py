"""Extract tasks and outcomes from recorded messages, without the code under test."""

from typing import Any, Final

import attrs

from taskmachine.statemachine.invariants import Saw
from tests.lifecycle.wire.record import JSON, NEW, OLD, Channel, Evidence, Exchange
from tests.oracle import LIFECYCLES, SPEC

__all__ = [
    "UNKNOWN",
    "Observation",
    "all_observations",
    "is_terminal",
    "outcome_of_result",
    "pushes",
    "reads",
    "results",
    "status_of",
    "task_of",
]

RELATED: Final = "io.modelcontextprotocol/related-task"
UNKNOWN: Final = -32_602
CANCELLED: Final = -32_000
PUSHED: Final = {"notifications/tasks/status": OLD, "notifications/tasks": NEW}

Outcome = tuple[Any, ...]
"""A result, an error or a cancellation, in a form that is the same in both generations."""


@attrs.frozen
class Observation:
    """A task in a response or in a notification."""

    at: int
    owner: str
    wire: str
    task: JSON
    outcome: Outcome | None = None
    """None if the message does not contain it."""

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
    """Return the outcome, without the fields that a generation adds."""
    text = [block.get("text") for block in result.get("content", ())]
    return "result", tuple(text), bool(result.get("isError"))


def outcome_of_error(error: JSON) -> Outcome:
    if error["code"] == CANCELLED:
        return ("cancelled",)
    return "error", error["code"], error["message"]


def _observation(at: int, owner: str, wire: str, task: JSON) -> Observation:
    outcome = None
    if wire == NEW and "result" in task:
        outcome = outcome_of_result(task["result"])
    elif wire == NEW and "error" in task:
        outcome = outcome_of_error(task["error"])
    elif task["status"] == "cancelled":
        outcome = ("cancelled",)
    return Observation(at, owner, wire, task, outcome)


def reads(evidence: Evidence) -> list[Observation]:
    """Return the tasks in responses, in the order of the requests."""
    observations = []
    for exchange in evidence.exchanges:
        answer = exchange.answer
        if answer is None or "result" not in answer:
            continue
        result, place = answer["result"], (exchange.sent, exchange.owner, exchange.wire)
        match exchange.method:
            case "tasks/get":
                observations.append(_observation(*place, result))
            case "tasks/cancel" if exchange.wire == OLD:
                observations.append(_observation(*place, result))
            case "tools/call" if "task" in result:
                observations.append(_observation(*place, result["task"]))
            case "tools/call" if result.get("resultType") == "task":
                observations.append(_observation(*place, result))
            case "tasks/list":
                observations += [_observation(*place, task) for task in result["tasks"]]
            case _:
                pass
    return sorted(observations, key=lambda seen: seen.at)


def results(evidence: Evidence) -> list[tuple[Exchange, Outcome]]:
    """Return the outcomes in the responses to `tasks/result`."""
    found = []
    for exchange in evidence.exchanges:
        answer = exchange.answer
        is_refused = exchange.status is not None and exchange.status >= 400
        if exchange.method == "tasks/result" and answer is not None and not is_refused:
            if "result" in answer:
                found.append((exchange, outcome_of_result(answer["result"])))
            elif exchange.code != UNKNOWN:
                found.append((exchange, outcome_of_error(answer["error"])))
    return found


def pushes(channel: Channel) -> list[Observation]:
    """Return the tasks in notifications."""
    return [
        _observation(received.at, channel.owner, wire, received.message["params"])
        for received in channel.messages
        if (wire := PUSHED.get(received.message.get("method", ""))) is not None
    ]


def all_observations(evidence: Evidence) -> list[Observation]:
    """Return the tasks in responses and in notifications, in no common order."""
    return [*reads(evidence), *(seen for channel in evidence.channels for seen in pushes(channel))]


def task_of(message: JSON) -> str | None:
    """Return the id of the task to which a message of the server belongs."""
    params = message.get("params", {})
    if message.get("method") in PUSHED:
        return str(params["taskId"])
    related = params.get("_meta", {}).get(RELATED)
    return None if related is None else str(related["taskId"])


def is_terminal(status: str, wire: str) -> bool:
    return status in LIFECYCLES[wire].terminal


def status_of(outcome: Outcome, wire: str) -> str:
    """Return the status that the specification projects for this outcome."""
    if outcome[0] == "result":
        state = "completed_is_error" if outcome[2] else "completed"
    else:
        state = "cancelled" if outcome[0] == "cancelled" else "failed"
    return str(SPEC["projection"][wire][state])
