"""The responses about one task in both MCP revisions."""

from collections.abc import Sequence
from typing import Final

import attrs

from taskmachine.adapters.console.formatting import pretty
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.transports.connection.server_info import describe_server
from taskmachine.protocol.dialects.mcp_2025_11_25.receiver import RECEIVER as RECEIVER_2025
from taskmachine.protocol.dialects.mcp_2026_07_28.receiver import RECEIVER as RECEIVER_2026
from taskmachine.protocol.dialects.receiver import ReceiverDialect
from taskmachine.protocol.jsonrpc import encode_message
from taskmachine.protocol.operations import Collect, Get, Operation
from taskmachine.statemachine import Task

__all__ = ["Generation", "wire_messages"]

_GENERATIONS: Final = (RECEIVER_2025, RECEIVER_2026)


@attrs.frozen
class Generation:
    """A revision's status of a task, and its response for each method."""

    revision: str
    status: str
    answers: Sequence[tuple[str, str]]


def wire_messages(task: Task, tools: Tools, now: int) -> list[Generation]:
    """Return the responses to `tasks/get`, and to `tasks/result` in the revision that has it."""
    return [_generation(dialect, task, tools, now) for dialect in _GENERATIONS]


def _generation(dialect: ReceiverDialect, task: Task, tools: Tools, now: int) -> Generation:
    asked: dict[str, Operation] = {"tasks/get": Get(task.id)}
    if task.is_terminal and "tasks/result" in dialect.messages.methods:
        asked["tasks/result"] = Collect(task.id)
    signature = dialect.signature(describe_server(tools, listing=True))
    answers = []
    for id, (method, operation) in enumerate(asked.items(), 1):
        response = dialect.messages.encode_response(
            id, dialect.reply(operation, task, (), now), signature
        )
        answers.append((method, pretty(encode_message(response))))
    return Generation(dialect.messages.revision, dialect.messages.status(task), answers)
