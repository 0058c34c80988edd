"""What both generations are told of one task: the same record, in the words of each wire."""

from collections.abc import Sequence
from typing import Final

import attrs

from taskmachine.adapters.console.shown import pretty
from taskmachine.adapters.server.offer import offer_of
from taskmachine.adapters.tools import Tools
from taskmachine.protocol.jsonrpc import encode_message
from taskmachine.protocol.operations import Collect, Get, Operation
from taskmachine.protocol.receiver import Receiver
from taskmachine.protocol.receiver_2025_11_25 import RULES as RULES_2025_11_25
from taskmachine.protocol.receiver_2026_07_28 import RULES as RULES_2026_07_28
from taskmachine.protocol.rules import Rules
from taskmachine.statemachine import Task

__all__ = ["Generation", "wire_messages"]

_GENERATIONS: Final = (RULES_2025_11_25, RULES_2026_07_28)


@attrs.frozen
class Generation:
    """What one of them shows: its status, and answers by the method that was asked."""

    revision: str
    status: str
    answers: Sequence[tuple[str, str]]


def wire_messages(task: Task, tools: Tools, now: int) -> list[Generation]:
    """The answer to `tasks/get`; where that has no result, the one to `tasks/result` as well."""
    return [_generation(rules, task, tools, now) for rules in _GENERATIONS]


def _generation(rules: Rules, task: Task, tools: Tools, now: int) -> Generation:
    receiver = Receiver(rules, offer_of(tools, listing=True), owner=task.owner, new_id=lambda: 0)
    asked: dict[str, Operation] = {"tasks/get": Get(task.id)}
    if task.is_terminal and "tasks/result" in rules.dialect.methods:
        asked["tasks/result"] = Collect(task.id)
    answers = [
        (method, pretty(encode_message(receiver.reply(id, operation, task, (), now=now))))
        for id, (method, operation) in enumerate(asked.items(), 1)
    ]
    return Generation(rules.dialect.revision, rules.dialect.status(task), answers)
